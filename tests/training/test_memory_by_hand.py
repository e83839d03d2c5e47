"""What a GPU holds, against the papers' own formulas."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis.errors import InputError
from analysis.training import memory as formulas
from analysis.training.answers import answers
from analysis.training.cases import Case, Cases, case
from analysis.training.memory import memory
from analysis.training.search import PLAN, Choices, search

GPT3 = {"model": "gpt3-175b", "device": "a100", "gpus": "64", "sequence_length": "2048", "global_batch": "64", "micro_batch": "1"}
GPT3 |= {"tensor_parallel": "8", "pipeline_parallel": "8", "program": "megatron_2021", "precision": "bf16"}


def of(**change: str) -> Case:
    return case({**GPT3, **change})


def _block_bytes(item: Case) -> tuple[float, float]:
    kept, again = formulas._block_bytes(Cases.of(item))
    return float(kept[0]), float(again[0])


def _state(item: Case, dense: float, routed: float) -> float:
    return float(formulas._state(Cases.of(item), dense, routed)[0])


def test_activations_of_a_block_are_korthikanti_s() -> None:
    """Korthikanti et al. 2022, section 4, a block of GPT-3 (s 2,048, h 12,288, 96 heads) over t = 8 ways: sbh (10 + 24 / t + 5 a s / (h t))
    kept by tensor parallelism alone (equation 2), 34 s b h / t with sequence parallelism and selective recomputation (equation 6), which
    needs 5 a s^2 b / t again, and 2 s b h by whole recomputation."""
    unit, t, core = 2048 * 12288, 8, 5 * 96 * 2048 / 12288
    assert _block_bytes(of(recompute="none")) == pytest.approx((unit * (10 + 24 / t + core / t), 0))
    assert _block_bytes(of(recompute="selective")) == pytest.approx((unit * 34 / t, unit * core / t))
    assert _block_bytes(of(recompute="full")) == pytest.approx((unit * 2, unit * (10 + 24 / t + core / t)))
    two = _block_bytes(of(recompute="none", micro_batch="2"))[0]
    assert two == pytest.approx(2 * unit * (10 + 24 / t + core / t))


def test_activations_of_a_mixture_by_hand() -> None:
    """Mixtral 8x7B (h 4,096, 32 + 8 heads of 128, two experts of 14,336) over t = 2 with fused attention, sequence parallelism: four bytes
    of queries, keys, values and output, eight of both norms' inputs over t, and of each choice three inner values and twice the token."""
    item = of(model="mixtral-8x7b", tensor_parallel="2", pipeline_parallel="1", gpus="16", expert_parallel="8", program="megatron",
              recompute="none")  # fmt: skip
    attention, norms, experts = 40 * 128 * 4 / 2, 8 * 4096 / 2, (2 / 2) * (3 * 14336 * 2 + 4 * 4096)
    assert _block_bytes(item)[0] == pytest.approx(2048 * (attention + norms + experts))
    # every other product again (PyTorch's selective checkpointing): the input, two products and the values, and all of the experts
    row = {"model": "mixtral-8x7b", "device": "h100", "gpus": "64", "sequence_length": "2048", "global_batch": "64", "micro_batch": "1"}
    kept = _block_bytes(case({**row, "program": "fsdp", "zero": "3", "precision": "bf16", "recompute": "selective"}))[0]
    assert kept == pytest.approx(2048 * (2 * 4096 + 2 * (3 * 4096 + 1024) + 2 * (3 * 14336 * 2 + 4 * 4096)))


@pytest.mark.parametrize(
    ("program", "zero", "each"),
    # bytes of a weight on 8 GPUs. Megatron-LM, docs on the distributed optimizer: 18, sharded 6 + 12 / d (gradients in fp32), 16 and
    # 4 + 12 / d (in bf16, NeMo); PyTorch's full sharding of fp32 weights: 16 / d; nanotron accumulates in fp32 beside 16-bit gradients
    [("megatron", "0", 18), ("megatron", "1", 7.5), ("nemo", "0", 16), ("nemo", "1", 5.5), ("fsdp", "3", 2), ("nanotron", "0", 20)],
)  # fmt: skip
def test_states_of_a_weight_are_as_documented(program: str, zero: str, each: float) -> None:
    item = case({"model": "llama-2-7b", "device": "a100", "gpus": "8", "sequence_length": "2048", "global_batch": "8", "micro_batch": "1",
                 "program": program, "zero": zero, "precision": "bf16"})  # fmt: skip
    assert _state(item, 1e9, 0.0) == pytest.approx(each * 1e9) == pytest.approx(_state(item, 0.0, 1e9))


@pytest.mark.parametrize(
    ("change", "each"),
    # docs.pytorch.org, AdamW: exp_avg and exp_avg_sq are zeros_like(weight); bitsandbytes keeps both in 8 bits whatever the weight is
    [({"zero": "3"}, 8), ({"zero": "0"}, 8), ({"optimizer": "sgd"}, 4), ({"optimizer": "adamw_8bit"}, 6), ({"optimizer": "momentum"}, 6)],
)
def test_pure_bf16_has_no_fp32_copy(change: dict[str, str], each: float) -> None:
    """Weights, gradients and states all in 16 bits on one GPU: torchtune's full_finetune_single_device with dtype bf16."""
    row = {"model": "llama-3.1-8b", "device": "h100", "gpus": "1", "sequence_length": "2048", "global_batch": "2", "micro_batch": "1"}
    item = case({**row, "program": "fsdp", "precision": "bf16", "weight_precision": "bf16", **change})
    assert _state(item, 1e9, 0.0) == pytest.approx(each * 1e9)
    answer = answers(pd.DataFrame([{**row, "program": "fsdp", "weight_precision": "bf16", "zero": "0", "recompute": "full"}])).iloc[0]
    assert answer["memory_gib"] == pytest.approx(8 * 8.03e9 / 2**30, rel=0.15) and answer["fits"] == "yes"
    assert "network" not in answer["assumed"] and "joined" not in answer["assumed"]


def test_adapters_keep_frozen_weights_alone() -> None:
    """LoRA holds weights in 16 bits, QLoRA in 4 with their scales (Dettmers et al. 2023: 0.5 bytes and 0.127 bits, quantised twice)."""
    rows = {"model": "llama-2-7b", "device": "a100", "gpus": "8", "sequence_length": "2048", "global_batch": "8", "micro_batch": "1"}
    assert _state(case({**rows, "kind": "lora"}), 1e9, 0) == 2e9
    assert 0.5e9 + 0.127 / 8 * 1e9 <= _state(case({**rows, "kind": "qlora"}), 1e9, 0) <= 0.6e9


def test_a_frozen_product_keeps_no_input() -> None:
    """Llama 2 70B with adapters of attention in NVIDIA's MLPerf v4.0 submission (llama2_70b_lora, megatron_gpt_peft_tuning_config.yaml:
    fp8_params where fp8, target_modules attention): weights in 8 bits; of a token a block keeps both norms' inputs and one output (6 h),
    queries, keys, values and output, and two of the three feed-forward widths. It ran on one B200 of 180 GB and on half an H200."""
    row = {"model": "llama-2-70b", "sequence_length": "8192", "global_batch": "8", "micro_batch": "1", "program": "nemo", "kind": "lora"}
    item = case({**row, "device": "b200", "gpus": "8", "precision": "bf16"})
    assert _block_bytes(item)[0] == pytest.approx(8192 * (6 * 8192 + 4 * (64 + 8) * 128 + 2 * 2 * 28672))
    assert _state(case({**row, "device": "b200", "gpus": "8", "precision": "fp8"}), 1e9, 0) == 1e9 == _state(item, 0.5e9, 0)
    ran = [{"device": "b200"}, {"device": "h200", "context_parallel": "2"}, {"device": "h100", "tensor_parallel": "4"}]
    said = answers(pd.DataFrame([{**row, "context_parallel": "1", "tensor_parallel": "1", "gpus": "8", "precision": "fp8"} | each
                                 for each in ran]))  # fmt: skip
    assert "no" not in said["fits"].tolist() and (said["status"] == "").all()


def test_states_that_a_plan_says_are_certain() -> None:
    """70 billion weights on each GPU take 2 + 2 + 12 / 64 bytes each, whatever their activations: no MI300X of 192 GB holds them, and no
    spread of printed peaks makes it so."""
    row = {"program": "primus", "model": "llama-3-70b", "device": "MI300X", "gpus": "64", "sequence_length": "8192", "global_batch": "64"}
    item = case({**row, "micro_batch": "1", "recompute": "full"})
    held = memory(item)
    assert 0.8 * held.state < held.ends[0] < 0.9 * held.total and held.state > 190e9
    assert answers(pd.DataFrame([{**row, "micro_batch": "1", "recompute": "full"}]))["fits"][0] == "no"


def test_colossalai_recomputes_and_takes_its_loss_in_16_bits() -> None:
    """examples/language/llama/scripts: -g in each; shardformer/layer/loss.py: no cast of the logits, three copies at the peak."""
    row = {"program": "colossalai", "model": "llama-2-7b", "device": "h200", "gpus": "8", "sequence_length": "4096", "global_batch": "8"}
    item = case({**row, "micro_batch": "1"})
    assert item.recompute == "full"
    wider = case({**row, "micro_batch": "1", "vocabulary": "64000"})
    more = (memory(wider).total - memory(item).total) - (memory(wider).state - memory(item).state)
    assert more == pytest.approx(6 * 4096 * 32000)


def test_a_pipeline_s_first_stage_holds_every_stage_s_microbatches() -> None:
    """Narayanan et al. 2021, section 2.2: one forward, one backward keeps p microbatches on the first stage; interleaved, 1 +
    (p - 1) / (p v) times as many."""
    one, chunks = memory(of(recompute="full")), memory(of(recompute="full", virtual_pipeline="3"))
    per_layer = 2 * 2048 * 12288
    assert one.activations == pytest.approx(8 * 12 * per_layer)
    assert chunks.activations == pytest.approx(8 * 12 * per_layer * (1 + 7 / (8 * 3)))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"top_k": "2"}, "top_k without experts"),
        ({"experts": "8", "ffn": "1024"}, "experts need top_k"),
        ({"experts": "8", "top_k": "2"}, "experts need top_k"),
        ({"experts": "8", "top_k": "9", "ffn": "1024"}, "at most their number"),
        ({"kv_heads": "5"}, "does not divide by kv_heads 5"),
        ({"attention_heads": "30"}, "does not divide by attention_heads 30"),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes: dict[str, str], words: str) -> None:
    row = {"hidden_size": "4096", "attention_heads": "32", "layers": "16", "vocabulary": "32000", "device": "h100", "gpus": "8"}
    row |= {"sequence_length": "2048", "global_batch": "8"}
    assert case({**row, "experts": "8", "top_k": "8", "ffn": "1024"}).shape.experts_per_token == 8
    with pytest.raises(InputError, match=words):
        case({**row, **sizes})


def test_primus_logs_the_last_stage() -> None:
    """AMD-AGI/Primus: patches/training_log/print_rank_last_patches.py; gradients in 16 bits by default (docs, megatron-parameters.md). The
    last of eight stages holds the activations of one microbatch, the first of eight; what fits is asked of the fullest."""
    row = {"program": "primus", "model": "llama-2-7b", "device": "MI300X", "gpus": "8", "sequence_length": "4096", "global_batch": "256"}
    item = case({**row, "micro_batch": "1", "pipeline_parallel": "8"})
    last, fullest = memory(item, item.defaults.log), memory(item)
    assert fullest.activations == pytest.approx(8 * last.activations)
    weights = 4 * (4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096) + 32000 * 4096
    assert last.state == pytest.approx(16 * weights, rel=1e-3)
    answer = answers(pd.DataFrame([{**row, "micro_batch": "1", "pipeline_parallel": "8"}])).iloc[0]
    assert answer["memory_gib"] == pytest.approx(last.total / 2**30)
    assert f"the fullest GPU needs {fullest.total / 2**30:.1f} GiB" in answer["assumed"]


def test_primus_holds_nothing_of_its_fused_loss_but_the_logits() -> None:
    """AMD-AGI/Primus, core/projection/module_profilers: output_layer.py counts two bytes a logit, loss.py nothing where it is fused."""
    row = {"program": "primus", "model": "llama-2-7b", "device": "MI300X", "gpus": "8", "sequence_length": "4096", "global_batch": "8"}
    held = [memory(case({**row, "micro_batch": "1", "vocabulary": words})) for words in ("32000", "64000")]
    assert held[1].working - held[0].working == pytest.approx(2 * 4096 * 32000)


LLAMA = {"model": "llama-3-8b", "device": "h100", "gpus": "8", "sequence_length": "4096", "program": "nanotron", "precision": "bf16"}


def test_what_collectives_used_is_held_while_an_eager_host_runs_ahead() -> None:
    """Tensor.record_stream: memory of another stream's kernel is not used again before the GPU is done with it. Of 24 passes that fit in a
    stream's queue of launches one tensor of all tokens each; a small microbatch's GPU waits for the host; others have no such tensors."""
    plan = {**LLAMA, "tensor_parallel": "8", "micro_batch": "8", "global_batch": "64"}
    ahead, one = memory(case(plan)), 2 * 8 * 4096 * 4096
    assert ahead.held == pytest.approx(24 * one)
    certain = ahead.ends[0] - 0.9 * (ahead.total - ahead.held), ahead.ends[1] - 1.2 * (ahead.total - ahead.held) + 0.05 * ahead.state
    assert certain == pytest.approx((0, 48 * one), abs=1)  # none of them, or twice as many
    for change in ({"tensor_parallel": "1"}, {"micro_batch": "1"}, {"program": "megatron"}):
        assert memory(case({**plan, **change})).held == 0


def test_nanotron_logs_the_first_stage() -> None:
    """huggingface/nanotron, log_throughput: written by rank 0. Of two stages and one microbatch the last holds more, for its logits."""
    item = {**LLAMA, "gpus": "2", "pipeline_parallel": "2", "micro_batch": "8", "global_batch": "8"}
    answer = answers(pd.DataFrame([item])).iloc[0]
    first, fullest = (memory(case(item), whose).total / 2**30 for whose in ("first", "fullest"))
    assert answer["memory_gib"] == pytest.approx(first) and first < fullest
    assert f"memory is the first stage's, as nanotron's log has it; the fullest GPU needs {fullest:.1f} GiB" in answer["assumed"]


def test_an_interval_is_as_wide_as_its_program_was_off() -> None:
    """Where no count is documented, or the few measured peaks lie far from it, the interval is wide."""
    row = {"model": "llama-2-7b", "device": "a100", "gpus": "8", "sequence_length": "2048", "global_batch": "8", "micro_batch": "1"}
    every = {program: memory(case({**row, "program": program})) for program in ("nanotron", "fsdp", "megatron", "internevo", "deepspeed")}
    rest = {program: formulas.ENDS[held.sure][1][1] / formulas.ENDS[held.sure][0][1] for program, held in every.items()}
    assert rest["nanotron"] < 1.4 < rest["fsdp"] == rest["megatron"] < 1.7 < 2 < rest["internevo"] == rest["deepspeed"]
    # the states follow from the plan: where they are nearly all, the interval is narrow
    held = memory(case({**row, "program": "megatron", "recompute": "full", "vocabulary": "32000"}))
    assert held.state / held.total > 0.9 and held.ends[1] / held.ends[0] < 1.3


def test_a_search_and_an_answer_give_one_memory() -> None:
    row = {"program": "primus", "model": "llama-2-7b", "device": "MI300X", "sequence_length": "4096", "global_batch": "64"}
    found = search(row, 8, Choices(tensor_parallel=(1,), pipeline_parallel=(8,), micro_batch=(1,), recompute=("none",)))
    plan = found.dropna(subset="step_time_s").iloc[0]
    answer = answers(pd.DataFrame([{**row, **{name: str(plan[name]) for name in PLAN}}])).iloc[0]
    assert plan["memory_gib"] == pytest.approx(answer["memory_gib"]) and "fullest GPU" in answer["assumed"]
