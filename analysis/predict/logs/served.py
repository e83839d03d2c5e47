"""Results of benchmark clients of servers as serving points: means of times and rates, and how requests came.

| client | told by | lengths | arrivals |
|---|---|---|---|
| `vllm bench serve --save-result` | mean_ttft_ms | means of all tokens; `input_lens` where kept | request_rate, max_concurrency |
| `sglang.bench_serving` (lines) | random_input_len, mean_ttft_ms | random: label and shortest share; else means | the same |
| AIPerf, genai-perf | time_to_first_token: {unit, avg} | input_sequence_length, output_sequence_length | input_config |
| InferenceX, InferenceMAX | conc, mean_ttft (s), output_tput_per_gpu | isl, osl, from 0.8 of them | a burst, then a closed loop |

Sources: the writers' own code and documentation (vllm-project/vllm vllm/benchmarks/serve.py, sgl-project/sglang
python/sglang/bench_serving.py, ai-dynamo/aiperf docs/tutorials/working-with-profile-exports.md, SemiAnalysisAI/InferenceX
utils/process_result.py), 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.errors import InputError
from analysis.predict.logs.log import Log, number, records, text_of
from analysis.vocabulary import ENGINES, engine

TO_MS = {"ms": 1.0, "s": 1e3, "sec": 1e3, "us": 1e-3, "ns": 1e-6}
FIXED = "lengths taken as fixed at their means: the log does not say how they were drawn (--length-low does)"


def read(path: str | Path) -> Log:
    """Every result in a file."""
    rows, notes, tools = [], [], []
    for one in records(path):
        tool, taken = next(((name, read_one) for name, is_of, read_one in CLIENTS if is_of(one)), ("", None))
        if taken is None:
            raise InputError(
                "results of no known client; known: vLLM, SGLang (mean_ttft_ms), AIPerf (time_to_first_token), InferenceX (conc)",
                path=path,
            )
        row, said = taken(one, path)
        rows.append(text_of(row))
        notes += said
        tools.append(tool)
    if len(set(tools)) > 1:
        raise InputError(f"results of {' and '.join(sorted(set(tools)))} in one file", path=path)
    return Log("serving", tools[0], rows, tuple(dict.fromkeys(notes)))


def _measured(one: dict[str, Any], path: str | Path, keys: dict[str, str], scale: float = 1.0) -> dict[str, float | None]:
    found = {f"measured_{ours}": number(one.get(theirs), path, theirs) for ours, theirs in keys.items()}
    return {key: None if value is None else value * (scale if key.endswith("_ms") else 1.0) for key, value in found.items()}


def _arrivals(one: dict[str, Any], path: str | Path, requests: float | None) -> tuple[dict[str, Any], list[str]]:
    """Columns of how requests came, from `request_rate` and `max_concurrency`."""
    rate, most = one.get("request_rate"), number(one.get("max_concurrency"), path, "max_concurrency")
    if rate in (None, "inf", "Infinity", -1, 0):  # JSON has no infinity: null here
        if most is None or (requests is not None and most >= requests):
            return {"arrival": "offline", "requests": requests, "clients": requests}, []
        return {"arrival": "closed", "requests": requests, "clients": most}, []
    row = {"arrival": "poisson", "request_rate": number(rate, path, "request_rate"), "requests": requests, "clients": 1}
    notes = [f"at most {most:g} requests in flight, which a rate of its own does not know"] if most is not None else []
    if one.get("burstiness") not in (None, 1, 1.0):
        notes.append(f"burstiness {one['burstiness']} is answered as a Poisson stream")
    return row, notes


def _lengths(one: dict[str, Any], path: str | Path, completed: float) -> tuple[dict[str, Any], list[str]]:
    """Columns of lengths: labels, from which the predictor draws down to `length_low` of them."""
    if one.get("dataset_name") == "random" and one.get("random_input_len") and one.get("random_range_ratio") is not None:
        ratio = number(one["random_range_ratio"], path, "random_range_ratio") if one["random_range_ratio"] else 0.0
        row = {"input_tokens": number(one["random_input_len"], path, "random_input_len"), "length_low": ratio}
        return row | {"output_tokens": number(one.get("random_output_len"), path, "random_output_len")}, []
    means = {}
    for ours, theirs in (("input_tokens", "total_input_tokens"), ("output_tokens", "total_output_tokens")):
        total = number(one.get(theirs), path, theirs)
        means[ours] = None if total is None else total / completed
    drawn = one.get("input_lens")
    if isinstance(drawn, list) and drawn and all(isinstance(each, int) and each > 0 for each in drawn):
        low = min(drawn) / max(drawn)
        return {key: mean and 2 * mean / (1 + low) for key, mean in means.items()} | {"length_low": low}, []
    return means, [FIXED]


def _client(one: dict[str, Any], path: str | Path) -> tuple[dict[str, Any], list[str]]:
    """vLLM's and SGLang's result."""
    completed = number(one.get("completed"), path, "completed")
    if completed is None:
        raise InputError("says no number of completed requests", path=path, key="completed")
    arrivals, first = _arrivals(one, path, completed)
    lengths, second = _lengths(one, path, completed)
    name = engine(str(one.get("backend") or one.get("endpoint_type") or "").removesuffix("-chat").removesuffix("-oai"))
    row = {"model": one.get("model_id"), "engine": name if name in ENGINES else None, **lengths, **arrivals}
    if one.get("accept_length"):
        row["nextn"] = "unknown"
    for key in ("tensor_parallel_size", "tp"):  # of --metadata
        row["tensor_parallel"] = row.get("tensor_parallel") or one.get(key)
    means = {
        "ttft_ms": "mean_ttft_ms",
        "tpot_ms": "mean_tpot_ms",
        "output_tokens_per_s": "output_throughput",
        "requests_per_s": "request_throughput",
    }
    return row | _measured(one, path, means), first + second


def _inferencex(one: dict[str, Any], path: str | Path) -> tuple[dict[str, Any], list[str]]:
    """InferenceX's processed result, in seconds and a GPU."""
    if one.get("disagg") in (True, "true") or one.get("is_multinode") in (True, "true"):
        raise InputError(
            "prompts and answers have workers of their own: give such points as a CSV of `predict serving`", path=path, key="disagg"
        )
    gpus = number(one.get("tp"), path, "tp") or 1.0
    data = gpus if str(one.get("dp_attention")).lower() == "true" else 1.0
    row = {
        "model": one.get("model"), "device": str(one.get("hw", "")).partition("-")[0],
        "engine": engine(str(one.get("framework") or "")),
        "precision": one.get("precision"), "tensor_parallel": gpus / data, "data_parallel": data, "expert_parallel": one.get("ep"),
        "clients": number(one.get("conc"), path, "conc"), "input_tokens": one.get("isl"), "output_tokens": one.get("osl"),
    }  # fmt: skip
    if str(one.get("spec_decoding") or one.get("mtp") or "none").lower() not in ("none", "off", "false", "0"):
        row["nextn"] = "unknown"
    found = _measured(one, path, {"ttft_ms": "mean_ttft", "tpot_ms": "mean_tpot"}, 1e3)
    rate = number(one.get("output_tput_per_gpu"), path, "output_tput_per_gpu")
    return row | found | {"measured_output_tokens_per_s": None if rate is None else rate * gpus}, []


def _nested(value: Any, *names: str, depth: int = 6) -> Iterator[Any]:
    """Values of a key by any of its names, wherever it stands in nested objects."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key in names and inner not in (None, "", []):
            yield inner[0] if isinstance(inner, list) else inner
        if depth:
            yield from _nested(inner, *names, depth=depth - 1)


def _aiperf(one: dict[str, Any], path: str | Path) -> tuple[dict[str, Any], list[str]]:
    """AIPerf's and genai-perf's export."""

    def mean(name: str) -> float | None:
        metric = one.get(name)
        if not isinstance(metric, dict):
            return None
        value = number(metric.get("avg"), path, f"{name}.avg")
        unit = str(metric.get("unit", "")).lower()
        return value if value is None or unit not in TO_MS else value * TO_MS[unit]

    asked = one.get("input_config") or {}
    names = {"model": ("model_names", "model"), "max_concurrency": ("concurrency",), "request_rate": ("request_rate",)}
    first = {name: next(_nested(asked, *keys), None) for name, keys in names.items()}
    requests = mean("request_count") or number(next(_nested(asked, "request_count"), None), path, "request_count")
    arrivals, notes = _arrivals({key: value for key, value in first.items() if not isinstance(value, dict)}, path, requests)
    row = {"model": first["model"] if isinstance(first["model"], str) else None, **arrivals}
    row |= {"input_tokens": mean("input_sequence_length"), "output_tokens": mean("output_sequence_length")}
    row |= {"measured_ttft_ms": mean("time_to_first_token"), "measured_tpot_ms": mean("inter_token_latency")}
    return row | {"measured_output_tokens_per_s": mean("output_token_throughput"), "measured_requests_per_s": mean("request_throughput")}, [
        *notes,
        FIXED,
    ]


CLIENTS = (
    ("InferenceX", lambda one: "conc" in one and ("mean_ttft" in one or "tput_per_gpu" in one), _inferencex),
    ("AIPerf", lambda one: isinstance(one.get("time_to_first_token"), dict), _aiperf),
    ("SGLang", lambda one: "mean_ttft_ms" in one and ("random_input_len" in one or "total_output_tokens_retokenized" in one), _client),
    ("vLLM", lambda one: "mean_ttft_ms" in one, _client),
)
"""Client, what its results are told by, and what takes them; the first that matches."""
