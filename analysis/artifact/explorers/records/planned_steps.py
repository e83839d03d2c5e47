"""Training plans as `predict training` answers them; in the page, this file is replaced by what it returns here (see `bundle`)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import Any

MODELS = (
    ("llama-3-8b", "Llama 3 8B", 4096),
    ("llama-3-70b", "Llama 3 70B", 4096),
    ("gpt3-175b", "GPT-3 175B", 2048),
    ("llama-3-405b", "Llama 3 405B", 4096),
    ("mixtral-8x7b", "Mixtral 8x7B", 4096),
)
"""Name, title, and tokens of a sequence."""
SYSTEMS = ("Selene", "HGX-H100", "HGX-H200", "HGX-B200")
MEMORY = ("state", "activations", "working", "reserve")
PARTS = ("products", "attention", "memory_bound", "recompute", "output_layer", "host", "communication", "bubble", "reduce", "optimizer")
TOKENS = 4 * 2**20
"""Of a step."""
CHOICES = {
    "model": tuple(name for name, _, _ in MODELS),
    "system": SYSTEMS,
    "gpus": (8, 64, 512),
    "tensor": (1, 2, 4, 8),
    "pipeline": (1, 2, 4, 8, 16),
    "microbatch": (1, 2),
    "recompute": ("none", "full"),
    "zero": ("1", "3"),
}


def choices() -> dict[str, list[Any]]:
    """Values of every control, in the order of `steps`: the last turns fastest."""
    return {name: list(values) for name, values in CHOICES.items()}


def models() -> list[list[Any]]:
    """Name, title and tokens of a sequence of each model."""
    return [list(model) for model in MODELS]


def words() -> dict[str, list[str]]:
    """Parts of the memory and of the time, in the order of `steps`."""
    return {"memory": list(MEMORY), "parts": list(PARTS)}


@cache
def steps() -> list[str]:
    """By `choices`, numbers with spaces between: memory, its ends and parts (GiB); of a plan that fits also step and bounds, `PARTS` (s),
    and the forward pass's share (1). Nothing where a plan cannot be laid out.
    """
    import numpy as np
    import pandas as pd

    from analysis.training.answers import answered
    from analysis.training.cases import read
    from analysis.training.memory import GIB, fits, memory
    from analysis.training.views import forward_share, memory_parts

    found: list[str] = []
    rows: dict[int, dict[str, str]] = {}
    sequences = {name: sequence for name, _, sequence in MODELS}
    for chosen in product(*CHOICES.values()):
        model, system, recompute, zero = (str(chosen[place]) for place in (0, 1, 6, 7))
        gpus, tensor, pipeline, microbatch = (int(chosen[place]) for place in range(2, 6))
        row = {
            "model": model, "system": system, "gpus": gpus, "sequence_length": sequences[model], "global_batch": TOKENS // sequences[model],
            "tensor_parallel": tensor, "pipeline_parallel": pipeline, "virtual_pipeline": 1, "micro_batch": microbatch,
            "recompute": recompute, "zero": zero, "program": "megatron", "precision": "bf16",
        }  # fmt: skip
        if tensor * pipeline > gpus or (zero == "3" and pipeline > 1):
            found.append("")
            continue
        rows[len(found)] = {name: str(value) for name, value in row.items()}
        found.append("")
    cases, _, errors = read(pd.DataFrame(list(rows.values())))
    for error in errors.values():
        raise error
    held = memory(cases)
    of = memory_parts(held)
    sizes = np.stack([held.total, *held.ends, *(np.broadcast_to(of[name], len(cases)) for name in MEMORY)], axis=1) / GIB
    for index, row in zip(rows, sizes, strict=True):
        found[index] = _text(row)
    places = np.flatnonzero(fits(cases, held) != "no")
    fit = np.array(list(rows))[places]
    said, shares = answered(cases.take(places)), forward_share(cases.take(places))
    numbers = said[["step_time_s", "lower_s", "upper_s", *(f"{name}_s" for name in PARTS)]].to_numpy().tolist()
    for index, times, share in zip(fit, numbers, shares, strict=True):
        found[index] += f" {_text((*times, share))}"
    return found


def _text(numbers: Iterable[float]) -> str:
    return " ".join(f"{number:.4g}" for number in numbers)


@cache
def capacities() -> dict[str, float]:
    """Memory of a GPU of each system (GiB)."""
    from analysis.training.cases import case
    from analysis.training.memory import GIB, capacity_bytes

    row = {"model": MODELS[0][0], "gpus": "8", "sequence_length": "4096", "global_batch": "8"}
    return {system: round(capacity_bytes(case({**row, "system": system})) / GIB, 2) for system in SYSTEMS}
