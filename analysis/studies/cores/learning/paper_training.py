"""How is NeuroScalar's network trained for one design, and what does it predict?"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray
from safetensors.numpy import save

from analysis.errors import InputError
from analysis.studies.cores.learning.corpus import TRAIN, VALIDATION, Program, instructions_of
from analysis.studies.cores.learning.instruction_features import Floats, Scaling, Window, fit_scaling
from analysis.studies.cores.learning.latency_target import from_log_target, is_long, log_target
from analysis.studies.cores.learning.lstm import LstmShape, Parameters, draw, encode, heads, joint_loss, parameter_shapes, predicted_target
from analysis.studies.cores.learning.model_files import read_arrays
from analysis.studies.cores.learning.program_features import BLOCK
from analysis.tables import write_atomic


@dataclass(frozen=True)
class PaperSetting:
    """What is trained and for how long. The paper gives 256 wide and two layers; window, rate and batch are our choice.

    Attributes:
        kind: lstm, or bilstm (both directions).
        width: hidden size.
        layers: stacked layers.
        steps: parameter updates.
        batch: windows an update.
        rate: largest learning rate; reached after a tenth of the updates, at most 50.
        last_rate: share of it at the last update, down to which it falls as a cosine; 1: it stays.
        dropout: between layers.
        checks: looks at the validation error; training ends after `patience` looks without a better one.
        patience: see above.
        window: length and target.
        embedding: numbers for each category, see `LstmShape`.
    """

    kind: Literal["lstm", "bilstm"] = "lstm"
    width: int = 256
    layers: int = 2
    steps: int = 400
    batch: int = 32
    rate: float = 2e-3
    last_rate: float = 0.01
    dropout: float = 0.1
    checks: int = 8
    patience: int = 3
    window: Window = field(default_factory=Window)
    embedding: int = 0


@dataclass(frozen=True)
class PaperModel:
    """A trained network of the paper's kind, for one design."""

    parameters: Parameters
    scaling: Scaling
    window: Window


@dataclass(frozen=True)
class Look:
    """A look at the validation windows.

    Attributes:
        step: parameter updates so far.
        cpu_s: CPU-seconds so far, of all runs together.
        mae: mean absolute error (cycles).
    """

    step: int
    cpu_s: float
    mae: float


@dataclass(frozen=True)
class PaperTrained:
    """A network, the looks at its validation error, and the updates of the one kept.

    Attributes:
        finished: no update is left: all were made, or the error stopped falling.
    """

    model: PaperModel
    looks: tuple[Look, ...]
    kept_step: int
    finished: bool


@dataclass
class _State:
    """All that the next update reads, and what was kept: a checkpoint."""

    step: int
    cpu_s: float
    looks: tuple[Look, ...]
    trees: tuple[Parameters, optax.OptState, Parameters]
    """Parameters, the optimiser's state, the parameters kept."""

    def write(self, path: Path, setting: str) -> None:
        arrays = {str(k): np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(self.trees))}
        looks = [asdict(look) for look in self.looks]
        text = json.dumps({"setting": setting, "step": self.step, "cpu_s": self.cpu_s, "looks": looks})
        write_atomic(path, save(arrays, metadata={"state": text}))

    def read(self, path: Path, setting: str) -> _State:
        """The checkpoint in a file, of this state's structure.

        Raises:
            InputError: it is of another training.
        """
        arrays, text = read_arrays(path)
        found = json.loads(text.get("state", "{}"))
        if found.get("setting") != setting:
            raise InputError("is of another training (setting, design, seed, programs): move it away", path=path, key="setting")
        leaves, structure = jax.tree.flatten(self.trees)
        trees = jax.tree.unflatten(structure, [jnp.asarray(arrays[str(k)]) for k in range(len(leaves))])
        return _State(found["step"], found["cpu_s"], tuple(Look(**look) for look in found["looks"]), trees)


def block_windows(blocks: NDArray[np.int64], instructions: int, window: Window) -> NDArray[np.int64]:
    """First instruction of the windows whose targets tile these blocks."""
    starts = [window.starts(b * BLOCK, min((b + 1) * BLOCK, instructions)) for b in blocks]
    return np.concatenate(starts) if starts else np.zeros(0, np.int64)


def _middle(
    p: Parameters, windows: jax.Array, left: int, target: int, dropout: float = 0.0, key: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The heads over the target; in one direction nothing behind it can matter, so it is not computed."""
    seen = windows if any("_reverse" in name for name in p) else windows[:, : left + target]
    return heads(p, encode(p, seen, dropout, key)[:, left : left + target])


_heads = partial(jax.jit, static_argnames=("left", "target"))(_middle)


@cache
def _step(setting: PaperSetting) -> tuple[optax.GradientTransformation, Callable]:
    """Optimiser and one update, compiled once for all seeds and designs."""
    window, warm = setting.window, min(50, max(1, setting.steps // 10))
    rates = optax.warmup_cosine_decay_schedule(0.0, setting.rate, warm, setting.steps + 1, setting.rate * setting.last_rate)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.flatten(optax.adam(rates)))  # one vector: half as much to compile

    def loss_of(p: Parameters, windows: jax.Array, target: jax.Array, long: jax.Array, key: jax.Array) -> jax.Array:
        return joint_loss(*_middle(p, windows, window.left, window.target, setting.dropout, key), target, long)

    def update(
        p: Parameters, state: optax.OptState, windows: jax.Array, target: jax.Array, long: jax.Array, key: jax.Array
    ) -> tuple[Parameters, optax.OptState]:
        change, state = optimiser.update(jax.grad(loss_of)(p, windows, target, long, key), state, p)
        return optax.apply_updates(p, change), state

    return optimiser, jax.jit(update)


def _cycles(model: PaperModel, raw: Floats, starts: NDArray[np.int64], batch: int = 64) -> NDArray[np.float64]:
    """Predicted latencies of the targets of these windows of a trace, shape (windows, target)."""
    window, got = model.window, np.zeros((len(starts), model.window.target))
    for first in range(0, len(starts), batch):
        piece = starts[first : first + batch]
        padded = np.append(piece, np.full(batch - len(piece), piece[-1]))
        said = _heads(model.parameters, window.cut(raw, padded, model.scaling), window.left, window.target)
        got[first : first + batch] = from_log_target(np.asarray(predicted_target(*said)))[: len(piece)]
    return got


def train_paper(
    programs: Sequence[Program],
    parts: Sequence[NDArray[np.int8]],
    design: int,
    setting: PaperSetting | None = None,
    seed: int = 0,
    checkpoint: Path | None = None,
    cpu_seconds: float = np.inf,
) -> PaperTrained:
    """Train for one design, keep the parameters with the least absolute error of the validation blocks' cycles (early stopping).

    Each update draws its windows and its dropout from the seed and its number alone, so a training that goes on from a checkpoint gives
    the same bits as one that was never interrupted.

    Args:
        programs: with latencies.
        parts: what each block of each program is for.
        design: column of the latencies.
        setting: what and how long.
        seed: of the starting values, the order and the dropout.
        checkpoint: file to go on from, if it is there, and to write at each look and at the end.
        cpu_seconds: stop, to be continued, when the training has taken so many, earlier runs counted in.
    Source: NeuroScalar, sections 3.1.2, 3.1.4, 3.3 and 3.3.5.
    """
    setting = setting or PaperSetting()
    window = setting.window
    seen = [p.raw[instructions_of(part, TRAIN, len(p))] for p, part in zip(programs, parts, strict=True)]
    scaling = fit_scaling(np.concatenate(seen), categories=setting.embedding > 0)
    del seen
    where = {
        part: [(k, start) for k, p in enumerate(programs) for start in block_windows(np.flatnonzero(parts[k] == part), len(p), window)]
        for part in (TRAIN, VALIDATION)
    }

    def truth(k: int, starts: NDArray[np.int64]) -> NDArray[np.int64]:
        return window.targets(programs[k].latency[:, design], starts)

    shape = LstmShape(hidden=setting.width, layers=setting.layers, bidirectional=setting.kind == "bilstm", embedding=setting.embedding)
    optimiser, update = _step(setting)
    parameters = draw(parameter_shapes(shape), seed)
    state = _State(0, 0.0, (), (parameters, optimiser.init(parameters), parameters))
    about = json.dumps({**asdict(setting), "design": design, "seed": seed, "programs": [p.name for p in programs]})
    if checkpoint is not None and checkpoint.exists():
        state = state.read(checkpoint, about)
    looked_at = np.array([where[VALIDATION][i] for i in np.random.default_rng(0).permutation(len(where[VALIDATION]))[:256]])
    every = max(1, setting.steps // setting.checks)

    def validation_error(parameters: Parameters) -> float:
        model = PaperModel(parameters, scaling, window)
        by_program = [(k, looked_at[looked_at[:, 0] == k, 1]) for k in np.unique(looked_at[:, 0])]
        return float(np.mean(np.concatenate([np.abs(_cycles(model, programs[k].raw, at) - truth(k, at)).ravel() for k, at in by_program])))

    def finished() -> bool:
        errors = [look.mae for look in state.looks]
        return state.step >= setting.steps or (len(errors) > setting.patience and min(errors[-setting.patience :]) > min(errors))

    began = time.process_time() - state.cpu_s
    while not finished() and state.cpu_s < cpu_seconds:
        picked = [where[TRAIN][i] for i in np.random.default_rng([seed, state.step]).integers(0, len(where[TRAIN]), setting.batch)]
        windows = np.concatenate([window.cut(programs[k].raw, np.array([at]), scaling) for k, at in picked])
        latency = np.concatenate([truth(k, np.array([at])) for k, at in picked])
        key = jax.random.fold_in(jax.random.PRNGKey(seed), state.step)
        parameters, optimised, kept = state.trees
        parameters, optimised = update(parameters, optimised, windows, log_target(latency), is_long(latency), key)
        jax.block_until_ready(parameters)
        state.step, state.cpu_s = state.step + 1, time.process_time() - began
        if state.step % every == 0:
            error = validation_error(parameters)
            kept = parameters if all(error < look.mae for look in state.looks) else kept
            state.looks += (Look(state.step, state.cpu_s, error),)
        state.trees = (parameters, optimised, kept)
        if checkpoint is not None and (state.step % every == 0 or state.cpu_s >= cpu_seconds):
            state.write(checkpoint, about)
    best = min(state.looks, key=lambda look: look.mae).step if state.looks else 0
    return PaperTrained(PaperModel(state.trees[2], scaling, window), state.looks, best, finished())


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
    result = np.zeros(n)
    starts = np.concatenate(
        [np.append(window.starts(b * BLOCK, end := min((b + 1) * BLOCK, n)), end - window.target - window.left) for b in blocks]
    )
    starts = np.unique(np.maximum(starts, -window.left))
    for row, start in zip(_cycles(model, raw, starts, batch), starts, strict=True):
        result[max(start + window.left, 0) : start + window.left + window.target] = row[: n - start - window.left]
    mask = np.zeros(n, bool)
    for b in blocks:
        mask[b * BLOCK : (b + 1) * BLOCK] = True
    return result[mask]
