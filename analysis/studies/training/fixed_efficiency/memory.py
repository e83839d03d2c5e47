"""Memory of one GPU in a training step, by what fills it.

Source of a block's activations: Korthikanti et al. 2022, section 4 (equations 1 to 5), kept term by term so that they hold for gates,
grouped-query and fused attention.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.studies.training.fixed_efficiency.plan import Plan, Software, padded_vocab
from analysis.workloads.models import Model

RESERVE_BYTES = 2 * 2**30
"""What the driver, the collectives' buffers and fragmentation take, when asking whether a plan fits."""


@dataclass(frozen=True)
class Memory:
    """Bytes of the fullest GPU.

    Attributes:
        weights, gradients, optimizer: of the model's state.
        activations: kept for the backward pass; working: of the block being recomputed, and of the loss.
        stage: pipeline stage that is fullest.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    working: float
    stage: int

    @property
    def total(self) -> float:
        """Sum (bytes)."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.working

    def as_dict(self) -> dict[str, float]:
        """Every part and the total (bytes)."""
        return vars(self) | {"total": self.total}


def block_activation_bytes(model: Model, plan: Plan, software: Software) -> tuple[float, float, float]:
    """Bytes that one block keeps for one microbatch: (all, without the attention core, its input alone).

    For GPT without and with sequence parallelism these are s b h (10 + 24 / t + 5 a s / h t), s b h / t (34 + 5 a s / h), and the same
    without the last term; the input alone is 2 s b h.
    """
    t, tokens, h = plan.tensor_parallel, plan.tokens, model.hidden
    split = t if plan.sequence_parallel else 1
    mask = 1 if software.dropout else 0
    replicated = tokens * h / split * (8 + 2 * mask)  # inputs of norms and of the matrices behind them, dropout masks
    kv = max(model.kv_width / t, model.head_size)
    attention = 2 * tokens * (2 * model.attention_width / t + 2 * kv)  # queries, keys, values, output
    feed_forward = 2 * tokens * (3 if model.gated else 2) * model.ffn_width / t
    elements = plan.microbatch * model.heads / t * plan.sequence_length**2
    core = elements * ((2 + 2 + 1) if software.dropout else 2) if software.attention == "unfused" else 0.0
    kept = replicated + attention + feed_forward
    return kept + core, kept, 2 * tokens * h / split


def stage_parameters(model: Model, plan: Plan, stage: int) -> float:
    """Parameters of one GPU of a pipeline stage.

    Args:
        stage: 0 is the first, which has the embedding; the last has the output layer (a copy of a tied one).
    """
    t, p = plan.tensor_parallel, plan.pipeline_parallel
    layers = plan.stage_layers(model.layers, stage)
    dense = layers * (model.attention_parameters + model.attention_vectors + model.ffn_parameters) / t
    dense += layers * 2 * model.norm_parameters
    if stage == 0:
        dense += model.hidden * (model.vocabulary + model.learned_positions) / t
    if stage == p - 1 and (p > 1 or not model.tied):
        dense += model.hidden * padded_vocab(model, plan) / t
    return dense


def in_flight(plan: Plan, stage: int) -> float:
    """Microbatches whose activations a stage holds at once, counted in whole stages.

    1F1B: p - stage, at most the microbatches there are. Interleaved: p (1 + (p - 1) / (p v)) on the first stage (Narayanan et al. 2021).
    """
    p, v, m = plan.pipeline_parallel, plan.interleave, plan.microbatches
    if v == 1:
        return min(m, p - stage)
    chunks = min((v - 1) * p + 2 * (p - stage) - 1, m * v)
    return chunks / v


def memory(model: Model, plan: Plan, software: Software) -> Memory:
    """Memory of the fullest GPU: state of its parameters, activations in flight, and working space.

    total = state + activations in flight + working space (bytes), with state = 16 bytes a parameter with 16-bit gradients, 18 with fp32
    ones: weights 2, gradients, fp32 copy and two moments 12.

    Args:
        model, plan, software: see their classes.
    """
    stages = {0, plan.pipeline_parallel - 1}
    return max((_stage_memory(model, plan, software, stage) for stage in sorted(stages)), key=lambda m: m.total)


def _stage_memory(model: Model, plan: Plan, software: Software, stage: int) -> Memory:
    parameters = stage_parameters(model, plan, stage)

    def state(bytes_each: float, sharded: bool) -> float:
        return bytes_each * (parameters / (plan.data_parallel if sharded else 1))

    every, without_core, block_input = block_activation_bytes(model, plan, software)
    kept = {"none": every, "selective": without_core, "full": block_input}[plan.recompute]
    layers = plan.stage_layers(model.layers, stage)
    working = {"none": 0.0, "selective": every - without_core, "full": every}[plan.recompute]
    if plan.zero == 3:
        working += 2 * 2 * parameters / max(layers, 1)  # two blocks' gathered weights
    if stage == plan.pipeline_parallel - 1:
        working += (2 + 4) * plan.tokens * padded_vocab(model, plan) / plan.tensor_parallel
    return Memory(
        weights=state(2, plan.zero >= 3),
        gradients=state(software.gradient_bytes, plan.zero >= 2),
        optimizer=state(12, plan.zero >= 1),
        activations=kept * layers * in_flight(plan, stage),
        working=working,
        stage=stage,
    )
