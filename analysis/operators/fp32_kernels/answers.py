"""A file of kernel cases answered: rows, order and columns are kept, the prediction and its interval are added."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.errors import InputError
from analysis.operators.fp32_kernels import devices as kernel_devices
from analysis.operators.fp32_kernels.cases import BOUNDS, CODE, DIMENSIONS, OPS, Floats, KernelPredictor, Operators
from analysis.operators.fp32_kernels.devices import Gpu
from analysis.tables import numeric, unpacked, write_atomic

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


def answer(frame: pd.DataFrame, predictor: KernelPredictor, own_devices: dict[str, Gpu] | None = None) -> Answers:
    """Predict each row of a table of cases.

    Args:
        frame: columns op, device, and those of B, M, N, K, H that the operators need.
        own_devices: GPUs by name that come before those of `data/hardware/devices`.
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
            reason[rows] = f"operator {name!r} is not covered; expected one of {' '.join(OPS)}"
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
            gpus[code] = (own_devices or {}).get(name) or kernel_devices.load(name)
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


def _read(path: Path) -> tuple[bytes, pd.DataFrame]:
    packed = unpacked(path)
    content = path.read_bytes() if packed is None else packed.getvalue()
    content = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    try:
        header = pd.read_csv(io.BytesIO(content), nrows=0).columns
        types = {name: str if name in NEEDED else None for name in header}
        frame = pd.read_csv(
            io.BytesIO(content), dtype={k: v for k, v in types.items() if v}, keep_default_na=False, na_values=[""], low_memory=False
        )
    except pd.errors.EmptyDataError:
        raise InputError(f"is empty; expected a header with {', '.join(NEEDED)}", path=path, line=1) from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise InputError(f"is not a CSV table: {str(error).splitlines()[0]}", path=path) from None
    missing = [name for name in NEEDED if name not in frame]
    if missing:
        raise InputError(
            "missing column; expected op, device and those of B, M, N, K, H that the operators use",
            path=path,
            line=1,
            key=", ".join(missing),
        )
    clash = [name for name in ADDED[1:] if name in frame]
    if clash:
        raise InputError("the cases have a column of the answer already", path=path, line=1, key=", ".join(clash))
    if not isinstance(frame.index, pd.RangeIndex):
        raise InputError("has rows with more fields than the header", path=path, line=2)
    return content, frame


def answer_file(cases: Path, out: Path, predictor: KernelPredictor, own_devices: dict[str, Gpu] | None = None) -> tuple[int, int]:
    """Answer a CSV of cases: each line as it was, and latency_ms, lower_ms, upper_ms, bound and reason.

    A `latency_ms` that the cases bring is kept under `KEPT_AS`. Latencies have nine significant digits.

    Returns:
        cases answered and cases not answered.
    Raises:
        InputError: unreadable, or a column missing.
    """
    content, frame = _read(cases)
    lines = content.decode("utf-8").rstrip("\n").split("\n")
    if '"' in content.decode("utf-8") or len(lines) != len(frame) + 1:  # quoted fields or blank lines: written anew instead of copied
        text = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False).to_csv(index=False, lineterminator="\n")
        rows = list(text.rstrip("\n").split("\n"))
        if len(rows) != len(frame) + 1:
            raise InputError("has a field with a line break", path=cases)
        lines = rows
    found = answer(frame, predictor, own_devices)
    header = ",".join(KEPT_AS if name == "latency_ms" else name for name in lines[0].split(","))
    scale = (1e3 * v for v in (found.latency_s, found.lower_s, found.upper_s))
    ok = np.isfinite(found.latency_s)
    words = np.array(BOUNDS, dtype=object)[found.bound]
    parts = [",".join((header, *ADDED))]
    columns = (lines[1:], *(v.tolist() for v in scale), words.tolist())
    parts += ["%s,%.9g,%.9g,%.9g,%s," % row for row in zip(*columns, strict=True)]  # noqa: UP031 - the quickest of the formatters
    for row in np.flatnonzero(~ok):
        text = found.reason[row].replace('"', '""')
        parts[row + 1] = f'{lines[row + 1]},,,,,"{text}"'
    write_atomic(out, ("\n".join(parts) + "\n").encode("utf-8"))
    return int(ok.sum()), int((~ok).sum())
