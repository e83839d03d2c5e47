"""Per-device modules: their collectives against volumes derived by hand, their work against an even split."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import InputError
from analysis.studies.workloads.partition import partitioner as partition
from analysis.studies.workloads.partition import report as partition_report
from analysis.studies.workloads.partition import volumes as partition_volumes
from analysis.studies.workloads.partition import worker as partition_worker
from analysis.studies.workloads.partition.volumes import Volume
from analysis.studies.workloads.zoo import catalogue as zoo
from analysis.studies.workloads.zoo import shipped
from analysis.studies.workloads.zoo.programs import shape_of
from analysis.workloads.graph import Module
from analysis.workloads.hlo import reader as hlo


def exchanged(module: Module) -> dict[str, tuple[int, int]]:
    """Count and bytes of each kind of collective: the result of an all-gather, the operand of an all-reduce; loops by their trips."""
    return {kind: (each.count, each.bytes) for kind, each in partition_report.collectives(module).items()}


def derived(volumes: list[Volume]) -> dict[str, tuple[int, int]]:
    return {kind: (each.count, each.bytes) for kind, each in partition_report.derived(volumes).items()}


def products(module: Module) -> float:
    return sum(operator.flops for operator in module.operators if operator.work.matmul or operator.work.convolution)


@functools.cache
def frozen(name: str) -> Module:
    return shipped.read(shipped.case(name).path)


def live(tmp_path: Path, workload: str, **options: Any) -> Module:
    path = tmp_path / "device.mlir"
    path.write_text(partition.partition(zoo.text(zoo.lower(workload, **options)).encode(), options["devices"]))
    return hlo.read(path)


def test_gemm_by_hand() -> None:
    # C = A B, 4096 cubed in bf16, 8 devices. column: nothing. row: the sum of 4096 x 4096 partial results, 2^24 x 2 = 33,554,432 bytes.
    # grid of 2 x 4: A's (2048 x 1024) blocks gathered along a row of 4, 2048 x 4096 x 2 = 16,777,216 bytes, and B's along a column of 2,
    # 4096 x 1024 x 2 = 8,388,608 bytes.
    assert exchanged(frozen("gemm_column")) == {}
    assert exchanged(frozen("gemm_row")) == exchanged(frozen("gemm_scatter")) == {"all-reduce": (1, 33554432)}
    assert exchanged(frozen("gemm_grid")) == {"all-gather": (2, 16777216 + 8388608)}


@pytest.mark.parametrize("split", ["column", "row", "scatter", "grid"])
def test_gemm_equals_the_derivation_and_splits_evenly(split: str) -> None:
    module = frozen(f"gemm_{split}")
    assert exchanged(module) == derived(partition_volumes.gemm(4096, 4096, 4096, 2, split, 2, 4))
    assert 8 * products(module) == 2 * 4096**3


def test_resnet50_by_hand() -> None:
    # 53 batch norms of 26,560 channels reduce 5 fp32 vectors each: 5 x 26,560 x 4 = 531,200 bytes in 265 reductions. The gradients of 53
    # kernels and the classifier (25,557,032 parameters less 2 x 26,560 of batch norm) in bf16: 25,503,912 x 2 = 51,007,824 bytes in 55;
    # and the loss, 4 bytes.
    assert exchanged(frozen("resnet50_train_b256_data")) == {"all-reduce": (265 + 55 + 1, 531200 + 51007824 + 4)}
    assert exchanged(frozen("resnet50_train_b256_data")) == derived(partition_volumes.resnet_train(50, 2))


def test_llama_by_hand() -> None:
    # Llama-2-7B, 32 blocks of 4 x 4096^2 + 3 x 4096 x 11008 = 202,375,168 weights in matrices, and 2 x 32000 x 4096 at both ends:
    # 6,738,149,376 weights, in bf16 13,476,298,752 bytes, in 32 x 7 + 2 = 226 tensors; 65 norms of 4096 in fp32; the loss.
    matrices, norms = 13476298752, 65 * 4096 * 4
    assert exchanged(frozen("llama2_7b_train_data")) == {"all-reduce": (226 + 65 + 1, matrices + norms + 4)}
    assert exchanged(frozen("llama2_7b_train_fsdp")) == {"all-gather": (226, matrices), "all-reduce": (292, matrices + norms + 4)}
    # Split by weights, 8 sequences of 4096 tokens, 8 x 4096 x 4096 x 2 = 268,435,456 bytes of activations: 2 a block forward, 5 backward,
    # 1 at the output layer: 225; and 3 fp32 numbers a token for the softmax over a split vocabulary.
    assert exchanged(frozen("llama2_7b_train_tensor")) == {"all-reduce": (225 + 3, 225 * 268435456 + 3 * 8 * 4096 * 4)}
    # Forward, one block: behind attention and behind the feed-forward layer, 2048 x 4096 x 2 bytes each.
    assert exchanged(frozen("llama2_7b_layer_tensor")) == {"all-reduce": (2, 2 * 16777216)}


def test_another_shape_equals_the_derivation(tmp_path: Path) -> None:
    # Enough tokens a device that gathering weights moves less than exchanging activations: with fewer, XLA exchanges activations.
    shape = shape_of("llama-2-13b").model_copy(update={"layers": 2})
    options = {"model": "llama-2-13b", "layers": 2, "sequence": 4096, "blocks": "unrolled", "devices": 8, "batch": 16}
    for split in ("fsdp", "tensor"):
        module = live(tmp_path, "transformer", split=split, **options)
        assert exchanged(module) == derived(partition_volumes.transformer_train(shape, 16, 4096, 2, split))


@pytest.mark.parametrize("name", ["data", "fsdp", "tensor"])
def test_products_split_evenly(name: str) -> None:
    # 3 passes of 62,921,270,886,400 (data/recorded/stablehlo/flops.csv) for each of 8 sequences, over 8 devices.
    module = frozen(f"llama2_7b_train_{name}")
    assert products(module) == 3 * 62921270886400


def test_a_program_that_xla_refuses_is_one_line() -> None:
    with pytest.raises(InputError) as caught:
        partition.partition(b"module { func.func @main() { return 1 } }", 2)
    assert "the partitioner failed" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(InputError, match="at least 2"):
        partition.partition(b"", 1)


def test_a_message_still_being_written_is_awaited() -> None:
    # Protocol buffers: tag 0x0a is field 1 with a length; 300 is 0xac 0x02.
    whole = b"\x0a\xac\x02" + bytes(300) + b"\x12\x00"
    assert partition_worker.first_field(whole) == bytes(300)
    assert all(partition_worker.first_field(whole[:cut]) is None for cut in (0, 1, 2, 3, 302))
    with pytest.raises(ValueError, match="begins with its module"):
        partition_worker.first_field(b"\x12\x00")


def test_shipped_modules_are_those_the_list_names() -> None:
    names = {path.relative_to(shipped.FOLDER) for path in shipped.FOLDER.rglob("*.mlir.gz")}
    assert names == {case.path.relative_to(shipped.FOLDER) for case in shipped.CASES}
    with pytest.raises(InputError, match="no shipped module 'x'; expected one of gemm"):
        shipped.case("x")


def test_published_steps_name_lines_and_run_their_share() -> None:
    from analysis.studies.workloads.zoo import published_steps

    found = published_steps.steps()
    assert len({step.line for step in found}) == len(found)
    assert all(int(step.options["batch"]) % step.devices == 0 for step in found)
    # tokens a second a GPU of MPT-7B at 2,048 tokens on 8 H100 (llm-foundry): 10,643, six sequences a GPU.
    first = next(step for step in found if step.options.get("model") == "mpt-7b")
    assert first.measured_s == pytest.approx(6 * 2048 / 10643)
    assert first.local_options["batch"] == "6" and first.local_options["shard"] == "8"


def test_a_device_that_shares_the_update_computes_as_much_as_one_of_a_split(tmp_path: Path) -> None:
    # The partitioned FSDP module of test_llama_by_hand and the program of one device alone: the same products, the rest within 0.2 %.
    path = tmp_path / "local.mlir"
    options = {"model": "llama-2-7b", "batch": 1, "sequence": 4096, "weight_dtype": "f32", "blocks": "unrolled", "shard": 8}
    path.write_text(zoo.text(zoo.lower("transformer", **options)))
    local, split = hlo.read(path), frozen("llama2_7b_train_fsdp")
    assert products(local) == products(split)
    assert local.flops == pytest.approx(split.flops, rel=0.002)
