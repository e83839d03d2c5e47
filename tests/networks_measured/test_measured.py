"""Measured all-reduces as a table, and what the first model of them (retired, frozen) was right about."""

import numpy as np
import pandas as pd
import pytest

from analysis.configs import read_yaml_text
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.studies.networks import tables
from analysis.tables import read_csv

FROZEN = DATA / "frozen" / "nccl_calibrated"
MACHINES = read_yaml_text(DATA / "models" / "nccl_machines.yaml")[0]["machines"]


def test_published_table_reads_back_the_bandwidth() -> None:
    """8 x A100, 17,179,869,184 bytes: 127,997 us and 234.89 GB/s are printed in one row of ml-engineering."""
    table = tables.published_table()
    row = table[(table["machine"] == "A100") & (table["size_bytes"] == 17179869184)].iloc[0]
    assert row["time_s"] == pytest.approx(127997e-6, rel=1e-4)


def test_half_octaves_are_medians_of_their_rows() -> None:
    rows = pd.DataFrame(
        {"machine": "m", "origin": "o", "gpus": 8, "size_bytes": [1024.0, 1100.0, 1400.0, 1500.0, 2048.0], "time_s": np.arange(5.0)}
    )
    found = tables.half_octaves(rows)  # from 1,024 bytes, from 1,448, from 2,048
    assert found["rows_in_bin"].tolist() == [3, 1, 1] and found["time_s"].tolist() == [1.0, 3.0, 4.0]


def test_every_machine_is_a_device_and_has_an_entry_that_its_own_times_did_not_give() -> None:
    for name, machine in MACHINES.items():
        assert devices.load(tables.device_of(name)).name == machine["device"]
        kinds = [entry["source"].partition(": ")[0] for entry in machine["known"]]
        assert [kind == "measured" for kind in kinds] == ["measured_on" in entry for entry in machine["known"]]
        assert any(series.split(" x")[0] != name for entry in machine["known"] for series in entry.get("measured_on", ["none x0"]))


def test_the_frozen_answers_of_the_retired_model() -> None:
    """A machine type left out: the H800 within 20 % in the median; ml-engineering's 8 GiB on 4 to 8 H200, not fitted: within 8 %."""
    left_out = read_csv(FROZEN / "left_out.csv").query("scheme == 'machine' and model == 'protocols'").set_index("left_out")
    assert set(left_out.index) == set(MACHINES) and left_out.loc["H800", "median_error"] < 0.2
    by_count = read_csv(FROZEN / "h200_by_count.csv")
    chosen = by_count[by_count["algorithm"] == "NCCL's choice"]
    assert sorted(chosen["gpus"]) == [4, 5, 6, 7, 8]
    assert (chosen["predicted_gb_s"] / chosen["measured_gb_s"] - 1).abs().max() < 0.08
