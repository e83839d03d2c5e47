"""What a machine of many accelerators is made of: its device and the levels of its network, from the inside out."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any, Literal

from pydantic import model_validator

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.hardware.quantity import ByteRate, expanded
from analysis.paths import DATA


class Level(Strict):
    """One network level.

    Args:
        name: such as nvlink, infiniband or ici.
        topology: how the members are joined.
        size: members of the level: devices of the innermost, groups of the level below for the others (count).
        per_direction: bandwidth that one device can send into the level (bytes/s).
    """

    name: str
    topology: Literal["switch", "cube_mesh", "ring", "torus_2d", "torus_3d"]
    size: int
    per_direction: ByteRate

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Bandwidth that one device can send into the level (bytes/s)."""
        return self.per_direction.value


class System(Strict):
    """A machine: `title`, `device` (a name that `devices.load` knows) and network `levels`, innermost first."""

    name: str
    title: str
    device: str
    levels: tuple[Level, ...]

    @property
    def device_count(self) -> int:
        """Devices of the whole machine: the product of the level sizes."""
        return prod(level.size for level in self.levels)

    @property
    def devices_per_node(self) -> int:
        """Devices of the innermost level."""
        return self.levels[0].size

    def load_device(self) -> devices.Device:
        """The device's specification."""
        return devices.load(self.device)


class SystemFile(Strict):
    """`data/hardware/systems.yaml`; a system's `source` is the default for the numbers that name none."""

    systems: dict[str, System]

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, raw: Any) -> Any:
        return expanded(raw, "systems")


@cache
def all_systems() -> dict[str, System]:
    """Every system of `data/hardware/systems.yaml`, by name.

    Raises:
        InputError: a malformed file, an unknown device, or a source that `sources.yaml` lacks.
    """
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
    if name not in systems:
        raise InputError(f"no system {name!r}; expected one of {', '.join(systems)}", key="system")
    return systems[name]
