"""Which measured systems are there? Every source in one schema; what may not be committed is read from the datasets of `make data`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.datasets import find
from analysis.studies.suite import clean
from analysis.tables import read_csv

SUITE = DATA / "measured_suite"


class Column(Strict):
    """A column of the suite: type of the Table Schema, meaning, whether each row needs it, least value."""

    type: str
    meaning: str
    required: bool = False
    minimum: int | None = None


class Schema(Strict):
    """`data/measured_suite/schema.yaml`."""

    fields: dict[str, Column]
    licences: dict[str, str]


_READ = read_yaml(SUITE / "schema.yaml", Schema)
FIELDS, LICENCES, SCHEMA = _READ.fields, _READ.licences, tuple(_READ.fields)
PARTS = ("training", "batch", "serving", "single_batch_serving", "requests", "published")


def _words(frame: pd.DataFrame, names: list[str]) -> pd.Series:
    cells = frame[names]
    kept = cells.notna() & (cells.astype(str) != "")
    texts = [
        [
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
            for name, value, good in zip(names, row, has, strict=True)
            if good
        ]
        for row, has in zip(cells.itertuples(index=False), kept.itertuples(index=False), strict=True)
    ]
    return pd.Series([" ".join(words) for words in texts], index=frame.index)


def _table(frame: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    made = pd.DataFrame(index=frame.index).assign(**columns)
    for name in SCHEMA:
        if name not in made:
            made[name] = 1 if name == "repeats" else 0.0 if name == "repeat_noise" else ""
    return made[list(SCHEMA)].reset_index(drop=True)


def training() -> pd.DataFrame:
    """vTrain, llm-foundry, Megatron-Bridge, published runs, the panel of strangers' runs: time of a step (s), repeats merged."""
    from analysis.studies.training import sources

    tables = []
    tpus = sources.published("maxtext"), sources.published("maxtext_judged"), sources.panel("tpu_ironwood")
    for runs in (*sources.all_runs(), *tpus):
        cases = runs.cases
        plan = [
            f"tensor={c.tensor} pipeline={c.pipeline} data={c.data} context={c.context} expert={c.expert} virtual={c.virtual} "
            f"zero={c.zero} recompute={c.recompute} precision={c.precision}"
            for c in cases
        ]
        workload = [f"sequence={c.sequence} micro_batch={c.micro_batch:g} global_batch={c.global_batch:g}" for c in cases]
        frame = pd.DataFrame({"row_id": [f"{runs.source}:{index}" for index in range(len(cases))]})
        tables.append(
            _table(
                frame,
                row_id=frame["row_id"],
                source=runs.source,
                hardware=[c.machine.device for c in cases],
                devices=[c.gpus for c in cases],
                software=[c.program for c in cases],
                model=[c.name for c in cases],
                plan=plan,
                workload=workload,
                metric="step_time",
                value=runs.step_s,
                unit="s",
                repeats=runs.repeats.astype(int),
                repeat_noise=runs.spread - 1,
                cluster=[f"{runs.source}/{item.name}" for item in cases],
                flags=_composed(runs.source, len(cases)),
            )
        )
    return pd.concat(tables, ignore_index=True)


def _composed(source: str, count: int) -> list[str]:
    """vTrain's single-node times are sums: rows that differ in microbatches alone differ by equal steps to the nanosecond."""
    return ["composed"] * count if source == "vtrain_single_node" else [""] * count


def batch() -> pd.DataFrame:
    """LLM-Inference-Bench: latency of a whole batch (s), repeats merged, rows that contradict themselves flagged."""
    from analysis.studies.serving import batch_study as study

    seen = study.runs()
    frame = seen.frame
    return _table(
        frame,
        row_id=frame["row_id"],
        source="llm_inference_bench",
        hardware=frame["hardware"],
        devices=frame["devices"],
        software=frame["framework"],
        model=frame["model"],
        plan=_words(frame, ["devices"]),
        workload=_words(frame, ["input_output_tokens", "batch_size"]),
        metric="latency",
        value=frame["latency_s"],
        unit="s",
        repeats=frame["repeats"],
        repeat_noise=frame["spread"] - 1,
        cluster=frame["hardware"] + "/" + frame["model"],
        flags=frame["flags"],
    )


@cache
def points() -> pd.DataFrame:
    """The committed serving points (silicon_sample.csv of aiconfigurator-core 0.12.0), as they are."""
    return read_csv(SUITE / "serving_points.csv.gz", low_memory=False)


def serving() -> pd.DataFrame:
    """Serving points: time to first token and time per output token (ms), two rows a point."""
    frame = points()
    flags = clean.serving_flags(frame)
    sizes = [name for name in clean.CONFIGURATION if name.endswith(("_size", "_workers"))]
    tables = []
    for metric in ("ttft", "tpot"):
        tables.append(
            _table(
                frame,
                row_id=frame["id"] + f":{metric}",
                source="silicon_sample",
                hardware=frame["system"],
                devices=(frame["tp_size"] * frame["attention_dp_size"].replace(0, 1).fillna(1)).astype("Int64"),
                software=frame["backend"],
                version=frame["backend_version"].fillna(""),
                model=frame["model_path"],
                plan=_words(frame, sizes),
                workload=_words(frame, ["mode", "isl", "osl", "precision", "gemm_quant_mode", "moe_quant_mode"]),
                metric=metric,
                value=frame[f"silicon_{metric}_ms"],
                unit="ms",
                cluster=frame["model_path"] + "/" + frame["system"],
                flags=flags,
            )
        )
    return pd.concat(tables, ignore_index=True)


def single_batch_serving() -> pd.DataFrame:
    """PipeWeave's runs: one batch of known prompts served; median over repeats of prefill, decode step and total (s)."""
    frame = read_csv(find("pipeweave/e2e_real_runs"))
    key = ["hardware", "run_name", "batch_size", "input_len", "output_len", "total_prefill_tokens", "total_decode_tokens"]
    lengths = {
        name: "+".join(read_csv(find(f"pipeweave/workload/{name}"), ["num_prefill_tokens"])["num_prefill_tokens"].astype(str))
        for name in frame["run_name"].str.rsplit("-", n=1).str[-1].unique()
    }
    tables = []
    for metric, column in (("prefill", "prefill_latency"), ("decode_step", "median_decode_latency"), ("total", "total_latency")):
        merged = frame.groupby(key, sort=False)[column].agg(["median", "count", "max", "min"]).reset_index()
        model = merged["run_name"].str.replace(r"-[^-]*$", "", regex=True)
        parallel = merged["hardware"].str.extract(r"^tp(\d+) ", expand=False).fillna("1")
        tables.append(
            _table(
                merged,
                row_id=[
                    f"pipeweave:{hardware}/{name}:{metric}" for hardware, name in zip(merged["hardware"], merged["run_name"], strict=True)
                ],
                source="pipeweave",
                hardware=merged["hardware"].str.replace(r"^tp\d+ ", "", regex=True),
                devices=parallel.astype(int),
                model=model,
                plan="tensor=" + parallel,
                workload=_words(merged, ["run_name", *key[2:]])
                + " prompt_tokens="
                + merged["run_name"].str.rsplit("-", n=1).str[-1].map(lengths),
                metric=metric,
                value=merged["median"],
                unit="s",
                repeats=merged["count"],
                repeat_noise=merged["max"] / merged["min"] - 1,
                cluster=merged["hardware"] + "/" + model,
            )
        )
    return pd.concat(tables, ignore_index=True)


def requests() -> pd.DataFrame:
    """LLMServingSim's runs of vLLM 0.19: mean time to first token, time per output token and latency of each run (s)."""
    tables = []
    for name in ("rtxpro6000_llama-3.1-8b", "rtxpro6000_qwen3-32b"):
        frame = read_csv(find(f"llmservingsim/{name}_requests"))
        arrived = frame["queued_s"]
        measures = {
            "ttft": (frame["first_token_s"] - arrived).mean(),
            "tpot": ((frame["last_token_s"] - frame["first_token_s"]) / (frame["output_tokens"] - 1).clip(lower=1)).mean(),
            "latency": (frame["last_token_s"] - arrived).mean(),
        }
        table = pd.DataFrame({"metric": list(measures), "value": list(measures.values())})
        hardware, model = name.split("_", 1)
        tables.append(
            _table(
                table,
                row_id=[f"llmservingsim:{name}:{metric}" for metric in measures],
                source="llmservingsim",
                hardware=hardware,
                software="vllm",
                version="0.19",
                model=model,
                workload=f"requests={len(frame)}",
                metric=table["metric"],
                value=table["value"],
                unit="s",
                cluster=name,
            )
        )
    return pd.concat(tables, ignore_index=True)


def published() -> pd.DataFrame:
    """Every quoted training figure, scored elsewhere or not: Megatron, MT-NLG, Llama 3, MaxText, MLPerf, NeMo, torchtitan."""
    training_rows = read_csv(DATA / "published" / "distributed_training.csv")
    training_rows = training_rows[training_rows["metric"].isin(["iteration_time", "achieved_per_gpu", "time_for_300B_tokens"])]
    peaks = read_csv(SUITE / "torchtitan.csv").query("metric == 'peak memory'")  # its throughput is a source of `training`
    quoted = [read_csv(DATA / "published" / "gpu_tpu_workloads.csv"), peaks]
    other = pd.concat(quoted, ignore_index=True).rename(columns={"chips": "gpus"})
    other = other[other["kind"].isin(["measured", "derived"])]
    frame = pd.concat([training_rows, other], ignore_index=True)
    machine = frame["gpus"].astype(str)
    count = pd.to_numeric(machine, errors="coerce").astype("Int64")
    plan = frame["note"].fillna("").where(count.notna(), frame["note"].fillna("") + " machine: " + machine)
    return _table(
        frame,
        row_id=[f"published:{index}" for index in range(len(frame))],
        source=frame["source"],
        hardware=frame["system"],
        devices=count,
        model=frame["model"],
        plan=plan.str.strip(),
        metric=frame["metric"],
        value=frame["value"],
        unit=frame["unit"],
        cluster=frame["source"].str.slice(0, 40),
        flags=np.where(frame["source"].str.contains("NeMo long|torchtitan"), "not_scored", ""),
    )


READERS = {
    "training": training,
    "batch": batch,
    "serving": serving,
    "single_batch_serving": single_batch_serving,
    "requests": requests,
    "published": published,
}


def rows(part: str) -> pd.DataFrame:
    """One part of the suite."""
    if part not in READERS:
        raise InputError(f"no part {part!r}; expected one of {', '.join(READERS)}", key="part")
    table = READERS[part]()
    known = {source: next((name for name in LICENCES if source.startswith(name)), "published") for source in table["source"].unique()}
    return table.assign(part=part, licence=table["source"].map(known).map(LICENCES))


def package(tables: Mapping[str, pd.DataFrame]) -> dict[str, Any]:
    """A Frictionless data package of parts of the suite, each in `<part>.csv`.

    Returns:
        What `datapackage.json` holds.
    """
    fields = []
    for name, column in FIELDS.items():
        constraints: dict[str, Any] = {"required": True} if column.required else {}
        constraints |= {"minimum": column.minimum} if column.minimum is not None else {}
        constraints |= {"unique": True} if name == "row_id" else {"enum": list(PARTS)} if name == "part" else {}
        fields.append({"name": name, "type": column.type, "description": column.meaning, "constraints": constraints})
    schema = {"fields": fields, "primaryKey": ["row_id"], "missingValues": [""]}
    return {
        "name": "measured-suite",
        "title": "Measured systems of others, in one schema",
        "resources": [
            {
                "name": part.replace("_", "-"),
                "path": f"{part}.csv",
                "title": (READERS[part].__doc__ or "").splitlines()[0],
                "licenses": [{"name": name} for name in sorted(set(table["licence"]))],
                "schema": schema,
            }
            for part, table in tables.items()
        ],
    }
