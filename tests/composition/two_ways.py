"""Is one question answered with the same digits by every command that takes it? Questions are drawn, and asked in each way there is.

Ways: a command's options, a file of cases by our names and by the old ones, Python, a YAML, a search or a recommendation whose table has
the plan that is asked about, a program of one operator; models and devices by their other names. Two refusals agree; a plan that a search
leaves out because it does not fit agrees with an answer that says so.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis import face
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.training.answers import NUMBERS as TRAINED
from analysis.workloads import models
from tests.conftest import run_here

Question = dict[str, Any]
Numbers = dict[str, float]
Way = Callable[[Question, Path], Numbers]
TIMES = ("ttft", "tpot")
ENDS = ("", "_lower", "_upper")
SERVED = (
    *(f"{name}{end}_ms" for name in TIMES for end in ENDS),
    *(f"requests_per_s{end}" for end in ENDS),
    "kv_cache_tokens",
    "most_requests",
)


class Elsewhere(Exception):
    """The question cannot be put in this way."""


def said(*arguments: str) -> str:
    """What a command prints.

    Raises:
        InputError: it refuses.
    """
    done = run_here(*arguments)
    if done.returncode:
        raise InputError((done.stderr or done.stdout).strip())
    return done.stdout


def numbers(row: Mapping[Any, Any], names: Iterable[str]) -> Numbers:
    """Numbers of an answered row; what it refuses is raised."""
    status = str(row.get("status") or "")
    if status not in ("", "nan", "answered"):
        raise InputError(status)
    return {name: float(row[name]) for name in names if row.get(name) not in (None, "")}


def options(cells: Mapping[str, Any]) -> list[str]:
    """Cells as options."""
    return [word for name, value in cells.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def by_file(command: str, row: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A case's answer from a file, as JSON."""
    pd.DataFrame([row]).to_csv(folder / "cases.csv", index=False)
    answered = json.loads(said(*command.split(), str(folder / "cases.csv"), "--json"))
    return dict(answered[0])


def by_yaml(command: str, keys: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A configuration's answer, as JSON."""
    (folder / "asked.yaml").write_text(yaml.safe_dump(dict(keys)))
    return dict(json.loads(said(*command.split(), str(folder / "asked.yaml"), "--json")))


def renamed(row: Mapping[str, Any], names: Mapping[str, str]) -> Question:
    """A row under other names."""
    return {names.get(name, name): value for name, value in row.items()}


# --- a served model ---

OLD_SERVED = {
    "model": "model_path", "device": "system", "engine": "backend", "clients": "batch_size", "input_tokens": "isl", "output_tokens": "osl",
    "tensor_parallel": "tp_size", "kv_precision": "kvcache_quant_mode", "expert_parallel": "moe_ep_size",
    "engine_version": "backend_version", "memory_utilization": "gpu_memory_utilization", "max_batched_tokens": "max_num_batched_tokens",
    "lora_adapters": "max_loras",
}  # fmt: skip


def _point(question: Question) -> Question:
    return {"mode": "agg", **renamed(question, {"gpus": "tensor_parallel"})}


def _one_in_python(question: Question, _: Path) -> Numbers:
    from analysis.serving.points.waterfall import as_json

    rest = {name: value for name, value in question.items() if name not in ("model", "device")}
    return numbers(as_json(face.predict_one(question["model"], question["device"], **rest)), SERVED)


def _closed_loop(question: Question, folder: Path) -> Numbers:
    loop = {name: question[name] for name in ("clients", "input_tokens", "output_tokens")}
    steps = {name: value for name, value in question.items() if name not in loop}
    return numbers(by_yaml("serve simulate", {"requests": {"closed_loop": loop}, "steps": steps}, folder), SERVED)


def _tried(question: Question, folder: Path) -> Numbers:
    if {"memory_utilization", "max_batched_tokens", "engine_version", "lora_adapters"} & set(question):
        raise Elsewhere
    gpus, experts = question["gpus"], question.get("expert_parallel", 1)
    asked = {name: question[name] for name in ("model", "input_tokens", "output_tokens", "precision", "kv_precision") if name in question}
    asked |= {"devices": question["device"], "engines": question["engine"], "max_gpus": gpus, "tpot_target_ms": 1e6}
    said("predict", "recommend", *options(asked), "--out", str(folder / "tried.csv"))
    tried = pd.read_csv(folder / "tried.csv", dtype=str, keep_default_na=False)
    plan = {"gpus": gpus, "tensor_parallel": gpus, "pipeline_parallel": 1, "attention_data_parallel": 1, "expert_parallel": experts}
    for name, value in {**plan, "clients": question["clients"]}.items():
        tried = tried[tried[name].isin([str(value), *([""] if value == 1 else [])])]
    if tried.empty:
        raise Elsewhere
    return numbers(tried.iloc[0].to_dict() | {"status": ""}, SERVED)


SERVING: dict[str, Way] = {
    "predict one": lambda question, _: numbers(json.loads(said("predict", "one", *options(question), "--json")), SERVED),
    "predict_one": _one_in_python,
    "predict serving": lambda question, folder: numbers(by_file("predict serving", _point(question), folder), SERVED),
    "predict serving, old names": lambda question, folder: numbers(
        by_file("predict serving", renamed(_point(question), OLD_SERVED), folder), SERVED
    ),
    "predict_serving": lambda question, _: numbers(face.predict_serving(_point(question)).iloc[0].to_dict(), SERVED),
    "serve simulate": _closed_loop,
    "predict recommend": _tried,
}


def served(draw: random.Random) -> Question:
    """A served model."""
    known = ("llama-3.1-8b", "llama-3.1-70b", "qwen3-32b", "mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-120b", "gemma-3-27b-it", "deepseek-v3",
             "mistral-7b", "nemotron-3-nano", "phi-3-mini")  # fmt: skip
    found: Question = {
        "model": draw.choice(known),
        "device": draw.choice(("h100", "h200_sxm", "b200_sxm", "a100", "l40s", "L4", "MI300X", "rtx4090", "TPU-v6e")),
        "gpus": draw.choice((1, 1, 2, 4, 8)),
        "clients": draw.choice((1, 4, 16, 64)),
        "input_tokens": draw.choice((128, 1024, 4096)),
        "output_tokens": draw.choice((128, 512)),
        "engine": draw.choice(("vllm", "vllm", "sglang", "trtllm")),
    }
    found = other_names(found, draw)
    more = {
        "precision": ("bf16", "fp8", "nvfp4", "int4", "FP16"), "kv_precision": ("fp8", "bf16"), "memory_utilization": (0.8, 0.95),
        "max_batched_tokens": (2048, 16384), "engine_version": ("0.10.0",), "expert_parallel": (1, found["gpus"]),
        "lora_adapters": (8,),
    }  # fmt: skip
    return found | {name: draw.choice(values) for name, values in more.items() if draw.random() < (0.5 if name == "precision" else 0.2)}


def other_names(question: Question, draw: random.Random) -> Question:
    """Model and device by one of their other names, now and then."""
    model, device = models.load(question["model"]), devices.load(question["device"])
    names = [name for name in model.aliases if not any(word in name.upper() for word in ("FP8", "FP4", "INT4", "AWQ", "GPTQ"))]
    chosen = {"model": draw.choice(names) if names else question["model"], "device": draw.choice((device.name, question["device"].upper()))}
    return question | {name: value for name, value in chosen.items() if draw.random() < 0.3}


# --- a training step ---

OLD_TRAINED = {
    "model": "model_name", "device": "system", "gpus": "num_gpus", "sequence_length": "seq_len", "micro_batch": "micro_batch_size",
    "global_batch": "gbs", "tensor_parallel": "tp", "pipeline_parallel": "pp_size", "context_parallel": "cp", "expert_parallel": "ep",
    "zero": "sharding", "recompute": "activation_checkpointing",
}  # fmt: skip
PLAN_KEYS = {"micro_batch": "microbatch", "virtual_pipeline": "interleave"}
WHOLE = {"tensor_parallel", "pipeline_parallel", "micro_batch", "zero", "recompute", "program"}


def _run(question: Question) -> tuple[Question, Question]:
    """A question as keys of `train`'s YAML: of the run, of its plan."""
    top = {"model": question["model"], "system": question["device"]}
    top |= {"program": question["program"]} if "program" in question else {}
    top |= {"precision": question["precision"]} if "precision" in question else {}
    return top, {name: value for name, value in question.items() if name not in ("model", "device", "program", "precision")}


def _configured(question: Question, folder: Path) -> Numbers:
    top, plan = _run(question)
    ways = [plan.get(f"{name}_parallel", 1) for name in ("tensor", "pipeline", "context")]
    plan["data_parallel"] = plan.pop("gpus") // (ways[0] * ways[1] * ways[2])
    return numbers(by_yaml("train", {**top, "plan": plan}, folder), TRAINED)


def _searched(question: Question, folder: Path) -> Numbers:
    top, plan = _run(question)
    if not set(question) >= WHOLE:
        raise Elsewhere
    tried = {f"{name}_parallel": [1] for name in ("context", "expert")} | {"interleave": [1]}
    shared = ("gpus", "global_batch", "sequence_length")
    tried |= {PLAN_KEYS.get(name, name): [value] for name, value in plan.items() if name not in shared}
    (folder / "cluster.yaml").write_text(yaml.safe_dump({**top, **{name: plan[name] for name in shared}, **tried}))
    said("train", "search", str(folder / "cluster.yaml"), "--out", str(folder / "plans.csv"))
    row = pd.read_csv(folder / "plans.csv", keep_default_na=False).iloc[0].to_dict()
    return numbers(row | {"status": row["reason"]}, TRAINED)


def _cheapest(question: Question, folder: Path) -> Numbers:
    if not set(question) >= WHOLE:
        raise Elsewhere
    asked = {name: question[name] for name in ("model", "global_batch", "sequence_length", "precision") if name in question}
    asked |= {"devices": question["device"], "max_gpus": question["gpus"], "step_target_s": 1e6}
    said("predict", "recommend", *options(asked), "--out", str(folder / "tried.csv"))
    tried = pd.read_csv(folder / "tried.csv", dtype=str, keep_default_na=False)
    for name in ("gpus", *WHOLE, "virtual_pipeline", "expert_parallel", "context_parallel"):
        tried = tried[tried[name] == str(question.get(name, 1))]
    if tried.empty:
        raise Elsewhere
    row = tried.iloc[0].to_dict()
    return numbers(row | {"lower_s": row["step_lower_s"], "upper_s": row["step_upper_s"], "status": ""}, TRAINED)


TRAINING: dict[str, Way] = {
    "predict training": lambda question, folder: numbers(by_file("predict training", question, folder), TRAINED),
    "predict training, old names": lambda question, folder: numbers(
        by_file("predict training", renamed(question, OLD_TRAINED), folder), TRAINED
    ),
    "predict_training": lambda question, _: numbers(face.predict_training(question).iloc[0].to_dict(), TRAINED),
    "train": _configured,
    "train search": _searched,
    "predict recommend": _cheapest,
}


def trained(draw: random.Random) -> Question:
    """A training step: half of them with the whole plan."""
    known = ("llama-3-8b", "llama-3-70b", "gpt3-175b", "mixtral-8x7b", "llama-2-7b", "llama-2-13b", "qwen3-30b-a3b", "nemotron-3-nano",
             "deepseek-v3", "gemma-3-27b-it")  # fmt: skip
    found: Question = {
        "model": draw.choice(known),
        "device": draw.choice(("h100", "a100", "b200", "h200", "MI300X", "TPU-v6e", "GH200", "l40s")),
        "gpus": draw.choice((8, 16, 32)),
        "sequence_length": draw.choice((2048, 4096, 8192)),
        "global_batch": draw.choice((32, 64, 128)),
    }
    more: dict[str, tuple[Any, ...]] = {
        "tensor_parallel": (1, 2, 4), "pipeline_parallel": (1, 2, 4), "micro_batch": (1, 2), "zero": (0, 1, 3),
        "recompute": ("none", "full"), "program": ("megatron", "fsdp", "nemo"), "precision": ("bf16", "fp8"), "expert_parallel": (1, 8),
    }  # fmt: skip
    whole = draw.random() < 0.5
    chosen = {name: draw.choice(values) for name, values in more.items() if draw.random() < 0.4 or (whole and name in WHOLE)}
    return other_names(found, draw) | chosen


# --- one kernel, one collective, one array ---

DOT = """module @one {{
  func.func public @main(%a: tensor<{M}x{K}x{t}>, %b: tensor<{K}x{N}x{t}>) -> tensor<{M}x{N}x{t}> {{
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<{M}x{K}x{t}>, tensor<{K}x{N}x{t}>) -> tensor<{M}x{N}x{t}>
    return %0 : tensor<{M}x{N}x{t}>
  }}
}}"""


def _milliseconds(question: Question, _: Path) -> Numbers:
    row = face.predict_kernels({"op": "gemm", **question}).iloc[0].to_dict()
    return {"latency_ms": numbers(row, ("latency_ms",))["latency_ms"]}


def _dot(question: Question, folder: Path) -> Path:
    (folder / "dot.mlir").write_text(DOT.format(t={"bf16": "bf16", "fp16": "f16"}[question["dtype"]], **question))
    return folder / "dot.mlir"


def _program(question: Question, folder: Path, *more: str) -> Numbers:
    told = json.loads(said("hlo", "predict", str(_dot(question, folder)), "--device", question["device"], *more))
    return {"latency_ms": float(told["seconds"]) * 1e3}


def _read_program(question: Question, folder: Path) -> Numbers:
    return {"latency_ms": face.predict_program(face.read_program(_dot(question, folder)), question["device"])[0].seconds * 1e3}


def product(draw: random.Random) -> Question:
    """A matrix product, on GPUs that were timed and on GPUs that nobody timed, in a type that they have."""
    sizes = {name: draw.choice((64, 512, 4096, 28672)) for name in ("M", "N", "K")}
    device = draw.choice(("h100", "a100", "b200_sxm", "L4", "rtx4090", "V100", "T4", "P100", "A10", "H20", "MI300X", "MI250", "Max-1550"))
    types = [dtype for dtype in ("bf16", "fp16") if dtype in devices.load(device).peak]
    return {"device": device, "dtype": draw.choice(types), **sizes}


def table(command: str, python: Callable[[Any], pd.DataFrame], names: tuple[str, ...], old: Mapping[str, str]) -> dict[str, Way]:
    """Ways of a command that reads files alone: a file by our names and by others, and Python."""
    return {
        command: lambda question, folder: numbers(by_file(command, question, folder), names),
        f"{command}, old names": lambda question, folder: numbers(by_file(command, renamed(question, old), folder), names),
        command.replace(" ", "_"): lambda question, _: numbers(python(question).iloc[0].to_dict(), names),
    }


def collective(draw: random.Random) -> Question:
    """A collective."""
    found = {"device": draw.choice(("h100", "a100", "MI300X", "L4")), "collective": draw.choice(("all_reduce", "all_gather"))}
    return found | {"gpus": draw.choice((2, 4, 8)), "size_bytes": draw.choice((1 << 14, 1 << 22, 1 << 28))}


def _collectives(question: Any) -> pd.DataFrame:
    from analysis.networks.collective_cases import answers

    return answers(face._table(question, "predict collective"))


def batch(draw: random.Random) -> Question:
    """An offline batch, by an engine and on a device that `predict serving` knows."""
    found = {
        "device": draw.choice(("h100", "a100", "h200_sxm", "b200_sxm", "MI300X", "L4", "V100", "GH200", "TPU-v6e", "Gaudi3")),
        "gpus": draw.choice((1, 4)),
        "engine": draw.choice(("vllm", "sglang", "trtllm", "TensorRT-LLM")),
    }
    found |= {"model": draw.choice(("llama-2-7b", "llama-3-8b", "mixtral-8x7b", "opt-6.7b", "deepseek-v3", "qwen3-32b"))}
    found |= {
        "batch_size": draw.choice((1, 16, 200)),
        "input_tokens": draw.choice((128, 1024)),
        "output_tokens": draw.choice((2, 128, 1500)),
    }
    return found | draw.choice(({}, {"precision": "fp8"}, {"precision": "fp16"}, {"engine_version": "0.9.0"}))


BATCH = ("latency_s", "lower_s", "upper_s")


def _served_at_once(answered: Mapping[Any, Any], question: Question) -> Numbers:
    """The latency of a batch from a served point whose requests all come at once: requests over requests a second."""
    rates = ("requests_per_s", "requests_per_s_upper", "requests_per_s_lower")
    found = numbers(answered, rates)
    return {name: question["batch_size"] / found[rate] for name, rate in zip(BATCH, rates, strict=True)}


def _at_once(question: Question) -> Question:
    return {"arrival": "static", **renamed(question, {"gpus": "tensor_parallel", "batch_size": "clients"})}


def array(draw: random.Random) -> Question:
    """A matrix product on a systolic array."""
    sizes = {name: draw.choice((7, 64, 500)) for name in ("M", "N", "K")}
    sides = {name: draw.choice((8, 32)) for name in ("array_rows", "array_cols")}
    return {**sizes, **sides, "dataflow": draw.choice(("os", "ws", "is"))}


def network(draw: random.Random) -> Question:
    """A collective as ASTRA-sim's backends count it."""
    found = {"collective": draw.choice(("all_reduce", "all_gather", "all_to_all")), "size_bytes": draw.choice((1 << 12, 1 << 20))}
    shape = draw.choice((("Ring", "8", "ring"), ("Switch", "16", "direct"), ("Ring+Switch", "4x8", "ring+ring")))
    rates = {
        "bandwidth_gib_per_s": "x".join(["100"] * len(shape[1].split("x"))),
        "latency_ns": "x".join(["500"] * len(shape[1].split("x"))),
    }
    backend = "Congestion_Unaware" if "+" in shape[0] else draw.choice(("Congestion_Unaware", "Congestion_Aware"))
    return {**found, "backend": backend, **dict(zip(("topology", "npus_per_dim", "algorithm_per_dim"), shape, strict=True)), **rates}


@dataclass(frozen=True)
class Kind:
    """A kind of question: how one is drawn, and the ways to ask it; the first is compared with the others."""

    draw: Callable[[random.Random], Question]
    ways: Mapping[str, Way]
    agree: float = 0.0
    """Relative: 0 but where a unit is converted."""


KINDS = {
    "serving": Kind(served, SERVING),
    "training": Kind(trained, TRAINING),
    "product": Kind(
        product,
        {
            "predict_kernels": _milliseconds,
            "hlo predict": _program,
            "hlo predict --fidelity kernels": lambda question, folder: _program(question, folder, "--fidelity", "kernels"),
            "predict_program": _read_program,
        },
        1e-12,
    ),
    "collective": Kind(
        collective,
        table("predict collective", _collectives, ("time_us", "lower_us", "upper_us"), {"gpus": "world_size", "device": "gpu"}),
    ),
    "batch": Kind(
        batch,
        table("predict batch", face.predict_batch, BATCH,
              {"device": "hardware", "engine": "framework", "gpus": "devices", "input_tokens": "isl", "output_tokens": "osl"})
        | {
            "predict serving": lambda question, folder: _served_at_once(by_file("predict serving", _at_once(question), folder), question),
            "predict_serving": lambda question, _: _served_at_once(face.predict_serving(_at_once(question)).iloc[0].to_dict(), question),
        },
    ),
    "array": Kind(array, table("systolic", face.predict_systolic, ("demand_rows", "compute_util_pct", "ifmap_sram_reads"), {})),
    "network": Kind(network, table("collectives", face.predict_collectives, ("cycles_max",), {})),
}  # fmt: skip


def differences(kind: Kind, question: Question, folder: Path) -> tuple[int, list[str]]:
    """In how many ways a question was asked, and where two of them differ."""
    found: dict[str, Numbers | str] = {}
    for name, way in kind.ways.items():
        try:
            found[name] = way(dict(question), folder)
        except InputError as error:
            found[name] = error.message
        except Elsewhere:
            continue
    first, *others = found
    base, told = found[first], []
    for name in others:
        other = found[name]
        if isinstance(base, str) or isinstance(other, str):
            too_large = isinstance(other, str) and ("memory: " in other or "does not fit" in other)
            fits = isinstance(base, str) or base.get("memory_gib", 0) <= base.get("capacity_gib", 1e9) * 0.9
            if isinstance(base, str) != isinstance(other, str) and not (too_large and not fits):
                told.append(f"{question}: {first} says {base}, {name} says {other}")
            continue
        same = lambda one, two: one == two or (one != one and two != two) or abs(one - two) <= kind.agree * abs(two)  # noqa: E731
        told += [
            f"{question}: {value} of {first} is {base[value]!r}, of {name} {other[value]!r}"
            for value in sorted(set(base) & set(other))
            if not same(base[value], other[value])
        ]
    return len(found), told


if __name__ == "__main__":
    seed, count = (int(word) for word in (*sys.argv[1:], "0", "10")[:2])
    for title, each in KINDS.items():
        draw, ways, found = random.Random(seed), 0, []
        for _ in range(count):
            with tempfile.TemporaryDirectory() as folder:
                asked, lines = differences(each, each.draw(draw), Path(folder))
                ways, found = ways + asked, found + lines
        print(f"{title}: {count} questions asked in {ways} ways, {len(found)} differences", *found, sep="\n  ", flush=True)
