"""How much power does a GPU draw for some work? A base and two shares of its board limit, for memory traffic and for arithmetic.

    power = limit x min(1, base + memory x (bytes / bandwidth) / time + compute x (operations / peak) / time)

`base` is drawn whenever kernels run, busy or waiting for each other. The three constants are fitted to measured boards.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from analysis.configs import Strict, read_yaml
from analysis.paths import DATA
from analysis.tables import write_atomic

PATH = DATA / "models" / "board_power.yaml"


class BoardPower(Strict):
    """Constants of the power model, as shares of the board limit, and the rows that they were fitted on."""

    fitted_on: str
    rows: int
    base: float
    memory: float
    compute: float

    def share(self, memory_share: Any, compute_share: Any) -> Any:
        """Power over the board limit.

        Args:
            memory_share: achieved over peak bandwidth; compute_share: achieved over peak operations per second; numbers or arrays.
        """
        return np.minimum(1.0, self.base + self.memory * memory_share + self.compute * compute_share)


def fit(measured_share: ArrayLike, memory_share: ArrayLike, compute_share: ArrayLike, fitted_on: str = "") -> BoardPower:
    """Constants of least squared relative error, none below zero; all arguments of shape (rows,), `measured_share` power over limit."""
    from scipy.optimize import nnls

    measured = np.asarray(measured_share, dtype=float)
    terms = np.column_stack([np.ones(len(measured)), memory_share, compute_share])
    base, memory, compute = map(float, nnls(terms / measured[:, None], np.ones(len(measured)))[0])
    return BoardPower(fitted_on=fitted_on, rows=len(measured), base=base, memory=memory, compute=compute)


@cache
def load() -> BoardPower:
    """The committed constants."""
    return read_yaml(PATH, BoardPower)


def write(power: BoardPower) -> None:
    """Commit constants, to six digits."""
    lines = ["# Constants of analysis/studies/serving/power.py, written by the notebook energy_per_token at tier full."]
    lines += [f"{key}: {value if isinstance(value, (str, int)) else round(value, 6)}" for key, value in power.model_dump().items()]
    write_atomic(PATH, ("\n".join(lines) + "\n").encode())
