"""ONNX files against published counts, and what is odd in them.

`onnx/`: BERT-base and MobileNetV2 of transformers 4.28.1 (Apache-2.0) as torch.onnx.export of PyTorch 1.13.1 writes them, opset 16, weights
emptied; of BERT also as ONNX Runtime 1.31 optimises it (extended) and as its transformer optimizer fuses it, of MobileNetV2 as its static
quantisation leaves it (QDQ). The convolutional networks are the onnx package's own test data.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from analysis.__main__ import main
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.predict.program.predict import predict
from analysis.workloads.graph import Attention, Module
from analysis.workloads.hlo.reader import read

pytestmark = pytest.mark.usefixtures("programs_read_here")

HERE = Path(__file__).parent / "onnx"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
SIZES = {"batch": 1, "sequence": 128}


def multiply_adds(module: Module) -> float:
    """Of its products and convolutions, those with padding counted as published figures do."""
    found = 0.0
    for operator in module.operators:
        work = operator.work
        product = work.matmul or (work.convolution.as_matmul if work.convolution else None)
        if product is not None:
            found += operator.trips * product.batch * product.m * product.n * product.k
        if work.attention is not None:
            found += 2 * work.attention.head_size * work.attention.batch * work.attention.query_heads * work.attention.pairs
    return found


def write(path: Path, nodes: list[Any], inputs: dict[str, list[Any]], weights: dict[str, np.ndarray] | None = None, **kept: Any) -> Path:
    given = [helper.make_tensor_value_info(name, kept.get("kind", TensorProto.FLOAT), sizes) for name, sizes in inputs.items()]
    constants = [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()] + kept.get("tensors", [])
    results = [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("mine", 1)]
    graph = helper.make_graph(nodes, "test", given, results, constants)
    path.write_bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())
    return path


@pytest.mark.parametrize(
    ("name", "giga", "millions"),
    [  # multiply-adds and parameters: torchvision's tables of pretrained weights (GFLOPS there are multiply-adds), docs.pytorch.org
        ("light_resnet50", 4.089, 25.557),
        ("light_vgg19", 19.632, 143.667),
        ("light_densenet121", 2.834, 7.979),
        ("light_squeezenet", 0.349, 1.236),
    ],
)
def test_convolutional_networks_cost_what_is_published(name: str, giga: float, millions: float) -> None:
    module = read(LIGHT / f"{name}.onnx")
    assert multiply_adds(module) / 1e9 == pytest.approx(giga, rel=2e-3)
    assert not module.unknown
    products = [operator.work for operator in module.operators if operator.op_class in ("matmul", "convolution")]
    assert sum(work.inputs[1].elements for work in products) / 1e6 == pytest.approx(millions, rel=0.02)  # but for biases and scales


def test_mobilenet_and_bert_cost_what_is_published() -> None:
    """MobileNetV2: 300 M multiply-adds (arXiv:1801.04381, Table 4); BERT-base: 22.5 G operations of 128 tokens (arXiv:1909.10351)."""
    assert multiply_adds(read(HERE / "mobilenet_v2.onnx.gz", sizes={"batch": 1})) / 1e6 == pytest.approx(300, rel=0.005)
    bert = read(HERE / "bert_base.onnx.gz", sizes=SIZES)
    assert 2 * multiply_adds(bert) / 1e9 == pytest.approx(22.5, rel=0.01)
    # by hand: 12 blocks of 128 tokens, 4 x 768^2 + 2 x 768 x 3072 weights, 2 x 128 x 768 of attention a token; a pooler of 768^2
    assert multiply_adds(bert) == 12 * 128 * (12 * 768**2 + 2 * 128 * 768) + 768**2
    attentions = [operator.work.attention for operator in bert.operators if operator.work.attention]
    assert attentions == [Attention(1, 12, 12, 64, 128, 128)] * 12
    long = read(HERE / "bert_base.onnx.gz", sizes={"batch": 2, "sequence": 384})
    assert multiply_adds(long) == 2 * (12 * 384 * (12 * 768**2 + 2 * 384 * 768) + 768**2)


@pytest.mark.parametrize(
    ("name", "plain", "sizes"),
    [
        ("bert_base_optimized", "bert_base", SIZES),
        ("bert_base_fused", "bert_base", {"batch": 3, "sequence": 200}),
        ("mobilenet_v2_int8", "mobilenet_v2", {"batch": 2}),
    ],
)
def test_what_onnx_runtime_makes_of_a_file_multiplies_as_much(name: str, plain: str, sizes: dict[str, int]) -> None:
    """Its own operators: Attention, FusedMatMul, FusedGemm, BiasGelu, SkipLayerNormalization, EmbedLayerNormalization; QDQ pairs."""
    found, first = (read(HERE / f"{each}.onnx.gz", sizes=sizes) for each in (name, plain))
    assert multiply_adds(found) == multiply_adds(first) and not found.unknown
    assert len(found.operators) < len(first.operators) or name == "mobilenet_v2_int8"
    if name == "mobilenet_v2_int8":
        convolutions = [operator.work for operator in found.operators if operator.work.convolution]
        assert {work.inputs[1].dtype for work in convolutions} == {"i8"} and len(convolutions) == 52


def test_measured_kernels_time_products_and_attention() -> None:
    module = read(HERE / "bert_base.onnx.gz", sizes=SIZES)
    h100 = devices.load("h100")
    assert any(note.startswith("85 of 85 products") for note in predict(module, h100, "kernels", f32_in="bf16").notes)
    assert any("--f32 bf16" in note for note in predict(module, h100, "kernels").notes)
    for fidelity in ("roofline", "fused", "efficiency", "kernels"):
        found = predict(module, h100, fidelity, f32_in="bf16")
        assert found.lower_s < found.seconds and not found.lower_bound
        assert found.upper_s is not None and found.upper_s > found.seconds
        assert found.seconds > 22.3e9 / 989e12  # the products at the data sheet's peak


@pytest.mark.parametrize(("bits", "packed"), [(4, 4096 // 2), (8, 4096)])
def test_weights_of_few_bits_take_their_kernels_time(bits: int, packed: int, tmp_path: Path) -> None:
    """MatMulNBits widens weights on the way (ONNX Runtime's docs/ContribOperators.md): of one row, whose weights decide, the product takes
    about a quarter, or half, of the time of 16 bits on an L4."""
    sizes, weights = {"K": 4096, "N": 4096, "block_size": 32}, np.zeros((4096, 128, packed // 128), np.uint8)
    few = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", bits=bits, **sizes)
    plain = helper.make_node("MatMul", ["x", "w"], ["y"])
    scales = np.zeros(4096 * 128, np.float16)
    read_both = [
        read(write(tmp_path / "a.onnx", [few], {"x": [1, 4096]}, {"w": weights, "s": scales}, kind=TensorProto.FLOAT16)),
        read(write(tmp_path / "b.onnx", [plain], {"x": [1, 4096]}, {"w": np.zeros((4096, 4096), np.float16)}, kind=TensorProto.FLOAT16)),
    ]
    quick, usual = (predict(module, devices.load("l4"), "kernels").seconds for module in read_both)
    assert 0.2 < quick / usual < (0.4 if bits == 4 else 0.6)


def test_open_sizes_are_asked_for_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bert = str(HERE / "bert_base.onnx.gz")
    with pytest.raises(InputError, match=r"leaves sizes of its inputs open: give --dim batch=SIZE --dim sequence=SIZE$"):
        read(bert)
    with pytest.raises(InputError, match=r"no open size heads \(--dim\); expected one of batch, sequence"):
        read(bert, sizes={**SIZES, "heads": 3})
    unnamed = write(tmp_path / "a.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": [None, 4]})
    with pytest.raises(InputError, match=r"leaves a size of its inputs open: give --dim x\.0=SIZE$"):
        read(unnamed)
    assert read(unnamed, sizes={"x.0": 3}).flops == 12
    with pytest.raises(InputError, match=r"open: give --dim 'batch size=SIZE'$"):
        read(write(tmp_path / "A.ONNX", [helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch size", 4]}))
    assert main(["hlo", "cost", bert, "--dim", "batch=1", "--dim", "sequence=128"]) == 0
    assert json.loads(capsys.readouterr().out)["unknown"] == {}
    for wrong in ("batch", "batch=0", "=3", "batch=1e3"):
        assert main(["hlo", "cost", bert, "--dim", wrong]) == 2
        assert "--dim: expected NAME=SIZE" in capsys.readouterr().err
    program = tmp_path / "p.mlir"
    program.write_text("module {}")
    with pytest.raises(InputError, match="--dim: is for ONNX files"):
        read(program, sizes=SIZES)
    with pytest.raises(InputError, match="--entry: is for StableHLO"):
        read(bert, entry="main")


def test_unknown_operators_make_a_lower_bound_and_control_flow_is_refused(tmp_path: Path) -> None:
    custom = [helper.make_node("Magic", ["x"], ["z"], domain="mine"), helper.make_node("Relu", ["x"], ["y"])]
    nodes = [*custom, helper.make_node("Add", ["y", "z"], ["out"])]
    module = read(write(tmp_path / "a.onnx", nodes, {"x": [8, 4]}))
    assert module.unknown["onnx.mine.Magic (shape not known before the run)"] == 1
    found = predict(module, devices.load("h100"), "fused")
    assert found.lower_bound and found.upper_s is None
    inner = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "b", [], [helper.make_tensor_value_info("b", 1, [8, 4])])
    branch = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=inner, else_branch=inner)
    path = write(tmp_path / "b.onnx", [branch], {"x": [8, 4]}, {"c": np.array(True)})
    with pytest.raises(InputError, match="holds If 'choice': control flow is not read"):
        read(path)


def test_weights_beside_the_file_and_weights_of_gigabytes(tmp_path: Path) -> None:
    """Neither is read: the first is not there, the second does not fit into the memory that reading may take."""
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    outside = TensorProto(name="w", data_type=1, dims=[1024, 512], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="nowhere.bin")
    assert multiply_adds(read(write(tmp_path / "a.onnx", [product], {"x": [8, 1024]}, tensors=[outside]))) == 8 * 1024 * 512
    size = 1 << 30
    large = TensorProto(name="w", data_type=1, dims=[1 << 18, 1 << 10]).SerializeToString()
    whole = write(tmp_path / "b.onnx", [product], {"x": [8, 1 << 18]}).read_bytes()

    def number(value: int) -> bytes:
        return bytes([value & 0x7F | 0x80]) + number(value >> 7) if value >= 0x80 else bytes([value])

    tensor = large + b"\x4a" + number(size)  # raw_data; a hole in the file stands for it
    beside = b"\x2a" + number(len(tensor) + size) + tensor
    with open(tmp_path / "c.onnx", "wb") as file:
        file.write(whole + b"\x3a" + number(len(beside) + size) + beside)
        file.truncate(file.tell() + size)
    module = read(tmp_path / "c.onnx", memory_bytes=600 << 20)
    assert multiply_adds(module) == 8 * (1 << 28)


def test_quantised_products_run_on_the_integers(tmp_path: Path) -> None:
    scale, zero = np.float32(0.1), np.uint8(128)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "s"], ["e"]),
        helper.make_node("MatMul", ["d", "e"], ["y"]),
    ]
    module = read(write(tmp_path / "a.onnx", nodes, {"x": [16, 64]}, {"s": scale, "z": zero, "w": np.zeros((64, 32), np.int8)}))
    product = next(operator for operator in module.operators if operator.work.matmul)
    assert product.work.dtype == "ui8"
    assert [tensor.bytes for tensor in product.work.inputs] == [16 * 64, 64 * 32]
    assert [operator.name for operator in module.operators] == ["onnx.QuantizeLinear", "onnx.MatMul"]  # the others do not run
    whole = helper.make_node("MatMulInteger", ["q", "w"], ["y"])
    module = read(write(tmp_path / "b.onnx", [whole], {"q": [16, 64]}, {"w": np.zeros((64, 32), np.int8)}, kind=TensorProto.UINT8))
    assert module.flops == 2 * 16 * 64 * 32 and module.operators[0].work.dtype == "ui8"


def test_fused_attention_of_onnx_runtime(tmp_path: Path) -> None:
    nodes = [helper.make_node("GroupQueryAttention", ["q", "k", "v"], ["y"], domain="com.microsoft", num_heads=8, kv_num_heads=2)]
    module = read(write(tmp_path / "a.onnx", nodes, {"q": [2, 10, 512], "k": [2, 10, 128], "v": [2, 10, 128]}))
    attention = module.operators[0].work.attention
    assert attention == Attention(2, 8, 2, 64, 10, 10, causal=True)
    assert attention.pairs == 55  # 1 + 2 + ... + 10
    assert module.flops == 2 * 8 * 4 * 64 * 55


def test_an_lstm_runs_step_by_step(tmp_path: Path) -> None:
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=32)]
    weights = {"w": np.zeros((1, 128, 16), np.float32), "r": np.zeros((1, 128, 32), np.float32)}
    module = read(write(tmp_path / "a.onnx", nodes, {"x": [50, 4, 16]}, weights))
    assert multiply_adds(module) == 50 * 4 * 128 * (16 + 32)
    assert [operator.trips for operator in module.operators] == [1, 50]


def test_what_depends_on_weights_alone_costs_nothing(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Unsqueeze", ["rows", "axis"], ["row"]),
        helper.make_node("Concat", ["row", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["x", "sizes"], ["flat"]),
        helper.make_node("MatMul", ["flat", "t"], ["y"]),
    ]
    weights = {"w": np.zeros((300, 64), np.float32), "zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])}
    module = read(write(tmp_path / "a.onnx", nodes, {"x": [5, 8, 8]}, weights))
    assert [operator.name for operator in module.operators] == ["stablehlo.reshape", "onnx.MatMul"]
    assert module.flops == 2 * 5 * 64 * 300


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not an ONNX model: it holds no node"),
        (b"module {}", "is not an ONNX model"),
        (b"\x3a\xff\xff\xff\xff\x0f", "is cut off"),
        (b"\x1f\x8bno", "cannot be unpacked"),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(content)
    with pytest.raises(InputError, match=why):
        read(path)


def test_a_softmax_of_nothing_is_no_attention(tmp_path: Path) -> None:
    """Found by damaged nodes."""
    assert read(write(tmp_path / "a.onnx", [helper.make_node("Softmax", [], ["y"])], {"x": [2]})).unknown


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.onnx", [helper.make_node("Relu", ["x"], ["y"], name="neuron")], {"x": [2]})
    path.write_bytes(path.read_bytes().replace(b"neuron", b"n\xe8uron"))
    with pytest.raises(InputError, match="holds a name that is not UTF-8 text"):
        read(path)


def test_nodes_that_read_what_nothing_makes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="reads 'z', which nothing before it makes"):
        read(write(tmp_path / "a.onnx", [helper.make_node("Relu", ["z"], ["y"])], {"x": [2]}))


@pytest.mark.parametrize(
    ("makes", "results", "why"),
    [
        (["y"], [], "names no results"),
        (["y"], ["z"], "its result 'z' is made by nothing in it"),
        (["y", "y"], ["y"], "makes 'y', which is there before it"),
        (["x"], ["x"], "makes 'x', which is there before it"),
    ],
)
def test_results_are_made_once(tmp_path: Path, makes: list[str], results: list[str], why: str) -> None:
    path = write(tmp_path / "a.onnx", [helper.make_node("Relu", ["x"], [name]) for name in makes], {"x": [2]})
    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in results)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=why):
        read(path)


@pytest.mark.parametrize(
    ("node", "inputs", "why"),
    [
        (helper.make_node("MatMul", ["a", "b"], ["y"]), {"a": [64, 1000], "b": [1024, 8]}, "64x1000, 1024x8 do not go together"),
        (helper.make_node("Gemm", ["a", "b"], ["y"]), {"a": [64, 1000], "b": [1024, 8]}, "node 'Gemm' of Gemm"),
        (helper.make_node("Add", ["a", "b"], ["y"]), {"a": [3, 4], "b": [5]}, "3x4, 5 do not"),
        (helper.make_node("Concat", ["a", "b"], ["y"], axis=0), {"a": [3, 4], "b": [3, 5]}, "3x4, 3x5 do not"),
        (helper.make_node("Conv", ["a", "b"], ["y"], group=3), {"a": [1, 8, 9, 9], "b": [6, 4, 3, 3]}, "1x8x9x9, 6x4x3x3 do not"),
    ],
)
def test_inputs_that_do_not_go_together_are_refused(tmp_path: Path, node: Any, inputs: dict[str, list[int]], why: str) -> None:
    with pytest.raises(InputError, match=why):
        read(write(tmp_path / "a.onnx", [node], inputs))
