"""What is one answer made of? Time per output token and time to first token in parts that add up, with each part's doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.composition.service import settings
from analysis.composition.service.answers import answer
from analysis.composition.service.cases import PRECISIONS, Case, Plan, types
from analysis.composition.service.closed_loop import RESULT
from analysis.composition.service.constants import Parameters, load, parts
from analysis.composition.service.models import find
from analysis.composition.service.operators import PARTS
from analysis.composition.service.points import HOST, Points
from analysis.composition.service.step_table import on_grid
from analysis.errors import InputError
from analysis.workloads import contexts

LABELS = {
    "projections": "matrix products",
    "attention": "attention",
    "experts": "experts",
    "communication": "communication",
    "memory": "norms and element-wise kernels",
    "vocabulary": "vocabulary and sampling",
}


MEAN_LENGTH = 0.9
"""Mean length of a request over its label: drawn evenly from 0.8 of the label."""


def output_tokens_per_s(clients: float, output_tokens: float, ttft_ms: float, tpot_ms: float) -> float:
    """Output tokens per second of a replica in a closed loop: clients x tokens of a request / its latency (Little's law)."""
    return 1e3 * clients * MEAN_LENGTH * output_tokens / (ttft_ms + tpot_ms * MEAN_LENGTH * output_tokens)


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


def breakdown(index: int, case: Case, raw: Points, features: pd.DataFrame, parameters: Parameters) -> pd.DataFrame:
    """Parts of one case's two answers; they add up exactly.

    TPOT: kernels of the mean decode step, host time of a step, then what scheduling adds (prompts that share or stop steps, batches larger
    and smaller than the mean), then the fitted correction. TTFT: queue, the prompt's own steps, and the fitted terms.
    """
    row = dict(zip(RESULT, raw.result[index], strict=True))
    table = raw.tables[raw.table_of[index]]
    kernels = on_grid(table, row["batch"], row["cached"])
    host = HOST[case.engine].step_s
    lines = [("tpot", LABELS[part], 1e3 * kernels[k], table.log_sd.get(part, 0.0)) for k, part in enumerate(PARTS) if kernels[k] > 0]
    lines.append(("tpot", "host", 1e3 * host, 0.3))
    lines.append(("tpot", "scheduling: prompts between tokens", 1e3 * (row["tpot_mean"] - kernels.sum() - host), 0.2))
    fitted = parts(features.iloc[[index]], parameters.tpot)[0]
    lines.append(("tpot", "engine, as fitted", 1e3 * (fitted.sum() - row["tpot_mean"]), 0.1))
    queue = min(row["queue_mean"], row["ttft_mean"])
    terms = parts(features.iloc[[index]], parameters.ttft)[0]
    scale = terms[0] / row["ttft_mean"] if row["ttft_mean"] > 0 else 0.0
    lines += [
        ("ttft", "queue", 1e3 * queue * scale, 0.3),
        ("ttft", "the prompt's own steps", 1e3 * (row["ttft_mean"] - queue) * scale, 0.2),
        ("ttft", "front end, as fitted", 1e3 * terms[1], 0.3),
        ("ttft", "tokens delivered together, as fitted", 1e3 * terms[2], 0.3),
        ("ttft", "steps under way, as fitted", 1e3 * terms[3], 0.3),
    ]
    frame = pd.DataFrame(lines, columns=["target", "part", "ms", "doubt"])
    return frame[frame["ms"] != 0].reset_index(drop=True)


def question(
    model: str,
    device: str,
    gpus: int = 1,
    clients: int = 16,
    input_tokens: int = 1024,
    output_tokens: int = 1024,
    engine: str = "vllm",
    precision: str = "",
    expert_parallel: int = 1,
) -> tuple[Case, list[str]]:
    """A question as a case, with sentences on what was not given; arguments and errors as of `one`."""
    from analysis.operators.kernels import gpus as gpu_names

    found = find(model)
    data_sheet = gpu_names.load(device)
    assumed = []
    if min(gpus, clients, input_tokens, output_tokens - 1, expert_parallel) < 1:
        raise InputError("gpus, clients, lengths and expert_parallel must be at least 1 (output at least 2 tokens)", key="gpus")
    if found.experts is not None and found.experts.count % expert_parallel:
        raise InputError(f"{found.experts.count} experts do not divide by {expert_parallel}", key="expert_parallel")
    if gpus % expert_parallel:
        raise InputError(f"{gpus} GPUs cannot be cut into {expert_parallel} expert groups", key="expert_parallel")
    contexts.check(model, input_tokens + output_tokens, "input_tokens")
    if found.attention.heads % gpus:
        raise InputError(f"{found.attention.heads} heads cannot be cut over {gpus} GPUs", key="gpus")
    if not precision:
        precision = "fp8" if "fp8" in data_sheet.peak_flop_per_s else "bf16"
        assumed.append(f"weights in {precision}")
    if precision not in PRECISIONS:
        raise InputError(f"unknown type {precision!r}; known: {', '.join(PRECISIONS)}", key="precision")
    if engine not in HOST:
        raise InputError(f"unknown engine {engine!r}; known: {', '.join(HOST)}", key="engine")
    label, dense, around, routed = types(found, precision, precision, precision, model)
    mixture = found.experts is not None
    case = Case(
        model=found, device=gpu_names.name(device), engine=engine, version="", origin="benchmark", precision=label,
        gemm=dense, attention=around, experts=routed,
        input_tokens=input_tokens, output_tokens=output_tokens, clients=clients,
        plan=Plan(gpus, 1, gpus // expert_parallel if mixture else gpus, expert_parallel if mixture else 1),
    )  # fmt: skip
    chosen = settings.of(case)
    assumed.append(f"{engine} started as in {chosen.script}: {chosen.batched_tokens} tokens a step, {chosen.max_running} requests at most")
    assumed.append(
        "a burst of all clients, then closed loop, 10 requests a client, lengths from 0.8 of the label; tensor parallel in one node"
    )
    assumed.append(
        "upper end of a token's time: no benchmark publishes this setting; nine in ten measurements of four other sources lie below"
        if chosen.script == "default"
        else "intervals: served as the public benchmark does; on other sources times were longer than that"
    )
    return case, assumed


def one(
    model: str,
    device: str,
    gpus: int = 1,
    clients: int = 16,
    input_tokens: int = 1024,
    output_tokens: int = 1024,
    engine: str = "vllm",
    precision: str = "",
    expert_parallel: int = 1,
    library: Any = None,
) -> One:
    """How fast does a served model answer?

    >>> from analysis.composition.service.waterfall import one
    >>> r = one("llama-3.1-70b", "h100_sxm", gpus=8, clients=32)
    >>> r.answer["tpot_ms"], r.parts  # doctest: +SKIP

    Args:
        model, device: names as in data/workloads/served_models.yaml and data/hardware (or the kernel tables); gpus: tensor-parallel.
        clients: requests in flight; input_tokens, output_tokens: of a request, drawn from 0.8 of them.
        engine: vllm, sglang or trtllm; precision: bf16, fp8 or nvfp4 (empty: fp8 where the device has it).
        expert_parallel: GPUs over which whole experts are spread.
    Raises:
        InputError: an unknown name, an impossible plan, or weights that do not fit.
    """
    from analysis.operators.kernels.library import KernelLibrary

    case, assumed = question(model, device, gpus, clients, input_tokens, output_tokens, engine, precision, expert_parallel)
    parameters = load()
    result = answer([case], parameters, library or KernelLibrary.load())
    if result.raw.status[0]:
        raise InputError(result.raw.status[0], key="model")
    values = {str(name): float(value) for name, value in result.table.iloc[0].drop("status").items()}
    flow = output_tokens_per_s(clients, output_tokens, values["ttft_ms"], values["tpot_ms"])
    values["throughput_tokens_per_s_per_gpu"] = flow / gpus
    source = result.raw.tables[0].source
    assumed.append(f"kernel times: {source}; norms and element-wise kernels: one fit over all GPUs")
    return One(case, tuple(assumed), values, breakdown(0, case, result.raw, result.features, parameters))


def grid(questions: Sequence[Mapping[str, Any]], library: Any = None) -> pd.DataFrame:
    """Many questions at once: a row each with the arguments given, the answer, its intervals, the parts of a token's time and the status.

    Args:
        questions: arguments of `question`; a question that cannot be asked has its reason in `status`.
    """
    from analysis.operators.kernels.library import KernelLibrary

    cases: list[Case | None] = []
    refused: list[str] = []
    for asked in questions:
        try:
            cases.append(question(**asked)[0])
            refused.append("")
        except InputError as error:
            cases.append(None)
            refused.append(str(error))
    parameters = load()
    result = answer(cases, parameters, library or KernelLibrary.load())
    rows = []
    for index, (asked, case, reason) in enumerate(zip(questions, cases, refused, strict=True)):
        found = result.table.iloc[index]
        answered = {str(name): value for name, value in found.items()}
        row: dict[str, Any] = {**asked, **answered, "status": reason or found["status"]}
        if case is not None and not row["status"]:
            made = breakdown(index, case, result.raw, result.features, parameters)
            row |= {part: size for target, part, size in zip(made["target"], made["part"], made["ms"], strict=True) if target == "tpot"}
        rows.append(row)
    return pd.DataFrame(rows)


def report(found: One) -> str:
    """The answer as text."""
    a = found.answer
    lines = [
        f"time to first token  {a['ttft_ms']:9.1f} ms   90 %: {a['ttft_lower_ms']:.1f} to {a['ttft_upper_ms']:.1f}",
        f"time per output token{a['tpot_ms']:9.2f} ms   90 %: {a['tpot_lower_ms']:.2f} to {a['tpot_upper_ms']:.2f}",
        f"throughput           {a['throughput_tokens_per_s_per_gpu']:9.0f} output tokens/s per GPU",
    ]
    for target, name in (("tpot", "time per output token"), ("ttft", "time to first token")):
        lines.append(f"{name}, made of (ms):")
        for row in found.parts[found.parts["target"] == target].itertuples():
            lines.append(f"  {row.ms:10.3f}  {row.part}")
    return "\n".join([*lines, "assumed:", *(f"  {text}" for text in found.assumed)])
