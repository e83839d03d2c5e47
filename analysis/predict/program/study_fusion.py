"""Which operators of a program run as one kernel, and what does each kernel read and write? The study's fusion rule.

Stated on 2026-11-21 before any training step was scored. Rules 1, 2 and 4 have not changed; `as_stated` gives rule 3 as it was, by which
the published steps were scored:

1. A matrix product, a convolution and a collective are kernels of their own. Control, tuples and barriers are free; a reshape is a view.
2. All other operators fuse with those they are connected to, as long as no product, convolution, reduction or collective lies between them;
   a reduction ends the kernel that feeds it.
3. A kernel reads each tensor from outside once and writes what is read outside of it, unless the reader can make it again by elementwise
   operators (not transcendental ones) from tensors that are together no larger. A slice is read in place, an update in place writes what
   it puts, and what is made of constants and counters alone is made again where it is needed.
   Since 2026-11-26: a gather reads its indices and as many bytes as it gives, not its table, and is not made again; a scatter that applies
   a function reads what it changes, and writes all of what is made of constants. (As stated, a gather read its whole table once, or nothing
   where its readers could make it again: an embedding's table cost a decode step, and a graph's edges were free.)
4. Where attention is fused, the scores (batch, heads, queries, group, keys) and what has their shape never leave the chip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from analysis.predict.program.systolic_device import NO_WORK, VectorWork, work_of
from analysis.workloads.graph import Module, Operator, Tensor

ZERO_COST = {
    *("stablehlo.while", "stablehlo.return", "stablehlo.tuple", "stablehlo.get_tuple_element", "stablehlo.optimization_barrier"),
    *("stablehlo.constant", "stablehlo.partition_id", "stablehlo.replica_id", "stablehlo.case", "stablehlo.if"),
}
VIEWS = {"stablehlo.reshape"}
SLICE = {"stablehlo.slice", "stablehlo.dynamic_slice"}
GATHER = {"stablehlo.gather", "stablehlo.dynamic_gather", "stablehlo.torch_index_select"}
UPDATE = {"stablehlo.dynamic_update_slice", "stablehlo.scatter"}
UNFUSABLE = {"matmul", "convolution", "collective", "custom call", "scan", "sort", "fft", "linear algebra", "unknown"}


@dataclass(frozen=True)
class Kernel:
    """Operators that run as one, all their runs together.

    Args:
        kind: matmul, convolution, reduction, elementwise, data movement, collective, or the class of another operator of its own.
        flop: arithmetic, transcendental operations counted as one each (FLOP); bytes: read and written (bytes).
        trips: how often it runs (count).
        dtype: that the arithmetic of a product runs in.
        operators: how many it holds (count).
        vector: what all its runs pass through a TPU's vector unit.
    """

    kind: str
    flop: float
    bytes: float
    trips: int
    dtype: str
    operators: int
    vector: VectorWork = NO_WORK


def kernels(
    module: Module, on_chip: Callable[[Tensor], bool] | None = None, rematerialize: bool = True, as_stated: bool = False
) -> list[Kernel]:
    """The kernels of a program by the rule above.

    Args:
        rematerialize: whether tensors are computed again where that reads no more (rule 3); as_stated: whether rule 3 is the first one.
    """
    operators = module.operators
    source = _sources(operators)
    stage = _stages(operators, source)
    group = _groups(operators, source, stage)
    members: dict[int, list[Operator]] = {}
    for operator in operators:
        if _runs(operator):
            members.setdefault(group[operator.id], []).append(operator)
    results = {source.get(each, each) for each in module.result_operators}
    in_place = SLICE if as_stated else SLICE | GATHER
    whole: set[int] = set()  # updates of what is made for them, which write all of it
    origins = _origins(operators, source, results, rematerialize, on_chip or (lambda _: False), in_place)
    needed: dict[int, set[int]] = {}
    reads: dict[int, dict[int, float]] = {key: {} for key in members}
    for operator in operators:
        if operator.name in VIEWS:
            continue
        key = group[operator.id] if _runs(operator) else -1  # what a loop hands on is written
        for index, operand in enumerate(operator.operands):
            origin = source.get(operand, operand)
            if (origin >= 0 and key == group[origin] and _runs(operators[origin])) or index >= len(operator.work.inputs):
                continue
            if operator.name in UPDATE and index == 0:
                if not as_stated and key != -1:
                    if operator.name == "stablehlo.scatter" and operator.work.flops:  # what it changes
                        reads[key][operator.id] = float(_put(operator).bytes)
                    if origin >= 0 and operators[origin].scope == operator.scope and operators[origin].name not in UPDATE:
                        needed.setdefault(origin, set()).add(key)
                        whole |= {operator.id} if operators[origin].op_class == "constant" or group[origin] == key else set()
                continue
            if key == -1 and origin >= 0:
                needed.setdefault(origin, set()).add(key)
                continue
            stored = origins[origin] if origin >= 0 else {origin: float(operator.work.inputs[index].bytes)}
            if operator.name in in_place and index == 0:
                needed.setdefault(origin, set()).add(key)
                stored = {operator.id: float(operator.work.output_bytes)} if stored else {}
            for tensor, size in stored.items():
                needed.setdefault(tensor, set()).add(key)
                if key != -1:
                    reads[key][tensor] = max(reads[key].get(tensor, 0.0), size)
    return [_kernel(part, key, reads[key], needed, results, on_chip or (lambda _: False), whole) for key, part in members.items()]


def _put(operator: Operator) -> Tensor:
    """What an update puts in place."""
    return operator.work.inputs[1] if operator.name == "stablehlo.dynamic_update_slice" else operator.work.inputs[-1]


def _origins(
    operators: tuple[Operator, ...],
    source: dict[int, int],
    results: set[int],
    rematerialize: bool,
    hidden: Callable[[Tensor], bool],
    in_place: set[str],
) -> list[dict[int, float]]:
    """For each operator what has to be read from memory, and how much of it, to have its result: the result itself, or what makes it."""
    found: list[dict[int, float]] = []
    for operator in operators:
        size = float(operator.work.output_bytes)
        own = {operator.id: size}
        if operator.name in VIEWS and operator.operands:
            origin = source[operator.id]
            found.append(found[origin] if origin >= 0 else {origin: size})
            continue
        made = operator.op_class == "constant" or operator.name in ("stablehlo.constant", "stablehlo.iota")
        if made or any(hidden(tensor) for tensor in operator.work.outputs):
            found.append({})
            continue
        if operator.name in in_place:
            found.append(own)
            continue
        makers: dict[int, float] = {}
        for index, operand in enumerate(operator.operands):
            origin = source.get(operand, operand)
            if index < len(operator.work.inputs):
                makers |= found[origin] if 0 <= origin < len(found) else {origin: float(operator.work.inputs[index].bytes)}
        cheap = operator.op_class in ("elementwise", "data movement") and operator.name not in UPDATE and bool(operator.operands)
        smaller = math.fsum(makers.values()) <= size if rematerialize else not makers
        found.append(makers if cheap and smaller and operator.id not in results else own)
    return found


def _runs(operator: Operator) -> bool:
    return operator.name not in ZERO_COST and operator.name not in VIEWS and operator.op_class not in ("control", "constant")


def _sources(operators: Iterable[Operator]) -> dict[int, int]:
    """For each view the operator whose tensor it shows."""
    found: dict[int, int] = {}
    for operator in operators:
        if operator.name in VIEWS and operator.operands:
            found[operator.id] = found.get(operator.operands[0], operator.operands[0])
    return found


def _ends(operator: Operator) -> bool:
    return operator.op_class in UNFUSABLE or operator.op_class == "reduction"


def _stages(operators: Iterable[Operator], source: dict[int, int]) -> list[int]:
    """How many products, convolutions, reductions and collectives lie before each operator, on the longest way."""
    stage: list[int] = []
    ends: list[bool] = []
    for operator in operators:
        own = 0
        for operand in operator.operands:
            origin = source.get(operand, operand)
            if 0 <= origin < len(stage):
                own = max(own, stage[origin] + ends[origin])
        stage.append(own)
        ends.append(_ends(operator))
    return stage


def _groups(operators: tuple[Operator, ...], source: dict[int, int], stage: list[int]) -> list[int]:
    """The smallest operator id of each operator's kernel."""
    parent = list(range(len(operators)))

    def root(at: int) -> int:
        while parent[at] != at:
            parent[at] = parent[parent[at]]
            at = parent[at]
        return at

    for operator in operators:
        if operator.op_class in UNFUSABLE or not _runs(operator):
            continue
        for operand in operator.operands:
            origin = source.get(operand, operand)
            if origin < 0:
                continue
            other = operators[origin]
            joined = _runs(other) and not _ends(other) and other.scope == operator.scope and stage[origin] == stage[operator.id]
            if joined and other.work.outputs and other.work.outputs[0].elements > 1:
                first, second = sorted((root(origin), root(operator.id)))
                parent[second] = first
    return [root(at) for at in range(len(operators))]


def _kernel(
    part: list[Operator],
    key: int,
    reads: dict[int, float],
    needed: dict[int, set[int]],
    results: set[int],
    hidden: Callable[[Tensor], bool],
    whole: set[int],
) -> Kernel:
    written = 0.0
    for operator in part:
        leaves = operator.id in results or any(reader != key for reader in needed.get(operator.id, ()))
        if leaves and operator.name in UPDATE and operator.id not in whole:
            put = _put(operator)
            written += 0.0 if hidden(put) else float(put.bytes)
        elif leaves and operator.name not in SLICE:
            written += math.fsum(tensor.bytes for tensor in operator.work.outputs if not hidden(tensor))
    trips = part[0].trips
    moved = math.fsum(reads.values()) + written
    flop = math.fsum(operator.work.flops + operator.work.transcendentals for operator in part)
    if written == 0 and not any(_ends(operator) for operator in part):
        moved = 0.0  # every reader makes it again
    vector = sum((work_of(operator.work) for operator in part), NO_WORK).times(trips)
    return Kernel(_kind(part), flop * trips, moved * trips, trips, part[0].work.dtype, len(part), vector)


def _kind(part: list[Operator]) -> str:
    classes = {operator.op_class for operator in part}
    if classes & {"elementwise", "transcendental", "random"}:
        classes.add("elementwise")
    return next((kind for kind in ("matmul", "convolution", "collective", "reduction", "elementwise") if kind in classes), part[0].op_class)
