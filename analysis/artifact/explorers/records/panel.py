"""Every tool on every source of measured rows; in the page, this file is replaced by what it returns here (see `bundle`)."""

from __future__ import annotations

from functools import cache
from typing import Any

LEAST_ANSWERED = 50.0
"""Percent of a source's rows that a tool must answer to stand in the panel."""


@cache
def rows() -> list[list[Any]]:
    """Question, source, its rows (count), and tools from the nearest on with their median error (%); a star: times one constant."""
    from analysis.artifact.publishing.words import in_words
    from analysis.paths import RESULTS
    from analysis.studies.suite import tools
    from analysis.tables import read_csv

    written = RESULTS / "who_is_right" / "scores.csv"
    found = read_csv(written) if written.exists() else tools.table()
    found = found[found["answered_percent"] >= LEAST_ANSWERED].sort_values("median_percent", kind="stable")
    named = found["tool"] + found["setting"].map({"as it is": ""}).fillna(" *")
    panel = []
    for (question, source), part in found.assign(named=named).groupby(["question", "source"], sort=True):
        errors = [[str(tool), float(f"{error:.4g}")] for tool, error in part[["named", "median_percent"]].to_numpy().tolist()]
        panel.append([str(question), in_words(str(source)), int(part["rows"].max()), errors])
    return panel
