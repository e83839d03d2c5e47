"""Step times of the scheduler player, by the roofline of its model and device; in the page, what is returned here (see `bundle`)."""

from __future__ import annotations

from functools import cache

from analysis.hardware import devices
from analysis.serving.step_time.roofline import Roofline, roofline
from analysis.workloads import models

MODEL, DEVICE = "llama-3-8b", "H100-SXM5-80GB"


@cache
def parts() -> dict[str, list[float]]:
    """Coefficients of `serving.steps.StepTime` by name; `token_s` as its table, which goes on at its last slope."""
    setting = Roofline(models.load(MODEL), devices.load(DEVICE), dtype="bf16", compute_share=0.7, memory_share=0.7, fixed_s=0.0005)
    made = roofline(setting, most_tokens=384)  # beyond its ridge, time is linear in tokens
    return {"token_s": made.token_s.tolist(), "fixed_s": [made.fixed_s], "pair_s": [made.pair_s], "kv_s": [made.kv_s]}
