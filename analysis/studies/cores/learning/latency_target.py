"""What NeuroScalar's network predicts: retire latencies as a capped logarithm, and whether each is long."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

CAP = 1000.0
LONG_FROM = 10.0


def retire_latencies(retire_cycles: ArrayLike) -> NDArray[np.int64]:
    """Cycles since the previous instruction retired: c_i = r_i - r_(i-1), c_0 = r_0. Their sum is the cycles of the whole run.

    Args:
        retire_cycles: cycle in which each instruction retires, never falling, shape (n,).
    Raises:
        ValueError: a cycle before the one in front of it.
    Source: NeuroScalar, section 4.4.
    """
    cycles = np.asarray(retire_cycles, dtype=np.int64)
    latencies = np.diff(cycles, prepend=np.int64(0))
    if (latencies < 0).any():
        raise ValueError(f"instruction {int(np.argmax(latencies < 0))} retires before the one in front of it")
    return latencies


def log_target(latency: ArrayLike, cap: float = CAP) -> jax.Array:
    """ln(1 + min(c, cap)), float32 (NeuroScalar, equation 2; the cap is that of its Figure 2)."""
    return jnp.log1p(jnp.minimum(jnp.asarray(latency, jnp.float32), cap))


def from_log_target(target: ArrayLike) -> NDArray[np.float64]:
    """Cycles from the logarithm: exp(y) - 1, not below zero."""
    return np.maximum(np.expm1(np.asarray(target, dtype=np.float64)), 0.0)


def is_long(latency: ArrayLike, threshold: float = LONG_FROM) -> jax.Array:
    """1 where the latency is above the threshold, else 0 (NeuroScalar, equation 3 and section 3.3.2: 10 cycles)."""
    return (jnp.asarray(latency) > threshold).astype(jnp.int32)
