"""On which machine does a training run take place? Names of machines, and the machine of a row of cases."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from analysis.case_files import count, number
from analysis.errors import InputError
from analysis.hardware import devices, own, systems


@dataclass(frozen=True)
class Machine:
    """Where it runs: device, GPUs that NVLink joins, network of one GPU out of that domain (bytes/s, one way), host work over x86's (1),
    power limit over the data sheet's (1), memory where it is not the data sheet's (GB as vendors print it; 0)."""

    device: str
    domain: int
    network_bytes_per_s: float
    host: float = 1.0
    power: float = 1.0
    memory_gb: float = 0.0

    @property
    def tpu(self) -> bool:
        """Whether it is a pod of TPUs, which MaxText alone trains on here."""
        return devices.load(self.device).kind == "tpu"


@cache
def usual(device: str) -> Machine | None:
    """What training needs of the first system of `data/hardware/systems.yaml` that has a GPU; None where there is none."""
    known = (system for system in systems.all_systems().values() if system.device == device)
    found = ((one, one.network) for one in known if one.network)
    return next((Machine(device, one.devices_per_node, network.bandwidth_bytes_per_s, one.host) for one, network in found), None)


LARGEST_POD = 9216
"""Chips of the largest pod of TPUs (docs.cloud.google.com/tpu/docs/tpu7x), where a device's own is not in data/hardware/systems.yaml."""

NVL72 = 72
"""GPUs that NVLink joins in a GB200 or GB300 NVL72."""

UNNAMED = Machine("A100-SXM4-80GB", 8, 12.5e9)
"""A table that names no device: eight A100 of 80 GB a node and 800 Gbit/s between nodes (vTrain's own configuration files, node_size and
inter_node_bandwidth: github.com/VIA-Research/vTrain, config/validation)."""


def machine_of(text: str) -> Machine:
    """The machine that a cell names: DGX-GB200, h100_80gb, A100-SXM4-80GB, or a system of `data/hardware/systems.yaml`."""
    if own.is_path(text) and (mine := own.system(devices.load(text).name)) is not None and mine.load_device().kind != "tpu":
        like = usual(own.measured_as(mine.device))
        network = mine.network.bandwidth_bytes_per_s if mine.network else like.network_bytes_per_s if like else 25e9
        return Machine(mine.device, mine.devices_per_node, network, like.host if like else mine.host)
    system = systems.all_systems().get(text)
    device = devices.load(system.device) if system else devices.known(text) or _without_its_board(text) or devices.load(text)
    if device.kind == "tpu":  # a compiled program launches whole steps
        pods = [each for each in systems.all_systems().values() if each.device == device.name]
        pod = system or max(pods, key=lambda each: each.device_count, default=systems.of_device(device))
        return Machine(device.name, pod.device_count if pods else LARGEST_POD, pod.levels[-1].bandwidth_bytes_per_s, host=0.0)
    machine = usual(device.name)
    if machine is None:
        if device.vendor not in ("NVIDIA", "AMD", "Intel") or device.architecture == "pascal" or not {"bf16", "fp16"} & set(device.peak):
            raise InputError(f"no training model for {device.name}: NVIDIA GPUs from Volta on, AMD's, Intel's and TPUs are covered")
        older = device.vendor == "NVIDIA" and device.architecture not in ("hopper", "blackwell")
        machine = Machine(device.name, 8, 25e9 if older else 50e9)
    if system:
        machine = replace(machine, domain=system.levels[0].size, network_bytes_per_s=system.levels[-1].bandwidth_bytes_per_s)
    return machine


def _without_its_board(text: str) -> devices.Device | None:
    """The device whose machine or board a text names: DGX-H100, 8xH100, h100_80gb_gpu."""
    return devices.known(re.sub(r"^(nvidia|dgx|hgx|8x|[ _-])+|([ _-](gpu|nvl72|sxm[45]?))+$", "", text.lower()))


LINKS = {"nvlink": "NVLink", "pcie": "PCIe", "infinity_fabric": "Infinity Fabric"}
"""Level of a system -> what a reader calls it."""


@cache
def _joined(machine: Machine) -> str:
    """GPUs of a node, and what joins them: `analysis.hardware.systems` knows."""
    system = systems.cluster(devices.load(machine.device), machine.domain, machine.network_bytes_per_s)
    inner, *outer = [level for level in system.levels if level is not system.network]
    link = LINKS.get(inner.name, inner.name)
    return (
        f"GPUs joined by {LINKS.get(outer[-1].name, outer[-1].name)}, {inner.size} of them by {link}" if outer else f"GPUs joined by {link}"
    )


def of_row(row: dict[str, str], assumed: list[str]) -> Machine:
    """The machine of a row of cases; what it does not say goes to `assumed`."""
    system, device = (row.get(key, "").strip() for key in ("system", "device"))
    where = system or device
    machine = machine_of(where) if where else UNNAMED
    if system and device and (other := machine_of(device).device) != machine.device:
        raise InputError(f"system {system!r} has {machine.device}, device {device!r} is {other}: give one of them", key="device")
    per_node, network = count(row, "gpus_per_node"), number(row, "network_gbit_per_s_per_gpu")
    if network == 0:
        raise InputError("network_gbit_per_s_per_gpu must be above 0", key="network_gbit_per_s_per_gpu")
    near = "chips joined by ICI" if machine.tpu else _joined(machine)
    if not where:
        assumed.append("eight A100 of 80 GB a node, 800 Gbit/s between nodes")
    else:
        alone = count(row, "gpus") == 1
        if not per_node and not alone:
            assumed.append(f"{machine.domain} {near}")
        if not network and not machine.tpu and not alone:
            assumed.append(f"{8e-9 * machine.network_bytes_per_s:.0f} Gbit/s of network a GPU")
    gpus = count(row, "gpus") or 1
    if per_node and gpus > per_node and gpus % per_node:
        raise InputError(f"{gpus} GPUs are no whole nodes of gpus_per_node {per_node}", key="gpus_per_node")
    if per_node and (machine.tpu or machine.domain >= NVL72):  # a tray of an NVL72 is no domain
        assumed.append(f"gpus_per_node {per_node} not used: {machine.domain} {near}")
    elif per_node:
        machine = replace(machine, domain=per_node)
    if network:
        machine = replace(machine, network_bytes_per_s=network * 1e9 / 8)
    power, memory = number(row, "power_limit_w"), number(row, "memory_gb")
    if power and (usual := devices.load(machine.device).tdp_w):
        machine = replace(machine, power=min(1.0, power / usual))
    return replace(machine, memory_gb=memory) if memory else machine
