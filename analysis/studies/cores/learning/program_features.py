"""What does our network see of an instruction: properties of the program that a trace alone gives, and a first-order model of each design?

The same for every design: reuse distances of data and instruction lines, strides, distances to producers and to the store that a load
reads from, what idealised predictors get wrong, and how far dependences alone let the program run ahead. For each design: what its
first-order model (analysis.studies.cores.first_order.model) says. All are causal: an instruction's features need the trace up to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.compiled import outer
from analysis.cores.riscv.trace import LOADS, PLAIN_INSTRUCTIONS, STORES, OpClass, Trace
from analysis.cores.timing.designs import Design
from analysis.studies.cores.first_order import branch_history, dataflow_limits
from analysis.studies.cores.first_order.branch_history import surprises
from analysis.studies.cores.first_order.dataflow_limits import CLASS_LATENCY, limits, load_latencies
from analysis.studies.cores.first_order.inputs import FirstOrderInputs, first_order_inputs, store_before
from analysis.studies.cores.first_order.model import first_order_times
from analysis.studies.cores.first_order.reuse import set_distances, stack_distances, touches_since

BLOCK = 2048
"""Instructions of a block: what is trained on, tested and sampled as a whole."""
LINE_BITS = 6
SET_BITS = (6, 7, 8, 9, 10, 11, 12)
DEEPEST = 9
OPCLASSES = len(OpClass)
PLACES = 1 << 15


@dataclass(frozen=True)
class LatencyClasses:
    """Latencies as classes: 0, 1, ... `singles` - 1 one cycle each, then ranges that grow by `growth`.

    The most likely class of a predicted distribution is the predicted latency.
    """

    singles: int = 10
    growth: float = 1.5
    largest: int = 1000

    @property
    def edges(self) -> NDArray[np.int64]:
        """First latency of each class, rising."""
        edges = list(range(self.singles))
        while edges[-1] < self.largest:
            edges.append(max(edges[-1] + 1, int(np.ceil(edges[-1] * self.growth))))
        return np.array(edges[:-1], dtype=np.int64)

    @property
    def count(self) -> int:
        """Number of classes."""
        return len(self.edges)

    def of(self, latency: ArrayLike) -> NDArray[np.int32]:
        """Class of each latency: the last one whose first latency is not above it."""
        return (np.searchsorted(self.edges, np.asarray(latency), side="right") - 1).astype(np.int32)

    def means(self, latency: ArrayLike) -> NDArray[np.float32]:
        """Mean latency of each class on a training set; the first latency of the class where the set has none.

        Args:
            latency: shape (n,).
        """
        values = np.asarray(latency, dtype=np.float64).ravel()
        classes = self.of(values)
        total = np.bincount(classes, weights=values, minlength=self.count)
        seen = np.bincount(classes, minlength=self.count)
        return np.where(seen > 0, total / np.maximum(seen, 1), self.edges).astype(np.float32)


CLASSES = LatencyClasses()

NAMES = (
    *(f"producer{k}_distance" for k in (1, 2, 3)),
    "store_distance",
    "is_load",
    "is_store",
    "line_distance",
    "line_new",
    "line_instructions",
    *(f"set_distance_{1 << bits}_sets" for bits in SET_BITS),
    "stride",
    "stride_kept",
    "same_line_as_last",
    "code_line_new",
    "code_line_instructions",
    "code_line_changes",
    "taken",
    *branch_history.NAMES,
    *(f"{name}_{what}" for name in dataflow_limits.NAMES for what in ("step", "slack")),
)


@dataclass(frozen=True)
class ProgramFeatures:
    """Inputs of our network.

    Attributes:
        numbers: float16 (n, len(NAMES)), each roughly 0 to 1 or -1 to 1 by a fixed scale (nothing is fitted).
        opclass: uint8 (n,).
        place: number of the code around the instruction, for what is remembered about code seen in training, int32 (n,).
        first_order: logarithms of the first-order model's step and slack on each design, float16 (n, 2 designs).
        step: the first-order model's step on each design (cycles), at most 65,535, uint16 (n, designs).
    """

    numbers: NDArray[np.float16]
    opclass: NDArray[np.uint8]
    place: NDArray[np.int32]
    first_order: NDArray[np.float16]
    step: NDArray[np.uint16]


def _log(values: NDArray, scale: float) -> NDArray[np.float32]:
    """log2(1 + v) / scale; values below zero (never) give 1.25."""
    v = np.asarray(values, dtype=np.float32)
    found = np.minimum(np.log2(np.maximum(v, 0) + 1) / np.float32(scale), np.float32(1.25))
    found[v < 0] = 1.25
    return found


@outer
def _producers(sources: NDArray[np.uint8], destination: NDArray[np.uint8]) -> NDArray[np.int64]:
    n = len(destination)
    last = np.full(256, np.int64(-1))
    result = np.full((n, 3), np.int64(-1))
    for i in range(n):
        for k in range(3):
            register = sources[i, k]
            if register < 64 and last[register] >= 0:
                result[i, k] = i - last[register]
        if destination[i] < 64:
            last[destination[i]] = i
    return result


@outer
def _strides(row: NDArray[np.uint32], rows: int, address: NDArray[np.int64], positions: NDArray[np.int64]) -> tuple[NDArray, NDArray]:
    before = np.full(rows, np.int64(-1))
    stride = np.zeros(rows, np.int64)
    result = np.zeros(len(positions), np.int64)
    kept = np.zeros(len(positions), np.uint8)
    for t in range(len(positions)):
        i = positions[t]
        r = row[i]
        if before[r] >= 0:
            step = address[i] - before[r]
            kept[t] = step == stride[r]
            stride[r] = step
            result[t] = step
        before[r] = address[i]
    return result, kept


def places(trace: Trace) -> NDArray[np.int32]:
    """A number below `PLACES` for the code around each executed instruction: its class and registers and those of two on either side.

    Neighbours are among the instructions that the trace executes, in the order of their addresses. The number does not depend on
    where the program is loaded, so the same code in another program has the same number.
    """
    code = trace.code
    rows, compact = np.unique(trace.index, return_inverse=True)
    own = code.opclass.astype(np.uint64) | code.size.astype(np.uint64) << np.uint64(8) | code.destination.astype(np.uint64) << np.uint64(16)
    for k in range(3):
        own |= code.sources[:, k].astype(np.uint64) << np.uint64(24 + 8 * k)
    own = own[rows]
    padded = np.pad(own, 2)
    mixed = np.zeros(len(own), np.uint64)
    for k in range(5):
        mixed = (mixed ^ padded[k : k + len(own)]) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return (mixed % np.uint64(PLACES)).astype(np.int32)[compact]


def first_order_steps(trace: Trace, designs: Sequence[Design]) -> NDArray[np.int32]:
    """Step and slack of each instruction on each design by its first-order model, shape (n, designs, 2)."""
    read: dict[str, FirstOrderInputs] = {}
    found = []
    for design in designs:
        key = repr((design.branch_prediction, design.line_bytes, design.dependence_check_bytes))
        if key not in read:
            read[key] = first_order_inputs(trace, design)
        found.append(first_order_times(read[key], design))
    return np.stack(found, axis=1)


def program_features(trace: Trace, designs: Sequence[Design]) -> ProgramFeatures:
    """The features of a whole trace.

    Args:
        trace: executed instructions, from the start of the program (what came before counts as never touched).
        designs: to be modelled.
    """
    n = len(trace)
    few = n <= PLAIN_INSTRUCTIONS
    code, row, opclass = trace.code, trace.index, trace.opclass
    sources, destination, taken = trace.sources, trace.destination, trace.taken
    address = trace.address.astype(np.int64)
    loads, stores = np.isin(opclass, [int(c) for c in LOADS]), np.isin(opclass, [int(c) for c in STORES])
    memory = np.flatnonzero(loads | stores)
    numbers = np.zeros((n, len(NAMES)), np.float16)
    out = {name: numbers[:, k] for k, name in enumerate(NAMES)}

    producers = _producers.chosen(few)(sources, destination)
    for k in range(3):
        out[f"producer{k + 1}_distance"][:] = _log(producers[:, k], 10)

    words, word_of = np.unique(address[memory] >> 3, return_inverse=True)
    before = store_before.chosen(few)(word_of, memory, stores, len(words), n)
    out["store_distance"][memory] = _log(np.where(before[memory] < 0, -1, memory - before[memory]), 16)
    out["is_load"][:], out["is_store"][:] = loads, stores

    line_address = address[memory] >> LINE_BITS
    lines, line_of = np.unique(line_address, return_inverse=True)
    distance = stack_distances.chosen(few)(line_of, len(lines))
    out["line_distance"][memory] = _log(distance, 16)
    out["line_new"][memory] = distance < 0
    out["line_instructions"][memory] = _log(touches_since.chosen(few)(line_of, memory, len(lines)), 20)
    for bits in SET_BITS:
        out[f"set_distance_{1 << bits}_sets"][memory] = set_distances.chosen(few)(line_address, bits, DEEPEST) / np.float32(DEEPEST)
    stride, kept = _strides.chosen(few)(row, len(code.pc), address, memory)
    out["stride"][memory] = np.sign(stride) * _log(np.abs(stride), 20)
    out["stride_kept"][memory] = kept
    out["same_line_as_last"][memory[1:]] = line_address[1:] == line_address[:-1]

    code_lines, code_line_of_row = np.unique(code.pc >> np.uint64(LINE_BITS), return_inverse=True)
    code_line = code_line_of_row[row]
    changes = np.flatnonzero(np.diff(code_line, prepend=-1) != 0)
    since = stack_distances.chosen(few)(code_line[changes], len(code_lines))
    out["code_line_changes"][changes] = 1
    out["code_line_new"][changes] = since < 0
    out["code_line_instructions"][changes] = _log(touches_since.chosen(few)(code_line[changes], changes, len(code_lines)), 20)

    next_row = np.append(row[1:].astype(np.int64), np.int64(-1))
    out["taken"][:] = taken
    wrong = surprises.chosen(few)(row, len(code.pc), opclass, taken, next_row)
    for k, name in enumerate(branch_history.NAMES):
        out[name][:] = wrong[:, k]

    latency = CLASS_LATENCY[opclass].copy()
    load_at = loads[memory]
    latency[memory[load_at]] += load_latencies(distance[load_at])
    surprise = np.maximum(wrong[:, 3], wrong[:, 4])
    for name, window, waits in zip(dataflow_limits.NAMES, dataflow_limits.WINDOWS, dataflow_limits.WAITS_FOR_SURPRISES, strict=True):
        limit = limits.chosen(few)(latency, sources, destination, before, surprise, window, waits)
        out[f"{name}_step"][:] = _log(limit[:, 0], 8)
        out[f"{name}_slack"][:] = _log(limit[:, 1], 8)

    steps = first_order_steps(trace, designs)
    logs = np.concatenate([_log(steps[:, :, 0], 8), _log(steps[:, :, 1], 8)], axis=1).astype(np.float16)
    return ProgramFeatures(numbers, opclass, places(trace), logs, np.minimum(steps[:, :, 0], 65535).astype(np.uint16))
