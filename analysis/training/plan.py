"""What is trained, on what, and how it is laid out: the inputs of the step-time and memory models."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from analysis.configs import Strict
from analysis.errors import InputError
from analysis.hardware import systems
from analysis.workloads import models

Recompute = Literal["none", "selective", "full"]


class Plan(Strict):
    """A parallel plan.

    Args:
        tensor_parallel, pipeline_parallel, data_parallel: ways (GPUs); their product is the number of GPUs.
        expert_parallel: ways in which experts are spread inside the data-parallel group (GPUs).
        interleave: model chunks that each pipeline stage holds (count); 1 is plain 1F1B.
        microbatch, global_batch: sequences (count).
        sequence_length: tokens of each.
        sequence_parallel: norms, dropouts and residuals split over the tensor-parallel group.
        recompute: none, selective (attention scores) or full (whole blocks).
        ends_as_layers: embedding and output layer count as a layer each when layers are dealt out to the stages (Llama 3: 126 + 2 over 16).
        zero: 0 none; 1 optimizer state, 2 and gradients, 3 and weights sharded over the data-parallel group.
    """

    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    data_parallel: int = Field(default=1, ge=1)
    expert_parallel: int = Field(default=1, ge=1)
    interleave: int = Field(default=1, ge=1)
    microbatch: int = Field(default=1, ge=1)
    global_batch: int = Field(ge=1)
    sequence_length: int = Field(ge=1)
    sequence_parallel: bool = False
    ends_as_layers: bool = False
    recompute: Recompute = "none"
    zero: int = Field(default=0, ge=0, le=3)

    @property
    def gpus(self) -> int:
        """Devices used: tensor x pipeline x data."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel

    @property
    def microbatches(self) -> int:
        """Microbatches that each pipeline runs in a step: global_batch / (data_parallel x microbatch)."""
        return self.global_batch // (self.data_parallel * self.microbatch)

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


class Software(Strict):
    """What the training program does; the defaults are those of a program of 2024.

    Args:
        dtype: of the matrix arithmetic.
        attention: fused never writes the attention matrix; unfused does, as in 2021.
        dropout: whether dropout runs.
        gradient_bytes: of each gradient kept and reduced (bytes).
        fused_gradients: the weight-gradient kernel adds into the gradient buffer itself.
        overlap_tensor: the backward collectives of tensor parallelism hide behind weight gradients.
        overlap_data: gradient reduction and weight gathering hide behind the last backward and first forward pass.
        overlap_pipeline: sends between stages hide behind compute.
        scatter_gather: without sequence parallelism, each GPU of a tensor-parallel group sends its share of the boundary and gathers it.
    """

    dtype: Literal["bf16", "fp16", "fp8"] = "bf16"
    attention: Literal["fused", "unfused"] = "fused"
    dropout: bool = False
    gradient_bytes: Literal[2, 4] = 4
    fused_gradients: bool = True
    overlap_tensor: bool = True
    overlap_data: bool = True
    overlap_pipeline: bool = True
    scatter_gather: bool = True


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


class Training(Strict):
    """A training run: `python -m analysis train CONFIG.yaml` reads this.

    Args:
        model: a name that `analysis.workloads.models.load` knows, or a shape written out.
        system: a name that `analysis.hardware.systems.load` knows.
        plan: the layout; software: the program.
        efficiencies: name in `data/models/training_efficiencies.yaml`; empty: the device's own, else the default.
    """

    model: str | models.Model
    system: str
    plan: Plan
    software: Software = Software()
    efficiencies: str = ""

    @model_validator(mode="after")
    def _known(self) -> Training:
        if isinstance(self.model, str):
            models.load(self.model)
        systems.load(self.system)
        return self

    def shape(self) -> models.Model:
        """The model's shape."""
        return models.alike(models.load(self.model) if isinstance(self.model, str) else self.model, "`train`")

    def machine(self) -> systems.System:
        """The system."""
        return systems.load(self.system)


def padded_vocab(model: models.Model, plan: Plan) -> int:
    """Rows of the output layer: the vocabulary, or, where that does not divide, the next multiple of 128 on each of its parts (tokens).

    Source: Megatron-LM, `_vocab_size_with_padding` with its default `make_vocab_size_divisible_by` of 128.
    """
    t = plan.tensor_parallel
    return model.vocabulary if model.vocabulary % t == 0 else -(-model.vocabulary // (128 * t)) * 128 * t


def check(model: models.Model, plan: Plan, system: systems.System) -> list[str]:
    """Why a plan cannot be laid out: every divisibility rule that it breaks, as short sentences; empty when it can."""
    t, p, v, ep = plan.tensor_parallel, plan.pipeline_parallel, plan.interleave, plan.expert_parallel
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
        (model.expert_count % ep == 0, f"{model.expert_count} experts over expert_parallel {ep}"),
        (plan.data_parallel % ep == 0, f"data_parallel {plan.data_parallel} over expert_parallel {ep}"),
        (plan.zero < 2 or p == 1, "sharded gradients or weights (ZeRO 2 and 3) need pipeline_parallel 1"),
        (plan.sequence_length <= (model.learned_positions or plan.sequence_length), f"sequence longer than {model.learned_positions}"),
    ]
    return [reason for holds, reason in rules if not holds]


def require(model: models.Model, plan: Plan, system: systems.System) -> None:
    """Raises `InputError` with the first reason why a plan cannot be laid out."""
    reasons = check(model, plan, system)
    if reasons:
        raise InputError(f"does not divide: {reasons[0]}", key="plan")
