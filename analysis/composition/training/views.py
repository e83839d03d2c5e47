"""One training run as `train` shows it: its configuration as a row of `predict training`, the answer in words, as JSON and as a picture."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.composition.training import schedule
from analysis.composition.training.answers import COLUMNS, answered, fitted
from analysis.composition.training.cases import Case, case
from analysis.composition.training.memory import Memory, memory
from analysis.composition.training.step import BREAKDOWN, Plans, step
from analysis.composition.training.work import PART_NAMES, parts
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.training.plan import Training

TRACED_MICROBATCHES = 64
PEAKS = {"bf16": ("bf16", "fp16"), "fp8": ("fp8",), "mxfp8": ("fp8",), "nvfp4": ("fp4",)}
"""Data-sheet peak that a precision is counted against."""

OLDER = {"attention": "unfused", "dropout": True, "overlap_tensor": False, "overlap_data": False, "overlap_pipeline": False}
"""What tells a program of 2021 from today's (Narayanan et al., SC 2021)."""


@dataclass(frozen=True)
class Answer:
    """A run, what a GPU must hold, and its row: `COLUMNS` and every part of the step (s)."""

    case: Case
    memory: Memory
    row: dict[str, Any]

    @property
    def time_s(self) -> dict[str, float]:
        """Parts of the step (s); they sum to it."""
        return {name: float(self.row[f"{name}_s"]) for name in BREAKDOWN}

    @property
    def mfu(self) -> float:
        """Model arithmetic, the causal half of attention counted, over step x GPUs x data-sheet peak (1)."""
        device = devices.load(self.case.machine.device)
        peak = next(device.peak_flop_per_s(name) for name in (*PEAKS[self.case.precision], "fp16") if name in device.peak)
        flop = self.case.shape.flop_per_token(self.case.sequence) * self.case.global_batch * self.case.sequence
        return float(flop / (self.row["step_time_s"] * self.case.gpus * peak))


def row_of(training: Training) -> dict[str, str]:
    """The columns of `predict training` that a configuration fills; what it leaves out stays out, so that both assume the same.

    Raises:
        InputError: a setting that the predictor does not have.
    """
    plan, software = training.plan, training.software
    if training.efficiencies:
        raise InputError("fitted efficiencies are no longer part of this predictor: leave the key out", key="efficiencies")
    cells: dict[str, object] = {
        "system": training.system,
        "gpus": plan.gpus,
        "sequence_length": plan.sequence_length,
        "global_batch": plan.global_batch,
        "tensor_parallel": plan.tensor_parallel,
        "pipeline_parallel": plan.pipeline_parallel,
        "data_parallel": plan.data_parallel,
        "expert_parallel": plan.expert_parallel,
    }
    model = training.model
    if isinstance(model, str):
        cells["model"] = model
    else:
        cells |= {name: getattr(model, key) for name, key in WRITTEN.items()}
        cells |= {"experts": model.expert_count, "top_k": model.experts_per_token} if model.experts else {}
    names = {"micro_batch": "microbatch", "virtual_pipeline": "interleave", "recompute": "recompute", "zero": "zero"}
    cells |= {column: getattr(plan, key) for column, key in names.items() if key in plan.model_fields_set}
    if "dtype" in software.model_fields_set:
        cells["precision"] = software.dtype
    if all(getattr(software, key) == value for key, value in OLDER.items()):
        cells["program"] = "megatron_2021"
    return {name: str(value) for name, value in cells.items()}


WRITTEN = {
    "hidden_size": "hidden", "attention_heads": "heads", "layers": "layers", "vocabulary": "vocabulary", "ffn": "ffn_width",
    "gated": "gated", "kv_heads": "kv_heads", "head_size": "head_size", "tied": "tied",
}  # fmt: skip
"""Column of `predict training` -> key of a model that is written out."""


def unused(training: Training, item: Case) -> list[str]:
    """What a configuration says and the predictor does not use, each with what it takes in its place."""
    plan, software, found = training.plan, training.software, []
    without = "sequence_parallel" in plan.model_fields_set and not plan.sequence_parallel and plan.tensor_parallel > 1
    if without and item.defaults.sequence_parallel:
        found.append("sequence_parallel false is not used: without it activations take more memory than said here")
    other = [key for key in OLDER if key in software.model_fields_set and (getattr(software, key) == OLDER[key]) != item.written_out]
    other += sorted({"gradient_bytes", "fused_gradients", "scatter_gather"} & software.model_fields_set)
    if other:
        found.append(f"{', '.join(other)} not used: they are those of {item.program}")
    return found


def ask(training: Training) -> Answer:
    """The answer of `predict training` to a configuration.

    Raises:
        InputError: a run that cannot be, or that the predictor does not cover.
    """
    item = case(row_of(training))
    item = replace(item, assumed=(*item.assumed, *unused(training, item)))
    row = {str(name): value for name, value in answered([item]).iloc[0].items()}
    if row["status"]:
        raise InputError(row["status"], key="system")
    return Answer(item, memory(item), row)


def _title(item: Case) -> tuple[str, str]:
    plan = {"tensor": item.tensor, "pipeline": item.pipeline, "context": item.context, "data": item.data, "expert": item.expert}
    layout = ", ".join(f"{name} {ways}" for name, ways in plan.items() if ways > 1 or name in ("tensor", "pipeline", "data"))
    chunks = f" x {item.virtual} chunks" if item.virtual > 1 else ""
    batch = f"{item.microbatches:g} microbatches of {item.micro_batch:g} x {item.sequence} tokens"
    return (
        f"{item.name} on {item.gpus} x {item.machine.device}, {item.precision}, {item.program}",
        f"{layout}{chunks}; {batch}; ZeRO {item.zero}; recompute {item.recompute}",
    )


def text(answer: Answer) -> str:
    """The answer as lines for a terminal: run, step with its 90 % interval, parts of the time and of the memory, what is assumed."""
    row, item, total = answer.row, answer.case, float(answer.row["step_time_s"])
    lines = [
        *_title(item),
        f"step {total:.4g} s   90 %: {row['lower_s']:.4g} to {row['upper_s']:.4g} s   "
        f"{row['tokens_per_s_per_gpu']:.4g} tokens/s per GPU, MFU {answer.mfu:.1%}",
        "",
        f"{'time':<16}{'s':>12}{'share':>9}",
    ]
    lines += [f"{name:<16}{value:>12.4f}{value / total:>9.1%}" for name, value in answer.time_s.items()]
    held = memory_bytes(answer)
    lines += ["", f"{'memory':<16}{'GiB':>12}"]
    lines += [f"{name:<16}{value / 2**30:>12.3f}" for name, value in held.items()]
    ends = f"{row['memory_gib']:.1f} GiB, {row['memory_lower_gib']:.1f} to {row['memory_upper_gib']:.1f}"
    lines += ["", f"fits: {row['fits']} ({ends}, of {row['capacity_gib']:.1f} GiB)", "assumed:"]
    return "\n".join([*lines, *(f"  {words}" for words in row["assumed"].split("; "))])


def memory_bytes(answer: Answer) -> dict[str, float]:
    """Parts of the fullest GPU's memory (bytes); they sum to it."""
    held = {name: float(value) for name, value in vars(answer.memory).items()}
    return held | {"reserve": answer.memory.total - sum(held.values())}


def as_json(answer: Answer) -> str:
    """The answer as JSON: `COLUMNS` of `predict training`, the run, parts of the time (s) and of the memory (bytes)."""
    item = answer.case
    content = {name: answer.row[name] for name in COLUMNS} | {
        "assumed": answer.row["assumed"].split("; "),
        "model": item.name,
        "device": item.machine.device,
        "gpus": item.gpus,
        "precision": item.precision,
        "program": item.program,
        "plan": {
            name: getattr(item, name)
            for name in ("tensor", "pipeline", "data", "context", "expert", "virtual", "micro_batch", "recompute", "zero")
        },
        "mfu": answer.mfu,
        "time_s": answer.time_s,
        "memory_bytes": memory_bytes(answer),
    }
    return json.dumps(content, indent=1, default=float) + "\n"


def stage_s(item: Case) -> tuple[list[float], list[float]]:
    """Forward and backward pass of one microbatch on every pipeline stage (s); the last has the output layer.

    Forward takes the share of the GPU's time that forward kernels and collectives have; waits for the host are dealt out likewise.
    """
    work, plans, shares = parts([item]), Plans.of([item]), fitted().shares
    whole = {name: float(values[0]) for name, values in step(work, plans, shares).items()}
    backward = {name: np.zeros(1) for name in PART_NAMES if name.endswith("_back") or name == "context"}
    ahead = step(replace(work, **backward), replace(plans, full=np.zeros(1), selective=np.zeros(1)), shares)
    device = ("products", "attention", "memory_bound", "communication")
    share = float(sum(ahead[name][0] for name in device)) / sum(whole[name] for name in (*device, "recompute"))
    m = item.microbatches
    stage = sum(whole[name] for name in (*device, "recompute", "host")) / m
    stages = [stage] * (item.pipeline - 1) + [stage + whole["output_layer"] / m]
    return [share * each for each in stages], [(1 - share) * each for each in stages]


def tasks(item: Case) -> list[schedule.Task]:
    """The schedule of the run's pipeline, at most `TRACED_MICROBATCHES` microbatches."""
    p, m = item.pipeline, max(1, round(item.microbatches))
    return schedule.simulate(*stage_s(item), min(m, max(p, TRACED_MICROBATCHES // p * p)), item.virtual)


def pictured(answer: Answer) -> tuple[str, dict[str, float], tuple[float, float], dict[str, float], float, list[schedule.Task]]:
    """Title, parts of the time (s) and its interval, parts of the memory (bytes), the GPU's memory (bytes), and the schedule."""
    bounds = float(answer.row["lower_s"]), float(answer.row["upper_s"])
    title = "\n".join(_title(answer.case))
    return title, answer.time_s, bounds, memory_bytes(answer), answer.row["capacity_gib"] * 2**30, tasks(answer.case)
