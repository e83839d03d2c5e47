"""How much a predicted step moves when what it rests on is uncertain: the numbers behind a tornado chart."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.training.kernel_time import efficiencies_of
from analysis.training.plan import Training
from analysis.training.step import predict

FIT_SPREAD = 0.1
"""Relative spread given to each fitted efficiency: the largest error of the frozen fit on runs that it never saw is about this."""


SHARES = {"matrix peak": ("gemm", "attention"), "memory bandwidth": ("memory",), "launch time": ("kernel_s",)}
"""Numbers of a device that scale efficiencies: model_copy does not validate, and a share of the peak above one is a higher peak."""


def _step_s(training: Training, what: str | tuple[str, ...] = (), factor: float = 1.0) -> float:
    """The step with some efficiencies (a key of `SHARES`, or their names) or one level's bandwidth times a factor (s)."""
    system = training.machine()
    efficiencies = efficiencies_of(system.device, training.efficiencies)
    keys = SHARES.get(what, ()) if isinstance(what, str) else what
    efficiencies = efficiencies.model_copy(update={key: getattr(efficiencies, key) * factor for key in keys})
    levels = []
    for level in system.levels:
        rate = level.per_direction
        if what == f"{level.name} bandwidth":
            rate = rate.model_copy(update={key: getattr(rate, key) * factor for key in ("value", "low", "high")})
        levels.append(level.model_copy(update={"per_direction": rate}))
    system = system.model_copy(update={"levels": tuple(levels)})
    return predict(training.shape(), training.plan, training.software, system, efficiencies).time.total_s


def tornado(training: Training, spread: float = FIT_SPREAD) -> pd.DataFrame:
    """Step time with each uncertain number at its low and its high end, the others as they are.

    Data-sheet numbers move between the lowest and highest value that a source states (`data/hardware`), fitted efficiencies by `spread`
    either way, link bandwidths by their stated range or, where sources agree, by `spread`.

    Args:
        training: the run; spread: relative (1).
    Returns:
        what, why (sources or fit), low, high: the number relative to its value (1); low_s, high_s, base_s: step (s);
        swing_s = |high_s - low_s|, largest first.
    """
    system = training.machine()
    device = system.load_device()
    rows: list[dict[str, object]] = []

    def add(what: str, why: str, low: float, high: float, keys: tuple[str, ...] = ()) -> None:
        low_s, high_s = (_step_s(training, keys or what, factor) for factor in (low, high))
        rows.append({"what": what, "why": why, "low": low, "high": high, "low_s": low_s, "high_s": high_s})

    for what, quantity in (("matrix peak", device.peak[training.software.dtype]), ("memory bandwidth", device.memory_bandwidth)):
        low, high = quantity.low / quantity.value, quantity.high / quantity.value
        if low < high:
            add(what, "sources disagree", low, high)
    fitted = {"matrix efficiency": "gemm", "attention efficiency": "attention", "memory efficiency": "memory", "launch time": "kernel_s"}
    for what, key in fitted.items():
        add(what, f"fit, {spread:.0%} either way", 1 - spread, 1 + spread, (key,))
    for level in system.levels:
        rate = level.per_direction
        disagree = rate.low < rate.high
        low, high = (rate.low / rate.value, rate.high / rate.value) if disagree else (1 - spread, 1 + spread)
        add(f"{level.name} bandwidth", "sources disagree" if disagree else f"{spread:.0%} either way", low, high)
    frame = pd.DataFrame(rows)
    frame["base_s"] = _step_s(training)
    frame["swing_s"] = (frame["high_s"] - frame["low_s"]).abs()
    return frame.sort_values("swing_s", ascending=False, kind="stable").reset_index(drop=True)


def elasticities(training: Training, step: float = 1e-3) -> pd.DataFrame:
    """How many percent a step gets longer when a hardware parameter grows by one percent: the gradient of the predictor.

    elasticity = d ln T / d ln x, by central differences of relative width `step`. A time is homogeneous of degree one in all times:
    the launch time's elasticity less those of the rates comes to one, but for what is not varied, the latency of messages.

    Args:
        training: the run; step: relative width of the difference (1).
    Returns:
        what; elasticity (1); doubled: step time with twice the parameter (half the launch time) over today's (1); base_s (s);
        most valuable first.
    """
    today, rows = _step_s(training), []
    for what in (*SHARES, *(f"{level.name} bandwidth" for level in training.machine().levels)):
        change = np.log(_step_s(training, what, 1 + step)) - np.log(_step_s(training, what, 1 - step))
        slope = change / (np.log(1 + step) - np.log(1 - step))
        better = 0.5 if what == "launch time" else 2.0
        rows.append({"what": what, "elasticity": float(slope), "doubled": _step_s(training, what, better) / today, "base_s": today})
    return pd.DataFrame(rows).sort_values("doubled", kind="stable", ignore_index=True)
