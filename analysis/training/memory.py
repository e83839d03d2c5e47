"""What must one GPU hold in a training step, and does it fit?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.hardware import devices
from analysis.training.cases import Case, Cases
from analysis.training.work import stages

Floats = NDArray[np.float64]

GIB = float(2**30)
RESERVE_BYTES = 0.7e9
"""Communication buffers, work spaces of products and what the allocator keeps besides (bytes)."""
AHEAD = 24
"""Passes over a block by which an eager program's host is ahead of the GPU at most: a stream queues 1,024 launches, a pass has about 43."""
HOST_S, RATE = 0.0015, 0.36
"""Host work of such a pass (s; host_eager_s as fitted on steps), and share of the peak that its kernels reach (1): assumed."""
ENDS = np.array([((0.8, 0.4, 0.0), (1.2, 2.5, 2.0)), ((0.9, 0.75, 0.0), (1.1, 1.25, 2.0)), ((0.9, 0.9, 0.0), (1.15, 1.2, 2.0))])
"""Lower and upper end over what is counted (1) of states, of all but what is held, whose blocks the allocator cuts and keeps, and of that:
0.88 of nanotron's peaks lie inside the last, 0.79 of PyTorch's inside the second, 10 of 14 of all others inside the first."""
SURE = dict.fromkeys(("fsdp", "fsdp_compiled", "megatron_2021", "megatron", "nemo", "maxtext", "llm_foundry"), 1) | {"nanotron": 2}
"""Row of `ENDS` of each program with measured peaks or documented counts; 0 for all others."""


@dataclass(frozen=True)
class Memory:
    """Bytes of the fullest GPU, of one run or of each of many."""

    state: Any
    activations: Any
    working: Any
    held: Any = 0.0
    """Of the working space, what collectives used and the GPU is not yet done with: none where the host waits, twice as much at most."""
    sure: Any = 1

    @property
    def total(self) -> Any:
        """Sum, with the reserve (bytes)."""
        return self.state + self.activations + self.working + RESERVE_BYTES

    @property
    def ends(self) -> tuple[Any, Any]:
        """The estimate's lower and upper end (bytes); states are surer than the rest, for the plan says them."""
        sizes = np.stack(np.broadcast_arrays(self.state, self.total - self.state - self.held, self.held), axis=-1)
        lower, upper = np.moveaxis((ENDS[self.sure] * sizes[..., None, :]).sum(axis=-1), -1, 0)
        return lower, upper


def _state(of: Cases, dense: Any, routed: Any) -> Any:
    """Weights, gradients and optimizer states (an fp32 copy unless the optimizer updates 16-bit weights, and moments), sharded or not."""
    program = of.defaults
    # from ZeRO 2 on what is reduced replaces what is accumulated; sharded weights are the fp32 copy itself
    gradient = np.where(of.zero >= 2, np.maximum(2.0, program.reduced_bytes), program.held_bytes)
    copy = np.where((of.zero == 3) | (of.weight_bytes == 2), 0.0, 2.0)
    # Megatron's core holds frozen weights in the products' 8 bits (github.com/mlcommons/training_results_v4.0, llama2_70b_lora: fp8_params)
    frozen = np.where(~(of.precision == "bf16") & (program.kernels == "fused"), 1.0, 2.0)
    weight = np.where(of.trained, copy, np.where(of.kind == "qlora", 0.55, frozen))
    gradient = np.where(of.trained, gradient, 0.0)
    update = np.where(of.trained, of.weight_bytes + of.moments_bytes + program.step_bytes, 0.0)
    bytes_of = 0.0
    for count, shards in ((dense, of.shards), (routed, of.expert_replicas)):
        for size, sharded in ((weight, of.zero == 3), (gradient, of.zero >= 2), (update, of.zero >= 1)):
            bytes_of = bytes_of + size * count / np.where(sharded, shards, 1.0)
    return bytes_of


def _block_bytes(of: Cases) -> tuple[Floats, Floats]:
    """Bytes that a block keeps for a microbatch, and what is needed besides while it is recomputed.

    Korthikanti et al. 2022, eq. 1 to 5, extended to gates, grouped queries and kernels that are not fused: each operator of an eager
    program keeps its input, so that a gate keeps eight bytes a width in place of six, and a norm in fp32 four more. A frozen product
    keeps no input; adapters, of attention, keep theirs.
    """
    shape, t, program = of.shape, of.tensor, of.defaults
    tokens = of.micro_batch * of.sequence / of.context
    h = shape.hidden
    old, eager, gated = of.written_out, program.kernels == "eager", shape.gated
    # selective recomputation came with sequence parallelism (Korthikanti et al. 2022: "present work" has both)
    selective = of.recompute == "selective"
    split = np.where(program.sequence_parallel | selective, t, 1)
    low = np.where(of.precision == "bf16", 2.0, 1.4)  # inputs of products kept in 8 bits
    blocks = np.maximum(1, np.where(shape.linear_layers > 0, shape.blocks, shape.attention_layers))
    attention = (shape.heads + shape.kv_heads) * shape.head_size * 4 * tokens / t * shape.attention_layers / blocks
    frozen = ~of.trained
    norm = 8 + np.where(old, 2, 0) - np.where(frozen, 2, 0) + np.where(program.fused_norms, 0, 8)
    norms = tokens * h / split * norm * np.maximum(1.0, (shape.attention_layers + shape.linear_layers) / blocks)
    widths = np.where(gated, 3.0 * low + np.where(eager, 2.0, 0.0), 2.0 * low) - low * frozen
    ffn = widths * tokens * shape.dense_width / t * shape.dense_layers / blocks
    e = shape.experts
    routed = tokens / t * e.per_token
    inner = np.where(e.latent > 0, e.latent, h)
    kept = routed * ((np.where(gated, 3, 2) - frozen) * e.width * low + (4 - 2 * frozen) * inner) + tokens / t * e.shared * 6
    ffn = ffn + np.where(e.there, kept * shape.expert_layers / blocks, 0.0)
    ffn = ffn + tokens / t * shape.linear.values * 12 * shape.linear_layers / blocks
    core = np.where(old, of.micro_batch * shape.heads / t * (of.sequence * 1.0) ** 2 * 5, 0.0)
    every = norms + attention + ffn + core
    boundary = 2 * tokens * h / split
    # every other product's output is kept too, or all but those of gate and up
    width = shape.dense_width * ~(program.selective == "gates")
    half = np.minimum(every, boundary + 2 * tokens / t * (3 * h + shape.kv_heads * shape.head_size + width) + np.where(e.there, ffn, 0.0))
    full, by_core = of.recompute == "full", selective & (program.selective == "core")
    kinds = [full, by_core, selective]
    return np.select(kinds, [boundary, every - core, half], every), np.select(kinds, [every, core, every], 0.0)


def memory(runs: Case | Sequence[Case], whose: Any = "fullest") -> Memory:
    """The fullest GPU over the stages of the pipeline: states, activations of the microbatches in flight, logits and gathered weights.

    total = state + activations in flight + working space + reserve (bytes), of the stage that needs most.

    Args:
        runs: one, or many: then each part is an array.
        whose: the fullest stage's, the first one's or the last one's: fullest, first or last, of all runs or of each (a column).

    Source: Rajbhandari et al. 2020 (state), Korthikanti et al. 2022, section 4 (activations), Narayanan et al. 2021 (in flight), PyTorch's
    torch/distributed/pipelining/stage.py, backward_maybe_with_nosync (sharded stages reduce no gradient before the last microbatch).
    """
    of = Cases.of(runs)
    kept, working = _block_bytes(of)
    shape, p, v, m = of.shape, of.pipeline, of.virtual, of.microbatches
    own = np.where(shape.linear_layers > 0, shape.blocks, shape.attention_layers)
    dealt, head_stage = stages(of)
    tokens = of.micro_batch * of.sequence / of.context
    ends = shape.hidden * of.padded_vocabulary / of.tensor
    # memory that a collective used is not used again before the GPU is done: a whole tensor for each pass that the host is ahead
    # (docs.pytorch.org, Tensor.record_stream)
    peak = of.device.each(lambda one: one.peak_flop_per_s("bf16" if "bf16" in one.peak else "fp16"))
    pass_s = 2 * shape.body_parameters / shape.blocks * tokens / of.tensor / (RATE * peak)
    lead = np.minimum(AHEAD, 3 * m * shape.blocks / p * np.clip(1 - HOST_S / pass_s, 0.0, 1.0))
    held = 2 * tokens * shape.hidden * lead * ((of.tensor > 1) & (of.defaults.kernels == "eager"))
    best = np.full(len(of), -np.inf)
    found: Any = np.zeros((3, len(of)))
    for stage in range(int(p.max(initial=0))):
        blocks = dealt.each(partial(_counted, stage))
        rows = blocks >= 0
        if not rows.any():
            continue
        part = blocks / shape.blocks
        flight = np.where(v == 1, np.minimum(m, p - stage), np.minimum((p * v + p - 1 - 2 * stage) / v, m))
        head = head_stage == stage
        dense = shape.body_parameters * part / of.tensor
        dense = dense + (ends + shape.hidden * shape.learned_positions / of.tensor) * (stage == 0)
        dense = dense + ends * (head & ~(shape.tied & (p == 1)))
        routed = shape.routed_parameters * part / of.expert
        loss = tokens * of.padded_vocabulary / of.tensor * of.defaults.logit_bytes * head
        # of ZeRO 3 two blocks of weights and the output layer with its gradient; of a pipeline all weights and summed gradients
        whole = np.where(p == 1, 4 / np.maximum(blocks, 1.0), 2.0 + of.defaults.reduced_bytes * of.trained)
        gathered = 2 * tokens * shape.hidden * (of.tensor > 1)
        gathered = gathered + np.where(of.zero == 3, whole * (dense + routed) + 4 * ends * head, 0.0)
        sizes = _state(of, dense, routed), kept * own * part * flight, np.where(blocks > 0, working, 0.0) + loss + gathered + held
        total = sizes[0] + sizes[1] + sizes[2] + RESERVE_BYTES
        more = rows & np.where(whose == "first", stage == 0, (total > best) | (whose == "last"))
        best = np.where(more, total, best)
        found = np.where(more, np.stack(np.broadcast_arrays(*sizes)), found)
    sure = of.program.each(lambda name: float(SURE.get(name, 0))).astype(int)
    state, activations, spare, held, sure = (part[0] if isinstance(runs, Case) else part for part in (*found, held, sure))
    return Memory(state, activations, spare, held, sure)


def _counted(stage: int, dealt: tuple[float, ...]) -> float:
    """Blocks of a stage; -1 where it cannot be the fullest: it has fewer microbatches in flight than the one before, and as many blocks."""
    last = len(dealt) - 1
    return -1.0 if stage > last or (1 < stage < last and dealt[stage] == dealt[stage - 1]) else dealt[stage]


def capacity_bytes(runs: Case | Sequence[Case]) -> Any:
    """Memory of the GPU as its driver reports it (bytes), of one run or of each of many."""
    of = Cases.of(runs)
    held = of.machine.each(lambda machine: _capacity_bytes(machine.device, machine.memory_gb))
    return float(held[0]) if isinstance(runs, Case) else held


def _capacity_bytes(name: str, memory_gb: float) -> float:
    device = devices.load(name)
    held = float(max(device.memory.high, device.memory_bytes))
    if memory_gb:  # vendors' GB, of which the driver shows as much as of the data sheet's
        held *= memory_gb / round(device.memory_bytes / 1e9 if device.memory_bytes % 1e9 == 0 else device.memory_bytes / GIB)
    return held


def fits(runs: Case | Sequence[Case], held: Memory) -> Any:
    """Whether the GPU holds the plan of a run, or of each of many: yes, no, or tight where its capacity lies between the estimate's ends.

    A plan on TPUs that is above is unknown: 12 of MaxText's 13 published runs are, since its recipes offload activations to the host
    (github.com/AI-Hypercomputer/tpu-recipes).
    """
    of, (lower, upper), capacity = Cases.of(runs), held.ends, capacity_bytes(runs)
    found = np.select([upper <= capacity, of.machine.tpu, lower <= capacity], ["yes", "unknown", "tight"], "no")
    return str(found[0]) if isinstance(runs, Case) else found
