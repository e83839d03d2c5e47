"""One training run as `train` shows it: its configuration as a row of `predict training`, the answer in words, as JSON and as a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.errors import InputError
from analysis.site import Site
from analysis.training.answers import COLUMNS, answered, fitted, mfu
from analysis.training.cases import COLUMNS as CASE_COLUMNS
from analysis.training.cases import Case, case
from analysis.training.memory import Memory, memory
from analysis.training.search import PLAN
from analysis.training.step import BREAKDOWN, Plans, step
from analysis.training.work import PART_NAMES, parts


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


def ask(row: Mapping[str, str], site: Site | None = None) -> Answer:
    """The answer of `predict training` to a row of its columns, at a site if one is given."""
    return answer_of(case(row), site)


def answer_of(item: Case, site: Site | None = None) -> Answer:
    """The answer to a run that was read from a row."""
    row = {str(name): value for name, value in answered([item], site).iloc[0].items()}
    if row["status"]:
        raise InputError(row["status"], key="system")
    return Answer(item, memory(item, item.defaults.log), row)


def _title(item: Case) -> tuple[str, str]:
    plan = {"tensor": item.tensor, "pipeline": item.pipeline, "context": item.context, "data": item.data, "expert": item.expert}
    chunks = {"pipeline": f" x {item.virtual} chunks"} if item.virtual > 1 else {}
    shown = [name for name, ways in plan.items() if ways > 1 or name in ("tensor", "pipeline", "data")]
    layout = ", ".join(f"{name} {plan[name]}{chunks.get(name, '')}" for name in shown)
    batch = f"{item.microbatches:g} microbatches of {item.micro_batch:g} x {item.sequence} tokens"
    return (
        f"{item.name} on {item.gpus} x {item.machine.device}, {item.precision}, {item.program}",
        f"{layout}; {batch}; ZeRO {item.zero}; recompute {item.recompute}",
    )


def text(answer: Answer) -> str:
    """The answer as lines for a terminal: run, step with its 90 % interval, parts of the time and of the memory, what is assumed."""
    row, item, total = answer.row, answer.case, float(answer.row["step_time_s"])
    lines = [
        *_title(item),
        f"step {total:.4g} s   90 %: {row['lower_s']:.4g} to {row['upper_s']:.4g} s   "
        f"{row['tokens_per_s_per_gpu']:.4g} tokens/s per GPU, MFU {mfu(item, total):.1%}",
        "",
        f"{'time':<16}{'s':>12}{'share':>9}",
    ]
    lines += [f"{name:<16}{value:>12.4f}{value / total:>9.1%}" for name, value in answer.time_s.items()]
    held = memory_parts(answer.memory)
    lines += ["", f"{'memory':<16}{'GiB':>12}"]
    lines += [f"{name:<16}{value / 2**30:>12.3f}" for name, value in held.items()]
    ends = f"{row['memory_gib']:.1f} GiB, {row['memory_lower_gib']:.1f} to {row['memory_upper_gib']:.1f}"
    lines += ["", f"fits: {row['fits']} ({ends}, of {row['capacity_gib']:.1f} GiB)", "assumed:"]
    return "\n".join([*lines, *(f"  {words}" for words in row["assumed"].split("; "))])


def memory_parts(held: Memory) -> dict[str, Any]:
    """Parts of the fullest GPU's memory (bytes), of one run or of each of many; they sum to it."""
    parts = {name: getattr(held, name) for name in ("state", "activations", "working")}
    return parts | {"reserve": held.total - sum(parts.values())}


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
        "mfu": mfu(item, answer.row["step_time_s"]),
        "time_s": answer.time_s,
        "memory_bytes": memory_parts(answer.memory),
    }
    return json.dumps(content, indent=1, default=float) + "\n"


DEVICE = ("products", "attention", "memory_bound", "communication")


def forward_share(cases: Sequence[Case]) -> NDArray[np.float64]:
    """Share of forward kernels and collectives in the GPU's time of a microbatch (1)."""
    work, plans, shares = parts(cases), Plans.of(cases), fitted().shares
    none = np.zeros(len(cases))
    ahead = replace(work, **{name: none for name in PART_NAMES if name.endswith("_back") or name == "context"})
    forward, whole = step(ahead, plans, shares), step(work, plans, shares)
    return np.asarray(sum(forward[name] for name in DEVICE) / sum(whole[name] for name in (*DEVICE, "recompute")))


def stage_s(time_s: Mapping[str, float], item: Case, share: float) -> tuple[list[float], list[float]]:
    """Forward and backward pass of one microbatch on every pipeline stage (s); the last has the output layer.

    Args:
        time_s: parts of the step (s); share: `forward_share`; waits for the host are dealt out likewise.
    """
    stage = sum(time_s[name] for name in (*DEVICE, "recompute", "host")) / item.microbatches
    stages = [stage] * (item.pipeline - 1) + [stage + time_s["output_layer"] / item.microbatches]
    return [share * each for each in stages], [(1 - share) * each for each in stages]


def search_text(table: pd.DataFrame, rows: int = 10) -> str:
    """What was searched, the fastest plans of a search, and how many were out for memory."""
    first = case({str(name): str(value) for name, value in table.iloc[0].items() if name in CASE_COLUMNS})
    fit = table[table["reason"] == ""]
    head = f"{_title(first)[0]}\n{len(table)} plans, {len(fit)} feasible, {len(table) - len(fit)} out for memory"
    shown = fit.head(rows)[[*PLAN[1:-1], "step_time_s", "lower_s", "upper_s", "mfu", "memory_gib", "fits"]]
    short = shown.rename(columns=lambda name: name.replace("_parallel", "").replace("_pipeline", "").replace("micro_batch", "micro"))
    return head if fit.empty else head + "\n" + short.to_string(index=False, float_format=lambda value: f"{value:.4g}")
