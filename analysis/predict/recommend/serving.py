"""Every way to serve a model on some GPUs, each with its answer and cost: what a recommendation is chosen from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.case_files import count, number
from analysis.errors import InputError
from analysis.kernels import gpus
from analysis.serving.points import power, settings
from analysis.serving.points.answers import ENDS, answer
from analysis.serving.points.cases import Case, Plan, check_engine, in_words
from analysis.serving.points.constants import load
from analysis.serving.points.points import room
from analysis.serving.points.waterfall import Question
from analysis.vocabulary import ENGINES

MODES = ("agg", "disagg")
GPUS = (1, 2, 4, 8)
CLIENTS = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Requests in flight on a replica: as many as were measured."""
POOLS = ((1, 1), (2, 1), (3, 1), (1, 2))
"""Prefill and decode workers of a disaggregated replica."""
TARGETS = {"ttft_target_ms": "ttft", "tpot_target_ms": "tpot"}
OTHER = {"": "", "_lower": "_upper", "_upper": "_lower"}
"""End of an interval -> the end of what goes the other way."""
JOULES_A_KWH = 3.6e6


def plans(gpus: int, model: Any) -> Iterator[Plan]:
    """Plans of one replica: tensor and pipeline parallel; of a mixture also experts spread, with tensor or data parallel attention."""
    for pipeline in (1, 2, 4):
        stage, rest = divmod(gpus, pipeline)
        if rest or pipeline > model.layers:
            continue
        yield Plan(stage, 1, stage, 1, pipeline)
        if model.experts is not None and stage > 1 and pipeline == 1:
            yield Plan(stage, 1, 1, stage)
            yield Plan(1, stage, 1, stage)
            if stage > 2:
                yield Plan(2, stage // 2, 1, stage)


@dataclass(frozen=True)
class Asked:
    """A question about serving, as read from its cells.

    Args:
        limits: target (ttft, tpot) -> most milliseconds; rate: requests a second to carry; prices: of a GPU hour by device, empty: none.
        grid_g_per_kwh: carbon of the grid; NaN: not said.
    """

    model: str
    devices: tuple[str, ...]
    engines: tuple[str, ...]
    precisions: tuple[str, ...]
    kv_precision: str
    modes: tuple[str, ...]
    lengths: tuple[int, int]
    most: int
    limits: dict[str, float]
    rate: float | None
    prices: dict[str, float]
    grid_g_per_kwh: float


def _words(row: dict[str, str], key: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.get(key, "").replace(",", " ").split()))


def read(row: dict[str, str], devices: tuple[str, ...], prices: dict[str, float]) -> Asked:
    """A question's cells."""
    limits = {TARGETS[key]: value for key in TARGETS if (value := number(row, key)) is not None}
    if not limits or 0 in limits.values():
        raise InputError(f"a question about serving needs a target above 0: {' or '.join(TARGETS)}", key="tpot_target_ms")
    modes = _words(row, "modes") or MODES[:1]
    if other := set(modes) - set(MODES):
        raise InputError(f"unknown mode {sorted(other)[0]!r}; known: {', '.join(MODES)}", key="modes")
    grid = number(row, "grid_g_per_kwh")
    return Asked(
        row.get("model", ""), devices, _words(row, "engines"), _words(row, "precision") or ("",), row.get("kv_precision", "").strip(),
        modes,
        (count(row, "input_tokens") or 1024, count(row, "output_tokens") or 1024), min(count(row, "max_gpus") or max(GPUS), max(GPUS)),
        limits, number(row, "requests_per_s"), prices, math.nan if grid is None else grid,
    )  # fmt: skip


def _answered(ways: Iterable[Any], make: Callable[[Any], Any]) -> list[Any]:
    """What is made of some ways, without those that are refused; where none is left, the last is."""
    found, refused = [], None
    for way in ways:
        try:
            found.append(make(way))
        except InputError as error:
            refused = error
    if refused is not None and not found:
        raise refused
    return found


def _bases(asked: Asked) -> list[tuple[Case, str]]:
    """The question for one GPU and client, with each device, engine that runs on it, and type that it has."""

    def runs_on(device: str) -> list[str]:
        return _answered(asked.engines or ENGINES, lambda engine: check_engine(engine, gpus.name(device)))

    def base(way: tuple[str, str, str]) -> tuple[Case, str]:
        device, engine, precision = way
        found = Question(asked.model, device, 1, 1, *asked.lengths, engine, precision, kv_precision=asked.kv_precision)
        return found.case(), device

    ways = [(device, engine, kind) for device in asked.devices for engine in runs_on(device) for kind in asked.precisions]
    return [base(way) for way in ways] if len(asked.precisions) == 1 else _answered(ways, base)


def _replicas(base: Case, asked: Asked) -> Iterator[Case]:
    """The replicas that are tried, before clients."""
    fits = [number_of for number_of in GPUS if number_of <= asked.most]
    for number_of in fits if "agg" in asked.modes else ():
        for plan in plans(number_of, base.model):
            if base.model.heads % plan.tensor == 0:
                yield replace(base, plan=plan)
    for of_decode in fits if "disagg" in asked.modes else ():
        for of_prefill in fits:
            for prefill_workers, decode_workers in POOLS:
                if prefill_workers * of_prefill + decode_workers * of_decode > asked.most:
                    continue
                for plan in plans(of_decode, base.model):
                    if plan.pipeline == 1 and base.model.heads % plan.tensor == base.model.heads % of_prefill == 0:
                        prompts = Plan(of_prefill, 1, of_prefill, 1)
                        yield replace(base, plan=plan, prefill=prompts, prefill_workers=prefill_workers, decode_workers=decode_workers)


def _cases(asked: Asked, short: list[str]) -> Iterator[tuple[Case, str]]:
    """Every case that is tried, with the device's name as given; of what does not fit into the memory the reason is added to `short`."""
    for base, device in _bases(asked):
        for replica in _replicas(base, asked):
            plan = replica.plan
            for clients in CLIENTS:
                if clients % plan.ranks:
                    continue
                case = replace(replica, clients=clients // plan.ranks)
                held, reason = room(case)
                if reason:
                    short.append(reason)
                elif held >= case.clients * case.mean_length * sum(asked.lengths):
                    yield case, device


def candidates(row: dict[str, str], devices: tuple[str, ...], prices: dict[str, float], library: Any) -> pd.DataFrame:
    """Every plan of a question with its answer: a row each, in the columns of `choice.COLUMNS`.

    Args:
        prices: device -> price of a GPU hour; empty: costs are GPU hours.
    """
    asked, short = read(row, devices, prices), list[str]()
    found = list(_cases(asked, short))
    if not found:
        why = f"has room for one request; the last of them {short[-1]}" if short else "has others for prompts than for answers"
        raise InputError(f"no plan of up to {asked.most} GPUs {why}", key="model" if short else "max_gpus")
    answers = answer([case for case, _ in found], load(), library).table
    rows = [
        _row(case, device, said, asked)
        for (case, device), said in zip(found, answers.to_dict("records"), strict=True)
        if not said["status"]
    ]
    if not rows:
        raise InputError(next(iter(sorted(set(answers["status"])))), key="devices")
    return pd.DataFrame(rows)


def _row(case: Case, device: str, said: dict[Any, Any], asked: Asked) -> dict[str, Any]:
    """One plan with its rates, cost, power and carbon; rates of a replica are those of all its decode workers."""
    workers = case.decode_workers or 1
    each = case.plan.gpus * workers + (case.prefill.gpus * case.prefill_workers if case.prefill else 0)
    tokens = {end: workers * said[f"output_tokens_per_s{end}"] for end in ENDS}
    price, chosen = asked.prices.get(device, 1.0), settings.of(case)
    replicas = {end: math.ceil(asked.rate / workers / said[f"requests_per_s{OTHER[end]}"]) if asked.rate else 1 for end in ENDS}
    cost = {
        end: price * each * replicas[end] if asked.rate else price * each * 1e6 / tokens[OTHER[end]] / 3600 for end in ENDS
    }  # dear where few tokens a second come
    return {
        "device": device, "gpus": each, "engine": case.engine, "mode": "disagg" if case.prefill else "agg",
        "tensor_parallel": case.plan.tensor, "pipeline_parallel": case.plan.pipeline,
        "attention_data_parallel": case.plan.attention_data, "expert_parallel": case.plan.expert,
        "prefill_workers": case.prefill_workers or "", "prefill_tensor_parallel": case.prefill.tensor if case.prefill else "",
        "decode_workers": case.decode_workers or "",
        "precision": in_words(case.gemm if case.model.experts is None else case.experts, case.device),
        "kv_precision": in_words(chosen.kv, case.device),
        "clients": case.clients * case.plan.ranks * workers, "replicas": replicas[""],
        "kv_cache_tokens": workers * said["kv_cache_tokens"], "most_requests": workers * said["most_requests"],
        "max_batched_tokens": chosen.batched_tokens, "max_num_seqs": chosen.max_running, "memory_utilization": chosen.memory_share,
        **{f"{target}{end}_ms": said[f"{target}{end}_ms"] for target in ("ttft", "tpot") for end in ENDS},
        **{f"tokens_per_s_per_gpu{end}": tokens[end] / each for end in ENDS},
        **{f"tokens_per_s_per_user{end}": 1e3 / said[f"tpot{OTHER[end]}_ms"] for end in ENDS},
        **_energy(case, said, {end: tokens[end] / each for end in ENDS}, asked.grid_g_per_kwh),
        **{f"cost{end}": cost[end] for end in ENDS},
        "cost_of": ("an hour" if asked.rate else "a million output tokens") + ("" if asked.prices else ", in GPU hours"),
        "excess": max(float(said[f"{target}_ms"]) / limit for target, limit in asked.limits.items()),
        "sure": all(float(said[f"{target}_upper_ms"]) <= limit for target, limit in asked.limits.items()),
        "assumed": f"{said['assumed']}; up to {asked.most} GPUs a replica",
    }  # fmt: skip


def _energy(case: Case, said: dict[Any, Any], rate: dict[str, float], grid_g_per_kwh: float) -> dict[str, float]:
    """Watts of a GPU, joules of an output token and grams of a million: the boards alone, without hosts and cooling.

    The doubts of power and of the rate are independent: their logarithms add in squares.
    """
    drawn = power.drawn_w(case, 1e-3 * said["tpot_ms"])
    if drawn is None:
        return {}
    found = dict(zip((f"watts_per_gpu{end}" for end in ENDS), drawn, strict=True))
    for end, watts in zip(ENDS, drawn, strict=True):
        doubt = math.hypot(math.log(watts / drawn[0]), math.log(rate[OTHER[end]] / rate[""]))
        joules = drawn[0] / rate[""] * math.exp(doubt if end == "_upper" else -doubt)
        found |= {f"joules_per_token{end}": joules, f"carbon_g_per_million_tokens{end}": 1e6 * joules / JOULES_A_KWH * grid_g_per_kwh}
    return found
