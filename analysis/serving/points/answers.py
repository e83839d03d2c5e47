"""A table of serving points -> answers with 90 % intervals; what `predict serving` runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.hardware import devices, systems
from analysis.kernels import gpus
from analysis.serving.points import cases as case_rows
from analysis.serving.points import settings
from analysis.serving.points.cases import Case, in_words, without_bf16
from analysis.serving.points.closed_loop import RESULT
from analysis.serving.points.constants import Parameters, apply, bounds, elsewhere, load, outside
from analysis.serving.points.operators import dispatched
from analysis.serving.points.points import Points, features, floors_s, points, transfer
from analysis.site import Site

ENDS = ("", "_lower", "_upper")
TIMES = tuple(f"{target}{end}_ms" for target in ("ttft", "tpot") for end in ENDS)
RATES = tuple(f"{name}{end}" for name in ("output_tokens_per_s", "requests_per_s") for end in ENDS)
COLUMNS = (*TIMES, *RATES, "kv_cache_tokens", "most_requests", "basis", "assumed", "status")
BASIS = {"measured gpu": "measured kernels", "unmeasured gpu": "kernels of other GPUs", "data sheet": "data sheet"}
"""Worst source of a step's kernel times, in a reader's words."""


@dataclass(frozen=True)
class Answers:
    """Answers of many cases: the table (`COLUMNS`), and what it was made from."""

    table: pd.DataFrame
    raw: Points
    features: pd.DataFrame


def site_terms(asked: pd.DataFrame) -> list[dict[str, float]]:
    """What a site's constants of served times multiply (`analysis.site`): the site itself, the model's family, the device, the types, and
    the device with each of these.
    """
    named: dict[str, tuple[str, ...]] = {"model": ("family",), "device": ("device",), "types": ("types",)}
    named |= {"model and device": ("family", "device"), "types and device": ("types", "device")}
    rows = asked.to_dict("records")
    return [{"site": 1.0} | {f"{name}={' on '.join(str(row[key]) for key in keys)}": 1.0 for name, keys in named.items()} for row in rows]


def times(
    cases: list[Case | None], parameters: Parameters, raw: Points, site: Site | None = None
) -> tuple[pd.DataFrame, pd.DataFrame, list[tuple[str, ...]]]:
    """`TIMES` of cases, their features, and why the intervals of each that has an answer are those of other sources (`outside`).

    A site's constants multiply the times, and give their intervals; the features keep the factors as `site_ttft` and `site_tpot`, and what
    is said of them as `said_ttft` and `said_tpot`.
    """
    frame = features(cases, raw)
    table = pd.DataFrame({name: np.full(len(cases), np.nan) for name in TIMES})
    live = np.isfinite(raw.result[:, 0])
    if not live.any():
        return table, frame, []
    asked = frame[live]
    missing = outside(asked, parameters)
    other = np.array([bool(one) for one in missing])
    for target, constants, found in (
        ("ttft", parameters.ttft, parameters.ttft_interval),
        ("tpot", parameters.tpot, parameters.tpot_interval),
    ):
        central = apply(asked, constants)
        ends = np.array([central, *bounds(asked, central, found)])
        if other.any() and parameters.elsewhere:
            ends[:, other] = elsewhere(asked[other], central[other], found, parameters.elsewhere[target])
        if target == "tpot":
            ends[1] = ends[0] * np.exp(-np.hypot(np.log(ends[0] / ends[1]), asked["more"].to_numpy()))
            ends[2] = ends[0] * np.exp(np.hypot(np.log(ends[2] / ends[0]), asked["fewer"].to_numpy()))
        if site is not None:
            factor, low, high, said = site.adjust(f"{target}_ms", site_terms(asked), ends[1] / ends[0], ends[2] / ends[0])
            ends = ends[0] * np.array([factor, low, high])
            frame.loc[live, f"site_{target}"], frame.loc[live, f"said_{target}"] = factor, said
        for end, values in zip(ENDS, ends, strict=True):
            table.loc[live, f"{target}{end}_ms"] = 1e3 * values
    return table, frame, missing


def answer(cases: list[Case | None], parameters: Parameters, library: Any, site: Site | None = None) -> Answers:
    """Answers of cases (None: no case; its status stays empty)."""
    raw = points(cases, library)
    table, frame, missing = times(cases, parameters, raw, site)
    live = np.flatnonzero(np.isfinite(raw.result[:, 0]))
    rows: list[dict[str, Any]] = [{"basis": "", "assumed": ""} for _ in cases]
    found, described = table.to_dict("records"), frame.to_dict("records")
    for index, why in zip(live.tolist(), missing, strict=True):
        case = cases[index]
        assert case is not None
        raised = _raise_to_floor(found[index], floors_s(case, *(raw.result[index, RESULT.index(name)] for name in ("batch", "cached"))))
        rows[index] = {**_rates(case, found[index], described[index]), **_described(index, case, raw, why)}
        said = [] if site is None else [str(described[index][f"said_{target}"]) for target in ("ttft", "tpot")]
        rows[index]["assumed"] = "; ".join([rows[index]["assumed"], *said, *raised])
    table = pd.DataFrame(found, columns=list(TIMES))
    added = pd.DataFrame(rows, columns=[name for name in COLUMNS if name not in (*TIMES, "status")])
    return Answers(pd.concat([table, added], axis=1).assign(status=raw.status), raw, frame)


def _raise_to_floor(times: dict[Any, Any], floors: tuple[float, float]) -> list[str]:
    """Raise an answer and its ends to what the data sheet allows, and say where the answer itself was below: kernels are timed alone, with
    weights that a large cache holds from one call to the next."""
    said = []
    for target, floor in zip(("ttft", "tpot"), floors, strict=True):
        names, least = [f"{target}{end}_ms" for end in ENDS], 1e3 * floor
        if times[names[0]] < least:
            said.append(f"{target} raised from {times[names[0]]:.3g} ms to bytes over bandwidth and FLOP over peak")
        for name in names:
            times[name] = max(times[name], least)
    return said


def _rates(case: Case, times: dict[Any, Any], row: dict[Any, Any]) -> dict[str, float]:
    """Rates of a replica (of a decode worker's where prompts have workers of their own).

    Clients that go on asking have clients / latency requests a second (Little's law). A run of so many requests has its ramp and tail:
    where they wait for each other it takes as much longer than it was simulated as its mean request does; where they all lie ready, as a
    mean step does; and who sends at a rate is answered at that rate, unless requests pile up.
    """
    mean = case.mean_length * case.output_tokens
    simulated = row["ttft_s"] + row["tpot_s"] * (mean - 1)
    found: dict[str, float] = {}
    for end, other in zip(ENDS, ("", "_upper", "_lower"), strict=True):
        ttft, tpot = times[f"ttft{other}_ms"] * 1e-3, times[f"tpot{other}_ms"] * 1e-3
        latency = ttft + tpot * (mean - 1)
        slower = latency / simulated if case.arrival in ("closed", "static") else tpot / row["tpot_s"]
        flow = case.clients / latency if case.arrival == "closed" and not case.requests else row["flow"] / slower
        if case.arrival == "poisson":  # what is left when the last has come takes longer, and the queue of those who came too fast
            coming = row["requests"] / case.rate
            flow = row["requests"] / (coming + max(0.0, row["requests"] / row["flow"] - coming) * slower)
        flow *= case.plan.ranks
        found |= {f"output_tokens_per_s{end}": flow * mean, f"requests_per_s{end}": flow}
    return found


def _described(index: int, case: Case, raw: Points, why: tuple[str, ...]) -> dict[str, Any]:
    """KV cache and greatest concurrency of a replica, what its kernel times rest on, and what was assumed."""
    room, need = int(raw.engines[index]["cache_tokens"]), case.input_tokens + case.output_tokens
    ranks, fit = case.plan.ranks, room // need
    source = BASIS.get(raw.tables[raw.table_of[index]].source, "data sheet")
    sentences = [*case.assumed, *settings_in_words(case)]
    if case.prefill is not None:
        first, then = f"{case.prefill_workers} workers of {case.prefill.gpus} GPUs", f"{case.decode_workers} of {case.plan.gpus}"
        moved = transfer(case)
        took = 1e3 * (moved.fixed_s + moved.token_s * moved.tokens)
        cache = f"their cache of {moved.size_bytes / 1e6:.3g} MB a GPU moves over {moved.over} in {took:.2g} ms, beside other steps"
        sentences.append(f"{first} process prompts for {then}; {cache}; rates are of one that decodes")
    if dispatched(case.model, case.plan):
        sentences.append("experts on more GPUs than a token has: tokens go to them by all-to-all, as TensorRT-LLM sends them")
    if without_bf16(case.device):
        sentences.append("16-bit types in fp16: the device has no bf16")
    if (dies := devices.load(case.device).dies) > 1:
        sentences.append(f"one GPU is a whole {case.device}; a program sees its {dies} dies as GPUs, with a part of its rates each")
    if fit < case.clients:
        sentences.append(f"the KV cache holds {fit * ranks} requests of full length, of {case.clients * ranks} clients: the rest queue")
    sentences += raw.tables[raw.table_of[index]].notes
    sentences.append(f"kernel times: {source}; norms and element-wise kernels: one fit over all GPUs")
    if why:
        sentences.append(f"answer and interval as on other sources: no calibrated run has {', '.join(why)}")
    return {"kv_cache_tokens": room * ranks, "most_requests": fit * ranks, "basis": source, "assumed": "; ".join(sentences)}


def settings_in_words(case: Case) -> list[str]:
    """What the engine was started with, and how requests come, in sentences."""
    s = settings.of(case)
    most = s.max_running * (case.plan.ranks if s.max_running == case.clients else 1)  # a script may allow as many as a rank has clients
    by = "as asked" if case.kv else "the engine's own for this checkpoint" if s.script == "default" else "as started"
    sent = f"{case.requests} requests of a rank" if case.requests else f"{s.per_client} requests a client"
    loop = {
        "closed": f"a burst of all clients, then closed loop, {sent}",
        "poisson": f"{case.rate * case.plan.ranks * max(1, case.decode_workers):g} requests a second, apart as chance has it",
        "offline": "all requests at the start",
        "static": "one batch",
    }[case.arrival]
    lengths = "lengths as given" if case.shortest == 1 else f"lengths drawn from {case.shortest:g} of the label"
    memory = f", {s.memory_share:.0%} of the memory" if case.memory_share else ""
    return [
        f"{case.engine} started as in {s.script}: {s.batched_tokens} tokens a step, {most} requests at most{memory}",
        f"KV cache in {in_words(s.kv, case.device)} ({by})",
        f"{loop}, {lengths}; {plan_in_words(case)}",
    ]


def chip(case: Case) -> str:
    """What its devices are called."""
    return "TPU" if devices.load(case.device).kind == "tpu" else "GPU"


def plan_in_words(case: Case) -> str:
    """The plan of a replica."""
    plan = case.plan
    words = [f"tensor parallel {plan.tensor}"] + [f"attention data parallel {plan.attention_data}"] * (plan.attention_data > 1)
    words += [f"expert parallel {plan.expert}"] * (plan.expert > 1) + [f"pipeline parallel {plan.pipeline}"] * (plan.pipeline > 1)
    if plan.gpus == 1:
        return f"one {chip(case)}"
    held = gpus.load(case.device).node.devices_per_node
    where = f"over nodes of {held}" if plan.gpus > held else "in one node" if plan.gpus <= systems.NODE else "on one fabric"
    return f"{plan.gpus} {chip(case)}s {where}, {', '.join(words)}"


def answered(frame: pd.DataFrame, site: Site | None = None) -> tuple[list[Case | None], Answers]:
    """The cases of a table (None: a row that is none) and their answers, at a site if one is given; `status` says why there is none."""
    from analysis.kernels.library import KernelLibrary

    cases, reasons = case_rows.read(frame)
    found = answer(cases, load(), KernelLibrary.load(), site)
    status = [reason or mine for reason, mine in zip(reasons, found.table["status"], strict=True)]
    return cases, replace(found, table=found.table.assign(status=status))


def answers(frame: pd.DataFrame, site: Site | None = None) -> pd.DataFrame:
    """One row a row of the table, in its order, with `COLUMNS`."""
    return answered(frame, site)[1].table[list(COLUMNS)]
