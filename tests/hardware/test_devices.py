"""Specifications: each peak follows from lanes, clock and operations where those are known, and the files are refused when wrong."""

from pathlib import Path

import pytest

from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.hardware import devices, systems

REQUIRED = [
    *["P4", "P100", "V100-PCIE-16GB", "V100-PCIE-32GB", "V100-SXM2-16GB", "V100-SXM2-32GB", "T4"],
    *["A100-SXM4-40GB", "A100-SXM4-80GB", "A100-PCIE-40GB", "A100-PCIE-80GB", "A40", "A6000"],
    *["L4", "L20", "L40", "L40S", "RTX-6000-Ada", "RTX-4090", "RTX-PRO-6000"],
    *["H100-PCIE", "H100-SXM", "H20", "H800", "H200", "MI100", "MI210"],
    *["TPU-v1", "TPU-v2", "TPU-v3", "TPU-v4", "TPU-v5e", "TPU-v5p"],
]


@pytest.mark.parametrize("name", REQUIRED)
def test_device_is_there(name: str) -> None:
    device = devices.load(name)
    # a slip of a prefix leaves these: 1 to 300 GB, 10 GB/s to 10 TB/s, 1 to 10,000 TFLOP/s
    assert 1e9 <= device.memory_bytes <= 3e11
    assert 1e10 <= device.memory_bandwidth_bytes_per_s <= 1e13
    assert device.peak and all(1e12 <= device.peak_flop_per_s(dtype) <= 1e16 for dtype in device.peak)


@pytest.mark.parametrize(
    ("name", "dtype", "flop_per_sm_per_cycle"),
    [  # dense FLOP a cycle of one SM: NVIDIA white papers, Volta p. 14, Ampere p. 21, Hopper p. 18, Ada p. 9
        ("V100-SXM2-32GB", "fp16", 1024),
        ("A100-SXM4-80GB", "bf16", 2048),
        ("A100-SXM4-80GB", "fp32", 128),
        ("A40", "bf16", 1024),
        ("RTX-A6000", "bf16", 1024),
        ("H100-SXM5-80GB", "bf16", 4096),
        ("H100-SXM5-80GB", "fp8", 8192),
        ("L40", "bf16", 512),
        ("RTX-6000-Ada", "bf16", 1024),
        ("T4", "fp16", 1024),
    ],
)
def test_peak_is_lanes_times_clock(name: str, dtype: str, flop_per_sm_per_cycle: int) -> None:
    device = devices.load(name)
    assert device.sm_count and device.clock_hz
    assert device.peak_flop_per_s(dtype) == pytest.approx(device.sm_count * device.clock_hz * flop_per_sm_per_cycle, rel=0.005)


@pytest.mark.parametrize(("name", "arrays", "side"), [("TPU-v1", 1, 256), ("TPU-v2", 2, 128), ("TPU-v3", 4, 128), ("TPU-v4", 8, 128)])
def test_tpu_peak_is_array_times_clock(name: str, arrays: int, side: int) -> None:
    """Jouppi et al. 2017, 2020 and 2023: one 256 x 256 array, then 2, 4 and 8 of 128 x 128."""
    device = devices.load(name)
    assert device.clock_hz
    assert max(q.value for q in device.peak.values()) == pytest.approx(2 * arrays * side**2 * device.clock_hz, rel=0.01)


def test_every_number_has_a_source() -> None:
    for device in devices.all_devices().values():
        for key, quantity in device.quantities().items():
            assert quantity.source in devices.sources(), (device.name, key)
            assert quantity.low <= quantity.value <= quantity.high


def test_matrix_peaks_do_not_fall_with_precision() -> None:
    for device in devices.all_devices().values():
        order = [device.peak[dtype].value for dtype in ("fp32", "tf32", "bf16", "fp8") if dtype in device.peak]
        assert order == sorted(order), device.name


def test_names_are_forgiving_and_unknown_ones_are_told() -> None:
    assert devices.load("nvidia a100-sxm4-80gb") is devices.load("A100")
    with pytest.raises(InputError, match="A100-SXM4-80GB"):
        devices.load("A1000")
    with pytest.raises(InputError, match="no fp8 rate"):
        devices.load("A100").peak_flop_per_s("fp8")


@pytest.mark.parametrize(
    ("printed", "device"),
    [  # as MLPerf's result tables and vendors' pages print them; chips of 288 GB are sold as 270 (B300) and 279 (GB300)
        ("AMD Instinct MI300X 192GB HBM3", "MI300X"),
        ("GH200-SXM5-96GB", "GH200-96GB"),
        ("B300-SXM-288GB", "B300-SXM-270GB"),
        ("GB300-288GB", "GB300-279GB"),
        ("H20-96GB", "H20-SXM5-96GB"),
        ("NVIDIA A800 80GB", "A800-SXM4-80GB"),
        ("TPU Trillium", "TPU-v6e"),
    ],
)
def test_a_name_may_be_followed_by_the_memory(printed: str, device: str) -> None:
    assert devices.load(printed).name == device


@pytest.mark.parametrize("printed", ["H100-SXM5-64GB", "H100 80GB PCIe", "GH200-144GB", "V100 16GB", "96GB"])
def test_a_card_of_another_memory_or_another_board_is_not_taken_for_it(printed: str) -> None:
    assert devices.known(printed) is None


def _device_file(tmp_path: Path, body: str) -> Path:
    path = tmp_path / "devices.yaml"
    path.write_text(
        "devices:\n  X:\n    vendor: NVIDIA\n    kind: gpu\n    architecture: none\n    memory_type: HBM\n    source: a100\n" + body
    )
    return path


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("    peak: {bf16: 1 TFLOP/s}\n    memory: 80\n    memory_bandwidth: 2 TB/s\n", "no unit"),
        ("    peak: {bf16: 1 TFLOP/s}\n    memory: 80 GB\n    memory_bandwidth: 2 TB\n", "expected bytes/s"),
        ("    peak: {bf16: 1 TFLOP/s}\n    memory: 80 GB\n    memory_bandwidth: 2 TB/s\n    colour: red\n", "unknown key"),
        ("    peak: {bf16: {value: 1 TFLOP/s, low: 2 TFLOP/s}}\n    memory: 80 GB\n    memory_bandwidth: 2 TB/s\n", "low <= value"),
        ("    peak: {bf17: 1 TFLOP/s}\n    memory: 80 GB\n    memory_bandwidth: 2 TB/s\n", "bf17"),
    ],
)
def test_bad_device_files_name_the_key(tmp_path: Path, body: str, says: str) -> None:
    with pytest.raises(InputError, match=says) as error:
        read_yaml(_device_file(tmp_path, body), devices.DeviceFile)
    assert error.value.line and "devices.yaml" in str(error.value)


def test_systems() -> None:
    selene = systems.load("Selene")
    assert selene.device_count == 4480  # NVIDIA: 560 DGX A100
    assert selene.levels[1].bandwidth_bytes_per_s == 25e9  # HDR, 200 Gbit/s an adapter, one adapter a GPU
    for system in systems.all_systems().values():
        assert system.load_device().name == system.device and system.device_count % 2 == 0
    with pytest.raises(InputError, match="Selene"):
        systems.load("Juno")


@pytest.mark.parametrize(
    ("name", "mebibytes"),
    # what nvidia-smi shows as memory of a card: L4 23,034 and L40S 46,068 MiB with codes in the memory itself, H100 81,559, H200 143,771,
    # RTX PRO 6000 97,249 (94.97 GiB: LLMServingSim, profiler/perf/RTXPRO6000/hardware.yaml), A100 81,920 less a driver's part
    [("L4", 23_034), ("L40S", 46_068), ("H100", 81_559), ("H200", 143_771), ("RTX-PRO-6000", 97_249), ("A100-SXM4-80GB", 81_000)],
)
def test_usable_memory_is_what_the_driver_shows(name: str, mebibytes: int) -> None:
    assert devices.load(name).usable_bytes / 2**20 == pytest.approx(mebibytes, rel=0.02)


def test_memory_that_is_said_in_gib_stays_so() -> None:
    """A TPU v5e has 16 GiB (cloud.google.com/tpu/docs/v5e): of it a 0.985th, not of 17.2 as if these were a maker's GB."""
    tpu = devices.load("TPU-v5e")
    assert tpu.memory_bytes == 16 * 2**30 and tpu.usable_bytes == pytest.approx(0.985 * 16 * 2**30)
    assert devices.load("H100").usable_bytes == pytest.approx(0.985 * 80 * 2**30)
