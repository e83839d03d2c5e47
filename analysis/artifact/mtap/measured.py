"""What do measurements by others say of a tool's predictions? Error and rank order from the rows, in the place of what authors report.

A tool is here when its predictions were recorded beside measurements by others and the comparison is not its authors' own: Calculon's
published validation is not. Whoever changes a measurement changes the evidence, and with it the grade.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.artifact.mtap.evidence import Evidence, unknown_again
from analysis.paths import DATA
from analysis.studies.statistics import spearman
from analysis.tables import read_csv

FILES: dict[str, str] = {
    "AIConfigurator": "data/recorded/aiconfigurator/predictions.csv.gz",
    "GenZ": "data/recorded/aiconfigurator/genz_predictions.csv",
    "MLSys-im": "data/recorded/aiconfigurator/mlsysim_0.3.0.csv",
    "this project": "data/frozen/predictor_serving/points.csv",
    "llm-analysis": "data/mtap/llm_analysis_megatron.csv",
    "ASTRA-sim": "data/recorded/astra-sim/astra_hgx8_vs_nccl_h200.csv",
    "Kavier": "data/recorded/kavier/batch_one.csv",
    **dict.fromkeys(("ZigZag", "SCALE-Sim v3", "AccelForge"), "data/recorded/tpu_v6e/products.csv"),
}
"""Where each tool's recorded predictions are."""
SIZES: dict[str, str] = {
    **dict.fromkeys(FILES, "batch_size"),
    "llm-analysis": "gpus",
    "ASTRA-sim": "size_bytes",
    "Kavier": "input_output_tokens",
    **dict.fromkeys(("ZigZag", "SCALE-Sim v3", "AccelForge"), "flop"),
}
"""What grows from case to case, for the error by size: a column of the rows."""

OWN = "this project"
"""Compared by its own authors: its error on the others' rows counts."""
NO_VALIDATION = (OWN, "ASTRA-sim")
"""Their rows are no independent validation: ours are compared by ourselves, ASTRA-sim's are of a neighbour of the GPU that it describes."""
COMPOSED = ("AIConfigurator", "GenZ", "MLSys-im", "llm-analysis", "Kavier")
"""Their rows are of wholes that the tool adds up from parts: how far the measured whole is from the sum is the composition gap."""
WHOLES = "data/mtap/wholes.csv"
"""Measured wholes beside a tool's sum of their parts, for tools whose rows above are parts, or that nobody else has measured."""


@dataclass(frozen=True)
class Measured:
    """One tool against measurements.

    Attributes:
        error_percent: mean absolute percentage error (%). median_percent, max_percent: median and largest (%).
        spearman: rank correlation (1).
        gamma: mean of |measured whole / predicted sum - 1|, the composition gap with the parts' own errors in it (1).
        cases: how many (count).
        source: file of the predictions.
    """

    error_percent: float
    median_percent: float
    max_percent: float
    spearman: float
    gamma: float
    cases: int
    source: str


def pairs(tool: str, root: Path = DATA) -> pd.DataFrame:
    """Measured and predicted values of one tool, only rows without a known fault.

    Serving tools: time per output token of aggregated serving points, DeepSeek apart (its measurements contradict each other), with the
    corrected width where the sample's is wrong; ours with the GPU's architecture left out of every fit. Training tools: Megatron's
    steps. ASTRA-sim: all-reduce on eight H200. Kavier: one sequence at a time on an A100 or H100. Tools of
    spatial arrays: products on a TPU v6e.

    Returns:
        Columns `measured`, `predicted` and `size`, one row a case; the size is `SIZES`' for the tool.
    """
    path = root / FILES[tool].removeprefix("data/")
    if tool in ("llm-analysis", "ASTRA-sim", "Kavier") or FILES[tool].endswith("products.csv"):
        frame = read_csv(path)
        if FILES[tool].endswith("products.csv"):
            frame = frame[frame["tool"] == tool].assign(flop=lambda t: 2.0 * t["m"] * t["k"] * t["n"])
        names = ("nccl_us", "astra_us") if tool == "ASTRA-sim" else ("measured_s", "predicted_s")
        return frame[[*names, SIZES[tool]]].set_axis(["measured", "predicted", "size"], axis=1).reset_index(drop=True)
    points = read_csv(root / "measured_suite" / "serving_points.csv.gz").drop_duplicates("id")
    flags = read_csv(root / "recorded" / "aiconfigurator" / "row_flags.csv.gz").drop_duplicates("id")
    good = points.merge(flags, on="id")
    good = good[(good["clean_no_deepseek"] == 1) & (good["mode"] == "agg")]
    answers = read_csv(path)
    if tool == OWN:
        answers = answers[answers["split"] == "architecture"].assign(status="ok")
    answers = answers[answers["status"] == "ok"]
    if tool == "AIConfigurator":
        answers = answers[answers["database_mode"] == "SILICON"].sort_values("widths").drop_duplicates("id", keep="last")
        wrong = set(flags.loc[flags["width_squared"] == 1, "id"])
        answers = answers[(answers["widths"] == "corrected") | ~answers["id"].isin(wrong)]
        # "as shipped" sorts before "corrected": the corrected answer is kept where there is one
    answers = answers.rename(columns={"tpot_ms": "tpot"})
    both = good[["id", "silicon_tpot_ms", "batch_size"]].merge(answers[["id", "tpot"]], on="id").sort_values("id")
    return both[["silicon_tpot_ms", "tpot", "batch_size"]].set_axis(["measured", "predicted", "size"], axis=1).reset_index(drop=True)


def measure(rows: pd.DataFrame, source: str = "") -> Measured:
    """Error and rank order of predictions."""
    error = 100 * np.abs(rows["predicted"].to_numpy(float) / rows["measured"].to_numpy(float) - 1)
    return Measured(
        error_percent=float(error.mean()),
        median_percent=float(np.median(error)),
        max_percent=float(error.max()),
        spearman=float(spearman(rows["measured"].to_numpy(float), rows["predicted"].to_numpy(float))),
        gamma=float(np.mean(np.abs(rows["measured"].to_numpy(float) / rows["predicted"].to_numpy(float) - 1))),
        cases=len(rows),
        source=source,
    )


def measure_all(root: Path = DATA) -> dict[str, Measured]:
    """Every tool of `FILES` against its measurements."""
    return {tool: measure(pairs(tool, root), source) for tool, source in FILES.items()}


def measured_wholes(root: Path = DATA) -> dict[str, Measured]:
    """Every tool of `WHOLES`: its sums against the measured wholes."""
    rows = read_csv(root / WHOLES.removeprefix("data/"), required=["tool", "measured", "predicted"])
    return {str(tool): measure(part, WHOLES) for tool, part in rows.groupby("tool")}


def _with_gap(evidence: Evidence, found: Measured) -> Evidence:
    """The evidence with the gap that its file asks for and leaves open."""
    asked = ("gamma_model_to_system", "gamma_kernel_to_model")
    name = next((gap for gap in asked if getattr(evidence.D2, gap) is not None), asked[0])
    known = getattr(evidence.D2, name)
    if known is not None and known.value is not None:
        return evidence
    said = {"kind": "measured", "source": found.source, "note": f"{found.cases} cases"}
    document = evidence.model_dump(exclude_none=True)
    parts = {**document["D2"], name: {"value": round(found.gamma, 3), **said}, "validated": {"value": True, **said}}
    return Evidence.model_validate(unknown_again({**document, "D2": parts}))


def with_measured(evidence: Evidence, measured: Mapping[str, Measured], wholes: Mapping[str, Measured] | None = None) -> Evidence:
    """The evidence with what measurements say: error, rank order, largest error, that somebody other than the authors compared, the gap.

    Args:
        measured, wholes: by tool; a tool that is not there keeps its evidence.
    """
    found = measured.get(evidence.tool)
    gap = (wholes or {}).get(evidence.tool, found if evidence.tool in COMPOSED else None)
    evidence = evidence if gap is None else _with_gap(evidence, gap)
    if found is None:
        return evidence
    note = f"{found.cases} cases"
    values = {
        "independent_error_percent": round(found.error_percent, 2),
        "independent_validation": True,
        "spearman": round(found.spearman, 3),
        "max_error_percent": round(found.max_percent, 1),
    }
    if evidence.tool in NO_VALIDATION:
        del values["independent_validation"]
    items = {name: {"value": value, "kind": "measured", "source": found.source, "note": note} for name, value in values.items()}
    if evidence.D1.error_metric is None or evidence.D1.error_metric.value not in ("mape", "geomean", "bound"):
        items["error_metric"] = {"value": "mape", "kind": "measured", "source": found.source, "note": note}
    document = evidence.model_dump(exclude_none=True)
    return Evidence.model_validate(unknown_again({**document, "D1": {**document["D1"], **items}}))
