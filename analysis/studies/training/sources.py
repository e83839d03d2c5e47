"""Which measured training runs are there? Each source as cases with the step that was measured; repeats merged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.datasets import find, load
from analysis.tables import read_csv
from analysis.training.cases import COLUMNS, Case, read

PANEL = (
    "internevo",
    "mlperf_gpt3",
    "mlperf_llama2_70b_lora",
    "mlperf_llama31_405b",
    "primus_mi300x",
    "torchao",
    "torchtitan_a100",
    "ultrascale",
    "colossalai",
)
"""Sources of panel_training.csv that have step times on GPUs; tpu_ironwood is one of `tpus`."""

LEFT_OUT_TOGETHER = (
    ("vtrain_single_node", "vtrain_multi_node"),
    ("llm_foundry",),
    ("megatron_bridge_llama3", "megatron_bridge_other"),
    ("megatron_sc21",),
    ("megatron_published",),
    ("nemo",),
    *((name,) for name in PANEL),
    ("torchtitan_h100",),
)
"""Sources that are one when they are left out (data/measured_suite/splits.yaml)."""


PLAN_ASSUMED = ("primus_mi300x", "colossalai")
"""Sources that print no batch or microbatch: they judge, and teach no share."""


@dataclass(frozen=True)
class Runs:
    """Measured runs of one source.

    Attributes:
        source: its name; cases; step_s: measured, median of repeats, one each.
        repeats: count, and spread: largest over smallest, of each.
    """

    source: str
    cases: list[Case]
    step_s: np.ndarray
    repeats: np.ndarray
    spread: np.ndarray


def _runs(source: str, frame: pd.DataFrame, step_s: np.ndarray, keys: list[str]) -> Runs:
    table = frame.astype(str).assign(_step=step_s)
    merged = table.groupby(keys, sort=False, dropna=False)["_step"].agg(["median", "count", "max", "min"]).reset_index()
    cases, _, errors = read(merged[keys])
    for error in errors.values():
        raise InputError(f"{source}: {len(errors)} rows are not understood, such as: {error.message}")
    return Runs(
        source,
        list(cases),
        merged["median"].to_numpy(dtype=float),
        merged["count"].to_numpy(dtype=float),
        (merged["max"] / merged["min"]).to_numpy(dtype=float),
    )


def vtrain(which: str) -> Runs:
    """`single_node` or `multi_node`."""
    frame = load(f"vtrain/{which}")
    keys = [name for name in frame.columns if name not in ("iteration_time_ms", "parameters_billion")]
    return _runs(f"vtrain_{which}", frame, frame["iteration_time_ms"].to_numpy() / 1e3, keys)


def llm_foundry() -> Runs:
    """MPT on A100 and H100."""
    frame = load("llm_foundry/mpt_training")
    keys = ["Model", "SeqLen (T)", "# GPUs", "GPU", "MicroBatchSize", "GradAccum", "GlobalBatchSize", "Precision", "Sharding Strategy"]
    keys.append("Activation Checkpointing")
    per_gpu = frame["Throughput (T/s/GPU)"].to_numpy(dtype=float)
    step = frame["GlobalBatchSize"].to_numpy() * frame["SeqLen (T)"].to_numpy() / (per_gpu * frame["# GPUs"].to_numpy())
    return _runs("llm_foundry", frame, step, keys)


def megatron_bridge(llama3: bool) -> Runs:
    """Pre-training of Llama 3, or everything else; the median over releases."""
    frame = read_csv(find("megatron_bridge/pretraining"), dtype=str, keep_default_na=False)
    chosen = frame["model"].str.upper().str.startswith(("LLAMA3_", "LLAMA3.1_")) & (frame["kind"] == "Pre-Training")
    frame = frame[chosen if llama3 else ~chosen].copy()
    frame = frame.assign(fsdp=frame["fsdp"].replace({"": "0"}), program="nemo")
    keys = [name for name in frame.columns if name not in ("release", "tokens_per_s_per_gpu", "model_tflops_per_gpu")]
    tokens = frame["global_batch"].astype(float) * frame["sequence_length"].astype(float)
    step = tokens / (frame["tokens_per_s_per_gpu"].astype(float) * frame["gpus"].astype(float))
    return _runs("megatron_bridge_llama3" if llama3 else "megatron_bridge_other", frame, step.to_numpy(), keys)


def published_rows(source: str) -> pd.DataFrame:
    """A set of `older_training_steps.csv`, tables of papers and programs read as plans, cells as text."""
    frame = read_csv(DATA / "published" / "older_training_steps.csv", dtype=str, keep_default_na=False)
    return frame[frame["set"] == source]


def published(source: str) -> Runs:
    """The runs of `published_rows`: megatron_sc21, megatron_published, nemo, torchtitan_h100; on TPUs maxtext and maxtext_judged."""
    frame = published_rows(source)
    return _runs(source, frame, frame["measured_s"].astype(float).to_numpy(), [name for name in COLUMNS if name in frame.columns])


def panel_rows() -> pd.DataFrame:
    """Every row of the panel's training runs, cells as text."""
    return read_csv(DATA / "measured_suite" / "panel_training.csv", dtype=str, keep_default_na=False)


def failed_plans() -> pd.DataFrame:
    """Plans of the Ultra-Scale Playbook that did not run, cells as text."""
    return read_csv(DATA / "measured_suite" / "panel_failed_plans.csv", dtype=str, keep_default_na=False)


def scored(frame: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows of a source that are scored (data/measured_suite/splits.yaml), of all rows."""
    frame = frame[(frame["source"] == source) & ((frame["measured_step_s"] != "") | (frame["measured_tokens_per_s_per_gpu"] != ""))]
    if source == "ultrascale":
        frame = frame[frame["clean"] == "yes"]
    return frame[frame["config"] != ""] if source.startswith("mlperf") else frame


def measured_step_s(frame: pd.DataFrame) -> np.ndarray:
    """The measured step of each row (s), from its throughput where no time is printed."""
    number = {name: pd.to_numeric(frame[name]).to_numpy(dtype=float) for name in ("global_batch", "sequence_length", "gpus")}
    speed = pd.to_numeric(frame["measured_tokens_per_s_per_gpu"]).to_numpy(dtype=float)
    step = pd.to_numeric(frame["measured_step_s"]).to_numpy(dtype=float)
    return np.where(np.isfinite(step), step, number["global_batch"] * number["sequence_length"] / (speed * number["gpus"]))


def panel(source: str) -> Runs:
    """A source of the panel: its runs that are scored."""
    frame = scored(panel_rows(), source)
    return _runs(source, frame, measured_step_s(frame), [name for name in COLUMNS if name in frame.columns])


def all_runs() -> list[Runs]:
    """Every source of the splits.

    Raises:
        DatasetMissing: one is not there.
    """
    return [
        vtrain("single_node"),
        vtrain("multi_node"),
        llm_foundry(),
        megatron_bridge(True),
        megatron_bridge(False),
        *(published(name) for name in ("megatron_sc21", "megatron_published", "nemo")),
        *(panel(name) for name in PANEL),
        published("torchtitan_h100"),
    ]
