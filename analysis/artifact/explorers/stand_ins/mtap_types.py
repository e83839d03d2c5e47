"""Stands for `evidence` and `rubric` of `analysis.artifact.mtap` in the page: the names that the arithmetic of scores needs."""

DIMENSIONS = ("D1", "D2", "D3", "D4", "D5")
GRADES = "FLMH"
