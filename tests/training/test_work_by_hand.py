"""Work of a step counted by hand: what is quantised, scanned, gathered and recomputed, each beside the program's own source."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analysis.hardware import devices
from analysis.training.cases import Cases, case
from analysis.training.kernels import kernels_of, tpu_share
from analysis.training.step import NAMES, PRIOR, Plans, step
from analysis.training.work import BACKWARD_OF_ATTENTION, PART_NAMES, exchanges, parts
from analysis.workloads import models

LLAMA = {"model": "llama-3-8b", "device": "h100", "gpus": "8", "global_batch": "8", "micro_batch": "1", "zero": "3"}
WEIGHTS = 32 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336)
"""Of the blocks of Llama 3 8B, norms apart (its config.json)."""


@pytest.mark.parametrize(
    "program, recipe, forward, backward",
    [  # bytes of a weight in 8 bits, over those in 16
        ("fsdp_compiled", "rowwise", 6, 6),
        ("fsdp_compiled", "tensorwise", -2 - 1 / 8, -1 / 8),
        ("nemo", "tensorwise", 0, 0),
    ],
)
def test_weights_are_quantised_in_each_pass_or_gathered_in_8_bits(program: str, recipe: str, forward: float, backward: float) -> None:
    """torchao with a scale for each row: to_fp8(weight) in the output's product and again in the input's gradient (docs.pytorch.org/ao,
    training): read twice, written once, and its transposed copy once. With one scale a tensor: shards are cast before they are gathered
    (fsdp_pre_all_gather), so that one byte in place of two is copied out (2) and written for each of 8 shards (1 / 8); before the input's
    gradient a weight is copied transposed (float8_ops.py, preprocess_addmm: 2). Megatron keeps weights in 8 bits."""
    row = {**LLAMA, "program": program}
    answers = {
        (precision, tokens): parts([case({**row, "precision": precision, "fp8_recipe": found, "sequence_length": str(tokens)})])
        for precision, found in (("bf16", ""), ("fp8", recipe))
        for tokens in (1024, 2048)
    }
    for name, each in (("stream", forward), ("stream_back", backward)):
        fixed = {p: 2 * getattr(answers[p, 1024], name)[0] - getattr(answers[p, 2048], name)[0] for p in ("bf16", "fp8")}
        moved = each * WEIGHTS / (0.85 * devices.load("H100-SXM5-80GB").memory_bandwidth_bytes_per_s)
        assert fixed["fp8"] - fixed["bf16"] == pytest.approx(moved, abs=1.2e-3)  # and launches: at most 400 of 3 microseconds


@pytest.mark.parametrize("program, recipe, ratio", [("fsdp", "tensorwise", 0.5), ("fsdp", "rowwise", 1.0), ("megatron", "tensorwise", 1.0)])
def test_what_torchao_gathers_with_one_scale_is_half_as_large(program: str, recipe: str, ratio: float) -> None:
    """Float8ColwiseParallel and Float8RowwiseParallel gather activations and their gradients in 8 bits and scatter in 16
    (github.com/pytorch/ao, float8/float8_tensor_parallel.py); embedding and output layer stay in 16 (torchtitan: filter_fqns output)."""
    row = {**LLAMA, "program": program, "gpus": "16", "global_batch": "16", "tensor_parallel": "4", "sequence_length": "2048"}
    runs = [case({**row, "precision": "bf16"}), case({**row, "precision": "fp8", "fp8_recipe": recipe})]
    found: dict[str, np.ndarray] = {}
    for each in exchanges(Cases.of(runs)):
        for part, often in each.parts.items():
            found[f"{part} {each.kind}"] = found.get(f"{part} {each.kind}", 0.0) + often * np.broadcast_to(each.size, 2)
    for name in ("tensor all_gather", "tensor_back all_gather", "gather all_gather", "gather_back all_gather"):
        assert found[name][1] == pytest.approx(ratio * found[name][0]) and found[name][0] > 0
    for name in ("tensor reduce_scatter", "gather_back reduce_scatter", "ends all_gather"):
        assert found[name][1] == found[name][0] > 0


def test_a_scan_has_the_products_of_its_chunks_and_states() -> None:
    """Mamba 2 (arXiv:2405.21060, section 6), chunk 128, state 128, 64 heads of 64: a token and head multiply 128 x (128 + 64) / 2 pairs
    within the chunk and 128 x 64 twice for the state, of two FLOP each."""
    row = {"model": "nemotron-3-nano", "device": "b200", "gpus": "8", "sequence_length": "8192", "global_batch": "16", "program": "nemo"}
    found, kernels = parts([case({**row, "micro_batch": "2"})]), kernels_of("B200-SXM-180GB")

    def seconds(*sizes: float) -> float:
        return float(kernels.attention_s(*(np.array([float(size)]) for size in sizes))[0])

    plain = 6 * seconds(2, 32, 2, 128, 8192, 128)
    scanned = 23 * (1 + 4 * 128 * 64 / (128 * (128 + 64))) * seconds(2 * 8192 / 128, 64, 8, 128, 128, 64)
    assert found.attention[0] == pytest.approx(plain + scanned, rel=1e-6)
    assert found.attention_back[0] == pytest.approx(BACKWARD_OF_ATTENTION * (plain + scanned), rel=1e-6)


@pytest.mark.parametrize(
    ("program", "batch", "each"),
    # nanotron adds 16-bit gradients to 32-bit ones after each microbatch (gradient_accumulator.py, _accumulate_grad: 2 + 4 + 4); torch's
    # AccumulateGrad adds from the second on (fp32 weights: 12); Megatron's weight-gradient product adds (gradient_accumulation_fusion)
    [("nanotron", 8, 10), ("nanotron", 32, 10), ("fsdp", 8, 0), ("fsdp", 32, 9), ("internevo", 16, 3), ("megatron", 32, 0)],
)
def test_gradients_of_a_microbatch_are_added_to_what_is_held(program: str, batch: int, each: float) -> None:
    row = {**LLAMA, "program": program, "zero": "0", "sequence_length": "2048", "precision": "bf16", "global_batch": str(batch)}
    frozen, trained = (parts([case({**row, "kind": kind})]).stream_back[0] for kind in ("lora", "pretrain"))
    adapters = 60 * 32 * 2048 * 4096
    bandwidth = 0.85 * devices.load("H100-SXM5-80GB").memory_bandwidth_bytes_per_s
    moved = (each * models.load("llama-3-8b").parameters - adapters) / bandwidth
    assert trained - frozen == pytest.approx(moved, abs=3.5e-3)  # and launches: 288 and 640 of 3 microseconds


@pytest.mark.parametrize(
    "program, gpus, zero, each",
    [("fsdp", 2, "3", 1), ("fsdp_compiled", 2, "1", 1), ("fsdp", 2, "0", 0), ("fsdp", 1, "3", 0), ("megatron", 2, "1", 0)],
)
def test_pytorch_s_own_programs_wait_for_each_block_whose_states_are_sharded(program: str, gpus: int, zero: str, each: int) -> None:
    """Between two steps; with one GPU (data/recorded/h200_own) or whole states nothing is gathered or updated shard by shard."""
    row = {"hidden_size": "2048", "attention_heads": "16", "vocabulary": "32000", "device": "h100", "sequence_length": "2048"}
    row |= {"program": program, "gpus": str(gpus), "global_batch": str(gpus), "zero": zero}
    cases = [case({**row, "layers": layers}) for layers in ("16", "32")]
    work, plans = parts(cases), Plans.of(cases)
    stream = {"fsdp": "stream_eager", "fsdp_compiled": "stream_compiled", "megatron": "stream"}[program]
    own = step(work, plans, PRIOR)["optimizer"] - PRIOR[NAMES.index(stream)] * work.update
    assert own[1] - own[0] == pytest.approx(16 * each * PRIOR[NAMES.index("between_block_s")], abs=1e-6)


@pytest.mark.parametrize("virtual, batch, hidden", [(1, 32, 1.0), (2, 32, 2.0), (4, 32, 2.5), (2, 8, 1.5)])
def test_gradients_of_an_interleaved_schedule_hide_behind_the_chunks_that_follow(virtual: int, batch: int, hidden: float) -> None:
    """Megatron's interleaved schedule on four stages, gradients of three times a backward pass: the last chunk's hide behind the last
    pass, those of the others behind up to four passes (three are needed; of two microbatches there are two)."""
    row = {**LLAMA, "program": "megatron", "zero": "1", "sequence_length": "2048", "micro_batch": "1"}
    row |= {"gpus": "16", "pipeline_parallel": "4", "virtual_pipeline": str(virtual), "global_batch": str(batch)}
    item = case(row)
    work, plans = parts([item]), Plans.of([item])
    none = replace(work, **{name: np.zeros(1) for name in PART_NAMES})
    backward, share = PRIOR[NAMES.index("product_16")], PRIOR[NAMES.index("reduce")]
    found = step(replace(none, gemm_back=np.ones(1), reduce=np.array([3 * backward])), plans, PRIOR)
    slow = PRIOR[NAMES.index("imbalance")] ** np.log2(plans.nodes[0]) ** 0.5
    assert found["reduce"][0] == pytest.approx(backward * (3 - hidden + share * hidden) * slow, rel=1e-9)


@pytest.mark.parametrize(
    "device, program, version, kernel",
    [
        ("H100", "fsdp", "2.11.0", "latest"),  # data/recorded/h200_own/step.json.gz: cudnn_generated_fort_native_sdpa_sm90
        ("B200", "fsdp_compiled", "2.13", "latest"),
        ("H100", "fsdp", "2.9.1", "flash_2"),  # sdp_utils.cpp of 2.9
        ("RTX-4090", "fsdp", "2.11", "flash_2"),
        ("H100", "fsdp", "0.11", "flash_2"),  # no release of PyTorch
        ("H100", "nemo", "2.11", "latest"),
    ],
)
def test_a_release_of_pytorch_has_its_attention(device: str, program: str, version: str, kernel: str) -> None:
    item = case({**LLAMA, "device": device, "program": program, "sequence_length": "2048", "framework_version": version})
    assert item.defaults.attention == kernel
    used = "framework_version {} not used" if program == "nemo" or version == "0.11" else "framework_version {}: "
    assert any(words.startswith(used.format(version)) for words in item.assumed)
    assert Plans.of([item]).flash_2[0] == (kernel == "flash_2" and device != "RTX-4090")  # which has no faster ones in the tables


def test_which_attention_is_assumed_is_said() -> None:
    """On Blackwell FlashAttention 2 is several times slower than cuDNN's: who names no release must read which is assumed."""
    words = "attention by FlashAttention 2, as in PyTorch before 2.11"
    row = {**LLAMA, "sequence_length": "2048"}
    for change, said in (({"device": "B200", "program": "fsdp"}, True), ({"program": "fsdp", "framework_version": "2.11"}, False),
                         ({"device": "RTX-4090", "program": "fsdp"}, False), ({"program": "nemo"}, False)):  # fmt: skip
        assert (words in case({**row, **change}).assumed) == said


def test_every_second_product_is_recomputed() -> None:
    """torchtitan, activation_checkpoint.py: of query, key, value, output, gate, up and down the second, fourth and sixth."""
    again = Plans.of([case({**LLAMA, "program": "fsdp", "precision": "bf16", "sequence_length": "8192", "recompute": "selective"})])
    second = 4096 * 1024 + 4096 * 4096 + 4096 * 14336
    assert again.products_again[0] == pytest.approx(second * 32 / WEIGHTS)
    assert (again.memory_again[0], again.attention_again[0]) == (1, 0)


@pytest.mark.parametrize(
    "program, recompute, products",
    [
        ("nemo", "full", 32 * 4096 * (2 * 4096 + 2 * 1024) + 3 * 32 * 4096 * 14336),  # Megatron's checkpoint runs the whole block again
        ("fsdp", "full", 32 * 4096 * (2 * 4096 + 2 * 1024) + 2 * 32 * 4096 * 14336),  # torch.utils.checkpoint stops early
        ("maxtext", "full", 32 * 4096 * (2 * 4096 + 2 * 1024) + 2 * 32 * 4096 * 14336),  # jax.checkpoint: no dead code
        ("maxtext", "selective", 2 * 32 * 4096 * 14336),  # save_dot_except_mlpwi
        ("nemo", "selective", 0),
    ],
)
def test_products_that_recomputation_repeats(program: str, recompute: str, products: int) -> None:
    """The output of a block's last product, down, is added to the residual: no gradient needs it. Attention is repeated in all of these."""
    device = "TPU-v5p" if program == "maxtext" else "h100"
    again = Plans.of([case({**LLAMA, "device": device, "program": program, "sequence_length": "8192", "recompute": recompute})])
    assert again.products_again[0] == pytest.approx(products / WEIGHTS) and again.attention_again[0] == 1
    assert again.memory_again[0] == (products > 0)


@pytest.mark.parametrize("device, times", [("h100", 1.0), ("b200", 2250 / 148 / (989.4 / 132)), ("H20-SXM5-96GB", 1.0)])
def test_kernels_for_ampere_use_no_more_of_a_later_sm(device: str, times: float) -> None:
    """CUTLASS, blackwell_functionality: tcgen05.mma has twice the throughput of Hopper's; FlashAttention 2 issues Ampere's instructions."""
    item = case({**LLAMA, "device": device, "program": "fsdp", "sequence_length": "8192"})
    assert Plans.of([item]).flash_2[0] == pytest.approx(times, rel=2e-3)


def test_the_root_s_weights_are_gathered_and_reduced_alone() -> None:
    """docs.pytorch.org, fully_shard: the root holds what no block has, is gathered before the first block, not again, and reduced last."""
    found = parts([case({**LLAMA, "program": "fsdp", "precision": "bf16", "sequence_length": "8192"})])
    ends = 2 * 128256 * 4096 / models.load("llama-3-8b").parameters
    gather = found.gather[0] / (1 - ends)
    scatter = found.gather_back[0] / (1 - ends) - gather
    assert scatter == pytest.approx(2 * gather, rel=0.02)  # gradients in 32 bits
    assert found.ends[0] == pytest.approx(ends * (gather + scatter), rel=1e-3)


@pytest.mark.parametrize(
    "change, each", [({}, 40), ({"weight_precision": "bf16"}, 20), ({"optimizer": "adamw_8bit"}, 28), ({"optimizer": "sgd"}, 24)]
)
def test_the_optimizer_moves_gradients_weights_and_states(change: dict[str, str], each: int) -> None:
    """A gradient is read for the norm, read and written to be scaled, and read; weight and moments are read and written
    (torch.nn.utils.clip_grad_norm_; torch.optim.AdamW, fused)."""
    item = case({**LLAMA, "gpus": "1", "program": "fsdp", "sequence_length": "2048", "zero": "0", **change})
    bandwidth = 0.85 * devices.load("H100-SXM5-80GB").memory_bandwidth_bytes_per_s
    assert parts([item]).update[0] == pytest.approx(each * models.load("llama-3-8b").parameters / bandwidth, rel=2e-3)


def test_tiles_in_which_two_experts_meet_are_computed_for_each() -> None:
    """megablox, make_group_metadata: tiles plus groups are visited; tiles of 512 rows, on each of TPU v7x's two cores: with 2,048 rows of
    an expert on a chip half as many again, with 8,192 an eighth."""
    kernels = kernels_of("TPU-v7x")

    def longer(rows: float) -> float:
        plain = sum(8 * kernels.gemm_s(np.array([rows]), np.array([n]), np.array([k]), "bf16")[0] for n, k in ((2048, 4096), (4096, 1024)))
        launches = 16 * 4e-6
        return (kernels.experts_s(rows * 8 / 2, 8, 2, 4096, 1024, 1, "bf16") - launches) / float(plain - launches)

    assert longer(2048) == pytest.approx(1.5) and longer(8192) == pytest.approx(1.125)


def test_experts_on_a_tpu_take_no_less_time_for_more_tokens() -> None:
    """Each expert's rows and one tile besides: a microbatch of few tokens is paid by the tiles, never more than a larger one."""
    row = {"model": "qwen3-30b-a3b", "device": "TPU-v5p", "gpus": "8", "global_batch": "8", "micro_batch": "1", "recompute": "none"}
    lengths = [parts([case({**row, "sequence_length": str(length)})]).grouped[0] for length in (512, 1024, 2048, 4096, 16384)]
    assert lengths == sorted(lengths) and lengths[1] < 1.2 * lengths[0]


def test_a_tpu_s_attention_computes_whole_blocks_and_full_lanes() -> None:
    """splash_attention: of n blocks a side n (n + 1) / 2 are computed, and heads are filled up to 128 lanes; a window shorter than a block
    costs what a block does."""
    kernels = kernels_of("TPU-v6e")

    def busy_s(tokens: float, size: float) -> float:
        return kernels.attention_s(*(np.array([x]) for x in (1.0, 8.0, 8.0, size, tokens, size)))[0] - 6e-6

    exact = 8 * 4096**2 * 2 * 128 / (0.5 * 918e12)
    assert busy_s(4096, 128) == pytest.approx(exact * (4 * 5 / 2) / (4 * 4 / 2)) and busy_s(4096, 64) == busy_s(4096, 128)
    row = {"model": "gpt-oss-20b", "device": "TPU-v6e", "gpus": "8", "global_batch": "8", "micro_batch": "1"}
    item = case({**row, "sequence_length": "4096"})
    widened = replace(item, shape=item.shape.model_copy(update={"window": 1024}))
    assert item.shape.window == 128 and parts([item]).attention[0] == parts([widened]).attention[0]


def test_each_core_of_a_tpu_gathers_all_weights() -> None:
    """docs.cloud.google.com, tpu7x: a chip's two cores are devices, each with half of the memory: gathered weights are written by both."""
    row = {**LLAMA, "sequence_length": "8192", "recompute": "none"}
    for device, cores in (("TPU-v7x", 2), ("TPU-v5p", 1)):
        streams = [parts([case({**row, "device": device, "zero": zero})]).stream[0] for zero in ("3", "0")]
        copies = cores * (4 + (2 + 4) / 8) * WEIGHTS / (0.85 * devices.load(device).memory_bandwidth_bytes_per_s)
        copies += 3 * 64 * 3e-6  # launches
        assert streams[0] - streams[1] == pytest.approx(copies, rel=0.02)


def test_a_tpu_s_share_of_the_peak_follows_from_its_ridge() -> None:
    """1 / share - 1 is bytes of tiles over bytes per second beside arithmetic: as much more as the device has FLOP for a byte."""
    known, other = devices.load("TPU-v5e"), devices.load("TPU-v6e")
    ridges = [each.peak_flop_per_s("bf16") / each.memory_bandwidth_bytes_per_s for each in (known, other)]
    assert 1 / tpu_share(other, {known.name: 0.8}) - 1 == pytest.approx(0.25 * ridges[1] / ridges[0])
    assert tpu_share(known, {known.name: 0.8}) == pytest.approx(0.8)
