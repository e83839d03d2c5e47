"""What a machine of many accelerators is made of: its device and the levels of its network, from the inside out.

>>> from analysis.hardware import devices, systems
>>> bridged = systems.of_device(devices.load("A100-PCIE-80GB"))
>>> [bridged.group(members).bandwidth_bytes_per_s / 1e9 for members in (2, 8)]
[300.0, 31.5]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.hardware.devices import Device, Link, as_in_a_file
from analysis.hardware.quantity import Bodies, ByteRate, Quantity
from analysis.paths import DATA

Topology = Literal["switch", "cube_mesh", "mesh", "bridge", "host", "ring", "torus_2d", "torus_3d"]
LINKS = {"torus_2d": 4, "torus_3d": 6}
"""Links of each device of a torus."""
WRAPPED = {"torus_2d": 256, "torus_3d": 64}
"""Devices from which on the axes of a slice are closed to rings: v5e and v6e in a full pod of 16 x 16, v4 and v5p in cubes of 4 x 4 x 4
(the scaling book, tpus.md; Jouppi et al., ISCA 2023, section 2)."""
NODE = 8
"""Devices of a node where nothing says how many."""
ADAPTER_BYTES_PER_S = 25e9
"""Of one GPU's adapter where nothing says more: HDR InfiniBand as in a DGX A100, twice that from Hopper on (NDR, DGX H100), one adapter for
eight cards on PCIe."""
MANY = 4096
"""Nodes of a network where nothing says how many."""


class Level(Strict):
    """One network level.

    Args:
        name: such as nvlink, infiniband or ici.
        topology: how the members are joined; `mesh`: a link from each to each other, `bridge`: a connector between cards, `host`: PCIe to
            the host's processors.
        size: members of the level: devices of the innermost, groups of the level below for the others (count).
        per_direction: bandwidth that one device can send into the level (bytes/s).
    """

    name: str
    topology: Topology
    size: Annotated[int, Field(ge=1)]
    per_direction: ByteRate

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Bandwidth that one device can send into the level (bytes/s)."""
        return self.per_direction.value

    def reach_bytes_per_s(self, members: int) -> float:
        """What a ring through `members` devices of the level gets of each device's links, one way (bytes/s).

        A mesh has a link for each pair: (members - 1) / (size - 1) of them join the group. In a slice of a torus whose axes are not closed
        a ring leaves a device over two links, both ways round; between two devices there is one.
        """
        full = self.bandwidth_bytes_per_s
        if self.topology == "mesh":
            return full * min(1.0, (members - 1) / max(1, self.size - 1))
        if self.topology in LINKS and members < min(self.size, WRAPPED[self.topology]):
            return full * min(2, members - 1) / LINKS[self.topology]
        return full

    def bisection_s_per_byte(self, members: int) -> float:
        """Seconds that each byte of a device's message takes in an all-to-all of `members` on a torus, across its middle; elsewhere 0.

        Half of the bytes cross the middle of the longest axis, of k devices: k / 8 of a message a link where the axis is a ring, k / 4
        where it is open (the scaling book, sharding.md: a quarter of what an all-gather takes).
        """
        if self.topology not in LINKS:
            return 0.0
        dimensions = LINKS[self.topology] // 2
        longest = 2 ** math.ceil(math.log2(members) / dimensions)
        crossed = longest / (8 if members >= min(self.size, WRAPPED[self.topology]) else 4)
        return crossed * LINKS[self.topology] / self.bandwidth_bytes_per_s


@dataclass(frozen=True)
class Group:
    """Devices that take part in a collective.

    Attributes:
        level: the outermost level that they span.
        inside: members in each part of that level.
        bandwidth_bytes_per_s: one-way bandwidth of each member where a ring through all of them is narrowest.
    """

    members: int
    level: Level
    inside: int
    bandwidth_bytes_per_s: float


class System(Strict):
    """A machine: `title`, `device` (a name that `devices.load` knows, or of the data sheet `own`) and network `levels`, innermost first.

    Args:
        host: time of a kernel's launch over that on an x86 host (1).
    """

    model_config = ConfigDict(json_schema_extra=as_in_a_file)

    name: str
    title: str = ""
    device: str
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    host: float = 1.0
    own: Device | None = None

    def __hash__(self) -> int:
        return hash((self.name, self.device, len(self.levels)))

    @property
    def network(self) -> Level | None:
        """The level that joins nodes; None: one node, or a pod that is one torus."""
        outer = self.levels[-1]
        return outer if len(self.levels) > 1 and outer.topology == "switch" else None

    @property
    def device_count(self) -> int:
        """Devices of the whole machine: the product of the level sizes."""
        return math.prod(level.size for level in self.levels)

    @property
    def devices_per_node(self) -> int:
        """Devices that reach each other without the network."""
        return math.prod(level.size for level in self.levels if level is not self.network)

    def group(self, members: int, stride: int = 1) -> Group:
        """Devices that lie `stride` apart, and what joins them.

        A ring crosses the border of a node once, so its members in a node share that node's adapters; cards on PCIe share the host's
        processors, and one card's link bounds them. The outermost level holds as many as are asked for.
        """
        bandwidth, size, inside, level = float("inf"), 1, 1, self.levels[0]
        for level in self.levels:
            inside = max(1, min(members, size // stride))
            here = members if level is self.levels[-1] else min(members, max(1, size * level.size // stride))
            if here > inside:
                reach = level.reach_bytes_per_s(here)
                bandwidth = min(bandwidth, reach * (1 if level.topology == "host" else inside))
            size *= level.size
            if members * stride <= size:
                break
        else:
            inside = max(1, min(members, size // level.size // stride))
        return Group(members, level, inside, bandwidth if members > 1 else float("inf"))

    def load_device(self) -> devices.Device:
        """The device's specification."""
        return self.own or devices.load(self.device)


class SystemFile(Bodies):
    """`data/hardware/systems.yaml`."""

    systems: dict[str, System]


@cache
def all_systems() -> dict[str, System]:
    """Every system of `data/hardware/systems.yaml`, by name."""
    path = DATA / "hardware" / "systems.yaml"
    found = read_yaml(path, SystemFile).systems
    for name, system in found.items():
        devices.load(system.device)
        for level in system.levels:
            if level.per_direction.source not in devices.sources():
                raise InputError(f"source {level.per_direction.source!r} is not in sources.yaml", path=path, key=f"{name}.{level.name}")
    return found


def load(name: str) -> System:
    """One system by name."""
    systems = all_systems()
    name = name if name in systems else name.replace("DGX-", "HGX-", 1)  # NVIDIA's own machine has its baseboard's links
    if name not in systems:
        raise InputError(f"no system {name!r}; expected one of {', '.join(systems)}", key="system")
    return systems[name]


def of_device(device: Device) -> System:
    """The machine in which a device usually stands: the first of `data/hardware/systems.yaml` that has it, else what its links make.

    NVLink joins the node through a switch, where the data sheet speaks of a bridge two cards; Infinity Fabric and Gaudi's links join each
    device to each other (three links: four cards); without either, and beyond these, cards reach each other over PCIe.
    """
    from analysis.hardware import own as own_machines

    if (mine := own_machines.system(device.name)) is not None:
        return mine
    listed = devices.all_devices().get(device.name)
    if listed is device or listed == device:
        usual = next((system for system in all_systems().values() if system.device == device.name), None)
        if usual is not None:
            return usual
    levels, links = [], device.links
    if links.ici is not None:
        levels.append(_level("ici", links.ici, "torus_3d" if links.ici.links and links.ici.links.value == 6 else "torus_2d", 256))
    elif links.nvlink is not None:
        bridged = links.nvlink.topology == "bridge"
        levels.append(_level("nvlink", links.nvlink, links.nvlink.topology or "switch", 2 if bridged else NODE))
    elif links.infinity_fabric is not None:
        count = int(links.infinity_fabric.links.value) if links.infinity_fabric.links else NODE - 1
        name = "infinity_fabric" if device.vendor == "AMD" else "ethernet"  # Gaudi's
        levels.append(_level(name, links.infinity_fabric, "mesh", min(NODE, 1 << count.bit_length())))
    if math.prod(level.size for level in levels) < NODE:
        pcie = links.pcie or Link(generation=4, per_direction=Quantity(value=31.5e9, low=15.75e9, high=63e9, source="pcie", note="assumed"))
        levels.append(_level("pcie", pcie, "host", NODE // math.prod(level.size for level in levels)))
    if device.kind == "gpu":
        rate = 1 / 8 if levels[-1].topology == "host" else 2.0 if device.architecture in ("hopper", "blackwell") else 1.0
        levels.append(_network(rate * ADAPTER_BYTES_PER_S, "assumed"))
    own = None if listed is device or listed == device else device
    return System(name=device.name, title=f"{NODE} {device.name}", device=device.name, levels=tuple(levels), own=own)


def cluster(device: Device, gpus_per_node: int | None = None, network_bytes_per_s: float | None = None) -> System:
    """The usual machine of a device with the nodes and the network given; None: the usual ones.

    Args:
        gpus_per_node: that reach each other without the network (count); network_bytes_per_s: of one GPU, one way (bytes/s).
    """
    usual = of_device(device)
    levels = [level for level in usual.levels if level is not usual.network]
    if gpus_per_node is not None:
        size = math.prod(level.size for level in levels[:-1])
        if gpus_per_node < size:  # a bridge alone, or a part of a node
            levels, size = levels[:1], 1
        levels[-1] = levels[-1].model_copy(update={"size": max(1, gpus_per_node // size)})
    network = usual.network if network_bytes_per_s is None else _network(network_bytes_per_s, "")
    return usual.model_copy(update={"levels": (*levels, network) if network else tuple(levels)})


def _network(bytes_per_s: float, note: str) -> Level:
    rate = Quantity(value=bytes_per_s, low=bytes_per_s, high=bytes_per_s, source="dgx-a100", note=note)
    return Level(name="network", topology="switch", size=MANY, per_direction=rate)


def _level(name: str, link: Link, topology: Topology, size: int) -> Level:
    return Level(name=name, topology=topology, size=size, per_direction=link.per_direction)
