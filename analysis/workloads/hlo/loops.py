"""How often does a loop run? Trip counts from constant starts, steps and bounds. (Child process; see `bindings`.)"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from analysis.workloads.hlo.bindings import attribute, ir

_LARGEST_SIMULATION = 20_000
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    name: getattr(operator, name.lower()) for name in ("LT", "LE", "GT", "GE", "EQ", "NE")
}
_BINARY: dict[str, Callable[[float, float], float]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "maximum": max,
    "minimum": min,
    "and": lambda a, b: int(a) & int(b),
    "or": lambda a, b: int(a) | int(b),
    "xor": lambda a, b: int(a) ^ int(b),
    "shift_left": lambda a, b: int(a) << int(b) if 0 <= b < 64 else 0,
    "shift_right_logical": lambda a, b: int(a) >> int(b) if 0 <= b < 64 and a >= 0 else 0,
    "remainder": lambda a, b: math.fmod(a, b) if isinstance(a, float) else int(math.fmod(a, b)),
    "divide": lambda a, b: a / b if isinstance(a, float) else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1),
}
_SAME = {"convert", "reshape", "broadcast_in_dim", "copy", "optimization_barrier", "bitcast_convert"}


class NotConstant(Exception):
    """The value depends on data."""


class Constants:
    """Values of scalars that constants determine.

    Args:
        functions: functions of the module by name.
    """

    def __init__(self, functions: dict[str, Any]) -> None:
        self.functions = functions
        self.bound: dict[Any, Any] = {}  # function argument, or carried value that no trip changes -> what stands for it outside
        self.depth = 0

    def value(self, wanted: Any, given: dict[Any, Any]) -> Any:
        """The number that a scalar value has."""
        self.depth += 1
        try:
            if self.depth > 200:
                raise NotConstant
            return self._value(wanted, given)
        finally:
            self.depth -= 1

    def _value(self, wanted: Any, given: dict[Any, Any]) -> Any:
        if wanted in given:
            return given[wanted]
        if wanted in self.bound:
            return self.value(self.bound[wanted], given)
        if not isinstance(wanted, ir.OpResult):
            raise NotConstant
        operation = wanted.owner.operation
        name = operation.name.partition(".")[2]
        operands = operation.operands
        if name == "constant":
            return _constant(operation)
        if name in _SAME:
            number = self.value(operands[0 if len(operands) == 1 else ir.OpResult(wanted).result_number], given)
            return int(number) if name == "convert" and "f" not in str(wanted.type).rpartition("x")[2] else number
        if name in _BINARY:
            left, right = self.value(operands[0], given), self.value(operands[1], given)
            try:
                return _BINARY[name](left, right)
            except (ZeroDivisionError, ValueError, OverflowError):
                raise NotConstant from None
        if name == "negate":
            return -self.value(operands[0], given)
        if name == "not":
            number = self.value(operands[0], given)
            return not number if isinstance(number, bool) else ~int(number)
        if name == "compare":
            direction = str(operation.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">")
            return _COMPARE[direction](self.value(operands[0], given), self.value(operands[1], given))
        if name == "select":
            return self.value(operands[1 if self.value(operands[0], given) else 2], given)
        if name == "call":
            function = self.functions.get(ir.FlatSymbolRefAttr(operation.attributes["callee"]).value)
            if function is None:
                raise NotConstant
            body = function.regions[0].blocks[0]
            inside = {
                argument: self.value(operand, given)
                for argument, operand in zip(body.arguments, operands, strict=True)
                if _is_scalar(argument.type)
            }
            return self.value(_last(body).operands[ir.OpResult(wanted).result_number], {**given, **inside})
        raise NotConstant

    def trips(self, loop: Any) -> int | None:
        """Trips of a `while`, `None` where data decide or the loop would not end."""
        test, body = loop.regions[0].blocks[0], loop.regions[1].blocks[0]
        wanted = _last(test).operands[0]
        following = _last(body).operands
        by_body = {argument: place for place, argument in enumerate(body.arguments)}
        by_test = {argument: place for place, argument in enumerate(test.arguments)}
        try:
            needed = self._needed(wanted, by_test)
            todo = list(needed)
            while todo:
                place = todo.pop()
                for other in self._needed(following[place], by_body):
                    if other not in needed:
                        needed.add(other)
                        todo.append(other)
            state = {place: self.value(loop.operands[place], {}) for place in needed}
            closed = self._linear(wanted, test, body, following, state)
            if closed is not None:
                return closed
            for trip in range(_LARGEST_SIMULATION):
                if not self.value(wanted, {test.arguments[place]: number for place, number in state.items()}):
                    return trip
                inside = {body.arguments[place]: number for place, number in state.items()}
                state = {place: self.value(following[place], inside) for place in state}
        except NotConstant:
            return None
        return None

    def _linear(self, wanted: Any, test: Any, body: Any, following: Any, state: dict[int, Any]) -> int | None:
        """Trips of `while i < bound: i += step` and its relatives; `None` for any other loop."""
        if not isinstance(wanted, ir.OpResult) or wanted.owner.operation.name.partition(".")[2] != "compare":
            return None
        moving = [place for place in state if following[place] != body.arguments[place]]
        if len(moving) != 1 or wanted.owner.operation.operands[0] != test.arguments[moving[0]]:
            return None
        place = moving[0]
        after = following[place]
        if not isinstance(after, ir.OpResult) or after.owner.operation.name.partition(".")[2] not in ("add", "subtract"):
            return None
        adding = after.owner.operation
        still = {body.arguments[other]: number for other, number in state.items() if other != place}
        if adding.operands[0] == body.arguments[place]:
            step = self.value(adding.operands[1], still)
        elif adding.operands[1] == body.arguments[place] and adding.name.endswith("add"):
            step = self.value(adding.operands[0], still)
        else:
            return None
        if adding.name.endswith("subtract"):
            step = -step
        fixed = {test.arguments[other]: number for other, number in state.items() if other != place}
        bound = self.value(wanted.owner.operation.operands[1], fixed)
        direction = str(wanted.owner.operation.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">")
        start = state[place]
        if not all(isinstance(number, int) for number in (start, step, bound)):
            return None
        return linear_trips(start, step, bound, direction)

    def _needed(self, wanted: Any, carried: dict[Any, int]) -> set[int]:
        """Places of the carried values on which a value depends."""
        found: set[int] = set()
        todo, seen = [wanted], set()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in carried:
                if not _is_scalar(value.type):
                    raise NotConstant
                found.add(carried[value])
            elif value in self.bound:
                continue
            elif isinstance(value, ir.OpResult):
                if len(seen) > 500:
                    raise NotConstant
                todo.extend(value.owner.operation.operands)
        return found


def linear_trips(start: int, step: int, bound: int, direction: str) -> int | None:
    """Trips of a loop that runs while `i direction bound` from i = start in equal steps; `None` if it never ends."""
    if not _COMPARE[direction](start, bound):
        return 0
    if direction == "EQ":
        return 1 if step else None
    if direction == "NE":
        return (bound - start) // step if step and (bound - start) % step == 0 and (bound - start) // step > 0 else None
    if direction in ("GT", "GE"):
        start, step, bound = -start, -step, -bound
    if step <= 0:
        return None
    return -((start - bound - (direction in ("LE", "GE"))) // step)


def _constant(operation: Any) -> Any:
    value = attribute(operation, "value")
    if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat:
        raise NotConstant
    if isinstance(value, ir.DenseFPElementsAttr):
        return float(ir.FloatAttr(ir.DenseFPElementsAttr(value).get_splat_value()).value)
    scalar = str(value.type)
    number = ir.IntegerAttr(value.get_splat_value()).value
    return bool(number) if scalar.endswith("i1>") else int(number)


def _is_scalar(kind: Any) -> bool:
    text = str(kind)
    return text.startswith("tensor<") and ("x" not in text or text.startswith(("tensor<1x", "tensor<complex"))) and "," not in text


def _last(block: Any) -> Any:
    return block.operations[len(block.operations) - 1].operation
