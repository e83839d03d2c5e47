"""A predicted training step in words and as JSON."""

from __future__ import annotations

import json

import pandas as pd

from analysis.training.memory import RESERVE_BYTES
from analysis.training.plan import Training
from analysis.training.search import PLAN_COLUMNS
from analysis.training.step import StepPrediction, roofline_s

NO_INTERVAL = "one share of the peak for every product of a TPU (fitted on v6e); no interval was scored"


def text(training: Training, prediction: StepPrediction) -> str:
    """The prediction as lines for a terminal: step, throughput, parts of the time and of the memory."""
    plan = training.plan
    total = prediction.time.total_s
    bound = roofline_s(training.shape(), plan, training.software, training.machine())
    lines = [
        f"{training.shape().name} on {plan.gpus} x {training.machine().device} ({training.system}): "
        f"tensor {plan.tensor_parallel}, pipeline {plan.pipeline_parallel} x {plan.interleave}, data {plan.data_parallel}, "
        f"{plan.microbatches} microbatches of {plan.microbatch}",
        f"step {total:.4g} s, {prediction.tokens_per_s:.4g} tokens/s, {prediction.tflop_per_s_per_gpu:.4g} TFLOP/s a GPU, "
        f"MFU {prediction.mfu:.1%} (no plan beats {bound:.4g} s)",
        "",
        f"{'time':<14}{'s':>12}{'share':>9}",
    ]
    lines += [f"{name:<14}{value:>12.4f}{value / total:>9.1%}" for name, value in prediction.time.as_dict().items()]
    memory = prediction.memory.as_dict()
    lines += ["", f"{'memory':<14}{'GiB':>12}{'share':>9}"]
    lines += [f"{name:<14}{value / 2**30:>12.3f}{value / memory['total']:>9.1%}" for name, value in memory.items() if name != "stage"]
    room = room_bytes(training)
    verdict = "fits" if memory["total"] <= room else "DOES NOT FIT"
    lines += ["", f"{verdict}: {memory['total'] / 2**30:.1f} GiB of {room / 2**30:.1f} GiB that a {training.machine().device} leaves"]
    return "\n".join([*lines, f"assumed: {NO_INTERVAL}"])


def as_json(training: Training, prediction: StepPrediction) -> str:
    """The prediction and its configuration as JSON: times in s, memory in bytes."""
    content = {
        "step_time_s": prediction.time.total_s,
        "lower_s": None,
        "upper_s": None,
        "memory_gib": prediction.memory.total / 2**30,
        "fits": "yes" if prediction.memory.total <= room_bytes(training) else "no",
        "assumed": [NO_INTERVAL],
        "status": "",
        "config": training.model_dump(),
        "time_s": prediction.time.as_dict(),
        "memory_bytes": prediction.memory.as_dict(),
        "roofline_s": roofline_s(training.shape(), training.plan, training.software, training.machine()),
        "model_flop": prediction.model_flop,
        "mfu": prediction.mfu,
        "tflop_per_s_per_gpu": prediction.tflop_per_s_per_gpu,
        "tokens_per_s": prediction.tokens_per_s,
        "forward_s": prediction.forward_s,
        "backward_s": prediction.backward_s,
    }
    return json.dumps(content, indent=1) + "\n"


def room_bytes(training: Training) -> float:
    """Memory that a device of the run's machine leaves (bytes)."""
    return training.machine().load_device().memory_bytes - RESERVE_BYTES


def search_text(table: pd.DataFrame, rows: int = 10) -> str:
    """The fastest plans of a search, and how many were out for which reason."""
    feasible = table[table["reason"] == ""]
    kinds = table.loc[table["reason"] != "", "reason"].str.split(":").str[0].value_counts()
    counts = ", ".join(f"{count} out for {kind}" for kind, count in kinds.items())
    head = f"{len(table)} plans, {len(feasible)} feasible" + (f", {counts}" if counts else "")
    if feasible.empty:
        return head
    shown = feasible.head(rows)[[*PLAN_COLUMNS, "step_time_s", "mfu", "memory_gib"]]
    short = shown.rename(columns=lambda name: name.replace("_parallel", "").replace("microbatch", "micro"))
    return head + "\n" + short.to_string(index=False, float_format=lambda value: f"{value:.4g}")
