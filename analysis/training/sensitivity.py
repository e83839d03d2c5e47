"""How much a predicted step moves when what it rests on is uncertain: the numbers behind a tornado chart."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.hardware.systems import Level, System
from analysis.training.kernel_time import Efficiencies, efficiencies_of
from analysis.training.plan import Training
from analysis.training.step import predict

FIT_SPREAD = 0.1
"""Relative spread given to each fitted efficiency: the largest error of the frozen fit on runs that it never saw is about this."""


def _scaled_level(level: Level, factor: float) -> Level:
    rate = level.per_direction
    moved = rate.model_copy(update={key: getattr(rate, key) * factor for key in ("value", "low", "high")})
    return level.model_copy(update={"per_direction": moved})


def _with_level(system: System, index: int, factor: float) -> System:
    levels = tuple(_scaled_level(level, factor) if place == index else level for place, level in enumerate(system.levels))
    return system.model_copy(update={"levels": levels})


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
    system, model = training.machine(), training.shape()
    device = system.load_device()
    base = efficiencies_of(system.device, training.efficiencies)

    def step(efficiencies: Efficiencies = base, machine: System = system) -> float:
        return predict(model, training.plan, training.software, machine, efficiencies).time.total_s

    def changed(**factors: float) -> Efficiencies:
        return base.model_copy(update={key: getattr(base, key) * factor for key, factor in factors.items()})

    rows: list[dict[str, object]] = []

    def add(what: str, why: str, low: float, high: float, low_s: float, high_s: float) -> None:
        rows.append({"what": what, "why": why, "low": low, "high": high, "low_s": low_s, "high_s": high_s})

    peak, bandwidth = device.peak[training.software.dtype], device.memory_bandwidth
    for what, quantity, keys in (("matrix peak", peak, ("gemm", "attention")), ("memory bandwidth", bandwidth, ("memory",))):
        low, high = quantity.low / quantity.value, quantity.high / quantity.value
        if low < high:
            ends = [step(changed(**dict.fromkeys(keys, factor))) for factor in (low, high)]
            add(what, "sources disagree", low, high, ends[0], ends[1])
    fitted = (
        ("matrix efficiency", ("gemm",)),
        ("attention efficiency", ("attention",)),
        ("memory efficiency", ("memory",)),
        ("launch time", ("kernel_s",)),
    )
    for what, keys in fitted:
        low, high = 1 - spread, 1 + spread
        ends = [step(changed(**dict.fromkeys(keys, factor))) for factor in (low, high)]
        add(what, f"fit, {spread:.0%} either way", low, high, ends[0], ends[1])
    for index, level in enumerate(system.levels):
        rate = level.per_direction
        disagree = rate.low < rate.high
        low, high = (rate.low / rate.value, rate.high / rate.value) if disagree else (1 - spread, 1 + spread)
        ends = [step(machine=_with_level(system, index, factor)) for factor in (low, high)]
        add(f"{level.name} bandwidth", "sources disagree" if disagree else f"{spread:.0%} either way", low, high, ends[0], ends[1])
    frame = pd.DataFrame(rows)
    frame["base_s"] = step()
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
    system, model = training.machine(), training.shape()
    base = efficiencies_of(system.device, training.efficiencies)

    def seconds(what: str = "", factor: float = 1.0) -> float:
        efficiencies, machine = base, system
        if what == "matrix peak":
            # model_copy does not validate: a share of the peak above one is a higher peak
            efficiencies = base.model_copy(update={"gemm": base.gemm * factor, "attention": base.attention * factor})
        elif what == "memory bandwidth":
            efficiencies = base.model_copy(update={"memory": base.memory * factor})
        elif what == "launch time":
            efficiencies = base.model_copy(update={"kernel_s": base.kernel_s * factor})
        elif what:
            machine = _with_level(system, [f"{level.name} bandwidth" for level in system.levels].index(what), factor)
        return predict(model, training.plan, training.software, machine, efficiencies).time.total_s

    today, rows = seconds(), []
    for what in ("matrix peak", "memory bandwidth", "launch time", *(f"{level.name} bandwidth" for level in system.levels)):
        slope = (np.log(seconds(what, 1 + step)) - np.log(seconds(what, 1 - step))) / (np.log(1 + step) - np.log(1 - step))
        better = 0.5 if what == "launch time" else 2.0
        rows.append({"what": what, "elasticity": float(slope), "doubled": seconds(what, better) / today, "base_s": today})
    return pd.DataFrame(rows).sort_values("doubled", kind="stable", ignore_index=True)
