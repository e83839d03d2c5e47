"""What can this CPU do at most: arithmetic in a large product, bandwidth of memory in the STREAM triad."""

from __future__ import annotations

import numpy as np
from numba import njit, prange, set_num_threads

from analysis.artifact.measuring.timing import CALLS

PRODUCT = 1536
"""Side of the square product (elements): large enough that packing is hidden, small enough for a tenth of a second."""

TRIAD = 1 << 24
"""Elements of each triad array: 64 MiB of fp32, twice the largest last-level cache slice seen."""


@njit(parallel=True, cache=True)
def _triad(a: np.ndarray, b: np.ndarray, c: np.ndarray, scale: np.float32) -> None:
    for i in prange(len(a)):
        a[i] = b[i] + scale * c[i]


def amount(what: str) -> float:
    """FLOP of the product, or bytes of the triad as STREAM counts them: two arrays read, one written.

    Args:
        what: product, triad, or copy (NumPy's memory copy: one array read, one written).
    Source: McCalpin, STREAM benchmark: triad a = b + s c, 3 x 4 bytes an element in fp32; a line read before it is written is not counted.
    """
    return {"product": 2.0 * PRODUCT**3, "triad": 12.0 * TRIAD, "copy": 8.0 * TRIAD}[what]


def prepare_peak(what: str, threads: int) -> CALLS:
    """Calls of the kernel.

    Args:
        threads: of numba's pool; OpenBLAS's are set by the process's environment.
    """
    amount(what)
    if what == "product":
        left = np.full((PRODUCT, PRODUCT), 0.5, np.float32)
        result = np.empty_like(left)

        def product(calls: int) -> None:
            for _ in range(calls):
                np.matmul(left, left, out=result)

        return product
    a, b, c = (np.full(TRIAD, value, np.float32) for value in (0.0, 1.0, 2.0))
    if what == "copy":

        def copy(calls: int) -> None:
            for _ in range(calls):
                np.copyto(a, b)

        return copy
    set_num_threads(threads)

    def triad(calls: int) -> None:
        for _ in range(calls):
            _triad(a, b, c, np.float32(0.5))

    return triad
