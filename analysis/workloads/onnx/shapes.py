"""Types of all tensors of an ONNX graph, from the sizes of its inputs on; small tensors that are known before the run are worked out.

`onnx.shape_inference` tells the types of a node's outputs, `onnx.reference` computes those that hold sizes (Shape, Gather, Concat, ...).
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, TypeProto, checker, defs, helper, numpy_helper, shape_inference

from analysis.workloads.graph import Tensor, element_bits

MOST_FOLDED = 4096  # elements of a tensor that is worked out
CONFLICTS = ("ncompatible dimensions", "Dimension mismatch", "Can't merge shape info")
"""What `onnx.shape_inference` says of inputs that no runtime takes together."""
NO_RULE = (defs.SchemaError, shape_inference.InferenceError, checker.ValidationError)
STANDARD = ("", "ai.onnx")
CONTRIBUTED = "com.microsoft"
NAMES = {
    "FLOAT": "f32", "FLOAT16": "f16", "BFLOAT16": "bf16", "DOUBLE": "f64", "BOOL": "i1", "COMPLEX64": "complex<f32>",
    "COMPLEX128": "complex<f64>", "FLOAT8E4M3FN": "f8E4M3FN", "FLOAT8E4M3FNUZ": "f8E4M3FNUZ", "FLOAT8E5M2": "f8E5M2",
    "FLOAT8E5M2FNUZ": "f8E5M2FNUZ", "FLOAT8E8M0": "f8E8M0FNU", "FLOAT4E2M1": "f4E2M1FN",
    **{f"{sign}INT{bits}": f"{sign.lower()}i{bits}" for sign in ("", "U") for bits in (2, 4, 8, 16, 32, 64)},
}  # fmt: skip
TYPES = {number: NAMES.get(name, name.lower()) for name, number in TensorProto.DataType.items()}
# Operators of ONNX Runtime that give what an operator of the standard gives: its name there.
SAME_SHAPES = {"FusedConv": "Conv", "FusedGemm": "Gemm", "DynamicQuantizeMatMul": "MatMul", "MatMulIntegerToFloat": "MatMul"}


class Unreadable(ValueError):
    """The graph cannot be described; the message says why."""


def tensor_type(element: int, sizes: Any) -> TypeProto:
    """The type of a tensor: number of the element type, sizes (None: not known)."""
    return helper.make_tensor_type_proto(element, list(sizes))


def sizes_of(kind: TypeProto | None) -> tuple[int | None, ...] | None:
    """Sizes of a tensor's type, None for those that are not known; None for what is no tensor or has no rank."""
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in kind.tensor_type.shape.dim)


@dataclass
class Shapes:
    """Types and known values by the name of a tensor.

    Args:
        opsets: version of each domain.
        declared: types that the file states for what no rule tells.
        constant: tensors that are the same in every run: weights, and what is computed from them alone.
    """

    opsets: dict[str, int]
    declared: dict[str, TypeProto]
    types: dict[str, TypeProto] = field(default_factory=dict)
    values: dict[str, NDArray[Any]] = field(default_factory=dict)
    constant: set[str] = field(default_factory=set)

    def weight(self, tensor: TensorProto) -> None:
        """Take a tensor of the file, with its value where that is in it and small."""
        self.types[tensor.name] = tensor_type(tensor.data_type, tensor.dims)
        self.constant.add(tensor.name)
        self.keep(tensor.name, tensor)

    def keep(self, name: str, tensor: TensorProto) -> None:
        """Keep the value of a tensor if it is small and there."""
        if math.prod(tensor.dims) <= MOST_FOLDED and tensor.data_location != TensorProto.EXTERNAL:
            with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):  # emptied by `skim`, or too few elements
                self.values[name] = numpy_helper.to_array(tensor)

    def tensor(self, name: str) -> Tensor:
        """A tensor as the operator graph has it; dynamic where its type is not known, of no elements where there is none."""
        if not name:
            return Tensor((0,), "f32", 0)
        kind = self.types.get(name)
        sizes = sizes_of(kind)
        dtype = TYPES.get(kind.tensor_type.elem_type, "unknown") if kind is not None and kind.HasField("tensor_type") else "unknown"
        shape = (None,) if sizes is None else sizes
        return Tensor(shape, dtype, -(-math.prod(1 if size is None else size for size in shape) * element_bits(dtype) // 8))

    def infer(self, node: NodeProto) -> None:
        """Learn the types of a node's outputs, and their values where these follow from known ones."""
        inputs = [name for name in node.input if name]
        self._types(node)
        if node.op_type in ("Shape", "Size") and inputs and node.domain in STANDARD:
            sizes = sizes_of(self.types.get(inputs[0]))
            if sizes is not None and None not in sizes:
                chosen = sizes[slice(*(next((a.i for a in node.attribute if a.name == key), None) for key in ("start", "end")))]
                value = chosen if node.op_type == "Shape" else math.prod(int(size or 0) for size in sizes)
                self.values[node.output[0]] = np.array(value, np.int64)
            return
        if node.op_type == "Constant" and node.domain in STANDARD:
            self.constant.update(node.output)
            for attribute in node.attribute:
                if attribute.name == "value":
                    self.keep(node.output[0], attribute.t)
                    return
        elif not all(name in self.constant or name in self.values for name in inputs) or not inputs:
            return
        elif all(name in self.constant for name in inputs):
            self.constant.update(node.output)
        outputs = [sizes_of(self.types.get(name)) for name in node.output]
        small = all(sizes is not None and None not in sizes and math.prod(map(int, sizes)) <= MOST_FOLDED for sizes in outputs)  # type: ignore[arg-type]
        if small and all(name in self.values for name in inputs) and node.domain in STANDARD and not node.op_type.startswith("Random"):
            self._work_out(node, inputs)

    def _work_out(self, node: NodeProto, inputs: list[str]) -> None:
        from onnx.reference import ReferenceEvaluator

        given = [helper.make_value_info(name, self.types[name]) for name in dict.fromkeys(inputs) if name in self.types]
        made = [helper.make_value_info(name, self.types[name]) for name in node.output if name]
        graph = helper.make_graph([node], "one", given, made)
        try:
            found = ReferenceEvaluator(graph, opsets=self.opsets).run(None, {name: self.values[name] for name in inputs})
        except MemoryError:
            raise
        except Exception:  # what its Python code raises on inputs that do not go together
            return
        self.values.update({info.name: np.asarray(value) for info, value in zip(made, found, strict=True)})

    def _types(self, node: NodeProto) -> None:
        found: dict[str, TypeProto] = {}
        domain = "" if node.domain in STANDARD else node.domain
        name = node.op_type
        if domain == CONTRIBUTED and name in SAME_SHAPES:
            domain, node = "", _standard(node, SAME_SHAPES[name])
        known = {each: self.types[each] for each in node.input if each in self.types}
        if len(known) == len({each for each in node.input if each}):
            try:
                version = self.opsets.get(domain, self.opsets.get("", onnx.defs.onnx_opset_version()))
                schema = defs.get_schema(node.op_type, version, domain)
                data = {each: numpy_helper.from_array(self.values[each]) for each in node.input if each in self.values}
                opsets = [helper.make_opsetid(key, value) for key, value in self.opsets.items()]
                found = shape_inference.infer_node_outputs(schema, node, known, data, opset_imports=opsets)
            except (*NO_RULE, RuntimeError, ValueError, TypeError, KeyError, NotImplementedError) as error:
                if any(words in str(error) for words in CONFLICTS):
                    self._refuse(node)
                # else no rule of the standard: the file's own statement, if it has one
            if node.op_type == "Conv" and self._channels_differ(node):
                self._refuse(node)
        if not found and (made := _contributed(node, [sizes_of(self.types.get(each)) for each in node.input])) is not None:
            like = self.types[node.input[2 if node.op_type == "EmbedLayerNormalization" else 0]]
            found = {name: tensor_type(like.tensor_type.elem_type, made) for name in node.output if name}
            if node.op_type == "EmbedLayerNormalization" and len(node.output) > 1:  # how long each sequence is
                found[node.output[1]] = tensor_type(TensorProto.INT32, made[:1])
        for each in node.output:
            kind, stated = found.get(each), self.declared.get(each)
            sizes = sizes_of(kind)
            whole = kind and ((sizes is not None and None not in sizes) or sizes_of(stated) is None)
            if best := kind if whole else stated or kind:
                self.types[each] = best

    def _channels_differ(self, node: NodeProto) -> bool:
        image, kernel = (sizes_of(self.types.get(each)) or () for each in node.input[:2])
        groups = next((each.i for each in node.attribute if each.name == "group"), 1)
        return len(image) > 1 and len(kernel) > 1 and None not in (image[1], kernel[1]) and image[1] != groups * (kernel[1] or 0)

    def _refuse(self, node: NodeProto) -> None:
        sizes = ", ".join("x".join(map(str, sizes_of(self.types.get(each)) or ("?",))) for each in node.input if each)
        raise Unreadable(f"node {node.name or node.op_type!r} of {node.op_type}: inputs of {sizes} do not go together")


_LIKE_FIRST = {
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SimplifiedLayerNormalization", "FastGelu", "BiasGelu", "Gelu",
    "QuickGelu", "RotaryEmbedding", "GroupQueryAttention", "MultiHeadAttention", "LayerNormalization",
}  # fmt: skip


def _contributed(node: NodeProto, inputs: list[tuple[int | None, ...] | None]) -> tuple[int | None, ...] | None:
    """Sizes of the results of ONNX Runtime's own operators, all alike; None where no rule is known."""
    first = inputs[0] if inputs else None
    second = inputs[1] if len(inputs) > 1 else None
    given = {each.name: each.i for each in node.attribute}
    if first is None or node.domain not in (*STANDARD, CONTRIBUTED):
        return None
    if node.op_type == "GroupQueryAttention" and second is None and first[-1] and given.get("num_heads"):
        return *first[:-1], first[-1] * given["num_heads"] // (given["num_heads"] + 2 * given.get("kv_num_heads", 0))
    if node.op_type in _LIKE_FIRST:
        return first
    if node.op_type in ("FusedMatMul", "TransposeMatMul") and second is not None and min(len(first), len(second)) > 1:
        batch = first[:-2] if len(first) >= len(second) else second[:-2]
        return *batch, first[-1 if given.get("transA") else -2], second[-2 if given.get("transB") else -1]
    if node.op_type == "MatMulNBits" and "N" in given:
        return *first[:-1], given["N"]
    if node.op_type == "Attention" and node.domain == CONTRIBUTED and second is not None and second[-1]:
        return *first[:-1], second[-1] // 3
    if node.op_type == "EmbedLayerNormalization" and len(inputs) > 2 and inputs[2] is not None:
        return *first, inputs[2][-1]
    return None


def _standard(node: NodeProto, name: str) -> NodeProto:
    """The node under the name and with the attributes of the standard's operator, transposed inputs aside."""
    kept = {"Conv": {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}, "Gemm": {"alpha", "beta", "transA", "transB"}}
    listed = [attribute for attribute in node.attribute if attribute.name in kept.get(name, set())]
    made = NodeProto(op_type=name, name=node.name)
    made.input.extend(node.input[: 3 if name in ("Conv", "Gemm") else 2])
    made.output.extend(node.output[:1])
    made.attribute.extend(listed)
    return made
