"""What must one GPU hold in a training step, and does it fit?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analysis.composition.training.cases import Case
from analysis.composition.training.work import parameters_of_gpu
from analysis.hardware import devices

GIB = float(2**30)
RESERVE_BYTES = 1.5 * GIB
"""Driver, communication buffers, fragmentation."""
ERROR = (0.9, 1.1)
"""Lower and upper end of the memory that is measured over the estimate (1): programs offload, free early, fragment."""


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

    @property
    def ends(self) -> tuple[float, float]:
        """The estimate's lower and upper end (bytes)."""
        return ERROR[0] * self.total, ERROR[1] * self.total


def _state(item: Case) -> float:
    """Weights, gradients and optimizer states (fp32 copy and two moments: 12 bytes a weight), sharded or not."""
    dense, routed = parameters_of_gpu(item)
    weight, gradient, update = 2.0, 2.0 if item.written_out or item.zero >= 2 else 4.0, 12.0
    if not item.trained:
        gradient = update = 0.0
    bytes_of = 0.0
    for count, shards in ((dense, item.shards), (routed, item.expert_replicas)):
        for size, sharded in ((weight, item.zero == 3), (gradient, item.zero >= 2), (update, item.zero >= 1)):
            bytes_of += size * count / (shards if sharded else 1.0)
    return bytes_of


def _block_bytes(item: Case, recompute: str) -> tuple[float, float]:
    """Bytes that a block keeps for a microbatch, and what is needed while it is recomputed (Korthikanti et al. 2022, eq. 1 to 5)."""
    shape, t = item.shape, item.tensor
    tokens = item.micro_batch * item.sequence / item.context
    h = shape.hidden
    old = item.written_out
    # selective recomputation came with sequence parallelism (Korthikanti et al. 2022: "present work" has both)
    split = t if item.defaults.sequence_parallel or recompute == "selective" else 1
    low = 2.0 if item.precision == "bf16" else 1.4  # inputs of products kept in 8 bits
    blocks = max(1, shape.attention_layers if not shape.linear_layers else shape.blocks)
    attention = (shape.heads + shape.kv_heads) * shape.head_size * 2 * 2 * tokens / t * shape.attention_layers / blocks
    norms = tokens * h / split * (8 + (2 if old else 0)) * max(1.0, (shape.attention_layers + shape.linear_layers) / blocks)
    ffn = low * tokens * (3 if shape.gated else 2) * shape.dense_width / t * shape.dense_layers / blocks
    if shape.experts:
        routed = tokens / t * shape.experts.per_token
        kept = (
            routed * ((3 if shape.gated else 2) * shape.experts.width * low + 4 * (shape.experts.latent or h))
            + tokens / t * shape.experts.shared * 6
        )
        ffn += kept * shape.expert_layers / blocks
    if shape.linear:
        ffn += tokens / t * shape.linear.values * 12 * shape.linear_layers / blocks
    core = item.micro_batch * shape.heads / t * float(item.sequence) ** 2 * 5 if old else 0.0
    every = norms + attention + ffn + core
    boundary = 2 * tokens * h / split
    if recompute == "full":
        return boundary, every
    if recompute == "selective":
        return every - core, core
    return every, 0.0


def memory(item: Case) -> Memory:
    """The fullest GPU (the first stage, with the loss of the last added where the pipeline has one stage).

    total = state + activations in flight + working space + reserve (bytes).

    Source: Rajbhandari et al. 2020 (state), Korthikanti et al. 2022, section 4 (activations), Narayanan et al. 2021 (in flight).
    """
    kept, working = _block_bytes(item, item.recompute)
    shape, p, v, m = item.shape, item.pipeline, item.virtual, item.microbatches
    blocks = shape.attention_layers if not shape.linear_layers else shape.blocks
    layers = blocks / p
    flight = min(m, p) if v == 1 else min((p * v + p - 1) / v, m)
    logits = item.micro_batch * item.sequence / item.context * item.padded_vocabulary / item.tensor * 6.0
    if p == 1:
        working += logits
    dense, routed = parameters_of_gpu(item)
    if item.zero == 3:
        working += 4 * (dense + routed) / max(layers, 1.0)
    return Memory(_state(item), kept * layers * flight, working)


def capacity_bytes(item: Case) -> float:
    """Memory of the GPU as its driver reports it (bytes)."""
    device = devices.load(item.machine.device)
    return float(max(device.memory.high, device.memory_bytes))


def fits(item: Case, held: Memory) -> Literal["yes", "tight", "no", "unknown"]:
    """Whether the GPU holds the plan; tight where its capacity lies between the estimate's ends.

    A plan on TPUs that is above is unknown: 12 of MaxText's 13 published runs are, since its recipes offload activations to the host
    (github.com/AI-Hypercomputer/tpu-recipes).
    """
    lower, upper = held.ends
    capacity = capacity_bytes(item)
    if item.machine.tpu:
        return "yes" if upper <= capacity else "unknown"
    return "yes" if upper <= capacity else "tight" if lower <= capacity else "no"
