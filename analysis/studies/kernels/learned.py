"""The formulas of learned predictors as the surveys print them, from the linear model to attention."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def linear(features: Array, weights: Array, bias: float) -> Array:
    """Linear model: y = w . x + b.

    Args:
        features: x, shape (n, d) or (d,).
        weights: w, shape (d,).
        bias: b.
    Source: earlier survey draft, section 2.2.1.
    """
    return np.asarray(features @ weights + bias)


def relu(x: Array) -> Array:
    """max(x, 0), element by element."""
    return np.maximum(x, 0.0)


def mlp_layer(h: Array, weights: Array, bias: Array, activation: Callable[[Array], Array] = relu) -> Array:
    """One layer of a multi-layer perceptron: h' = sigma(W h + b).

    Args:
        h: shape (d_in,) or (n, d_in).
        weights: W, shape (d_out, d_in).
        bias: b, shape (d_out,).
        activation: sigma, element by element.
    Source: earlier survey draft, section 2.2.2.
    """
    return activation(h @ weights.T + bias)


def softmax(scores: Array) -> Array:
    """exp(s) / sum exp(s) along the last axis, safe against overflow."""
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def attention(queries: Array, keys: Array, values: Array) -> Array:
    """Scaled dot-product attention: softmax(Q K^T / sqrt(d_k)) V.

    Args:
        queries: shape (n, d_k).
        keys: shape (m, d_k).
        values: shape (m, d_v).
    Returns:
        shape (n, d_v).
    Source: earlier survey draft, equation 2; Vaswani et al. 2017.
    """
    return softmax(queries @ keys.T / np.sqrt(keys.shape[-1])) @ values


def message_passing(
    nodes: Array,
    edges: NDArray[np.int64],
    edge_features: Array,
    message: Callable[[Array, Array], Array],
    update: Callable[[Array, Array], Array],
) -> Array:
    """One round of message passing: h'_v = phi(h_v, sum over neighbours u of psi(h_u, e_uv)).

    Args:
        nodes: h, shape (n, d).
        edges: pairs (u, v), message from u to v, shape (m, 2).
        edge_features: e_uv, shape (m, d_e).
        message: psi, from (m, d) and (m, d_e) to (m, d_m).
        update: phi, from (n, d) and (n, d_m) to (n, d').
    Source: earlier survey draft, equation 1, with a sum as the aggregation.
    """
    if edges.size and (edges.min() < 0 or edges.max() >= len(nodes)):
        raise ValueError("an edge names a node that is not there")
    sent = message(nodes[edges[:, 0]], edge_features)
    received = np.zeros((len(nodes), sent.shape[1]))
    np.add.at(received, edges[:, 1], sent)
    return update(nodes, received)


def granite_round(nodes: Array, edges: NDArray[np.int64], mlp: Callable[[Array], Array]) -> Array:
    """GRANITE's round as the survey prints it: h'_i = MLP(h_i + sum over neighbours j of h_j).

    Args:
        nodes: h, shape (n, d).
        edges: pairs (j, i), shape (m, 2).
        mlp: from (n, d) to (n, d').
    Source: earlier survey draft, equation 6.
    """
    nothing = np.zeros((len(edges), 0))
    return message_passing(nodes, edges, nothing, lambda h, _: h, lambda h, received: mlp(h + received))
