"""One serving point: model, device, engine, plan, lengths, clients; read from a table in aiconfigurator's columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis import vocabulary
from analysis.case_columns import Columns
from analysis.case_rows import read_cases
from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices, systems
from analysis.kernels import gpus
from analysis.paths import DATA
from analysis.serving.points.drafts import ACCEPTANCE, MOST_DRAFTED, Draft, draft
from analysis.serving.points.drafts import in_words as draft_in_words
from analysis.tables import as_number
from analysis.workloads import models
from analysis.workloads.models import Experts, Model

Row = dict[str, str]
"""Cells of a row that are filled, by column."""
COLUMNS = ("backend", "model_path", "system", "mode", "isl", "osl")
_OF_A_WORKER = ("batch_size", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
READS = Columns(
    names=(
        *COLUMNS, "backend_version", "precision", "gemm_quant_mode", "moe_quant_mode", "kvcache_quant_mode", *_OF_A_WORKER,
        "silicon_data_source", "max_num_seqs", "max_batched_tokens", "memory_utilization", "engine_version", "arrival", "requests",
        "request_rate", "length_low", "draft", "nextn", "acceptance", "prefix", "lora_adapters", "lora_rank", "gpus",
        *(f"{worker}_{name}" for worker in ("prefill", "decode") for name in (*_OF_A_WORKER, "num_workers")),
    ),
    required=tuple(name for name in COLUMNS if name != "mode"),
)  # fmt: skip
"""Columns of a table of serving points: aiconfigurator's, and ours."""
PRECISIONS = dict.fromkeys(("bf16", "fp16", "bfloat16", "float16", "half", "16"), "bf16") | {"fp8": "fp8", "fp8_block": "fp8_block"}
PRECISIONS |= {"fp8_static": "fp8", "nvfp4": "nvfp4", "fp4": "nvfp4", "mxfp4": "mxfp4", "int8": "int8", "w8a8": "int8"}
PRECISIONS |= dict.fromkeys(("int4", "int4_wo", "w4a16", "awq", "gptq"), "int4") | dict.fromkeys(("int8_wo", "w8a16"), "int8_wo")
KV_TYPES = dict.fromkeys(("bf16", "fp16", "bfloat16", "float16"), "bf16") | dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), "fp8")
LABELS = {"fp32": "bf16", "int8": "int8_wo"}
"""Type of a checkpoint's weights -> as which they are served."""
ASKED_NOW = "9999"
"""`Case.measured` of a question: later than every measurement."""


SHORTEST = 0.8
"""Shortest length over the label: `--random-range-ratio 0.8` of the benchmark's client; the vendor's own draws no lengths."""
MEAN_LENGTH = 0.9
"""Mean length over the label with it."""
LARGEST = 1 << 20
"""Of tokens and GPUs that a cell may name."""
MOST_CLIENTS = 10_000
"""Of a replica: each of their requests is simulated."""
MOST_LORA_RANK = 512
"""vLLM's greatest --max-lora-rank."""
MOST_TOKENS = 1 << 30
"""Of all clients' requests together: each step of each is simulated."""


@dataclass(frozen=True)
class Plan:
    """How one replica is cut: tensor x attention_data = expert_tensor x expert GPUs, for each of the pipeline's stages."""

    tensor: int = 1
    attention_data: int = 1
    expert_tensor: int = 1
    expert: int = 1
    pipeline: int = 1

    @property
    def stage_gpus(self) -> int:
        """GPUs that share a layer."""
        return self.tensor * self.attention_data

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.stage_gpus * self.pipeline

    @property
    def ranks(self) -> int:
        """Groups of requests that are served side by side: attention ranks, and a pipeline's micro-batches, one a stage."""
        return self.attention_data * self.pipeline


@dataclass(frozen=True)
class Case:
    """One serving point.

    Args:
        device: name as in the kernel library.
        engine: vllm, sglang, trtllm; `version` as printed, may be empty.
        measured: date of a measurement (2026-04-20), empty where its source names none, `ASKED_NOW` for a question.
        origin: benchmark (the public client: burst of C, then closed loop) or vendor.
        precision: the row's label.
        gemm, attention, experts: types of the matrix products, of those around attention, of the routed experts.
        input_tokens, output_tokens: labels; the drawn lengths are uniform from 0.8 of them.
        answers: how lengths of answers are drawn: evenly, or as a model ends them by itself, exponentially with the same mean.
        clients: requests in flight on one rank (aggregated) or on one decode rank (disaggregated); see `Plan.ranks`.
        arrival: closed (each client asks again when it is answered), poisson (`rate` requests a second, who waits does not matter), offline
            (all `requests` at the start, `clients` of them at a time), static (one batch, all at once).
        requests: of the run on one rank, 0: as many as the engine's client sends; rate: of one rank (1/s).
        length_low: shortest length over the label, drawn evenly from there; negative: the benchmark's or the vendor's.
        plan: of the replica; with `prefill`, of a decode worker.
        prefill, prefill_workers, decode_workers: disaggregated serving.
        kv: type of the KV cache, empty: as the engine decides for the checkpoint (`settings.kv_type`).
        max_running: most requests that run at a time (max_num_seqs), 0: as the engine was started; likewise batched_tokens (of a step) and
            memory_share (of the memory that weights and cache, or with TensorRT-LLM the cache beside them, may take).
        prefix: tokens at the start of each prompt that the KV cache holds already.
        draft, drafted, acceptance: what drafts tokens, how many in a step, and the chance that the next of them is right (negative: not
            given, `drafts.ACCEPTANCE`).
        lora_adapters, lora_rank: LoRA adapters that lie in memory, of which each request takes one, and their rank; 0: none.
        assumed: sentences on what the row did not say, or said otherwise.
    """

    model: Model
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
    measured: str = ASKED_NOW
    answers: Literal["even", "exponential"] = "even"
    kv: str = ""
    max_running: int = 0
    batched_tokens: int = 0
    memory_share: float = 0.0
    arrival: str = "closed"
    requests: int = 0
    rate: float = 0.0
    length_low: float = -1.0
    prefix: int = 0
    draft: Draft | None = None
    drafted: int = 0
    acceptance: float = -1.0
    lora_adapters: int = 0
    lora_rank: int = 0
    assumed: tuple[str, ...] = ()

    @property
    def benchmark_client(self) -> bool:
        """Is the question of the public benchmark's client, whose launch scripts then hold?"""
        return self.arrival == "closed" and not self.requests and not self.prefix and self.length_low in (-1.0, SHORTEST)

    @property
    def step_tokens(self) -> tuple[float, float, float]:
        """Tokens that a sequence gets from a decode step, its own and those drafted up to the first that is wrong: means that are least,
        expected and most."""
        chances = ACCEPTANCE if self.acceptance < 0 else (self.acceptance,) * 3
        least, expected, most = (sum(chance**i for i in range(self.drafted + 1)) for chance in chances)
        return least, expected, most

    @property
    def types(self) -> str:
        """Types of the matrix products and, where they differ, of the routed experts."""
        return " and ".join(dict.fromkeys((self.gemm, self.experts if self.model.experts else self.gemm)))

    @property
    def shortest(self) -> float:
        """Shortest length of a request over its label."""
        if self.length_low >= 0:
            return self.length_low
        return 1.0 if self.origin == "vendor" or self.arrival == "static" else SHORTEST

    @property
    def mean_length(self) -> float:
        """Mean length of a request over its label."""
        return MEAN_LENGTH if self.shortest == SHORTEST else 0.5 * (1 + self.shortest)


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


def served(name: str) -> Model:
    """A model of whose layers there are kernel tables."""
    model = models.load(name)
    kinds = {
        "an encoder": not model.causal,
        "no softmax attention": model.attention is None,
        "weights in MXFP8": "mxfp8" in model.types.model_dump().values(),
    }
    if other := [kind for kind, has in kinds.items() if has]:
        raise InputError(f"serving of {model.name} is not covered: {', '.join(other)}", key="model")
    return model


def checkpoints(model: Model) -> tuple[str, ...]:
    """Types of the published checkpoints of a model that has none in 16 bits, its own first; the others stand in its aliases' names."""
    kind = model.types.experts if model.experts else model.types.dense
    own = plain(LABELS.get(kind, kind))
    if own == "bf16":
        return ()
    named = (kind for name in model.aliases for kind in ("nvfp4", "fp8", "int4") if name.lower().endswith(kind))
    return tuple(dict.fromkeys((own, *named)))


def types(model: Model, gemm: str, moe: str, precision: str, name: str) -> tuple[str, str, str, str]:
    """Label, types of the matrix products, of those around attention, of the routed experts."""
    gemm, moe, precision = gemm.lower(), moe.lower(), precision.lower()
    for given in (gemm, moe, precision):
        if given and given not in PRECISIONS:
            raise InputError(f"unknown type {given!r}; known: {', '.join(PRECISIONS)}", key="precision")
    label = PRECISIONS[precision or gemm or moe or "bf16"]
    dense = PRECISIONS[gemm] if gemm else label
    routed = PRECISIONS[moe] if moe else dense
    published, own = checkpoints(model), model.types
    if own.experts == "mxfp4":  # gpt-oss has no other checkpoint, whatever the label says
        return "fp4", own.dense, own.attention, own.experts
    if published and dense == routed == "bf16":
        label = dense = routed = published[0]
    if published and not {plain(label), plain(routed)} & set(published):
        raise InputError(f"{model.name} has no checkpoint in {label}; published: {', '.join(published)}", key="precision")
    if model.fp8 == "block":
        # Tables say `fp8` of these too; what was served is the published checkpoint, whose scales are by block.
        dense, routed = ("fp8_block" if kind == "fp8" else kind for kind in (dense, routed))
    short = {"nvfp4": "fp4", "mxfp4": "fp4"}.get(label, plain(label))
    # 4-bit checkpoints of mixtures keep attention in bf16 (their hf_quant_config.json leaves self_attn and linear_attn out).
    around = "bf16" if model.experts is not None and dense == "nvfp4" else dense
    if published and plain(dense) == plain(routed) == published[0]:  # the checkpoint itself, which may leave some parts in 16 bits
        dense, around = (LABELS.get(kind, kind) for kind in (own.dense, own.attention))
    return short, dense, around, routed


def plain(kind: str) -> str:
    """A type without the shape of its scales."""
    return "fp8" if kind == "fp8_block" else kind


def _filled(row: Mapping[str, object]) -> Row:
    """The cells of a row that say something, as text."""
    cells = {key: "" if value is None else str(value).strip() for key, value in row.items()}
    return {key: cell for key, cell in cells.items() if cell.lower() not in ("", "nan")}


def _within(row: Row, key: str, most: float) -> float | None:
    """A cell as a number from 0 to `most`; None where it is empty."""
    if key in row and not 0 <= as_number(row[key]) <= most:
        raise InputError(f"{key} is {row[key]!r}, no number from 0 to {most:g}", key=key)
    return as_number(row[key]) if key in row else None


def _count(row: Row, key: str, default: int | None = None) -> int:
    """A cell as a whole number from 1 to `LARGEST`; an empty one, or 0, is the default where there is one."""
    number = as_number(row.get(key, ""))
    if default is not None and (number == 0 or key not in row):
        return default
    if np.isnan(number) or number < 1 or number != np.floor(number):
        given = f"is {row[key]!r}, no number" if key in row else "is missing"
        raise InputError(f"{key} {given}" if np.isnan(number) else f"{key} is {number:g}, expected a whole number from 1", key=key)
    if number > LARGEST:
        raise InputError(f"{key} is {number:g}, at most {LARGEST:,} is answered", key=key)
    return int(number)


def _length(row: Row, key: str) -> int:
    """A length in tokens, which as a mean or a label of a mean may have a fraction."""
    number = as_number(row.get(key, ""))
    return _count({key: str(round(number))} if np.isfinite(number) and number >= 1 else row, key)


def _of_gpus(row: Row) -> Row:
    """The row of a replica with its tensor width, where it says how many GPUs the replica has."""
    if "gpus" not in row:
        return row
    asked, others = _count(row, "gpus"), _count(row, "pp_size", 1) * _count(row, "attention_dp_size", 1)
    tensor = _count(row, "tp_size", max(1, asked // others))
    if tensor * others != asked:
        raise InputError(f"{asked} GPUs of a replica, but its plan has {tensor * others}: tensor x attention data x pipeline", key="gpus")
    return {**row, "tp_size": str(tensor)}


def _plan(row: Row, prefix: str, experts: Experts | None) -> tuple[Plan, bool]:
    """The plan of a stage, and whether its widths were squared."""
    widths = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    tensor, data, expert_tensor, expert = (_count(row, prefix + name, 1) for name in widths)
    if experts is None:
        return Plan(tensor, data, tensor, 1), False
    if prefix + "attention_dp_size" not in row and expert_tensor * expert % tensor == 0:
        plan, squared = Plan(tensor, expert_tensor * expert // tensor, expert_tensor, expert), False
    else:
        plan, squared = corrected(tensor, data, expert_tensor, expert)
        if plan.expert_tensor * plan.expert == 1:
            plan = replace(plan, expert_tensor=plan.stage_gpus)
    if (of_experts := plan.expert_tensor * plan.expert) != plan.stage_gpus:
        raise InputError(f"{prefix}tp x attention dp = {plan.gpus} GPUs, moe tp x ep = {of_experts}", key=prefix + "moe_tp_size")
    if experts.count % plan.expert:
        raise InputError(f"{experts.count} experts do not divide by {plan.expert}", key=prefix + "moe_ep_size")
    return plan, squared


def _widths_of_none(row: Row, prefix: str, plan: Plan, model: Model) -> list[str]:
    """Note for `assumed` on widths of experts that a dense model does not have; tables repeat the attention's width there."""
    widths = {"moe_tp_size": (1, plan.tensor, plan.gpus), "moe_ep_size": (1,)}
    given = {prefix + name: _count(row, prefix + name, 1) for name in widths} if model.experts is None else {}
    stray = [f"{name} {width}" for name, width in given.items() if width not in widths[name.removeprefix(prefix)]]
    return [f"{' and '.join(stray)} not used: the model has no experts"] if stray else []


def _clients(row: Row, prefix: str, plan: Plan, tokens: int) -> tuple[int, list[str]]:
    """Requests in flight on a rank, for requests of so many tokens, and a note where they do not divide by the ranks."""
    shipped = _count(row, prefix + "attention_dp_size", plan.attention_data)
    asked = _count(row, prefix + "batch_size", 1 if row.get("arrival") == "poisson" else None) * shipped
    if asked > MOST_CLIENTS:
        raise InputError(f"{asked:,} clients of a replica; at most {MOST_CLIENTS:,} are answered", key=prefix + "batch_size")
    clients = max(1, round(asked / plan.ranks))
    if clients * tokens > MOST_TOKENS:
        raise InputError(f"{clients:,} requests of {tokens:,} tokens at a time; at most {MOST_TOKENS:,} tokens", key=prefix + "batch_size")
    uneven = f"{asked} clients as {clients * plan.ranks}: {clients} on each of {plan.ranks} ranks and stages"
    return clients, [uneven] if asked != clients * plan.ranks and row.get("arrival") != "poisson" else []


def origin(text: str) -> str:
    """Who measured: the vendor's own gap analysis, or (the default) the public benchmark."""
    return "vendor" if "auto-gap-analysis" in text or "gtl_job" in text else "benchmark"


def measured(text: str) -> str:
    """When? The date in a measurement's source, empty where it has none; a row without source is a question."""
    found = re.search(r"measured=(\d{4}-\d\d-\d\d)", text)
    return found[1] if found else "" if text else ASKED_NOW


def machine(device: str) -> systems.System:
    """The usual machine of a device."""
    return systems.of_device(devices.load(device))


class Platforms(Strict):
    """Where an engine runs: its name, devices in words, architectures of `data/hardware`, and the documentation that lists them."""

    name: str
    where: str
    architectures: tuple[str, ...]
    sources: tuple[str, ...]


class _Platforms(Strict):
    engines: dict[str, Platforms]


@cache
def runs_on() -> dict[str, Platforms]:
    """Where each engine runs."""
    return read_yaml(DATA / "workloads" / "engine_devices.yaml", _Platforms).engines


def check_engine(engine: str, device: str) -> str:
    """An engine, by the one rule of which runs where (`runs_on`); other engines are not checked."""
    known, chip = runs_on().get(engine), devices.load(device)
    if known and chip.architecture not in known.architectures:
        raise InputError(f"{known.name} runs on {known.where}, not on {chip.name}", key="backend")
    return engine


def without_bf16(device: str) -> bool:
    """Does a device multiply in fp16 but not in bf16 (before Ampere)?"""
    peaks = gpus.load(device).peak_flop_per_s
    return "fp16" in peaks and "bf16" not in peaks


def in_words(kind: str, device: str) -> str:
    """A type, or several, as it is served on a device: 16 bits are fp16 where there is no bf16."""
    return kind.replace("bf16", "fp16") if without_bf16(device) else kind


def _check_plan(plan: Plan, device: str, model: Model, key: str, asked_now: bool, drafts: Draft | None) -> list[str]:
    """Refuse a plan that cannot be; what is assumed of its stages."""
    if drafts is not None and drafts.model.heads % plan.tensor:
        raise InputError(f"{drafts.model.heads} heads of the draft model {drafts.model.name} do not divide by {plan.tensor}", key=key)
    system = machine(device)
    if plan.gpus > system.devices_per_node and system.network is None:
        raise InputError(f"{plan.gpus} GPUs of one replica: no machine of more than {system.devices_per_node} {device} is known", key=key)
    # Of measured mixtures, tables give widths that count the worker's GPUs.
    if (model.experts is None or asked_now) and model.heads % plan.tensor:
        raise InputError(f"{model.heads} heads do not divide by {plan.tensor}", key=key)
    far = plan.stage_gpus <= system.devices_per_node < plan.gpus  # collectives over a network say so themselves
    return [f"stages lie in nodes of {system.devices_per_node} and send over the network"] if far else []


def _drafts(row: Row, model: Model, own: tuple[str, str, str], assumed: list[str]) -> dict[str, Any]:
    """The fields `draft`, `drafted` and `acceptance` of a case; `own`: types of its products, attention and experts."""
    drafted = _count(row, "nextn", 0)
    if not drafted:
        if stray := next((key for key in ("acceptance", "draft") if key in row), ""):
            raise InputError(f"{stray} without nextn (draft_tokens): nothing is drafted", key=stray)
        return {}
    if drafted > MOST_DRAFTED:
        raise InputError(f"nextn is {drafted}, at most {MOST_DRAFTED} is answered", key="nextn")

    def load(name: str) -> tuple[Model, tuple[str, str, str]]:
        found = served(name)
        return found, types(found, "", "", models.type_in_name(name) or "bf16", name)[1:]

    kind = row.get("draft", "mtp")
    kind = kind.lower().replace("-", "") if kind.lower().startswith(("mtp", "eagle")) else kind
    found: dict[str, Any] = {"draft": draft(kind, model, own, load), "drafted": drafted}
    assumed.append(draft_in_words(found["draft"], drafted))
    if (given := _within(row, "acceptance", 1.0)) is not None:
        return found | {"acceptance": given}
    least, chance, most = ACCEPTANCE
    assumed.append(f"a drafted token is right with a chance of {chance} (not given; interval: {least} to {most})")
    return found


def _adapters(row: Row, model: Model, device: str, assumed: list[str]) -> dict[str, Any]:
    """The fields `lora_adapters` and `lora_rank` of a case."""
    count = _count(row, "lora_adapters", 0)
    if not count:
        if "lora_rank" in row:
            raise InputError("lora_rank without lora_adapters: there are none", key="lora_rank")
        return {}
    rank = _count(row, "lora_rank", 16)
    if rank > MOST_LORA_RANK:
        raise InputError(f"lora_rank is {rank}, at most {MOST_LORA_RANK} is answered", key="lora_rank")
    kind = "latent attention" if model.latent else "linear attention" if model.linear else ""
    if kind or devices.load(device).kind != "gpu":
        raise InputError(f"LoRA adapters of {kind or f'a model on {device}'} are not covered", key="lora_adapters")
    where = "attention's products alone, not in the experts'" if model.experts else "all linear layers"
    assumed += ["lora_rank 16 (not given; vLLM's --max-lora-rank)"] if "lora_rank" not in row else []
    assumed.append(f"{count} LoRA adapters of rank {rank} in {where}, in 16 bits, all in memory; each request takes one, all alike often")
    assumed.append("an adapter's two kernels a product take half to twice what their bytes do: no measured run has adapters")
    return {"lora_adapters": count, "lora_rank": rank}


def _share(row: Row) -> float:
    """`memory_utilization`; 0 where it is empty."""
    share = as_number(row.get("memory_utilization", "0"))
    if "memory_utilization" in row and not 0 < share <= 1:
        raise InputError(f"memory_utilization is {row['memory_utilization']!r}, no share above 0 and at most 1", key="memory_utilization")
    return share


ARRIVALS = ("closed", "poisson", "offline", "static")


def _arrival(row: Row, ranks: int) -> dict[str, Any]:
    """How requests come to one of so many ranks: the fields `arrival`, `requests`, `rate` and `length_low` of a case."""
    rate, low = _within(row, "request_rate", 1e6), _within(row, "length_low", 1.0)
    kind = row.get("arrival", "").lower() or ("poisson" if rate else "closed")
    if kind not in ARRIVALS:
        raise InputError(f"unknown arrival {kind!r}; known: {', '.join(ARRIVALS)}", key="arrival")
    if (kind == "poisson") != bool(rate):
        said = row.get("request_rate", "empty")
        raise InputError(f"arrival {kind} with request_rate {said}: a rate is of poisson alone", key="request_rate")
    found: dict[str, Any] = {"arrival": kind, "rate": (rate or 0.0) / ranks}
    if "requests" in row:
        found["requests"] = max(1, round(_count(row, "requests") / ranks))
    return found if low is None else found | {"length_low": low}


def _weights(row: Row, model: Model, device: str, asked: bool, assumed: list[str]) -> tuple[str, str, str, str]:
    """Label of a row's weights, and types of their products, attention and experts; defaults are noted in `assumed`."""
    said = [row.get(key, "") for key in ("gemm_quant_mode", "moe_quant_mode", "precision")]
    if not any(said):  # as engines load it: the type that the checkpoint's name says, else its own, else 16 bits
        named = models.type_in_name(row["model_path"]) if asked else ""
        own = next(iter(checkpoints(model)), in_words("bf16", device)) if asked else "bf16"
        theirs = "as engines load fp32" if model.types.dense == "fp32" else "the checkpoint's own"
        said[2], why = (named, "as the model's name says") if named else (own, f"{theirs}: no precision given")
        assumed.append(f"weights in {in_words(said[2], device)} ({why})")
    elif asked and without_bf16(device) and {"bf16", "bfloat16"} & {*map(str.lower, said), row.get("kvcache_quant_mode", "").lower()}:
        raise InputError(f"{gpus.load(device).name} has no bf16: ask for fp16", key="precision")
    label, gemm, attention, experts = types(model, said[0], said[1], said[2], row["model_path"])
    if model.experts is None and said[1] and experts != gemm:
        assumed.append(f"moe_quant_mode {said[1]} not used: the model has no experts")
    given = PRECISIONS[(said[2] or said[0] or said[1]).lower()]
    kinds = dict.fromkeys(plain(kind) for kind in (gemm, experts if model.experts else gemm))
    if not {given, plain(given)} & set(kinds):
        assumed.append(f"weights in {' and '.join(kinds)}, the published checkpoint's types, not in {given}")
    return label, gemm, attention, experts


def case(raw: Mapping[str, object]) -> Case:
    """One row of a table in the sample's columns."""
    row = _filled(raw)
    source, name = row.get("silicon_data_source", ""), row.get("model_path", "")
    model = served(name)
    engine = vocabulary.engine(row.get("backend", ""))
    if engine not in vocabulary.ENGINES:
        raise InputError(f"unknown engine {row.get('backend', '')!r}; known: {', '.join(sorted(vocabulary.ENGINES))}", key="backend")
    device = gpus.name(row.get("system", ""))
    when = measured(source)
    assumed: list[str] = []
    version = row.get("backend_version", row.get("engine_version", ""))
    if row.get("engine_version", version) != version:
        raise InputError(f"backend_version {version} and engine_version {row['engine_version']} are two releases", key="engine_version")
    if version and not re.search(r"\d+\.\d+", version):
        assumed.append(f"{version} names no release: answered as one that is not known")
    label, gemm, attention, experts = _weights(row, model, device, when == ASKED_NOW, assumed)
    kv = row.get("kvcache_quant_mode", "").lower()
    if kv not in ("", "auto") and kv not in KV_TYPES:
        raise InputError(f"unknown type {kv!r} of the KV cache; known: auto, {', '.join(KV_TYPES)}", key="kvcache_quant_mode")
    input_tokens, output_tokens = _length(row, "isl"), _length(row, "osl")
    if output_tokens < 2:
        raise InputError("time per output token needs at least 2 output tokens", key="osl")
    if too_long := models.beyond(name, input_tokens + output_tokens):
        # A static batch runs in a session built for its lengths, without a server that refuses; rotary positions go on, learned ones end.
        if row.get("arrival", "").lower() != "static" or model.learned_positions:
            raise InputError(too_long, key="isl")
        assumed.append(f"the engine lets it run: {too_long}")
    assumed += models.text_alone(model)
    check_engine(engine, device)
    if row.get("arrival", "").lower() == "static" and devices.load(device).dies > 1:
        raise InputError(f"`predict batch` answers static batches on {device}, from those measured on its dies", key="arrival")
    prefix = _count(row, "prefix", 0)
    if prefix >= input_tokens:
        raise InputError(f"a prefix of {prefix:,} tokens is not shorter than the prompt of {input_tokens:,}", key="prefix")
    drafts, adapters = _drafts(row, model, (gemm, attention, experts), assumed), _adapters(row, model, device, assumed)
    if prefix:
        assumed.append(f"the KV cache holds the first {prefix:,} tokens of each prompt, each request its own copy")
    return Case(
        model=model, device=device, engine=engine, version=version, origin=origin(source), measured=when,
        precision=label, gemm=gemm, attention=attention, experts=experts, kv=KV_TYPES.get(kv, ""),
        input_tokens=input_tokens, output_tokens=output_tokens, prefix=prefix,
        max_running=_count(row, "max_num_seqs") if "max_num_seqs" in row else 0,
        batched_tokens=_count(row, "max_batched_tokens") if "max_batched_tokens" in row else 0,
        memory_share=_share(row), **drafts, **adapters,
        **_workers(row, model, device, input_tokens + output_tokens, when == ASKED_NOW, drafts.get("draft"), assumed),
        assumed=tuple(assumed),
    )  # fmt: skip


def _workers(row: Row, model: Model, device: str, tokens: int, asked: bool, drafts: Draft | None, assumed: list[str]) -> dict[str, Any]:
    """The fields of a case that say its plan, its workers and how requests of so many tokens come to them."""
    mode = row.get("mode", "agg").lower()
    if mode not in ("agg", "disagg"):
        raise InputError(f"unknown mode {mode!r}; known: agg, disagg", key="mode")
    other = [f"{worker}_{name}" for worker in ("prefill", "decode") for name in (*_OF_A_WORKER, "num_workers")]
    if stray := next((key for key in (other if mode == "agg" else ()) if row.get(key, "0") not in ("0", "0.0")), ""):
        raise InputError("only a disaggregated point (mode disagg) has workers of its own", key=stray)
    if missing := [key for key in (other if mode == "disagg" else ()) if key.endswith("num_workers") and key not in row]:
        raise InputError(f"disaggregated without worker counts ({', '.join(missing)})", key=missing[0])
    prefixes, plans = ("",) if mode == "agg" else ("prefill_", "decode_"), []
    row = _of_gpus(row) if mode == "agg" else row
    for prefix in prefixes:
        plan, squared = _plan(row, prefix, model.experts)
        plan = replace(plan, pipeline=_count(row, prefix + "pp_size", 1))
        if plan.pipeline > 1 and mode == "disagg":
            raise InputError("pipeline parallelism of prefill and decode workers is not covered", key=prefix + "pp_size")
        if plan.pipeline > model.layers:
            raise InputError(f"{plan.pipeline} stages of {model.layers} layers", key="pp_size")
        assumed += _check_plan(plan, device, model, prefix + "tp_size", asked, drafts)
        assumed += ["tensor parallel 1 (not given): the engine's default"] if not prefix and "tp_size" not in row else []
        assumed += _widths_of_none(row, prefix, plan, model)
        assumed += [f"widths read as {plan.gpus} GPUs, not {plan.gpus**2}"] * squared
        plans.append(plan)
    clients, uneven = _clients(row, prefixes[-1], plans[-1], tokens)
    assumed += uneven
    found: dict[str, Any] = {"plan": plans[-1], "clients": clients}
    if mode == "agg":
        return found | _arrival(row, plans[-1].ranks)
    prompts, answers = (_count(row, f"{prefix}num_workers") for prefix in prefixes)
    total = plans[0].gpus * prompts + plans[1].gpus * answers
    if "gpus" in row and _count(row, "gpus") != total:
        raise InputError(f"{row['gpus']} GPUs, but the workers of both kinds have {total}", key="gpus")
    found |= {"prefill": plans[0], "prefill_workers": prompts, "decode_workers": answers, **_arrival(row, plans[1].ranks * answers)}
    if found["arrival"] not in ("closed", "poisson"):
        raise InputError(f"arrival {found['arrival']} at prefill and decode workers is not covered", key="arrival")
    if (batch := _count(row, "prefill_batch_size", 1)) > 1:
        assumed.append(f"prefill_batch_size {batch} not used: prompts share a step up to its token budget")
    return found


def read(frame: pd.DataFrame) -> tuple[list[Case | None], list[str]]:
    """Cases of a table, and for each that is none the reason."""
    return read_cases(frame, case)
