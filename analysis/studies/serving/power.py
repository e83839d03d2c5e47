"""The constants of `analysis.serving.points.power`: fitted to measured boards, and written."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from analysis.serving.points.power import PATH, BoardPower
from analysis.tables import write_atomic


def fit(measured_share: ArrayLike, memory_share: ArrayLike, compute_share: ArrayLike, fitted_on: str = "") -> BoardPower:
    """Constants of least squared relative error, none below zero; all arguments of shape (rows,), `measured_share` power over limit."""
    from scipy.optimize import nnls

    measured = np.asarray(measured_share, dtype=float)
    terms = np.column_stack([np.ones(len(measured)), memory_share, compute_share])
    base, memory, compute = map(float, nnls(terms / measured[:, None], np.ones(len(measured)))[0])
    return BoardPower(fitted_on=fitted_on, rows=len(measured), base=base, memory=memory, compute=compute)


def write(power: BoardPower) -> None:
    """Commit constants, to six digits."""
    lines = ["# Constants of analysis/serving/points/power.py, written by the notebook energy_per_token at tier full."]
    lines += [f"{key}: {value if isinstance(value, (str, int)) else round(value, 6)}" for key, value in power.model_dump().items()]
    write_atomic(PATH, ("\n".join(lines) + "\n").encode())
