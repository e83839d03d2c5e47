"""A network that knows a device by its latencies of ten architectures, after HELP: trained on sources, tuned on samples."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from numpy.typing import NDArray

from analysis.statistics import spearman
from analysis.studies.kernels.networks.few_shot_spaces import Space
from analysis.studies.kernels.networks.few_shot_trial import MEASURED_PER_SOURCE

Floats = NDArray[np.float64]
Weights = dict[str, Any]

HIDDEN = 64
BATCH = 64
STEPS = 1500
RATE = 2e-3
TUNING_STEPS = 30
TUNING_RATE = 1e-3


def initial(inputs: int, seed: int) -> Weights:
    """Weights of three layers, drawn with a spread of 1 / sqrt(fan-in)."""
    rng = np.random.default_rng(seed)
    sizes = [inputs, HIDDEN, HIDDEN, 1]
    return {
        f"layer{i}": (jnp.asarray(rng.normal(0, a**-0.5, (a, b)), jnp.float32), jnp.zeros(b, jnp.float32))
        for i, (a, b) in enumerate(pairwise(sizes))
    }


def apply(weights: Weights, features: Any, device: Any) -> Any:
    """Standardized latency: three layers on the architecture's features beside the device's reference latencies.

    Args:
        features: shape (n, d).
        device: shape (references,).
    """
    h = jnp.concatenate([features, jnp.broadcast_to(device, (len(features), len(device)))], axis=1)
    for i in range(3):
        w, b = weights[f"layer{i}"]
        h = h @ w + b
        h = jax.nn.relu(h) if i < 2 else h
    return h[:, 0]


def _loss(weights: Weights, features: Any, device: Any, targets: Any) -> Any:
    return jnp.mean((apply(weights, features, device) - targets) ** 2)


def train(features: Floats, targets: Floats, devices: Floats, seed: int) -> Weights:
    """Weights from the sources: each step a batch of architectures on each source.

    Args:
        features: of the measured architectures, shape (sources, measured, d).
        targets: standardized latencies, shape (sources, measured).
        devices: reference latencies, shape (sources, references).
    """
    x, y, z = (jnp.asarray(values, jnp.float32) for values in (features, targets, devices))
    optimizer = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))
    weights = initial(x.shape[2] + z.shape[1], seed)

    def total(weights: Weights, rows: Any) -> Any:
        return jnp.mean(jax.vmap(lambda xd, zd, yd: _loss(weights, xd[rows], zd, yd[rows]))(x, z, y))

    @jax.jit
    def run(weights: Weights, state: Any, keys: Any) -> Any:
        def step(carry: Any, key: Any) -> Any:
            weights, state = carry
            rows = jax.random.randint(key, (BATCH,), 0, x.shape[1])
            updates, state = optimizer.update(jax.grad(total)(weights, rows), state)
            return (optax.apply_updates(weights, updates), state), None

        return jax.lax.scan(step, (weights, state), keys)[0][0]

    trained: Weights = run(weights, optimizer.init(weights), jax.random.split(jax.random.PRNGKey(seed), STEPS))
    return trained


def tune(weights: Weights, features: Floats, targets: Floats, device: Floats) -> Weights:
    """Weights after a few steps on the samples of the new device."""
    x, y, z = (jnp.asarray(values, jnp.float32) for values in (features, targets, device))
    optimizer = optax.adam(TUNING_RATE)
    state = optimizer.init(weights)
    for _ in range(TUNING_STEPS):
        updates, state = optimizer.update(jax.grad(_loss)(weights, x, z, y), state)
        weights = optax.apply_updates(weights, updates)
    return weights


def meta_scores(space: Space, seed: int, count: int) -> pd.DataFrame:
    """The new devices by the meta-trained network; the samples are the reference architectures, so that nothing else is measured.

    Args:
        seed: of the draws; the measured architectures are those of the other methods.
    """
    rng = np.random.default_rng(seed)
    measured = {device: rng.permutation(len(space.features))[:MEASURED_PER_SOURCE] for device in space.sources}
    samples = rng.permutation(len(space.features))[:count]

    def standard(values: Floats, by: Floats) -> Floats:
        return (values - by.mean()) / by.std()

    latency = space.latency_ms
    x = np.array([space.features[measured[device]] for device in space.sources])
    y = np.array([standard(latency[device][measured[device]], latency[device][samples]) for device in space.sources])
    z = np.array([standard(latency[device][samples], latency[device][samples]) for device in space.sources])
    weights = train(x, np.clip(y, -6, 6), z, seed)
    features = jnp.asarray(space.features, jnp.float32)
    rows = []
    for device in space.new:
        truth = latency[device]
        known = standard(truth[samples], truth[samples])
        tuned = tune(weights, space.features[samples], known, known)
        predicted_ms = np.asarray(apply(tuned, features, jnp.asarray(known, jnp.float32))) * truth[samples].std() + truth[samples].mean()
        rest = np.ones(len(truth), dtype=bool)
        rest[samples] = False
        rows.append(
            {
                "space": space.name,
                "device": device,
                "method": "meta",
                "samples": count,
                "spearman": spearman(truth[rest], predicted_ms[rest]),
                "median_error": float(np.median(np.abs(predicted_ms[rest] / truth[rest] - 1))),
                "seed": seed,
            }
        )
    return pd.DataFrame(rows)
