"""How is our network trained, and what does it predict for a trace?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from analysis.cores.corpus import BLOCK, TRAIN, VALIDATION, Program, instructions_of
from analysis.cores.latency_target import LatencyClasses
from analysis.cores.lstm import Parameters
from analysis.cores.program_features import NAMES, PC_BUCKETS, ProgramFeatures
from analysis.cores.shared_trunk import TrunkShape, cross_entropy, logits, starting_values

WARM_UP = 64
CLASSES = LatencyClasses()


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    Attributes:
        steps: parameter updates.
        batch: windows an update.
        window: instructions with loss in a window, behind `WARM_UP` without.
        rate: largest learning rate; rises for a twentieth of the steps, then falls as a cosine.
        withheld: share of windows whose places in the code are withheld, so that unseen code is predicted as well.
        checks: how often validation looks; the best of its looks is kept (early stopping).
    """

    steps: int = 400
    batch: int = 64
    window: int = 192
    rate: float = 3e-3
    withheld: float = 0.3
    checks: int = 4


@dataclass(frozen=True)
class Trunk:
    """A trained network, all that prediction needs.

    Attributes:
        parameters: by name.
        designs: name of each head.
        class_means: mean latency of each class on each design in training, float32 (designs, classes).
        known: whether a place in the code was seen in training, float32 (PC_BUCKETS,).
    """

    parameters: Parameters
    designs: tuple[str, ...]
    class_means: NDArray[np.float32]
    known: NDArray[np.float32]


@dataclass(frozen=True)
class Trained:
    """A network and how its training went: validation loss at each look, and the step of the one kept."""

    trunk: Trunk
    validation: tuple[float, ...]
    kept_step: int


@dataclass(frozen=True)
class Prediction:
    """Cycles since the previous instruction retired, as predicted: shape (n, designs) each.

    Attributes:
        likely: of the most likely class, whole cycles.
        expected: mean of the distribution; its sum is the predicted cycles of the run.
    """

    likely: NDArray[np.int32]
    expected: NDArray[np.float32]


Batch = tuple[NDArray, ...]


def _gather(programs: Sequence[Program], which: NDArray[np.int64], starts: NDArray[np.int64], length: int, latencies: bool) -> Batch:
    """Windows as (numbers, opclass, place, classes), time first; zeros in front of a trace."""
    numbers = np.zeros((length, len(starts), len(NAMES)), np.float32)
    opclass = np.zeros((length, len(starts)), np.int32)
    place = np.zeros((length, len(starts)), np.int32)
    classes = np.zeros((length, len(starts), programs[0].latency.shape[1] if latencies else 0), np.int32)
    for b in range(len(starts)):
        one, start = programs[int(which[b])], int(starts[b])
        low, high = max(start, 0), min(start + length, len(one.pc))
        into = slice(low - start, high - start)
        numbers[into, b] = one.features.numbers[low:high]
        opclass[into, b] = one.features.opclass[low:high]
        place[into, b] = one.features.place[low:high]
        if latencies:
            classes[into, b] = CLASSES.of(one.latency[low:high])
    return numbers, opclass, place, classes


def _starts(parts: Sequence[NDArray[np.int8]], part: int, sizes: Sequence[int], window: int) -> tuple[NDArray, NDArray]:
    """Program and first instruction of every window that tiles the blocks of one part."""
    which, starts = [], []
    for k, (blocks, size) in enumerate(zip(parts, sizes, strict=True)):
        for block in np.flatnonzero(blocks == part).tolist():
            first = np.arange(block * BLOCK, min((block + 1) * BLOCK, size) - window + 1, window)
            which.append(np.full(len(first), k))
            starts.append(first)
    return np.concatenate(which).astype(np.int64), np.concatenate(starts).astype(np.int64)


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
    known = np.zeros(PC_BUCKETS, np.float32)
    for one, mask in zip(programs, train_mask, strict=True):
        known[one.features.place[mask]] = 1.0

    parameters = starting_values(shape, seed)
    frequency = np.stack([np.bincount(CLASSES.of(latency[:, d]), minlength=CLASSES.count) for d in range(len(designs))])
    parameters["heads.bias"] = jnp.asarray(np.log((frequency + 1.0) / (frequency + 1.0).sum(1, keepdims=True)).ravel(), jnp.float32)
    rates = optax.warmup_cosine_decay_schedule(0.0, schedule.rate, max(1, schedule.steps // 20), schedule.steps, schedule.rate / 100)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rates))
    length = WARM_UP + schedule.window
    weight = jnp.concatenate([jnp.zeros(WARM_UP), jnp.ones(schedule.window)])[:, None]

    def loss_of(p: Parameters, numbers: jax.Array, opclass: jax.Array, place: jax.Array, classes: jax.Array, use: jax.Array) -> jax.Array:
        scores = logits(p, numbers, opclass, place, use, len(designs))
        return cross_entropy(scores[WARM_UP:], classes[WARM_UP:], jnp.broadcast_to(weight, use.shape)[WARM_UP:])

    @jax.jit
    def update(p: Parameters, state: optax.OptState, *batch: jax.Array) -> tuple[Parameters, optax.OptState, jax.Array]:
        loss, gradient = jax.value_and_grad(loss_of)(p, *batch)
        change, state = optimiser.update(gradient, state, p)
        return optax.apply_updates(p, change), state, loss

    look = jax.jit(loss_of)
    generator = np.random.default_rng(seed)
    which, starts = _starts(parts, TRAIN, sizes, schedule.window)
    check_which, check_starts = _starts(parts, VALIDATION, sizes, schedule.window)
    chosen = np.random.default_rng(0).permutation(len(check_starts))[: 8 * schedule.batch]
    chosen = chosen[: max(1, len(chosen) // schedule.batch) * schedule.batch]

    def validation_loss(p: Parameters) -> float:
        total = []
        for piece in np.array_split(chosen, max(1, len(chosen) // schedule.batch)):
            batch = _gather(programs, check_which[piece], check_starts[piece] - WARM_UP, length, True)
            total.append(float(look(p, *batch, known[batch[2]])))
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
        batch = _gather(programs, which[picked], first - WARM_UP, length, True)
        use = known[batch[2]] * (generator.random(len(picked)) >= schedule.withheld)[None, :].astype(np.float32)
        parameters, state, _ = update(parameters, state, *batch, use)
        if step % max(1, schedule.steps // schedule.checks) == 0 or step == schedule.steps:
            losses.append(validation_loss(parameters))
            if losses[-1] < best:
                best, kept, kept_step = losses[-1], parameters, step
    return Trained(Trunk(kept, tuple(designs), class_means, known), tuple(losses), kept_step)


@partial(jax.jit, static_argnames="designs")
def _answers(
    p: Parameters, numbers: jax.Array, opclass: jax.Array, place: jax.Array, use: jax.Array, means: jax.Array, designs: int
) -> tuple[jax.Array, jax.Array]:
    scores = logits(p, numbers, opclass, place, use, designs)
    return jnp.argmax(scores, axis=-1), jnp.sum(jax.nn.softmax(scores, axis=-1) * means, axis=-1)


def predict(trunk: Trunk, features: ProgramFeatures, blocks: NDArray[np.int64] | None = None, batch: int = 32) -> Prediction:
    """Predicted latencies of a trace, or of some of its blocks (in their order).

    Every block of `BLOCK` instructions is run by itself, behind four times `WARM_UP` instructions that come before it.

    Args:
        trunk: the network.
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
    likely, expected = [], []
    for first in range(0, len(blocks), batch):
        piece = blocks[first : first + batch]
        padded = np.concatenate([piece, np.full(batch - len(piece), piece[-1])]) if len(blocks) > batch else piece
        starts = padded * BLOCK - lead
        numbers, opclass, place, _ = _gather(holder, np.zeros(len(padded), np.int64), starts, lead + BLOCK, False)
        best, mean = _answers(
            trunk.parameters, numbers, opclass, place, trunk.known[place], jnp.asarray(trunk.class_means), len(trunk.designs)
        )
        best, mean = np.asarray(best)[lead:], np.asarray(mean)[lead:]
        for b, block in enumerate(piece):
            length = min(BLOCK, n - int(block) * BLOCK)
            likely.append(np.take_along_axis(whole, best[:length, b].T, axis=1).T)
            expected.append(mean[:length, b])
    return Prediction(np.concatenate(likely), np.concatenate(expected))


def without_places(trunk: Trunk) -> Trunk:
    """The same network with every place in the code withheld, as for a program that it never saw."""
    return replace(trunk, known=np.zeros_like(trunk.known))
