"""The calibrated all-reduce: laws, agreement with quoted bandwidths, and (where the dataset is) the leave-one-out errors."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import datasets
from analysis.errors import InputError
from analysis.networks.measured_fabrics import model as measured
from analysis.networks.measured_fabrics.model import Link, all_gather, all_reduce, link_of, reduce_scatter
from analysis.paths import DATA
from analysis.studies.networks import fit as measured_fit
from analysis.studies.networks import tables as measured_tables
from analysis.tables import read_csv

needs_pipeweave = pytest.mark.skipif(
    not datasets.available("pipeweave/collective/A100_all_reduce"),
    reason="PipeWeave tables absent: run `make data` or set ANALYSIS_DATASETS",
)
links = st.builds(
    Link,
    bandwidth_bytes_per_s=st.floats(min_value=1e9, max_value=2e12),
    algorithm=st.sampled_from(measured.ALGORITHMS),
    gpus=st.integers(min_value=2, max_value=64),
)
sizes = st.floats(min_value=0, max_value=1e11)


@given(links, sizes)
def test_nothing_beats_the_bound(link: Link, size: float) -> None:
    """2 (n - 1) / n s / B for rings; an in-switch reduction passes every byte once, s / B."""
    assert all_reduce(size, link).time_s[0] >= size * link.traffic / link.bandwidth_bytes_per_s
    assert link.traffic >= 1.0


@given(links, sizes, st.floats(min_value=1.0, max_value=10.0))
def test_more_bandwidth_is_never_slower(link: Link, size: float, factor: float) -> None:
    faster = Link(link.bandwidth_bytes_per_s * factor, link.algorithm, link.gpus)
    assert all_reduce(size, faster).time_s[0] <= all_reduce(size, link).time_s[0] * (1 + 1e-12)


@given(links, sizes, sizes)
def test_more_bytes_are_never_faster(link: Link, first: float, second: float) -> None:
    times = all_reduce([min(first, second), max(first, second)], link).time_s
    assert times[0] <= times[1] * (1 + 1e-12)


@given(links, sizes)
def test_parts_sum_to_the_whole(link: Link, size: float) -> None:
    result = all_reduce(size, link)
    assert np.allclose(result.floor_s + result.transfer_s + result.fill_s, result.time_s, rtol=1e-9)
    assert np.all(result.fill_s >= -1e-12)


@given(links.filter(lambda link: link.algorithm != "nvls"), sizes)
def test_reduce_scatter_and_all_gather_move_what_an_all_reduce_moves(link: Link, size: float) -> None:
    """Thakur et al. 2005: an all-reduce is a reduce-scatter and an all-gather; the two calls pay the latency once more."""
    two = reduce_scatter(size, link).time_s + all_gather(size, link).time_s
    one = all_reduce(size, link).time_s
    assert np.all(two >= one * (1 - 1e-9))
    assert np.all(two <= one + 2 * all_reduce(0, link).time_s + 4 * all_gather(size, link).fill_s + 1e-9 + 0.3 * one)


def test_protocols_follow_the_size() -> None:
    """NCCL runs LL for small, LL128 for middling and Simple for large messages over NVLink (nccl/src/graph/tuning.cc)."""
    chosen = all_reduce([2**12, 2**30], link_of("A100", 8), machine="A100").protocol
    assert measured.PROTOCOLS[chosen[0]] == "ll"
    assert measured.PROTOCOLS[chosen[1]] == "simple"


def _busbw(model: str) -> float:
    rows = read_csv(DATA / "published" / "distributed_training.csv")
    return float(rows.loc[(rows["model"] == model) & rows["system"].str.contains("H200"), "value"].iloc[0])


@pytest.mark.parametrize("gpus", [4, 5, 6, 7, 8])
def test_h200_large_messages_by_gpu_count(gpus: int) -> None:
    """ml-engineering, nccl-tests at 8 GiB on 4 to 8 H200, none of which is in the fit (other rows of the machine are): within 8 percent."""
    rows = read_csv(DATA / "published" / "distributed_training.csv")
    wanted = (rows["model"] == "all-reduce 8589934592 B default") & (rows["gpus"].astype(str) == str(gpus))
    quoted = float(rows.loc[wanted, "value"].iloc[0]) * 1e9
    time = all_reduce(2.0**33, link_of("H200", gpus), machine="H200").time_s[0]
    assert 2.0**33 * 2 * (gpus - 1) / gpus / time == pytest.approx(quoted, rel=0.08)


def test_ring_against_nvls_on_h200() -> None:
    """The same table at 16 GiB: NVLS 480, ring 367.2, all-gather 361.4 GB/s; none of them in the fit: within 8 percent."""
    size = 2.0**34
    nvls = all_reduce(size, link_of("H200", 8), machine="H200").time_s[0]
    ring = all_reduce(size, Link(450e9, "ring", 8), machine="H200").time_s[0]
    gather = all_gather(size, link_of("H200", 8), machine="H200").time_s[0]
    assert size * 1.75 / nvls / 1e9 == pytest.approx(_busbw("all-reduce 17179869184 B algo=NVLS"), rel=0.08)
    assert size * 1.75 / ring / 1e9 == pytest.approx(_busbw("all-reduce 17179869184 B algo=Ring"), rel=0.08)
    assert size * 0.875 / gather / 1e9 == pytest.approx(_busbw("all-gather 17179869184 B algo=Ring"), rel=0.08)


def test_refused_input() -> None:
    with pytest.raises(InputError, match="at least 2"):
        Link(1e9, "ring", 1)
    with pytest.raises(InputError, match="positive"):
        Link(0.0, "ring", 8)
    with pytest.raises(InputError, match="negative"):
        all_reduce(-1.0, Link(1e9, "ring", 8))
    with pytest.raises(InputError, match="A100"):
        link_of("Z900", 8)
    with pytest.raises(InputError, match="4 GPUs"):
        link_of("H100", 8)


def test_published_table_reads_back_the_bandwidth() -> None:
    """8 x A100, 17,179,869,184 bytes: 127,997 us and 234.89 GB/s are printed in one row of ml-engineering."""
    table = measured_tables.published_table()
    row = table[(table["machine"] == "A100") & (table["size_bytes"] == 17179869184)].iloc[0]
    assert row["time_s"] == pytest.approx(127997e-6, rel=1e-4)


def test_interpolation_is_exact_on_its_own_points() -> None:
    rows = measured_tables.half_octaves(measured_tables.published_table())
    one = rows[rows["machine"] == "H200"].reset_index(drop=True)
    assert measured_fit.interpolation(one, one) == pytest.approx(one["time_s"].to_numpy(), rel=1e-9)


def test_fit_recovers_known_parameters() -> None:
    """Times made by the model itself, with other parameters: the fit finds the bandwidth share again."""
    sizes_made = 2.0 ** np.arange(12, 34)
    made = measured.fitted().model_copy(
        update={"efficiency": {"ring": 0.7, "nvls": 0.55, "pcie": 0.4, "network": 0.9}, "machines": {}, "floor_s": 3e-5}
    )
    parts = [
        pd.DataFrame(
            {
                "machine": machine,
                "origin": "made",
                "gpus": gpus,
                "size_bytes": sizes_made,
                "time_s": all_reduce(sizes_made, link_of(machine, gpus), made).time_s,
                "rows_in_bin": 1,
            }
        )
        for machine, gpus in [("A100", 2), ("A100", 4), ("A100", 8), ("H20", 4), ("H20", 8), ("H200", 8), ("H800", 8)]
    ]
    found = measured_fit.fit(pd.concat(parts, ignore_index=True))
    assert found.efficiency["ring"] == pytest.approx(0.7, rel=0.05)
    assert found.efficiency["nvls"] == pytest.approx(0.55, rel=0.05)
    assert found.floor_s == pytest.approx(3e-5, rel=0.1)


@needs_pipeweave
def test_left_out_machine_is_predicted() -> None:
    """One machine type left out at a time: the H800, whose NVLink is less than half the others', within 20 percent in the median."""
    raw = measured_tables.measured()
    binned = measured_tables.half_octaves(raw)
    test = raw[raw["machine"] == "H800"]
    predicted = measured_fit.model("protocols")(binned[binned["machine"] != "H800"], test)
    assert np.median(np.abs(predicted / test["time_s"] - 1)) < 0.2


@needs_pipeweave
def test_committed_parameters_are_those_of_the_tables() -> None:
    """The committed file was fitted on these very files (SHA-256), and fitting again gives the same numbers."""
    committed = measured.fitted()
    assert committed.hashes == measured_tables.input_hashes()
    again = measured_fit.fit(measured_tables.half_octaves(measured_tables.measured()))
    assert again.efficiency == pytest.approx(committed.efficiency, rel=1e-3)
    assert again.floor_s == pytest.approx(committed.floor_s, rel=1e-3)
