"""How is our network trained, and what does it predict for a trace?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from analysis.studies.cores.learning.corpus import TRAIN, VALIDATION, Program, instructions_of
from analysis.studies.cores.learning.lstm import Parameters
from analysis.studies.cores.learning.model_files import Trunk, expected_cycles, memory_width
from analysis.studies.cores.learning.program_features import BLOCK, CLASSES, NAMES, PLACES, ProgramFeatures
from analysis.studies.cores.learning.shared_trunk import TrunkShape, class_of, cross_entropy, logits, starting_values

WARM_UP = 64


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    Attributes:
        steps: parameter updates.
        batch: windows an update.
        window: instructions with loss in a window, behind `WARM_UP` without.
        rate: largest learning rate; rises for a twentieth of the steps, then falls as a cosine.
        withheld: share of windows from which the memory of their code is withheld, so that unseen code is predicted as well; 1: no memory.
        checks: how often validation looks; the best of its looks is kept (early stopping).
    """

    steps: int = 400
    batch: int = 64
    window: int = 192
    rate: float = 3e-3
    withheld: float = 0.4
    checks: int = 4


@dataclass(frozen=True)
class Trained:
    """A network and how its training went: validation loss at each look, and the step of the one kept."""

    trunk: Trunk
    validation: tuple[float, ...]
    kept_step: int


@dataclass(frozen=True)
class RetirePrediction:
    """Cycles since the previous instruction retired, as predicted: shape (n, designs) each.

    Attributes:
        likely: of the most likely class, whole cycles (of the class that the first-order model says: the first-order model's cycles).
        expected: the first-order model's cycles and the mean residual of the place; the sum is the predicted cycles of the run.
        own: mean of the network's distribution over the classes, each at its mean in training (that of the first-order model at the
            first-order model's cycles); what the network itself says of the cycles, and no part of `expected`.
    """

    likely: NDArray[np.int32]
    expected: NDArray[np.float32]
    own: NDArray[np.float32]


Batch = tuple[NDArray, ...]


def _gather(programs: Sequence[Program], which: NDArray[np.int64], starts: NDArray[np.int64], length: int, latencies: bool) -> Batch:
    """Windows as (numbers, opclass, place, steps of the first-order models, classes), time first; zeros in front of a trace."""
    designs = programs[0].features.step.shape[1]
    numbers = np.zeros((length, len(starts), len(NAMES) + 2 * designs), np.float16)
    step = np.zeros((length, len(starts), designs), np.uint16)
    opclass = np.zeros((length, len(starts)), np.int32)
    place = np.zeros((length, len(starts)), np.int32)
    classes = np.zeros((length, len(starts), programs[0].latency.shape[1] if latencies else 0), np.int32)
    for b in range(len(starts)):
        one, start = programs[int(which[b])], int(starts[b])
        low, high = max(start, 0), min(start + length, len(one.pc))
        into = slice(low - start, high - start)
        numbers[into, b, : len(NAMES)] = one.features.numbers[low:high]
        numbers[into, b, len(NAMES) :] = one.features.first_order[low:high]
        step[into, b] = one.features.step[low:high]
        opclass[into, b] = one.features.opclass[low:high]
        place[into, b] = one.features.place[low:high]
        if latencies:
            classes[into, b] = CLASSES.of(one.latency[low:high])
    return numbers, opclass, place, step, classes


def _starts(parts: Sequence[NDArray[np.int8]], part: int, sizes: Sequence[int], window: int) -> tuple[NDArray, NDArray]:
    """Program and first instruction of every window that tiles the blocks of one part."""
    which, starts = [], []
    for k, (blocks, size) in enumerate(zip(parts, sizes, strict=True)):
        for block in np.flatnonzero(blocks == part).tolist():
            first = np.arange(block * BLOCK, min((block + 1) * BLOCK, size) - window + 1, window)
            which.append(np.full(len(first), k))
            starts.append(first)
    return np.concatenate(which).astype(np.int64), np.concatenate(starts).astype(np.int64)


def remember(places: NDArray[np.int32], latency: NDArray[np.int64]) -> NDArray[np.float16]:
    """Memory of the code of a training set: at each place ln(1 + mean latency) and share of zeros by design, and ln(1 + count) / 10.

    Both means are drawn to zero by two imagined sightings; a place never seen has zeros only.

    Args:
        places: shape (n,).
        latency: shape (n, designs).
    """
    seen = np.bincount(places, minlength=PLACES)
    columns = [np.log1p(np.bincount(places, weights=latency[:, d], minlength=PLACES) / (seen + 2)) for d in range(latency.shape[1])]
    columns += [np.bincount(places, weights=latency[:, d] == 0, minlength=PLACES) / (seen + 2) for d in range(latency.shape[1])]
    return np.stack([*columns, np.log1p(seen) / 10], axis=1).astype(np.float16)


def residuals(places: NDArray[np.int32], gap: NDArray[np.int64]) -> NDArray[np.float16]:
    """Mean gap at each place on each design, drawn to zero by eight imagined sightings; zero at a place never seen.

    Args:
        places: shape (n,).
        gap: true less first-order cycles, shape (n, designs).
    """
    seen = np.bincount(places, minlength=PLACES)
    sums = [np.bincount(places, weights=gap[:, d], minlength=PLACES) / (seen + 8) for d in range(gap.shape[1])]
    return np.stack(sums, axis=1).astype(np.float16)


def follows(said: NDArray[np.int32], classes: NDArray[np.int32], weight: float = 4.0) -> NDArray[np.float32]:
    """ln p(class | class that the first-order model says) in a training set, shape (classes, classes).

    Every row is drawn to the frequencies of all classes, with a small share for the first-order model's own class, by
    `weight` imagined sightings.
    """
    counts = np.bincount(said * np.int64(CLASSES.count) + classes, minlength=CLASSES.count**2).reshape(CLASSES.count, -1).astype(float)
    overall = (counts.sum(axis=0) + 1) / (counts.sum() + CLASSES.count)
    prior = (overall + np.eye(CLASSES.count)) / 2
    counts += weight * prior
    return np.log(counts / counts.sum(axis=1, keepdims=True)).astype(np.float32)


@cache
def _steps(steps: int, rate: float, designs: int) -> tuple[optax.GradientTransformation, Callable, Callable]:
    """Optimiser, one update and the loss, compiled once for all seeds."""
    rates = optax.warmup_cosine_decay_schedule(0.0, rate, max(1, steps // 20), steps + 1, rate / 100)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.flatten(optax.adam(rates)))  # one vector: half as much to compile

    def loss_of(
        p: Parameters, numbers: jax.Array, opclass: jax.Array, remembered: jax.Array, step: jax.Array, classes: jax.Array
    ) -> jax.Array:
        return cross_entropy(logits(p, numbers, opclass, remembered, step, designs)[WARM_UP:], classes[WARM_UP:])

    def update(p: Parameters, state: optax.OptState, *batch: jax.Array) -> tuple[Parameters, optax.OptState]:
        change, state = optimiser.update(jax.grad(loss_of)(p, *batch), state, p)
        return optax.apply_updates(p, change), state

    return optimiser, jax.jit(update), jax.jit(loss_of)


def train(
    programs: Sequence[Program],
    parts: Sequence[NDArray[np.int8]],
    designs: Sequence[str],
    shape: TrunkShape | None = None,
    schedule: Schedule | None = None,
    seed: int = 0,
) -> Trained:
    """Train on the training blocks, keep the parameters with the least cross-entropy on the validation blocks.

    Args:
        programs: with latencies on the same designs.
        parts: what each block of each program is for, as `split_blocks` gives.
        designs: name of each column of the latencies.
        shape, schedule: size of the network and length of training.
        seed: of the starting values and of the order.
    """
    schedule = schedule or Schedule()
    shape = shape or TrunkShape(len(designs))
    sizes = [len(p) for p in programs]
    train_mask = [instructions_of(blocks, TRAIN, size) for blocks, size in zip(parts, sizes, strict=True)]
    latency = np.concatenate([p.latency[m] for p, m in zip(programs, train_mask, strict=True)])
    class_means = np.stack([CLASSES.means(latency[:, d]) for d in range(len(designs))])
    steps = np.concatenate([p.features.step[m] for p, m in zip(programs, train_mask, strict=True)])
    places = np.concatenate([p.features.place[m] for p, m in zip(programs, train_mask, strict=True)])
    memory, residual = remember(places, latency), residuals(places, latency - steps)
    assert memory.shape[1] == memory_width(len(designs))
    if schedule.withheld >= 1:  # the weights of the memory are never trained, so it must be empty whenever the network is asked
        memory, residual = np.zeros_like(memory), np.zeros_like(residual)

    parameters = starting_values(shape, seed)
    rows = [follows(CLASSES.of(steps[:, d]), CLASSES.of(latency[:, d])) for d in range(len(designs))]
    parameters["sketch"] = jnp.asarray(np.stack(rows))
    optimiser, update, look = _steps(schedule.steps, schedule.rate, len(designs))
    length = WARM_UP + schedule.window

    def batch_of(which: NDArray[np.int64], starts: NDArray[np.int64], use: NDArray[np.bool_]) -> Batch:
        numbers, opclass, place, step, classes = _gather(programs, which, starts - WARM_UP, length, True)
        return numbers, opclass, memory[place] * use[None, :, None], step, classes

    generator = np.random.default_rng(seed)
    which, starts = _starts(parts, TRAIN, sizes, schedule.window)
    check_which, check_starts = _starts(parts, VALIDATION, sizes, schedule.window)
    chosen = np.random.default_rng(0).permutation(len(check_starts))[: 8 * schedule.batch]
    chosen = chosen[: max(1, len(chosen) // schedule.batch) * schedule.batch]

    def validation_loss(p: Parameters) -> float:
        total = []
        for piece in np.array_split(chosen, max(1, len(chosen) // schedule.batch)):
            total.append(float(look(p, *batch_of(check_which[piece], check_starts[piece], np.ones(len(piece), bool)))))
        return float(np.mean(total))

    state = optimiser.init(parameters)
    order = generator.permutation(len(starts))
    position, best, losses, kept, kept_step = 0, np.inf, [], parameters, 0
    for step in range(1, schedule.steps + 1):
        if position + schedule.batch > len(order):
            order, position = generator.permutation(len(starts)), 0
        picked = order[position : position + schedule.batch]
        if len(picked) < schedule.batch:
            picked = generator.integers(0, len(starts), schedule.batch)
        position += schedule.batch
        shift = generator.integers(-schedule.window // 2, 1, len(picked))  # other windows each time, never past the block
        first = np.maximum(starts[picked] + shift, starts[picked] // BLOCK * BLOCK)
        batch = batch_of(which[picked], first, generator.random(len(picked)) >= schedule.withheld)
        parameters, state = update(parameters, state, *batch)
        if step % max(1, schedule.steps // schedule.checks) == 0 or step == schedule.steps:
            losses.append(validation_loss(parameters))
            if losses[-1] < best:
                best, kept, kept_step = losses[-1], parameters, step
    return Trained(Trunk(kept, tuple(designs), class_means, memory, residual), tuple(losses), kept_step)


@partial(jax.jit, static_argnames="designs")
def _classes(
    p: Parameters, means: jax.Array, numbers: jax.Array, opclass: jax.Array, remembered: jax.Array, step: jax.Array, designs: int
) -> tuple[jax.Array, jax.Array]:
    """The most likely class, and the mean of the distribution with the first-order model's class at its cycles."""
    scores = logits(p, numbers, opclass, remembered, step, designs)
    shares = jax.nn.softmax(scores, axis=-1)
    said = class_of(step)
    mean = (shares * means).sum(axis=-1)
    correction = jnp.take_along_axis(shares, said[..., None], axis=-1)[..., 0] * (step - means[jnp.arange(designs), said])
    return jnp.argmax(scores, axis=-1), mean + correction


def predict(trunk: Trunk, features: ProgramFeatures, blocks: NDArray[np.int64] | None = None, batch: int = 32) -> RetirePrediction:
    """Predicted latencies of a trace, or of some of its blocks (in their order).

    Every block of `BLOCK` instructions is run by itself, behind four times `WARM_UP` instructions that come before it.

    Args:
        features: of the whole trace.
        blocks: numbers of the blocks; default all.
        batch: blocks at a time.
    """
    n = len(features.opclass)
    total = -(-n // BLOCK)
    blocks = np.arange(total) if blocks is None else np.asarray(blocks, dtype=np.int64)
    lead = 4 * WARM_UP
    holder = [Program("", np.zeros(n, np.int64), np.zeros((0, 13), np.float32), features, np.zeros((0, 0), np.int64))]
    whole = np.rint(trunk.class_means).astype(np.int32)
    likely, expected, own = [], [], []
    for first in range(0, len(blocks), batch):
        piece = blocks[first : first + batch]
        padded = np.concatenate([piece, np.full(batch - len(piece), piece[-1])]) if len(blocks) > batch else piece
        starts = padded * BLOCK - lead
        numbers, opclass, place, step, _ = _gather(holder, np.zeros(len(padded), np.int64), starts, lead + BLOCK, False)
        found = _classes(trunk.parameters, trunk.class_means, numbers, opclass, trunk.memory[place], step, len(trunk.designs))
        best, mean = (np.asarray(part)[lead:] for part in found)
        for b, block in enumerate(piece.tolist()):
            length = min(BLOCK, n - block * BLOCK)
            here = slice(block * BLOCK, block * BLOCK + length)
            said = features.step[here]
            classes = np.take_along_axis(whole, best[:length, b].T, axis=1).T
            likely.append(np.where(best[:length, b] == CLASSES.of(said), said, classes).astype(np.int32))
            expected.append(expected_cycles(trunk, features, here))
            own.append(mean[:length, b].astype(np.float32))
    return RetirePrediction(np.concatenate(likely), np.concatenate(expected), np.concatenate(own))


def without_memory(trunk: Trunk) -> Trunk:
    """The same network, forgetting the code it has seen."""
    return replace(trunk, memory=np.zeros_like(trunk.memory), residual=np.zeros_like(trunk.residual))
