"""The baseline of 2021, frozen, and the published steps that are read as plans."""

import re

import numpy as np
import pandas as pd
import pytest

from analysis.hardware import devices
from analysis.paths import DATA
from analysis.studies import attempts
from analysis.studies.workloads.counted import training_flop
from analysis.tables import read_csv
from analysis.workloads import models

STEPS = read_csv(DATA / "frozen" / "training_validation" / "steps.csv")
OLDER = read_csv(DATA / "published" / "older_training_steps.csv", keep_default_na=False)


def errors(group: str) -> pd.Series:
    """Absolute relative errors on a set of runs."""
    rows = STEPS[STEPS["group"] == group]
    return (rows["predicted_s"] / rows["measured_s"] - 1).abs()


@pytest.mark.parametrize(
    ("group", "runs", "mean", "most"),
    [
        ("SC 2021 (fit)", 16, 0.012, 0.03),  # Narayanan et al. 2021, Tables 1 and 2
        ("Korthikanti 2022", 8, 0.06, 0.12),  # Table 5, never seen by the fit; Calculon: 3.65 and 8.87 %
        ("Llama 3.1 70B, TPU v6e", 4, 0.1, 0.1),  # tpu-recipes, fitted on the 8B rows
    ],
)
def test_errors_of_the_baseline(group: str, runs: int, mean: float, most: float) -> None:
    error = errors(group)
    assert len(error) == runs and error.mean() < mean and error.max() < most


def test_memory_of_the_eight_runs() -> None:
    """Calculon's memory for the same eight runs (its validation table): within 10 percent each, 2 percent on average."""
    rows = read_csv(DATA / "published" / "megatron_a100_calculon.csv")
    ours = STEPS[STEPS["group"] == "Korthikanti 2022"].set_index("case")["memory_gib"]
    error = [abs(ours[f"{row.model} {row.config}"] / row.calculon_mem_GiB - 1) for row in rows.itertuples()]
    assert max(error) < 0.1 and np.mean(error) < 0.02


def test_attempts_name_one_choice_by_the_selection_metric() -> None:
    """The chosen form is the one with the smallest leave-one-model-out error, not the one that is best on the test."""
    rows = attempts.read("training")
    rows = rows[rows["experiment"] == "a100_step_time"]
    assert len(rows) == 6  # chunks a stage: one, two, most; half-filled waves counted or not
    assert rows.loc[rows["chosen"], "selection_value"].iloc[0] == rows["selection_value"].min()


def test_steps_of_2021_follow_from_the_printed_throughput() -> None:
    """Narayanan et al. 2021, equation 3: 96 B s l h^2 (1 + s / 6h + V / 16 l h) FLOP over the achieved rate of all GPUs."""
    printed = read_csv(DATA / "published" / "megatron_sc21.csv").query("scheme == 'PTD'")
    rows = OLDER[OLDER["set"] == "megatron_sc21"]
    assert len(rows) == len(printed) == 16
    for row, source in zip(rows.itertuples(), printed.itertuples(), strict=True):
        m, s = models.load(row.model), row.sequence_length
        flop = 96 * row.global_batch * s * m.layers * m.hidden**2 * (1 + s / (6 * m.hidden) + m.vocabulary / (16 * m.layers * m.hidden))
        assert (row.model, row.gpus) == (source.model, source.gpus)
        assert row.measured_s == pytest.approx(flop / (source.gpus * source.achieved_tflop_per_s_per_gpu * 1e12), rel=1e-12)
        assert row.tensor_parallel * row.pipeline_parallel <= row.gpus


def test_steps_of_others_are_those_printed() -> None:
    """Korthikanti and MT-NLG print the time; Llama 3 TFLOP/s a GPU; MaxText tokens/s or a share of the peak."""
    printed = read_csv(DATA / "published" / "distributed_training.csv").query("metric == 'iteration_time'")
    for row in OLDER[OLDER["source"].str.contains("Korthikanti|Smith")].itertuples():
        assert row.measured_s in printed.loc[printed["gpus"] == row.gpus, "value"].tolist()
    for row in OLDER[~OLDER["set"].isin(["megatron_sc21", "nemo", "torchtitan_h100"])].itertuples():
        peak = devices.load(row.device).peak_flop_per_s("fp16" if row.device.startswith(("A100", "V100")) else "bf16")
        used = training_flop(models.load(row.model), row.global_batch, row.sequence_length) / (row.gpus * row.measured_s * peak)
        assert 0.2 < used < 0.7, row.case


@pytest.mark.parametrize(
    "source, table", [("nemo", "published/gpu_tpu_workloads.csv"), ("torchtitan_h100", "measured_suite/torchtitan.csv")]
)
def test_steps_of_nemo_and_torchtitan_are_the_printed_throughput(source: str, table: str) -> None:
    """Tokens/s of a GPU, and torchtitan's peaks, row for row; degrees and batches stand in the printed notes."""
    printed = read_csv(DATA / table, keep_default_na=False)
    printed = printed[printed["source"].str.contains("NVIDIA NeMo 24.12" if source == "nemo" else "torchtitan")]
    rows = OLDER[OLDER["set"] == source]
    speeds = printed[printed["metric"] == "tokens/s/GPU"]
    assert len(rows) == len(speeds) == {"nemo": 7, "torchtitan_h100": 18}[source]
    for row, line in zip(rows.itertuples(), speeds.itertuples(), strict=True):
        assert row.case == f"{line.model} on {line.chips}, {line.note}" and str(row.gpus) == str(line.chips)
        assert row.global_batch * row.sequence_length / row.gpus / row.measured_s == pytest.approx(float(line.value))
        for word, value in (("TP", row.tensor_parallel), ("PP", row.pipeline_parallel), ("CP", row.context_parallel)):
            assert str(value) in ("", "1") or re.search(rf"{word} ?{value}\b", line.note), (row.case, word)
    peaks = printed.loc[printed["metric"] == "peak memory", "value"].astype(float).tolist()
    assert not peaks or rows["measured_memory_gib"].astype(float).tolist() == peaks
