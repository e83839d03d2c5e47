"""A graph network on basic blocks: instructions exchange messages, each is decoded to its share of the cycles, and shares are added.

h_i <- h_i + f([h_i, g]) with g = sum_j n_j h_j, repeated; cycles = sum_i n_i softplus(d(h_i)).
The blocks measured here have no dependencies, so that the graph of a block is complete: the message of the others is their sum.
Source: Sykora et al. 2022 (GRANITE), section 3: node updates from aggregated messages, one decoded contribution an instruction, summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GraphNetSettings:
    """How the network is built and trained.

    Attributes:
        width: of the states (count).
        rounds: of messages.
        decay: weight decay of AdamW.
        steps: of AdamW.
        rate: its first step size; it falls to zero along a cosine.
    """

    width: int = 32
    rounds: int = 2
    decay: float = 1e-2
    steps: int = 1200
    rate: float = 5e-3


def initial(instructions: int, traits: int, settings: GraphNetSettings, seed: int) -> dict[str, Any]:
    """Weights: an embedding of each instruction and each trait, one layer pair a round, and the decoder."""
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        return jnp.asarray(rng.normal(0, shape[0] ** -0.5, shape), jnp.float32)

    w = settings.width
    weights: dict[str, Any] = {
        "own": 0.1 * draw(instructions, w),
        "traits": draw(traits, w) * traits**0.5 * 0.1,
        "decode": draw(w, w),
        "out": draw(w, 1),
    }
    for round_ in range(settings.rounds):
        weights[f"in{round_}"], weights[f"mid{round_}"] = draw(2 * w, w), 0.1 * draw(w, w)
    return weights


def apply(weights: dict[str, Any], members: Any, present: Any, traits: Any, rounds: int) -> Any:
    """Cycles of blocks.

    Args:
        members: instruction numbers by block and place, shape (blocks, places).
        present: how often the instruction at each place occurs, zero for padding; same shape.
        traits: shape (instructions, traits).
    """
    state = (weights["own"] + traits @ weights["traits"])[members]
    for round_ in range(rounds):
        others = (present[..., None] * state).sum(axis=1, keepdims=True)
        message = jnp.concatenate([state, jnp.broadcast_to(others, state.shape)], axis=-1)
        state = state + jax.nn.relu(message @ weights[f"in{round_}"]) @ weights[f"mid{round_}"]
    share = jax.nn.softplus(jax.nn.relu(state @ weights["decode"]) @ weights["out"])[..., 0]
    return (present * share).sum(axis=1)


def places(counts: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Blocks as padded lists: instruction numbers and how often each occurs.

    Args:
        counts: shape (blocks, instructions).
    """
    longest = int((counts > 0).sum(axis=1).max())
    order = np.argsort(-counts, axis=1, kind="stable")[:, :longest]
    return order, np.take_along_axis(counts, order, axis=1)


def fit_predict(counts: Floats, cycles: Floats, traits: Floats, wanted: Floats, settings: GraphNetSettings, seed: int = 0) -> Floats:
    """Train on measured blocks and predict others.

    Args:
        counts: shape (blocks, instructions).
        traits: shape (instructions, traits).
        wanted: counts of the blocks to predict.
    """
    members, present = (jnp.asarray(values) for values in places(counts))
    y, t = jnp.asarray(cycles, jnp.float32), jnp.asarray(traits, jnp.float32)
    present = present.astype(jnp.float32)
    weights = initial(counts.shape[1], traits.shape[1], settings, seed)

    def loss(weights: Any) -> Any:
        error = apply(weights, members, present, t, settings.rounds) / y - 1
        return jnp.sqrt(error * error + 1e-3).mean()

    optimizer = optax.adamw(optax.cosine_decay_schedule(settings.rate, settings.steps), weight_decay=settings.decay)

    @jax.jit
    def run(weights: Any, state: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            weights, state = carry
            updates, state = optimizer.update(jax.grad(loss)(weights), state, weights)
            return (optax.apply_updates(weights, updates), state), None

        return jax.lax.scan(step, (weights, state), length=settings.steps)[0][0]

    weights = run(weights, optimizer.init(weights))
    members, present = (jnp.asarray(values) for values in places(wanted))
    return np.asarray(apply(weights, members, present.astype(jnp.float32), t, settings.rounds), dtype=float)
