"""How fast can the paper's network run on one core, next to that core's own matrix products?

NumPy only. The four gates are one product, and input and state are side by side so that a step of a layer is one product
[x_t, h_(t-1)] [W_ih; W_hh]; a batch of windows makes it a matrix product. sigmoid(v) = (1 + tanh(v / 2)) / 2, so that all gates
take one tanh.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import inner, outer

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class FusedLayer:
    """Weights of a layer, [W_ih, W_hh] side by side and turned, shape (width + hidden, 4 hidden), and the sum of both biases."""

    weight: Floats
    bias: Floats

    @property
    def hidden(self) -> int:
        """State of the layer."""
        return len(self.bias) // 4


def fuse(parameters: dict[str, Floats]) -> list[FusedLayer]:
    """The one-directional layers of a network, ready for `run_layers`.

    Sigmoid gates are halved, so that tanh serves all four; the caller undoes it as (1 + tanh) / 2.
    """
    layers: list[FusedLayer] = []
    while f"rnn.weight_ih_l{len(layers)}" in parameters:
        k = len(layers)
        weight = np.concatenate([np.asarray(parameters[f"rnn.weight_{part}_l{k}"]).T for part in ("ih", "hh")])
        bias = np.asarray(parameters[f"rnn.bias_ih_l{k}"]) + np.asarray(parameters[f"rnn.bias_hh_l{k}"])
        hidden = len(bias) // 4
        halves = np.repeat(np.array([0.5, 0.5, 1.0, 0.5], np.float32), hidden)
        layers.append(FusedLayer(np.ascontiguousarray(weight * halves, np.float32), (bias * halves).astype(np.float32)))
    return layers


@inner(fastmath=True)
def _fast_tanh(v: np.float32) -> np.float32:
    """tanh by a rational function, at most 4e-7 off (the form of Eigen's and XLA's float32 tanh)."""
    x = min(max(v, np.float32(-7.90531110763549805)), np.float32(7.90531110763549805))
    s = x * x
    p = np.float32(-2.76076847742355e-16)
    p = p * s + np.float32(2.00018790482477e-13)
    p = p * s + np.float32(-8.60467152213735e-11)
    p = p * s + np.float32(5.12229709037114e-08)
    p = p * s + np.float32(1.48572235717979e-05)
    p = p * s + np.float32(6.37261928875436e-04)
    p = p * s + np.float32(4.89352455891786e-03)
    q = np.float32(1.19825839466702e-06)
    q = q * s + np.float32(1.18534705686654e-04)
    q = q * s + np.float32(2.26843463243900e-03)
    q = q * s + np.float32(4.89352518554385e-03)
    return x * p / q


@outer(fastmath=True)
def _gates(products: Floats, bias: Floats, cell: Floats, state: Floats) -> None:
    """c = f c + i g and h = o tanh(c) in place, from products of shape (batch, 4 hidden)."""
    batch, hidden = cell.shape
    half = np.float32(0.5)
    for b in range(batch):
        for k in range(hidden):
            i = half + half * _fast_tanh(products[b, k] + bias[k])
            f = half + half * _fast_tanh(products[b, hidden + k] + bias[hidden + k])
            g = _fast_tanh(products[b, 2 * hidden + k] + bias[2 * hidden + k])
            o = half + half * _fast_tanh(products[b, 3 * hidden + k] + bias[3 * hidden + k])
            c = f * cell[b, k] + i * g
            cell[b, k] = c
            state[b, k] = o * _fast_tanh(c)


def run_layers(layers: list[FusedLayer], x: Floats) -> Floats:
    """States of the last layer.

    Args:
        x: projected inputs, shape (length, batch, width).
    Returns:
        shape (length, batch, hidden).
    """
    length, batch, _ = x.shape
    for layer in layers:
        width, hidden = x.shape[2], layer.hidden
        both = np.zeros((batch, width + hidden), np.float32)
        cell, state = np.zeros((batch, hidden), np.float32), np.zeros((batch, hidden), np.float32)
        products = np.empty((batch, 4 * hidden), np.float32)
        out = np.empty((length, batch, hidden), np.float32)
        for t in range(length):
            both[:, :width] = x[t]
            both[:, width:] = state
            np.matmul(both, layer.weight, out=products)
            _gates(products, layer.bias, cell, state)
            out[t] = state
        x = out
    return x


def run_network(parameters: dict[str, Floats], windows: Floats, layers: list[FusedLayer] | None = None) -> tuple[Floats, Floats, Floats]:
    """The whole network: projection, layers, heads (as `lstm.encode` and `lstm.heads`).

    Args:
        parameters: by name.
        windows: shape (length, batch, inputs), scaled.
    Returns:
        short (length, batch), long (length, batch), logits (length, batch, 2).
    """
    p = parameters
    x = windows @ p["input_proj.weight"].T + p["input_proj.bias"]
    encoded = run_layers(layers or fuse(p), x)
    hidden = np.maximum(encoded @ p["cls_fc1.weight"].T + p["cls_fc1.bias"], 0)
    logits = hidden @ p["cls_fc2.weight"].T + p["cls_fc2.bias"]
    regressors = np.stack([p["output_layer_short.weight"][0], p["output_layer_long.weight"][0]], axis=1)
    both = encoded @ regressors + np.array([p["output_layer_short.bias"][0], p["output_layer_long.bias"][0]])
    return both[..., 0], both[..., 1], logits


def sgemm_flop_per_cpu_second(size: int = 1024, repeats: int = 10) -> float:
    """Rate of float32 matrix products size x size x size, in CPU-seconds of this process."""
    a = np.random.default_rng(0).random((size, size), dtype=np.float32)
    out = np.empty_like(a)
    np.matmul(a, a, out=out)
    start = time.process_time()
    for _ in range(repeats):
        np.matmul(a, a, out=out)
    return repeats * 2 * size**3 / (time.process_time() - start)


def flop_per_instruction(parameters: dict[str, Floats]) -> int:
    """Two operations for each weight of the network, biases left out."""
    return sum(2 * int(np.prod(value.shape)) for name, value in parameters.items() if name.endswith("weight") or ".weight_" in name)


def network_flop_per_cpu_second(parameters: dict[str, Floats], batch: int = 256, length: int = 64, repeats: int = 2) -> float:
    """Rate of the whole network on one core, in CPU-seconds of this process."""
    windows = np.random.default_rng(0).normal(size=(length, batch, parameters["input_proj.weight"].shape[1])).astype(np.float32)
    layers = fuse(parameters)
    run_network(parameters, windows[:2], layers)
    start = time.process_time()
    for _ in range(repeats):
        run_network(parameters, windows, layers)
    spent = time.process_time() - start
    return repeats * batch * length * flop_per_instruction(parameters) / spent


def share_of_sgemm(parameters: dict[str, Floats]) -> float:
    """Rate of the network over the machine's rate of matrix products, both measured now."""
    return network_flop_per_cpu_second(parameters) / sgemm_flop_per_cpu_second()
