"""How much does a predicted step move with each fitted share, and with each rate of the hardware?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.training.answers import fitted
from analysis.training.cases import Case
from analysis.training.step import NAMES, SHARES, Plans, step
from analysis.training.work import PART_NAMES, Parts, parts

RATES = {
    "arithmetic": tuple(name for name in PART_NAMES if name.startswith(("gemm", "grouped", "attention"))) + ("head",),
    "memory bandwidth": ("stream", "stream_back", "expert_stream", "head_stream", "update"),
    "links and network": (
        "tensor",
        "tensor_back",
        "expert",
        "expert_back",
        "context",
        "send",
        "gather",
        "gather_back",
        "ends",
        "reduce",
        "collect",
    ),
    "host": ("layers", "routed", "local_experts"),
}
"""Rate of the hardware -> parts of the work whose time goes with one over it; the latency of messages goes with the links."""


def _faster(work: Parts, what: str, factor: float) -> Parts:
    return replace(work, **{name: getattr(work, name) / factor for name in RATES[what]})


def tornado(item: Case) -> pd.DataFrame:
    """Step of a run with each fitted share at one prior standard deviation below and above its value, the others as they are.

    Returns:
        what, meaning; low, high: the share relative to its value (1); low_s, high_s, base_s: step (s); swing_s = |high_s - low_s|, largest
        first; shares that do not move the step are left out.
    """
    work, plans, shares = parts([item]), Plans.of([item]), fitted().shares
    base, rows = float(step(work, plans, shares)["total"][0]), []
    for index, name in enumerate(NAMES):
        ends = []
        for factor in np.exp([-SHARES[name].spread, SHARES[name].spread]):
            moved = shares.copy()
            moved[index] *= factor
            ends += [float(factor), float(step(work, plans, moved)["total"][0])]
        low, low_s, high, high_s = ends
        rows.append({"what": name, "meaning": SHARES[name].meaning, "low": low, "high": high, "low_s": low_s, "high_s": high_s})
    frame = pd.DataFrame(rows).assign(base_s=base)
    frame["swing_s"] = (frame["high_s"] - frame["low_s"]).abs()
    return frame[frame["swing_s"] > 0].sort_values("swing_s", ascending=False, kind="stable", ignore_index=True)


def elasticities(item: Case, width: float = 1e-3) -> pd.DataFrame:
    """How many percent a step gets longer when a rate of the hardware grows by one percent: the gradient of the predictor.

    elasticity = d ln T / d ln rate, by central differences. A time is homogeneous of degree one in all times: they sum
    to -1, but for what lies between two steps.

    Args:
        item: the run; width: relative width of the difference (1).
    Returns:
        what; elasticity (1); doubled: step time with twice the rate over today's (1); base_s (s); most valuable first.
    """
    work, plans, shares = parts([item]), Plans.of([item]), fitted().shares

    def total_s(what: str, factor: float) -> float:
        return float(step(_faster(work, what, factor), plans, shares)["total"][0])

    rows = []
    for what in RATES:
        change = np.log(total_s(what, 1 + width) / total_s(what, 1 - width)) / np.log((1 + width) / (1 - width))
        base = total_s(what, 1.0)
        rows.append({"what": what, "elasticity": float(change), "doubled": total_s(what, 2.0) / base, "base_s": base})
    return pd.DataFrame(rows).sort_values("doubled", kind="stable", ignore_index=True)
