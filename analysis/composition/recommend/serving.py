"""Every way to serve a model on some GPUs, each with its answer and cost: what a recommendation is chosen from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.composition.case_files import count, number
from analysis.composition.service import settings
from analysis.composition.service.answers import answer
from analysis.composition.service.cases import Case, Plan
from analysis.composition.service.constants import load
from analysis.composition.service.models import find
from analysis.composition.service.points import KV_BYTES, cache_tokens, memory_bytes, weight_bytes
from analysis.composition.service.waterfall import MEAN_LENGTH, output_tokens_per_s, question
from analysis.errors import InputError

ENGINES = ("vllm", "sglang", "trtllm")
GPUS = (1, 2, 4, 8)
CLIENTS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Requests in flight on a replica: as many as were measured."""
TARGETS = {"ttft_target_ms": "ttft", "tpot_target_ms": "tpot"}


def plans(gpus: int, mixture: bool) -> Iterator[Plan]:
    """Plans of one replica: tensor parallel; of a mixture also with whole experts spread, beside attention tensor or data parallel."""
    yield Plan(gpus, 1, gpus, 1)
    if mixture and gpus > 1:
        yield Plan(gpus, 1, 1, gpus)
        yield Plan(1, gpus, 1, gpus)


def _cases(row: dict[str, str], devices: tuple[str, ...]) -> Iterator[tuple[Case, str]]:
    """Every case that is tried, with the device's name as given; what does not fit into the memory is left out."""
    model = find(row.get("model", ""))
    lengths = count(row, "input_tokens") or 1024, count(row, "output_tokens") or 1024
    engines = tuple(row.get("engines", "").replace(",", " ").split()) or ENGINES
    most = count(row, "max_gpus") or max(GPUS)
    precision = row.get("precision", "").strip()
    for device in devices:
        for engine in engines:
            base, _ = question(model.names[0], device, 1, 1, *lengths, engine, precision)
            for gpus in GPUS:
                if gpus > most or model.attention.heads % gpus:
                    continue
                for plan in plans(gpus, model.experts is not None):
                    if weight_bytes(base, plan) > memory_bytes(base.device):
                        continue
                    for clients in CLIENTS:
                        if clients % plan.attention_data:
                            continue
                        case = replace(base, plan=plan, clients=clients // plan.attention_data)
                        chosen = settings.of(case)
                        room = cache_tokens(case, plan, chosen.memory_share, KV_BYTES[chosen.kv])
                        if room >= case.clients * MEAN_LENGTH * sum(lengths):
                            yield case, device


def candidates(row: dict[str, str], devices: tuple[str, ...], prices: dict[str, float], library: Any) -> pd.DataFrame:
    """Every plan of a question with its answer: a row each, in the columns of `choice.COLUMNS`.

    Args:
        row: model, input_tokens, output_tokens, engines, max_gpus, precision, requests_per_s, ttft_target_ms, tpot_target_ms, as text.
        prices: device -> price of a GPU hour; empty: costs are GPU hours.
    Raises:
        InputError: a question that cannot be asked.
    """
    bounds = {TARGETS[key]: value for key in TARGETS if (value := number(row, key)) is not None}
    if not bounds or 0 in bounds.values():
        raise InputError(f"a question about serving needs a target above 0: {' or '.join(TARGETS)}", key="tpot_target_ms")
    rate = number(row, "requests_per_s")
    found = list(_cases(row, devices))
    if not found:
        raise InputError("does not fit: no plan leaves room for one request beside the weights", key="model")
    cases = [case for case, _ in found]
    answers = answer(list(cases), load(), library).table
    rows = []
    for (case, device), said in zip(found, answers.to_dict("records"), strict=True):
        if said["status"]:
            continue
        gpus, clients = case.plan.gpus, case.clients * case.plan.attention_data
        price = prices.get(device, 1.0)
        hourly: dict[str, tuple[float, int]] = {}
        for end in ("", "_lower", "_upper"):
            flow = output_tokens_per_s(clients, case.output_tokens, float(said[f"ttft{end}_ms"]), float(said[f"tpot{end}_ms"]))
            replicas = math.ceil(rate * MEAN_LENGTH * case.output_tokens / flow) if rate else 1
            hourly[end] = (price * gpus * replicas if rate else price * gpus * 1e6 / flow / 3600, replicas)
        excess = [float(said[f"{target}_ms"]) / limit for target, limit in bounds.items()]
        sure = all(float(said[f"{target}_upper_ms"]) <= limit for target, limit in bounds.items())
        chosen = settings.of(case)
        rows.append(
            {
                "device": device, "gpus": gpus, "engine": case.engine, "tensor_parallel": case.plan.tensor,
                "attention_data_parallel": case.plan.attention_data, "expert_parallel": case.plan.expert, "clients": clients,
                "replicas": hourly[""][1],
                **{f"{target}{end}_ms": said[f"{target}{end}_ms"] for target in ("ttft", "tpot") for end in ("", "_lower", "_upper")},
                "cost": hourly[""][0], "cost_lower": hourly["_lower"][0], "cost_upper": hourly["_upper"][0],
                "cost_of": ("an hour" if rate else "a million output tokens") + ("" if prices else ", in GPU hours"),
                "excess": max(excess), "sure": sure,
                "assumed": f"{case.engine} started as in {chosen.script}; weights in {case.precision}; "
                "burst of all clients, then closed loop; "
                f"up to {max(GPUS)} GPUs a replica",
            }
        )  # fmt: skip
    if not rows:
        raise InputError(next(iter(sorted(set(answers["status"])))), key="devices")
    return pd.DataFrame(rows)
