"""The operators compute what they say in every runtime, and count their work as their definitions do."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from analysis.artifact.measuring import graphs
from analysis.artifact.measuring.operators import DIMENSIONS, VARIANTS, MeasuredOperator, Unsupported
from analysis.artifact.measuring.runtimes import jax_runtime, numpy_runtime, onnx_runtime
from analysis.artifact.measuring.runtimes.fill import values
from analysis.artifact.measuring.suites import full_operators, suite

SMALL = {
    "gemm": (8, 6, 5),
    "bmm": (3, 4, 6, 5),
    "conv2d": (2, 9, 9, 4, 6, 3, 2, 1),
    "pool": (1, 8, 8, 3, 3, 2),
    "softmax": (2, 5, 5),
    "layernorm": (4, 6),
    "rmsnorm": (4, 6),
    "elementwise": (33,),
    "rope": (5, 2, 4),
    "transpose": (5, 2, 4),
    "attention": (2, 2, 8, 12, 4),
}
EVERY = [
    MeasuredOperator(kind, (1, 8, 8, 3, 8, 8) if variant == "mean" else SMALL[kind], variant)
    for kind in DIMENSIONS
    for variant in VARIANTS[kind]
]


@pytest.fixture(scope="module")
def onnx() -> onnx_runtime.OnnxRuntime:
    return onnx_runtime.OnnxRuntime(1)


def _through_onnx(runtime: onnx_runtime.OnnxRuntime, operator: MeasuredOperator) -> np.ndarray:
    """The operator in ONNX Runtime, its images and heads laid out as the others have them; it fills in the same values."""
    graph, inputs = onnx_runtime.single(operator)
    session, _ = runtime.session(graph, inputs)
    activations = [values(shape, index) for index, shape in enumerate(operator.inputs())]
    heads = operator.kind == "attention" and operator.variant == "fused"
    if operator.kind in ("conv2d", "pool"):
        activations = [array.transpose(0, 3, 1, 2) for array in activations]
    if heads:
        activations = [array.transpose(0, 2, 1, 3).reshape(array.shape[0], array.shape[2], -1) for array in activations]
    result = session.run(None, dict(zip(inputs, activations, strict=True)))[0]
    if result.ndim == 4 and operator.kind in ("conv2d", "pool"):
        return result.transpose(0, 2, 3, 1)
    if heads:
        batch, count, queries, width = operator.output()
        return result.reshape(batch, queries, count, width).transpose(0, 2, 1, 3)
    return result


@pytest.mark.parametrize("operator", EVERY, ids=lambda operator: operator.name)
def test_runtimes_agree(operator: MeasuredOperator, onnx: onnx_runtime.OnnxRuntime) -> None:
    jax.config.update("jax_default_matmul_precision", "highest")
    arrays = [values(shape, index) for index, shape in enumerate((*operator.inputs(), *operator.parameters()))]
    result = np.asarray(jax.jit(jax_runtime.function(operator))(*arrays))
    assert result.shape == operator.output()
    np.testing.assert_allclose(_through_onnx(onnx, operator), result, atol=2e-6)
    try:
        np.testing.assert_allclose(numpy_runtime.evaluate(operator, *arrays), result, atol=2e-6)
    except Unsupported:
        assert operator.kind in ("conv2d", "pool", "rope", "transpose") or operator.variant in ("causal", "gelu", "fused")


def test_narrow_types_compute_the_same_product() -> None:
    """The product in bf16, within a few of its roundings (2^-8 of a term)."""
    operator = MeasuredOperator("gemm", (16, 8, 32))
    x, w = (10 * values(shape, index) for index, shape in enumerate((*operator.inputs(), *operator.parameters())))
    kind = jax_runtime.ARRAYS["bf16"]
    got = jax.jit(jax_runtime.function(operator))(jax.numpy.asarray(x, kind), jax.numpy.asarray(w, kind))
    np.testing.assert_allclose(np.asarray(got, np.float32), x @ w, atol=2e-2 * np.abs(x @ w).max())


def test_blocked_attention_is_attention() -> None:
    # Several blocks of queries and keys, against the definition in double precision.
    operator = MeasuredOperator("attention", (1, 2, 520, 768, 16), "fused")
    q, k, v = (20 * values(shape, index) for index, shape in enumerate(operator.inputs()))
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(float), k) / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(jax.jit(jax_runtime.blocked_attention)(q, k, v), expected, atol=1e-4)
    assert (jax_runtime.largest_block(520), jax_runtime.largest_block(768)) == (260 // 2, 256)


@pytest.mark.parametrize(
    ("operator", "flop", "elements"),
    [
        (MeasuredOperator("gemm", (128, 768, 3072)), 2 * 128 * 768 * 3072, 128 * 3072 + 3072 * 768 + 128 * 768),
        (MeasuredOperator("bmm", (12, 128, 128, 64), "transposed"), 2 * 12 * 128 * 128 * 64, 12 * (2 * 128 * 64 + 128 * 128)),
        # ResNet-50's first layer: 118,013,952 multiply-accumulates (112 x 112 x 64 x 7 x 7 x 3)
        (
            MeasuredOperator("conv2d", (1, 224, 224, 3, 64, 7, 2, 1), "bias"),
            2 * 118_013_952,
            224 * 224 * 3 + 7 * 7 * 3 * 64 + 64 + 112 * 112 * 64,
        ),
        # a depthwise 3x3 over 28 x 28 x 128
        (MeasuredOperator("conv2d", (1, 28, 28, 128, 128, 3, 1, 128), "bias"), 2 * 28 * 28 * 128 * 9, 2 * 28 * 28 * 128 + 9 * 128 + 128),
        (MeasuredOperator("attention", (1, 2, 3, 5, 7), "naive"), 2 * 3 * 5 * (4 * 7 + 5), 2 * (2 * 3 * 7 + 2 * 5 * 7)),
    ],
)
def test_work_by_hand(operator: MeasuredOperator, flop: int, elements: int) -> None:
    assert (operator.flop(), operator.elements()) == (flop, elements)


def test_models_have_the_published_sizes() -> None:
    # torchvision's resnet50: 25,557,032 parameters, 2 x 26,560 of them in batch norms; folding leaves a bias for each of 26,560 channels.
    assert graphs.resnet50().parameters() == 25_557_032 - 2 * 26_560 + 26_560
    # He et al. 2016, Table 1: 3.8e9 multiply-adds for v1; the stride on the 3x3 convolution makes it 4.09e9 (torchvision: 4.089 GFLOPS).
    assert graphs.resnet50().flop() / 2 == pytest.approx(4.09e9, rel=0.005)
    # Devlin et al. 2019: 12 layers of 4 (768^2 + 768) + 2 x 768 x 3072 + 3072 + 768 + 2 x 2 x 768 = 7,087,872
    assert graphs.bert_base().parameters() == 12 * 7_087_872
    # Touvron et al. 2023: 4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096
    assert graphs.llama_layer().parameters() == 202_383_360


@pytest.mark.parametrize(
    "graph", [graphs.resnet50(32), graphs.bert_base(8, 1), graphs.llama_layer(6, 32, 4, 48)], ids=["resnet50", "bert_base", "llama_layer"]
)
def test_whole_models_agree(graph: graphs.Graph, onnx: onnx_runtime.OnnxRuntime) -> None:
    """JAX and ONNX Runtime give the same result for the whole graph when they are given the same weights."""
    jax.config.update("jax_default_matmul_precision", "highest")
    x = values(graph.input_shape)
    weights = []
    for node in graph.nodes:
        mine = [values(shape, len(node.operator.inputs()) + index) for index, shape in enumerate(node.operator.parameters())]
        weights.append([jax.numpy.asarray(array) for array in mine])
    expected = np.asarray(jax.jit(jax_runtime.model_function(graph))(x, weights))
    shape = onnx_runtime.input_shape(graph.nodes[0].operator, graph.input_shape)
    session, _ = onnx.session(graph, {"input": shape})
    got = session.run(None, {"input": x if shape == graph.input_shape else x.transpose(0, 3, 1, 2)})[0]
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-4 * np.abs(expected).max())


def test_suites_cover_what_is_promised() -> None:
    operators = full_operators()
    assert len({operator.name for operator in operators}) == len(operators) >= 1500
    promised = {"gemm", "bmm", "conv2d", "softmax", "layernorm", "rmsnorm", "elementwise", "attention"}
    assert {operator.kind for operator in operators} == promised == {operator.kind for operator in suite("quick").operators}
    fused = {operator.size for operator in operators if operator.variant == "fused"}
    assert fused == {operator.size for operator in operators if operator.variant == "naive"} and fused
    assert operators == full_operators() != full_operators(seed=1)
    assert {run.name for run in suite("quick").models} == {run.name for run in suite("full").models} == set(graphs.BUILDERS)


@pytest.mark.parametrize(
    ("kind", "size", "variant"), [("gem", (1, 1, 1), ""), ("gemm", (1, 1), ""), ("gemm", (0, 1, 1), ""), ("gemm", (1, 1, 1), "relu")]
)
def test_impossible_operators_are_refused(kind: str, size: tuple[int, ...], variant: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        MeasuredOperator(kind, size, variant)
