"""All parallel plans of a model on some GPUs, each a row of `predict training`: which fit, and how long a step of each takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd

from analysis.configs import Asked
from analysis.errors import InputError
from analysis.sweeps import sweep
from analysis.training.answers import COLUMNS, answered, mfu
from analysis.training.cases import case, read, whole_stages
from analysis.training.memory import GIB, capacity_bytes, fits, memory

PLAN = (
    *("gpus", "data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "virtual_pipeline"),
    *("micro_batch", "zero", "recompute", "program"),
)
"""Columns of `predict training` that a search fills."""
LONG = 16384
"""Sequences from here on are also tried cut over GPUs (context parallel)."""
PLANS_A_TASK = 200


class Choices(Asked):
    """Values to try, in the names of `predict training` (counts); empty: as `plans` says."""

    tensor_parallel: tuple[int, ...] = ()
    pipeline_parallel: tuple[int, ...] = ()
    context_parallel: tuple[int, ...] = ()
    expert_parallel: tuple[int, ...] = ()
    virtual_pipeline: tuple[int, ...] = ()
    micro_batch: tuple[int, ...] = ()
    zero: tuple[int, ...] = ()
    recompute: tuple[Literal["none", "selective", "full"], ...] = ()


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(divisor for divisor in range(1, number + 1) if number % divisor == 0)


def plans(row: dict[str, str], gpus: int, choices: Choices = Choices()) -> Iterator[dict[str, str]]:
    """Every plan that uses all GPUs and divides model and batch: data x tensor x pipeline x context = GPUs.

    Where nothing is chosen: tensor parallel up to a node, every divisor of the layers as stages and as chunks of a stage, context parallel
    for sequences of 16,384 tokens and more, microbatches to 16, whole blocks recomputed or nothing (or attention, where it is written
    out), what the program shards, and weights too where there is no pipeline. All are of one program.
    """
    base = case({**row, "gpus": "1", "micro_batch": "1", "zero": "", "recompute": "none"})
    shape, batch, sequence, old = base.shape, int(base.global_batch), base.sequence, base.written_out
    tensors = choices.tensor_parallel or tuple(t for t in (1, 2, 4, 8, 16, 32) if t <= base.machine.domain)
    contexts = choices.context_parallel or ((1,) if sequence < LONG or old else (1, 2, 4, 8))
    if base.program == "maxtext" and batch < gpus and not choices.context_parallel:
        contexts = (gpus // batch,)  # as `predict training` takes it
    again = choices.recompute or (("none", "selective", "full") if old else ("none", "full"))
    for t, p, c in product(tensors, choices.pipeline_parallel or _divisors(shape.blocks), contexts):
        if gpus % (t * p * c) or sequence % (2 * c if c > 1 else 1) or shape.heads % t or (shape.kv_heads % t and t % shape.kv_heads):
            continue
        data = gpus // (t * p * c)
        experts = [e for e in _divisors(shape.experts.count if shape.experts else 1) if e in (choices.expert_parallel or (e,))]
        chunks = choices.virtual_pipeline or _divisors(shape.blocks // p)
        sharded = choices.zero or ((base.zero, 3) if p == 1 and base.zero < 3 and not old else (base.zero,))
        for e, v, micro, zero, recompute in product(experts, chunks, choices.micro_batch or (1, 2, 4, 8, 16), sharded, again):
            if batch % (data * micro) or gpus // p % e or p * v > shape.blocks or not whole_stages(shape, p * v):
                continue
            if zero > 1 and p > 1 and not (choices.zero and choices.pipeline_parallel):
                continue
            if v > 1 and (p == 1 or batch // (data * micro) % p):
                continue
            yield {**row, **dict(zip(PLAN, map(str, (gpus, data, t, p, c, e, v, micro, zero, recompute, base.program)), strict=True))}


def timed(rows: Sequence[dict[str, str]], capacity: float = 0.0) -> pd.DataFrame:
    """Each plan as `predict training` answers it; one whose estimate of memory is above what there is has a `reason` and no time.

    Args:
        rows: from `plans`; capacity: of a GPU (bytes); 0: the device's own.
    """
    out = pd.DataFrame(rows)
    cases, _, errors = read(out)
    for error in errors.values():
        raise error
    out = out.astype(dict.fromkeys(PLAN[:-2], int))
    held = memory(cases)
    most = np.full(len(cases), capacity) if capacity else capacity_bytes(cases)
    fit = held.total <= capacity if capacity else fits(cases, held) != "no"
    out["memory_gib"] = held.total / GIB
    out["reason"] = [
        "" if good else f"memory: {total / GIB:.1f} GiB, {limit / GIB:.1f} GiB there"
        for good, total, limit in zip(fit, held.total, most, strict=True)
    ]
    chosen = cases.take(np.flatnonzero(fit))
    said = answered(chosen).set_axis(out.index[fit]) if len(chosen) else pd.DataFrame(columns=[*COLUMNS])
    said["mfu"] = mfu(chosen, said["step_time_s"].to_numpy(dtype=float))
    out["memory_gib"] = said.pop("memory_gib").astype(float).reindex(out.index).fillna(out["memory_gib"])  # as the program's log has it
    return out.join(said)


def search(
    row: dict[str, str],
    gpus: int,
    choices: Choices = Choices(),
    capacity: float = 0.0,
    scheduler: str = "",
    progress: Callable[[int, int, str], None] = lambda done, total, stage: None,
) -> pd.DataFrame:
    """Every plan with its answer, fastest first: those that surely fit, then the tight ones, then what is out, with its reason."""
    chosen = list(plans(row, gpus, choices))
    if not chosen:
        message = "divides the model and its batch; gradients and weights are sharded where there is no pipeline, unless both are asked for"
        raise InputError(f"no plan of {gpus} GPUs {message}", key="gpus")
    tasks = [chosen[start : start + PLANS_A_TASK] for start in range(0, len(chosen), PLANS_A_TASK)]
    parts = sweep(
        partial(timed, capacity=capacity), tasks, scheduler, workers=0,
        progress=lambda done: progress(done * PLANS_A_TASK, len(chosen), "plans timed"),
    )  # fmt: skip
    found = pd.concat(parts, ignore_index=True)
    tight = (found["fits"] == "tight") & (capacity == 0)
    found["place"] = np.select([found["reason"] != "", tight], [2, 1], 0)
    return found.sort_values(["place", "step_time_s", *PLAN], kind="stable").drop(columns="place").reset_index(drop=True)
