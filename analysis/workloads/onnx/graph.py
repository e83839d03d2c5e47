"""From the nodes of an ONNX file to plain records of the operator graph, as `hlo.walk` makes them of StableHLO. (Child process.)

As the runtimes do: what depends on weights alone is computed once and costs nothing; a product of two dequantised 8-bit tensors runs on
the integers; MatMul, Softmax, MatMul whose scores nothing else reads run as one attention kernel; what nothing reads does not run.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any, BinaryIO

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, TypeProto, helper, inliner

from analysis.workloads.graph import Attention, Tensor
from analysis.workloads.hlo.cost import moved
from analysis.workloads.onnx.operators import KIND, NotModelled, Part, attention_part, parts, stands_for
from analysis.workloads.onnx.shapes import CONTRIBUTED, STANDARD, Shapes, Unreadable, sizes_of, tensor_type
from analysis.workloads.onnx.skim import NotOnnx, skim

LARGEST_GRAPH = 1_000_000
_BETWEEN = {"Div", "Mul", "Add", "Where", "Cast", "Identity", "Dropout", "Sub", "Max", "Clip", "Reshape", "IsNaN"}
"""What may stand between a product of queries and keys, its softmax and the product with the values."""
_EIGHT_BITS = ("i8", "ui8", "f8E4M3FN", "f8E5M2")


def read(stream: BinaryIO, sizes: dict[str, int]) -> dict[str, Any]:
    """The record of the graph in a file (see `hlo.walk.Walker.record`), or ``{"error": message, "line": 0}``."""
    try:
        return _Graph(_model(stream), sizes).record()
    except (NotOnnx, Unreadable) as error:
        return {"error": str(error), "line": 0}
    except RecursionError:
        return {"error": "nests its graphs too deep", "line": 0}


def _model(stream: BinaryIO) -> ModelProto:
    try:
        model = onnx.load_model_from_string(skim(stream))
    except (NotOnnx, DecodeError) as error:
        raise NotOnnx(f"is not an ONNX model: {error}") from None
    if any(isinstance(each, bytes) for each in _names(model)):
        raise NotOnnx("holds a name that is not UTF-8 text")
    if not model.graph.node:
        raise NotOnnx("is not an ONNX model: it holds no node")
    if model.functions:
        try:
            model = inliner.inline_local_functions(model)
        except Exception as error:  # the C++ library's, of kinds of its own
            raise NotOnnx(f"its functions cannot be put into its graph: {str(error).splitlines()[0][:150]}") from None
    return model


def _names(model: ModelProto) -> Iterator[str | bytes]:
    """Texts of a graph; bytes where protobuf could not make text of one."""
    graph = model.graph
    yield graph.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output, *(each.name for each in node.attribute))
    for given in (*graph.input, *graph.output, *graph.value_info):
        yield from (given.name, *(dim.dim_param for dim in given.type.tensor_type.shape.dim))
    yield from (weight.name for weight in graph.initializer)


@dataclass(frozen=True)
class _Fused:
    """Nodes that run as one attention kernel, in order, and what they read from outside."""

    attention: Attention
    nodes: list[NodeProto]
    inputs: list[str]


class _Graph:
    """Operators of one model."""

    def __init__(self, model: ModelProto, sizes: dict[str, int]) -> None:
        self.graph, self.model = model.graph, model
        opsets = {"" if each.domain in STANDARD else each.domain: each.version for each in model.opset_import}
        declared = {each.name: each.type for each in (*self.graph.value_info, *self.graph.output)}
        self.asked: list[str] = []
        self.used: set[str] = set()
        self.sizes = sizes
        stated = {name: self._sized(name, kind) for name, kind in declared.items()}
        self.shapes = Shapes({"": onnx.defs.onnx_opset_version(), **opsets}, stated)
        self.sources: dict[str, int] = {}
        self.arguments: list[str] = []
        for weight in self.graph.initializer:
            self.shapes.weight(weight)
            self._argument(weight.name)
        for sparse in self.graph.sparse_initializer:
            self.shapes.types[sparse.values.name] = tensor_type(sparse.values.data_type, sparse.dims)
            self._argument(sparse.values.name)
        self.asked.clear()
        for given in self.graph.input:
            if given.name not in self.shapes.types:
                self.shapes.types[given.name] = self._sized(given.name, given.type)
                self._argument(given.name)
        if self.asked:
            named = list(dict.fromkeys(self.asked))
            options = " ".join("--dim " + shlex.quote(f"{each}=SIZE") for each in named)
            raise Unreadable(f"leaves {'a size' if len(named) == 1 else 'sizes'} of its inputs open: give {options}")
        stray = [name for name in sizes if name not in self.used]
        if stray:
            raise Unreadable(f"has no open size {stray[0]} (--dim); expected one of {', '.join(sorted(self.used)) or 'none: all are set'}")
        self.nodes = list(self.graph.node)
        if len(self.nodes) > LARGEST_GRAPH:
            raise Unreadable(f"has more than {LARGEST_GRAPH:,} nodes")
        self.maker = {name: node for node in self.nodes for name in node.output if name}
        self.readers = Counter(name for node in self.nodes for name in node.input)
        self.reader = {name: node for node in self.nodes for name in node.input}
        self.readers.update(each.name for each in self.graph.output)
        self.works: list[dict[str, Any]] = []
        self.known: dict[Any, int] = {}
        self.tensors: dict[Tensor, int] = {}
        self.operators: list[tuple[int, int, list[int]]] = []  # work, scope, operands
        self.scopes: list[tuple[str, int, int, bool]] = [("main", -1, 1, True)]
        self.notes: dict[str, None] = {}

    def _argument(self, name: str) -> None:
        self.sources[name] = -1 - len(self.arguments)
        self.arguments.append(name)

    def _sized(self, name: str, kind: TypeProto) -> TypeProto:
        """A type with the sizes that were given; asks for those that are open."""
        if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return kind
        made = TypeProto()
        made.CopyFrom(kind)
        for axis, dim in enumerate(made.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            if dim.HasField("dim_value") and dim.dim_value == 0:
                dim.Clear()
            names = [each for each in (dim.dim_param, f"{name}.{axis}") if each.strip("?")]
            chosen = next((each for each in names if each in self.sizes), None)
            if chosen is None:
                self.asked.append(names[0])
                continue
            self.used.add(chosen)
            dim.dim_value = self.sizes[chosen]
        return made

    def record(self) -> dict[str, Any]:
        """Everything as lists and numbers that JSON can carry."""
        made = {*self.sources, *self.shapes.types}
        for node in self.nodes:
            if KIND.get(node.op_type) == "control flow" and node.domain in STANDARD:
                raise Unreadable(f"holds {node.op_type} {node.name!r}: control flow is not read")
            missing = next((name for name in node.input if name and name not in made), None)
            if missing is not None:
                raise Unreadable(f"node {node.name or node.op_type!r} reads {missing!r}, which nothing before it makes")
            twice = next((name for name in node.output if name in made), None)
            if twice:
                raise Unreadable(f"node {node.name or node.op_type!r} makes {twice!r}, which is there before it")
            self.shapes.infer(node)
            made.update(node.output)
        absent = next((each.name for each in self.graph.output if each.name not in made), None)
        if absent is not None or not self.graph.output:
            raise Unreadable("names no results" if absent is None else f"its result {absent!r} is made by nothing in it")
        attentions = [found for node in self.nodes if node.op_type == "Softmax" and (found := self._attention(node)) is not None]
        last = {id(each.nodes[-1]): each for each in attentions}
        skipped = {id(node) for each in attentions for node in each.nodes}
        for node in self.nodes:
            if id(node) in last:
                self._add_attention(last[id(node)])
            elif id(node) not in skipped:
                self._add(node)
        if attentions:
            self.notes[f"{len(attentions)} attentions of MatMul, Softmax, MatMul run as one kernel each, as the runtimes fuse them"] = None
        return self._live()

    def _live(self) -> dict[str, Any]:
        """The record without what nothing reads."""
        results = [self.sources.get(each.name, -1) for each in self.graph.output]
        live = set()
        waiting = [each for each in results if each >= 0]
        while waiting:
            place = waiting.pop()
            if place not in live:
                live.add(place)
                waiting.extend(each for each in self.operators[place][2] if each >= 0)
        number = {place: count for count, place in enumerate(sorted(live))}
        kept = [self.operators[place] for place in sorted(live)]
        arguments = [self._place(self.shapes.tensor(name)) for name in self.arguments]
        returned = [self._place(self.shapes.tensor(each.name)) for each in self.graph.output]
        return {
            "tensors": [[list(each.shape), each.dtype, each.bytes] for each in self.tensors],
            "works": self.works,
            "operator_work": [work for work, _, _ in kept],
            "operator_scope": [scope for _, scope, _ in kept],
            "operator_operands": [[number[each] if each >= 0 else each for each in operands] for _, _, operands in kept],
            "scopes": self.scopes,
            "arguments": arguments,
            "results": returned,
            "result_operators": [number[each] if each >= 0 else each for each in results],
            "partitions": 1,
            "replicas": 1,
            "notes": list(self.notes),
            "name": self.graph.name[:200],
        }

    def _place(self, tensor: Tensor) -> int:
        return self.tensors.setdefault(tensor, len(self.tensors))

    def _append(self, node: NodeProto, part: Part | None, inputs: list[Tensor], outputs: list[Tensor], operands: list[int]) -> int:
        kind = node.op_type if node.domain in STANDARD or node.domain == CONTRIBUTED else f"{node.domain}.{node.op_type}"
        dynamic = any(each.is_dynamic for each in (*inputs, *outputs))
        unknown = None if part is not None and not dynamic else f"onnx.{kind}" + (" (shape not known before the run)" if dynamic else "")
        made = part or Part("unknown", 0, moved(inputs, outputs))
        if dynamic:
            made = Part(made.op_class if part else "unknown", 0, made.bytes)
        scope = 0
        if made.steps > 1:
            self.scopes.append(("loop", 0, made.steps, True))
            scope = len(self.scopes) - 1
        key = (kind, made, tuple(inputs), tuple(outputs), unknown)
        if key not in self.known:
            self.known[key] = len(self.works)
            record: dict[str, Any] = {
                "name": stands_for(kind) if node.domain in STANDARD else f"onnx.{kind}",
                "inputs": [self._place(each) for each in inputs], "outputs": [self._place(each) for each in outputs],
                "class": made.op_class, "flops": made.flops, "bytes": made.bytes, "transcendentals": made.transcendentals,
                "unknown": unknown,
            }  # fmt: skip
            attributes = {name: getattr(made, name) for name in ("matmul", "convolution", "attention")}
            self.works.append(record | {name: astuple(value) for name, value in attributes.items() if value is not None})
        self.operators.append((self.known[key], scope, operands))
        return len(self.operators) - 1

    def _add(self, node: NodeProto) -> None:
        kind, outputs = node.op_type, [name for name in node.output if self.readers[name]]
        worked_out = all(name in self.shapes.values for name in outputs) or kind in ("Shape", "Size")
        dequantised = kind == "DequantizeLinear"
        if not outputs:
            return
        if worked_out or (not dequantised and all(name in self.shapes.constant for name in outputs)):
            for name in outputs:  # known before the run: a weight of its own
                self._argument(name)
            return
        names = list(node.input)  # an empty one: an input left out
        operands = [self.sources.get(name, -1) for name in names]
        if KIND.get(kind) == "view" and node.domain in STANDARD:
            names, operands = names[:1], operands[:1]
        inputs = [self.shapes.tensor(name) for name in names]
        if (KIND.get(kind) in ("product", "convolution") or kind == "Gemm") and len(names) > 1:
            for at in (0, 1) if all(self._integers(name) for name in names[:2]) else ():
                source = self.maker[names[at]].input[0]
                inputs[at], operands[at] = self.shapes.tensor(source), self.sources.get(source, -1)
        made = [self.shapes.tensor(name) for name in outputs]
        try:
            if node.domain not in (*STANDARD, CONTRIBUTED):
                raise NotModelled(kind)
            given = {each.name: helper.get_attribute_value(each) for each in node.attribute if not each.ref_attr_name}
            given = {key: value.decode(errors="replace") if isinstance(value, bytes) else value for key, value in given.items()}
            found: list[Part | None] = list(parts(kind, given, inputs, made))
        except (NotModelled, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError):
            found = [None]
        for part in found:
            place = self._append(node, part, inputs, made, operands)
            operands = [place, *operands[1:]]
        self.sources.update(dict.fromkeys(outputs, place))

    def _integers(self, name: str) -> bool:
        """Whether a tensor is 8-bit numbers that were scaled."""
        node = self.maker.get(name)
        return node is not None and node.op_type == "DequantizeLinear" and self.shapes.tensor(node.input[0]).dtype in _EIGHT_BITS

    def _attention(self, softmax: NodeProto) -> _Fused | None:
        """The attention that a softmax stands in the middle of; none where the pattern is another or the scores are read elsewhere."""
        before: list[NodeProto] = []
        name = softmax.input[0] if softmax.input else ""
        while name in self.maker and self.readers[name] == 1:
            before.append(self.maker[name])
            if before[-1].op_type in ("MatMul", "FusedMatMul") or before[-1].op_type not in _BETWEEN:
                break
            size = self.shapes.tensor(name).elements
            computed = [each for each in before[-1].input if each in self.maker and each not in self.shapes.constant]
            name = next((each for each in computed if self.shapes.tensor(each).elements == size), "")
        after = [softmax]
        while self.readers[after[-1].output[0]] == 1 and after[-1].output[0] in self.reader:
            after.append(self.reader[after[-1].output[0]])
            if after[-1].op_type not in _BETWEEN:
                break
        first, last = before[-1] if before else softmax, after[-1]
        if first.op_type not in ("MatMul", "FusedMatMul") or last.op_type != "MatMul" or last.input[0] != after[-2].output[0]:
            return None
        left, out = (sizes_of(self.shapes.types.get(each)) for each in (first.input[0], first.output[0]))
        if left is None or out is None or None in (*left, *out) or len(out) not in (3, 4) or len(left) != len(out):
            return None
        whole = [int(size or 0) for size in out]
        batch, heads = (whole[0], whole[1]) if len(whole) == 4 else (1, whole[0])
        nodes = [*reversed(before), *after]
        inner = {name for node in nodes[:-1] for name in node.output}
        inputs = dict.fromkeys(name for node in nodes for name in node.input if name and name not in inner)
        return _Fused(Attention(batch, heads, heads, int(left[-1] or 0), whole[-2], whole[-1]), nodes, list(inputs))

    def _add_attention(self, found: _Fused) -> None:
        inputs = [self.shapes.tensor(name) for name in found.inputs]
        outputs = [self.shapes.tensor(found.nodes[-1].output[0])]
        part = attention_part(found.attention, moved(inputs, outputs))
        node = NodeProto(op_type="Attention")
        place = self._append(node, part, inputs, outputs, [self.sources.get(name, -1) for name in found.inputs])
        self.sources[found.nodes[-1].output[0]] = place
