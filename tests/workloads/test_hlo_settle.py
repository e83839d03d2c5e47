"""Reading a program operator by operator says the same as XLA's import steps over all of it (`settle` against `bindings.simplify`)."""

from __future__ import annotations

import gzip
from dataclasses import replace
from typing import Any

import pytest

from analysis.paths import DATA
from analysis.workloads.graph import Module, Operator
from analysis.workloads.hlo import bindings, child
from tests.workloads import hlo_texts
from tests.workloads.hlo_oracle import lowered_text, our_module
from tests.workloads.test_hlo_against_xla import CASES
from tests.workloads.test_hlo_reader import _programs

FILES = {path.name: path for path in (DATA / "workloads" / "stablehlo").rglob("*.mlir.gz")}
# One rewriting of XLA's each, or what looks like one: body, arguments, result. %x is 4x1xf32, %y 4x1xf32, %p 4x1xi1, %i i32, %n 6x4xf32.
ARGUMENTS = "%x: tensor<4x1xf32>, %y: tensor<4x1xf32>, %p: tensor<4x1xi1>, %i: tensor<i32>, %n: tensor<6x4xf32>, %h: tensor<4x1xbf16>"
CONSTANTS = """  %zero = stablehlo.constant dense<0.0> : tensor<4x1xf32>
  %one = stablehlo.constant dense<1.0> : tensor<4x1xf32>
  %two = stablehlo.constant dense<2.0> : tensor<4x1xf32>
  %list = stablehlo.constant dense<[[1.0], [2.0], [3.0], [4.0]]> : tensor<4x1xf32>
  %true = stablehlo.constant dense<true> : tensor<4x1xi1>
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c2 = stablehlo.constant dense<2> : tensor<i32>
  %i2 = stablehlo.constant dense<[2]> : tensor<1xi32>
  %s = stablehlo.constant dense<3.0> : tensor<f32>
"""
X, P, N = "tensor<4x1xf32>", "tensor<4x1xi1>", "tensor<6x4xf32>"
_ADD = "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %c = stablehlo.add %a, %b : tensor<f32> stablehlo.return %c : tensor<f32> })"
REWRITINGS = {
    "plus zero": (f"%r = stablehlo.add %x, %zero : {X}", X),
    "zero plus": (f"%r = stablehlo.add %zero, %x : {X}", X),
    "minus zero": (f"%q = stablehlo.subtract %x, %zero : {X}\n %r = stablehlo.multiply %q, %zero : {X}", X),
    "times one": (f"%q = stablehlo.multiply %one, %x : {X}\n %r = stablehlo.sine %q : {X}", X),
    "times two": (f"%r = stablehlo.multiply %two, %x : {X}", X),
    "two minus": (f"%r = stablehlo.subtract %two, %x : {X}", X),
    "constants": (f"%q = stablehlo.divide %two, %list : {X}\n %o = stablehlo.sqrt %q : {X}\n %r = stablehlo.maximum %o, %x : {X}", X),
    "broadcast constant": (
        f"%q = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> {X}\n %r = stablehlo.divide %q, %x : {X}",
        X,
    ),
    "reshapes": (
        f"%q = stablehlo.reshape %x : ({X}) -> tensor<2x2xf32>\n %o = stablehlo.reshape %q : (tensor<2x2xf32>) -> tensor<4xf32>\n"
        " %r = stablehlo.sine %o : tensor<4xf32>",
        "tensor<4xf32>",
    ),
    "reshape there and back": (
        f"%q = stablehlo.reshape %x : ({X}) -> tensor<2x2xf32>\n %o = stablehlo.reshape %q : (tensor<2x2xf32>) -> {X}\n"
        f" %r = stablehlo.sine %o : {X}",
        X,
    ),
    "reshape read twice": (
        f"%q = stablehlo.reshape %x : ({X}) -> tensor<2x2xf32>\n %o = stablehlo.reshape %q : (tensor<2x2xf32>) -> tensor<4xf32>\n"
        " %z = stablehlo.sine %q : tensor<2x2xf32>\n %w = stablehlo.reshape %z : (tensor<2x2xf32>) -> tensor<4xf32>\n"
        " %r = stablehlo.add %o, %w : tensor<4xf32>",
        "tensor<4xf32>",
    ),
    "broadcast as reshape": (f"%r = stablehlo.broadcast_in_dim %x, dims = [0, 2] : ({X}) -> tensor<4x1x1xf32>", "tensor<4x1x1xf32>"),
    "broadcast as transpose": (f"%r = stablehlo.broadcast_in_dim %x, dims = [1, 0] : ({X}) -> tensor<1x4xf32>", "tensor<1x4xf32>"),
    "broadcast twice": (
        f"%q = stablehlo.broadcast_in_dim %x, dims = [0, 1] : ({X}) -> tensor<4x3xf32>\n"
        " %r = stablehlo.broadcast_in_dim %q, dims = [1, 2] : (tensor<4x3xf32>) -> tensor<5x4x3xf32>",
        "tensor<5x4x3xf32>",
    ),
    "transpose as reshape": (f"%r = stablehlo.transpose %x, dims = [1, 0] : ({X}) -> tensor<1x4xf32>", "tensor<1x4xf32>"),
    "transpose twice": (
        f"%q = stablehlo.transpose %n, dims = [1, 0] : ({N}) -> tensor<4x6xf32>\n"
        f" %r = stablehlo.transpose %q, dims = [1, 0] : (tensor<4x6xf32>) -> {N}",
        N,
    ),
    "transpose": (f"%r = stablehlo.transpose %n, dims = [1, 0] : ({N}) -> tensor<4x6xf32>", "tensor<4x6xf32>"),
    "convert up and down": (
        f"%q = stablehlo.convert %h : (tensor<4x1xbf16>) -> {X}\n %r = stablehlo.convert %q : ({X}) -> tensor<4x1xf16>",
        "tensor<4x1xf16>",
    ),
    "convert down and up": (
        f"%q = stablehlo.convert %x : ({X}) -> tensor<4x1xbf16>\n %r = stablehlo.convert %q : (tensor<4x1xbf16>) -> {X}",
        X,
    ),
    "convert to integers": (
        f"%q = stablehlo.convert %x : ({X}) -> tensor<4x1xi32>\n %r = stablehlo.convert %q : (tensor<4x1xi32>) -> {X}",
        X,
    ),
    "counter": ("%r = stablehlo.iota dim = 1 : tensor<3x5xi32>", "tensor<3x5xi32>"),
    "counter of one": ("%r = stablehlo.iota dim = 0 : tensor<1x5xi32>", "tensor<1x5xi32>"),
    "slice of all": (f"%r = stablehlo.slice %n [0:6, 0:4] : ({N}) -> {N}", N),
    "slice": (f"%r = stablehlo.slice %n [0:3, 0:4] : ({N}) -> tensor<3x4xf32>", "tensor<3x4xf32>"),
    "slice of a concatenation": (
        f"%q = stablehlo.concatenate %x, %y, dim = 0 : ({X}, {X}) -> tensor<8x1xf32>\n"
        f" %r = stablehlo.slice %q [0:4, 0:1] : (tensor<8x1xf32>) -> {X}",
        X,
    ),
    "concatenate twice": (
        f"%q = stablehlo.concatenate %x, %y, dim = 0 : ({X}, {X}) -> tensor<8x1xf32>\n"
        f" %r = stablehlo.concatenate %q, %y, dim = 0 : (tensor<8x1xf32>, {X}) -> tensor<12x1xf32>",
        "tensor<12x1xf32>",
    ),
    "concatenate one": (f"%q = stablehlo.concatenate %x, dim = 0 : ({X}) -> {X}\n %r = stablehlo.sine %q : {X}", X),
    "dynamic slice, constant": (
        f"%r = stablehlo.dynamic_slice %n, %c2, %c0, sizes = [2, 4] : ({N}, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>",
        "tensor<2x4xf32>",
    ),
    "dynamic slice": (
        f"%r = stablehlo.dynamic_slice %n, %i, %c0, sizes = [2, 4] : ({N}, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>",
        "tensor<2x4xf32>",
    ),
    "update of all": (f"%r = stablehlo.dynamic_update_slice %x, %y, %c0, %c0 : ({X}, {X}, tensor<i32>, tensor<i32>) -> {X}", X),
    "gather at a constant": (
        f'%r = "stablehlo.gather"(%n, %i2) <{{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0],'
        f" start_index_map = [0]>, slice_sizes = array<i64: 1, 4>}}> : ({N}, tensor<1xi32>) -> tensor<4xf32>",
        "tensor<4xf32>",
    ),
    "select by a constant": (f"%r = stablehlo.select %true, %x, %y : {P}, {X}", X),
    "select by not": (f"%q = stablehlo.not %p : {P}\n %r = stablehlo.select %q, %x, %y : {P}, {X}", X),
    "select of equals": (f"%r = stablehlo.select %p, %x, %x : {P}, {X}", X),
    "and with itself": (f"%r = stablehlo.and %p, %p : {P}", P),
    "and with true": (f"%r = stablehlo.and %true, %p : {P}", P),
    "equal to itself": (f"%r = stablehlo.compare EQ, %p, %p : ({P}, {P}) -> {P}", P),
    "not a number": (f"%r = stablehlo.compare NE, %x, %x : ({X}, {X}) -> {P}", P),
    "not false": (f"%r = stablehlo.compare EQ, %true, %p : ({P}, {P}) -> {P}", P),
    "pad by nothing": (f"%r = stablehlo.pad %n, %s, low = [0, 0], high = [0, 0], interior = [0, 0] : ({N}, tensor<f32>) -> {N}", N),
    "pad": (
        f"%r = stablehlo.pad %n, %s, low = [1, 0], high = [0, 0], interior = [0, 0] : ({N}, tensor<f32>) -> tensor<7x4xf32>",
        "tensor<7x4xf32>",
    ),
    "reverse of one": (f"%r = stablehlo.reverse %x, dims = [1] : {X}", X),
    "reverse": (f"%r = stablehlo.reverse %n, dims = [0] : {N}", N),
    "reduce nothing": (f'%r = "stablehlo.reduce"(%x, %s) {_ADD} {{dimensions = array<i64>}} : ({X}, tensor<f32>) -> {X}', X),
    "clamp": (f"%r = stablehlo.clamp %zero, %x, %one : {X}", X),
    "a product": (f"%r = stablehlo.dot_general %n, %x, contracting_dims = [1] x [0] : ({N}, {X}) -> tensor<6x1xf32>", "tensor<6x1xf32>"),
    "calls on a constant": (
        f"%q = stablehlo.custom_call @one(%two) : ({X}) -> {X}\n %o = stablehlo.custom_call @other(%two) : ({X}) -> {X}\n"
        f" %w = stablehlo.custom_call @one(%two) : ({X}) -> {X}\n %z = stablehlo.add %q, %o : {X}\n %r = stablehlo.add %w, %z : {X}",
        X,
    ),
    "small numbers": (
        f"%c = stablehlo.constant dense<1.0> : tensor<f8E4M3FN>\n %q = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f8E4M3FN>) ->"
        f" tensor<4x1xf8E4M3FN>\n %o = stablehlo.convert %q : (tensor<4x1xf8E4M3FN>) -> {X}\n %r = stablehlo.multiply %o, %x : {X}",
        X,
    ),
    "four bits": (
        f"%c = stablehlo.constant dense<1> : tensor<i4>\n %q = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i4>) -> tensor<4x1xi4>\n"
        f" %o = stablehlo.convert %x : ({X}) -> tensor<4x1xi4>\n %r = stablehlo.multiply %o, %q : tensor<4x1xi4>",
        "tensor<4x1xi4>",
    ),
    "a constant's slice at a place": (
        "%o = stablehlo.add %i, %c2 : tensor<i32>\n"
        f" %q = stablehlo.dynamic_slice %two, %o, %c0, sizes = [2, 1] : ({X}, tensor<i32>, tensor<i32>) -> tensor<2x1xf32>\n"
        " %r = stablehlo.sine %q : tensor<2x1xf32>",
        "tensor<2x1xf32>",
    ),
    "a constant padded and cut": (
        "%f = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f" %q = stablehlo.pad %two, %f, low = [0, 0], high = [4, 0], interior = [0, 0] : ({X}, tensor<f32>) -> tensor<8x1xf32>\n"
        f" %o = stablehlo.slice %q [4:8, 0:1] : (tensor<8x1xf32>) -> {X}\n %r = stablehlo.add %o, %x : {X}",
        X,
    ),
    "nothing left": (f"%q = stablehlo.multiply %x, %one : {X}\n %o = stablehlo.sine %q : {X}\n %r = stablehlo.add %zero, %one : {X}", X),
}  # fmt: skip


def _text(name: str) -> str:
    body, result = REWRITINGS[name]
    return f"func.func @main({ARGUMENTS}) -> {result} {{\n{CONSTANTS} {body}\n return %r : {result}\n}}\n"


def _both(content: str | bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[Module | dict[str, Any], Module | dict[str, Any], bool]:
    """The program read operator by operator where it can be, and by XLA's steps; whether the first had to run them, too."""
    ran: list[int] = []
    steps = bindings.simplify
    monkeypatch.setattr(bindings, "simplify", lambda *given: ran.append(1) or steps(*given))
    found = _read(content)
    whole = bool(ran)
    monkeypatch.setattr(bindings, "tidy", lambda *given: False)
    return found, _read(content), whole


def _read(content: str | bytes) -> Module | dict[str, Any]:
    record = child.read(content.encode() if isinstance(content, str) else content, None)
    return record if "error" in record else our_module(content)


def _constants_aside(module: Module | dict[str, Any]) -> Any:
    """A program with its constants, which come first in their function in an order of the compiler's own, told by what they hold."""
    if isinstance(module, dict):
        return module
    constants = {operator.id: operator for operator in module.operators if operator.op_class == "constant"}
    others = [operator for operator in module.operators if operator.id not in constants]
    place = {operator.id: at for at, operator in enumerate(others)}

    def source(operand: int) -> Any:
        return repr(constants[operand].work) if operand in constants else place.get(operand, operand)

    def told(operator: Operator) -> Any:
        return operator.work, tuple(map(source, operator.operands)), operator.scope, operator.trips

    rest = replace(module, operators=(), result_operators=())
    kept = sorted(repr((operator.work, operator.trips, operator.scope)) for operator in constants.values())
    return [told(operator) for operator in others], kept, [source(each) for each in module.result_operators], rest


@pytest.mark.parametrize("name", REWRITINGS)
def test_each_rewriting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, whole, _ = _both(_text(name), monkeypatch)
    assert isinstance(one, Module)
    assert _constants_aside(one) == _constants_aside(whole)


def test_every_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """All programs of the repository, of the tests and of JAX: operations, sources, bytes; two thirds of the straight ones need no pass."""
    programs = {name: gzip.decompress(path.read_bytes()) for name, path in FILES.items()}
    programs |= _programs()
    programs |= {name: lowered_text(function, *arguments) for name, (function, arguments) in CASES.items()}
    ran = set()
    for name, content in programs.items():
        with monkeypatch.context() as patch:
            one, whole, passes = _both(content, patch)
        assert _constants_aside(one) == _constants_aside(whole), name
        ran |= {name} if passes else set()
    assert {"gemm.mlir.gz", "resnet50_train_b256.mlir.gz", "llama2_7b_layer.mlir.gz", "moe_block.mlir.gz", "softmax"}.isdisjoint(ran)
    assert {"COUNTED_LOOP", "complex", "DYNAMIC", "llama2_7b_train_scan.mlir.gz"} <= ran


def test_calls_hold_constants_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant argument is no constant inside; each call has its constants; a sum with an argument that is zero stays."""
    inner = f"""func.func private @f(%x: {X}, %z: {X}) -> {X} {{ %two = stablehlo.constant dense<2.0> : {X}
 %0 = stablehlo.add %x, %z : {X}\n %1 = stablehlo.multiply %two, %0 : {X}\n return %1 : {X} }}\n"""
    body = f"  %zero = stablehlo.constant dense<0.0> : {X}\n  %s = stablehlo.constant dense<2.0> : tensor<f32>\n" + "".join(
        f"  %{place} = func.call @f(%{before}, %zero) : ({X}, {X}) -> {X}\n" for place, before in ((0, "a"), (1, "0"))
    )
    body += f"  %two = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> {X}\n  %r = stablehlo.multiply %two, %1 : {X}\n"
    text = inner + hlo_texts.program(body + f"  return %r : {X}", arguments=f"%a: {X}", result=X)
    one, whole, passes = _both(text.replace("module  {", "").rstrip("\n").removesuffix("}"), monkeypatch)
    assert not passes
    assert isinstance(one, Module)
    assert _constants_aside(one) == _constants_aside(whole)
    assert [operator.op_class for operator in one.operators].count("constant") == 4
