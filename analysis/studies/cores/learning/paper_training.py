"""How are NeuroScalar's networks trained, several at once, and what do they predict?"""

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

OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.flatten(optax.scale_by_adam()))  # one vector: half as much to compile


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
        checks: looks at the validation error; the parameters of the best look are kept (early stopping).
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
    window: Window = field(default_factory=Window)
    embedding: int = 0

    def rate_at(self, step: int) -> float:
        """Learning rate of an update, counted from 0."""
        warm = min(50, max(1, self.steps // 10))
        fallen = (1 - np.cos(np.pi * max(0, step - warm) / (self.steps + 1 - warm))) / 2
        return self.rate * min(1.0, step / warm) * float(1 - (1 - self.last_rate) * fallen)


@dataclass(frozen=True)
class Member:
    """One of the networks that are trained side by side.

    Attributes:
        design: column of the latencies.
        seed: of the starting values, the order and the dropout.
        width: hidden size, at most the setting's (in one direction): what lies beyond is zero and stays zero, as its gradient is.
        programs: numbers of the programs that it learns from; none: all.
    """

    design: int = 0
    seed: int = 0
    width: int | None = None
    programs: tuple[int, ...] = ()


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
        seconds: wall-clock time so far, of all runs and members together.
        mae: mean absolute error of each member (cycles).
    """

    step: int
    seconds: float
    mae: tuple[float, ...]


@dataclass
class PaperTraining:
    """All that the next update reads, and what was kept: a checkpoint, and at the end the result.

    Attributes:
        trees: parameters, the optimiser's state, the parameters kept; members along the first axis.
        scalings: one a member.
    """

    setting: PaperSetting
    step: int
    seconds: float
    looks: tuple[Look, ...]
    trees: tuple[Parameters, optax.OptState, Parameters]
    scalings: tuple[Scaling, ...]

    @property
    def finished(self) -> bool:
        """No update is left."""
        return self.step >= self.setting.steps

    @property
    def models(self) -> list[PaperModel]:
        """The networks kept, one a member."""
        kept = {name: np.asarray(value) for name, value in self.trees[2].items()}
        return [PaperModel({name: v[n] for name, v in kept.items()}, s, self.setting.window) for n, s in enumerate(self.scalings)]

    @property
    def kept_steps(self) -> list[int]:
        """After how many updates each network was the best; 0: before the first look."""
        return [min(self.looks, key=lambda look: look.mae[n]).step if self.looks else 0 for n in range(len(self.scalings))]

    def write(self, path: Path, about: str) -> None:
        """Write a checkpoint.

        Args:
            about: what training it is of.
        """
        arrays = {str(k): np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(self.trees))}
        looks = [asdict(look) for look in self.looks]
        text = json.dumps({"about": about, "step": self.step, "seconds": self.seconds, "looks": looks})
        write_atomic(path, save(arrays, metadata={"state": text}))

    def read(self, path: Path, about: str) -> None:
        """Go on from a checkpoint.

        Raises:
            InputError: it is of another training.
        """
        arrays, text = read_arrays(path)
        found = json.loads(text.get("state", "{}"))
        if found.get("about") != about:
            raise InputError("is of another training (setting, members, programs): move it away", path=path, key="about")
        leaves, structure = jax.tree.flatten(self.trees)
        self.trees = jax.tree.unflatten(structure, [jnp.asarray(arrays[str(k)]) for k in range(len(leaves))])
        self.step, self.seconds = found["step"], found["seconds"]
        self.looks = tuple(Look(look["step"], look["seconds"], tuple(look["mae"])) for look in found["looks"])


def block_windows(blocks: NDArray[np.int64], instructions: int, window: Window) -> NDArray[np.int64]:
    """First instruction of the windows whose targets tile these blocks."""
    starts = [window.starts(b * BLOCK, min((b + 1) * BLOCK, instructions)) for b in blocks]
    return np.concatenate(starts) if starts else np.zeros(0, np.int64)


class Corpus:
    """Programs behind one another in the device's memory. A window is its first instruction, and its program's first and last."""

    def __init__(self, programs: Sequence[Program], parts: Sequence[NDArray[np.int8]]) -> None:
        """Args: parts: what each block of each program is for."""
        self.programs, self.parts = programs, parts
        self.raw = jnp.asarray(np.concatenate([p.raw for p in programs]))
        self.latency = jnp.asarray(np.concatenate([p.latency.astype(np.int32) for p in programs]))
        self.scaling = cache(self.scaling)  # type: ignore[method-assign]

    def windows(self, which: Sequence[int], part: int, window: Window) -> NDArray[np.int32]:
        """Windows of some programs' blocks of a part, shape (windows, 3)."""
        ends = np.cumsum([len(p) for p in self.programs])
        rows = []
        for k in which:
            first = ends[k] - len(self.programs[k])
            starts = first + block_windows(np.flatnonzero(self.parts[k] == part), len(self.programs[k]), window)
            rows.append(np.stack([starts, np.full_like(starts, first), np.full_like(starts, ends[k])], axis=1))
        return np.concatenate(rows).astype(np.int32)

    def scaling(self, which: tuple[int, ...], categories: bool) -> Scaling:
        """Scaling by the training blocks of some programs."""
        seen = [self.programs[k].raw[instructions_of(self.parts[k], TRAIN, len(self.programs[k]))] for k in which]
        return fit_scaling(np.concatenate(seen), categories)


@partial(jax.jit, static_argnames=("length"))
def cut(raw: jax.Array, at: jax.Array, mean: jax.Array, deviation: jax.Array, length: int) -> jax.Array:
    """The scaled features of each member's windows, zeros outside the trace.

    Args:
        raw: not scaled, shape (n, 13).
        at: first instruction of each window, and its program's first and last, shape (members, windows, 3).
        mean, deviation: of each member's scaling, shape (members, 13).
    """
    index = at[..., :1] + jnp.arange(length)
    inside = (index >= at[..., 1:2]) & (index < at[..., 2:])
    found = raw[jnp.clip(index, 0, len(raw) - 1)]
    return jnp.where(inside[..., None], (found - mean[:, None, None]) / deviation[:, None, None], 0)


@partial(jax.jit, static_argnames=("left", "target"))
def _truth(latency: jax.Array, at: jax.Array, designs: jax.Array, left: int, target: int) -> jax.Array:
    return latency[at[..., :1] + left + jnp.arange(target), designs[:, None, None]]


def _middle(
    p: Parameters, windows: jax.Array, left: int, target: int, dropout: float = 0.0, key: jax.Array | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    return heads(p, encode(p, windows, dropout, key)[:, left : left + target])


@partial(jax.jit, static_argnames=("left", "target"))
def _said(p: Parameters, windows: jax.Array, left: int, target: int) -> jax.Array:
    return jax.vmap(lambda q, cut: predicted_target(*_middle(q, cut, left, target)))(p, windows)


@partial(jax.jit, static_argnames=("left", "target", "dropout"))
def _update(
    p: Parameters,
    state: optax.OptState,
    windows: jax.Array,
    latency: jax.Array,
    seeds: jax.Array,
    step: jax.Array,
    rate: jax.Array,
    left: int,
    target: int,
    dropout: float,
) -> tuple[Parameters, optax.OptState]:
    """One update of every member; compiled once for all rates, seeds and designs."""

    def one(p: Parameters, state: optax.OptState, windows: jax.Array, latency: jax.Array, seed: jax.Array) -> tuple:
        key = jax.random.fold_in(jax.random.PRNGKey(seed), step)

        def loss(q: Parameters) -> jax.Array:
            return joint_loss(*_middle(q, windows, left, target, dropout, key), log_target(latency), is_long(latency))

        change, state = OPTIMISER.update(jax.grad(loss)(p), state, p)
        return jax.tree.map(lambda value, by: value - rate * by, p, change), state

    return jax.vmap(one)(p, state, windows, latency, seeds)


@jax.jit
def _choose(better: jax.Array, new: Parameters, old: Parameters) -> Parameters:
    """Of each member the new parameters where they are better."""
    return jax.tree.map(jax.vmap(jnp.where), dict.fromkeys(new, better), new, old)


def _length(window: Window, p: Parameters) -> int:
    """Instructions of a window that can matter: in one direction nothing behind the target."""
    return window.length if any("_reverse" in name for name in p) else window.left + window.target


def _cycles(
    p: Parameters, scalings: Sequence[Scaling], window: Window, raw: jax.Array, at: NDArray[np.int32], batch: int = 64
) -> NDArray[np.float64]:
    """Predicted latencies of the targets of each member's windows, shape (members, windows, target).

    Args:
        at: windows of each member, as `Corpus.windows` gives, shape (members, windows, 3).
    """
    mean, deviation = (np.stack([getattr(s, what) for s in scalings]) for what in ("mean", "deviation"))
    got, batch = np.zeros((*at.shape[:2], window.target)), max(1, min(batch, at.shape[1]))
    for first in range(0, at.shape[1], batch):
        piece = at[:, np.minimum(np.arange(first, first + batch), at.shape[1] - 1)]  # always as many: compiled once
        said = _said(p, cut(raw, piece, mean, deviation, _length(window, p)), window.left, window.target)
        got[:, first : first + batch] = from_log_target(np.asarray(said))[:, : at.shape[1] - first]
    return got


def _resized(name: str, value: jax.Array, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A parameter of a narrower network in the place of a wider one's, zeros in the rest."""
    gates = 4 if name.startswith("rnn.") else 1
    wide = np.zeros((gates, shape[0] // gates, *shape[1:]), np.float32)
    narrow = np.asarray(value).reshape(gates, value.shape[0] // gates, *value.shape[1:])
    wide[tuple(slice(n) for n in narrow.shape)] = narrow
    return wide.reshape(shape)


def _starting_values(setting: PaperSetting, members: Sequence[Member]) -> Parameters:
    def shapes(width: int) -> dict[str, tuple[int, ...]]:
        return parameter_shapes(LstmShape(13, width, setting.layers, setting.kind == "bilstm", embedding=setting.embedding))

    drawn = [draw(shapes(m.width or setting.width), m.seed) for m in members]
    whole = shapes(setting.width)
    return {name: jnp.asarray(np.stack([_resized(name, one[name], shape) for one in drawn])) for name, shape in whole.items()}


def train_paper(
    corpus: Corpus,
    members: Sequence[Member] = (Member(),),
    setting: PaperSetting | None = None,
    checkpoint: Path | None = None,
    seconds: float = np.inf,
    watch: Callable[[PaperTraining], None] = lambda state: None,
) -> PaperTraining:
    """Train networks side by side; of each the parameters with the least absolute error of the validation blocks' cycles are kept.

    Each update draws its windows and its dropout from the seed and its number alone, so a training that goes on from a checkpoint gives
    the same bits as one that was never interrupted, and a member alone the same as among others but for the order of sums.

    Args:
        members: whose arrays lie behind one another, so that a GPU updates all at once.
        checkpoint: file to go on from, if it is there, and to write at each look, every ten minutes and at the end.
        seconds: stop, to be continued, when the training has taken so many (wall clock), earlier runs counted in.
        watch: called after each look.
    Source: NeuroScalar, sections 3.1.2, 3.1.4, 3.3 and 3.3.5.
    """
    setting = setting or PaperSetting()
    window = setting.window
    which = [m.programs or tuple(range(len(corpus.programs))) for m in members]
    scalings = tuple(corpus.scaling(each, setting.embedding > 0) for each in which)
    mean, deviation = (jnp.stack([getattr(s, what) for s in scalings]) for what in ("mean", "deviation"))
    seeds, designs = (jnp.array([getattr(m, what) for m in members]) for what in ("seed", "design"))
    rows = [corpus.windows(each, TRAIN, window) for each in which]
    checked = [corpus.windows(each, VALIDATION, window) for each in which]
    checked = [one[np.random.default_rng(0).permutation(len(one))[: min(256, *map(len, checked))]] for one in checked]
    looked_at = np.stack(checked)
    truth = np.asarray(_truth(corpus.latency, looked_at, designs, window.left, window.target))
    parameters = _starting_values(setting, members)
    state = PaperTraining(setting, 0, 0.0, (), (parameters, jax.vmap(OPTIMISER.init)(parameters), parameters), scalings)
    about = json.dumps({**asdict(setting), "members": [asdict(m) for m in members], "programs": [p.name for p in corpus.programs]})
    if checkpoint is not None and checkpoint.exists():
        state.read(checkpoint, about)
    every = max(1, setting.steps // setting.checks)
    began = written = time.perf_counter()
    before = state.seconds
    while not state.finished and state.seconds < seconds:
        drawn = [np.random.default_rng([m.seed, state.step]).integers(0, len(r), setting.batch) for m, r in zip(members, rows, strict=True)]
        at = np.stack([r[picked] for r, picked in zip(rows, drawn, strict=True)])
        parameters, optimised, kept = state.trees
        windows = cut(corpus.raw, at, mean, deviation, _length(window, parameters))
        latency = _truth(corpus.latency, at, designs, window.left, window.target)
        shape = (window.left, window.target, setting.dropout)
        parameters, optimised = _update(parameters, optimised, windows, latency, seeds, state.step, setting.rate_at(state.step), *shape)
        jax.block_until_ready(parameters)
        state.step += 1
        look = state.step % every == 0
        if look:
            said = _cycles(parameters, scalings, window, corpus.raw, looked_at)
            errors = np.abs(said - truth).mean(axis=(1, 2))
            better = errors < np.min([one.mae for one in state.looks] or [(np.inf,) * len(members)], axis=0)
            kept = _choose(better, parameters, kept)
        state.seconds, state.trees = before + time.perf_counter() - began, (parameters, optimised, kept)
        if look:
            state.looks += (Look(state.step, state.seconds, tuple(errors.tolist())),)
            watch(state)
        if checkpoint is not None and (look or state.seconds >= seconds or time.perf_counter() - written > 600):
            state.write(checkpoint, about)
            written = time.perf_counter()
    return state


def write_paper(model: PaperModel, path: Path) -> None:
    """Write a network of the paper's kind, its weights in half precision."""
    arrays = {name: np.asarray(value, np.float16) for name, value in model.parameters.items()}
    write_atomic(path, save(arrays | asdict(model.scaling), metadata={"window": json.dumps(asdict(model.window))}))


def read_paper(path: Path) -> PaperModel:
    """Read what `write_paper` wrote."""
    arrays, text = read_arrays(path)
    scaling = Scaling(arrays.pop("mean"), arrays.pop("deviation"))
    return PaperModel(
        {name: jnp.asarray(value, jnp.float32) for name, value in arrays.items()}, scaling, Window(**json.loads(text["window"]))
    )


def predict_paper(models: Sequence[PaperModel], raw: Floats, blocks: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
    """Predicted latencies (cycles) of a trace, or of some of its blocks; targets that do not fill a window's are left to the last.

    Args:
        models: networks of one shape.
        raw: the 13 features of the whole trace, not scaled, shape (n, 13).
        blocks: numbers of the blocks; default all.
    Returns:
        shape (instructions of these blocks, models).
    """
    n, window = len(raw), models[0].window
    blocks = np.arange(-(-n // BLOCK)) if blocks is None else blocks
    starts = [np.append(window.starts(b * BLOCK, end := min((b + 1) * BLOCK, n)), end - window.target - window.left) for b in blocks]
    at = np.stack(np.broadcast_arrays(np.unique(np.maximum(np.concatenate(starts), -window.left)), 0, n), axis=1).astype(np.int32)
    stack = {name: jnp.asarray(np.stack([m.parameters[name] for m in models])) for name in models[0].parameters}
    said = _cycles(stack, [m.scaling for m in models], window, jnp.asarray(raw), np.stack([at] * len(models)))
    result, mask = np.zeros((n, len(models))), np.zeros(n, bool)
    for start, row in zip(at[:, 0] + window.left, said.swapaxes(0, 1), strict=True):
        result[max(start, 0) : start + window.target] = row.T[: n - start]
    for b in blocks:
        mask[b * BLOCK : (b + 1) * BLOCK] = True
    return result[mask]
