"""The plan search and the command."""

import json
from pathlib import Path

import pandas as pd
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from analysis.commands.models.train import app
from analysis.errors import InputError
from analysis.training.search import Cluster, best_plan, plans, search

CLUSTER = Cluster(model="llama-2-13b", system="HGX-H100", gpus=32, global_batch=64, sequence_length=4096)


def test_every_plan_uses_all_gpus_and_appears_once() -> None:
    found = list(plans(CLUSTER))
    assert all(plan.gpus == 32 for plan in found)
    assert len(set(found)) == len(found)


def test_sorted_with_reasons_last() -> None:
    table = search(CLUSTER)
    feasible = table["reason"] == ""
    assert feasible.any() and (~feasible).any()
    times = table.loc[feasible, "step_time_s"]
    assert times.is_monotonic_increasing
    assert feasible[: feasible.sum()].all()
    assert table.loc[~feasible, "step_time_s"].isna().all()
    assert table.loc[~feasible, "reason"].str.match(r"(memory|divisibility): .+").all()


def test_less_memory_never_helps() -> None:
    roomy, tight = search(CLUSTER), search(CLUSTER.model_copy(update={"memory": "40 GB"}))
    assert (tight["reason"] == "").sum() < (roomy["reason"] == "").sum()
    assert tight["step_time_s"].min() >= roomy["step_time_s"].min()


def test_nothing_fits() -> None:
    cluster = Cluster(model="llama-3-405b", system="HGX-H100", gpus=8, global_batch=8, sequence_length=8192)
    table = search(cluster)
    assert (table["reason"] != "").all()
    with pytest.raises(InputError, match="no plan fits"):
        best_plan(table, cluster)


def test_best_plan_is_the_first_row() -> None:
    table = search(CLUSTER)
    best = best_plan(table, CLUSTER)
    assert best.tensor_parallel == table["tensor_parallel"].iloc[0]
    assert best.gpus == 32


def test_impossible_clusters_are_refused() -> None:
    with pytest.raises(ValidationError, match="9999 GPUs"):
        Cluster(model="gpt2", system="HGX-H100", gpus=9999, global_batch=8, sequence_length=1024)
    with pytest.raises(ValidationError, match="no unit"):
        Cluster(model="gpt2", system="HGX-H100", gpus=8, global_batch=8, sequence_length=1024, memory="80")


CONFIG = """
model: llama-2-7b
system: HGX-H100
plan: {tensor_parallel: 2, pipeline_parallel: 2, data_parallel: 2, global_batch: 16, sequence_length: 4096}
"""


def test_command_prints_and_writes(tmp_path: Path) -> None:
    config, out, trace = tmp_path / "run.yaml", tmp_path / "run.json", tmp_path / "trace.json"
    config.write_text(CONFIG)
    result = CliRunner().invoke(app, [str(config), "--out", str(out), "--trace", str(trace)])
    assert result.exit_code == 0, result.output
    content = json.loads(out.read_text())
    assert content["step_time_s"] == pytest.approx(sum(content["time_s"].values()))
    assert content["memory_gib"] == pytest.approx(sum(content["memory_bytes"].values()) / 2**30)
    assert result.output.splitlines()[0] == "llama-2-7b on 8 x H100-SXM5-80GB, bf16, megatron"
    assert "bubble" in result.output and "90 %" in result.output
    printed = CliRunner().invoke(app, [str(config), "--json"])
    assert json.loads(printed.output) == content
    assert {"step_time_s", "lower_s", "upper_s", "memory_gib", "fits", "assumed", "status"} <= set(content)
    assert json.loads(trace.read_text())["traceEvents"]


def test_search_command(tmp_path: Path) -> None:
    config, out = tmp_path / "cluster.yaml", tmp_path / "plans.csv"
    config.write_text("model: llama-2-7b\nsystem: HGX-H100\ngpus: 16\nglobal_batch: 32\nsequence_length: 4096\n")
    result = CliRunner().invoke(app, ["search", str(config), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "feasible" in result.output
    assert {"step_time_s", "memory_gib", "reason"} <= set(pd.read_csv(out).columns)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model: llama-2-7b\nsystem: HGX-H100\nefficiencies: default\nplan: {global_batch: 8, sequence_length: 8}\n", "efficiencies"),
        ("model: llama-2-7b\nsystem: Juno\nplan: {global_batch: 8, sequence_length: 8}\n", "Juno"),
        ("model: llama-2-7b\nsystem: HGX-H100\nplan: {global_batch: 0, sequence_length: 8}\n", "global_batch"),
        ("model: llama-2-7b\nsystem: HGX-H100\nplan: {global_batch: 8, sequence_length: 8, colour: 1}\n", "unknown key"),
        ("model: llama-2-7b\nsystem: HGX-H100\nplan: {global_batch: 8, sequence_length: 8, pipeline_parallel: 33}\n", "33 pipeline stages"),
    ],
)
def test_bad_configurations_leave_nothing_behind(tmp_path: Path, text: str, says: str) -> None:
    config, out = tmp_path / "run.yaml", tmp_path / "run.json"
    config.write_text(text)
    result = CliRunner().invoke(app, [str(config), "--out", str(out)])
    assert isinstance(result.exception, InputError)
    assert says in str(result.exception)
    assert not out.exists()
