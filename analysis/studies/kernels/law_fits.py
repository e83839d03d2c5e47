"""The parameters of a kernel's law (`kernels.laws`): fitted on a timed GPU, carried to another by ridge regression, written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from analysis.kernels.gpus import Gpu
from analysis.kernels.laws import ARITHMETIC, START, Transfer, describe, rate_type, time_s
from analysis.kernels.physics import Sustained
from analysis.kernels.trees import FOLDER
from analysis.kernels.work import Floats
from analysis.tables import write_atomic

USES = {  # what each parameter may depend on besides framework and type: launch, arithmetic (beside `Sustained`), memory, chain, passes
    "gemm": ((), (), ("gddr",), ("registers", "registers, below 16 bits"), ("bandwidth an SM",), ("bandwidth an SM",)),
    "moe": ((), (), (), ("registers",), ("bandwidth an SM",), ("bandwidth an SM",)),
}
RIDGE = {  # of one framework, type or variant; of all together; of a property of the GPU
    "gemm": {"=": 0.3, "cell": 0.2, "gpu": 0.3},
    "moe": {"=": 4.5, "cell": 3.0, "gpu": 0.9},  # each cell has three variants
}
LARGE = 1e9


class Known(NamedTuple):
    """A timed GPU's parameters for one framework, number type and variant.

    Args:
        log_theta: natural logarithms, shape (parts,); weight: of the row, so that architectures count alike.
    """

    gpu: Gpu
    framework: str
    dtype: str
    variant: str
    log_theta: Floats
    weight: float


def fit(operator: str, parts: Floats, seconds: Floats) -> Floats:
    """Parameters of one cell (logarithms): robust least squares of the log residual, held loosely to `START`."""
    from scipy.optimize import least_squares

    start = np.log(START[operator])
    hold = 0.03 * np.sqrt(len(seconds))

    def residual(p: Floats) -> Floats:
        return np.concatenate([np.log(time_s(parts, p) / seconds), hold * (p - start)])

    return least_squares(residual, start, loss="soft_l1", f_scale=0.1, max_nfev=30).x


def transfer(operator: str, known: list[Known], sustained: Sustained) -> Transfer:
    """Ridge regression of the timed GPUs' parameters; the share of arithmetic is taken relative to `Sustained`."""
    y = np.stack([k.log_theta for k in known])
    rows = [[describe(k.gpu, k.framework, k.dtype, k.variant, part) for k in known] for part in range(y.shape[1])]
    columns = tuple(sorted({c for of_part in rows for row in of_part for c in row}))
    y[:, ARITHMETIC] += np.log([sustained.transferred(k.gpu, rate_type(k.gpu, k.dtype, k.variant)) for k in known])
    weight = np.array([k.weight for k in known])[:, None]
    out, ridge = np.zeros((len(columns), y.shape[1])), RIDGE[operator]
    for j, used in enumerate(USES[operator]):
        x = np.array([[row.get(c, 0.0) for c in columns] for row in rows[j]])
        weighted = x * weight
        penalty = np.array([
            1e-9 if c == "1" else ridge["cell"] if c.startswith("cell ") else
            (ridge["gpu"] if c[4:] in used else LARGE) if c.startswith("gpu ") else ridge["="] for c in columns
        ])  # fmt: skip
        out[:, j] = np.linalg.solve(weighted.T @ x + np.diag(penalty), weighted.T @ y[:, j])
    return Transfer(columns, out)


def write(laws: dict[str, dict[str, Transfer]], folder: Path | None = None) -> None:
    """Write `laws.json`: operator, architecture left out, column, coefficient of each part; operators not given are kept."""
    path = (folder or FOLDER) / "laws.json"
    plain = json.loads(path.read_text()) if path.is_file() else {}
    for operator, by in laws.items():
        plain[operator] = {
            hidden: {c: [round(float(v), 5) for v in row] for c, row in zip(t.columns, t.coefficients, strict=True)}
            for hidden, t in by.items()
        }
    write_atomic(path, (json.dumps(plain, indent=0, sort_keys=True) + "\n").encode())
