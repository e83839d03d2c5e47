"""Do the ML survey's equations give the right answer on examples small enough to work by hand?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PATH_OF_THREE = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=float)


def roofline(peak: float, bandwidth: float, intensity: float) -> float:
    """Attainable performance min(peak, bandwidth * intensity) (ML survey, section 2.1.1).

    Args:
        peak: FLOP/s.
        bandwidth: bytes/s.
        intensity: FLOP/byte.
    """
    return min(peak, bandwidth * intensity)


def habitat(
    compute_s: float, memory_s: float, peak_source: float, peak_target: float, bandwidth_source: float, bandwidth_target: float
) -> float:
    """Time on a target device: T_c * P_s / P_t + T_m * B_s / B_t (ML survey, equation 7)."""
    return compute_s * peak_source / peak_target + memory_s * bandwidth_source / bandwidth_target


def attention(query: NDArray[np.float64], key: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.float64]:
    """softmax(Q K^T / sqrt(d_k)) V (ML survey, equation 2).

    Args:
        query, key: shape (n, d_k) and (m, d_k).
        value: shape (m, d_v).
    """
    logits = query @ key.T / np.sqrt(key.shape[1])
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return np.asarray(weights @ value)


def attention_example() -> list[float]:
    """One query that agrees with the first of two keys by far: the answer is the first value."""
    answer = attention(np.array([[100.0, 0.0]]), np.array([[100.0, 0.0], [0.0, 100.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    return [float(x) for x in answer[0]]


def aggregate(states: NDArray[np.float64], adjacency: NDArray[np.float64]) -> NDArray[np.float64]:
    """One round of message passing with the sum: h_i + sum over neighbours h_j (ML survey, equations 1 and 6, identity networks).

    Args:
        states: shape (nodes,) or (nodes, features).
        adjacency: shape (nodes, nodes).
    """
    return np.asarray(states + adjacency @ states)


def granite_example() -> list[float]:
    """One round on a path of three nodes, all ones: ends have one neighbour, the middle two."""
    return [float(x) for x in aggregate(np.ones(3), PATH_OF_THREE)]


def message_passing_example() -> list[float]:
    """Two rounds on a path of three nodes that start at 1, 0, 0: the first node reaches the third in two."""
    return [float(x) for x in aggregate(aggregate(np.array([1.0, 0.0, 0.0]), PATH_OF_THREE), PATH_OF_THREE)]
