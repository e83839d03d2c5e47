"""How long does a training step take, how sure is that, and does it fit? Answers for a table of cases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.composition.training import interval
from analysis.composition.training.cases import Case, read
from analysis.composition.training.memory import GIB, capacity_bytes, fits, memory, settle
from analysis.composition.training.shares import ShareFile
from analysis.composition.training.step import NAMES, Plans, step
from analysis.composition.training.work import parts
from analysis.configs import read_yaml
from analysis.paths import DATA

COLUMNS = ("step_time_s", "lower_s", "upper_s", "tokens_per_s_per_gpu", "memory_gib", "fits", "assumed", "status")


@dataclass(frozen=True)
class Fitted:
    """Shares in the order of `NAMES`, and the stretch of each group."""

    shares: NDArray[np.float64]
    stretch: dict[str, tuple[float, float]]


@cache
def fitted() -> Fitted:
    """The committed shares."""
    content = read_yaml(DATA / "models" / "training_step.yaml", ShareFile)
    return Fitted(np.array([content.shares[name].value for name in NAMES]), dict(content.stretch))


def predict(cases: list[Case]) -> pd.DataFrame:
    """Predicted steps of cases whose recomputation is settled: step, interval and every part (s)."""
    model = fitted()
    work, plans = parts(cases), Plans.of(cases)
    seconds = step(work, plans, model.shares)
    doubt = interval.doubt(work, plans, model.shares)
    bounds = np.array([model.stretch[interval.group(item)] for item in cases])
    frame = pd.DataFrame({"step_time_s": seconds.pop("total")})
    frame["lower_s"] = frame["step_time_s"] * np.exp(bounds[:, 0] * doubt)
    frame["upper_s"] = frame["step_time_s"] * np.exp(bounds[:, 1] * doubt)
    for name, values in seconds.items():
        frame[f"{name}_s"] = values
    return frame


def answers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a case, with `COLUMNS`; a case that cannot be answered has its reason in `status`.

    Args:
        frame: cells as text; columns of any table that `cases` knows.
    """
    found, reasons = read(frame)
    out = pd.DataFrame({name: np.full(len(frame), np.nan) for name in COLUMNS[:5]})
    out = out.assign(fits="", assumed="", status=reasons)
    rows = [index for index, item in enumerate(found) if item is not None]
    cases = [settle(item) for item in found if item is not None]
    if not cases:
        return out
    seconds = predict(cases)
    for name in ("step_time_s", "lower_s", "upper_s"):
        out.loc[rows, name] = seconds[name].to_numpy()
    lost = [row for row, value in zip(rows, seconds["step_time_s"], strict=True) if not np.isfinite(value)]
    out.loc[lost, "status"] = "the kernel models have no answer for this device and number type"
    tokens = np.array([item.global_batch * item.sequence / item.gpus for item in cases])
    out.loc[rows, "tokens_per_s_per_gpu"] = tokens / seconds["step_time_s"].to_numpy()
    held = [memory(item, item.recompute) for item in cases]
    good = [fits(item, each) for item, each in zip(cases, held, strict=True)]
    most = [capacity_bytes(item) if runs else np.inf for item, runs in zip(cases, good, strict=True)]
    out.loc[rows, "memory_gib"] = [min(each.total, limit) / GIB for each, limit in zip(held, most, strict=True)]
    out.loc[rows, "fits"] = ["yes" if runs else "no" for runs in good]
    out.loc[rows, "assumed"] = ["; ".join(item.assumed) for item in cases]
    return out
