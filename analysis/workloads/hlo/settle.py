"""What do XLA's import steps make of one operator? Most they leave alone; for the others XLA runs once for each kind. (Child process.)

A program without loops, branches, complex numbers and dynamic shapes needs no pass over all of it: `rule` says for each kind of operator
(name, types, attributes, which operands are constants or made by an operator that a rewriting looks into) whether anything would change,
and `ask` runs XLA's steps on that operator alone. `NeedsPasses` where a rewriting takes more than one operator.

Source: the folds and canonicalization patterns of openxla/xla, xla/mlir_hlo/mhlo/IR/hlo_ops.cc; tests/workloads/test_hlo_settle.py
compares with the passes over whole programs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.workloads.graph import Tensor
from analysis.workloads.hlo.bindings import IMPORT, Unread, ir, passmanager
from analysis.workloads.hlo.cost import of_which
from analysis.workloads.hlo.types import integers

if TYPE_CHECKING:
    from analysis.workloads.hlo.walk import Walker

_COMMUTES = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"}
_LOGICAL = {"and", "or", "xor", "not"}
ALIKE = {"and", "or", "xor", "compare", "select"}
"""Operators that two equal operands change."""
_KNOWN = of_which("settles")
_ZERO, _ONE = {"0.000000e+00", "-0.000000e+00", "0", "false"}, {"1.000000e+00", "1", "true"}
_CUT = {"concatenate", "pad", "reverse", "slice"}
"""What of constants are constants of which XLA sees more or less than their elements, as its steps' order has it."""
_IN_REGIONS = {"add", "multiply", "maximum", "minimum", "subtract", "divide", "and", "or", "xor", "compare", "select", "return"}
SWAPPED, SUBTRACTED, RESHAPED = "swapped", "subtracted", "reshaped"


class NeedsPasses(Exception):
    """XLA's steps have to run on the whole program."""


@dataclass(frozen=True)
class Made:
    """What a rewriting sees of the operator that made a value: its name, of a constant the value, of a conversion what it converts."""

    name: str
    value: Any = None
    text: str = ""
    dtype: str = ""


@dataclass(frozen=True)
class Steps:
    """What XLA puts in an operator's place: each step's work, kind and operands; then what stands for the result.

    Operands are ("operand", place), ("constant", kind) or ("step", place).
    """

    steps: tuple[tuple[int, int, tuple[tuple[str, int], ...]], ...]
    result: tuple[str, int]


def made_by(name: str, value: Any, inputs: list[Tensor], operands: list[Made | None]) -> Made | None:
    """What rewritings see of an operator's result, `None` for the many that none looks into."""
    if name == "constant":
        text = str(value).split(" : ")[0] if isinstance(value, ir.DenseElementsAttr) and value.is_splat else ""
        return Made(name, value, text[6:-1])
    if name == "convert":
        return Made(name, dtype=inputs[0].dtype)
    if name == "broadcast_in_dim":
        return Made(name, dtype="not" if operands[0] is not None and "not" in (operands[0].name, operands[0].dtype) else "")
    return Made(name) if name in ("reshape", "transpose", "concatenate", "not") else None


def is_zero(made: Made | None) -> bool:
    """Whether all elements of a constant are (positive) zeros."""
    return made is not None and made.text in ("0.000000e+00", "0")


def rule(walker: Walker, operation: Any, name: str, kinds: tuple[int, ...], output: int, alike: bool) -> Any:
    """What XLA's steps make of a StableHLO operator.

    `None`: nothing; SWAPPED: its operands are; RESHAPED: a reshape of what its operand reshapes; a constant's kind; or `Steps`.
    """
    makers = [walker.makers[kind] for kind in kinds]
    inputs, result = [walker.shapes[walker.type_of_kind[kind]] for kind in kinds], walker.shapes[output]
    constants = [made is not None and made.name == "constant" for made in makers]
    if name not in _KNOWN or (alike and not (name == "compare" and inputs[0].dtype[0] in "bf")):
        raise NeedsPasses
    if any(not tensor.elements or tensor.is_dynamic or tensor.dtype.startswith(("complex", "tuple")) for tensor in (*inputs, result)):
        raise NeedsPasses
    if len(operation.regions) and not all(_is_plain(region) for region in operation.regions):
        raise NeedsPasses
    first = makers[0] if makers else None
    maker = first.name if first else ""
    if name == "broadcast_in_dim":
        if first is not None and first.text:
            return walker.constant_kind(ir.DenseElementsAttr.get_splat(operation.result.type, first.value.get_splat_value()))
        if inputs[0].elements == result.elements:
            dimensions = integers(operation.attributes["broadcast_dimensions"])
            if dimensions == sorted(dimensions) and inputs[0] != result and not constants[0]:
                return RESHAPED
            return ask(walker, operation, kinds)
        if maker == "broadcast_in_dim":
            raise NeedsPasses
        return ask(walker, operation, kinds) if constants[0] else None
    if name == "reshape" and not constants[0] and inputs[0] != result:
        return RESHAPED
    if _two(name, first, makers, inputs, result) or (constants and all(constants) and name in _CUT):
        raise NeedsPasses
    if (constants and all(constants)) or _asks(name, makers, constants, inputs, result, operation):
        return ask(walker, operation, kinds)
    return SWAPPED if name in _COMMUTES and constants[0] else None


def _two(name: str, first: Made | None, makers: list[Made | None], inputs: list[Tensor], result: Tensor) -> bool:
    """Whether a rewriting may join an operator with the one that made an operand."""
    maker = first.name if first else ""
    if name == "convert" and maker == "convert":
        kinds = {re.sub(r"\d.*", "", dtype)[-1:] for dtype in (first.dtype, inputs[0].dtype, result.dtype)}  # type: ignore[union-attr]
        return len(kinds) == 1 or "f" in kinds
    if name == "dynamic_slice":  # of equal elements: what made its places is dead
        return first is not None and bool(first.text)
    if name == "select":
        return first is not None and "not" in (first.name, first.dtype)
    if name == "concatenate":
        return any(made is not None and made.name == "concatenate" for made in makers)
    return (name, maker) in {
        ("transpose", "transpose"),
        ("transpose", "broadcast_in_dim"),
        ("slice", "concatenate"),
    }


def _asks(name: str, makers: list[Made | None], constants: list[bool], inputs: list[Tensor], result: Tensor, operation: Any) -> bool:
    """Whether a fold or a rewriting of one operator may apply."""
    if name in ("reverse", "map", "sort", "reduce_precision", "custom_call"):
        if name == "custom_call" and "lo." not in str(operation.attributes["call_target_name"]):
            return False
        if name == "sort" and len(inputs) > 1:
            raise NeedsPasses
        return True
    if name in ("add", "multiply"):
        return any(made is not None and made.text in (_ZERO if name == "add" else _ONE) for made in makers)
    if name in _LOGICAL or (name == "compare" and inputs[0].dtype == "i1"):
        return any(constants)
    if name == "select":
        return constants[0]
    if name == "gather":
        return constants[1]
    if name == "dynamic_slice":
        return all(constants[1:])
    if name == "scatter":
        return any(constants)
    if name == "iota":
        return len(result.shape) > 1 or result.shape[0] == 1
    if name == "convolution":
        return len(result.shape) == 2
    if name == "dynamic_update_slice":
        return inputs[0].shape == inputs[1].shape
    if name == "concatenate" and len(inputs) == 1:
        return True
    if name == "transpose" and 1 in result.shape:
        return True
    same = ("reshape", "transpose", "slice", "pad", "convert", "reduce", "reduce_window", "concatenate")
    return name in same and bool(inputs) and inputs[0] == result


def _is_plain(region: Any) -> bool:
    """Whether no fold or rewriting applies inside a region: plain operators on its own values, no constants, no two equal operands."""
    inside = {hash(argument) for block in region.blocks for argument in block.arguments}
    for block in region.blocks:
        for view in block.operations:
            operation = view.operation
            name, values = operation.name.partition(".")[2], [*map(hash, operation.operands)]
            twice = name != "return" and len({*values}) < len(values)
            if twice and name == "compare":  # of a number with itself: false where it is none
                twice = "f" not in str(operation.operands[0].type)
            if name not in _IN_REGIONS or twice or not inside.issuperset(values):
                return False
            inside.update(map(hash, operation.results))
    return True


def ask(walker: Walker, operation: Any, kinds: tuple[int, ...]) -> Any:
    """What XLA's steps make of an operator alone (see `rule`)."""
    types = [str(value.type) for value in operation.operands]
    makers = [walker.makers[kind] for kind in kinds]
    constant = {place: made.value for place, made in enumerate(makers) if made is not None and made.name == "constant"}
    if len(operation.results) != 1 or any(isinstance(value, Unread) for value in constant.values()):
        raise NeedsPasses
    arguments = ", ".join(f"%a{place}: {kind}" for place, kind in enumerate(types))
    module = ir.Module.parse(f"func.func @f({arguments}) {{ return }}", operation.context)
    block = module.body.operations[0].operation.regions[0].blocks[0]
    end = block.operations[0].operation
    before = ir.InsertionPoint(end)
    with operation.location:
        copy = operation.clone(before)
        for place in range(len(types)):
            copy.operands[place] = block.arguments[place]
        for place, value in constant.items():
            made = ir.Operation.create("stablehlo.constant", results=[value.type], attributes={"value": value}, ip=ir.InsertionPoint(copy))
            copy.operands[place] = made.result
        ir.Operation.create("func.return", operands=[copy.result], ip=before)
    end.erase()
    if walker.manager is None:  # to make one takes longer than to run it
        walker.manager = passmanager.PassManager.parse(f"builtin.module({IMPORT})", operation.context)
        walker.manager.enable_verifier(False)
    walker.manager.run(module.operation)
    return _answer(walker, operation, block, kinds, set(constant))


def _answer(walker: Walker, operation: Any, block: Any, kinds: tuple[int, ...], constant: set[int]) -> Any:
    stands: dict[int, tuple[str, int]] = {hash(argument): ("operand", place) for place, argument in enumerate(block.arguments)}
    known = {walker.makers[kinds[place]].value: ("operand", place) for place in constant}  # type: ignore[union-attr]
    steps: list[tuple[int, int, tuple[tuple[str, int], ...]]] = []
    *inner, end = [view.operation for view in block.operations]
    names = []
    for each in inner:
        name = each.name.partition(".")[2]
        if not each.name.startswith("mhlo."):
            raise NeedsPasses
        if name == "constant":
            value = each.attributes["value"]
            stands[hash(each.result)] = known.get(value) or ("constant", walker.constant_kind(value))
            continue
        operands = tuple(stands[hash(value)] for value in each.operands)
        taken = tuple(kinds[place] if what == "operand" else place if what == "constant" else steps[place][1] for what, place in operands)
        work, kind = walker.work_and_kind(each, taken)
        if name == "reshape":  # it may join the reshape that made its operand
            raise NeedsPasses
        stands[hash(each.result)] = ("step", len(steps))
        steps.append((work, kind, operands))
        names.append(name)
    result = stands[hash(end.operands[0])]
    if result[0] == "constant":
        return result[1]
    used = {each for _, _, operands in steps for each in operands} | {result}
    if not {place for what, place in used if what == "operand"} >= {*range(len(kinds))} - constant:  # what made the others would be dead
        raise NeedsPasses
    whole = tuple(("operand", place) for place in range(len(kinds)))
    if names == [operation.name.partition(".")[2]] and steps[0][2] == whole:
        return None
    return Steps(tuple(steps), result)
