"""Throughput of a basic block as the load of its busiest resource, with the loads inferred from measured blocks.

A core has resources that are hidden: execution ports, sets of ports, the front end. An instruction i loads resource k for a_ik
cycles; a block takes as long as its busiest resource: max_k sum_i n_i a_ik. That is the dual of a port mapping: for every set Q of
ports, the micro-operations that can run nowhere else, divided by |Q|, bound the block from below, and the largest bound is the
throughput of the best schedule.
Source: Ritter and Hack 2020 (PMEvo), bottleneck throughput; Derumigny et al. 2022 (Palmed), conjunctive resources.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

ROUNDED = 1e-3
"""Added to a squared relative error before its root is taken: near zero the error counts as its square."""
FORGET, FORGET_SQUARES, TINY = 0.9, 0.999, 1e-8
"""Adam's: how fast the means of gradients and of their squares forget, and what keeps a step finite (Kingma and Ba 2015)."""


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


def smooth_maximum(loads: Floats, exponent: float) -> Floats:
    """(sum_k l_k^p)^(1/p) along the last axis, scaled by the largest so that nothing overflows; tends to the maximum.

    Args:
        loads: more than zero somewhere in each row, shape (n, resources).
    """
    largest = loads.max(axis=-1, keepdims=True)
    return np.asarray(largest[..., 0] * ((loads / largest) ** exponent).sum(axis=-1) ** (1 / exponent))


def loss_gradient(loads: Singles, exponent: np.float32, measured: Singles, weights: Singles) -> Singles:
    """Gradient by the loads of the weighted sum of sqrt(e^2 + `ROUNDED`), e the relative errors of the smooth maximum.

    With shares r_k = (l_k / M)^p, which sum to one, the smooth maximum M has the gradient dM / dl_k = r_k M / l_k.

    Args:
        loads: more than zero, shape (n, resources).
        measured: cycles, shape (n,).
        weights: shape (n,).
    """
    largest = loads.max(axis=1, keepdims=True)
    shares = (loads / largest) ** exponent
    sums = shares.sum(axis=1, keepdims=True)
    smooth = largest * sums ** (1 / exponent)
    errors = smooth[:, 0] / measured - 1
    rounded = np.sqrt(errors * errors + np.float32(ROUNDED))
    by_smooth = weights * errors / (rounded * measured)
    return shares / sums * (smooth / loads) * by_smooth[:, None]


def fit_member(counts: Floats, cycles: Floats, alone: Floats, traits: Floats, settings: PortSettings, seed: int) -> Floats:
    """Loads from one start: relative errors, rounded off near zero, by Adam, while the smooth maximum sharpens.

    The loads are softplus(own + traits @ shared + base), in single precision.

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
    n, y, t = (values.astype(np.float32) for values in (counts, cycles, traits))
    single = np.where(known, alone, 1.0).astype(np.float32)
    by_block = np.full(len(y), 1 / len(y), np.float32)
    by_single = (settings.alone * known / max(known.sum(), 1)).astype(np.float32)
    sparse, own_penalty, shared_penalty = np.array(
        [settings.sparse / instructions, 2 * settings.own / instructions, 2 * settings.shared / resources], np.float32
    )
    own = rng.normal(0, 0.5, (instructions, resources)).astype(np.float32)
    shared = rng.normal(0, 0.5, (traits.shape[1], resources)).astype(np.float32)
    weights = [own, shared, np.full(resources, -3.0, np.float32)]
    means, squares = [np.zeros_like(one) for one in weights], [np.zeros_like(one) for one in weights]

    def loads() -> Singles:
        return np.logaddexp(own + t @ shared + weights[2], np.float32(0))

    for step, exponent in enumerate(np.geomspace(*settings.sharp, settings.steps, dtype=np.float32)):
        now = loads()
        by_load = n.T @ loss_gradient(n @ now, exponent, y, by_block) + loss_gradient(now, exponent, single, by_single) + sparse
        by_sum = by_load * (1 - np.exp(-now))
        gradients = [by_sum + own_penalty * own, t.T @ by_sum + shared_penalty * shared, by_sum.sum(axis=0)]
        rate = settings.rate * (1 + np.cos(np.pi * step / settings.steps)) / 2 / (1 - FORGET ** (step + 1))
        grown = np.float32(1 / (1 - FORGET_SQUARES ** (step + 1)))
        for weight, gradient, mean, square in zip(weights, gradients, means, squares, strict=True):
            mean += np.float32(1 - FORGET) * (gradient - mean)
            square += np.float32(1 - FORGET_SQUARES) * (gradient * gradient - square)
            weight -= np.float32(rate) * mean / (np.sqrt(grown * square) + np.float32(TINY))
    return loads().astype(float)


def fit(counts: Floats, cycles: Floats, alone: Floats, traits: Floats, settings: PortSettings, seed: int = 0) -> Ports:
    """Loads of all members; see `fit_member`."""
    with threadpool_limits(1):
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
