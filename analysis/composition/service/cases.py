"""What is asked? One serving point: model, device, engine, plan, lengths, clients; read from a table in aiconfigurator's columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.case_columns import Columns
from analysis.composition.case_files import read_rows
from analysis.composition.service.models import Experts, ServedModel, find
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.operators.kernels import gpus
from analysis.workloads import contexts

COLUMNS = ("backend", "model_path", "system", "mode", "isl", "osl")
_OF_A_WORKER = ("batch_size", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
READS = Columns(
    names=(
        *COLUMNS, "backend_version", "precision", "gemm_quant_mode", "moe_quant_mode", *_OF_A_WORKER, "silicon_data_source",
        *(f"{worker}_{name}" for worker in ("prefill", "decode") for name in (*_OF_A_WORKER, "num_workers")),
    ),
    required=COLUMNS,
)  # fmt: skip
"""Columns of a table of serving points: aiconfigurator's."""
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "tensorrt-llm": "trtllm"}
PRECISIONS = {"bf16": "bf16", "fp16": "bf16", "bfloat16": "bf16", "float16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block"}
PRECISIONS |= {"fp8_static": "fp8", "nvfp4": "nvfp4", "fp4": "nvfp4", "int4_wo": "int4", "int4": "int4", "mxfp4": "mxfp4"}
ASKED_NOW = "9999"
"""`Case.measured` of a question: later than every measurement."""


LARGEST = 1 << 20
"""Of tokens, requests and GPUs that a cell may name."""
MOST_TOKENS = 1 << 30
"""Of all clients' requests together: each step of each is simulated."""


@dataclass(frozen=True)
class Plan:
    """How one replica is cut: tensor x attention_data = expert_tensor x expert GPUs."""

    tensor: int = 1
    attention_data: int = 1
    expert_tensor: int = 1
    expert: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.tensor * self.attention_data


@dataclass(frozen=True)
class Case:
    """One serving point.

    Args:
        device: name as in the kernel library.
        engine: vllm, sglang, trtllm; `version` as printed, may be empty.
        measured: date of a measurement (2026-04-20), empty where its source names none, `ASKED_NOW` for a question.
        image: tag of the container that was measured, empty where its source names none.
        origin: benchmark (the public client: burst of C, then closed loop) or vendor.
        precision: the row's label.
        gemm, attention, experts: types of the matrix products, of those around attention, of the routed experts.
        input_tokens, output_tokens: labels; the drawn lengths are uniform from 0.8 of them.
        answers: how lengths of answers are drawn: evenly, or as a model ends them by itself, exponentially with the same mean.
        clients: requests in flight on one attention rank (aggregated) or on one decode rank (disaggregated).
        plan: of the replica; with `prefill`, of a decode worker.
        prefill, prefill_workers, decode_workers, prefill_batch: disaggregated serving.
    """

    model: ServedModel
    device: str
    engine: str
    version: str
    origin: str
    precision: str
    gemm: str
    attention: str
    experts: str
    input_tokens: int
    output_tokens: int
    clients: int
    plan: Plan
    prefill: Plan | None = None
    prefill_workers: int = 0
    decode_workers: int = 0
    prefill_batch: int = 1
    note: str = ""
    measured: str = ASKED_NOW
    answers: Literal["even", "exponential"] = "even"
    image: str = ""


def corrected(tensor: int, data: int, expert_tensor: int, expert: int) -> tuple[Plan, bool]:
    """A plan with squared widths undone: N GPUs with expert parallelism that were written as N x N.

    117 of the sample's 430 such rows have a twin with the right width and identical times (data/recorded/aiconfigurator/README.md).
    """
    if expert_tensor == expert > 1 and tensor * data == expert * expert:
        plan = Plan(1, expert, 1, expert) if tensor == 1 else Plan(expert, 1, 1, expert)
        return plan, True
    if expert_tensor == 1 and tensor == data > 1 and expert == tensor * data:
        return Plan(tensor, 1, 1, tensor), True
    return Plan(tensor, data, expert_tensor, expert), False


def types(model: ServedModel, gemm: str, moe: str, precision: str, name: str) -> tuple[str, str, str, str]:
    """Label, types of the matrix products, of those around attention, of the routed experts; unknown labels are refused."""
    gemm, moe, precision = gemm.lower(), moe.lower(), precision.lower()
    for given in (gemm, moe, precision):
        if given and given not in PRECISIONS:
            raise InputError(f"unknown type {given!r}", key="precision")
    inferred = "fp8" if "fp8" in name.lower() else "nvfp4" if "nvfp4" in name.lower() or "fp4" in name.lower() else "bf16"
    label = PRECISIONS[precision or gemm or moe or inferred]
    dense = PRECISIONS[gemm] if gemm else label
    routed = PRECISIONS[moe] if moe else dense
    if model.family.startswith("gpt-oss"):
        # The checkpoint keeps attention in bf16 and its experts in MXFP4, whatever the label says (its quantization_config).
        return "fp4", "bf16", "bf16", "mxfp4"
    if model.fp8 == "block":
        # Tables say `fp8` of these too; what was served is the published checkpoint, whose scales are by block.
        dense, routed = ("fp8_block" if kind == "fp8" else kind for kind in (dense, routed))
    if dense == "int4":
        # Kimi K2.5's int4 checkpoint quantises the routed experts only (compressed-tensors `ignore` list in its config.json).
        dense = "bf16"
    short = {"nvfp4": "fp4", "mxfp4": "fp4", "fp8_block": "fp8"}.get(label, label)
    # 4-bit checkpoints of mixtures keep attention in bf16 (their hf_quant_config.json leaves self_attn and linear_attn out).
    around = "bf16" if model.experts is not None and dense == "nvfp4" else dense
    return short, dense, around, routed


def _count(value: object, key: str, default: int | None = None) -> int:
    """A cell as a whole number from 1 to `LARGEST`."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = np.nan
    if np.isnan(number) or number < 1:
        if default is not None:
            return default
        given = f"is {value!r}, no number" if _given(value) else "is missing"
        raise InputError(f"{key} {given}" if np.isnan(number) else f"{key} is {number:g}", key=key)
    if number > LARGEST:
        raise InputError(f"{key} is {number:g}, at most {LARGEST:,} is answered", key=key)
    return int(number)


def _given(value: object) -> bool:
    """Is a cell filled?"""
    return value is not None and value == value and str(value).strip().lower() not in ("", "nan")


def _plan(row: Mapping[str, object], prefix: str, experts: Experts | None) -> tuple[Plan, bool]:
    plan, squared = _widths(row, prefix, experts is not None)
    if experts is not None and experts.count % plan.expert:
        raise InputError(f"{experts.count} experts do not divide by {plan.expert}", key=prefix + "moe_ep_size")
    return plan, squared


def _widths(row: Mapping[str, object], prefix: str, experts: bool) -> tuple[Plan, bool]:
    tensor = _count(row.get(prefix + "tp_size"), prefix + "tp_size")
    data = _count(row.get(prefix + "attention_dp_size"), prefix + "attention_dp_size", 1)
    if not experts:
        return Plan(tensor, data, tensor, 1), False
    expert_tensor = _count(row.get(prefix + "moe_tp_size"), prefix + "moe_tp_size", 1)
    expert = _count(row.get(prefix + "moe_ep_size"), prefix + "moe_ep_size", 1)
    if not _given(row.get(prefix + "attention_dp_size")) and expert_tensor * expert % tensor == 0:
        data = max(1, expert_tensor * expert // tensor)
        return Plan(tensor, data, expert_tensor, expert), False
    plan, squared = corrected(tensor, data, expert_tensor, expert)
    if plan.expert_tensor * plan.expert != plan.gpus:
        if plan.expert_tensor * plan.expert == 1:
            plan = replace(plan, expert_tensor=plan.gpus)
        else:
            raise InputError(
                f"{prefix}tp x attention dp = {plan.gpus} GPUs, moe tp x ep = {plan.expert_tensor * plan.expert}",
                key=prefix + "moe_tp_size",
            )
    return plan, squared


def _clients(row: Mapping[str, object], prefix: str, plan: Plan, tokens: int) -> int:
    """Requests in flight on a rank, for requests of so many tokens."""
    shipped = _count(row.get(prefix + "attention_dp_size"), prefix + "attention_dp_size", plan.attention_data)
    clients = max(1, round(_count(row.get(prefix + "batch_size"), prefix + "batch_size") * shipped / plan.attention_data))
    if clients * tokens > MOST_TOKENS:
        raise InputError(f"{clients:,} requests of {tokens:,} tokens at a time; at most {MOST_TOKENS:,} tokens", key=prefix + "batch_size")
    return clients


def origin(text: str) -> str:
    """Who measured: the vendor's own gap analysis, or (also when nothing is said) the public benchmark."""
    return "vendor" if "auto-gap-analysis" in text or "gtl_job" in text else "benchmark"


def measured(text: str) -> str:
    """When? The date in a measurement's source, empty where it has none; a row without source is a question."""
    found = re.search(r"measured=(\d{4}-\d\d-\d\d)", text)
    return found[1] if found else "" if text else ASKED_NOW


def image(text: str) -> str:
    """Tag of the container image in a measurement's source: what follows the last colon."""
    found = re.search(r"[/#][\w.-]+:([\w.-]+)$", text)
    return found[1] if found else ""


def case(row: Mapping[str, object]) -> Case:
    """One row of a table in the sample's columns.

    Raises:
        InputError: what keeps the row from being answered.
    """

    def text(key: str) -> str:
        return str(row[key]).strip() if _given(row.get(key)) else ""

    model = find(text("model_path"))
    engine = ENGINES.get(text("backend").lower())
    if engine is None:
        raise InputError(f"unknown engine {text('backend')!r}; known: {', '.join(sorted(set(ENGINES.values())))}", key="backend")
    label, gemm, attention, experts = types(model, text("gemm_quant_mode"), text("moe_quant_mode"), text("precision"), text("model_path"))
    input_tokens, output_tokens = _count(row.get("isl"), "isl"), _count(row.get("osl"), "osl")
    if output_tokens < 2:
        raise InputError("time per output token needs at least 2 output tokens", key="osl")
    contexts.check(text("model_path"), input_tokens + output_tokens, "isl")
    if _count(row.get("pp_size"), "pp_size", 1) > 1 or _count(row.get("decode_pp_size"), "decode_pp_size", 1) > 1:
        raise InputError("pipeline parallelism is not covered", key="pp_size")
    device = gpus.name(text("system"))
    if engine == "trtllm" and devices.load(gpus.SYSTEMS.get(device, device)).vendor != "NVIDIA":
        raise InputError(f"TensorRT-LLM runs on NVIDIA's GPUs, not on {device}", key="backend")
    common: dict[str, Any] = dict(  # noqa: C408
        model=model, device=device, engine=engine, version=text("backend_version"), origin=origin(text("silicon_data_source")),
        measured=measured(text("silicon_data_source")), image=image(text("silicon_data_source")),
        precision=label, gemm=gemm, attention=attention, experts=experts, input_tokens=input_tokens, output_tokens=output_tokens,
    )  # fmt: skip
    mode = text("mode").lower() or "agg"
    if mode not in ("agg", "disagg"):
        raise InputError(f"unknown mode {mode!r}; known: agg, disagg", key="mode")
    if mode == "agg":
        plan, squared = _plan(row, "", model.experts)
        if model.experts is None and model.attention.heads % plan.tensor:  # of mixtures, tables give widths that count the worker's GPUs
            raise InputError(f"{model.attention.heads} heads do not divide by {plan.tensor}", key="tp_size")
        clients = _clients(row, "", plan, input_tokens + output_tokens)
        note = f"widths read as {plan.gpus} GPUs, not {plan.gpus**2}" if squared else ""
        return Case(**common, clients=clients, plan=plan, note=note)
    missing = [key for key in ("prefill_num_workers", "decode_num_workers") if not text(key)]
    if missing:
        raise InputError(f"disaggregated without worker counts ({', '.join(missing)})", key=missing[0])
    prefill, first = _plan(row, "prefill_", model.experts)
    plan, second = _plan(row, "decode_", model.experts)
    clients = _clients(row, "decode_", plan, input_tokens + output_tokens)
    return Case(
        **common,
        clients=clients,
        plan=plan,
        prefill=prefill,
        prefill_workers=_count(row.get("prefill_num_workers"), "prefill_num_workers"),
        decode_workers=_count(row.get("decode_num_workers"), "decode_num_workers"),
        prefill_batch=_count(row.get("prefill_batch_size"), "prefill_batch_size", 1),
        note="squared widths undone" if first or second else "",
    )


def read(frame: pd.DataFrame) -> tuple[list[Case | None], list[str]]:
    """Cases of a table, and for each that is none the reason."""
    return read_rows(frame, case)
