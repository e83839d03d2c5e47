"""What follows from the survey's own numbers: scores, rank correlation, hit rates, and its tables of runs?"""

from __future__ import annotations

import math

from analysis.artifact.claims.arithmetic import cell, printed_table
from analysis.studies.checkable import SmallCount, checkable
from analysis.studies.statistics import PermutationTest, exact_permutation_test, fisher_exact, spearman

TABLE5 = "claims/printed/survey_table5"
SCHEMES = "claims/printed/survey_schemes"
GRADES = ["d1", "d2", "d3", "d4", "d5"]


@checkable
def score(tool: str, scheme: str, changes: dict[str, int] | None = None) -> float:
    """Composite score S = sum_i w_i d_i from the printed grades and weights.

    Args:
        scheme: base, uniform or deployment.
        changes: grades to replace first, such as {"d2": 2}.
    """
    grades = [(changes or {}).get(name, int(cell(TABLE5, {"tool": tool}, name))) for name in GRADES]
    weights = [float(cell(SCHEMES, {"scheme": scheme}, f"w{i}")) for i in range(1, 6)]
    return round(math.fsum(w * d for w, d in zip(weights, grades, strict=True)), 12)


@checkable
def scores(tools: list[str], scheme: str) -> list[float]:
    """Composite scores of several tools under one scheme."""
    return [score(tool, scheme) for tool in tools]


@checkable
def ranking(scheme: str) -> str:
    """Tools from best to worst under one scheme, ties joined by `=`."""
    tools = list(printed_table(TABLE5)["tool"])
    by_score: dict[float, list[str]] = {}
    for tool in tools:
        by_score.setdefault(score(tool, scheme), []).append(tool)
    return " > ".join(" = ".join(sorted(by_score[value])) for value in sorted(by_score, reverse=True))


@checkable
def sum_of_weights(scheme: str) -> float:
    """Sum of the five weights of a scheme."""
    return round(math.fsum(float(cell(SCHEMES, {"scheme": scheme}, f"w{i}")) for i in range(1, 6)), 12)


@checkable
def weight_pct(scheme: str, dimension: int) -> float:
    """Weight of a dimension in percent."""
    return 100.0 * float(cell(SCHEMES, {"scheme": scheme}, f"w{dimension}"))


def _accuracy_test(scheme: str, leave_out: list[str] | None) -> PermutationTest:
    rows = printed_table(TABLE5)
    rows = rows[~rows["tool"].isin(leave_out or [])]
    return exact_permutation_test([float(value) for value in rows["error_rank"]], [score(tool, scheme) for tool in rows["tool"]])


@checkable
def accuracy_against_score_p(scheme: str = "base", leave_out: list[str] | None = None) -> float:
    """Exact two-sided p of the Spearman correlation between reported error, smallest first, and composite score (average ranks)."""
    return _accuracy_test(scheme, leave_out).p_value


@checkable
def accuracy_with_p(scheme: str = "base") -> list[float]:
    """[size of the Spearman correlation, exact two-sided p] of reported error and composite score."""
    test = _accuracy_test(scheme, None)
    return [abs(test.value), test.p_value]


@checkable
def accuracy_against_minutes_p() -> float:
    """Exact two-sided p of the Spearman correlation between reported error, smallest first, and the printed minutes to a prediction."""
    rows = printed_table(TABLE5).merge(printed_table("claims/printed/survey_table6"), on="tool")
    return exact_permutation_test(rows["error_rank"], rows["minutes"]).p_value


@checkable
def rank_correlation(table: str, column: str, other: str) -> float:
    """Spearman correlation (average ranks) of two columns, over the rows that have both."""
    rows = printed_table(table)[[column, other]].dropna()
    return spearman(rows[column], rows[other])


@checkable
def smallest_fisher_p(counts: list[list[SmallCount]]) -> float:
    """Smallest two-sided p that Fisher's exact test can give with the margins of a 2x2 table (rows: groups; columns: success, failure)."""
    return fisher_exact(counts).smallest_p


@checkable
def output_tokens(scheduler: str) -> float:
    """Output tokens a request implied by Table 7: (end-to-end - first token) / time per token."""
    table = "claims/printed/survey_table7"
    where = {"scheduler": scheduler}
    total, first, step = (float(cell(table, where, column)) for column in ("e2e_mean_s", "ttft_mean_s", "tpot_mean_s"))
    return (total - first) / step


@checkable
def sarathi_at_equal_length() -> float:
    """Sarathi's mean end-to-end latency if its requests were as long as vLLM's (seconds)."""
    table, where = "claims/printed/survey_table7", {"scheduler": "sarathi"}
    return float(cell(table, where, "ttft_mean_s")) + output_tokens("vllm") * float(cell(table, where, "tpot_mean_s"))


@checkable
def requests_in_system(scheduler: str, qps: float = 2.0) -> float:
    """Mean number of requests in the system by Little's law: arrival rate * mean time in the system."""
    return qps * float(cell("claims/printed/survey_table7", {"scheduler": scheduler}, "e2e_mean_s"))


@checkable
def collective_ratio(collective: str) -> float:
    """Cycles of a collective over those of all-reduce, Table 8."""
    table = "claims/printed/survey_table8_collectives"
    return float(cell(table, {"collective": collective}, "cycles")) / float(cell(table, {"collective": "all_reduce"}, "cycles"))


@checkable
def smallest_mean_error(hit_rate: float, band: float) -> float:
    """Least mean error that fits a hit rate: a share 1 - h is off by more than the band, so the mean is above (1 - h) * band.

    Args:
        band: half width of the band (%).
    """
    return (1.0 - hit_rate) * band


@checkable
def largest_mean_error(hit_rate: float, band: float, miss_error: float) -> float:
    """Largest mean error that fits a hit rate when no prediction is off by more than `miss_error`: h * band + (1 - h) * miss_error."""
    return hit_rate * band + (1.0 - hit_rate) * miss_error


@checkable
def amplification(kernel: list[float], system: list[float]) -> list[float]:
    """[smallest, largest] factor between an error range at kernel level and one at system level."""
    return [system[0] / kernel[1], system[1] / kernel[0]]
