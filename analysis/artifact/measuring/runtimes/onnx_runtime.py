"""Operators and whole models in ONNX Runtime: weights are constants of the model, as in any deployed one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from analysis.artifact.measuring.graphs import Graph, Node
from analysis.artifact.measuring.operators import MeasuredOperator
from analysis.artifact.measuring.runtimes.fill import values
from analysis.artifact.measuring.timing import CALLS

OPSET = 20
CONTRIBUTED = "com.microsoft"


class _Model:
    """Collects ONNX nodes and constants; images are batch x channels x height x width here."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, array: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, domain=domain, **attributes))
        return output

    def add(self, node: Node) -> None:
        """Append what computes one operator under its name."""
        operator, name, source = node.operator, node.name, list(node.inputs)
        kind, variant = operator.kind, operator.variant
        weights = [values(shape, len(operator.inputs()) + index) for index, shape in enumerate(operator.parameters())]
        if kind == "conv2d":
            weights[0] = weights[0].transpose(3, 2, 0, 1)
        constants = [self.constant(f"{name}.w{index}", weight) for index, weight in enumerate(weights)]
        if kind == "gemm":
            self.node("Gemm" if variant == "bias" else "MatMul", source + constants, name)
        elif kind == "bmm":
            if variant == "transposed":
                source[1] = self.node("Transpose", [source[1]], f"{name}.t", perm=[0, 2, 1])
            self.node("MatMul", source, name)
        elif kind == "conv2d":
            window, stride = operator["window"], operator["stride"]
            sizes: dict[str, Any] = {
                "kernel_shape": [window] * 2,
                "strides": [stride] * 2,
                "pads": [window // 2] * 4,
                "group": operator["groups"],
            }
            self.node("Conv", source + constants, name, **sizes)
        elif kind == "pool" and variant == "max":
            window, stride = operator["window"], operator["stride"]
            self.node("MaxPool", source, name, kernel_shape=[window] * 2, strides=[stride] * 2, pads=[window // 2] * 4)
        elif kind == "pool":
            self.node("Flatten", [self.node("GlobalAveragePool", source, f"{name}.mean")], name)
        elif kind == "softmax":
            if variant == "causal":
                mask = np.where(np.tril(np.ones(operator.size[1:], bool)), 0, -np.inf).astype(np.float32)
                source = [self.node("Add", [source[0], self.constant(f"{name}.mask", mask)], f"{name}.masked")]
            self.node("Softmax", source, name, axis=-1)
        elif kind == "layernorm":
            self.node("LayerNormalization", source + constants, name, axis=-1, epsilon=1e-5)
        elif kind == "rmsnorm":
            self.node("SimplifiedLayerNormalization", source + constants, name, axis=-1, epsilon=1e-5)
        elif kind == "rope":
            first, second = f"{name}.first", f"{name}.second"
            self.nodes.append(helper.make_node("Split", source, [first, second], name=f"{name}.split", axis=-1, num_outputs=2))
            turned = self.node("Concat", [self.node("Neg", [second], f"{name}.neg"), first], f"{name}.turned", axis=-1)
            straight = self.node("Mul", [source[0], constants[0]], f"{name}.cos")
            self.node("Add", [straight, self.node("Mul", [turned, constants[1]], f"{name}.sin")], name)
        elif kind == "transpose":
            tokens, heads, width = operator.size
            split = variant == "split_heads"
            shape = self.constant(f"{name}.shape", np.array([tokens, heads, width] if split else [tokens, heads * width], np.int64))
            if split:
                self.node("Transpose", [self.node("Reshape", [source[0], shape], f"{name}.r")], name, perm=[1, 0, 2])
            else:
                self.node("Reshape", [self.node("Transpose", source, f"{name}.t", perm=[1, 0, 2]), shape], name)
        elif kind == "attention":
            self._attention(operator, name, source)
        else:
            self._elementwise(variant, name, source)

    def _attention(self, operator: MeasuredOperator, name: str, source: list[str]) -> None:
        if operator.variant == "fused":
            self.node("MultiHeadAttention", source, name, domain=CONTRIBUTED, num_heads=operator["heads"])
            return
        turned = self.node("Transpose", [source[1]], f"{name}.t", perm=[0, 1, 3, 2])
        scores = self.node("MatMul", [source[0], turned], f"{name}.scores")
        scale = self.constant(f"{name}.scale", np.array(1 / math.sqrt(operator["head_size"]), np.float32))
        scaled = self.node("Mul", [scores, scale], f"{name}.scaled")
        self.node("MatMul", [self.node("Softmax", [scaled], f"{name}.softmax", axis=-1), source[2]], name)

    def _elementwise(self, variant: str, name: str, source: list[str]) -> None:
        if variant == "scale":
            self.node("Mul", [source[0], self.constant(f"{name}.by", np.array(0.125, np.float32))], name)
        elif variant == "silu":
            self.node("Mul", [source[0], self.node("Sigmoid", source, f"{name}.sigmoid")], name)
        else:
            self.node({"add": "Add", "mul": "Mul", "relu": "Relu", "gelu": "Gelu"}[variant], source, name)


def input_shape(operator: MeasuredOperator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """An activation's shape as ONNX Runtime takes it: channels first; heads beside their width for its fused attention."""
    if operator.kind in ("conv2d", "pool"):
        return shape[0], shape[3], shape[1], shape[2]
    if operator.kind == "attention" and operator.variant == "fused":
        batch, heads, tokens, width = shape
        return batch, tokens, heads * width
    return shape


def model_bytes(graph: Graph, inputs: dict[str, tuple[int, ...]]) -> bytes:
    """A graph as a serialised ONNX model."""
    model = _Model()
    for node in graph.nodes:
        model.add(node)
    proto = helper.make_model(
        helper.make_graph(
            model.nodes,
            "measured",
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(graph.nodes[-1].name, TensorProto.FLOAT, None)],
            model.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIBUTED, 1)],
        ir_version=10,
    )
    return proto.SerializeToString()


class OnnxRuntime:
    """ONNX Runtime's CPU provider in fp32 with a fixed number of threads.

    Args:
        threads: intra-operator threads; they stop spinning when a call ends, so that an idle session leaves its cores to the others.
    """

    def __init__(self, threads: int) -> None:
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3
        self.options.add_session_config_entry("session.force_spinning_stop", "1")
        onnxruntime.disable_telemetry_events()

    def facts(self) -> dict[str, str]:
        """What it runs on."""
        return {"platform": "cpu", "accelerator": ""}

    def session(self, graph: Graph, inputs: dict[str, tuple[int, ...]]) -> tuple[onnxruntime.InferenceSession, dict[str, np.ndarray]]:
        """A session of a graph and fixed values for its inputs."""
        session = onnxruntime.InferenceSession(model_bytes(graph, inputs), self.options, providers=["CPUExecutionProvider"])
        return session, {name: values(shape, index) for index, (name, shape) in enumerate(inputs.items())}

    def _calls(self, graph: Graph, inputs: dict[str, tuple[int, ...]]) -> CALLS:
        session, arrays = self.session(graph, inputs)
        binding = session.io_binding()
        for name, array in arrays.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
        binding.bind_output(graph.nodes[-1].name)

        def run(calls: int) -> None:
            for _ in range(calls):
                session.run_with_iobinding(binding)

        return run

    def prepare(self, operator: MeasuredOperator) -> CALLS:
        """Calls of a session with the one operator."""
        return self._calls(*single(operator))

    def prepare_model(self, graph: Graph) -> CALLS:
        """Calls of a session with the whole graph, optimised by ONNX Runtime."""
        shape = input_shape(graph.nodes[0].operator, graph.input_shape)
        return self._calls(graph, {"input": shape})


def single(operator: MeasuredOperator) -> tuple[Graph, dict[str, tuple[int, ...]]]:
    """A graph of one operator, and the shapes of its inputs."""
    shapes = operator.inputs()
    inputs = {f"x{index}": input_shape(operator, shape) for index, shape in enumerate(shapes)}
    return Graph(operator.name, shapes[0], (Node("y", operator, tuple(inputs)),)), inputs
