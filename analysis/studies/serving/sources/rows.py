"""Sources other than the public benchmark as one table: measured time per output token, and ours with nothing fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import InputError
from analysis.kernels import gpus
from analysis.paths import DATA
from analysis.serving.points import cases as case_rows
from analysis.serving.points.answers import answer
from analysis.serving.points.cases import Case, Plan
from analysis.serving.points.closed_loop import RESULT, simulate
from analysis.serving.points.constants import Parameters
from analysis.serving.points.points import Points, features, points
from analysis.serving.points.step_table import on_grid, stack
from analysis.studies.serving.energy_per_token import published
from analysis.studies.serving.points.study import Sample, fitted_rows
from analysis.studies.suite import rows as suite
from analysis.tables import read_csv
from analysis.workloads import models

DEVICES = {
    "A100": "a100_sxm",
    "H100": "h100_sxm",
    "H800": "h800_sxm",
    "RTX PRO 6000 S": "rtx_pro_6000_server",
    "Nvidia A100 GPU": "A100-SXM4-40GB",
    "Nvidia H100 GPU": "h100_sxm",
}
"""GPUs as the sources name them; LLM-Inference-Bench's A100 are Polaris's of 40 GB (docs.alcf.anl.gov/polaris)."""
ENGINES = {"vLLM": "vllm", "TensorRT-LLM": "trtllm"}
BEFORE_2025 = "0.6"
"""vLLM's release when LLM-Inference-Bench was published (arXiv 2411.00136, November 2024): its runs are of it, or older."""
SAME_SIZES = {"meta-llama/Meta-Llama-3-8B": "llama-3.1-8b", "meta-llama/Meta-Llama-3-70B": "llama-3.1-70b"}
"""Llama 3 has Llama 3.1's sizes (https://arxiv.org/abs/2407.21783, table 3)."""


def _case(model: str, hardware: str, gpu_count: int, engine: str, lengths: tuple[int, int], clients: int, version: str = "") -> Case | None:
    """A 16-bit case, tensor parallel; None where model or GPU is not known."""
    try:
        found, device = models.load(SAME_SIZES.get(model, model)), gpus.name(DEVICES.get(hardware, hardware))
    except InputError:
        return None
    if not found.family:  # no published serving measurements of it are kept
        return None
    return Case(
        model=found, device=device, engine=engine, version=version, origin="benchmark", precision="bf16", gemm="bf16", attention="bf16",
        experts="bf16", input_tokens=lengths[0], output_tokens=lengths[1], clients=clients, plan=Plan(gpu_count, 1, gpu_count, 1),
        measured="",
    )  # fmt: skip


def vendor(sample: Sample, raw: Points, target: str = "tpot") -> pd.DataFrame:
    """NVIDIA's own runs in aiconfigurator's sample: clean rows, aggregated."""
    theirs = np.array([case is not None and case.origin == "vendor" and case.prefill is None for case in sample.cases])
    kept = theirs & fitted_rows(sample, raw)
    return features(sample.cases, raw)[kept].assign(measured_s=sample.rows[f"{target}_s"].to_numpy()[kept], source="vendor")


def pipeweave(library: Any) -> pd.DataFrame:
    """PipeWeave's decode steps (median of a run) against our step of as many sequences, at their mean length half through the answer."""
    frame = suite.single_batch_serving().query("metric == 'decode_step'")
    words = pd.DataFrame([dict(word.split("=") for word in text.split()) for text in frame["workload"]], index=frame.index)
    prompts = [float(np.mean([float(n) for n in text.split("+")])) for text in words["prompt_tokens"]]
    outputs, sizes = words["output_len"].astype(float).tolist(), words["batch_size"].astype(int).tolist()
    cases = [
        _case(str(model), str(hardware), int(count), "vllm", (round(prompt), round(output)), size)
        for model, hardware, count, prompt, output, size in zip(
            frame["model"], frame["hardware"], frame["devices"], prompts, outputs, sizes, strict=True
        )
    ]
    kept = [i for i, case in enumerate(cases) if case is not None]
    known = [cases[i] for i in kept]
    raw = points(known, library)
    steps = [
        on_grid(raw.tables[raw.table_of[j]], case.clients, prompts[i] + outputs[i] / 2).sum() + raw.engines[j]["host_s"]
        for j, (i, case) in enumerate(zip(kept, known, strict=True))
        if case is not None
    ]
    found = features(known, raw)
    return found.assign(measured_s=frame["value"].to_numpy()[kept], tpot_s=steps, host_s=1e-6 * found["clients"], source="pipeweave")


def offline(library: Any) -> pd.DataFrame:
    """Offline batches of LLM-Inference-Bench (rows without flags): latency over output tokens, against one burst of our loop."""
    frame = suite.batch().query("flags == '' and software in @ENGINES and hardware in @DEVICES")
    words = pd.DataFrame([dict(word.split("=") for word in text.split()) for text in frame["workload"]], index=frame.index).astype(int)
    lengths, sizes = words["input_output_tokens"].tolist(), words["batch_size"].tolist()
    cases = [
        _case(str(model), str(hardware), int(count), ENGINES[str(software)], (length, max(2, length)), size, BEFORE_2025)
        for model, hardware, count, software, length, size in zip(
            frame["model"], frame["hardware"], frame["devices"], frame["software"], lengths, sizes, strict=True
        )
    ]
    raw = points(list(cases), library)
    live = np.flatnonzero([case is not None and not status for case, status in zip(cases, raw.status, strict=True)])
    engines = raw.engines[live].copy()
    engines["requests"], engines["low"] = engines["clients"], 1.0
    done = simulate(engines, stack(raw.tables))
    seconds = engines["requests"] / done[:, RESULT.index("throughput")]
    found = features([cases[i] for i in live], points([cases[i] for i in live], library))
    tokens = np.array(lengths)[live]
    return found.assign(
        measured_s=frame["value"].to_numpy()[live] / tokens, tpot_s=seconds / tokens, host_s=1e-6 * found["clients"], source="offline"
    )


def ml_energy(library: Any, table: pd.DataFrame | None = None, prompt_tokens: float = published.PROMPT_TOKENS) -> pd.DataFrame:
    """Rows of the ML.ENERGY Benchmark: mean time of a token in the steady state.

    Args:
        table: as of `published.rows`, by default those of the chat task; prompt_tokens: mean length of a prompt.
    """
    table = published.rows() if table is None else table
    cases = [published.case({str(k): v for k, v in row.items()}, prompt_tokens) for row in table.to_dict("records")]
    found = features([published.as_benchmark(case) for case in cases], points(list(cases), library))
    return found.assign(measured_s=1e-3 * table["mean_gap_ms"].to_numpy(), source="ml.energy")


COMPILED = 10.0
"""So many times the least time to the first token of a model and GPU, one client's mean holds a compilation."""
PANEL = DATA / "published" / "served_panel.csv"


Served = tuple[pd.DataFrame, list[Case | None], dict[str, pd.Series]]


def served() -> Served:
    """Served points of strangers, as cases, and what was measured, by name; lengths drawn evenly from `length_low` of a label to it."""
    frame = read_csv(PANEL, dtype=str, keep_default_na=False)
    for label, mean in (("isl", "input_tokens"), ("osl", "output_tokens")):
        frame[label] = (2 * frame[mean].astype(float) / (1 + frame["length_low"].astype(float))).astype(str)
    names = ("ttft_ms", "tpot_ms", "out_tok_s", "latency_s")
    return frame, case_rows.read(frame)[0], {name: pd.to_numeric(frame[f"measured_{name}"]) for name in names}


def panel(library: Any, parameters: Parameters, target: str = "tpot") -> pd.DataFrame:
    """Served points of strangers that we answer: time per output token, or (target ttft) to the first.

    Of a run that is published by its rate or its whole duration, the time per output token is the answered one times what the run took
    longer than answered.
    """
    frame, cases, number = served()
    found = answer(cases, parameters.model_copy(update={"elsewhere": {}}), library)
    table, closed = found.table, frame["arrival"] == "closed"
    whole_s = 1e-3 * (table["ttft_ms"] + (frame["output_tokens"].astype(float) - 1) * table["tpot_ms"])
    longer = np.where(frame["arrival"] == "static", number["latency_s"] / whole_s, table["output_tokens_per_s"] / number["out_tok_s"])
    measured_ms = np.where(closed, number[f"{target}_ms"], longer * table["tpot_ms"] if target == "tpot" else np.nan)
    if target == "ttft":  # a mean of ten requests, the first of which waited for kernels to be compiled
        least = pd.Series(measured_ms).groupby(frame["model_path"] + frame["system"]).transform("min")
        measured_ms = np.where((frame["batch_size"] == "1") & (measured_ms > COMPILED * least), np.nan, measured_ms)
    kept = (table["status"] == "") & np.array([case is not None for case in cases]) & np.isfinite(measured_ms)
    return found.features[kept].assign(measured_s=1e-3 * measured_ms[kept], source=frame["source"][kept], row_id=frame["row_id"][kept])
