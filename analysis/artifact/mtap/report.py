"""One tool's assessment in plain text, and as a table."""

from __future__ import annotations

import pandas as pd

from analysis.artifact.mtap.evidence import Evidence, items
from analysis.artifact.mtap.grading import Assessment
from analysis.artifact.mtap.rubric import GRADES, Rubric, Weights
from analysis.artifact.mtap.scoring import composite


def score_range(assessment: Assessment, weights: Weights, scheme: str) -> tuple[float, float, float]:
    """Score of a scheme, and the least and the greatest within the ranges of the evidence and what nobody knows."""
    exact = weights.exact(scheme)
    low, high = [g.low for g in assessment.grades], [g.high for g in assessment.grades]
    return float(composite(assessment.vector, exact)), float(composite(low, exact)), float(composite(high, exact))


def report_text(evidence: Evidence, assessment: Assessment, rubric: Rubric, weights: Weights) -> str:
    """The assessment as lines of text: grades with reasons, scores, failures, and what the file leaves open."""
    lines = [f"{evidence.tool} {evidence.version} ({evidence.domain}), evaluated {evidence.evaluated}", ""]
    for g in assessment.grades:
        width = "" if g.low == g.high else f"  [{GRADES[g.low]} to {GRADES[g.high]}]"
        lines.append(f"{g.dimension} {rubric.dimensions[g.dimension].name:<26} {g.letter} ({float(g.points):g}){width}")
        lines += [f"     {reason}" for reason in g.reasons]
    lines.append("")
    for scheme in weights.schemes:
        score, low, high = score_range(assessment, weights, scheme)
        lines.append(f"S({scheme}) = {score:.2f}" + ("" if low == high else f"  [{low:.2f} to {high:.2f}]"))
    for failure in evidence.failures:
        lines.append(
            f"{failure.failure} {rubric.failures[failure.failure].name}{' (resolved)' if failure.resolved else ''}: {failure.what}"
        )
    open_items = [f"{d}.{name}" for d, name, item in items(evidence) if (item is None or item.value is None) and "." not in name]
    if open_items:
        lines += ["", f"not known or not given ({len(open_items)}): {', '.join(open_items)}"]
    return "\n".join(lines)


def report_table(assessment: Assessment, weights: Weights) -> pd.DataFrame:
    """The assessment as a table: one row a dimension, then one a scheme."""
    rows: list[dict[str, object]] = [
        {
            "tool": assessment.tool,
            "what": g.dimension,
            "value": float(g.points),
            "low": g.low,
            "high": g.high,
            "reason": "; ".join(g.reasons),
            "unknown": ", ".join(g.unknown),
        }
        for g in assessment.grades
    ]
    for scheme in weights.schemes:
        score, low, high = score_range(assessment, weights, scheme)
        rows.append({"tool": assessment.tool, "what": f"S {scheme}", "value": score, "low": low, "high": high, "reason": "", "unknown": ""})
    return pd.DataFrame(rows)
