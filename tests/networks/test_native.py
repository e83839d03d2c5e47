"""ASTRA-sim's own input files: the same answer as from ours."""

import json
from pathlib import Path

import pytest
from conftest import run_here

from analysis.errors import InputError
from analysis.networks.cases import AWARE, CollectiveCase
from analysis.networks.native import read_native
from analysis.paths import DATA
from analysis.studies.networks.one_collective import collective_cycles
from analysis.tables import read_csv

GPT = DATA / "recorded" / "astra-sim" / "gpt_tp4dp2"
# the shape and the values of the tool's validated HGX-H100 example (examples/network/analytical, examples/system/native_collectives)
NETWORK = "topology: [ Switch ]\nnpus_count: [ 8 ]\nbandwidth: [ 400.0 ]  # GB/s\nlatency: [ 936.25 ]  # ns\n"
SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 2,
    "preferred-dataset-splits": 4,
    **{f"{name}-implementation": ["ring"] for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")},
    "collective-optimization": "localBWAware",
    "local-mem-bw": 3350,
    "boost-mode": 0,
}


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("all-reduce-implementation-custom", "all-reduce-implementation-custom: collectives of one's own"),
        ("sheduling-policy", "did you mean scheduling-policy"),
    ],
)
def test_keys_of_a_system_that_would_change_the_answer(tmp_path: Path, key: str, said: str) -> None:
    (tmp_path / "n.yml").write_text("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    names = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    content = {f"{name}-implementation": ["ring"] for name in names} | {key: ["x"], "boost-mode": 0}
    (tmp_path / "s.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=said):
        read_native(tmp_path / "n.yml", tmp_path / "s.json")
    del content["all-gather-implementation"], content[key]
    (tmp_path / "s.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="all-gather-implementation: required key is missing"):
        read_native(tmp_path / "n.yml", tmp_path / "s.json")


def files(folder: Path, **system: object) -> tuple[Path, Path]:
    (folder / "network.yml").write_text(NETWORK)
    (folder / "system.json").write_text(json.dumps(SYSTEM | system))
    return folder / "network.yml", folder / "system.json"


def test_the_survey_from_the_tools_own_files(tmp_path: Path) -> None:
    network, algorithms, peak = read_native(*files(tmp_path), backend=AWARE)
    assert peak is None
    assert set(algorithms.values()) == {("ring",)}
    assert collective_cycles(CollectiveCase("all_reduce", 1 << 20, network)).cycles == 57426  # the survey's Table 8


def test_a_trace_from_the_tools_own_files(tmp_path: Path) -> None:
    network, system = files(tmp_path, **{"roofline-enabled": 1, "peak-perf": 989})
    out = tmp_path / "out.csv"
    options = ["--network", str(network), "--system", str(system), "--groups", str(GPT / "comm_groups.json"), "--out", str(out)]
    done = run_here("replay", str(GPT / "gpt.0.et"), *options)
    assert done.returncode == 0, done.stderr
    # gpt_tp4dp2_results.csv: congestion-unaware, two active chunks, 989 TFLOPS
    assert read_csv(out).iloc[3].tolist() == [3, 10411370, 2227008, 8184362, 3630068]


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ({"all-gather-implementation": []}, "all-gather-implementation: expected a list of 1 algorithms"),
        ({"model-shared-bus": 1}, "shared memory bus"),
        ({"preferred-dataset-splits": 0}, "preferred_dataset_splits: expected at least 1"),
        ({"local-mem-bw": 0}, "local_mem_bw_GBps: expected a bandwidth above 0"),
    ],
)
def test_bad_system_files(tmp_path: Path, system: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_native(*files(tmp_path, **system))


def test_a_network_file_without_its_values(tmp_path: Path) -> None:
    """As the tool's own file for the eight-GPU DGX-V100: every bandwidth is tbd."""
    network, system = files(tmp_path)
    network.write_text(
        "topology: [ Ring, Ring, Ring ]\nnpus_count: [ 2, 2, 2 ]\nbandwidth: [ tbd, tbd, tbd ]\nlatency: [ tbd, tbd, tbd ]\n"
    )
    with pytest.raises(InputError, match="bandwidth: expected a list of numbers"):
        read_native(network, system)
