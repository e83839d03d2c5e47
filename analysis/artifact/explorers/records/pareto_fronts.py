"""What a faster answer costs, as `predict recommend` has it; in the page, this file is replaced by what it returns here (see `bundle`)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import read_csv

PATH = DATA / "frozen" / "ask_predictor" / "fronts.csv"
PLAN = ("gpus", "tensor_parallel", "pipeline_parallel", "attention_data_parallel", "expert_parallel", "clients", "precision")
RATES = tuple(f"tokens_per_s_per_{of}{end}" for of in ("user", "gpu") for end in ("", "_lower", "_upper"))
COLUMNS = (*PLAN, "ttft_ms", *RATES, "cost", "joules_per_token")


def precision(device: str) -> str:
    """Type of the weights that both explorers ask for: FP8 where the GPU has it."""
    from analysis.kernels import gpus

    return "fp8" if "fp8" in gpus.load(device).peak_flop_per_s else "bf16"


def asked(model: str, prompt: str, device: str) -> pd.DataFrame:
    """The front of a device for vLLM with answers of 1,024 tokens: plans that no other beats in tokens/s of a user and of a GPU."""
    from analysis.predict.recommend import choice, front

    target = {"tpot_target_ms": "1000000"}  # any speed: the front is what is asked for
    question = {"model": model, "devices": device, "precision": precision(device), "engines": "vllm", **target}
    question |= {"input_tokens": prompt, "output_tokens": "1024"}
    try:
        found = front.pareto(choice.candidates(question)).reindex(columns=["device", *COLUMNS])
    except InputError:  # no plan has room for a request
        found = pd.DataFrame(columns=["device", *COLUMNS])
    return found.assign(model=model, input_tokens=int(prompt)).round(dict.fromkeys(("cost", "joules_per_token", "ttft_ms", *RATES), 5))


@cache
def fronts() -> dict[str, list[list[Any]]]:
    """By model, prompt and device: the plans of the front, slowest user first, each with `COLUMNS` (an unknown power is 0)."""
    frame = read_csv(PATH).fillna({"joules_per_token": 0.0})
    keys = frame["model"] + " " + frame["input_tokens"].astype(str) + " " + frame["device"]
    plans = [[cell if isinstance(cell, str) else float(f"{cell:.4g}") for cell in row] for row in frame[list(COLUMNS)].to_numpy().tolist()]
    found: dict[str, list[list[Any]]] = {}
    for key, plan in zip(keys, plans, strict=True):
        found.setdefault(key, []).append(plan)
    return found
