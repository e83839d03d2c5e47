"""NeuroScalar's network: a stacked LSTM over a window, a two-way classifier and one regressor for each regime.

The paper's text says bidirectional, its parameter table is the one-directional network (1,073,348 parameters); both are here.
Names and shapes of the parameters are those of the paper's appendix.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def lstm_layer(x: jax.Array, weight_ih: jax.Array, weight_hh: jax.Array, bias: jax.Array, reverse: bool, unroll: int = 1) -> jax.Array:
    """One direction of one layer; gates in the order input, forget, cell, output.

    c_t = f c_(t-1) + i g, h_t = o tanh(c_t), with i, f, o = sigmoid and g = tanh of W_ih x_t + W_hh h_(t-1) + bias.

    Args:
        x: shape (length, batch, width).
        weight_ih, weight_hh: shapes (4 hidden, width) and (4 hidden, hidden).
        bias: sum of both biases, shape (4 hidden,).
        reverse: from the last to the first.
    Returns:
        shape (length, batch, hidden), in the order of x.
    """
    hidden = weight_hh.shape[1]
    gates_x = x @ weight_ih.T + bias
    recurrent = weight_hh.T

    def step(state: tuple[jax.Array, jax.Array], gate_x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        h, c = state
        gates = gate_x + h @ recurrent
        i, f, g, o = (gates[:, k * hidden : (k + 1) * hidden] for k in range(4))
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], hidden), x.dtype)
    _, states = jax.lax.scan(step, (zero, zero), gates_x, reverse=reverse, unroll=unroll)
    return states


def instruction_vectors(parameters: Parameters, windows: jax.Array) -> jax.Array:
    """What the projection sees of each instruction: its categories' embeddings and its projected addresses, one behind the other.

    Without an embedding among the parameters: the scaled features themselves.

    Source: NeuroScalar, section 3.1.2.
    """
    if "embedding.weight" not in parameters:
        return windows
    found = parameters["embedding.weight"][windows[..., np.array(CATEGORICAL)].astype(jnp.int32) + ROWS[:-1]]
    addresses = windows[..., np.array(ADDRESSES)] @ parameters["address_proj.weight"].T + parameters["address_proj.bias"]
    return jnp.concatenate([found.reshape(*windows.shape[:-1], -1), addresses], axis=-1)


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
    x = jnp.swapaxes(instruction_vectors(parameters, windows), 0, 1) @ parameters["input_proj.weight"].T + parameters["input_proj.bias"]
    layer = 0
    while f"rnn.weight_ih_l{layer}" in parameters:
        states = []
        for direction in ("", "_reverse"):
            suffix = f"_l{layer}{direction}"
            if f"rnn.weight_ih{suffix}" in parameters:
                bias = parameters[f"rnn.bias_ih{suffix}"] + parameters[f"rnn.bias_hh{suffix}"]
                weights = parameters[f"rnn.weight_ih{suffix}"], parameters[f"rnn.weight_hh{suffix}"]
                states.append(lstm_layer(x, *weights, bias, reverse=bool(direction)))
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
