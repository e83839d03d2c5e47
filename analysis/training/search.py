"""All parallel plans of a cluster: which fit, how fast each is, and why the others are out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import pandas as pd
from pydantic import Field, model_validator

from analysis import units
from analysis.configs import Strict
from analysis.errors import InputError
from analysis.hardware import systems
from analysis.sweeps import sweep
from analysis.training.kernel_time import efficiencies_of
from analysis.training.memory import RESERVE_BYTES, memory
from analysis.training.plan import Plan, Recompute, Software, check
from analysis.training.step import predict
from analysis.workloads import models


class Cluster(Strict):
    """What to search: `python -m analysis train search CLUSTER.yaml` reads this.

    Args:
        model, system: names; gpus: devices to use, all of them (count).
        global_batch: sequences; sequence_length: tokens of each.
        tensor_parallel, pipeline_parallel, expert_parallel, interleave, microbatch, zero, recompute, sequence_parallel: values to try;
            empty: every divisor (pipeline, expert), powers of two up to a node (tensor) or up to 16 (microbatch), and divisors of a
            stage's layers (interleave).
        memory: of a device; empty: the device's own, less what the runtime reserves.
    """

    model: str | models.Model
    system: str
    gpus: int = Field(ge=1)
    global_batch: int = Field(ge=1)
    sequence_length: int = Field(ge=1)
    tensor_parallel: tuple[int, ...] = ()
    pipeline_parallel: tuple[int, ...] = ()
    expert_parallel: tuple[int, ...] = ()
    interleave: tuple[int, ...] = ()
    microbatch: tuple[int, ...] = ()
    zero: tuple[int, ...] = (0, 1, 3)
    recompute: tuple[Recompute, ...] = ("none", "selective", "full")
    sequence_parallel: tuple[bool, ...] = (True, False)
    software: Software = Software()
    efficiencies: str = ""
    memory: str = ""

    @model_validator(mode="after")
    def _known(self) -> Cluster:
        shape = self.shape()
        if self.gpus > systems.load(self.system).device_count:
            raise ValueError(f"{self.gpus} GPUs, {self.system} has {systems.load(self.system).device_count}")
        if shape.learned_positions and self.sequence_length > shape.learned_positions:
            raise ValueError(f"sequence longer than {shape.learned_positions}")
        if self.memory:
            units.parse(self.memory, "bytes")
        return self

    def shape(self) -> models.Model:
        """The model's shape."""
        return models.alike(models.load(self.model) if isinstance(self.model, str) else self.model, "`train search`")

    def room_bytes(self) -> float:
        """Memory that a plan may use on a device (bytes)."""
        if self.memory:
            return units.parse(self.memory, "bytes")
        return systems.load(self.system).load_device().memory_bytes - RESERVE_BYTES


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(divisor for divisor in range(1, number + 1) if number % divisor == 0)


def plans(cluster: Cluster) -> Iterator[Plan]:
    """Every plan that uses all GPUs: tensor x pipeline x data = gpus, with every other choice of `cluster`.

    Choices that mean nothing are not repeated: sequence parallelism without tensor parallelism, ZeRO without replicas or (from 2 on)
    against a pipeline, selective recomputation with fused attention, which keeps no matrix to recompute.
    """
    model, node = cluster.shape(), systems.load(cluster.system).devices_per_node
    tensors = cluster.tensor_parallel or tuple(t for t in (1, 2, 4, 8, 16, 32) if t <= node)
    for t in tensors:
        if cluster.gpus % t:
            continue
        for p in cluster.pipeline_parallel or _divisors(model.layers):
            if cluster.gpus % (t * p):
                continue
            d = cluster.gpus // (t * p)
            experts = cluster.expert_parallel or (_divisors(model.expert_count) if model.expert_count > 1 else (1,))
            chunks = cluster.interleave or (_divisors(model.layers // p) if p > 1 and model.layers % p == 0 else (1,))
            micro = cluster.microbatch or (1, 2, 4, 8, 16)
            for ep, v, b, zero, recompute, sequence in product(
                experts, chunks, micro, cluster.zero, cluster.recompute, cluster.sequence_parallel
            ):
                if (
                    (sequence and t == 1 and len(cluster.sequence_parallel) > 1)
                    or (zero and d == 1)
                    or (zero > 1 and p > 1)
                    or (v > 1 and p == 1)
                ):
                    continue
                if recompute == "selective" and cluster.software.attention == "fused" and len(cluster.recompute) > 1:
                    continue
                if cluster.global_batch < d * b:
                    continue
                yield Plan(
                    tensor_parallel=t,
                    pipeline_parallel=p,
                    data_parallel=d,
                    expert_parallel=ep,
                    interleave=v,
                    microbatch=b,
                    global_batch=cluster.global_batch,
                    sequence_length=cluster.sequence_length,
                    sequence_parallel=sequence,
                    recompute=recompute,
                    zero=zero,
                )


PLAN_COLUMNS = [
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "interleave", "microbatch"),
    *("sequence_parallel", "recompute", "zero"),
]
RESULT_COLUMNS = ["step_time_s", "mfu", "tokens_per_s", "bubble_s", "exposed_communication_s", "recompute_s"]


PLANS_A_TASK = 200


def timed(cluster: Cluster, chosen: list[Plan]) -> list[dict[str, object]]:
    """Each plan as a row of `search`; nothing of one plan depends on another."""
    model, system, software = cluster.shape(), systems.load(cluster.system), cluster.software
    efficiencies, room = efficiencies_of(system.device, cluster.efficiencies), cluster.room_bytes()
    rows = []
    for plan in chosen:
        row: dict[str, object] = {column: getattr(plan, column) for column in PLAN_COLUMNS}
        reasons = check(model, plan, system)
        if reasons:
            rows.append(row | {"reason": f"divisibility: {reasons[0]}"})
            continue
        used = memory(model, plan, software).total
        row["memory_gib"] = used / 2**30
        if used > room:
            rows.append(row | {"reason": f"memory: {used / 2**30:.1f} GiB, {room / 2**30:.1f} GiB there"})
            continue
        result = predict(model, plan, software, system, efficiencies)
        time = result.time
        rows.append(
            row
            | {
                "step_time_s": time.total_s,
                "mfu": result.mfu,
                "tokens_per_s": result.tokens_per_s,
                "bubble_s": time.bubble,
                "exposed_communication_s": time.tensor + time.expert + time.pipeline + time.data,
                "recompute_s": time.recompute,
                "reason": "",
            }
        )
    return rows


def search(cluster: Cluster, scheduler: str = "", progress: Callable[[int, int, str], None] | None = None) -> pd.DataFrame:
    """Every plan with its step time, or the reason why it is out, fastest first.

    Args:
        scheduler: address of a dask scheduler over whose workers the plans are spread; empty: this process.
    Returns:
        `PLAN_COLUMNS`, `RESULT_COLUMNS` (s, 1, tokens/s; empty where infeasible), memory_gib (GiB) and reason: empty, `divisibility: ...`
        or `memory: ...`.
    """
    chosen = list(plans(cluster))
    if not chosen:
        raise InputError(f"no plan uses {cluster.gpus} GPUs with these choices", key="gpus")
    tasks = [chosen[start : start + PLANS_A_TASK] for start in range(0, len(chosen), PLANS_A_TASK)]
    if scheduler:
        parts = sweep(partial(timed, cluster), tasks, scheduler=scheduler)
    else:
        parts = []
        for task in tasks:
            parts.append(timed(cluster, task))
            if progress is not None:
                progress(min(len(parts) * PLANS_A_TASK, len(chosen)), len(chosen), "plans timed")
    frame = pd.DataFrame([row for part in parts for row in part], columns=[*PLAN_COLUMNS, *RESULT_COLUMNS, "memory_gib", "reason"])
    order = frame.assign(kind=frame["reason"].str.split(":").str[0])
    order = order.sort_values(["step_time_s", "kind", *PLAN_COLUMNS], na_position="last", kind="stable")
    return order.drop(columns="kind").reset_index(drop=True)


def best_plan(table: pd.DataFrame, cluster: Cluster) -> Plan:
    """The fastest feasible plan of a search.

    Raises:
        InputError: none is feasible.
    """
    feasible = table[table["reason"] == ""]
    if feasible.empty:
        raise InputError("no plan fits", key=str(Path(cluster.system)))
    row = feasible.iloc[0]
    choices = {column: row[column].item() if hasattr(row[column], "item") else row[column] for column in PLAN_COLUMNS}
    return Plan(global_batch=cluster.global_batch, sequence_length=cluster.sequence_length, **choices)
