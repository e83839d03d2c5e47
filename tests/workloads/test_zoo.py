"""The zoo against closed forms, an independent count of the same models, and XLA."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import jax
import jax.extend.core
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.__main__ import main as command
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.workloads.counted import forward_flop_per_token
from analysis.studies.workloads.zoo import catalogue as zoo
from analysis.studies.workloads.zoo import resnet as zoo_resnet
from analysis.studies.workloads.zoo.programs import shape_of
from analysis.tables import read_csv
from analysis.workloads.models import Model


def matmul_flop(jaxpr: Any, times: int = 1) -> int:
    """Operations of dot_general and convolutions of a traced program (the padding of a convolution counted), loops by their length."""
    total = 0
    for equation in jaxpr.eqns:
        name, out = equation.primitive.name, equation.outvars[0].aval
        if name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            total += times * 2 * math.prod(out.shape) * math.prod(left[axis] for axis in contracted)
        trips = times * (equation.params["length"] if name == "scan" else 1)
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            total += matmul_flop(inner, trips)
    return total


def traced(name: str, **options: Any) -> int:
    program = zoo.program(name, **options)
    return matmul_flop(jax.make_jaxpr(program.function)(*program.arguments).jaxpr)


@functools.cache
def recorded() -> dict[str, int]:
    """Products and convolutions of a count made from other JAX programs of the same models (data/recorded/stablehlo/flops.csv)."""
    frame = read_csv(DATA / "recorded" / "stablehlo" / "flops.csv", required=["name", "own_matmul_conv_flops"])
    return dict(zip(frame["name"], frame["own_matmul_conv_flops"], strict=True))


@pytest.mark.parametrize(
    ("name", "options", "row"),
    [
        ("gemm", {}, "gemm_bf16_4096"),
        ("gemm", {"m": 1024, "n": 1024, "k": 1024, "dtype": "f32"}, "gemm_f32_1024"),
        ("llama2_7b_layer", {}, "llama2_7b_layer_fwd_b1_s2048_bf16"),
        ("llama2_7b_forward", {}, "llama2_7b_fwd_b1_s4096_scan"),
        ("llama2_7b_forward", {"blocks": "unrolled"}, "llama2_7b_fwd_b1_s4096_unrolled"),
        ("llama2_7b_train_scan", {}, "llama2_7b_train_b1_s4096_scan"),
        ("llama2_7b_train_unrolled", {}, "llama2_7b_train_b1_s4096_unrolled"),
    ],
)
def test_products_equal_another_count_of_the_same_model(name: str, options: dict[str, Any], row: str) -> None:
    assert traced(name, **options) == recorded()[row]


def test_bert_base_equals_the_other_count_and_its_output_layer() -> None:
    # The recorded program stops at the last block; ours goes on to the vocabulary: 2 x 128 x 768 x 30,522.
    assert traced("bert_base_forward") == recorded()["bert_base_fwd_b1_s128_f32"] + 2 * 128 * 768 * 30522


def test_full_recomputation_adds_a_forward_pass_of_the_blocks_but_its_last_product() -> None:
    # 4 passes of the blocks and 3 of the output layer, less the down projection of the fourth pass, which nothing reads.
    shape = shape_of("llama-2-7b")
    blocks = 32 * (2 * 4096 * (4 * 4096**2 + 3 * 4096 * 11008) + 4 * 4096**3)
    head, down = 2 * 4096 * shape.hidden * shape.vocabulary, 32 * 2 * 4096 * 4096 * 11008
    counted = traced("llama2_7b_train_scan", recompute="full")
    assert counted == 4 * blocks + 3 * head - down == recorded()["llama2_7b_train_b1_s4096_scan_remat"]


@settings(max_examples=15, deadline=None)
@given(
    layers=st.integers(1, 3),
    kv_heads=st.sampled_from([1, 2]),
    group=st.sampled_from([1, 3]),
    head_dim=st.sampled_from([2, 4]),
    gated=st.booleans(),
    tied=st.booleans(),
    norm=st.sampled_from(["rms", "layer"]),
    positions=st.sampled_from(["rotary", "alibi", "learned"]),
    biases=st.sampled_from(["all", "qkv", "none"]),
    parallel=st.booleans(),
    scan=st.booleans(),
)
def test_any_transformer_has_the_products_and_parameters_of_its_shape(scan: bool, **fields: Any) -> None:
    from analysis.studies.workloads.zoo import transformer as zt
    from analysis.studies.workloads.zoo import transformer_steps as steps

    group, tied, parallel = fields.pop("group"), fields.pop("tied"), fields.pop("parallel")
    heads = fields["kv_heads"] * group
    shape = Model.model_validate(
        {
            "name": "random",
            "hidden": 12,
            "heads": heads,
            "ffn_hidden": 20,
            "vocab": 31,
            "max_sequence": 9,
            "tied_embeddings": tied,
            "parallel_block": parallel,
            **fields,
        }
    )
    shapes = zt.model_shapes(shape, scan)
    counted = sum(math.prod(dims) for dims in jax.tree.leaves(shapes, is_leaf=lambda node: isinstance(node, tuple)))
    assert counted == shape.parameters
    run = steps.forward_of(shape, scan, "none", jax.numpy.float32, False, zt.feed_forward)
    tokens = jax.ShapeDtypeStruct((2, 7), jax.numpy.int32)
    forward = jax.make_jaxpr(run)(zt.as_arguments(shapes, jax.numpy.float32), tokens).jaxpr
    assert matmul_flop(forward) == 2 * 7 * forward_flop_per_token(shape, 7)


def test_attention_equals_the_definition() -> None:
    import numpy as np

    from analysis.studies.workloads.zoo import transformer as zt

    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=size).astype("float32") for size in ((2, 5, 4, 3), (2, 5, 2, 3), (2, 5, 2, 3)))
    ours = np.asarray(zt.attention(jax.numpy.asarray(query), jax.numpy.asarray(key), jax.numpy.asarray(value), zt.causal_bias(5, 5)))
    for batch in range(2):
        for head in range(4):
            scores = query[batch, :, head] @ key[batch, :, head // 2].T / math.sqrt(3)
            scores[np.triu_indices(5, 1)] = -np.inf
            weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            expected = weights @ value[batch, :, head // 2]
            assert np.allclose(ours[batch, :, 3 * head : 3 * head + 3], expected, atol=1e-5)


def test_resnet_parameters_and_channels_are_those_published() -> None:
    # torchvision: 11,689,512, 25,557,032 and 44,549,160 parameters (model cards of resnet18, resnet50, resnet101);
    # 26,560 batch-norm channels of ResNet-50 are the rsqrt of the recorded forward pass, 4,800 those of ResNet-18.
    for depth, parameters in ((18, 11689512), (50, 25557032), (101, 44549160)):
        assert sum(math.prod(shape) for shape in zoo_resnet.parameter_shapes(depth).values()) == parameters
    for depth, row in ((18, 4800), (50, 26560)):
        assert sum(conv.outputs for conv in zoo_resnet.convolutions(depth)) == row


def test_resnet_batch_norm_of_a_batch_has_mean_zero_and_variance_one() -> None:
    import numpy as np

    x = jax.numpy.asarray(np.random.default_rng(1).normal(3.0, 2.0, size=(4, 5, 6, 3)), jax.numpy.float32)
    ones, zeros = jax.numpy.ones(3), jax.numpy.zeros(3)
    new: dict[str, Any] = {}
    y = zoo_resnet.batch_norm(x, "n", {"n.scale": ones, "n.shift": zeros}, {"n.mean": zeros, "n.variance": ones}, new)
    assert np.allclose(np.mean(y, (0, 1, 2)), 0, atol=1e-4) and np.allclose(np.var(y, (0, 1, 2)), 1, atol=1e-3)
    assert np.allclose(new["n.mean"], 0.1 * np.mean(x, (0, 1, 2)), atol=1e-4)


def test_experts_compute_what_a_loop_over_tokens_computes() -> None:
    """With room for every token the dispatch loses none: the sum over the two best experts, weighted by their probability."""
    import numpy as np

    from analysis.studies.workloads.zoo import blocks as zoo_blocks

    fields = {"layers": 1, "hidden": 6, "heads": 2, "ffn_hidden": 8, "gated": True, "experts": 4, "experts_per_token": 2}
    shape = Model.model_validate({"name": "small", "vocab": 3, "max_sequence": 8, **fields})
    rng = np.random.default_rng(2)
    sizes = {"router": (6, 4), "up": (4, 6, 8), "gate": (4, 6, 8), "down": (4, 8, 6)}
    weights = {name: rng.normal(size=size).astype("float32") for name, size in sizes.items()}
    x = rng.normal(size=(1, 7, 6)).astype("float32")
    ours = np.asarray(zoo_blocks.mixture(shape, {k: jax.numpy.asarray(v) for k, v in weights.items()}, jax.numpy.asarray(x), factor=4.0))
    for token in range(7):
        scores = x[0, token] @ weights["router"]
        chance = np.exp(scores) / np.exp(scores).sum()
        expected = np.zeros(6)
        for expert in np.argsort(-chance)[:2]:
            gate = x[0, token] @ weights["gate"][expert]
            hidden = gate / (1 + np.exp(-gate)) * (x[0, token] @ weights["up"][expert])
            expected += chance[expert] * (hidden @ weights["down"][expert])
        assert np.allclose(ours[0, token], expected, atol=1e-3)


def test_every_form_reads_back() -> None:
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    lowered = zoo.lower("gemm", m=4, n=5, k=6)
    with mlir.make_ir_context() as context:
        texts = [str(ir.Module.parse(zoo.serialise(lowered, form))) for form in ("text", "bytecode")]
        texts.append(str(stablehlo.deserialize_portable_artifact(context, zoo.serialise(lowered, "portable"))))
    assert all("stablehlo.dot_general" in text and "tensor<4x5xbf16>" in text for text in texts)


def test_the_whole_zoo_lowers_small() -> None:
    small = {"batch": 8, "sequence": 16, "layers": 2, "m": 8, "n": 8, "k": 8, "image": 32}
    for name, entry in zoo.entries().items():
        if name.startswith("resnet") and entry.options["depth"] > 50:
            continue
        options = {key: value for key, value in small.items() if key in entry.options}
        assert "stablehlo." in zoo.text(zoo.lower(name, **options)), name


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("lama", {}, "no workload 'lama'; expected one of gemm"),
        ("gemm", {"q": 1}, "gemm has no option 'q'; expected one of m, n, k"),
        ("gemm", {"m": "x"}, "expected int, got 'x'"),
        ("gemm", {"m": 0}, "expected at least 1, got 0"),
        ("gemm", {"dtype": "bf8"}, "expected one of bf16, f16, f32"),
        ("gemm_grid", {"devices": 3}, "a grid needs an even number"),
        ("unet_block", {"channels": 100}, "expected a multiple of 32"),
        ("transformer", {"split": "rows"}, "expected one of none, data, fsdp, tensor"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        zoo.lower(name, **options)
    assert says in str(caught.value)


def test_the_command_writes_what_the_name_asks_for(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from analysis.__main__ import _app

    run, app = CliRunner().invoke, _app("hlo")
    heads = {"a.mlir": b"module @jit", "a.mlirbc": b"ML\xefR\rMLIR", "a.vhlo": b"ML\xefR\rStableHLO"}
    for name, head in heads.items():
        done = run(app, ["lower", "gemm", "--out", str(tmp_path / name), "--set", "m=8", "--set", "n=8"])
        assert done.exit_code == 0, done.output
        assert (tmp_path / name).read_bytes().startswith(head)
    refused = {
        "lama": ["lama", "--out", "b.mlir"],
        "expected a name that ends in": ["gemm", "--out", "b.txt"],
        "key=value": ["gemm", "--out", "b.mlir", "--set", "m"],
        "no such folder": ["gemm", "--out", "none/b.mlir"],
        "runs on one device": ["gemm", "--out", "b.mlir", "--partitioned"],
    }
    for says, arguments in refused.items():
        done = run(app, ["lower", *arguments])
        assert done.exit_code != 0 and says in str(done.exception), says
    assert "resnet50_train" in run(app, ["lower", "list"]).output
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(heads)


OWN = """
import jax.numpy as jnp

def step(x, w):
    return jnp.maximum(x @ w, 0)
"""


def test_a_function_of_one_s_own_is_lowered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my_step.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    shapes = ["--arg", "bf16[8,32]", "--arg", "bf16[32, 16]"]
    assert command(["hlo", "lower", "--jax", "my_step:step", *shapes, "--out", "step.mlir"]) == 0
    work = [line for line in (tmp_path / "step.mlir").read_text().splitlines() if "dot_general" in line]
    assert len(work) == 1 and "tensor<8x32xbf16>, tensor<32x16xbf16>" in work[0]
    for arguments, said in (
        (["--jax", "my_step:nothing", *shapes], "my_step has no function 'nothing'"),
        (["--jax", "no_such_module:step", *shapes], "cannot import no_such_module"),
        (["--jax", "my_step:step", "--arg", "bf16[8]", "--arg", "bf16[9]"], "step cannot be traced with these shapes: TypeError"),
        (["--jax", "my_step:step", "--arg", "f99[8]"], "expected TYPE[SIZE,...]"),
        (["--jax", "my_step:step", "--arg", "f32[8,,2]"], "expected whole numbers"),
        (["--jax", "my_step"], "expected MODULE:FUNCTION"),
        (["mlp", "--jax", "my_step:step"], "expected the name of a workload"),
        (["--jax", "my_step:step", "--set", "batch=8"], "is for workloads of the zoo"),
    ):
        capsys.readouterr()
        assert command(["hlo", "lower", *arguments, "--out", "other.mlir"]) == 2, arguments
        printed = capsys.readouterr().err
        assert said in printed and printed.count("\n") == 1
    assert not (tmp_path / "other.mlir").exists()
