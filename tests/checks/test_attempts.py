"""The log of what was tried: renewed by experiment, whole, one choice where a choice was made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tests.checks.test_evaluation_log
from analysis.kernels.fp32.cases import GROUPS
from analysis.paths import DATA
from analysis.studies import attempts
from analysis.studies.training import tpus
from analysis.studies.workloads.zoo import published_steps
from analysis.tables import read_csv
from analysis.training import kernels


def test_a_renewed_experiment_replaces_its_own_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "PATH", tmp_path / "attempts.csv")

    def rows(experiment: str, values: list[float]) -> pd.DataFrame:
        frame = pd.DataFrame({"attempt": range(1, len(values) + 1), "test_value": values})
        return frame.assign(room="r", experiment=experiment).reindex(columns=attempts.COLUMNS)

    attempts.record(rows("one", [1.0, 2.0]))
    attempts.record(rows("two", [3.0]))
    attempts.record(rows("one", [4.0]))
    assert attempts.read("r")[["experiment", "test_value"]].to_numpy().tolist() == [["one", 4.0], ["two", 3.0]]
    assert attempts.read("elsewhere").empty


def test_the_committed_log_names_each_try_once() -> None:
    frame = attempts.read()
    assert not frame.duplicated(["room", "experiment", "attempt", "configuration", "fitted_on", "tested_on"]).any()
    assert set(frame["room"]) >= {"training", "networks", "serving", "accelerators"}


def _announced() -> dict[tuple[str, str, str], float]:
    """The result that a chosen row of the log announces, as it is frozen: (experiment, what it was tested on, metric) -> value."""
    frozen = DATA / "frozen"
    nccl = read_csv(frozen / "nccl_calibrated" / "summary.csv").set_index(["scheme", "model"])["median_error"]
    collectives = read_csv(frozen / "nccl_calibrated" / "collectives.csv").query("split == 'machine' and source == 'all of nccl-tests'")
    collectives = collectives.set_index("place")["median_error"]
    steps = {step.line: step.measured_s for step in published_steps.steps()}
    shares = read_csv(frozen / "hlo_published" / "estimates.csv").query("fidelity == 'shares' and again").drop_duplicates("line")
    ranks = read_csv(frozen / "few_shot" / "ten_samples.csv").query("method == 'prior_chosen'")["spearman"]
    blocks = read_csv(frozen / "basic_blocks" / "scores.csv")
    blocks = blocks[(blocks["method"] == "ports") & (blocks["split"] == "blocks") & (blocks["seed"] == 0)].groupby("arch")["mape"].mean()
    cycles = read_csv(frozen / "cores_model" / "cycles.csv").query("model == 'ours' and seed == 0")
    error = (100 * (cycles["predicted_cycles"] / cycles["true_cycles"] - 1).abs()).groupby(cycles["setting"]).mean()
    tries = read_csv(frozen / "schedule_ranking" / "ranking.csv").groupby("method")["tries_median"].mean()
    whole = read_csv(frozen / "neutrino" / "int8.csv").query("variant == 'fp32'")["exact"].mean()
    batches = read_csv(frozen / "measured_suite" / "batch_scores.csv").query("framework == 'all'").set_index("device")["median_error"]
    sources = read_csv(frozen / "measured_suite" / "training_scores.csv").set_index("source")["median_error"]
    serving = read_csv(frozen / "predictor_serving" / "scores.csv").query("split == 'family' and rows_of == 'clean, peer answers'")
    serving = serving.set_index("target")
    elsewhere = read_csv(frozen / "predictor_serving" / "sources.csv").set_index("source").loc["ml.energy problems"]
    answered = "2,146 clean rows that aiconfigurator answers, family left out"
    tables = read_csv(frozen / "hlo_published" / "by_kernel_tables.csv")
    eight = read_csv(frozen / "training_validation" / "steps.csv").query("group == 'Korthikanti 2022'")
    a100 = (eight["predicted_s"] / eight["measured_s"] - 1).abs().mean()
    tpu = tpus.errors(tpus.prepared()["TPU-v6e judged"], kernels.tpus().product["TPU-v6e"])
    return {
        ("schedule_ranking", "the GPU left out, each in turn", "median tries to a schedule within 1 % of the best, mean over GPUs"): tries[
            "ranked"
        ],
        ("neutrino_int8", "64 held-out windows a program", "exact in fp32, mean of programs"): whole,
        ("measured_batches", "each device left out; value: H100, most: the worst device", "median |error|"): batches["H100-SXM5-80GB"],
        (
            "measured_training",
            "each source left out; value: llm_foundry, most: the worst source of dense models",
            "median |error|",
        ): sources["llm_foundry"],
        ("serving_tpot", answered, "median absolute error (%); test_max: mean (%)"): serving.loc["tpot", "median_percent"],
        ("serving_ttft", answered, "median absolute error (%); test_max: mean (%)"): serving.loc["ttft", "median_percent"],
        ("serving_intervals", answered, "coverage of TPOT (%); test_max: width (1)"): serving.loc["tpot", "coverage_percent"],
        (
            "serving_elsewhere",
            "66 rows of ML.ENERGY's problem-solving task, not read before",
            "median absolute error (%); test_max: coverage of the benchmark's interval (%)",
        ): elsewhere["median_percent"],
        ("a100_step_time", "Korthikanti 2022, Table 5 (8)", "mean |error|"): a100,
        ("training_on_tpus", "Llama 3.1 70B on v6e (4)", "mean |error|"): float(np.abs(np.exp(tpu) - 1).mean()),
        ("nccl_all_reduce", "one machine type left out", "median |error| over all measured rows"): nccl["machine", "formula"],
        ("nccl_all_reduce", "one GPU count left out", "median |error| over all measured rows"): nccl["gpu_count", "formula"],
        ("collectives", "nccl-tests, one NVLink domain (60 rows)", "median |error|"): collectives["node"],
        ("collectives", "nccl-tests, over a network (46 rows)", "median |error|"): collectives["network"],
        ("published_steps", "79 published training steps", "median absolute error (%)"): float(
            np.median([100 * abs(row.time_s / steps[row.line] - 1) for row in shares.itertuples()])
        ),
        ("published_steps_kernel_tables", "56 published training steps on GPUs", "median absolute error of arithmetic (%)"): float(
            np.median([100 * abs(row.compute_s / steps[row.line] - 1) for row in tables[tables["fidelity"] == "kernels"].itertuples()])
        ),
        ("few_shot", "new devices of both spaces, 10 seeds", "Spearman, mean over devices of both spaces"): ranks.mean(),
        ("basic_blocks", "blocks held out", "MAPE (%), mean over SKL and ZEN"): blocks.mean(),
        ("neuroscalar", "held-out windows", "mean error of whole-program cycles (%)"): error["held-out windows"],
        ("neuroscalar", "programs left out", "mean error of whole-program cycles (%)"): error["unseen programs"],
    }


BUILT = {*tests.checks.test_evaluation_log.NUMBERS, "mapping_search", "mapping_surrogate"}  # the last two below
WITHIN = {  # chosen on the way: no page or result gives the value of the row
    **{f"kernels_{group}": "selection within each fold, on a sample; announced is the frozen error of the whole" for group in GROUPS},
    **{f"kernels_{group}_exploration": "shaped features and constants; never tested" for group in GROUPS},
    "kernels_today": "exploration on the architectures that then were left out; announced are the frozen tables of all",
    "kernels_own_h200": "chosen with its rows in view; announced are the scores of own_gpu, first and today's",
    "programs_own_h200": "chosen with its rows in view; announced is the first score, in own_gpu",
    "measured_panel": "mean of the frozen medians of its sources, which the page shows one by one",
    "served_requests": "chosen on the profiles' own measurements, each length left out; announced are the two runs' statistics",
    "site_calibration": "chosen by sources that are not judged; announced are the judged ones, which the notebook scores anew",
    "systolic_with_dram": "which order of folds the model takes; compared with recorded runs of ZigZag once",
    "serving_panel": "steps on the way; announced is what other sources tell of each, data/frozen/predictor_serving/sources.csv",
    "serving_plans": "the rule by which a plan is chosen; its scores are built by predictor_serving (plan_choice.csv)",
    "serving_spread": "the form of the intervals on other sources, by their score; announced are the coverages of sources.csv",
    "serving_unprofiled": "the form of the intervals, by their score; announced are the coverages of scores.csv",
    "astra_sim_closed_forms": "exact where it applies: property tests of tests/networks/test_closed_forms.py",
    "astra_sim_replay": "exact where it applies: property test of tests/networks/test_replay_random.py",
}


def test_every_choice_is_compared_or_says_why_not() -> None:
    log = attempts.read()
    compared = {experiment for experiment, _, _ in _announced()} | BUILT
    assert set(log.loc[log["chosen"], "experiment"]) == compared | set(WITHIN)
    assert not compared & set(WITHIN)


def test_what_was_chosen_is_what_is_announced() -> None:
    """Each chosen row whose result is frozen has the frozen value; a row that no longer holds is marked superseded and is not chosen."""
    log = attempts.read()
    chosen = log[log["chosen"]]
    for (experiment, tested_on, metric), value in _announced().items():
        keys = {"experiment": experiment, "tested_on": tested_on, "test_metric": metric}
        row = chosen[np.logical_and.reduce([chosen[name] == wanted for name, wanted in keys.items()])]
        assert len(row) == 1, (experiment, tested_on)
        # rows by hand have two or three figures
        by_hand = experiment.startswith(("measured_", "serving_"))
        assert row["test_value"].iloc[0] == pytest.approx(value, rel=1e-2 if by_hand else 1e-3), (experiment, tested_on)
    assert not chosen["note"].fillna("").str.startswith("superseded").any()


def test_searches_and_models_of_the_mapping_space_are_the_frozen_ones() -> None:
    log = attempts.read()
    chosen = log[log["chosen"]].set_index("experiment")
    traces = read_csv(DATA / "frozen" / "mapping_search" / "traces.csv")
    ends = traces[traces["evaluations"] == traces["evaluations"].max()].groupby(["layer", "method"])["edp_over_best"].median()
    worst = ends.groupby("method").max()
    assert len(chosen.loc["mapping_search"]) == len(worst) == 3
    for row in chosen.loc["mapping_search"].itertuples():
        assert row.test_value == pytest.approx(worst[row.configuration.partition(":")[0]], rel=1e-6), row.configuration
    keys = ["model", "settings", "seed", "trained_on"]
    fits = read_csv(DATA / "frozen" / "mapping_search" / "surrogate.csv").set_index(keys)["rmse_log"]
    assert len(chosen.loc["mapping_surrogate"]) == 27
    for row in chosen.loc["mapping_surrogate"].itertuples():
        model, settings, seed = row.configuration.split(", ")
        key = (model, settings, int(seed.removeprefix("split seed ")), int(row.fitted_on.split(" ")[0]))
        assert row.test_value == pytest.approx(fits[key], rel=1e-6), row.configuration
