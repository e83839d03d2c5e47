"""Does the value got agree with the value printed, by how much not, and what stands behind it: something of ours, or documents alone?"""

from __future__ import annotations

import math
from typing import Any

from analysis.artifact.claims.check_files import Check, Comparison, Source

RECOMPUTED, CONSISTENT = "recomputed", "consistent"

# Results tables whose values a model, a measurement, a recorded run or an open data set gives. Every other table restates, counts or grades
# what was typed from the documents or looked up, so that agreement with it only says that two transcriptions fit.
OWN_TABLES = {
    "astra_sim_experiment/attempts_16_32": "recorded runs of ASTRA-sim",
    "astra_sim_experiment/collectives": "our model of ASTRA-sim, equal to the tool to the cycle",
    "astra_sim_experiment/configurations": "lines of the tool's own files, counted by script",
    "astra_sim_experiment/resnet": "our model of ASTRA-sim, equal to the tool to the cycle",
    "cores_programs/collector_rates": "our core model on our traces",
    "cores_ranking/pairs": "our network on our traces",
    "mtap_deployment/deployment": "our installations, timed",
    "mtap_deployment/seed_spread": "our serving simulator",
    "serving_table7/as_printed": "recorded runs of VIDUR",
    "serving_table7/paired": "our serving simulator",
}
OWN_DATA = ("recorded/", "measured/", "claims/observed/speeds")

# Where a value that does not agree is nobody's measurement: a grade of ours, or what another draft of the same project prints.
JUDGED = ("mtap_scores/reasons", "mtap_sensitivity/agreement", "claims/printed/reproducibility_scores", "claims/printed/survey_table5")


def basis_of(source: Source) -> str:
    """*recomputed* when a model, a measurement or data of ours gives the value; *consistent* when it follows from typed numbers alone.

    A function is arithmetic on constants or on transcribed tables unless the table that it reads was recorded or measured.
    """
    if source.table is not None:
        return RECOMPUTED if source.table in OWN_TABLES else CONSISTENT
    return RECOMPUTED if str(source.args.get("table", "")).startswith(OWN_DATA) else CONSISTENT


MISMATCH = ("differs", "disputed", "wrong arithmetic", "not reproducible")


def judged(source: Source) -> bool:
    """Whether a value is our own grade or another draft's: a mismatch with it is *disputed*, never *differs*."""
    return (source.table or str(source.args.get("table", ""))) in JUDGED


def _numeric(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _allowed(reference: float, tolerance: float | None, relative: float | None) -> float:
    return max(tolerance or 0.0, (relative or 0.0) * abs(reference), 1e-12 * max(1.0, abs(reference)))


EXPECTED_DIGITS = 1e-6  # `expect` is written to about eight digits


def as_expected(got: Any, check: Comparison) -> bool:
    """Whether `got` is the value that the check file expects, within the check's tolerance (at least one part in a million)."""
    return agrees(got, check.expect, check.model_copy(update={"relative": max(check.relative or 0.0, EXPECTED_DIGITS)}))


def agrees(got: Any, reference: Any, check: Comparison, relation: str = "equal") -> bool:
    """Whether `got` stands in `relation` to `reference`, within max(tolerance, relative * abs(reference)).

    Lists agree when they have one length and agree item by item; texts when they are equal. `within` holds from the first to the second
    end of `reference`, for `got` and for each item of it.
    """
    if relation == "within":
        if isinstance(got, list):
            return all(agrees(one, reference, check, relation) for one in got)
        return agrees(got, reference[0], check, "at least") and agrees(got, reference[1], check, "at most")
    if isinstance(reference, list) or isinstance(got, list):
        if not (isinstance(reference, list) and isinstance(got, list)) or len(got) != len(reference):
            return False
        return all(agrees(one, other, check, relation) for one, other in zip(got, reference, strict=True))
    if not (_numeric(got) and _numeric(reference)):
        return str(got) == str(reference)
    if math.isnan(got):
        return False
    slack = _allowed(reference, check.tolerance, check.relative)
    if relation == "at most":
        return got <= reference + slack
    if relation == "at least":
        return got >= reference - slack
    if relation == "less than":
        return got < reference
    if relation == "more than":
        return got > reference
    return abs(got - reference) <= slack


def holds(got: Any, check: Comparison) -> bool:
    """Whether the value got stands to the printed one (or to the criterion) as the check asks."""
    return agrees(got, check.reference, check, check.relation)


def verdict_of(got: Any, check: Check) -> str:
    """The verdict that follows from the value got.

    Where the claim holds: *cited (verified)* if that is expected, else what stands behind the value got, *recomputed* or *consistent*; a
    check may say *consistent* of a value of ours (a setting that was copied, a ratio that is one by definition), never the reverse.
    Where it does not hold: *disputed* where the value is a judgement, else the expected kind of mismatch, *differs* if none was expected.
    """
    if not holds(got, check):
        if check.check is not None and judged(check.check):
            return "disputed"
        if check.verdict == "disputed":
            return "differs"
        return check.verdict if check.verdict in MISMATCH else "differs"
    if check.verdict in ("cited (verified)", CONSISTENT) or check.check is None:
        return check.verdict
    return basis_of(check.check)


def difference(got: Any, printed: Any) -> str:
    """By how much the value got differs from the printed one, in words: absolute and in percent of the printed one."""
    if not (_numeric(got) and _numeric(printed)):
        return ""
    gap = got - printed
    if abs(gap) <= 1e-12 * max(1.0, abs(printed)):
        return "0"
    return f"{gap:+.4g}" if printed == 0 else f"{gap:+.4g} ({100 * gap / printed:+.1f} %)"
