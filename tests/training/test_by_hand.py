"""Blocks, collectives and plans counted by hand (Korthikanti et al. 2022, section 4; Narayanan et al. 2021; Rajbhandari et al. 2020)."""

import pytest

from analysis.hardware import systems
from analysis.studies.training.fixed_efficiency import step
from analysis.studies.training.fixed_efficiency.block import Gemm, Stream, block_kernels, embedding_kernels, head_kernels
from analysis.studies.training.fixed_efficiency.communication import HOP_LATENCY_S, all_gather_s, all_reduce_s, group, send_s
from analysis.studies.training.fixed_efficiency.kernel_time import efficiencies_of, kernel_time
from analysis.studies.training.fixed_efficiency.memory import stage_parameters
from analysis.studies.training.fixed_efficiency.plan import Plan, Software, padded_vocab
from analysis.workloads import models

HGX = systems.load("HGX-H100")
SHARES = efficiencies_of(HGX.device)
LLAMA = models.load("llama-3-8b")  # h 4096, 32 heads and 8 key heads of 128, ffn 14336, gated
GPT = models.load("gpt3-13b")  # h 5120, 40 heads, ffn 20480, biases, learned positions
PLAN = Plan(tensor_parallel=2, microbatch=2, global_batch=2, sequence_length=1024)
T = 2048  # tokens of a microbatch


def sums(kernels) -> tuple[float, float]:
    """FLOP of matrix products and bytes of everything else."""
    products = sum(one.flop for one in kernels if isinstance(one, Gemm))
    return products, sum(one.bytes for one in kernels if not isinstance(one, Gemm))


def test_a_llama_block_on_two_gpus() -> None:
    block = block_kernels(LLAMA, PLAN, Software())
    weights = 4096 * (2048 + 2 * 512) + 2048 * 4096 + 3 * 4096 * 7168  # qkv, projection, two gates and the way down, halved
    fused = 4 * (2 * 16) * 1024**2 * 128 / 2  # scores and weighted sum of 2 x 16 heads, below the diagonal
    operands = T * (2048 + 512)
    flop, moved = sums(block.forward)
    assert flop == 2 * T * weights
    # two norms read and write; activation reads gate and input and writes; two residual additions read two and write one
    assert moved == 2 * 4 * T * 4096 + 6 * T * 7168 + 2 * 6 * T * 4096 + 4 * operands
    (core,) = block.core
    assert core.flop == fused and core.bytes == 2 * 2 * operands
    flop, moved = sums(block.backward)
    assert flop == 2 * T * weights
    assert moved == 2 * 10 * T * 4096 + 2 * 6 * T * 4096 + 10 * T * 7168 + 8 * operands
    assert [one.flop for one in block.backward if one.name == "attention_backward"] == [2.5 * fused]
    assert sums(block.weight_gradients) == (2 * T * weights, 0)
    extra = sum(one.extra_bytes for one in block.weight_gradients if isinstance(one, Gemm))
    assert extra == 2 * 4 * weights  # fp32 gradients, read and written
    apart = block_kernels(LLAMA, PLAN, Software(fused_gradients=False, gradient_bytes=2))
    assert sums(apart.weight_gradients) == (2 * T * weights, (2 + 2 * 2) * weights)


def test_a_gpt_block_with_an_attention_matrix_and_dropout() -> None:
    plan = PLAN.model_copy(update={"sequence_parallel": True})
    block = block_kernels(GPT, plan, Software(attention="unfused", dropout=True))
    matrix, unit = 2 * 20 * 1024**2, T * 5120 / 2
    flop, moved = sums(block.forward)
    weights = 5120 * 3 * 2560 + 2560 * 5120 + 2 * 5120 * 10240
    assert flop == 2 * T * weights + 2 * 2 * matrix * 128
    activation = 2 * T * 10240 * 2
    assert moved == 2 * 4 * unit + activation + 2 * 7 * unit + 4 * matrix + 5 * matrix
    flop, moved = sums(block.backward)
    assert flop == 2 * T * weights + 4 * 2 * matrix * 128
    biases = 2 * (2 * unit + T * (2560 + 2 * 2560) + T * 10240)
    assert moved == 2 * 10 * unit + 2 * 6 * unit + 3 * 2 * T * 10240 + 2 * 5 * unit + biases + 6 * matrix + 5 * matrix


def test_the_ends() -> None:
    forward, backward = head_kernels(LLAMA, PLAN, Software())
    vocab = 128256 / 2
    assert sums(forward) == (2 * T * vocab * 4096, 14 * T * vocab) and sums(backward) == (4 * T * vocab * 4096, 10 * T * vocab)
    assert backward[2].extra_bytes == 8 * vocab * 4096
    assert [sums(one) for one in embedding_kernels(LLAMA, PLAN)] == [(0, 6 * T * 4096)] * 2


def test_collectives_between_nodes() -> None:
    """Ring over 50 GB/s adapters at 90 %; a node's members share its adapters; the ring pays 5 us a hop, at most 64 or 32 of them."""
    sixteen = group(HGX, 16, 1, 0.9)
    assert (sixteen.inside, sixteen.bandwidth_bytes_per_s) == (False, 8 * 50e9 * 0.9)
    assert group(HGX, 4, 8, 0.9).bandwidth_bytes_per_s == 50e9 * 0.9 and group(HGX, 8, 1, 0.9).inside
    assert group(HGX, 4, 2, 0.5).bandwidth_bytes_per_s == 450e9
    assert all_reduce_s(HGX, sixteen, 1e9) == pytest.approx(2 * 15 / 16 * 1e9 / 360e9 + 30 * HOP_LATENCY_S, rel=1e-12)
    assert all_gather_s(HGX, sixteen, 1e9) == pytest.approx(15 / 16 * 1e9 / 360e9 + 16 * HOP_LATENCY_S, rel=1e-12)
    hundred = group(HGX, 128, 8, 0.9)
    assert all_reduce_s(HGX, hundred, 1e9) == pytest.approx(2 * 127 / 128 * 1e9 / 45e9 + 64 * HOP_LATENCY_S, rel=1e-12)
    assert all_gather_s(HGX, hundred, 1e9) == pytest.approx(127 / 128 * 1e9 / 45e9 + 32 * HOP_LATENCY_S, rel=1e-12)
    small, large = (
        Plan(pipeline_parallel=8, global_batch=1, sequence_length=1),
        Plan(pipeline_parallel=16, global_batch=1, sequence_length=1),
    )
    assert send_s(HGX, small.gpus, 1e9, 0.9) == pytest.approx(1e9 / (450e9 * 0.9) + HOP_LATENCY_S, rel=1e-12)
    assert send_s(HGX, large.gpus, 1e9, 0.9) == pytest.approx(1e9 / (50e9 * 0.9) + HOP_LATENCY_S, rel=1e-12)
    alone = group(HGX, 1, 1, 0.9)
    assert all_reduce_s(HGX, alone, 1e9) == all_gather_s(HGX, alone, 1e9) == 0


@pytest.mark.parametrize("overlap", [False, True])
def test_gradients_and_weights_between_replicas(overlap: bool) -> None:
    """ZeRO 0: one all-reduce; 1 and 2: reduce-scatter of gradients, all-gather of weights; 3: weights in both passes."""
    model, program = LLAMA, Software(overlap_data=overlap)
    base = Plan(tensor_parallel=2, data_parallel=16, microbatch=1, global_batch=32, sequence_length=1024)
    parameters, everyone = stage_parameters(model, base, 0), group(HGX, 16, 2, SHARES.network)

    def exposed(zero: int, forward_s: float, backward_s: float) -> float:
        return step._data_s(model, base.model_copy(update={"zero": zero}), program, HGX, SHARES, forward_s, backward_s)

    def gathers(bytes_each: float) -> float:
        return all_gather_s(HGX, everyone, bytes_each * parameters)

    hidden = {True: (1e-3, 2e-3), False: (0.0, 0.0)}[overlap]
    reduce = all_reduce_s(HGX, everyone, 4 * parameters)
    assert exposed(0, 1e-3, 2e-3) == pytest.approx(reduce - hidden[1], rel=1e-12)
    for zero in (1, 2):
        assert exposed(zero, 1e-3, 2e-3) == pytest.approx(gathers(4) - hidden[1] + gathers(2) - hidden[0], rel=1e-12)
    assert exposed(3, 1e-3, 2e-3) == pytest.approx(2 * (gathers(2) - hidden[0] + gathers(2) + gathers(4) - hidden[1]), rel=1e-12)
    if overlap:
        assert exposed(3, 1e3, 1e3) == exposed(0, 1e3, 1e3) == 0


def test_tied_embeddings_are_agreed_on_between_the_ends() -> None:
    plan = Plan(tensor_parallel=2, pipeline_parallel=4, global_batch=8, sequence_length=1024)
    found = step._data_s(GPT, plan, Software(), HGX, SHARES, 0.0, 0.0)
    assert found == all_reduce_s(HGX, group(HGX, 2, 2, SHARES.network), 4 * 5120 * padded_vocab(GPT, plan) / 2) > 0
    assert step._data_s(LLAMA, plan, Software(), HGX, SHARES, 0.0, 0.0) == 0


def test_stages_of_a_plan() -> None:
    """30 layers and two ends on four stages."""
    ends = Plan(pipeline_parallel=4, data_parallel=2, microbatch=2, global_batch=24, sequence_length=512, ends_as_layers=True)
    assert [ends.stage_layers(30, stage) for stage in range(4)] == [7, 8, 8, 7] and (ends.microbatches, ends.gpus, ends.tokens) == (
        6,
        8,
        1024,
    )
    assert [ends.model_copy(update={"ends_as_layers": False}).stage_layers(32, stage) for stage in range(4)] == [8] * 4


@pytest.mark.parametrize("zero", [0, 1])
def test_the_optimizer_updates_its_share_once(zero: int) -> None:
    """ZeRO divides the parameters by the replicas."""
    plan = Plan(data_parallel=8, global_batch=8, sequence_length=1024, zero=zero)
    held = stage_parameters(LLAMA, plan, 0) / (8 if zero else 1)
    wanted = kernel_time(Stream("optimizer", held * step.OPTIMIZER_BYTES, 8), HGX.load_device(), "bf16", SHARES).total_s
    assert step.predict(LLAMA, plan, Software(), HGX).time.optimizer == pytest.approx(wanted, rel=1e-12)
