"""How long does an offline batch of prompts take? Answers for a table of cases."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd

from analysis.configs import read_yaml
from analysis.paths import DATA
from analysis.serving.batch.cases import Case, read
from analysis.serving.batch.model import NAMES, Table, latency
from analysis.training.shares import ShareFile
from analysis.workloads import models

COLUMNS = ("latency_s", "lower_s", "upper_s", "throughput_tokens_per_s", "assumed", "status")


@cache
def fitted() -> ShareFile:
    """The committed shares and the interval's stretch."""
    return read_yaml(DATA / "models" / "batch_step.yaml", ShareFile)


MEASURED = ("A100-SXM4-40GB", "H100-SXM5-80GB", "MI250", "Max-1550", "Gaudi2", "SN40L")
"""Devices of LLM-Inference-Bench's rows; each was predicted with itself left out, and so are intervals of devices without rows."""
RELEASES = "engines as LLM-Inference-Bench timed them in 2024; today's: `predict serving`, arrival static"
ONE_SIBLING = 2.0
"""A platform with one device in the fit (AMD): its interval is this much wider than NVIDIA's, which has two; nothing calibrates it."""


def _bounds(model: ShareFile, platform: str) -> tuple[float, float]:
    """Ends of the interval as logarithms over the answer."""
    lower, upper = model.stretch["NVIDIA"]
    if platform == "NVIDIA":
        return lower, upper
    return (ONE_SIBLING * lower, ONE_SIBLING * upper) if platform == "AMD" else model.stretch["other"]


def answers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a case, with `COLUMNS`; a case that cannot be answered has its reason in `status`.

    Throughput counts input and output tokens of all sequences that are run, as the benchmark defines it.
    """
    cases, reasons = read(frame)
    out = pd.DataFrame({name: np.full(len(frame), np.nan) for name in COLUMNS[:4]}).assign(assumed="", status=reasons)
    rows = [index for index, item in enumerate(cases) if item is not None]
    found = [item for item in cases if item is not None]
    if not found:
        return out
    model = fitted()
    shares = np.array([model.shares[name].value for name in NAMES])
    seconds = latency(Table.of(found), shares)["total"]
    bounds = np.array([_bounds(model, item.hardware.platform) for item in found])
    out.loc[rows, "latency_s"] = seconds
    out.loc[rows, "lower_s"], out.loc[rows, "upper_s"] = seconds * np.exp(bounds[:, 0]), seconds * np.exp(bounds[:, 1])
    tokens = np.array([(item.input_tokens + item.output_tokens) * item.sequences for item in found])
    out.loc[rows, "throughput_tokens_per_s"] = tokens / seconds
    out.loc[rows, "assumed"] = [_assumed(item) for item in found]
    return out


def _assumed(item: Case) -> str:
    """What a row did not say: the types, the plan, and that an engine lets a request run beyond its model's context."""
    words = ["weights and KV cache in 16 bits"]
    if item.devices > 1:
        ways = "layers dealt out" if item.framework == "llama.cpp" else "tensor parallel"
        words.append(f"{item.devices} x {item.hardware.device.name} in one node, {ways}")
    else:
        words.append(f"one {item.hardware.device.name}")
    if item.hardware.device.name not in MEASURED:
        words.append(f"{item.hardware.device.name} is in no measured batch: answered as one left out")
    # Rotary positions go on beyond what a model was made for: the time is right where an engine lets it run, the text is not.
    if beyond := models.beyond(item.name, item.input_tokens + item.output_tokens):
        words.append(f"the engine lets it run: {beyond}")
    return "; ".join([*words, *models.text_alone(item.shape), RELEASES])
