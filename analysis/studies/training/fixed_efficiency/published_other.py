"""Published steps on other programs and devices: MPT on A100 and H100, Llama 3 on H100, Llama on TPUs."""

from __future__ import annotations

import re

from analysis.hardware import systems
from analysis.studies.training.fixed_efficiency.plan import Plan, Software
from analysis.studies.training.fixed_efficiency.published import PUBLISHED, Case
from analysis.tables import read_csv, records
from analysis.workloads import models

FSDP = Software(gradient_bytes=2)
"""Fully sharded data parallelism of 2023: fused attention, gradients reduced in 16 bits, overlap."""

MAXTEXT = Software(gradient_bytes=2)


def mpt_cases(device: str, system: str) -> list[Case]:
    """MosaicML's MPT-7B table: fully sharded data parallelism, one row a sequence length or GPU count."""
    rows = read_csv(PUBLISHED / "gpu_tpu_workloads.csv")
    chosen = rows["source"].str.startswith("MosaicML") & (rows["system"] == device) & (rows["metric"] == "tokens/s/GPU")
    cases = []
    for row in records(rows[chosen]):
        sequence = int(re.search(r"seq(\d+)", row.model).group(1))  # type: ignore[union-attr]
        micro, batch = (int(re.search(rf"{key}(\d+)", row.note).group(1)) for key in ("microbatch", "gbs"))  # type: ignore[union-attr]
        gpus = int(row.chips)
        plan = Plan(
            data_parallel=gpus,
            microbatch=micro,
            global_batch=batch,
            sequence_length=sequence,
            zero=3,
            recompute="full" if "actckpt=True" in row.note else "none",
        )
        time = batch * sequence / (gpus * float(row.value))
        cases.append(Case(f"MPT-7B, {sequence} tokens, {gpus} x {device}", row.source, "mpt-7b", system, plan, FSDP, time))
    return cases


def llama3_cases() -> list[Case]:
    """Llama 3 405B on 8,192 and 16,384 H100 (sequence 8,192, 16M tokens a step); the run with context parallelism is outside the model."""
    rows = read_csv(PUBLISHED / "distributed_training.csv")
    rows = rows[rows["source"].str.startswith("Llama-3") & rows["model"].str.contains("cp1 ")]
    model = models.load("llama-3-405b")
    cases = []
    for row in records(rows):
        gpus = int(row.gpus)
        plan = Plan(
            tensor_parallel=8,
            pipeline_parallel=16,
            data_parallel=gpus // 128,
            microbatch=1,
            global_batch=2048,
            sequence_length=8192,
            sequence_parallel=True,
            ends_as_layers=True,
            zero=1,
        )
        time = model.training_flop(2048, 8192) / (gpus * float(row.value) * 1e12)
        assumed = "interleave 1, no recomputation, whole attention matrix in the FLOP count"
        cases.append(Case(f"Llama 3 405B on {gpus} H100", row.source, model.name, "Llama3-H100", plan, Software(), time, assumed))
    return cases


V6E_MODELS = {"Llama3.1-8B-MaxText": "llama-3-8b", "Llama3.1-70B-MaxText": "llama-3-70b"}


def v6e_cases(label: str) -> list[Case]:
    """MaxText on TPU v6e slices: step time and tokens/s give the batch of a device."""
    rows = read_csv(PUBLISHED / "gpu_tpu_workloads.csv")
    rows = rows[rows["source"].str.contains("tpu-recipes") & (rows["model"] == label) & rows["chips"].str.fullmatch(r"v6e-\d+")]
    wide = rows.pivot_table(index="chips", columns="metric", values="value").reset_index()
    model = models.load(V6E_MODELS[label])
    cases = []
    for _, row in wide.iterrows():
        chips, time = int(str(row["chips"]).split("-")[1]), float(row["step time"])
        micro = round(time * float(row["tokens/s/device"]) / 8192)
        plan = Plan(data_parallel=chips, microbatch=micro, global_batch=micro * chips, sequence_length=8192, zero=3, recompute="full")
        name = f"{model.name} on {chips} TPU v6e"
        cases.append(Case(name, "AI-Hypercomputer tpu-recipes", model.name, "TPU-v6e-pod", plan, MAXTEXT, time, "full recomputation"))
    return sorted(cases, key=lambda case: case.plan.gpus)


LLAMA2_TPU = {"TPU v4-128": "TPU-v4-pod", "TPU v5p-128": "TPU-v5p-pod", "TPU v5e-256": "TPU-v5e-pod"}


def maxtext_llama2_cases() -> list[Case]:
    """MaxText's Llama 2 70B on TPU v4, v5p and v5e, published as utilisation of the peak; batch and sequence are not, and assumed."""
    rows = read_csv(PUBLISHED / "gpu_tpu_workloads.csv")
    rows = rows[rows["source"].str.startswith("MaxText Run_Llama2") & (rows["metric"] == "MFU")]
    model = models.load("llama-2-70b")
    cases = []
    for row in records(rows):
        chips, system = int(row.chips), LLAMA2_TPU[row.system]
        plan = Plan(data_parallel=chips, microbatch=4, global_batch=4 * chips, sequence_length=4096, zero=3, recompute="full")
        peak = systems.load(system).load_device().peak_flop_per_s("bf16")
        time = model.training_flop(4 * chips, 4096) / (chips * peak * float(row.value) / 100)
        assumed = "four sequences of 4,096 tokens a chip, full recomputation"
        cases.append(Case(f"Llama 2 70B on {row.system}", row.source, model.name, system, plan, MAXTEXT, time, assumed))
    return cases
