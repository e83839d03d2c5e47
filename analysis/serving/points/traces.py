"""A step of a served model as Chakra traces, one a rank, so that ASTRA-sim (or `replay`) times its collectives on a network.

Blocks come one after another, each with its share of the kernels' time between its collectives, which are those that the step's own time
is made of; a pipeline's stages send a step's tokens on. Ranks: tensor parallel innermost, then attention data parallel, stages outermost.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.errors import InputError
from analysis.serving.points.cases import Case
from analysis.serving.points.closed_loop import RESULT
from analysis.serving.points.operators import BATCH, PARTS, TOKENS, calls
from analysis.serving.points.points import Points, configuration
from analysis.serving.points.step_table import on_grid, on_prompt
from analysis.training.traces import Moved
from analysis.workloads.chakra.node import Node, Rank

Trace = tuple[list[Node], dict[str, tuple[int, ...]]]


def steps(case: Case, raw: Points, index: int = 0) -> dict[str, Trace]:
    """The mean decode step (`decode`) and a step of one whole prompt (`prompt`): nodes of all ranks, and the ranks of each group."""
    if case.draft is not None or case.prefill is not None:
        raise InputError("traces of steps with drafts, and of workers for prompts alone, are not written", key="draft")
    table, row = raw.tables[raw.table_of[index]], dict(zip(RESULT, raw.result[index], strict=True))
    batch, prompt = max(1.0, min(row["batch"], float(BATCH[-1]))), float(min(case.input_tokens, TOKENS[-1]))
    apart = np.array([part != "communication" for part in PARTS])
    host_s = float(raw.engines[index]["host_s"])
    found = {"decode": (batch, float(on_grid(table, batch, row["cached"])[apart].sum()))}
    found["prompt"] = (prompt, float(on_prompt(table, prompt)[apart].sum()))
    return {name: _step(case, tokens, host_s, seconds) for name, (tokens, seconds) in found.items()}


def collectives(case: Case, tokens: float) -> list[tuple[Moved, float]]:
    """Collectives of a step of so many tokens of a rank, and how often the whole model has each; sizes grow with the tokens."""
    found = []
    for call in calls(configuration(case)):
        if call.part == "communication":
            said: dict[str, Any] = dict(call.options)
            size = float(call.arrays["bytes"][0]) * tokens / TOKENS[0]
            found.append((Moved(said["kind"], call.count, size, said["devices"], said.get("stride", 1)), call.count))
    return found


def _step(case: Case, tokens: float, host_s: float, seconds: float) -> Trace:
    """Nodes of one step of all ranks."""
    plan, blocks = case.plan, case.model.layers
    moved = [each for each in collectives(case, tokens) if each[0].kind != "send_recv"]
    message = next((each for each, _ in collectives(case, tokens) if each.kind == "send_recv"), None)
    groups: dict[tuple[int, ...], str] = {}
    nodes: list[Node] = []
    for number in range(plan.gpus):
        rank, stage = Rank(number, groups, plan.gpus), number // plan.stage_gpus
        for way, kind in ((-1, "RECV"), (1, "SEND")):
            if way > 0:
                _blocks(
                    rank, range(blocks * stage // plan.pipeline, blocks * (stage + 1) // plan.pipeline), moved, seconds / blocks, blocks
                )
            if message is not None and 0 <= stage + way < plan.pipeline:
                ends = sorted((number, number + way * plan.stage_gpus))
                more = {"source": ends[0], "destination": ends[1], "tag": ends[1], "comm_bytes": max(1, round(message.size))}
                rank.last = (rank.add(f"COMM_{kind}_NODE", kind.lower(), rank.last, **more),)
            elif way < 0:
                rank.compute("host", host_s)
        nodes += rank.nodes
    return nodes, {name: group for group, name in groups.items()}


def _blocks(rank: Rank, own: range, moved: list[tuple[Moved, float]], seconds: float, blocks: int) -> None:
    """A stage's blocks: what is computed in equal parts before each collective, and after the last."""
    for block in own:
        here = [each for each, count in moved for _ in range(round(count * (block + 1) / blocks) - round(count * block / blocks))]
        for place, each in enumerate(here):
            rank.compute(f"block_{block}_{place}", seconds / (len(here) + 1))
            rank.last = (each.join(rank, rank.last),)
        rank.compute(f"block_{block}_{len(here)}", seconds / (len(here) + 1))
