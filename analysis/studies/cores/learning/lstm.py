"""NeuroScalar's network: a stacked LSTM over a window, a two-way classifier and one regressor for each regime.

The paper's text says bidirectional, its parameter table is the one-directional network (1,073,348 parameters); both are here.
Names and shapes of the parameters are those of the paper's appendix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from analysis.studies.cores.learning.instruction_features import CATEGORIES, FEATURES

Parameters = dict[str, jax.Array]
CATEGORICAL = [FEATURES.index(name) for name in CATEGORIES]
ADDRESSES = [k for k in range(len(FEATURES)) if k not in CATEGORICAL]
ROWS = np.cumsum([0, *(1 + values for values in CATEGORIES.values())])  # of the embedding; row 0 of each feature: outside the trace


@dataclass(frozen=True)
class LstmShape:
    """Size of the network; the defaults are those of the paper's parameter table.

    Attributes:
        embedding: numbers for each category and for the addresses (section 3.1.2); 0: the features enter as 13 numbers, as in the table.
    """

    inputs: int = 13
    hidden: int = 256
    layers: int = 2
    bidirectional: bool = False
    classifier: int = 64
    embedding: int = 0

    @property
    def directions(self) -> tuple[str, ...]:
        """Suffix of the parameters of each direction."""
        return ("", "_reverse") if self.bidirectional else ("",)

    @property
    def width(self) -> int:
        """Numbers that the last layer hands to the heads."""
        return self.hidden * len(self.directions)


def head_shapes(width: int, classifier: int = 64) -> dict[str, tuple[int, ...]]:
    """Parameters of the classifier and the two regressors behind a backbone of this width."""
    return {
        "cls_fc1.weight": (classifier, width),
        "cls_fc1.bias": (classifier,),
        "cls_fc2.weight": (2, classifier),
        "cls_fc2.bias": (2,),
        "output_layer_short.weight": (1, width),
        "output_layer_short.bias": (1,),
        "output_layer_long.weight": (1, width),
        "output_layer_long.bias": (1,),
    }


def parameter_shapes(shape: LstmShape) -> dict[str, tuple[int, ...]]:
    """Every parameter with its shape.

    Source: NeuroScalar, appendix.
    """
    e = shape.embedding
    seen = e * (len(CATEGORICAL) + 1) if e else shape.inputs
    shapes: dict[str, tuple[int, ...]] = {"input_proj.weight": (shape.hidden, seen), "input_proj.bias": (shape.hidden,)}
    if e:
        shapes |= {"embedding.weight": (int(ROWS[-1]), e), "address_proj.weight": (e, len(ADDRESSES)), "address_proj.bias": (e,)}
    width = shape.hidden
    for layer in range(shape.layers):
        for direction in shape.directions:
            suffix = f"_l{layer}{direction}"
            shapes[f"rnn.weight_ih{suffix}"] = (4 * shape.hidden, width)
            shapes[f"rnn.weight_hh{suffix}"] = (4 * shape.hidden, shape.hidden)
            shapes[f"rnn.bias_ih{suffix}"] = (4 * shape.hidden,)
            shapes[f"rnn.bias_hh{suffix}"] = (4 * shape.hidden,)
        width = shape.width
    return shapes | head_shapes(width, shape.classifier)


def draw(shapes: dict[str, tuple[int, ...]], seed: int) -> Parameters:
    """Starting values: matrices uniform within 1 / sqrt(inputs), biases zero, the LSTM's forget gates one.

    Args:
        shapes: name -> shape.
        seed: of the draw.
    """
    generator = np.random.default_rng(seed)
    drawn = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            value = np.zeros(shape, np.float32)
            if name.startswith("rnn.bias_ih"):
                value[shape[0] // 4 : shape[0] // 2] = 1.0
        else:
            bound = 1.0 / np.sqrt(shape[-1])
            value = generator.uniform(-bound, bound, shape).astype(np.float32)
        drawn[name] = jnp.asarray(value)
    return drawn


def paper_parameters() -> dict[str, np.ndarray]:
    """Starting values of the paper's network, as NumPy takes them."""
    return {name: np.asarray(value) for name, value in draw(parameter_shapes(LstmShape()), 0).items()}


def count(parameters: Parameters | dict[str, tuple[int, ...]]) -> int:
    """How many numbers all parameters hold together."""
    return sum(int(np.prod(p if isinstance(p, tuple) else p.shape)) for p in parameters.values())


def _gates(gate_x: jax.Array, h: jax.Array, c: jax.Array, recurrent: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """State, cell and the four activated gates (input, forget, cell, output) of one step."""
    i, f, g, o = jnp.split(gate_x + h @ recurrent, 4, axis=-1)
    i, f, g, o = jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)
    c = f * c + i * g
    return o * jnp.tanh(c), c, jnp.concatenate([i, f, g, o], axis=-1)


def _scan(step: Callable, start: jax.Array, inputs: Any, reverse: bool) -> Any:
    """`lax.scan` with a state of zeros; on a GPU eight steps in one pass of the loop, as starting a kernel takes longer than a step."""
    zero = jnp.zeros_like(start)
    return jax.lax.scan(step, (zero, zero), inputs, reverse=reverse, unroll=1 if jax.default_backend() == "cpu" else 8)[1]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def recurrence(gates_x: jax.Array, recurrent: jax.Array, reverse: bool) -> jax.Array:
    """The states h of one direction of a layer, from what its inputs add to the gates.

    c_t = f c_(t-1) + i g, h_t = o tanh(c_t), with i, f, o = sigmoid and g = tanh of gates_x + h_(t-1) recurrent.

    Args:
        gates_x: shape (length, batch, 4 hidden).
        recurrent: shape (hidden, 4 hidden).
        reverse: from the last to the first.
    """
    return _forward(gates_x, recurrent, reverse)[0]


def _forward(gates_x: jax.Array, recurrent: jax.Array, reverse: bool) -> tuple[jax.Array, tuple]:
    def step(state: tuple[jax.Array, jax.Array], gate_x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], tuple]:
        h, c, gates = _gates(gate_x, *state, recurrent)
        return (h, c), (h, c, gates)

    states, cells, gates = _scan(step, gates_x[0, :, : recurrent.shape[0]], gates_x, reverse)
    return states, (states, cells, gates, recurrent)


def _backward(reverse: bool, saved: tuple, d_states: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Gradients; that of the weights is one product behind the loop, where automatic differentiation has one in each step."""
    states, cells, gates, recurrent = saved
    pad = ((0, 1), (0, 0), (0, 0)) if reverse else ((1, 0), (0, 0), (0, 0))
    earlier_h, earlier_c = ((jnp.pad(x, pad)[1:] if reverse else jnp.pad(x, pad)[:-1]) for x in (states, cells))

    def step(later: tuple[jax.Array, jax.Array], at: tuple) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        (dh, dc), (given, c, before, gate) = later, at
        i, f, g, o = jnp.split(gate, 4, axis=-1)
        dh, bent = dh + given, jnp.tanh(c)
        dc = dc + dh * o * (1 - bent**2)
        d_gate = jnp.concatenate([dc * g * i * (1 - i), dc * before * f * (1 - f), dc * i * (1 - g**2), dh * bent * o * (1 - o)], axis=-1)
        return (d_gate @ recurrent.T, dc * f), d_gate

    d_gates = _scan(step, d_states[0], (d_states, cells, earlier_c, gates), not reverse)
    return d_gates, jnp.einsum("tbh,tbg->hg", earlier_h, d_gates)


recurrence.defvjp(_forward, _backward)


def instruction_vectors(parameters: Parameters, windows: jax.Array) -> jax.Array:
    """What the projection sees of each instruction: its categories' embeddings and its projected addresses, one behind the other.

    Without an embedding among the parameters: the scaled features themselves. Rows are picked by products with zeros and ones, as the
    gradient of a gather adds up one by one on a GPU.

    Source: NeuroScalar, section 3.1.2.
    """
    if "embedding.weight" not in parameters:
        return windows
    table, exact = parameters["embedding.weight"], jax.lax.Precision.HIGHEST
    places = windows[..., np.array(CATEGORICAL)].astype(jnp.int32)
    found = [
        jnp.matmul(jax.nn.one_hot(places[..., k], ROWS[k + 1] - ROWS[k], dtype=table.dtype), table[ROWS[k] : ROWS[k + 1]], precision=exact)
        for k in range(len(CATEGORICAL))
    ]
    addresses = jnp.matmul(windows[..., np.array(ADDRESSES)], parameters["address_proj.weight"].T, precision=exact)
    return jnp.concatenate([*found, addresses + parameters["address_proj.bias"]], axis=-1)


def encode(parameters: Parameters, windows: jax.Array, dropout: float = 0.0, key: jax.Array | None = None) -> jax.Array:
    """The backbone: projection, then the stacked layers. Layers and directions are read off the parameters' names.

    Args:
        parameters: as `draw(parameter_shapes(...))` gives.
        windows: shape (batch, length, inputs), scaled.
        dropout: share of a layer's outputs that training silences before the next layer.
        key: of the silencing; None for inference.
    Returns:
        shape (batch, length, width).
    """
    seen, exact = jnp.swapaxes(instruction_vectors(parameters, windows), 0, 1), jax.lax.Precision.HIGHEST
    x = jnp.matmul(seen, parameters["input_proj.weight"].T, precision=exact) + parameters["input_proj.bias"]
    layer = 0
    while f"rnn.weight_ih_l{layer}" in parameters:
        states = []
        for direction in ("", "_reverse"):
            suffix = f"_l{layer}{direction}"
            if f"rnn.weight_ih{suffix}" in parameters:
                bias = parameters[f"rnn.bias_ih{suffix}"] + parameters[f"rnn.bias_hh{suffix}"]
                gates_x = x @ parameters[f"rnn.weight_ih{suffix}"].T + bias
                states.append(recurrence(gates_x, parameters[f"rnn.weight_hh{suffix}"].T, bool(direction)))
        x = jnp.concatenate(states, axis=-1) if len(states) > 1 else states[0]
        layer += 1
        if key is not None and dropout > 0 and f"rnn.weight_ih_l{layer}" in parameters:
            kept = jax.random.bernoulli(jax.random.fold_in(key, layer), 1 - dropout, x.shape)
            x = jnp.where(kept, x / (1 - dropout), 0)
    return jnp.swapaxes(x, 0, 1)


def heads(parameters: Parameters, encoded: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Regressor for short latencies, regressor for long ones, and the classifier's two logits.

    Args:
        encoded: shape (batch, target, width): the middle of the windows.
    Returns:
        shapes (batch, target), (batch, target), (batch, target, 2); the first two are ln(1 + cycles).
    """
    hidden = jax.nn.relu(encoded @ parameters["cls_fc1.weight"].T + parameters["cls_fc1.bias"])
    logits = hidden @ parameters["cls_fc2.weight"].T + parameters["cls_fc2.bias"]
    short = (encoded @ parameters["output_layer_short.weight"].T + parameters["output_layer_short.bias"])[..., 0]
    long = (encoded @ parameters["output_layer_long.weight"].T + parameters["output_layer_long.bias"])[..., 0]
    return short, long, logits


def joint_loss(short: jax.Array, long: jax.Array, logits: jax.Array, target: jax.Array, is_long: jax.Array) -> jax.Array:
    """Squared error of the regressor of the true regime, plus cross-entropy of the classifier, averaged.

    The paper gives neither the distance nor the weight of the two terms; here the square of the error of ln(1 + cycles) and equal
    weights. With the absolute error, whose least is at the median, the network only ever said the most frequent latency, zero.

    Args:
        target: ln(1 + min(cycles, cap)).
        is_long: 1 above the threshold.
    Source: NeuroScalar, section 3.3.5.
    """
    chosen = jnp.where(is_long == 1, long, short)
    entropy = -jnp.take_along_axis(jax.nn.log_softmax(logits), is_long[..., None], axis=-1)[..., 0]
    return jnp.mean(jnp.square(chosen - target)) + jnp.mean(entropy)


def predicted_target(short: jax.Array, long: jax.Array, logits: jax.Array) -> jax.Array:
    """ln(1 + cycles): the regressor of the regime that the classifier holds likelier (NeuroScalar, section 3.3.2)."""
    return jnp.where(logits[..., 1] > logits[..., 0], long, short)
