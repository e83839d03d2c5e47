"""Every example is read by its command's own reader, and `--example` prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.__main__ import EXAMPLES, PROGRAM, RUN, command_names, main
from analysis.accelerators.systolic.array import SCALE_SIM_3
from analysis.accelerators.systolic.cases import predict_cases
from analysis.configs import read_yaml
from analysis.cores.timing.designs import load_design
from analysis.networks.case_table import DEFAULTS, parse_case
from analysis.networks.network_file import read_network
from analysis.networks.trace import read_nodes, spread
from analysis.paths import DATA
from analysis.serving.points.simulation import read_configuration
from analysis.tables import read_csv
from analysis.training.config import Training, row_of
from analysis.training.views import ask
from analysis.workloads.hlo.child import read
from tests import bench


def test_every_example_is_of_a_command_and_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    folders = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    assert set(folders) <= set(command_names()) and len(folders) >= 14
    for name in folders:
        assert main([name, "--example"]) == 0
        printed = capsys.readouterr().out
        for path in (EXAMPLES / name).iterdir():
            if path.suffix == ".elf":
                assert f"# examples/{name}/{path.name}\n({path.stat().st_size:,} bytes)" in printed
            elif path.name == RUN:
                assert path.read_text().replace("howfast", PROGRAM) in printed
            else:
                assert f"# examples/{name}/{path.name}\n" in printed and path.read_text().rstrip() in printed
    assert main(["claims", "--example"]) == 2


def test_an_example_is_copied_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--example", str(tmp_path / "mine")]) == 0
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["network.yaml", "nodes.csv"]
    assert main(["replay", "--example", str(tmp_path / "mine")]) == 2
    assert "is there already: network.yaml, nodes.csv" in capsys.readouterr().err


def test_training_and_serving() -> None:
    training = read_yaml(EXAMPLES / "train" / "train.yaml", Training)
    assert ask(row_of(training)).row["fits"] == "yes"
    assert read_configuration(EXAMPLES / "serve" / "simulate.yaml").limits().kv_blocks > 1000


def test_tables_and_networks() -> None:
    rows = read_csv(EXAMPLES / "collectives" / "cases.csv", dtype=str, keep_default_na=False).to_dict("records")
    assert [parse_case({**DEFAULTS, **row}).network.npus for row in rows] == [8, 32]
    found = predict_cases(read_csv(EXAMPLES / "systolic" / "cases.csv", dtype=str, keep_default_na=False), SCALE_SIM_3)
    assert (found["reason"] == "").all()
    network, _, _ = read_network(EXAMPLES / "replay" / "network.yaml")
    assert len(spread(read_nodes(EXAMPLES / "replay" / "nodes.csv"), network.npus)) == 3 * 8


def test_program_and_design() -> None:
    record = read((EXAMPLES / "hlo" / "step.mlir").read_bytes(), None)
    assert "error" not in record and sum(work["flops"] for work in record["works"]) == 2 * 64 * 1024 * 4096
    assert load_design(EXAMPLES / "core" / "design.yaml") == load_design("8w")


def test_scenarios_fill_the_survey_s_categories_and_each_command_has_its_rows() -> None:
    """T1 to T4 have 4, 3, 2 and 6 scenarios, I1 to I5 5, 4, 3, 2 and 4, D1 3 (data/published/survey_public_repository.md)."""
    listed = read_csv(EXAMPLES / "predict" / "scenarios.csv", dtype=str, keep_default_na=False)
    sizes = listed["scenario"].str.split(".").str[0].value_counts().to_dict()
    assert sizes == {"T1": 4, "T2": 3, "T3": 2, "T4": 6, "I1": 5, "I2": 4, "I3": 3, "I4": 2, "I5": 4, "D1": 3}
    spelled = set(read_csv(DATA / "published" / "scenarios.csv")["id"])
    assert set(listed[listed["defined"] == "survey"]["scenario"]) == spelled
    for name in ("training", "batch"):
        asked = set(listed[listed["command"].str.contains(f"scenarios_{name}.csv")]["scenario"])
        assert asked == set(read_csv(EXAMPLES / "predict" / f"scenarios_{name}.csv")["scenario"])
    assert all(row["answer"].startswith("no: ") for row in listed.to_dict("records") if not row["command"])


def test_benchmarks_of_a_room_that_is_not_there() -> None:
    with pytest.raises(SystemExit, match="no benchmarks of 'foo'"):
        bench.report("foo")
