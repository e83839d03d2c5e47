"""The loop-nest model against Timeloop 4cf6d4c: data/recorded/timeloop/."""

import json

import pandas as pd
import pytest

from analysis.__main__ import main as command
from analysis.accelerators.loopnest.architecture import read_architecture
from analysis.accelerators.loopnest.evaluation import Evaluation, evaluate, statistics
from analysis.accelerators.loopnest.mapping import read_mapping
from analysis.accelerators.loopnest.problem import convolution
from analysis.paths import DATA

RECORDED = DATA / "recorded" / "timeloop"
RUNS = pd.read_csv(RECORDED / "runs.csv").set_index("run")
COUNTS = pd.read_csv(RECORDED / "access_counts.csv")
MAPPED = sorted(path.stem for path in (RECORDED / "mappings").glob("*.yaml"))
EYERISS = read_architecture(RECORDED / "architecture.yaml")


def evaluated(run: str) -> Evaluation:
    row = RUNS.loc[run]
    size = {d.lower(): int(row[d]) for d in "NCMPQRS"}
    problem = convolution(**size, stride=int(row["stride"]))
    return evaluate(problem, EYERISS, read_mapping(RECORDED / "mappings" / f"{run}.yaml", EYERISS))


@pytest.mark.parametrize("run", MAPPED)
def test_cycles_utilization_and_energy_of_every_recorded_mapping(run: str) -> None:
    # runs.csv: cycles, utilization_pct (two decimals), energy_uJ.
    got, row = evaluated(run), RUNS.loc[run]
    assert got.cycles == row["cycles"]
    assert round(100 * got.utilization, 2) == pytest.approx(row["utilization_pct"], abs=0.006)
    assert got.energy_j * 1e6 == pytest.approx(row["energy_uJ"], rel=1e-3)


@pytest.mark.parametrize("run", MAPPED)
def test_dram_and_arithmetic_energy_are_exact(run: str) -> None:
    # DRAM and the arithmetic have no leakage term, so their fJ per multiply-accumulate agree to the printed digit.
    got, row = evaluated(run), RUNS.loc[run]
    by_level = got.energy_by_level()
    assert by_level["DRAM"] * 1e15 / got.macs == pytest.approx(row["fJ_dram"], abs=0.006)
    assert by_level["mac"] * 1e15 / got.macs == pytest.approx(row["fJ_mac"], abs=0.006)


@pytest.mark.parametrize("run", sorted(COUNTS["run"].unique()))
def test_every_recorded_access_count_is_exact(run: str) -> None:
    got = {(a.level, a.tensor): statistics(a) for a in evaluated(run).accesses}
    recorded = COUNTS[COUNTS["run"] == run]
    assert len(recorded) == 72
    assert len(recorded) == sum(len(found) for found in got.values())
    for row in recorded.itertuples():
        value = got[row.level, row.dataspace][row.stat]
        if row.stat.startswith("Energy"):
            # Printed with two decimals.
            assert value == pytest.approx(row.value, abs=0.006), row
        else:
            assert value == row.value, row


def test_the_anchor() -> None:
    # The reference evaluation: 86,016 cycles, 126 of 168 units, DRAM weight reads 13,824, DRAM input reads 156,600.
    got = evaluated("refmodel")
    dram = {a.tensor: a for a in got.accesses if a.level == "DRAM"}
    assert (got.cycles, got.lanes_used, got.lanes) == (86_016, 126, 168)
    assert dram["Weights"].reads == 13_824 == (3 * 8 * 3 * 3) * (8 * 2 * 4)
    assert dram["Inputs"].reads == 156_600 == 8 * (9_831 + 3 * 29 * 112)
    assert dram["Outputs"].updates == 401_408


def test_the_command_writes_the_same_counts(tmp_path, capsys) -> None:
    layer = tmp_path / "layer.yaml"
    layer.write_text("N: 1\nC: 3\nM: 32\nP: 112\nQ: 112\nR: 3\nS: 3\nstride: 2\n")
    arguments = ["--arch", RECORDED / "architecture.yaml", "--layer", layer, "--mapping", RECORDED / "mappings" / "refmodel.yaml"]
    assert command(["loopnest", *map(str, arguments), "--out", str(tmp_path / "out.json")]) == 0
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["cycles"] == 86_016
    assert written["utilization"] == 0.75
    assert written["energy_uj"] == pytest.approx(59.23, rel=1e-3)
    got = {(a["level"], a["dataspace"], a["stat"]): a["value"] for a in written["accesses"]}
    for row in COUNTS[COUNTS["run"] == "refmodel"].itertuples():
        assert got[row.level, row.dataspace, row.stat] == pytest.approx(row.value, abs=0.006)


LAYER = "N: 1\nC: 3\nM: 32\nP: 112\nQ: 112\nR: 3\nS: 3\nstride: 2\n"
REFERENCE = (RECORDED / "mappings" / "refmodel.yaml").read_text()


@pytest.mark.parametrize(
    ("layer", "loops", "expected"),
    [
        (LAYER.replace("M: 32", "M: 31"), REFERENCE, "mapping.yaml: M: the loop bounds multiply to 32, the layer has 31"),
        (LAYER + "K: 3\n", REFERENCE, "layer.yaml:1: a convolution has no K"),
        (LAYER.replace("C: 3\n", ""), REFERENCE, "a convolution needs C, M, P, Q; missing: C"),
        (LAYER.replace("stride: 2", "strides: 2"), REFERENCE, "layer.yaml:8: strides: unknown key"),
        (LAYER, REFERENCE.replace("at: DRAM, dim: P", "at: dram, dim: P"), "no place dram; there are: DRAM, shared_glb, spatial_X"),
        (LAYER, REFERENCE.replace("dim: M, bound: 8", "dim: M, bound: 0"), "mapping.yaml:12: loops.9.bound"),
        (LAYER, REFERENCE.replace(", spatial: X", ""), "spatial_X is an axis: give spatial"),
        (
            LAYER.replace("M: 32", "M: 128"),
            REFERENCE.replace("dim: M, bound: 8", "dim: M, bound: 32"),
            "psum_spad: tiles need 32 words, there are 16",
        ),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, capsys, layer: str, loops: str, expected: str) -> None:
    (tmp_path / "layer.yaml").write_text(layer)
    (tmp_path / "mapping.yaml").write_text(loops)
    files = ["--layer", tmp_path / "layer.yaml", "--mapping", tmp_path / "mapping.yaml", "--out", tmp_path / "out.json"]
    assert command(["loopnest", "--arch", str(RECORDED / "architecture.yaml"), *map(str, files)]) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out.json").exists()
