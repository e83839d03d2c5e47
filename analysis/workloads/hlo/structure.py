"""How are calls, loops, branches and tuples taken apart? What runs inside is put in their place. (Child process; see `bindings`.)"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from analysis.workloads.hlo.bindings import ir
from analysis.workloads.hlo.cost import moved
from analysis.workloads.hlo.types import integers

if TYPE_CHECKING:
    from analysis.workloads.hlo.walk import Walker

LARGEST_GRAPH = 1_000_000
END = object()  # what ends a block


class TooLarge(ValueError):
    """Calls taken apart, the program has more operators than a graph can hold."""


class NoProgram(ValueError):
    """The module has no function to begin with, or several."""


def _inline(walker: Walker, body: Any, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    for argument, value in zip(body.arguments, operands, strict=False):
        walker.bind(argument, walker.source(value))
        walker.constants.bound[argument] = value
    ended = walker.body(body, scope, trips)
    for result, value in zip(results, ended, strict=False):
        walker.bind(result, walker.source(value))


def call(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    """A call, composite or asynchronous start: the function's operators in its place."""
    callee = callee_of(operation)
    function = walker.functions.get(callee)
    if function is None or not len(function.regions[0].blocks):
        _opaque(walker, operation, f"{operation.name} @{callee}", operands, results, scope)
        return
    if callee in walker.calls or len(walker.calls) > 500:
        raise NoProgram(f"@{callee} calls itself")
    walker.inlined += 1
    if walker.inlined == 20_000:  # calls that double at each level: say so before taking them apart
        sizes: dict[str, int] = {}
        expected = walker.size_of(walker.calls[0], sizes)
    else:
        expected = len(walker.operator_work) + walker.inlined
    if expected > LARGEST_GRAPH:
        raise TooLarge(f"has more than {LARGEST_GRAPH:,} operators once its calls are taken apart")
    walker.calls.append(callee)
    _inline(walker, function.regions[0].blocks[0], operands, results, scope, trips)
    walker.calls.pop()


def region(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    """A region that runs once: a manual computation (on one device's shard) or a named one."""
    if name == "manual_computation":
        walker.notes.setdefault("inside a manual computation shapes are one device's, outside they are the whole program's")
    _inline(walker, operation.regions[0].blocks[0], operands, results, scope, trips)


def loop(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    """A `while`: its condition and its body once, in scopes of their own."""
    test, body = operation.regions[0].blocks[0], operation.regions[1].blocks[0]
    following = body.operations[len(body.operations) - 1].operation.operands
    for place, value in enumerate(operands):
        still = place < len(body.arguments) and place < len(following) and following[place] == body.arguments[place]
        for block in (test, body):
            walker.bind(block.arguments[place], walker.source(value))
            walker.constants.bound.pop(block.arguments[place], None)
            if still:
                walker.constants.bound[block.arguments[place]] = value
    count = walker.constants.trips(operation)
    if count is None:
        where = re.search(r":(\d+):\d+", str(operation.location))
        line = f" at line {where.group(1)}" if where else ""
        walker.notes.setdefault(f"a loop{line} runs as often as its data say: counted once")
    walker.table("stablehlo.while", operands, scope)
    for kind, block, runs in (("condition", test, 1 if count is None else count + 1), ("loop", body, 1 if count is None else count)):
        walker.scopes.append((kind, scope, trips * runs, count is not None))
        ended = walker.block(block, len(walker.scopes) - 1, trips * runs)
    for place, result in enumerate(results):
        walker.bind(result, walker.source(ended[place]) if place < len(ended) else -1)


def branches(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    """A `case` or `if`: the branch with the most operations (then bytes), as XLA counts the most expensive one."""
    best: tuple[Any, ...] | None = None
    lists: tuple[list[Any], ...] = (walker.operator_work, walker.operator_scope, walker.operator_operands, walker.scopes)
    starts = [len(each) for each in lists]
    for region in operation.regions:
        if not len(region.blocks):
            continue
        walker.scopes.append(("branch", scope, trips, True))
        ended = walker.block(region.blocks[0], len(walker.scopes) - 1, trips)
        made = [each[start:] for each, start in zip(lists, starts, strict=True)]
        runs = [(*walker.costs[work], walker.scopes[inside][2]) for work, inside, _ in zip(*made[:3], strict=True)]
        total = sum(flops * count for flops, _, count in runs), sum(size * count for _, size, count in runs)
        if best is None or total > best[0]:
            best = (total, made, [walker.source(value) for value in ended])
        for each, start in zip(lists, starts, strict=True):
            del each[start:]
    if best is None:
        return
    if len(operation.regions) > 1:
        walker.notes.setdefault("of a case or if, the branch with the most operations is counted")
    for each, added in zip(lists, best[1], strict=True):
        each.extend(added)
    for result, source in zip(results, best[2], strict=False):
        walker.bind(result, source)


def alias(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    """An operator that only names values: each result is an operand."""
    for place, result in enumerate(results):
        source = operands[min(place, len(operands) - 1)] if operands else None
        walker.bind(result, walker.source(source) if source is not None else -1)


def barrier(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    """An optimization barrier: XLA counts it as a copy."""
    size = sum(walker.shapes[walker.type_of(value.type)].bytes for value in operands)
    walker.table("stablehlo.optimization_barrier", operands, scope, size + (size if len(operands) == 1 else 8.0 * len(operands)))
    alias(walker, operation, name, operands, results, scope, trips)


def pack(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    """A tuple."""
    walker.members[results[0]] = [walker.source(value) for value in operands]
    walker.bind(results[0], walker.members[results[0]][0] if operands else -1)


def unpack(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    """A member of a tuple."""
    members, place = walker.members.get(operands[0], []), integers(operation.attributes["index"])[0]
    walker.bind(results[0], members[place] if place < len(members) else walker.source(operands[0]))


def nothing(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
    """A declaration."""


def _opaque(walker: Walker, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int) -> None:
    kinds = [walker.shapes[walker.type_of(value.type)] for value in (*operands, *results)]
    walker.add({"name": operation.name, "class": "unknown", "bytes": moved(kinds, []), "unknown": name}, operands, results, scope)


def callee_of(operation: Any) -> str:
    """Name of the function that an operation calls, by whichever attribute its kind has for it; empty when it calls none."""
    for key in ("callee", "decomposition", "called_computation"):
        if key in operation.attributes:
            return ir.FlatSymbolRefAttr(operation.attributes[key]).value
    return ""


HANDLERS: dict[str, Any] = {
    "return": END,
    "while": loop,
    "tuple": pack,
    "get_tuple_element": unpack,
    "optimization_barrier": barrier,
    **dict.fromkeys(("call", "composite", "async_start"), call),
    **dict.fromkeys(("case", "if"), branches),
    **dict.fromkeys(("manual_computation", "named_computation"), region),
    **dict.fromkeys(("async_done", "sharding_constraint", "reshard", "propagation_barrier", "data_flow_edge"), alias),
    **dict.fromkeys(("after_all", "create_token"), alias),
    **dict.fromkeys(("sharding_group", "mesh"), nothing),
}
