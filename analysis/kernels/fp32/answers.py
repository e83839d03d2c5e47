"""A table of kernel cases answered: rows, order and columns are kept, the prediction and its interval are added."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_columns import nearest
from analysis.errors import InputError
from analysis.hardware import own
from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import BOUNDS, CODE, DIMENSIONS, OPS, Floats, KernelPredictor, Operators
from analysis.kernels.fp32.devices import Gpu
from analysis.tables import numeric

NEEDED = ("op", "device")
ADDED = ("latency_ms", "lower_ms", "upper_ms", "bound", "reason")
KEPT_AS = "measured_latency_ms"  # name under which a latency_ms of the input stays


@dataclass(frozen=True)
class Answers:
    """Predictions of a table of cases, shapes (n,); NaN and a reason where a case is not covered."""

    latency_s: Floats
    lower_s: Floats
    upper_s: Floats
    bound: NDArray[np.int64]
    reason: NDArray[np.object_]


def _dimensions(frame: pd.DataFrame) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for name in ("B", "M", "N", "K", "H"):
        values = numeric(frame[name]) if name in frame else pd.Series(np.nan, index=frame.index)
        found[name] = np.asarray(values, dtype=np.float64)
    return found


def answer(frame: pd.DataFrame, predictor: KernelPredictor) -> Answers:
    """Predict each row of a table of cases.

    Args:
        frame: columns op, device, and those of B, M, N, K, H that the operators need.
    """
    n = len(frame)
    reason: NDArray[np.object_] = np.full(n, "", dtype=object)
    op_code, op_names = pd.factorize(frame["op"].astype(str))
    device_code, device_names = pd.factorize(frame["device"].astype(str))
    sizes = _dimensions(frame)
    usable = np.ones(n, dtype=bool)
    for code, name in enumerate(op_names):
        rows = op_code == code
        if name not in CODE:
            near = nearest(name, (*OPS, "gemm"))
            hint = f"did you mean {near}? " if near else ""
            reason[rows] = f"operator {name!r} is not covered; {hint}expected one of {' '.join(OPS)}"
            usable &= ~rows
            continue
        for dimension in DIMENSIONS[name]:
            values = sizes[dimension]
            bad = rows & usable & ~((values >= 1) & (values < 1e12) & (values == np.floor(values)))
            if bad.any():
                reason[bad] = f"{dimension} of {name} must be a whole number, at least 1"
                usable &= ~bad
    gpus: dict[int, Gpu] = {}
    for code, name in enumerate(device_names):
        try:
            gpus[code] = kernel_devices.load(name)
        except InputError as error:
            rows = usable & (device_code == code)
            reason[rows] = f"device {name!r} is not known" if error.key == "device" else str(error)
            usable &= ~rows
    filled = {key: np.where(np.isfinite(values), values, 1.0) for key, values in sizes.items()}
    known = np.array([CODE.get(str(name), 0) for name in op_names] or [0])[op_code] if n else np.empty(0, dtype=np.int64)
    batch = np.where(known == CODE["linear"], 1.0, filled["B"])
    operators = Operators(known, batch, filled["M"], filled["N"], filled["K"], filled["H"])
    latency, lower, upper = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
    bound = np.zeros(n, dtype=np.int64)
    for code, gpu in gpus.items():
        rows = np.flatnonzero(usable & (device_code == code))
        if len(rows):
            one = predictor.predict(operators.take(rows), gpu)
            latency[rows], lower[rows], upper[rows], bound[rows] = one.latency_s, one.lower_s, one.upper_s, one.bound
    return Answers(latency, lower, upper, bound, reason)


def answers(frame: pd.DataFrame, predictor: KernelPredictor, path: Path | None = None, machines: Path | None = None) -> pd.DataFrame:
    """The cases with latency_ms, lower_ms, upper_ms, bound and reason added; a latency_ms of theirs becomes `KEPT_AS`.

    Latencies have nine significant digits.

    Args:
        frame, predictor: as for `answer`; path: the file of the cases, for messages; machines: a file of devices of the user's own.
    Raises:
        InputError: a column missing, or one of the answer there already.
    """
    from analysis.kernels.cases import _nine_digits, unread

    if machines:
        own.read(machines)
    missing = [name for name in NEEDED if name not in frame]
    if missing:
        expected = "missing column; expected op, device and those of B, M, N, K, H that the operators use"
        raise InputError(expected, path=path, line=1, key=", ".join(missing))
    clash = [name for name in ADDED[1:] if name in frame]
    if clash:
        raise InputError("the cases have a column of the answer already", path=path, line=1, key=", ".join(clash))
    found = answer(frame, predictor)
    strays = unread(frame)
    read = (found.reason != "") | (strays == "")
    bound = np.where(np.isfinite(found.latency_s) & read, np.array(BOUNDS, dtype=object)[found.bound], "")
    numbers = (np.where(read, 1e3 * values, np.nan) for values in (found.latency_s, found.lower_s, found.upper_s))
    added = [*map(_nine_digits, numbers), bound, np.where(read, found.reason, strays)]
    return frame.rename(columns={"latency_ms": KEPT_AS}).assign(**dict(zip(ADDED, added, strict=True)))
