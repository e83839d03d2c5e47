"""What is one answer made of? Time per output token and time to first token in parts that add up, with each part's doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.serving.points import settings
from analysis.serving.points.answers import RATES, TIMES, answer, chip, plan_in_words
from analysis.serving.points.cases import Case, in_words
from analysis.serving.points.cases import case as read_case
from analysis.serving.points.closed_loop import RESULT, drawn
from analysis.serving.points.constants import Parameters, load, on_others, outside, parts
from analysis.serving.points.operators import PARTS
from analysis.serving.points.points import HOST, Points
from analysis.serving.points.step_table import on_grid
from analysis.site import Site
from analysis.tables import read_csv

LABELS = {
    "projections": "matrix products",
    "attention": "attention",
    "experts": "experts",
    "communication": "communication",
    "memory": "norms and element-wise kernels",
    "vocabulary": "vocabulary and sampling",
    "adapters": "LoRA adapters",
}


@dataclass(frozen=True)
class One:
    """One answered question.

    Attributes:
        case: as understood; assumed: sentences on what was not given.
        answer: ttft_ms, tpot_ms and their intervals; throughput_tokens_per_s_per_gpu.
        parts: target, part, ms, doubt (standard deviation of its logarithm); the ms of a target add up to its answer.
    """

    case: Case
    assumed: tuple[str, ...]
    answer: dict[str, float]
    parts: pd.DataFrame
    basis: str
    raw: Points


def breakdown(
    index: int, case: Case, raw: Points, features: pd.DataFrame, parameters: Parameters, answered: Mapping[str, float]
) -> pd.DataFrame:
    """Parts of one case's two answers; they add up exactly.

    TPOT: kernels of the mean decode step, host time of a step, then what scheduling adds (prompts that share or stop steps, batches larger
    and smaller than the mean), then the fitted correction. TTFT: queue, the prompt's own steps, and the fitted terms.
    What is left is what an answer was raised by to the data sheet's least.
    """
    row, own = dict(zip(RESULT, raw.result[index], strict=True)), features.iloc[[index]]
    table, made = raw.tables[raw.table_of[index]], case.step_tokens[1]
    fitted, terms = parts(own, parameters.tpot)[0], parts(own, parameters.ttft)[0]
    kernels = on_grid(table, row["batch"], row["cached"], 1 + case.drafted) / made
    host = HOST[case.engine].step_s / made
    lines = [("tpot", LABELS[part], 1e3 * kernels[k], table.log_sd.get(part, 0.0)) for k, part in enumerate(PARTS) if kernels[k] > 0]
    drafts = case.drafted * on_grid(raw.tables[raw.draft_of[index]], row["batch"], row["cached"]).sum() / made if case.drafted else 0.0
    front = _front_end_s(raw.engines[index])
    queue = min(row["queue_mean"], row["ttft_mean"]) - front
    queue = queue if queue > 1e-9 else 0.0
    scale = terms[0] / row["ttft_mean"] if row["ttft_mean"] > 0 else 0.0
    lines += [
        ("tpot", "host", 1e3 * host, 0.3),
        ("tpot", "drafting", 1e3 * drafts, 0.2),
        ("tpot", "scheduling: prompts between tokens", 1e3 * (row["tpot_mean"] - kernels.sum() - drafts - host), 0.2),
        ("tpot", "engine, as fitted", 1e3 * (fitted.sum() - row["tpot_mean"]), 0.1),
        ("ttft", "queue", 1e3 * queue * scale, 0.3),
        ("ttft", "the prompt's own steps", 1e3 * (row["ttft_mean"] - front - queue) * scale, 0.2),
        ("ttft", "front end, as fitted", 1e3 * (terms[1] + front * scale), 0.3),
        ("ttft", "tokens delivered together, as fitted", 1e3 * terms[2], 0.3),
        ("ttft", "steps under way, as fitted", 1e3 * terms[3], 0.3),
    ]
    if parameters.elsewhere and outside(own, parameters)[0]:
        for target, whole in (("tpot", fitted.sum()), ("ttft", terms.sum())):
            other = parameters.elsewhere[target]
            longer = float(on_others(own, np.array([whole]), other)[0]) - whole
            lines.append((target, "defaults and device, as on other sources", 1e3 * longer, 0.3))
    for target in ("tpot", "ttft"):
        by_site = own.iloc[0].get(f"site_{target}", 1.0) - 1
        lines.append((target, "site, as calibrated", by_site * sum(ms for name, _, ms, _ in lines if name == target), 0.1))
        whole = answered[f"{target}_ms"]
        rest = whole - sum(ms for name, _, ms, _ in lines if name == target)
        lines.append((target, "raised to the data sheet's least", rest if rest > 1e-9 * whole else 0.0, 0.1))
    frame = pd.DataFrame(lines, columns=["target", "part", "ms", "doubt"])
    return frame[frame["ms"] != 0].reset_index(drop=True)


def _front_end_s(engine: Any) -> float:
    """What the front end does to a request, in the mean, before the scheduler sees it (s)."""
    inputs, _ = drawn(int(engine["requests"]), int(engine["input"]), int(engine["output"]), float(engine["low"]))
    return float(engine["send_s"] + engine["send_token_s"] * inputs.mean())


COUNTS = {"gpus": "tp_size", "clients": "batch_size", "input_tokens": "isl", "output_tokens": "osl", "expert_parallel": "moe_ep_size"}
READ_AS = COUNTS | {"model": "model_path", "device": "system", "engine": "backend"}
READ_AS |= {"kv_precision": "kvcache_quant_mode", "draft_tokens": "nextn"}
"""Field of `Question` -> column of a table of serving points, where it is called otherwise; counts are at least 1."""


@dataclass(frozen=True)
class Question:
    """How fast does a served model answer?

    Args:
        model, device: names as in data/workloads/models.yaml and data/hardware (or the kernel tables); gpus: tensor-parallel.
        clients: requests in flight; input_tokens, output_tokens: of a request, drawn from 0.8 of them.
        engine: vllm, sglang or trtllm; precision: a key of `cases.PRECISIONS` (empty: the checkpoint's own).
        expert_parallel: GPUs over which whole experts are spread; kv_precision: bf16 or fp8 (empty: the engine's own).
        memory_utilization, max_batched_tokens (of a step), engine_version: 0 or empty: as the engine is started for such a question.
        lora_adapters, lora_rank: LoRA adapters in memory, and their rank (0: vLLM's default).
        draft: mtp, eagle, eagle3 or a model; draft_tokens: drafted in a step; acceptance: chance that one is right (None: not known).
    """

    model: str
    device: str
    gpus: int = 1
    clients: int = 16
    input_tokens: int = 1024
    output_tokens: int = 1024
    engine: str = "vllm"
    precision: str = ""
    expert_parallel: int = 1
    kv_precision: str = ""
    memory_utilization: float = 0.0
    max_batched_tokens: int = 0
    engine_version: str = ""
    lora_adapters: int = 0
    lora_rank: int = 0
    draft: str = ""
    draft_tokens: int = 0
    acceptance: float | None = None

    def case(self) -> Case:
        """The question as a case, read as a row of `predict serving` is."""
        said = vars(self) | {"acceptance": "" if self.acceptance is None else str(self.acceptance)}
        for key in COUNTS:
            if isinstance(said[key], (int, float)) and (said[key] != int(said[key]) or said[key] < 1):
                raise InputError(f"{key} is {said[key]:g}; expected a whole number, at least 1", key=key)
        if self.gpus % self.expert_parallel:
            raise InputError(f"{self.gpus} GPUs cannot be cut into {self.expert_parallel} expert groups", key="expert_parallel")
        try:
            row = {READ_AS.get(key, key): value for key, value in said.items() if value}
            return read_case(row | {"attention_dp_size": 1, "moe_tp_size": self.gpus // self.expert_parallel})
        except InputError as error:
            if error.path is not None:  # a file that the question names
                raise
            key = error.key or ""
            name = next((argument for argument, column in READ_AS.items() if column == key), key)
            raise InputError(error.message.replace(key, name) if key else error.message, key=name or None) from None


def one(model: str, device: str, gpus: int = 1, *rest: Any, library: Any = None, site: Site | None = None, **asked: Any) -> One:
    """How fast does a served model answer?

    >>> from analysis.serving.points.waterfall import one
    >>> r = one("llama-3.1-70b", "h100_sxm", gpus=8, clients=32)
    >>> r.answer["tpot_ms"], r.parts  # doctest: +SKIP

    Args:
        model, device, gpus, rest, asked: as of `Question`; library: kernels; site: whose constants hold (`analysis.site.read_site`).
    """
    from analysis.kernels.library import KernelLibrary

    case = Question(model, device, gpus, *rest, **asked).case()
    parameters = load()
    result = answer([case], parameters, library or KernelLibrary.load(), site)
    if result.raw.status[0]:
        raise InputError(f"{result.raw.status[0]} ({in_words(f'weights in {case.types}', case.device)})", key="model")
    row = result.table.iloc[0]
    values = {name: float(row[name]) for name in (*TIMES, *RATES, "kv_cache_tokens", "most_requests")}
    values["throughput_tokens_per_s_per_gpu"] = values["output_tokens_per_s"] / gpus
    at_site = site is not None and "tpot_ms" in site.measured
    held = () if at_site else (held_elsewhere(bool(outside(result.features, parameters)[0])),)
    said = (*str(row["assumed"]).split("; "), *held)
    return One(case, said, values, breakdown(0, case, result.raw, result.features, parameters, values), str(row["basis"]), result.raw)


def held_elsewhere(widened: bool) -> str:
    """How many measurements of sources that calibrated nothing such intervals of a token's time held."""
    scores = read_csv(DATA / "frozen" / "predictor_serving" / "sources.csv").query("target == 'tpot'")
    shares = scores["coverage_elsewhere_percent" if widened else "coverage_percent"]
    return (
        f"of {scores['rows'].sum():,} measurements of a token's time by {len(scores)} other sources such intervals held "
        f"{shares.mean():.0f} % ({shares.min():.0f} to {shares.max():.0f} % of a source)"
    )


def header(case: Case) -> str:
    """One line that names model, device, plan, engine and types."""
    name = devices.load(case.device).name
    types = in_words(f"weights in {case.types}, KV cache in {settings.of(case).kv}", case.device)
    return f"{case.model.family or case.model.name} on {name}, {plan_in_words(case)}; {case.engine}; {types}"


def report(found: One) -> str:
    """The answer as text."""
    a = found.answer
    lines = [
        header(found.case),
        f"time to first token  {a['ttft_ms']:9.1f} ms   90 %: {a['ttft_lower_ms']:.1f} to {a['ttft_upper_ms']:.1f}",
        f"time per output token{a['tpot_ms']:9.2f} ms   90 %: {a['tpot_lower_ms']:.2f} to {a['tpot_upper_ms']:.2f}",
        f"throughput           {a['throughput_tokens_per_s_per_gpu']:9.0f} output tokens/s per {chip(found.case)}",
        f"KV cache             {a['kv_cache_tokens']:9,.0f} tokens: {a['most_requests']:,.0f} requests of full length at a time",
    ]
    for target, name in (("tpot", "time per output token"), ("ttft", "time to first token")):
        lines.append(f"{name}, made of (ms):")
        for row in found.parts[(found.parts["target"] == target) & (found.parts["ms"].abs() >= 5e-4)].itertuples():
            lines.append(f"  {row.ms:10.3f}  {row.part}")
    return "\n".join([*lines, "assumed:", *(f"  {text}" for text in found.assumed)])


def as_json(found: One) -> dict[str, Any]:
    """The answer for a program: times, rates, KV cache, what was assumed, an empty `status`."""
    return {
        "question": header(found.case),
        "model": found.case.model.name,
        "device": devices.load(found.case.device).name,
        "engine": found.case.engine,
        "gpus": found.case.plan.gpus,
        "tensor_parallel": found.case.plan.tensor,
        "expert_parallel": found.case.plan.expert,
        "clients": found.case.clients,
        "input_tokens": found.case.input_tokens,
        "output_tokens": found.case.output_tokens,
        "precision": in_words(found.case.types, found.case.device),
        "kv_precision": in_words(settings.of(found.case).kv, found.case.device),
        **{name: found.answer[name] for name in (*TIMES, *RATES)},
        "kv_cache_tokens": int(found.answer["kv_cache_tokens"]),
        "most_requests": int(found.answer["most_requests"]),
        "basis": found.basis,
        "assumed": list(found.assumed),
        "status": "",
    }
