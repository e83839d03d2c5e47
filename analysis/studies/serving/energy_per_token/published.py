"""Rows of the ML.ENERGY Benchmark as serving cases: nothing of ours was fitted on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pandas as pd

from analysis.paths import DATA
from analysis.serving.points.cases import MEAN_LENGTH, Case, Plan, types
from analysis.tables import read_csv
from analysis.workloads import models

CHAT = DATA / "published" / "served_energy.csv"
PROBLEMS = DATA / "published" / "served_energy_problems.csv"
ORIGIN = "ml.energy"
DEVICES = {"H100": "h100_sxm", "B200": "b200_sxm"}
PROMPT_TOKENS = 256
"""Mean prompt of the chat task, assumed: the benchmark draws prompts from lmarena-ai/arena-human-preference-100k and states no mean."""
PROBLEM_TOKENS = 512
"""The same of the problem-solving task (GPQA), written down before its rows were read (data/evaluation/energy_split.yaml)."""
FEED_FORWARD_ALONE = ("meta-llama/Llama-3.1-405B-Instruct-FP8",)
"""FP8 checkpoints that leave attention in bf16 (Llama 3 paper, https://arxiv.org/abs/2407.21783, section 6.2)."""


def rows(path: Path = CHAT) -> pd.DataFrame:
    """Rows of a task, with the model's `family` and the mean time of a token in the steady state: tokens in flight over tokens a second."""
    frame = read_csv(path)
    return frame.assign(
        family=[models.load(name).family for name in frame["model"]],
        mean_gap_ms=1e3 * frame["batch"] / frame["output_tokens_per_s"],
    )


def case(row: Mapping[str, object], prompt_tokens: float = PROMPT_TOKENS, answers: Literal["even", "exponential"] = "exponential") -> Case:
    """A row as a case: tensor parallel over its GPUs, experts spread over as many as it says, as many clients as requests in flight.

    The source's histograms of answer lengths have a standard deviation of 1.05 (Llama 3.1 8B) and 1.08 (Qwen3-235B) of their mean, an
    exponential's 1 (https://github.com/ml-energy/leaderboard public/data/models).

    Args:
        prompt_tokens: mean length of a prompt; a case's lengths are labels, whose mean request is `MEAN_LENGTH` of them.
        answers: as of `Case`.
    """
    name, gpus, experts_over = str(row["model"]), int(str(row["gpus"])), int(str(row["expert_parallel"]))
    model = models.load(name)
    label, gemm, attention, routed = types(model, str(row["precision"]), "", "", name)
    return Case(
        model=model, device=DEVICES[str(row["gpu"])], engine="vllm", version="0.11.1", origin=ORIGIN, precision=label,
        gemm=gemm, attention="bf16" if name in FEED_FORWARD_ALONE else attention, experts=routed,
        input_tokens=round(prompt_tokens / MEAN_LENGTH), output_tokens=round(float(str(row["output_tokens"])) / MEAN_LENGTH),
        clients=round(float(str(row["batch"]))),
        plan=Plan(gpus, 1, gpus // experts_over if model.experts else gpus, experts_over if model.experts else 1),
        answers=answers,
    )  # fmt: skip


def as_benchmark(one: Case) -> Case:
    """The same case with the interval of the public benchmark's own rows, whose settings are known."""
    return replace(one, origin="benchmark", measured="")
