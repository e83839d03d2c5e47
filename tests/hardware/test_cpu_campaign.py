"""The campaign of CPU timings that is committed: its size, its noise, and the devices that quote it."""

from __future__ import annotations

import pytest

from analysis.documents import read_json
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.tables import read_csv

CAMPAIGN = DATA / "measured" / "cpu_operators"


def test_the_committed_campaign_is_what_it_says() -> None:
    """1,500 operator shapes on several devices were asked for; every device says how noisy it was."""
    one = read_csv(CAMPAIGN / "one_thread" / "measurements.csv", required=["device", "operator", "median_s", "spread"])
    assert one.groupby("operator")["device"].nunique().ge(3).sum() >= 1500
    for part in ("one_thread", "two_threads", "models"):
        facts = read_json(CAMPAIGN / part / "machine.json")
        assert facts["kit_version"] == 1 and set(facts["noise"]) == set(facts["devices"])


@pytest.mark.parametrize("folder", ["one_thread", "two_threads"])
def test_the_noise_follows_from_the_rows(folder: str) -> None:
    """Medians and 95th percentiles of machine.json over the rows of measurements.csv, whose times have five digits."""
    facts = read_json(CAMPAIGN / folder / "machine.json")["noise"]
    for device, part in read_csv(CAMPAIGN / folder / "measurements.csv").groupby("device"):
        noise = facts[device]
        assert len(part) == noise["rows"]
        assert part["spread"].median() == pytest.approx(noise["spread_median"], rel=1e-3)
        assert part["spread"].quantile(0.95) == pytest.approx(noise["spread_p95"], rel=1e-3)


@pytest.mark.parametrize(("folder", "threads"), [("one_thread", 1), ("two_threads", 2)])
def test_the_cpus_of_the_device_table_are_the_measured_ones(folder: str, threads: int) -> None:
    """data/hardware/devices/cpu.yaml quotes peaks.csv: the best product and the best triad, rounded to a tenth of a unit of 1e9."""
    peaks = read_csv(CAMPAIGN / folder / "peaks.csv").set_index("kernel")
    device = devices.load(f"cpu-epyc-25-17-{threads}t")
    best = peaks["amount"] / peaks["minimum_s"]
    assert device.peak_flop_per_s("fp32") == pytest.approx(best["product"], abs=0.06e9)
    assert device.memory_bandwidth_bytes_per_s == pytest.approx(best["triad"], abs=0.06e9)
    assert device.sm_count == threads
