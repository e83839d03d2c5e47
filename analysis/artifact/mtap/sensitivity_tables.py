"""How much scores and orders hang on weights, wording and five tools, as tables."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.artifact.mtap import scoring
from analysis.artifact.mtap.rubric import Weights
from analysis.artifact.mtap.tables import Scored
from analysis.studies import intervals, statistics


def association_verdict(p_value: float, low: float, high: float) -> str:
    """What a correlation of a few tools shows: the exact test decides, since percentiles of five values make too narrow an interval."""
    if p_value <= 0.05:
        return "told from none"
    return "not told from none" + (": the exact p decides, the interval is too narrow for so few tools" if low > 0 or high < 0 else "")


@cache
def _of_pairs(pairs: tuple[tuple[float, float], ...]) -> float:
    return statistics.spearman(*zip(*pairs, strict=True))


def _spearman(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Spearman's correlation; the same pairs in another order are not worked out again (five tools: 126 resamples in 3,125 orders)."""
    return _of_pairs(tuple(sorted(zip(x.tolist(), y.tolist(), strict=True))))


def association_table(printed: scoring.Printed, scored: list[Scored], weights: Weights) -> pd.DataFrame:
    """Rank correlation of reported error with score, for every scoring and scheme, with exact p; all five and without nn-Meter."""
    rows = []
    for one in scored:
        for scheme in weights.schemes:
            for left_out in ("none", "nn-Meter"):
                tools = [t for t in printed.tools if t != left_out]
                error = [-printed.tools[t].reported_error["rank"] for t in tools]  # higher: more accurate
                score = [float(one.scores(weights.exact(scheme))[t]) for t in tools]
                row: dict[str, object] = {"scoring": one.name, "scheme": scheme, "left_out": left_out, "n": len(tools)}
                for name in ("spearman", "kendall"):
                    test = statistics.exact_permutation_test(error, score, name)  # type: ignore[arg-type]
                    row |= {name: test.value, f"{name}_p": test.p_value, f"{name}_smallest_p": test.smallest_p}
                interval = intervals.exact_bootstrap(_spearman, error, score)
                row |= {"spearman_low": interval.low, "spearman_high": interval.high, "undefined_resamples": interval.undefined}
                row["verdict"] = association_verdict(float(str(row["spearman_p"])), interval.low, interval.high)
                rows.append(row)
    return pd.DataFrame(rows)


FISHER_QUESTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "any output": (
        ("VIDUR", "ASTRA-sim", "Timeloop"),
        ("VIDUR", "ASTRA-sim", "Timeloop", "NeuSight"),
        "three Docker tools as in section 7.3",
    ),
    "out of the box": (("VIDUR", "ASTRA-sim"), ("VIDUR", "ASTRA-sim"), "two Docker tools as in section 7.4"),
    "any output, Dockerfile found": (
        ("ASTRA-sim", "Timeloop"),
        ("VIDUR", "ASTRA-sim", "Timeloop", "NeuSight"),
        "by the evidence: VIDUR has none",
    ),
}


def fisher_table(tools: tuple[str, ...]) -> pd.DataFrame:
    """Docker against success, with Fisher's exact p and the smallest p that so few tools can give."""
    rows = []
    for question, (docker, success, says) in FISHER_QUESTIONS.items():
        inside = [sum(t in docker and (t in success) == good for t in tools) for good in (True, False)]
        outside = [sum(t not in docker and (t in success) == good for t in tools) for good in (True, False)]
        test = statistics.fisher_exact([inside, outside])
        rows.append(
            {
                "question": question,
                "docker_yes": inside[0],
                "docker_no": inside[1],
                "other_yes": outside[0],
                "other_no": outside[1],
                "p": test.p_value,
                "smallest_p": test.smallest_p,
                "says": says,
            }
        )
    return pd.DataFrame(rows)
