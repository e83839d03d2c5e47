"""What is a GPU kernel case, and what does a predictor answer? The data contract of all kernel predictors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

GEMMS = ("bmm", "linear")
ELEMENTWISE_3 = ("add", "mul", "div", "pow")  # two inputs, one output
ELEMENTWISE_2 = ("addu", "mulu", "divu", "powu", "relu", "gelu", "tanh")  # one input (or an input and a scalar), one output
ROWWISE = ("softmax", "ln")
OPS = GEMMS + ELEMENTWISE_3 + ELEMENTWISE_2 + ROWWISE
CODE = {op: code for code, op in enumerate(OPS)}
GROUP = {op: op if op in GEMMS + ROWWISE else "elem" for op in OPS}
GROUPS = ("bmm", "linear", "elem", "softmax", "ln")
BOUNDS = ("compute", "memory", "launch")
DIMENSIONS = {"bmm": ("B", "M", "N", "K"), "linear": ("M", "N", "K"), **dict.fromkeys(OPS[2:], ("B", "H"))}


@dataclass(frozen=True, eq=False)
class Operators:
    """Kernels by shape, in arrays of one length.

    Args:
        op: index into `OPS`, shape (n,).
        b: batch of a bmm; 1 for linear; rows of an element-wise, softmax or layer-norm kernel.
        m, n, k: (m x n) times (n x k); n is the reduced dimension, as in NeuSight's tables. 1 for the others.
        h: columns of an element-wise, softmax or layer-norm kernel; 1 for the others.
    All elements are fp32.
    """

    op: Codes
    b: Floats
    m: Floats
    n: Floats
    k: Floats
    h: Floats

    def __len__(self) -> int:
        return len(self.op)

    def take(self, index: NDArray[np.bool_] | Codes) -> Self:
        """The cases at an index."""
        return type(self)(*(getattr(self, name)[index] for name in ("op", "b", "m", "n", "k", "h")))

    @property
    def streams(self) -> Floats:
        """Tensors that an element-wise or row-wise kernel reads and writes."""
        return np.array([3.0 if op in ELEMENTWISE_3 else 2.0 for op in OPS])[self.op]

    @property
    def is_gemm(self) -> NDArray[np.bool_]:
        """Which cases are matrix products."""
        return self.op < len(GEMMS)


@dataclass(frozen=True)
class KernelPrediction:
    """Predicted latency of each case.

    Args:
        latency_s: predicted (s); lower_s, upper_s: its interval (s).
        bound: index into `BOUNDS` of the term that bounds the kernel in the physical model.
    """

    latency_s: Floats
    lower_s: Floats
    upper_s: Floats
    bound: Codes
