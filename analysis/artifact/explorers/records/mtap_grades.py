"""Grades of five tools by three readings, and the weight schemes of the survey draft; in the page, what is returned here (see `bundle`)."""

from __future__ import annotations

from functools import cache

from analysis.paths import DATA


@cache
def grades() -> dict[str, dict[str, list[int]]]:
    """Half points 0..6 of D1..D5 by scoring (as printed, by the rubric on the draft's words, by the rubric on the evidence) and tool."""
    from analysis.artifact.mtap.rubric import Rubric
    from analysis.artifact.mtap.scoring import Printed
    from analysis.artifact.mtap.tables import all_tools, assess_all, read_folder, rubric_of
    from analysis.configs import read_yaml

    folder = DATA / "mtap"
    stated = assess_all(read_folder(folder / "stated"), read_yaml(folder / "rubric.yaml", Rubric))
    known = assess_all(all_tools()["evidence"], rubric_of())
    printed = read_yaml(folder / "printed.yaml", Printed).tools
    return {
        "printed": {tool: [int(2 * points) for points in one.vector] for tool, one in printed.items()},
        "stated": {tool: [int(2 * points) for points in stated[tool].shown] for tool in printed},
        "evidence": {tool: [int(2 * points) for points in known[tool].vector] for tool in printed},
    }


@cache
def schemes() -> dict[str, list[int]]:
    """Weights of D1..D5 by scheme (hundredths)."""
    from analysis.artifact.mtap.evidence import DIMENSIONS
    from analysis.artifact.mtap.rubric import Weights
    from analysis.configs import read_yaml

    weights = read_yaml(DATA / "mtap" / "weights.yaml", Weights)
    return {name: [round(100 * scheme[d]) for d in DIMENSIONS] for name, scheme in weights.schemes.items()}


@cache
def dimensions() -> list[str]:
    """Names of D1..D5."""
    from analysis.artifact.mtap.evidence import DIMENSIONS
    from analysis.artifact.mtap.rubric import Rubric
    from analysis.configs import read_yaml

    rubric = read_yaml(DATA / "mtap" / "rubric.yaml", Rubric)
    return [rubric.dimensions[d].name for d in DIMENSIONS]
