"""The answer that every kernel model gives, and those of a table of cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.kernels.work import Floats


@dataclass(frozen=True)
class Latency:
    """Answers of one call, in the shape that its arguments broadcast to.

    Args:
        s: central latency (seconds); NaN where not covered.
        log_sd: standard deviation of its logarithm: the model's own doubt; a 90 % interval is ``s exp(-+1.645 log_sd)``.
        source: "measured gpu", "unmeasured gpu" (fitted on other GPUs), "data sheet" (nothing fitted) or "none".
        status: empty, or why there is no answer.
        note: empty, or what else the reader must know, such as a measured table that was not believed.
    """

    s: Floats
    log_sd: Floats
    source: str
    status: NDArray[np.object_]
    note: str = ""


@dataclass(frozen=True)
class Answers:
    """Seconds and 90 % interval of each case, shapes (n,); NaN and a status where there is no answer."""

    latency_s: Floats
    lower_s: Floats
    upper_s: Floats
    source: NDArray[np.object_]
    status: NDArray[np.object_]
