"""The measured suite: its schema, its flags against what was found independently, and grades."""

import json
from pathlib import Path

import pandas as pd
import pytest
from frictionless import Package
from typer.testing import CliRunner

from analysis.artifact.commands.evaluation.measured import app
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.serving.points import cases
from analysis.studies import datasets
from analysis.studies.suite import clean
from analysis.studies.suite.rows import PARTS, SCHEMA, points, rows
from analysis.studies.suite.score import grade_file
from analysis.tables import read_csv, write_csv


def test_serving_flags_are_those_counted_independently() -> None:
    """Found with the package's own answers (aiconfigurator 0.12.0): 430 squared widths, 55 implausible ones, 1,328 without workers."""
    words = clean.serving_flags(points()).str.split().explode().value_counts()
    assert (words["squared_width"], words["implausible_width"], words["no_worker_counts"]) == (430, 55, 1328)
    assert words["plan_unrecorded"] == 190


def test_plans_that_the_benchmark_did_not_write_down_are_those_it_ran() -> None:
    """InferenceX pull 145 (3 November 2025) writes expert parallelism and attention data parallelism into results; before, the scripts set
    them. Runs of December by the same image with the plan written down are the witness: they take as long."""
    raw = read_csv(DATA / "measured_suite" / "serving_points.csv.gz", dtype=str, keep_default_na=False).drop_duplicates("id")
    run = clean.as_run(raw)
    moved = (raw != run).any(axis=1)
    assert (run.loc[~moved] == raw.loc[~moved]).all(axis=None) and set(raw.columns[(raw != run).any()]) <= {*clean.WIDTHS, "batch_size"}
    days = run["silicon_data_source"].str.extract(r"measured=(\d{4}-\d\d-\d\d)")[0]
    assert days[moved].max() == "2025-11-10" and moved.sum() == 190
    widths = run.loc[moved, clean.WIDTHS].astype(int)
    assert (widths["tp_size"] * widths["attention_dp_size"] == widths["moe_tp_size"] * widths["moe_ep_size"]).all()
    run["later"] = (~moved & (days == "2025-12-15")).to_numpy()
    known = run[moved | run["later"]].reset_index(drop=True)
    same = [
        (c.engine, c.model.name, c.device, c.types, c.plan, c.clients, c.input_tokens, c.output_tokens) for c in cases.read(known)[0] if c
    ]
    pairs = (
        known[~known["later"]]
        .assign(same=pd.Series(same))
        .merge(known[known["later"]].assign(same=pd.Series(same)), on="same", suffixes=("", "_later"))
    )
    apart = (pairs["silicon_tpot_ms"].astype(float) / pairs["silicon_tpot_ms_later"].astype(float) - 1).abs()
    assert len(pairs) > 50 and apart.median() < 0.01 and apart.max() < 0.1


@pytest.mark.parametrize("part", ["serving", "published"])
def test_shipped_parts_have_the_schema(part: str) -> None:
    table = rows(part)
    assert tuple(table.columns) == SCHEMA and table["row_id"].is_unique
    assert (table["value"].dropna() > 0).all() and (table["licence"] != "").all()


def test_parts_of_others_datasets_have_the_schema() -> None:
    for part, name in (("single_batch_serving", "pipeweave/e2e_real_runs"), ("requests", "llmservingsim/rtxpro6000_qwen3-32b_requests")):
        if not datasets.available(name):
            pytest.skip(f"{name}: set ANALYSIS_DATASETS or run make data")
        table = rows(part)
        assert tuple(table.columns) == SCHEMA and table["row_id"].is_unique and (table["value"] > 0).all()


def _faults(folder: Path) -> list[list[object]]:
    return Package(str(folder / "datapackage.json")).validate().flatten(["fieldName", "rowNumber", "type"])


def test_the_suite_validates_as_a_frictionless_package(tmp_path: Path) -> None:
    """Types, primary key, constraints and missing values of every part whose originals are here; serving and published always are."""
    answer = CliRunner().invoke(app, ["package", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    written = {entry["name"].replace("-", "_") for entry in json.loads((tmp_path / "datapackage.json").read_text())["resources"]}
    assert {"serving", "published"} <= written <= set(PARTS)
    assert all(part in written or f"{part}: left out" in answer.output for part in PARTS)
    assert _faults(tmp_path) == []


@pytest.mark.parametrize(
    ("column", "cell", "fault"),
    [
        ("row_id", "published:1", "unique-error"),
        ("value", "fast", "type-error"),
        ("value", "-1", "constraint-error"),
        ("unit", "", "constraint-error"),
        ("devices", "2x8", "type-error"),
        ("part", "else", "constraint-error"),
    ],
)
def test_a_broken_row_makes_the_package_invalid(column: str, cell: str, fault: str, tmp_path: Path) -> None:
    from analysis.studies.suite.rows import package

    table = rows("published").iloc[:3].astype(object)
    table.loc[0, column] = cell
    write_csv(table, tmp_path / "published.csv")
    (tmp_path / "datapackage.json").write_text(json.dumps(package({"published": table})))
    assert [column, 2, fault] in _faults(tmp_path) or ["row_id", 3, fault] in _faults(tmp_path)


def test_torchtitan_is_quoted_whole() -> None:
    """benchmarks/llama3_h100_202412_torchtitan.md: 18 configurations, throughput and peak memory of each; Table 3, last row."""
    from analysis.studies.training import sources

    table = rows("published")
    peaks = table[table["source"].str.contains("torchtitan")]
    assert peaks["metric"].value_counts().to_dict() == {"peak memory": 18}
    last = peaks[peaks["plan"].str.startswith("Table 3: FSDP + torch.compile + Float8")]
    assert last["value"].to_list() == [61.8] and set(last["devices"]) == {128}
    steps = sources.published("torchtitan_h100")  # throughput is a source of the training steps
    speed = [c.global_batch * c.sequence / c.gpus / s for c, s in zip(steps.cases, steps.step_s, strict=True)]
    of_128 = [round(v) for c, v in zip(steps.cases, speed, strict=True) if c.gpus == 128 and c.precision == "fp8"]
    assert len(steps.cases) == 18 and of_128 == [8380]


def test_served_batches_carry_the_length_of_every_prompt() -> None:
    if not datasets.available("pipeweave/e2e_real_runs"):
        pytest.skip("pipeweave: set ANALYSIS_DATASETS or run make data")
    table = rows("single_batch_serving")
    words = table["workload"].str.extract(r"batch_size=(\d+) .*total_prefill_tokens=(\d+) .*prompt_tokens=([\d+]+)$")
    tokens = words[2].str.split("+")
    assert (tokens.str.len() == words[0].astype(int)).all()
    assert [sum(map(int, row)) for row in tokens] == words[1].astype(int).to_list()
    assert set(table["devices"]) == {1, 2, 4, 8} and not table["hardware"].str.startswith("tp").any()


def _predictions(tmp_path, factor: float = 1.1):
    table = rows("serving").iloc[:400]
    frame = pd.DataFrame({"row_id": table["row_id"], "predicted": table["value"] * factor})
    frame["lower"], frame["upper"] = frame["predicted"] / 1.2, frame["predicted"] * 1.2
    path = tmp_path / "predictions.csv"
    write_csv(frame, path)
    return path, frame


def test_a_known_error_is_graded_as_such(tmp_path) -> None:
    path, _ = _predictions(tmp_path)
    grades = grade_file(path)
    assert grades["median_error_percent"].to_list() == pytest.approx([10.0])
    assert grades["bias_percent"].to_list() == pytest.approx([10.0])
    assert grades["covered"].to_list() == [1.0] and grades["width"].to_list() == pytest.approx([1.44])
    assert (grades["median_low_percent"] <= 10.0001).all()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda f: pd.concat([f, f.iloc[:1]]), "twice"),
        (lambda f: f.assign(row_id="nowhere:1").iloc[:1], "unknown"),
        (lambda f: f.assign(predicted=-1.0), "positive"),
        (lambda f: f.drop(columns="predicted"), "predicted"),
        (lambda f: f.iloc[:0], "no rows"),
    ],
)
def test_bad_predictions_are_one_line(tmp_path, change, word) -> None:
    path, frame = _predictions(tmp_path)
    write_csv(change(frame), path)
    with pytest.raises(InputError, match=word):
        grade_file(path)
