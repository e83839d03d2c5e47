"""Our specifications against the tables that two predictors ship: their figure lies within our stated range."""

import json

import pytest

from analysis.errors import DatasetMissing
from analysis.hardware import devices
from analysis.studies import datasets

NEUSIGHT = "neusight/devices"
PIPEWEAVE = {
    "A100": "A100-SXM4-80GB",
    "A40": "A40",
    "H100": "H100-SXM5-80GB",
    "H20": "H20-SXM5-96GB",
    "H200": "H200-SXM5-141GB",
    "H800": "H800-SXM5-80GB",
    "L20": "L20",
    "L40": "L40",
    "RTX_6000_Ada": "RTX-6000-Ada",
    "RTX_A6000": "RTX-A6000",
    "RTX_PRO_6000_S": "RTX-PRO-6000-Server",
}
ABSENT = "dataset absent: run `make data` or set ANALYSIS_DATASETS"


@pytest.mark.skipif(not datasets.available(NEUSIGHT), reason=ABSENT)
def test_neusight_device_table() -> None:
    """Bandwidth (GB/s), clock (MHz) and SM count of each row, apart from the MI250 row, which is one die of two, and the doubled H100."""
    checked = 0
    for row in datasets.load(NEUSIGHT).to_dict("records"):
        if row["Device"] == "AMD Instinct MI250" or row["Dev_Mem"] == 160:
            continue
        device = devices.load(row["Device"])
        for quantity, value in (
            (device.memory_bandwidth, row["Mem_Bw"] * 1e9),
            (device.sms, row["Num_Sm"]),
            (device.clock, row["Freq"] * 1e6),
        ):
            assert quantity, device.name
            assert quantity.low * 0.999 <= value <= quantity.high * 1.001, (device.name, quantity, value)
            checked += 1
    assert checked >= 33


@pytest.mark.parametrize("name", PIPEWEAVE)
def test_pipeweave_hardware(name: str) -> None:
    """Memory that the driver reports, bandwidth, SM count, L2 and tensor-core rate of each JSON file (0.9 percent: the L20's odd 516)."""
    try:
        path = datasets.find(f"pipeweave/hardware/{name}.json")
    except DatasetMissing:
        pytest.skip(ABSENT)
    theirs, device = json.loads(path.read_text()), devices.load(PIPEWEAVE[name])
    assert device.sms and device.l2 and device.clock
    assert theirs["numSms"] == device.sms.value
    assert theirs["l2CacheSize"] * 1024 == device.l2.value
    assert device.memory_bandwidth.low * 0.999 <= theirs["memBandwidth"] * 1e9 <= device.memory_bandwidth.high * 1.001
    assert device.memory.low * 0.999 <= theirs["totalGlobalMem"] <= device.memory.high * 1.001
    rate = theirs["numSms"] * theirs["smFreq"] * 1e6 * theirs["tcBf16"]
    assert device.peak["bf16"].low * 0.985 <= rate <= device.peak["bf16"].high * 1.009
