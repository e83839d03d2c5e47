"""A predicted training step as Chakra traces, one a rank, so that ASTRA-sim (or `replay`) times its collectives on a network.

Each pass of a microbatch through a chunk of a stage is, a block after another: gather, compute, scatter of tensor parallelism, tokens to
their experts and back; beside them gathers and scatters of sharded weights; sends between stages; then gradients, updated weights, the
optimizer. Passes come in the order of `task_order`. Compute nodes carry the predictor's time of kernels and host; what
the predictor hides of a collective behind them is for the network to hide. Ranks: tensor parallel innermost, then data, stages outermost;
experts lie on neighbours. Context parallelism is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.errors import InputError
from analysis.training.cases import Case, Cases
from analysis.training.schedule import task_order
from analysis.training.views import Answer, forward_share, stage_s
from analysis.training.work import exchanges, to_experts
from analysis.workloads.chakra.node import Node, Rank

MOST_NODES = 2_000_000


@dataclass(frozen=True)
class Moved:
    """A collective of one run: how often in a pass or step, bytes of the whole, members and their distance."""

    kind: str
    count: float
    size: float
    members: int
    stride: int

    def comm_bytes(self) -> int:
        """As ASTRA-sim takes it: of an all-gather what a rank gives, of the others what it holds."""
        return round(self.size / (self.members if self.kind == "all_gather" else 1))

    def group(self, rank: int) -> tuple[int, ...]:
        """Ranks that a rank exchanges with, itself among them."""
        first = rank - rank % (self.members * self.stride) + rank % self.stride
        return tuple(first + place * self.stride for place in range(self.members))

    def join(self, rank: Rank, waits: tuple[int, ...], share: float = 1.0) -> int:
        """The collective, or a part of one, as a node of a rank that waits for some nodes; its number."""
        return rank.collective(self.kind, max(1, round(share * self.comm_bytes())), self.group(rank.rank), waits)


def collectives(item: Case) -> dict[str, list[Moved]]:
    """Of each part of a step (`Parts`) the collectives that it is made of."""
    if item.context > 1:
        raise InputError("traces of context parallelism are not written", key="plan")
    found: dict[str, list[Moved]] = {}
    if item.expert > 1:
        size, copies = (float(np.ravel(column)[0]) for column in to_experts(Cases.of([item]), np.array([float(item.expert)])))
        each_way = item.shape.expert_layers / item.pipeline
        found["experts"] = [Moved("all_to_all", each_way, size * copies, item.expert, 1)]
    for each in exchanges(Cases.of([item])):
        size, members, stride = (float(np.ravel(column)[0]) for column in (each.size, each.members, each.stride))
        for part, often in each.parts.items():
            count = float(np.ravel(often)[0])
            if count > 0 and size > 0 and members > 1:
                found.setdefault(part, []).append(Moved(each.kind, count, size, round(members), max(1, round(stride))))
    return found


def step_nodes(answer: Answer) -> tuple[list[Node], dict[str, tuple[int, ...]]]:
    """Nodes of all ranks, one rank after the other, and the ranks of each group by number."""
    item, m = answer.case, round(answer.case.microbatches)
    if abs(m - item.microbatches) > 1e-9:
        raise InputError(f"{item.microbatches:g} microbatches are no whole number", key="plan.global_batch")
    moved = collectives(item)
    blocks = max(1, round(item.shape.blocks / item.pipeline / item.virtual))
    inside = sum(round(each.count / item.virtual) for part in ("tensor", "tensor_back") for each in moved.get(part, []))
    most = item.gpus * m * item.virtual * (inside + 8 * blocks + 8)
    if most > MOST_NODES:
        raise InputError(f"a trace of about {most:,} nodes: at most {MOST_NODES:,}; ask with fewer GPUs or microbatches", key="plan")
    time_s = dict(answer.time_s)
    time_s["communication"] = 0.0
    passes = dict(zip(("forward", "backward"), stage_s(time_s, item, float(forward_share([item])[0])), strict=True))
    groups: dict[tuple[int, ...], str] = {}
    found: list[Node] = []
    for number in range(item.gpus):
        rank = Rank(number, groups, item.gpus)
        stage = number // (item.gpus // item.pipeline)
        for phase, chunk, microbatch in task_order(stage, item.pipeline, m, item.virtual):
            _pass(rank, item, moved, (phase, stage, chunk, microbatch), passes[phase][stage] / item.virtual, blocks)
        for part in ("reduce", "ends", "collect"):
            for each in moved.get(part, []):
                share = each.count * (m if part == "ends" else 1)
                rank.last = (each.join(rank, rank.last, share),)
        rank.compute("optimizer", time_s["optimizer"])
        found += rank.nodes
    return found, {name: group for group, name in groups.items()}


def _pass(rank: Rank, item: Case, moved: dict[str, list[Moved]], task: tuple[str, int, int, int], seconds: float, blocks: int) -> None:
    """Nodes of one pass: received, block after block, sent."""
    phase, stage, chunk, microbatch = task
    p, width, forward = item.pipeline, item.gpus // item.pipeline, phase == "forward"
    depth, last = chunk * p + stage, p * item.virtual - 1
    way, name = (1 if forward else -1), f"{phase}_{microbatch}_{chunk}"
    message = next(iter(moved.get("send", [])), None)

    def neighbour(step: int) -> dict[str, int]:
        """A message to the next pass's rank, or from the one before: the tag is the deeper pass's."""
        other = (rank.rank + step * width) % item.gpus
        tag = ((depth + max(step, 0)) * 2 + forward) * round(item.microbatches) + microbatch
        ends = (rank.rank, other) if step == way else (other, rank.rank)
        return {"source": ends[0], "destination": ends[1], "tag": tag, "comm_bytes": round(message.size) if message else 0}

    if message is not None and 0 <= depth - way <= last:
        rank.last = (rank.add("COMM_RECV_NODE", f"receive_{name}", rank.last, **neighbour(-way)),)
    tensor, sharded = (moved.get(part if forward else f"{part}_back", []) for part in ("tensor", "gather"))
    parts = max([round(each.count / item.virtual / blocks) for each in tensor], default=1) or 1
    gathers, experts = tuple(rank.last), moved.get("experts", [])
    for block in range(blocks):
        ready: tuple[int, ...] = ()
        for each in sharded:
            if each.kind == "all_gather":
                gathers = ready = (each.join(rank, gathers, each.count / blocks / item.virtual),)
        for part in range(parts):
            routed = experts if part == parts - 1 else []
            for each in (*tensor[:1], *routed):
                rank.last = (each.join(rank, rank.last, _in_a_block(each, blocks * item.virtual)),)
            rank.compute(f"{name}_{block}", seconds / blocks / parts, *ready)
            for each in (*routed, *tensor[1:]):
                rank.last = (each.join(rank, rank.last, _in_a_block(each, blocks * item.virtual)),)
        for each in sharded:
            if each.kind == "reduce_scatter":
                each.join(rank, rank.last, each.count / blocks / item.virtual)
    if message is not None and 0 <= depth + way <= last:
        rank.add("COMM_SEND_NODE", f"send_{name}", rank.last, **neighbour(way))


def _in_a_block(moved: Moved, blocks: int) -> float:
    """Of a collective how much a block has: experts lie in some of them, and each has its mean."""
    return moved.count / blocks if moved.kind == "all_to_all" else 1.0
