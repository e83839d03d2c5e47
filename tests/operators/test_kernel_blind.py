"""A kernel predictor knows the tiles of the GPUs that it was fitted on, never those of the GPU that it is asked about."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.devices import TileList
from analysis.studies import datasets
from analysis.studies.kernels.fp32.evaluation import measured_frame
from analysis.studies.kernels.fp32.fitting import HybridSettings, Measurements, fit
from analysis.studies.kernels.fp32.selection import SMALL

DEVICES = ("Tesla V100-PCIE-32GB", "NVIDIA A100-PCIE-40GB", "NVIDIA H100 80GB HBM3")
H100 = "NVIDIA H100 80GB HBM3"


def products(n: int = 60) -> Measurements:
    rng = np.random.default_rng(0)
    size = np.floor(2 ** rng.uniform(4, 10, (4, n)))
    parts = [
        pd.DataFrame(
            {"op": "bmm", "B": size[0], "M": size[1], "N": size[2], "K": size[3], "device": name, "latency_ms": rng.uniform(0.1, 1, n)}
        )
        for name in DEVICES
    ]
    return Measurements.from_frame(pd.concat(parts, ignore_index=True))


@contextmanager
def other_tiles(monkeypatch: pytest.MonkeyPatch, device: str) -> Iterator[None]:
    """The same file, but for absurd tiles of one GPU."""
    true = kernel_devices.known()
    lists = tuple(
        TileList(device=e.device, family=e.family, bmm_tiles=((7, 9),), linear_tiles=((7, 9),), source=e.source)
        if e.device == device
        else e
        for e in true.tile_lists
    )
    with monkeypatch.context() as patched:
        patched.setattr(kernel_devices, "known", lambda: true.model_copy(update={"tile_lists": lists}))
        kernel_devices.load.cache_clear()
        yield
    kernel_devices.load.cache_clear()


SETTINGS = HybridSettings(boosting=SMALL)


def left_out_answers() -> np.ndarray:
    """Fitted without the H100 and asked about it."""
    measured = products()
    test = measured.take(np.flatnonzero(measured.device == H100))
    return fit(SETTINGS, 0, measured.take(measured.device != H100)).log_latency(test.operators, kernel_devices.load(H100))


def test_tiles_of_the_gpu_left_out_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = left_out_answers()
    with other_tiles(monkeypatch, H100):
        assert np.array_equal(left_out_answers(), plain)
    with other_tiles(monkeypatch, "NVIDIA A100-PCIE-40GB"):  # whose list stands in for the H100's: the check can fail
        assert not np.array_equal(left_out_answers(), plain)


def test_whose_tiles_stand_in() -> None:
    """Hopper runs Ampere's list until an H100 is seen; a T4 has the V100's; with no relative seen, 128 x 128."""
    h100, t4 = kernel_devices.load(H100), kernel_devices.load("Tesla T4")
    a100 = kernel_devices.load("NVIDIA A100-PCIE-40GB")
    assert kernel_devices.with_seen(h100, frozenset({"NVIDIA A100-PCIE-40GB"})).bmm_tiles == a100.bmm_tiles == ((128, 128),)
    assert (256, 128) in h100.bmm_tiles
    seen = kernel_devices.with_seen(t4, frozenset({"Tesla V100-PCIE-32GB", "Tesla P4"})).bmm_tiles
    assert set(seen) == {(64, 64), (32, 128), (128, 32)}
    assert kernel_devices.with_seen(h100, frozenset()).linear_tiles == kernel_devices.DEFAULT_TILES


@pytest.mark.skipif(
    not datasets.available("neusight/bmm_nvidia"), reason="NeuSight's kernels absent: run `make data` or set ANALYSIS_DATASETS"
)
@pytest.mark.parametrize("vendor", ["nvidia", "amd"])
def test_the_lists_are_what_the_tables_say(vendor: str) -> None:
    """Every tile that names at least 2 % of a GPU's launches (column kernel), and no other."""
    frame = measured_frame(("bmm", "linear"), vendor)
    tile = frame["kernel"].astype(str).str.extract(r"(?:tilesize|sgemm_|MT)(\d+x\d+)")[0]
    share = tile.groupby([frame["device"], frame["op"]]).value_counts(normalize=True)
    for entry in kernel_devices.known().tile_lists:
        if entry.device not in set(frame["device"]):
            continue
        for op, listed in (("bmm", entry.bmm_tiles), ("linear", entry.linear_tiles)):
            found = share[entry.device, op]
            expected = {tuple(map(int, re.findall(r"\d+", str(name)))) for name in found.index[found >= 0.02]}
            assert set(listed) == expected, (entry.device, op)
