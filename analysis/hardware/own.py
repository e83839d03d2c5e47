"""A machine of the user's own: a file with a device, and with the links of its node or network where they are not the usual ones.

Its path stands wherever a device is asked for: `my.yaml`, or `my.yaml#NAME` where the file describes several. Where all its figures are
those of a device that is known here, it is that device, and what was measured on that answers; another machine is answered from its data
sheet.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices, systems
from analysis.hardware.devices import Device
from analysis.hardware.quantity import Bodies, Quantity
from analysis.hardware.systems import System

ENDINGS = (".yaml", ".yml")


class MachineFile(Bodies):
    """One's own devices and systems, as `data/hardware` has its own; `source` is free text, and may be left out.

    Args:
        devices: by name; systems: by name: a device (of this file or known here) and its network levels, the node's first.
    """

    OWN_SOURCE = "own"
    devices: dict[str, Device] = Field(default_factory=dict)
    systems: dict[str, System] = Field(default_factory=dict)


_devices: dict[str, Device] = {}
_machines: dict[str, System] = {}
_file_of: dict[str, str] = {}
_measured_as: dict[str, str] = {}
"""What was read, by name."""


def is_path(name: str) -> bool:
    """Does a device's name name a file?"""
    return name.partition("#")[0].strip().lower().endswith(ENDINGS)


def named(name: str) -> Device | None:
    """The device that was read under a name; None: none was."""
    return _devices.get(name)


def system(name: str) -> System | None:
    """The machine of a device of one's own; None: the device is one known here."""
    return _machines.get(name)


def measured_as(name: str) -> str:
    """The device whose kernels a device has: itself, unless only its links are another's."""
    return _measured_as.get(name, name)


def device(reference: str) -> Device:
    """The device that `FILE` or `FILE#NAME` describes."""
    file, _, chosen = reference.strip().partition("#")
    path = Path(file)
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        changed = 0
    return _read(file, chosen, changed)


def read(path: str | Path) -> tuple[str, ...]:
    """Read every machine of a file, so that their names and aliases are known from then on; returns them."""
    found = read_yaml(path, MachineFile)
    called = {name: (name, *one.aliases) for name, one in found.devices.items()} | {name: (name,) for name in found.systems}
    if not called:
        raise InputError("names no device; expected `devices:` with at least one entry", path=path, key="devices")
    for name, every in called.items():
        _devices.update(dict.fromkeys(every, device(f"{path}#{name}")))
    return tuple(name for every in called.values() for name in every)


UNITS = {"peak": "FLOP/s", "vector": "FLOP/s", "clock": "Hz", "tdp": "W", "per_direction": "B/s", "memory_bandwidth": "B/s"}
UNITS |= {"l2_bandwidth": "B/s", "sms": "", "lanes_per_sm": "", "links": ""}


def as_file(one: Device) -> str:
    """A device and the links of its usual machine as a file to edit: read back as it is, it is that device."""
    import yaml

    def written(item: Any, unit: str) -> Any:
        if isinstance(item, Quantity):
            return _text(item.value, unit)
        if isinstance(item, dict):
            return {key: written(value, unit) for key, value in item.items()}
        if isinstance(item, Strict):
            kept = {key: value for key, value in item if value is not None and key not in ("name", "aliases")}
            return {key: written(value, UNITS.get(key, "B")) for key, value in kept.items()}
        return item

    usual = systems.of_device(one)
    levels = [{"name": level.name, **written(level, "")} for level in usual.levels]
    body = {"source": f"copied from {one.name}", **written(one, "")}
    content = {"devices": {one.name: body}, "systems": {f"own-{usual.name}": {"device": one.name, "levels": levels}}}
    return str(yaml.safe_dump(content, sort_keys=False, width=140))


def _text(value: float, unit: str) -> Any:
    """A figure as people write it, and as it is read back to the digit."""
    if not unit:
        return value if value % 1 else int(value)
    size, prefix = next(((size, prefix) for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")) if value >= size), (1.0, ""))
    short = f"{value / size:.12g}"
    return f"{short} {prefix}{unit}" if float(short) * size == value else f"{value:.17g} {unit}"


@lru_cache(maxsize=256)
def _read(file: str, chosen: str, changed: int) -> Device:
    found = read_yaml(file, MachineFile)
    named = [*found.systems, *(name for name in found.devices if name not in {one.device for one in found.systems.values()})]
    if not chosen and len(named) != 1:
        ways = ", ".join(f"{file}#{name}" for name in named) or "`devices:` with at least one entry"
        raise InputError(f"names {len(named)} machines where one is asked for; expected {ways}", path=file, key="devices")
    chosen = chosen or named[0]
    own = found.systems.get(chosen)
    if own is None and chosen not in found.devices:
        raise InputError(f"no machine {chosen!r}; expected one of {', '.join([*found.devices, *found.systems])}", path=file, key="devices")
    body = found.devices.get(own.device if own else chosen)
    if body is None:
        assert own is not None
        body = devices.load(own.device)
    return _registered(file, chosen, body, own)


def _registered(file: str, name: str, body: Device, own: System | None) -> Device:
    alike = [known for known in devices.all_devices().values() if _figures(known) == _figures(body)]
    twin = next((known for known in alike if _linked(known) == _linked(body)), alike[0] if alike else None)
    same_links = twin is not None and _linked(twin) == _linked(body)
    if twin is not None and (same_links if own is None else _links(own) == _links(systems.of_device(twin))):
        return twin
    if devices.known(name):
        raise InputError(f"{name} is a device known here, with other figures: give it another name", path=file, key=name)
    if _file_of.get(name, file) != file:
        raise InputError(f"{name} is another machine in {_file_of[name]}: give one of them another name", path=file, key=name)
    _machines.pop(name, None)
    made = body.model_copy(update={"name": name, "aliases": ()})
    machine = own or systems.of_device(made)
    _machines[name] = machine.model_copy(update={"name": name, "title": machine.title or name, "device": name, "own": made})
    _file_of[name], _devices[name] = file, made
    _measured_as[name] = twin.name if twin is not None else name
    return made


def _figures(one: Device) -> tuple[object, ...]:
    """What makes two devices the same, whoever names them and their sources; links apart."""
    numbers = {key: quantity.value for key, quantity in one.quantities().items() if not key.startswith("links.")}
    return (one.vendor, one.kind, one.architecture, one.memory_type, sorted(numbers.items()))


def _linked(one: Device) -> list[tuple[str, float]]:
    return sorted((key, quantity.value) for key, quantity in one.quantities().items() if key.startswith("links."))


def _links(one: System) -> list[tuple[object, ...]]:
    return [(level.topology, level.size, level.bandwidth_bytes_per_s) for level in one.levels]
