"""Collectives of a node: the link by width and topology, and measured tables that a link could not have made."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.hardware import devices, systems
from analysis.kernels.library import KernelLibrary
from analysis.networks import collective_time
from analysis.serving.points.answers import answers

LIBRARY = KernelLibrary.load()
LARGE = 256 * 2**20


def bus_bandwidth(device: str, members: int, size: float = LARGE) -> float:
    """As nccl-tests defines it for an all-reduce: 2 (n - 1) / n x size / time (bytes/s)."""
    return 2 * (members - 1) / members * size / float(LIBRARY.on(device).collective("all_reduce", size, members).s)


@pytest.mark.parametrize(
    ("device", "members", "least", "most"),
    [
        ("TPU-v6e", 8, 100e9, 224e9),  # ICI, 2 of 4 links of 112 GB/s (Cloud TPU v6e); PCIe would give at most 32
        ("A100-PCIE-80GB", 8, 2e9, 31.5e9),  # a bridge joins two cards (product brief); PCIe Gen4 the others
        ("A100-PCIE-80GB", 2, 31.5e9, 300e9),
        ("H100-PCIE-80GB", 4, 4e9, 63e9),
        ("L40S", 8, 5e9, 31.5e9),  # its table has 1.4 GB/s
        ("L40S", 4, 5e9, 31.5e9),
        ("MI300X", 8, 150e9, 448e9),
    ],
)
def test_large_messages_reach_what_the_link_allows(device: str, members: int, least: float, most: float) -> None:
    assert least <= bus_bandwidth(device, members) <= most


@pytest.mark.parametrize("key", sorted(collective_time.curves()), ids=str)
def test_every_measured_curve_that_answers_is_physically_possible(key: tuple[str, str, str, int]) -> None:
    """None is above what a switch that adds (twice the link for an all-reduce) could do; NCCL judges a host: L40S beyond a pair fail."""
    device, implementation, kind, members = key
    machine = systems.of_device(devices.load(device))
    share = collective_time.bus_share(machine, kind, members, collective_time.curves()[key])
    assert share < 2.0
    believed = collective_time.believed(machine, implementation, kind, members) is not None
    assert believed == (device != "L40S" or members == 2)
    if implementation == "nccl":
        assert believed == (share >= collective_time.LEAST_SHARE)


@pytest.mark.parametrize(("kind", "implementation"), [("all_reduce", "nccl"), ("all_reduce", "custom"), ("all_gather", "nccl")])
def test_an_answer_says_which_table_was_not_believed(kind: str, implementation: str) -> None:
    dropped = LIBRARY.on("l40s", framework="trtllm").collective(kind, [1e6, 1e8], 8, implementation)
    assert dropped.source == "unmeasured gpu" and f"measured {kind} of 8 L40S" in dropped.note and "not used" in dropped.note
    kept = LIBRARY.on("l40s", framework="trtllm").collective(kind, 1e6, 2, implementation)
    assert kept.source == "measured gpu" and not kept.note
    assert (dropped.log_sd > 2 * np.max(kept.log_sd)).all()


@pytest.mark.parametrize(("system", "ranks", "said"), [("l40s", 8, True), ("l40s", 2, False), ("h100_sxm", 8, False)])
def test_a_served_point_says_which_table_was_not_believed(system: str, ranks: int, said: bool) -> None:
    row = {
        "backend": "trtllm",
        "model_path": "meta-llama/Llama-3.1-70B-Instruct",
        "system": system,
        "mode": "agg",
        "isl": "1024",
        "osl": "128",
    }
    row |= {"tp_size": str(ranks), "batch_size": "4", "gemm_quant_mode": "fp8"}
    got = answers(pd.DataFrame([row])).iloc[0]
    assert not got["status"] and (f"measured all_reduce of {ranks} L40S" in got["assumed"]) == said
