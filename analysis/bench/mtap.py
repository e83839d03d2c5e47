"""Speed of the MTAP scorer: one tool from file to grades, and the exact cut of the weight simplex."""

from __future__ import annotations

import numpy as np

from analysis.bench.report import Benchmark, cpu_s
from analysis.paths import DATA

MTAP = DATA / "mtap"


def _score_a_file() -> float:
    from analysis.configs import read_yaml
    from analysis.mtap.evidence import Evidence, evidence_files
    from analysis.mtap.grading import grade_tool
    from analysis.mtap.rubric import Rubric

    rubric, files = read_yaml(MTAP / "rubric.yaml", Rubric), evidence_files(MTAP / "evidence")
    return cpu_s(lambda: [grade_tool(read_yaml(path, Evidence), rubric) for path in files]) / len(files)


def _cut_the_simplex() -> float:
    from analysis.mtap.simplex import order_shares

    # six tools with grades drawn at random: up to 15 planes through the simplex
    drawn = np.random.default_rng(0).integers(0, 4, size=(6, 5))
    grades = {f"tool {i}": [int(g) for g in row] for i, row in enumerate(drawn)}
    return cpu_s(lambda: order_shares(grades))


def benchmarks() -> list[Benchmark]:
    """Speed figures of MTAP."""
    return [
        Benchmark("mtap: one evidence file to grades", _score_a_file, "CPU-s", 0.1, "max", "five files, mean of each"),
        Benchmark("mtap: exact order shares of six tools", _cut_the_simplex, "CPU-s", 5.0, "max", "all weightings, in fractions"),
    ]
