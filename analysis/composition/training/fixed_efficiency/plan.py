"""Plans and programs of the baseline, and what cannot be laid out."""

from __future__ import annotations

from analysis.composition.training import config
from analysis.composition.training.config import Software
from analysis.errors import InputError
from analysis.hardware import systems
from analysis.workloads import models


class Plan(config.Plan):
    """A parallel plan, with what the baseline asks of it."""

    def stage_layers(self, layers: int, stage: int) -> int:
        """Layers of a pipeline stage (count)."""
        if not self.ends_as_layers:
            return layers // self.pipeline_parallel
        ends = (stage == 0) + (stage == self.pipeline_parallel - 1)
        return (layers + 2) // self.pipeline_parallel - ends

    @property
    def tokens(self) -> int:
        """Tokens of one microbatch."""
        return self.microbatch * self.sequence_length


MEGATRON_2021 = Software(
    dtype="fp16",
    attention="unfused",
    dropout=True,
    gradient_bytes=2,
    fused_gradients=False,
    overlap_tensor=False,
    overlap_data=False,
    overlap_pipeline=False,
)
"""Megatron-LM as of Narayanan et al., SC 2021."""

MEGATRON_2022 = MEGATRON_2021.model_copy(update={"fused_gradients": True, "overlap_tensor": True})
"""Megatron-LM as of Korthikanti et al. 2022: backward collectives run beside weight gradients, which accumulate in place."""


def padded_vocab(model: models.Model, plan: Plan) -> int:
    """Rows of the output layer: the vocabulary, or, where that does not divide, the next multiple of 128 on each of its parts (tokens).

    Source: Megatron-LM, `_vocab_size_with_padding` with its default `make_vocab_size_divisible_by` of 128.
    """
    t = plan.tensor_parallel
    return model.vocabulary if model.vocabulary % t == 0 else -(-model.vocabulary // (128 * t)) * 128 * t


def check(model: models.Model, plan: Plan, system: systems.System) -> list[str]:
    """Why a plan cannot be laid out: every divisibility rule that it breaks, as short sentences; empty when it can."""
    t, p, v = plan.tensor_parallel, plan.pipeline_parallel, plan.interleave
    rules = [
        (plan.gpus <= system.device_count, f"{plan.gpus} GPUs, {system.name} has {system.device_count}"),
        (model.heads % t == 0, f"{model.heads} heads over tensor_parallel {t}"),
        (model.kv_heads % t == 0 or t % model.kv_heads == 0, f"{model.kv_heads} key-value heads over tensor_parallel {t}"),
        (model.ffn_width % t == 0, f"feed-forward width {model.ffn_width} over tensor_parallel {t}"),
        ((model.layers + (2 if plan.ends_as_layers else 0)) % (p * v) == 0, f"{model.layers} layers over {p} stages x {v} chunks"),
        (v == 1 or p > 1, "interleaving needs a pipeline"),
        (not plan.sequence_parallel or t > 1, "sequence parallelism needs tensor parallelism"),
        (not plan.sequence_parallel or plan.sequence_length % t == 0, f"sequence {plan.sequence_length} over tensor_parallel {t}"),
        (
            plan.global_batch % (plan.data_parallel * plan.microbatch) == 0,
            f"batch {plan.global_batch} over {plan.data_parallel} x {plan.microbatch}",
        ),
        (v == 1 or plan.microbatches % p == 0, f"{plan.microbatches} microbatches over {p} stages (interleaved)"),
        (model.expert_count == 1, "a mixture of experts"),
        (plan.zero < 2 or p == 1, "sharded gradients or weights (ZeRO 2 and 3) need pipeline_parallel 1"),
        (plan.sequence_length <= (model.learned_positions or plan.sequence_length), f"sequence longer than {model.learned_positions}"),
    ]
    return [reason for holds, reason in rules if not holds]


def require(model: models.Model, plan: Plan, system: systems.System) -> None:
    """Raises `InputError` with the first reason why a plan cannot be laid out."""
    reasons = check(model, plan, system)
    if reasons:
        raise InputError(f"does not divide: {reasons[0]}", key="plan")
