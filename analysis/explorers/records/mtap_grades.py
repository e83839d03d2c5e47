"""Grades of five tools by three readings, and the weight schemes of the survey draft; in the page, what is returned here (see `bundle`)."""

from __future__ import annotations

from functools import cache

from analysis.paths import DATA


@cache
def grades() -> dict[str, dict[str, list[int]]]:
    """Grades 0..3 of D1..D5 by scoring (as printed, by the rubric on the draft's words, by the rubric on the evidence) and tool."""
    from analysis.mtap.rubric import read_rubric
    from analysis.mtap.scoring import read_printed
    from analysis.mtap.tables import assess_all, read_folder

    folder = DATA / "mtap"
    rubric = read_rubric(folder / "rubric.yaml")
    printed = {tool: list(one.vector) for tool, one in read_printed(folder / "printed.yaml").tools.items()}
    found = {"printed": printed}
    for name in ("stated", "evidence"):
        assessed = assess_all(read_folder(folder / name), rubric)
        found[name] = {tool: list(assessed[tool].vector) for tool in printed}
    return found


@cache
def schemes() -> dict[str, list[int]]:
    """Weights of D1..D5 by scheme (hundredths)."""
    from analysis.mtap.evidence import DIMENSIONS
    from analysis.mtap.rubric import read_weights

    weights = read_weights(DATA / "mtap" / "weights.yaml")
    return {name: [round(100 * scheme[d]) for d in DIMENSIONS] for name, scheme in weights.schemes.items()}


@cache
def dimensions() -> list[str]:
    """Names of D1..D5."""
    from analysis.mtap.evidence import DIMENSIONS
    from analysis.mtap.rubric import read_rubric

    rubric = read_rubric(DATA / "mtap" / "rubric.yaml")
    return [rubric.dimensions[d].name for d in DIMENSIONS]
