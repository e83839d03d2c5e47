"""Machines: what joins the devices of a group."""

from __future__ import annotations

import pytest

from analysis.hardware import devices, systems


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
