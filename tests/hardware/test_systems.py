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
