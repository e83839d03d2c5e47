"""Stands for `analysis.mtap.evidence` and `analysis.mtap.rubric` in the page: the names that the arithmetic of scores needs."""

DIMENSIONS = ("D1", "D2", "D3", "D4", "D5")
GRADES = "FLMH"
