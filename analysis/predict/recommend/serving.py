"""Every way to serve a model on some GPUs, each with its answer and cost: what a recommendation is chosen from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.case_files import count, number
from analysis.errors import InputError
from analysis.kernels import gpus
from analysis.serving.points import settings
from analysis.serving.points.answers import ENDS, answer
from analysis.serving.points.cases import Case, Plan, check_engine, in_words
from analysis.serving.points.constants import load
from analysis.serving.points.points import KV_BYTES, cache_tokens, without_room
from analysis.serving.points.waterfall import question

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


def most_gpus(row: dict[str, str]) -> int:
    """Most GPUs of a replica: as asked, at most a node's."""
    return min(count(row, "max_gpus") or max(GPUS), max(GPUS))


def _engines(row: dict[str, str], device: str) -> Iterator[str]:
    """The engines to choose from that run on the device; one that was asked for and does not is refused where no other is left."""
    asked = tuple(row.get("engines", "").replace(",", " ").split())
    refused: InputError | None = None
    left = 0
    for engine in asked or ENGINES:
        try:
            check_engine(engine, gpus.name(device))
        except InputError as error:
            refused = error
            continue
        left += 1
        yield engine
    if refused is not None and not left:
        raise refused


def _cases(row: dict[str, str], devices: tuple[str, ...], short: list[str]) -> Iterator[tuple[Case, str]]:
    """Every case that is tried, with the device's name as given; of what does not fit into the memory the reason is added to `short`."""
    model = row.get("model", "")
    lengths = count(row, "input_tokens") or 1024, count(row, "output_tokens") or 1024
    for device in devices:
        for engine in _engines(row, device):
            base = question(
                model, device, 1, 1, *lengths, engine, row.get("precision", "").strip(), kv_precision=row.get("kv_precision", "").strip()
            )
            for number_of in GPUS:
                if number_of > most_gpus(row) or base.model.heads % number_of:
                    continue
                for plan in plans(number_of, base.model.experts is not None):
                    for clients in CLIENTS:
                        if clients % plan.attention_data:
                            continue
                        case = replace(base, plan=plan, clients=clients // plan.attention_data)
                        chosen = settings.of(case)
                        room = cache_tokens(case, plan, chosen.memory_share, KV_BYTES[chosen.kv])
                        if reason := without_room(case, plan, room):
                            short.append(reason)
                        elif room >= case.clients * case.mean_length * sum(lengths):
                            yield case, device


def candidates(row: dict[str, str], devices: tuple[str, ...], prices: dict[str, float], library: Any) -> pd.DataFrame:
    """Every plan of a question with its answer: a row each, in the columns of `choice.COLUMNS`.

    Args:
        row: model, input_tokens, output_tokens, engines, max_gpus, precision, kv_precision, requests_per_s, ttft_target_ms,
            tpot_target_ms, as text.
        prices: device -> price of a GPU hour; empty: costs are GPU hours.
    Raises:
        InputError: a question that cannot be asked.
    """
    limits = {TARGETS[key]: value for key in TARGETS if (value := number(row, key)) is not None}
    if not limits or 0 in limits.values():
        raise InputError(f"a question about serving needs a target above 0: {' or '.join(TARGETS)}", key="tpot_target_ms")
    short: list[str] = []
    found = list(_cases(row, devices, short))
    if not found:
        raise InputError(f"no plan of up to {most_gpus(row)} GPUs has room for one request; the largest: {short[-1]}", key="model")
    answers = answer([case for case, _ in found], load(), library).table
    rows = [
        _row(case, device, said, limits, number(row, "requests_per_s"), prices, most_gpus(row))
        for (case, device), said in zip(found, answers.to_dict("records"), strict=True)
        if not said["status"]
    ]
    if not rows:
        raise InputError(next(iter(sorted(set(answers["status"])))), key="devices")
    return pd.DataFrame(rows)


def _row(
    case: Case, device: str, said: dict[Any, Any], limits: dict[str, float], rate: float | None, prices: dict[str, float], most: int
) -> dict[str, Any]:
    """One plan with its cost."""
    each, price = case.plan.gpus, prices.get(device, 1.0)
    cost, replicas = {}, {}
    for end in ENDS:
        other = {"": "", "_lower": "_upper", "_upper": "_lower"}[end]  # dear where few tokens a second come
        replicas[end] = math.ceil(rate / said[f"requests_per_s{other}"]) if rate else 1
        cost[end] = price * each * replicas[end] if rate else price * each * 1e6 / said[f"output_tokens_per_s{other}"] / 3600
    return {
        "device": device, "gpus": each, "engine": case.engine, "tensor_parallel": case.plan.tensor,
        "attention_data_parallel": case.plan.attention_data, "expert_parallel": case.plan.expert,
        "precision": in_words(case.gemm if case.model.experts is None else case.experts, case.device),
        "kv_precision": in_words(settings.of(case).kv, case.device),
        "clients": case.clients * case.plan.attention_data, "replicas": replicas[""],
        "kv_cache_tokens": said["kv_cache_tokens"], "most_requests": said["most_requests"],
        **{f"{target}{end}_ms": said[f"{target}{end}_ms"] for target in ("ttft", "tpot") for end in ENDS},
        "cost": cost[""], "cost_lower": cost["_lower"], "cost_upper": cost["_upper"],
        "cost_of": ("an hour" if rate else "a million output tokens") + ("" if prices else ", in GPU hours"),
        "excess": max(float(said[f"{target}_ms"]) / limit for target, limit in limits.items()),
        "sure": all(float(said[f"{target}_upper_ms"]) <= limit for target, limit in limits.items()),
        "assumed": f"{said['assumed']}; up to {most} GPUs a replica",
    }  # fmt: skip
