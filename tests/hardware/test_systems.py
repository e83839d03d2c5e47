"""Machines: what joins the devices of a group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis import units
from analysis.artifact.claims import equations
from analysis.errors import InputError
from analysis.hardware import devices, own, roofline, systems
from analysis.hardware.quantity import Quantity
from tests.golden import answer, kept


@pytest.mark.parametrize(
    ("device", "members", "level", "gigabytes_per_s"),
    [
        # NVIDIA A100 PCIe product brief: an NVLink bridge joins two cards; PCIe Gen4 x16 beyond (PCI-SIG: 31.5 GB/s)
        ("A100-PCIE-80GB", 2, "nvlink", 300),
        ("A100-PCIE-80GB", 4, "pcie", 31.5),
        ("A100-PCIE-80GB", 8, "pcie", 31.5),
        ("H100-PCIE-80GB", 2, "nvlink", 300),
        ("H100-PCIE-80GB", 8, "pcie", 63),
        ("A40", 2, "nvlink", 56.25),
        ("A40", 8, "pcie", 31.5),
        # NVSwitch: each GPU reaches any other with all its links
        ("A100-SXM4-40GB", 8, "nvlink", 300),
        ("H100-SXM5-80GB", 2, "nvlink", 450),
        ("H100-SXM5-80GB", 8, "nvlink", 450),
        ("GB200-186GB", 72, "nvlink", 900),
        # beyond the node a ring crosses its border once: eight adapters of 50 GB/s (DGX H100)
        ("H100-SXM5-80GB", 16, "infiniband", 400),
        # Cloud TPU v6e: 3,584 Gbit/s over four links; a slice of 2 x 4 uses two of them, a whole pod all
        ("TPU-v6e", 2, "ici", 112),
        ("TPU-v6e", 8, "ici", 224),
        ("TPU-v6e", 256, "ici", 448),
        # MI300X platform: seven links of 64 GB/s, one to each other
        ("MI300X", 2, "infinity_fabric", 64),
        ("MI300X", 8, "infinity_fabric", 448),
        ("L40S", 8, "pcie", 31.5),
    ],
)
def test_width_and_topology_decide_the_link(device: str, members: int, level: str, gigabytes_per_s: float) -> None:
    group = systems.of_device(devices.load(device)).group(members)
    assert (group.level.name, group.bandwidth_bytes_per_s / 1e9) == (level, pytest.approx(gigabytes_per_s))


def test_a_group_of_few_a_node_has_few_adapters() -> None:
    """Data-parallel neighbours eight apart: one a node, so one adapter of 50 GB/s."""
    assert systems.load("HGX-H100").group(4, stride=8).bandwidth_bytes_per_s == 50e9
    assert systems.load("HGX-H100").group(4, stride=4).bandwidth_bytes_per_s == 100e9
    assert systems.load("HGX-H100").group(2, stride=4).bandwidth_bytes_per_s == 450e9


@pytest.mark.parametrize("device", devices.all_devices())
def test_no_group_is_wider_than_the_links_of_its_devices(device: str) -> None:
    """In a node; a wider group is never faster, but over a mesh, whose other links it gains."""
    sheet = devices.load(device)
    system = systems.of_device(sheet)
    links = [
        link.per_direction.value for link in (sheet.links.pcie, sheet.links.nvlink, sheet.links.infinity_fabric, sheet.links.ici) if link
    ]
    reached = [system.group(members).bandwidth_bytes_per_s for members in range(2, system.devices_per_node + 1)]
    assert max(reached) <= max(links, default=31.5e9)
    assert system.levels[0].topology not in ("switch", "host") or len(set(reached)) == 1


def test_a_cluster_has_the_network_and_nodes_that_are_said() -> None:
    h100 = devices.load("H100-SXM5-80GB")
    usual, slow, four = systems.cluster(h100), systems.cluster(h100, None, 12.5e9), systems.cluster(h100, 4)
    assert usual.network is not None and slow.network is not None and four.network is not None
    assert (usual.network.bandwidth_bytes_per_s, slow.network.bandwidth_bytes_per_s) == (50e9, 12.5e9)
    assert (usual.devices_per_node, slow.devices_per_node, four.devices_per_node) == (8, 8, 4)
    assert four.network.bandwidth_bytes_per_s == 50e9
    assert slow.group(16).bandwidth_bytes_per_s == 8 * 12.5e9 and four.group(8).bandwidth_bytes_per_s == 4 * 50e9


@pytest.mark.parametrize(
    ("device", "per_node", "network_gigabytes_per_s"),
    # no system of ours has them: HDR for Ampere, NDR from Hopper on; one adapter for eight cards on PCIe; three links join four MI210
    [("H20-SXM5-96GB", 8, 50.0), ("H800-SXM5-80GB", 8, 50.0), ("A40", 8, 3.125), ("L4", 8, 3.125), ("MI210", 8, 3.125)],
)
def test_a_machine_of_links_alone(device: str, per_node: int, network_gigabytes_per_s: float) -> None:
    system = systems.of_device(devices.load(device))
    assert system.network is not None and system.network.per_direction.note == "assumed"
    assert system.devices_per_node == per_node
    assert system.network.bandwidth_bytes_per_s == pytest.approx(1e9 * network_gigabytes_per_s)


def test_members_of_a_node_and_of_the_last_one() -> None:
    h100 = systems.load("HGX-H100")
    assert [(h100.group(n).inside, h100.group(n).level.name) for n in (8, 9, 16, 64)] == [
        (1, "nvlink"), (8, "infiniband"), (8, "infiniband"), (8, "infiniband"),
    ]  # fmt: skip
    assert h100.group(4, stride=8).inside == 1 and h100.group(8, stride=2).inside == 4


def test_a_torus_is_crossed_in_its_middle() -> None:
    """TPU v5e, four links of 50 GB/s: half of what 256 chips have to send crosses 2 x 16 links, k / 8 of a message a link; a slice
    of 4 x 4 is open, and k / 4. TPU v4 has six: 4 x 4 x 4 are closed."""
    v5e, v4, node = (systems.of_device(devices.load(name)).levels[0] for name in ("TPU-v5e", "TPU-v4", "H100-SXM5-80GB"))
    assert v5e.bisection_s_per_byte(256) == pytest.approx(16 / 8 / 50e9) and v5e.bisection_s_per_byte(16) == pytest.approx(4 / 4 / 50e9)
    assert v4.bisection_s_per_byte(64) == pytest.approx(4 / 8 / 50e9) and node.bisection_s_per_byte(8) == 0


def _q(value: float) -> Quantity:
    return Quantity(value=value, low=value, high=value, source="a100")


def _device(**facts: Any) -> devices.Device:
    plain = {"name": "Ours", "vendor": "NVIDIA", "kind": "gpu", "architecture": "ampere", "memory_type": "HBM", "peak": {"bf16": _q(3e14)}}
    return devices.Device(**{**plain, "memory": _q(80e9), "memory_bandwidth": _q(2e12), **facts})


def _link(rate: float, **facts: Any) -> devices.Link:
    return devices.Link(generation=4, per_direction=_q(rate), **facts)


MACHINES = {
    "nothing": _device(),
    "hopper": _device(architecture="hopper"),
    "blackwell": _device(architecture="blackwell"),
    "tpu": _device(kind="tpu"),
    "PCIe": _device(links=devices.Links(pcie=_link(16e9))),
    "switch": _device(links=devices.Links(nvlink=_link(300e9), pcie=_link(16e9))),
    "switched hopper": _device(architecture="hopper", links=devices.Links(nvlink=_link(450e9))),
    "bridge": _device(links=devices.Links(nvlink=_link(112e9, topology="bridge"), pcie=_link(32e9))),
    "seven links": _device(vendor="AMD", links=devices.Links(infinity_fabric=_link(448e9, links=_q(7)))),
    "three links": _device(vendor="AMD", links=devices.Links(infinity_fabric=_link(150e9, links=_q(3)), pcie=_link(32e9))),
    "links unsaid": _device(vendor="Intel", links=devices.Links(infinity_fabric=_link(262e9))),
    "two axes": _device(kind="tpu", links=devices.Links(ici=_link(200e9, links=_q(4)))),
    "three axes": _device(kind="tpu", links=devices.Links(ici=_link(600e9, links=_q(6)))),
}


def test_machines_that_links_make() -> None:
    """Levels, widths and groups of machines of each kind of link: NVSwitch joins eight, a bridge two, n links to each other n + 1;
    PCIe shares a host; 25 GB/s an adapter, twice that from Hopper on, an eighth on PCIe."""
    found: dict[str, Any] = {}
    for name, device in MACHINES.items():
        for said in ((None, None), (1, None), (2, 7e9), (4, None), (6, None), (16, 11e9)):
            system = systems.cluster(device, *said)
            found[f"{name} {said}"] = {
                "levels": [[one.name, one.topology, one.size, one.bandwidth_bytes_per_s, one.per_direction.note] for one in system.levels],
                "count": [system.device_count, system.devices_per_node, system.network is not None, hash(system) == hash(system)],
                "groups": [
                    [group.members, group.level.name, group.inside, group.bandwidth_bytes_per_s]
                    for members, stride in (
                        (1, 1),
                        (2, 1),
                        (3, 1),
                        (4, 1),
                        (8, 1),
                        (9, 1),
                        (16, 1),
                        (64, 1),
                        (2, 2),
                        (4, 2),
                        (4, 3),
                        (2, 8),
                        (8, 4),
                        (5, 16),
                    )
                    for group in (system.group(members, stride),)
                ],
                "middle": [system.levels[0].bisection_s_per_byte(members) for members in (2, 4, 8, 16, 32, 64, 255, 256)],
                "reach": [system.levels[0].reach_bytes_per_s(members) for members in (1, 2, 3, 7, 8, 63, 64, 255, 256)],
            }
    kept("machines", found)


def test_a_slice_by_hand() -> None:
    """Four links of 50 GB/s: a ring of two chips has one, of more in an open slice two, in a closed pod all; the middle of 2^k chips over
    two axes is 2^ceil(k / 2) long: a quarter of it a byte where it is open."""
    v5e = systems.of_device(MACHINES["two axes"]).levels[0]
    assert [v5e.reach_bytes_per_s(n) / 1e9 for n in (2, 3, 255, 256)] == [50, 100, 100, 200]
    assert [v5e.bisection_s_per_byte(n) * 50e9 for n in (4, 8, 64, 256)] == pytest.approx([0.5, 1, 2, 2])
    mesh = systems.of_device(MACHINES["three links"]).levels[0]
    assert [mesh.reach_bytes_per_s(n) / 1e9 for n in (2, 3, 4)] == [50, 100, 150]
    assert systems.of_device(MACHINES["three links"]).levels[1].size == 2


def test_a_roofline_by_hand() -> None:
    """T = max(F / P, B / W): 600 operations at 20 a second and 70 bytes at 5: 30 s against 14; 1,000 bytes: 200 s. Alike: compute."""
    rates = roofline.Rates(20.0, 5.0)
    busy, waiting = roofline.time_on_device(600.0, 70.0, rates), roofline.time_on_device(600.0, 1000.0, rates)
    assert (busy.compute_s, busy.memory_s, busy.latency_s, busy.bound_by) == (30.0, 14.0, 30.0, "compute")
    assert (waiting.memory_s, waiting.latency_s, waiting.bound_by, waiting.is_compute_bound) == (200.0, 200.0, "memory", False)
    assert roofline.time_on_device(600.0, 150.0, rates).bound_by == "compute" and equations.ridge_flop_per_byte(rates) == 4.0
    many = roofline.time_on_device(np.array([600.0, 600.0]), np.array([70.0, 1000.0]), rates)
    assert many.latency_s.tolist() == [30.0, 200.0] and many.is_compute_bound.tolist() == [True, False]
    assert [equations.attainable_flop_per_s(rates, at) for at in (0.0, 1.5, 4.0, 7.0)] == [0.0, 7.5, 20.0, 20.0]
    assert roofline.time_on_device(0.0, 0.0, rates).latency_s == 0.0
    for bad in (lambda: roofline.time_on_device(-1.0, 0.0, rates), lambda: roofline.time_on_device(0, -1, rates)):
        with pytest.raises(ValueError, match="work cannot be negative"):
            bad()
    with pytest.raises(ValueError, match="intensity cannot be negative"):
        equations.attainable_flop_per_s(rates, -0.5)
    for wrong in ((0.0, 5.0), (20.0, 0), (-1, 5.0)):
        with pytest.raises(ValueError, match="above zero"):
            roofline.Rates(*wrong)


def test_quantities_and_devices_at_their_edges() -> None:
    """low <= value <= high, finite, not negative, and no figure of a device is zero."""
    made = lambda **facts: Quantity(**{"value": 2.0, "source": "s", "low": 1.0, "high": 3.0, **facts})  # noqa: E731
    assert made(low=2.0, high=2.0).relative_range == 0 and made().relative_range == 1.0 and made(value=0.0, low=0.0).relative_range == 0
    for facts, said in (
        ({"low": 2.1}, "low <= value"),
        ({"high": 1.9}, "low <= value"),
        ({"low": -1.0}, "negative"),
        ({"high": float("inf")}, "finite"),
    ):
        with pytest.raises(ValueError, match=said):
            made(**facts)
    for facts in ({"memory": _q(0)}, {"peak": {"bf16": _q(0)}}, {"tdp": _q(0)}):
        with pytest.raises(ValueError, match="expected more than 0"):
            _device(**facts)
    plain = _device()
    full = _device(vector={"fp32": _q(19e12)}, l2=_q(40e6), sms=_q(108), clock=_q(1.4e9), tdp=_q(400), links=MACHINES["bridge"].links)
    of = ("l2_bytes", "sm_count", "clock_hz", "tdp_w", "nvlink_bytes_per_s", "pcie_bytes_per_s")
    assert [getattr(plain, name) for name in of] == [None] * 6
    assert [getattr(full, name) for name in of] == [40e6, 108, 1.4e9, 400, 112e9, 32e9]
    assert full.vector_flop_per_s() == 19e12 and full.vector_flop_per_s("bf16") == 3e14
    # 80 GB are as many GiB, less 1.5 %, and a sixteenth more of a card whose codes lie in its memory; 80 GiB stay so
    assert plain.usable_bytes == pytest.approx(0.985 * 80 * 2**30) == _device(memory=_q(80 * 2**30)).usable_bytes
    assert _device(name="L4").usable_bytes == pytest.approx(0.985 * 80 * 2**30 * 15 / 16)
    assert set(full.quantities()) == {
        "peak.bf16",
        "vector.fp32",
        "memory",
        "memory_bandwidth",
        "l2",
        "sms",
        "clock",
        "tdp",
        "links.nvlink.per_direction",
        "links.pcie.per_direction",
    }


def test_short_and_long_forms_of_a_figure() -> None:
    """`80 GB` stands for a value with the body's source; a long form keeps its own; names are left alone."""
    raw = {
        "devices": {
            "X": {
                "source": "s",
                "vendor": "V",
                "size": 8,
                "memory": "80 GB",
                "peak": {"bf16": {"value": 1}},
                "l2": {"value": 2, "source": "t"},
                "many": [3, True],
            },
            "Y": {"memory": 5},
            "Z": 7,
        },
        "more": 1,
    }
    assert devices.DeviceFile._expand(raw) == {
        "devices": {
            "X": {
                "name": "X",
                "vendor": "V",
                "size": 8,
                "memory": {"value": "80 GB", "source": "s"},
                "peak": {"bf16": {"value": 1, "source": "s"}},
                "l2": {"value": 2, "source": "t"},
                "many": [{"value": 3, "source": "s"}, True],
            },
            "Y": {"name": "Y", "memory": 5},
            "Z": 7,
        },
        "more": 1,
    }
    assert devices.DeviceFile._expand([raw]) == [raw] and devices.DeviceFile._expand({"devices": 1}) == {"devices": 1}


def test_figures_are_written_as_people_write_them() -> None:
    """And read back to the digit."""
    cases = (
        (989.4e12, "FLOP/s", "989.4 TFLOP/s"),
        (1e12, "B/s", "1 TB/s"),
        (999e9, "B/s", "999 GB/s"),
        (1e9, "B", "1 GB"),
        (5e6, "Hz", "5 MHz"),
    )
    cases += ((999_999.0, "B", "999999 B"), (1e6, "B", "1 MB"), (1 / 3 * 1e13, "B/s", f"{1 / 3 * 1e13:.17g} B/s"))
    for value, unit, text in cases:
        assert (
            own._text(value, unit) == text
            and units.parse(text, {"FLOP/s": "flop/s", "B/s": "bytes/s", "B": "bytes", "Hz": "hz"}[unit]) == value
        )
    assert own._text(8.0, "") == 8 and isinstance(own._text(8.0, ""), int) and own._text(2.5, "") == 2.5


OWN = """devices:
  {name}:
    vendor: NVIDIA
    kind: gpu
    architecture: ampere
    memory_type: HBM
    peak: {{bf16: 300 TFLOP/s}}
    memory: {memory}
    memory_bandwidth: 2 TB/s
"""


def test_files_of_ones_own_at_their_edges(tmp_path: Path) -> None:
    """One machine, one of several by name, none, a name that is taken here or in another file."""
    one, two, taken, again, none = (tmp_path / f"{name}.yaml" for name in ("one", "two", "taken", "again", "none"))
    one.write_text(OWN.format(name="Edge-1", memory="80 GB"))
    two.write_text(OWN.format(name="Edge-2", memory="81 GB") + OWN.format(name="Edge-3", memory="82 GB").partition("\n")[2])
    taken.write_text(OWN.format(name="H200-SXM5-141GB", memory="83 GB"))
    again.write_text(OWN.format(name="Edge-1", memory="84 GB"))
    none.write_text("devices: {}\n")
    ask = lambda text: answer(lambda: (own.device(text).name, own.device(text).memory_bytes), tmp_path)  # noqa: E731
    found = {
        text: ask(f"{tmp_path}/{text}")
        for text in (
            "one.yaml",
            "one.yaml#Edge-1",
            "one.yaml#Edge-9",
            "two.yaml",
            "two.yaml#Edge-3",
            "taken.yaml",
            "again.yaml",
            "none.yaml",
            "absent.yaml",
        )
    }
    assert own.read(two) == ("Edge-2", "Edge-3") and own.named("Edge-2") is not None and own.named("Edge-9") is None
    assert (own.measured_as("Edge-2"), own.measured_as("H100-SXM5-80GB")) == ("Edge-2", "H100-SXM5-80GB")
    assert [own.is_path(text) for text in ("a.yaml", "a.YML#x", "a", "yaml", "#a.yaml")] == [True, True, False, False, False]
    with pytest.raises(InputError, match="names no device"):
        own.read(none)
    machine = own.system("Edge-2")
    assert machine is not None and (machine.title, machine.device, machine.own) == ("8 Edge-2", "Edge-2", own.named("Edge-2"))
    kept("own_files", found)
