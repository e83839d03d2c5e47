"""The fp32 kernels of a table of cases, answered."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_columns import nearest
from analysis.errors import InputError
from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import BOUNDS, CODE, DIMENSIONS, OPS, Floats, Operators
from analysis.kernels.fp32.devices import Board
from analysis.kernels.fp32.model import KernelModel
from analysis.kernels.latency import Answers
from analysis.tables import numeric


def _dimensions(frame: pd.DataFrame) -> dict[str, Floats]:
    found: dict[str, Floats] = {}
    for name in ("B", "M", "N", "K", "H"):
        values = numeric(frame[name]) if name in frame else pd.Series(np.nan, index=frame.index)
        found[name] = np.asarray(values, dtype=np.float64)
    return found


def answer(frame: pd.DataFrame, predictor: KernelModel) -> Answers:
    """Predict each row of a table of cases."""
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
    gpus: dict[int, Board] = {}
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
    limits = np.array([f"fp32 kernels, bound by {name}" for name in BOUNDS], dtype=object)
    return Answers(latency, lower, upper, np.where(np.isfinite(latency), limits[bound], ""), reason)
