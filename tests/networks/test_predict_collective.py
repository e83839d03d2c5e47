"""`predict collective`: every cell is used, refused or said; strangers' machines are met within the intervals."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from analysis.kernels.cases import answers as kernel_answers
from analysis.networks.collective_cases import COLUMNS, answers
from tests.golden import kept

BASE = {
    "device": "H100",
    "gpus": "16",
    "nodes": "2",
    "network_gbit_per_s_per_gpu": "400",
    "collective": "all_reduce",
    "size_bytes": "67108864",
}


def ask(**cells: str) -> pd.Series:
    return answers(pd.DataFrame([BASE | cells])).iloc[0]


@pytest.mark.parametrize(
    ("cells", "measured_us", "within"),
    [
        # AWS p5, nccl-tests on one node (aws-samples/awsome-distributed-training, micro-benchmarks/nccl-tests, MIT-0)
        ({"gpus": "8", "nodes": "1", "network_gbit_per_s_per_gpu": ""}, 326.6, 0.12),
        ({"gpus": "8", "nodes": "1", "network_gbit_per_s_per_gpu": "", "size_bytes": "8589934592"}, 31289.0, 0.12),
        # Azure ND A100 v4 (Azure/AI-benchmarking-guide, MIT)
        ({"device": "A100-SXM4-40GB", "gpus": "8", "nodes": "1", "network_gbit_per_s_per_gpu": ""}, 704.8, 0.12),
        # AWS p4de, two nodes, 4 x 100 Gbit/s of EFA each (aws-samples, MIT-0)
        ({"device": "A100-SXM4-80GB", "network_gbit_per_s_per_gpu": "50", "size_bytes": "1073741824"}, 26217.0, 0.25),
    ],
)
def test_published_times_are_met(cells: dict[str, str], measured_us: float, within: float) -> None:
    got = ask(**cells)
    assert not got["status"] and got["time_us"] == pytest.approx(measured_us, rel=within)
    assert got["lower_us"] < measured_us < got["upper_us"]


@pytest.mark.parametrize(
    "cells",
    [{"device": "L40S"}, {"gpus": "8"}, {"gpus": "32", "nodes": "4"}, {"nodes": "4"}, {"network_gbit_per_s_per_gpu": "100"},
     {"collective": "all_gather"}, {"collective": "alltoall"}, {"size_bytes": "1024"}],
)  # fmt: skip
def test_every_cell_changes_the_answer(cells: dict[str, str]) -> None:
    got = ask(**cells)
    assert not got["status"] and got["time_us"] != pytest.approx(ask()["time_us"], rel=1e-3)


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"network_gbit_per_s_per_gpu": ""}, "400 Gbit/s of network a GPU, as in"),
        ({"gpus": "8", "nodes": "1"}, "the network is not used in one node"),
        ({"device": "GB200", "gpus": "72", "nodes": "18", "network_gbit_per_s_per_gpu": ""}, "one nvlink domain of 72"),
        ({"device": "GB200", "gpus": "144", "nodes": "36"}, "nvlink domains of 72"),
        ({"device": "MI300X", "gpus": "8", "nodes": "1", "network_gbit_per_s_per_gpu": ""}, "a ring over infinity fabric"),
        ({"device": "H20", "network_gbit_per_s_per_gpu": ""}, "400 Gbit/s of network a GPU"),
        ({"gpus": "64", "nodes": "8"}, "SHARP"),
        ({"gpus": "8", "nodes": "1", "network_gbit_per_s_per_gpu": ""}, "NVLS"),
        ({"device": "L40S", "gpus": "8", "nodes": "1", "network_gbit_per_s_per_gpu": ""}, "a ring over PCIe"),
        ({"device": "TPU-v6e", "gpus": "8", "nodes": "1", "network_gbit_per_s_per_gpu": ""}, "no collective of Google was measured"),
    ],
)
def test_what_is_assumed_is_said(cells: dict[str, str], says: str) -> None:
    got = ask(**cells)
    assert not got["status"] and says in got["assumed"] and "launched by the host" in got["assumed"]


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"device": "H1000"}, "no device"),
        ({"device": ""}, "device is missing"),
        ({"gpus": "15"}, "do not divide by 2 nodes"),
        ({"gpus": "1", "nodes": "1"}, "gpus '1' must be a whole number from 2"),
        ({"gpus": "32", "nodes": "1"}, "32 H100-SXM5-80GB in one node; at most 8"),
        ({"nodes": "0"}, "nodes '0' must be"),
        ({"network_gbit_per_s_per_gpu": "fast"}, "'fast' must be a number above 0"),
        ({"collective": "barrier"}, "'barrier' is not covered; covered: all_reduce"),
        ({"size_bytes": "-1"}, "size_bytes must be"),
        ({"size_bytes": ""}, "size_bytes must be"),
        ({"device": "cpu-epyc-25-17-1t"}, "is no accelerator"),
    ],
)
def test_what_cannot_be_is_refused(cells: dict[str, str], says: str) -> None:
    got = ask(**cells)
    assert says in got["status"] and np.isnan(got["time_us"]) and not got["assumed"]


def test_an_unmeasured_machine_is_doubted_more() -> None:
    """At 8 GiB, where the host's launch says nothing: a measured device, one of that maker that was not, another maker's, PCIe."""
    one = {"gpus": "8", "nodes": "1", "network_gbit_per_s_per_gpu": "", "size_bytes": "8589934592"}
    rows = [ask(**one, device=name) for name in ("H100", "V100-SXM3-32GB", "MI300X", "L40S")]
    width = [row["upper_us"] / row["lower_us"] for row in rows]
    assert 1.1 < width[0] < width[1] < width[2] < width[3]


def test_rows_keep_their_order_and_answers() -> None:
    rows = pd.DataFrame(
        [BASE | {"size_bytes": str(size), "collective": kind} for size in (10**6, 10**8) for kind in ("all_reduce", "all_gather")]
    )
    together = answers(rows)
    assert list(together.columns) == list(COLUMNS)
    for place in range(len(rows)):
        assert together.iloc[place].equals(answers(rows.iloc[[place]]).iloc[0])


@pytest.mark.parametrize(("device", "inside"), [("gb200", 72), ("h100", 8), ("b200", 8), ("a100", 8), ("mi300x", 8)])
def test_an_all_reduce_over_two_domains_is_not_faster_than_inside_one(device: str, inside: int) -> None:
    """Each domain has the same vector to add, and then the network's part: 1 GiB over 16 H100 took less than over 8."""
    row = {"device": device, "collective": "all_reduce", "network_gbit_per_s_per_gpu": ""}
    for size in (2**10, 2**20, 2**25, 2**30, 2**33):
        asked = [{**row, "gpus": str(n * inside), "nodes": str(n), "size_bytes": str(size)} for n in (1, 2)]
        one, two = answers(pd.DataFrame(asked))["time_us"]
        assert one <= two


@pytest.mark.parametrize("device", ["H100", "A100-SXM4-80GB", "B200", "MI300X"])
def test_two_commands_say_which_question_of_one_all_reduce_they_answer(device: str) -> None:
    """`kernels predict` (a CUDA graph: 27 us for 1 MiB on eight H100) and `predict collective` (launched by a host: 42 us) name each other;
    a launch by the host does not make a collective faster than the lower end in a graph."""
    sizes = [str(2**power) for power in (10, 20, 25, 30)]
    graph = kernel_answers(pd.DataFrame({"op": "all_reduce", "device": device, "bytes": sizes, "devices": "8"}))
    host = answers(pd.DataFrame({"device": device, "gpus": "8", "collective": "all_reduce", "size_bytes": sizes}))
    assert graph["source"].str.contains("in a CUDA graph.*`predict collective`").all()
    assert host["assumed"].str.contains("launched by the host.*`kernels predict`").all()
    assert (host["time_us"] >= 0.95e3 * graph["lower_ms"]).all()


def test_a_collective_over_nodes_is_not_called_measured() -> None:
    """Asked beside one in a node, 16 H100 were called a measured GPU; nothing said that they are two nodes."""
    rows = kernel_answers(pd.DataFrame({"op": "all_reduce", "device": "H100", "bytes": "1048576", "devices": ["8", "16"]}))
    assert rows["source"][0].startswith("measured gpu") and "nodes" not in rows["source"][0]
    assert rows["source"][1].startswith("unmeasured gpu; 16 GPUs over nodes of 8, 400 Gbit/s of network a GPU")


def test_links_have_their_own_names() -> None:
    """Gaudi's ports were called Infinity Fabric, and a TPU was offered a CUDA graph."""
    one = {"gpus": "8", "nodes": "1", "network_gbit_per_s_per_gpu": ""}
    gaudi, tpu = ask(**one, device="Gaudi2")["assumed"], ask(**one, device="TPU-v5p")["assumed"]
    assert "over ethernet" in gaudi and "CUDA" not in gaudi + tpu and "over ici" in tpu


def test_cards_on_pcie_share_a_host_up_to_sixteen() -> None:
    one = {"device": "L40S", "nodes": "1", "network_gbit_per_s_per_gpu": ""}
    eight, twelve, more = (ask(**one, gpus=str(gpus)) for gpus in (8, 12, 17))
    assert "17 L40S in one node; at most 16" in more["status"] and not twelve["status"]
    # a ring over PCIe sends 2 (n - 1) / n of the message through each card's link
    assert eight["time_us"] < twelve["time_us"] < 1.3 * eight["time_us"]


ROWS: list[dict[str, str]] = [
    {},
    {"nodes": ""},
    {"nodes": "1", "gpus": "8"},
    {"nodes": "1", "gpus": "8", "network_gbit_per_s_per_gpu": ""},
    {"network_gbit_per_s_per_gpu": ""},
    *(
        {"collective": kind, "gpus": "24", "nodes": "3"}
        for kind in ("AllGather", "reduce-scatter_perf", "alltoall", "broadcast", "reduce", "sendrecv", "all_reduce")
    ),
    *({"collective": kind, "gpus": "4", "nodes": "1"} for kind in ("all_gather", "all_to_all", "send_recv")),
    {"size_bytes": "0"},
    {"size_bytes": "1"},
    {"size_bytes": "-1"},
    {"size_bytes": "1e15"},
    {"size_bytes": "1.1e15"},
    {"size_bytes": "x"},
    {"size_bytes": "nan"},
    {"gpus": "1", "nodes": "1"},
    {"gpus": "2", "nodes": "1"},
    {"gpus": "2.5"},
    {"gpus": ""},
    {"gpus": "17"},
    {"gpus": "1048576", "nodes": "131072"},
    {"gpus": "1048577", "nodes": "1"},
    {"nodes": "0"},
    {"nodes": "1.5"},
    {"network_gbit_per_s_per_gpu": "0"},
    {"network_gbit_per_s_per_gpu": "999999"},
    {"network_gbit_per_s_per_gpu": "1000000"},
    {"network_gbit_per_s_per_gpu": "fast"},
    {"collective": "shout"},
    {"device": ""},
    {"device": "H1"},
    {"device": "TPU-v5e", "gpus": "256", "nodes": "1"},
    {"device": "TPU-v5e", "gpus": "16", "nodes": "1", "collective": "all_to_all"},
    {"device": "TPU-v4", "gpus": "64", "nodes": "1", "collective": "all_gather"},
    {"device": "Gaudi3", "gpus": "8", "nodes": "1"},
    {"device": "MI300X", "gpus": "8", "nodes": "1"},
    {"device": "MI300X"},
    {"device": "L40S", "gpus": "16", "nodes": "1"},
    {"device": "L40S", "gpus": "17", "nodes": "1"},
    {"device": "L40S", "gpus": "2", "nodes": "1"},
    {"device": "A100-PCIE-80GB", "gpus": "2", "nodes": "1"},
    {"device": "A100-PCIE-80GB", "gpus": "4", "nodes": "1"},
    {"device": "H100", "gpus": "9", "nodes": "1"},
    {"device": "GB200", "gpus": "72", "nodes": "1"},
    {"device": "GB200", "gpus": "64", "nodes": "16", "network_gbit_per_s_per_gpu": ""},
    {"device": "GB200", "gpus": "64", "nodes": "16"},
    {"device": "GB200", "gpus": "144", "nodes": "36"},
    {"device": "GB200", "gpus": "144", "nodes": "2", "network_gbit_per_s_per_gpu": ""},
    {"device": "H20", "gpus": "8", "nodes": "1"},
    {"device": "A100-SXM4-40GB", "gpus": "16", "nodes": "16"},
    {"device": "A100-SXM4-80GB", "gpus": "4", "nodes": "1"},
    {"device": "A100-SXM4-80GB", "gpus": "5", "nodes": "1"},
    {"device": "H100", "gpus": "4", "nodes": "1"},
    {"device": "H100", "gpus": "5", "nodes": "1"},
]


def test_every_kind_of_collective() -> None:
    """Time, ends, what is assumed and each refusal, on the last value that is taken and the first that is not. The formula has its tests by
    hand in test_collective_time.py."""
    table = answers(pd.DataFrame([BASE | row for row in ROWS]))
    kept("collective_rows", {f"{k} {json.dumps(row)}": table.iloc[k][list(COLUMNS)].tolist() for k, row in enumerate(ROWS)})
