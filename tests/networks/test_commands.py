"""The two commands as a user runs them, with good input and bad."""

from pathlib import Path

import pytest
from conftest import run_here

from analysis.errors import InputError
from analysis.networks.case_table import answer_cases
from analysis.networks.cases import COLUMNS, RECORDED_AS, CollectiveCase, Network, check_case, outside_model
from analysis.networks.network_file import read_network
from analysis.networks.trace import read_nodes
from analysis.paths import DATA
from analysis.tables import read_csv
from analysis.workloads.chakra.traces import read_rank

GPT = DATA / "recorded" / "astra-sim" / "gpt_tp4dp2"
NETWORK = """backend: Congestion_Unaware
topology: Switch
npus_per_dim: 8
bandwidth_gib_per_s: 400.0
latency_ns: 936.25
peak_TFLOPS: 989
groups: {groups}
"""


def network_file(folder: Path, **changes: object) -> Path:
    text = NETWORK.format(groups=GPT / "comm_groups.json")
    for key, value in changes.items():
        text = "\n".join(f"{key}: {value}" if line.startswith(f"{key}:") else line for line in text.splitlines()) + "\n"
    path = folder / "net.yaml"
    path.write_text(text)
    return path


def test_replay_command(tmp_path: Path) -> None:
    out, nodes = tmp_path / "out.csv", tmp_path / "nodes.csv"
    done = run_here("replay", str(GPT / "nodes.csv"), "--network", str(network_file(tmp_path)), "--out", str(out), "--timeline", str(nodes))
    assert done.returncode == 0, done.stderr
    answers = read_csv(out)
    assert list(answers.columns) == ["rank", "cycles", "exposed_comm_cycles", "gpu_cycles", "comm_cycles"]
    assert answers.iloc[7].tolist() == [7, 13571568, 5387206, 8184362, 7260136]  # gpt_tp4dp2_results.csv
    timeline = read_csv(nodes)
    assert timeline["end"].max() == answers["cycles"].max() and (timeline["end"] >= timeline["start"]).all()


def test_collectives_command_refuses_what_cannot_be(tmp_path: Path) -> None:
    cases = read_csv(DATA / "recorded" / "astra-sim" / "collectives.csv", dtype=str, keep_default_na=False)
    cases = cases[[RECORDED_AS.get(column, column) for column in COLUMNS]].iloc[:3].copy()
    cases.loc[1, "bandwidth_GBps"] = "0"
    cases.to_csv(tmp_path / "cases.csv", index=False)
    done = run_here("collectives", str(tmp_path / "cases.csv"), "--out", str(tmp_path / "out.csv"))
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path / 'cases.csv'}:3: bandwidth_GBps: expected bandwidths above 0, got 0.0\n"
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("size_bytes", "-1", "at least 1 byte"),
        ("size_bytes", "0", "at least 1 byte"),
        ("size_bytes", "many", "whole number"),
        ("latency_ns", "-3", "at least 0"),
        ("npus_per_dim", "0", "at least 1"),
        ("npus_per_dim", "2x2", "1 entries"),
        ("preferred_dataset_splits", "0", "at least 1"),
        ("local_mem_bw_GBps", "0", "above 0"),
        ("bandwidth_gib_per_s", "nan", "above 0"),
    ],
)
def test_bad_cells_are_named(column: str, value: str, message: str) -> None:
    row = read_csv(DATA / "recorded" / "astra-sim" / "collectives.csv", dtype=str, keep_default_na=False)
    row = row.rename(columns={"bandwidth_GBps": "bandwidth_gib_per_s"})[list(COLUMNS)].iloc[:1].copy()
    row[column] = value
    with pytest.raises(InputError, match=message) as caught:
        answer_cases(row, "cases.csv")
    assert str(caught.value).startswith(f"cases.csv:2: {column}: ")


@pytest.mark.parametrize(
    ("changes", "collective", "reason"),
    [
        ({"backend": "ns3"}, "all_reduce", "backend 'ns3'"),
        ({"topology": ("Mesh",)}, "all_reduce", "topology 'Mesh'"),
        ({}, "reduce", "collective 'reduce'"),
        ({"algorithm_per_dim": ("halvingDoubling",), "npus_per_dim": (6,)}, "all_reduce", "power of two"),
        ({"algorithm_per_dim": ("halvingDoubling",)}, "all_to_all", "no all-to-all"),
        ({"algorithm_per_dim": ("doubleBinaryTree",)}, "all_gather", "is an all-reduce"),
        ({"npus_per_dim": (1,)}, "all_reduce", "nobody"),
    ],
)
def test_outside_the_model_has_a_reason(changes: dict, collective: str, reason: str) -> None:
    case = CollectiveCase(collective, 1 << 20, Network(**changes))
    check_case(case)
    assert reason in outside_model(case)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bandwidth_gib_per_s": 0}, r"net.yaml:4: bandwidth_gib_per_s: expected bandwidths above 0"),
        ({"groups": "nowhere.json"}, r"net.yaml:7: groups: no file nowhere.json"),
        ({"peak_TFLOPS": -1}, r"net.yaml:6: peak_TFLOPS: expected a peak above 0"),
        ({"npus_per_dim": "many"}, r"net.yaml:3: npus_per_dim"),
    ],
)
def test_bad_network_files(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_network(network_file(tmp_path, **changes))


def test_cut_off_chakra_file(tmp_path: Path) -> None:
    whole = (GPT / "gpt.0.et").read_bytes()
    (tmp_path / "cut.0.et").write_bytes(whole[:-3])
    with pytest.raises(InputError, match="cut off"):
        read_rank(tmp_path / "cut.0.et", 0)
    (tmp_path / "noise.0.et").write_bytes(b"\x05hello")
    with pytest.raises(InputError, match="not a Chakra trace"):
        read_rank(tmp_path / "noise.0.et", 0)


def test_all_that_is_wrong_with_a_file_is_told_at_once(tmp_path: Path) -> None:
    cases = read_csv(DATA / "recorded" / "astra-sim" / "collectives.csv", dtype=str, keep_default_na=False)
    cases = cases[[RECORDED_AS.get(column, column) for column in COLUMNS]].iloc[:12].copy()
    cases["size_bytes"] = [str(1000 + k) if k not in (1, 4) else "many" for k in range(12)]
    with pytest.raises(
        InputError, match=r"cases.csv:3: size_bytes: expected a whole number, got 'many'; line 6: size_bytes: expected"
    ) as told:
        answer_cases(cases, "cases.csv")
    assert str(told.value).count("expected") == 2
    cases["size_bytes"] = [f"x{k}" for k in range(12)]
    with pytest.raises(InputError, match=r"cases.csv:2: .*; line 7: size_bytes: [^;]*; and 6 more$"):
        answer_cases(cases, "cases.csv")
    nodes = read_csv(GPT / "nodes.csv", dtype=str, keep_default_na=False).iloc[:4].copy()
    nodes["rank"] = ["0", "-1", "zero", ""]
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    with pytest.raises(InputError, match=r"nodes.csv:3: rank: .*; line 4: rank: .*; line 5: node_id: "):
        read_nodes(tmp_path / "nodes.csv")
    nodes = read_csv(GPT / "nodes.csv", dtype=str, keep_default_na=False).iloc[:2].assign(duration_micros=["8.0", "8.5"])
    nodes.to_csv(tmp_path / "nodes.csv", index=False)
    with pytest.raises(InputError, match=r"nodes.csv:3: duration_micros: expected a whole number, got '8.5'$"):  # 8.0 is one
        read_nodes(tmp_path / "nodes.csv")
