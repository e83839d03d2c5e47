"""Our network: program features, one causal recurrent trunk, a head for each design.

Each head gives a distribution over latency classes, whose most likely class is the predicted latency of the instruction. The network
starts as the first-order model of each design and learns what the first-order model gets wrong.

What is remembered of code seen in training (its mean latencies) is an input; it is withheld from some training windows, and is empty
for code never seen, so that the same network predicts both.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from analysis.studies.cores.learning.lstm import Parameters
from analysis.studies.cores.learning.model_files import TrunkShape, trunk_shapes
from analysis.studies.cores.learning.program_features import CLASSES


def _gru(x: jax.Array, p: Parameters) -> jax.Array:
    """h_t = (1 - z) n + z h_(t-1), with r, z = sigmoid(W x + U h), n = tanh(W x + r (U h + b)); x and result (length, batch, .)."""
    hidden = p["gru.weight_hh"].shape[1]
    gates_x = x @ p["gru.weight_ih"].T + p["gru.bias_ih"]
    recurrent = p["gru.weight_hh"].T

    def step(h: jax.Array, gx: jax.Array) -> tuple[jax.Array, jax.Array]:
        gh = h @ recurrent
        r = jax.nn.sigmoid(gx[:, :hidden] + gh[:, :hidden])
        z = jax.nn.sigmoid(gx[:, hidden : 2 * hidden] + gh[:, hidden : 2 * hidden])
        n = jnp.tanh(gx[:, 2 * hidden :] + r * (gh[:, 2 * hidden :] + p["gru.bias_hn"]))
        h = (1 - z) * n + z * h
        return h, h

    return jax.lax.scan(step, jnp.zeros((x.shape[1], hidden), x.dtype), gates_x)[1]


def logits(p: Parameters, numbers: jax.Array, opclass: jax.Array, remembered: jax.Array, step: jax.Array, designs: int) -> jax.Array:
    """Unnormalised log-probability of each class for each design: of the first-order model's class, and what the network adds.

    Args:
        numbers: features and logarithms of the first-order models, shape (length, batch, len(NAMES) + 2 designs).
        opclass: shape (length, batch).
        remembered: what training saw at this place in the code, zeros where nothing (or withheld), shape (length, batch, memory_width).
        step: cycles that the first-order model of each design says, shape (length, batch, designs).
        designs: heads.
    Returns:
        shape (length, batch, designs, classes).
    """
    inputs = [numbers.astype(jnp.float32), p["opclass"][opclass], remembered.astype(jnp.float32)]
    mixed = jax.nn.relu(jnp.concatenate(inputs, axis=-1) @ p["mix.weight"].T + p["mix.bias"])
    joined = jnp.concatenate([_gru(mixed, p), mixed], axis=-1)
    joined = jax.nn.relu(joined @ p["join.weight"].T + p["join.bias"])
    out = joined @ p["heads.weight"].T + p["heads.bias"]
    return out.reshape(*out.shape[:-1], designs, -1) + p["sketch"][jnp.arange(designs), class_of(step)]


def cross_entropy(scores: jax.Array, classes: jax.Array) -> jax.Array:
    """Mean negative log-likelihood of the true classes (nats).

    Args:
        scores: shape (length, batch, designs, classes).
        classes: shape (length, batch, designs).
    """
    chosen = jnp.take_along_axis(scores, classes[..., None], axis=-1)[..., 0]
    return jnp.mean(jax.nn.logsumexp(scores, axis=-1) - chosen)


def class_of(step: jax.Array) -> jax.Array:
    """Latency class of some cycles (`LatencyClasses.of`)."""
    return jnp.searchsorted(jnp.asarray(CLASSES.edges), step.astype(jnp.int32), side="right") - 1


def starting_values(shape: TrunkShape, seed: int) -> Parameters:
    """Matrices uniform within 1 / sqrt(inputs), the embedding normal with deviation 0.1, biases zero."""
    generator = np.random.default_rng(seed)
    drawn = {}
    for name, size in trunk_shapes(shape).items():
        if len(size) == 1 or name == "sketch":
            value = np.zeros(size)
        elif name == "opclass":
            value = generator.normal(0, 0.1, size)
        else:
            value = generator.uniform(-1, 1, size) / np.sqrt(size[-1])
        drawn[name] = jnp.asarray(value.astype(np.float32))
    return drawn
