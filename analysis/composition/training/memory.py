"""What must one GPU hold in a training step, and does it fit? Where a row does not say, this also decides what is recomputed."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.composition.training.cases import Case, settled
from analysis.composition.training.work import parameters_of_gpu
from analysis.hardware import devices

GIB = float(2**30)
RESERVE_BYTES = 1.5 * GIB
"""Driver, communication buffers, fragmentation."""
SLACK = 0.9
"""A plan is too big only when this share of the estimate is above the capacity: programs offload, free early, recompute cheap parts."""


@dataclass(frozen=True)
class Memory:
    """Bytes of the fullest GPU."""

    state: float
    activations: float
    working: float

    @property
    def total(self) -> float:
        """Sum, with the reserve (bytes)."""
        return self.state + self.activations + self.working + RESERVE_BYTES


def _state(item: Case) -> float:
    dense, routed = parameters_of_gpu(item)
    replicas = float(item.data * item.context)
    expert_replicas = max(1.0, replicas * item.tensor / item.expert)
    if not item.trained:
        return 2.0 * (dense / (replicas if item.sharded else 1) + routed / (expert_replicas if item.sharded else 1))
    if item.sharded:
        each = 16.0  # weight and gradient in 16 bits (or fp32 weight, no copy), fp32 copy, two moments: all sharded
        return each * (dense / replicas + routed / expert_replicas)
    if item.program == "megatron_2021":
        return 16.0 * (dense + routed)  # 16-bit weight and gradient, fp32 copy and two moments, as Megatron of 2021 holds them
    return 2.0 * (dense + routed) + 4.0 * (dense + routed) + 12.0 * (dense / replicas + routed / expert_replicas)


def _block_bytes(item: Case, recompute: str) -> tuple[float, float]:
    """Bytes that a block keeps for a microbatch, and what is needed while it is recomputed (Korthikanti et al. 2022, eq. 1 to 5)."""
    shape, t = item.shape, item.tensor
    tokens = item.micro_batch * item.sequence / item.context
    h = shape.hidden
    old = item.program == "megatron_2021"
    # selective recomputation came with sequence parallelism (Korthikanti et al. 2022: "present work" has both)
    split = t if not old or recompute == "selective" else 1
    low = 2.0 if item.precision == "bf16" else 1.4  # inputs of products kept in 8 bits
    blocks = max(1, shape.attention_layers if not shape.state_space_layers else shape.blocks)
    attention = (shape.heads + shape.kv_heads) * shape.head_size * 2 * 2 * tokens / t * shape.attention_layers / blocks
    norms = tokens * h / split * (8 + (2 if old else 0)) * max(1.0, (shape.attention_layers + shape.state_space_layers) / blocks)
    ffn = low * tokens * (3 if shape.gated else 2) * shape.dense_width / t * shape.dense_layers / blocks
    if shape.experts:
        routed = tokens / t * shape.experts.per_token
        kept = (
            routed * ((3 if shape.gated else 2) * shape.experts.width * low + 4 * (shape.experts.latent or h))
            + tokens / t * shape.experts.shared * 6
        )
        ffn += kept * shape.expert_layers / blocks
    if shape.state_space:
        ffn += tokens / t * shape.state_space.heads * shape.state_space.head_size * 12 * shape.state_space_layers / blocks
    core = item.micro_batch * shape.heads / t * float(item.sequence) ** 2 * 5 if old else 0.0
    every = norms + attention + ffn + core
    boundary = 2 * tokens * h / split
    if recompute == "full":
        return boundary, every
    if recompute == "selective":
        return every - core, core
    return every, 0.0


def memory(item: Case, recompute: str) -> Memory:
    """The fullest GPU (the first stage, with the loss of the last added where the pipeline has one stage).

    Args:
        item: the run; recompute: none, selective or full.
    """
    kept, working = _block_bytes(item, recompute)
    shape, p, v, m = item.shape, item.pipeline, item.virtual, item.microbatches
    blocks = shape.attention_layers if not shape.state_space_layers else shape.blocks
    layers = blocks / p
    flight = min(m, p) if v == 1 else min((p * v + p - 1) / v, m)
    logits = item.micro_batch * item.sequence / item.context * item.padded_vocabulary / item.tensor * 6.0
    if p == 1:
        working += logits
    dense, routed = parameters_of_gpu(item)
    if item.sharded:
        working += 4 * (dense + routed) / max(layers, 1.0)
    return Memory(_state(item), kept * layers * flight, working)


def capacity_bytes(item: Case) -> float:
    """Memory of the GPU as its driver reports it (bytes)."""
    device = devices.load(item.machine.device)
    return float(max(device.memory.high, device.memory_bytes))


def settle(item: Case) -> Case:
    """Decide what is recomputed where the row does not say: whole blocks by Megatron on A100 (arXiv:2104.04473; use_checkpoint in
    github.com/VIA-Research/vTrain, config/validation); nothing today where that fits."""
    if item.recompute:
        return item
    if item.program == "megatron_2021":
        return settled(item, "full", "whole blocks recomputed, as published Megatron runs on A100 did and vTrain's own files say")
    if SLACK * memory(item, "none").total <= capacity_bytes(item) or item.program == "megatron":
        return settled(item, "none", "nothing of weight recomputed")
    return settled(item, "full", "whole blocks recomputed: it does not fit without")


def fits(item: Case, held: Memory) -> bool:
    """Whether the plan can run: by its recomputation, or by recomputing whole blocks where the row left that open."""
    least = held.total
    if any("recomputed" in words for words in item.assumed):
        least = min(least, memory(item, "full").total)
    return SLACK * least <= capacity_bytes(item)
