"""Stands for the types that `analysis.serving.step_time.roofline` names and the explorers do not use."""

from typing import Any

Floats = Any
StepTime = Any
tabulate = None
