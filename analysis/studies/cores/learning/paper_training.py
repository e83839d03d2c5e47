"""How is NeuroScalar's network trained for one design, and what does it predict?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from analysis.cores.learning.program_features import BLOCK
from analysis.studies.cores.learning.corpus import TRAIN, VALIDATION, Program, instructions_of
from analysis.studies.cores.learning.instruction_features import Floats, Scaling, Window, fit_scaling
from analysis.studies.cores.learning.latency_target import from_log_target, is_long, log_target
from analysis.studies.cores.learning.lstm import LstmShape, Parameters, draw, encode, heads, joint_loss, parameter_shapes, predicted_target


@dataclass(frozen=True)
class PaperSetting:
    """What is trained and for how long. The paper gives 256 wide and two layers; window, rate and batch are our choice.

    Attributes:
        kind: lstm, or bilstm (both directions).
        width: hidden size.
        layers: stacked layers.
        steps: parameter updates.
        batch: windows an update.
        rate: largest learning rate.
        dropout: between layers.
        checks: looks at the validation loss; training ends after `patience` looks without a better one.
        patience: see above.
        window: length and target.
    """

    kind: Literal["lstm", "bilstm"] = "lstm"
    width: int = 256
    layers: int = 2
    steps: int = 400
    batch: int = 32
    rate: float = 2e-3
    dropout: float = 0.1
    checks: int = 8
    patience: int = 3
    window: Window = field(default_factory=Window)


@dataclass(frozen=True)
class PaperModel:
    """A trained network of the paper's kind, for one design."""

    parameters: Parameters
    scaling: Scaling
    window: Window


@dataclass(frozen=True)
class PaperTrained:
    """A network with the validation loss at each look, and the updates of the one kept."""

    model: PaperModel
    validation: tuple[float, ...]
    kept_step: int


def block_windows(blocks: NDArray[np.int64], instructions: int, window: Window) -> NDArray[np.int64]:
    """First instruction of the windows whose targets tile these blocks."""
    starts = [window.starts(b * BLOCK, min((b + 1) * BLOCK, instructions)) for b in blocks]
    return np.concatenate(starts) if starts else np.zeros(0, np.int64)


@partial(jax.jit, static_argnames=("left", "target"))
def _heads(parameters: Parameters, windows: jax.Array, left: int, target: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    return heads(parameters, encode(parameters, windows)[:, left : left + target])


@cache
def _step(setting: PaperSetting) -> tuple[optax.GradientTransformation, Callable]:
    """Optimiser and one update, compiled once for all seeds and designs."""
    window = setting.window
    rates = optax.warmup_cosine_decay_schedule(0.0, setting.rate, max(1, setting.steps // 10), setting.steps + 1, setting.rate / 100)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.flatten(optax.adam(rates)))  # one vector: half as much to compile

    def loss_of(p: Parameters, windows: jax.Array, target: jax.Array, long: jax.Array, key: jax.Array) -> jax.Array:
        encoded = encode(p, windows, setting.dropout, key)[:, window.left : window.left + window.target]
        return joint_loss(*heads(p, encoded), target, long)

    def update(
        p: Parameters, state: optax.OptState, windows: jax.Array, target: jax.Array, long: jax.Array, key: jax.Array
    ) -> tuple[Parameters, optax.OptState]:
        change, state = optimiser.update(jax.grad(loss_of)(p, windows, target, long, key), state, p)
        return optax.apply_updates(p, change), state

    return optimiser, jax.jit(update)


def train_paper(
    programs: Sequence[Program], parts: Sequence[NDArray[np.int8]], design: int, setting: PaperSetting | None = None, seed: int = 0
) -> PaperTrained:
    """Train for one design, keep the parameters with the least joint loss on the validation blocks (early stopping).

    Args:
        programs: with latencies.
        parts: what each block of each program is for.
        design: column of the latencies.
        setting: what and how long.
        seed: of the starting values, the order and the dropout.
    Source: NeuroScalar, sections 3.1.2, 3.1.4 and 3.3.
    """
    setting = setting or PaperSetting()
    window = setting.window
    seen = [p.raw[instructions_of(part, TRAIN, len(p))] for p, part in zip(programs, parts, strict=True)]
    scaling = fit_scaling(np.concatenate(seen))
    inputs = [scaling(p.raw) for p in programs]
    truth = [p.latency[:, design] for p in programs]
    where = {
        part: [(k, start) for k, p in enumerate(programs) for start in block_windows(np.flatnonzero(parts[k] == part), len(p), window)]
        for part in (TRAIN, VALIDATION)
    }

    def cut(places: Sequence[tuple[int, int]]) -> tuple[Floats, NDArray[np.int64]]:
        windows = [window.cut(inputs[k], np.array([start]))[0] for k, start in places]
        latencies = [truth[k][start + window.left : start + window.left + window.target] for k, start in places]
        return np.stack(windows), np.stack(latencies)

    shape = LstmShape(hidden=setting.width, layers=setting.layers, bidirectional=setting.kind == "bilstm")
    parameters = draw(parameter_shapes(shape), seed)
    optimiser, update = _step(setting)
    generator = np.random.default_rng(seed)
    looked_at = [where[VALIDATION][i] for i in np.random.default_rng(0).permutation(len(where[VALIDATION]))[:256]]
    look_windows, look_truth = cut(looked_at)

    def validation_loss(p: Parameters) -> float:
        said = [_heads(p, look_windows[i : i + 64], window.left, window.target) for i in range(0, len(look_windows), 64)]
        short, long, scores = (jnp.concatenate(part) for part in zip(*said, strict=True))
        return float(joint_loss(short, long, scores, jnp.asarray(log_target(look_truth)), jnp.asarray(is_long(look_truth))))

    state, key = optimiser.init(parameters), jax.random.PRNGKey(seed)
    best, kept, kept_step, losses = np.inf, parameters, 0, []
    for step in range(1, setting.steps + 1):
        picked = [where[TRAIN][i] for i in generator.integers(0, len(where[TRAIN]), setting.batch)]
        windows, latency = cut(picked)
        key, one = jax.random.split(key)
        parameters, state = update(parameters, state, windows, log_target(latency), is_long(latency), one)
        if step % max(1, setting.steps // setting.checks) == 0:
            losses.append(validation_loss(parameters))
            if losses[-1] < best:
                best, kept, kept_step = losses[-1], parameters, step
            elif len(losses) > setting.patience and min(losses[-setting.patience :]) > best:
                break
    return PaperTrained(PaperModel(kept, scaling, window), tuple(losses), kept_step)


def predict_paper(model: PaperModel, raw: Floats, blocks: NDArray[np.int64] | None = None, batch: int = 64) -> NDArray[np.float64]:
    """Predicted latencies (cycles) of a trace, or of some of its blocks; targets that do not fill a window's are left to the last.

    Args:
        model: the network of one design.
        raw: the 13 features of the whole trace, not scaled, shape (n, 13).
        blocks: numbers of the blocks; default all.
    Returns:
        shape (instructions of these blocks,).
    """
    n, window = len(raw), model.window
    blocks = np.arange(-(-n // BLOCK)) if blocks is None else blocks
    inputs = model.scaling(raw)
    result = np.zeros(n)
    starts = np.concatenate(
        [np.append(window.starts(b * BLOCK, end := min((b + 1) * BLOCK, n)), end - window.target - window.left) for b in blocks]
    )
    starts = np.unique(np.maximum(starts, -window.left))
    for first in range(0, len(starts), batch):
        piece = starts[first : first + batch]
        padded = np.append(piece, np.full(batch - len(piece), piece[-1]))
        said = _heads(model.parameters, window.cut(inputs, padded), window.left, window.target)
        got = from_log_target(np.asarray(predicted_target(*said)))
        for row, start in zip(got, piece, strict=False):
            result[max(start + window.left, 0) : start + window.left + window.target] = row[: n - start - window.left]
    mask = np.zeros(n, bool)
    for b in blocks:
        mask[b * BLOCK : (b + 1) * BLOCK] = True
    return result[mask]
