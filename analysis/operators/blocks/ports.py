"""Throughput of a basic block as the load of its busiest resource, with the loads inferred from measured blocks.

A core has resources that are hidden: execution ports, sets of ports, the front end. An instruction i loads resource k for a_ik
cycles; a block takes as long as its busiest resource: max_k sum_i n_i a_ik. That is the dual of a port mapping: for every set Q of
ports, the micro-operations that can run nowhere else, divided by |Q|, bound the block from below, and the largest bound is the
throughput of the best schedule.
Source: Ritter and Hack 2020 (PMEvo), bottleneck throughput; Derumigny et al. 2022 (Palmed), conjunctive resources.
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
class PortSettings:
    """How the loads are fitted.

    Attributes:
        resources: hidden resources (count).
        own: penalty on what is an instruction's own, beyond its traits.
        shared: penalty on the traits.
        sparse: penalty on the sum of loads: an instruction that can do without a resource does.
        alone: weight of instructions measured by themselves, against blocks.
        steps: of Adam.
        rate: its first step size; it falls to zero along a cosine.
        sharp: exponents of the smooth maximum, first and last step; a larger one is closer to the maximum.
        members: fits from different starts, whose geometric mean is the answer.
    """

    resources: int = 12
    own: float = 0.3
    shared: float = 1e-3
    sparse: float = 0.01
    alone: float = 0.05
    steps: int = 1500
    rate: float = 0.03
    sharp: tuple[float, float] = (4.0, 40.0)
    members: int = 5


@dataclass(frozen=True)
class Ports:
    """Fitted loads.

    Attributes:
        loads: cycles by member, instruction and resource, shape (members, instructions, resources).
        sharp: exponent of the smooth maximum.
    """

    loads: Floats
    sharp: float


def smooth_maximum(loads: Any, exponent: Any) -> Any:
    """(sum_k l_k^p)^(1/p) along the last axis, scaled by the largest so that nothing overflows; tends to the maximum.

    Args:
        loads: more than zero somewhere in each row, shape (n, resources).
    """
    largest = loads.max(axis=-1, keepdims=True)
    return largest[..., 0] * ((loads / largest) ** exponent).sum(axis=-1) ** (1 / exponent)


def _loads(weights: dict[str, Any], traits: Any) -> Any:
    return jax.nn.softplus(weights["own"] + traits @ weights["shared"] + weights["base"])


def fit_member(counts: Floats, cycles: Floats, alone: Floats, traits: Floats, settings: PortSettings, seed: int) -> Floats:
    """Loads from one start: relative errors, rounded off near zero, by Adam, while the smooth maximum sharpens.

    Args:
        counts: shape (blocks, instructions).
        cycles: measured, shape (blocks,).
        alone: cycles of each instruction by itself, shape (instructions,); NaN where that is not known.
        traits: shape (instructions, traits).
    Returns:
        shape (instructions, resources).
    """
    rng = np.random.default_rng(seed)
    instructions, resources = counts.shape[1], settings.resources
    known = np.isfinite(alone)
    n, y, t = (jnp.asarray(values, jnp.float32) for values in (counts, cycles, traits))
    single, mask = jnp.asarray(np.where(known, alone, 1.0), jnp.float32), jnp.asarray(known / max(known.sum(), 1), jnp.float32)
    weights = {
        "own": jnp.asarray(rng.normal(0, 0.5, (instructions, resources)), jnp.float32),
        "shared": jnp.asarray(rng.normal(0, 0.5, (traits.shape[1], resources)), jnp.float32),
        "base": jnp.full(resources, -3.0, jnp.float32),
    }

    def rounded(error: Any) -> Any:
        return jnp.sqrt(error * error + 1e-3)

    def loss(weights: dict[str, Any], exponent: Any) -> Any:
        loads = _loads(weights, t)
        blocks = rounded(smooth_maximum(n @ loads, exponent) / y - 1).mean()
        singles = (mask * rounded(smooth_maximum(loads, exponent) / single - 1)).sum()
        own = (weights["own"] ** 2).sum(axis=1).mean()
        shared = (weights["shared"] ** 2).sum() / resources
        penalty = settings.own * own + settings.shared * shared + settings.sparse * loads.sum(axis=1).mean()
        return blocks + settings.alone * singles + penalty

    optimizer = optax.adam(optax.cosine_decay_schedule(settings.rate, settings.steps))

    @jax.jit
    def run(weights: Any, state: Any, exponents: Any) -> Any:
        def step(carry: Any, exponent: Any) -> Any:
            weights, state = carry
            updates, state = optimizer.update(jax.grad(loss)(weights, exponent), state)
            return (optax.apply_updates(weights, updates), state), None

        return jax.lax.scan(step, (weights, state), exponents)[0][0]

    exponents = jnp.geomspace(settings.sharp[0], settings.sharp[1], settings.steps, dtype=jnp.float32)
    return np.asarray(_loads(run(weights, optimizer.init(weights), exponents), t), dtype=float)


def fit(counts: Floats, cycles: Floats, alone: Floats, traits: Floats, settings: PortSettings, seed: int = 0) -> Ports:
    """Loads of all members; see `fit_member`."""
    members = [fit_member(counts, cycles, alone, traits, settings, 1000 * seed + member) for member in range(settings.members)]
    return Ports(np.array(members), settings.sharp[1])


def predict(ports: Ports, counts: Floats) -> Floats:
    """Throughput of blocks (cycles): the geometric mean of the members' answers, each cycles = max_k sum_i n_i a_ik.

    Args:
        ports: fitted loads.
        counts: shape (blocks, instructions).
    """
    answers = [smooth_maximum(counts @ loads, ports.sharp) for loads in ports.loads]
    return np.asarray(np.exp(np.mean(np.log(answers), axis=0)))


def bottleneck(ports: Ports, counts: Floats) -> NDArray[np.int64]:
    """The busiest resource of each block, in the first member."""
    return np.asarray((counts @ ports.loads[0]).argmax(axis=1))
