"""What must one GPU hold in a training step, and does it fit?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from analysis.hardware import devices
from analysis.training.cases import Case
from analysis.training.work import stages

GIB = float(2**30)
RESERVE_BYTES = 0.7e9
"""Communication buffers, work spaces of products and what the allocator keeps besides (bytes)."""
MEASURED, COUNTED, ELSE = (0.865, 1.165), (0.8, 1.25), (0.55, 1.8)
"""Lower and upper end of a measured peak over the estimate (1): of programs whose peaks are measured (the central four fifths of the
panel's), of programs whose counts are documented, and of the rest (Primus's and ColossalAI's printed peaks are 0.5 to 4 of it)."""
ENDS = {
    **dict.fromkeys(("nanotron", "fsdp", "fsdp_compiled"), MEASURED),
    **dict.fromkeys(("megatron_2021", "megatron", "nemo", "maxtext", "llm_foundry", "internevo"), COUNTED),
}


@dataclass(frozen=True)
class Memory:
    """Bytes of the fullest GPU."""

    state: float
    activations: float
    working: float
    error: tuple[float, float] = COUNTED

    @property
    def total(self) -> float:
        """Sum, with the reserve (bytes)."""
        return self.state + self.activations + self.working + RESERVE_BYTES

    @property
    def ends(self) -> tuple[float, float]:
        """The estimate's lower and upper end (bytes)."""
        return self.error[0] * self.total, self.error[1] * self.total


def _state(item: Case, dense: float, routed: float) -> float:
    """Weights, gradients and optimizer states (an fp32 copy, and two moments of Adam), sharded or not.

    Args:
        dense, routed: weights of the stage, all but routed experts and these (count).
    """
    program = item.defaults
    weight, gradient, update = 2.0, program.held_bytes, 4.0 + item.moments_bytes + program.step_bytes
    if item.zero >= 2:  # what is reduced replaces what is accumulated; sharded weights are the fp32 copy itself
        gradient, weight = max(2.0, program.reduced_bytes), 0.0 if item.zero == 3 else 2.0
    if not item.trained:
        weight, gradient, update = 0.55 if item.kind == "qlora" else 2.0, 0.0, 0.0
    bytes_of = 0.0
    for count, shards in ((dense, item.shards), (routed, item.expert_replicas)):
        for size, sharded in ((weight, item.zero == 3), (gradient, item.zero >= 2), (update, item.zero >= 1)):
            bytes_of += size * count / (shards if sharded else 1.0)
    return bytes_of


def _block_bytes(item: Case) -> tuple[float, float]:
    """Bytes that a block keeps for a microbatch, and what is needed besides while it is recomputed.

    Korthikanti et al. 2022, eq. 1 to 5, extended to gates, grouped queries and kernels that are not fused: each operator of an eager
    program keeps its input, so that a gate keeps eight bytes a width in place of six, and a norm in fp32 four more.
    """
    shape, t, program = item.shape, item.tensor, item.defaults
    tokens = item.micro_batch * item.sequence / item.context
    h = shape.hidden
    old, eager = item.written_out, program.kernels == "eager"
    # selective recomputation came with sequence parallelism (Korthikanti et al. 2022: "present work" has both)
    split = t if program.sequence_parallel or item.recompute == "selective" else 1
    low = 2.0 if item.precision == "bf16" else 1.4  # inputs of products kept in 8 bits
    blocks = max(1, shape.attention_layers if not shape.linear_layers else shape.blocks)
    attention = (
        (shape.heads + shape.kv_heads) * shape.head_size * (2 * 2 + 2 * program.split_copies) * tokens / t * shape.attention_layers / blocks
    )
    norm = 8 + (2 if old else 0) + (0 if program.fused_norms else 8)
    norms = tokens * h / split * norm * max(1.0, (shape.attention_layers + shape.linear_layers) / blocks)
    widths = 3.0 * low + (2.0 if eager else 0.0) + 2.0 * program.split_copies if shape.gated else 2.0 * low
    ffn = widths * tokens * shape.dense_width / t * shape.dense_layers / blocks
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
    if item.recompute == "full":
        return boundary, every
    if item.recompute == "selective" and program.selective == "core":
        return every - core, core
    if item.recompute == "selective":  # input, attention's output, and every other product's
        half = 2 * tokens / t * (3 * h + shape.kv_heads * shape.head_size + shape.dense_width)
        return min(every, boundary + half + (ffn if shape.experts else 0.0)), every
    return every, 0.0


def memory(item: Case, of: Literal["fullest", "last"] = "fullest") -> Memory:
    """The fullest GPU over the stages of the pipeline: states, activations of the microbatches in flight, logits and gathered weights.

    Args:
        of: the fullest stage, or the last.

    total = state + activations in flight + working space + reserve (bytes), of the stage that needs most.

    Source: Rajbhandari et al. 2020 (state), Korthikanti et al. 2022, section 4 (activations), Narayanan et al. 2021 (in flight), PyTorch's
    torch/distributed/pipelining/stage.py, backward_maybe_with_nosync (sharded stages reduce no gradient before the last microbatch).
    """
    kept, working = _block_bytes(item)
    shape, p, v, m = item.shape, item.pipeline, item.virtual, item.microbatches
    own = shape.attention_layers if not shape.linear_layers else shape.blocks
    dealt, head_stage = stages(item)
    most: Memory | None = None
    tokens = item.micro_batch * item.sequence / item.context
    ends = shape.hidden * item.padded_vocabulary / item.tensor
    for stage, blocks in enumerate(dealt):
        if 0 < stage < p - 1 and blocks == dealt[stage - 1] and stage > 1:
            continue  # fewer microbatches in flight than the stage before
        part = blocks / shape.blocks
        flight = min(m, p - stage) if v == 1 else min((p * v + p - 1 - 2 * stage) / v, m)
        head = stage == head_stage
        dense = shape.body_parameters * part / item.tensor
        dense += (ends + shape.hidden * shape.learned_positions / item.tensor) * (stage == 0)
        dense += ends * (head and not (shape.tied and p == 1))
        routed = shape.matrices["experts"] * part / item.expert
        loss = tokens * item.padded_vocabulary / item.tensor * item.defaults.logit_bytes * head
        gathered = 2 * tokens * shape.hidden * (item.tensor > 1)
        if item.zero == 3:  # two blocks of weights and the output layer with its gradient; of a pipeline all weights and summed gradients
            whole = 2.0 + item.defaults.reduced_bytes * item.trained
            gathered += (4 / max(blocks, 1.0) if p == 1 else whole) * (dense + routed) + 4 * ends * head
        held = kept * own * part * flight
        found = Memory(_state(item, dense, routed), held, (working if blocks else 0.0) + loss + gathered, ENDS.get(item.program, ELSE))
        if most is None or of == "last" or found.total > most.total:
            most = found
    assert most is not None
    return most


def capacity_bytes(item: Case) -> float:
    """Memory of the GPU as its driver reports it (bytes)."""
    device = devices.load(item.machine.device)
    held = float(max(device.memory.high, device.memory_bytes))
    if item.machine.memory_gb:  # vendors' GB, of which the driver shows as much as of the data sheet's
        held *= item.machine.memory_gb / round(device.memory_bytes / 1e9 if device.memory_bytes % 1e9 == 0 else device.memory_bytes / GIB)
    return held


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
