"""How long does a collective take on a machine? The one answer of the package, of the best of three kinds:

- measured: NCCL's own times on that device, timed in a CUDA graph (or a serving engine's all-reduce), interpolated;
- fabric: time = floor + bytes / (share x link) + cost of filling the pipeline, the formula of `calibrated.form`, calibrated on GPUs of many
  machines, for any group, link and network; a serving engine's own all-reduce (`engines_all_reduce_s`) where it is asked for and faster;
- closed form: bytes over bandwidth and hops, where no collective of the like was measured (TPUs, Gaudi).

Over a network none is faster than the same collective of the members that one node holds.

>>> from analysis.hardware import systems
>>> from analysis.networks.collective_time import collective_s
>>> h100 = systems.load("HGX-H100")
>>> inside, over_the_network = collective_s("all_reduce", 2**20, 8, h100), collective_s("all_reduce", 2**20, 4, h100, stride=8)
>>> bool(0 < inside < over_the_network)
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.errors import InputError
from analysis.hardware import devices, systems
from analysis.hardware.systems import Group, System
from analysis.networks.calibrated import form
from analysis.networks.calibrated.form import KINDS, Way
from analysis.paths import DATA
from analysis.tables import read_csv

Floats = NDArray[np.float64]
Curve = tuple[Floats, Floats]
"""Logarithms of sizes (bytes) and of times (s)."""
TABLES = DATA / "models" / "gpu_kernels" / "collectives.csv"
MEASURED_SD = 0.08
"""Of the logarithm of an interpolated time."""
CLOSED_FORM_SD = 0.35
LEAST_SHARE = 0.25
"""Share of the link's rate that a table must reach at some size to be believed: those of four and eight L40S reach 0.06 to 0.18 (1.4 to
5.7 GB/s, where PCIe has 31.5), a host without direct access between its cards; the lowest of all others 0.29 (all-to-all of eight RTX PRO
6000)."""
HOP_S = 5e-6
"""Of a hop between chips that no table times: a few microseconds."""
ICI_HOP_S = 1e-6
"""Of a hop between TPUs (the scaling book, sharding.md, question 3: a gather of two hops takes roughly 2 us)."""
CUSTOM_BYTES = 8 * 2**20
"""Largest message that engines reduce by their own kernels (max_size of vLLM's device_communicators/custom_all_reduce.py)."""
NETWORK_HOP_S = 14e-6
"""Of a hop between nodes in the Simple protocol, as NCCL's own tuning assumes (github.com/NVIDIA/nccl, src/graph/tuning.cc, hwLatencies):
for collectives in a CUDA graph, of which none over a network was timed."""


@dataclass(frozen=True)
class CollectiveTime:
    """Time of a collective.

    Attributes:
        seconds: shape of the sizes; log_sd: standard deviation of its logarithm: a 90 % interval is ``seconds exp(-+1.645 log_sd)``.
        basis: measured, fabric or closed form; assumed: what the question does not say, and what was not believed.
        parts: latency, bandwidth and filling of the pipeline -> share of the time, and the standard deviation of its logarithm.
    """

    seconds: Floats
    log_sd: Floats
    basis: str
    assumed: tuple[str, ...] = ()
    parts: dict[str, tuple[Floats, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Terms:
    """A collective of one group, all but its size: floor (s), T a byte (s/byte), chunk (s), whether LL128 is there, what may be doubted."""

    floor_s: float
    byte_s: float
    chunk_s: float
    line: bool
    floor_sd: float
    efficiency_sd: float
    chunk_sd: float
    rest_sd: float
    basis: str
    assumed: tuple[str, ...]


@cache
def curves() -> dict[tuple[str, str, str, int], Curve]:
    """Measured times by device, implementation (`nccl`, `custom` or a framework's name), kind and number of GPUs."""
    frame = read_csv(TABLES).fillna({"framework": ""})
    found = {}
    own = frame["framework"].where(frame["framework"] != "", frame["implementation"])
    for (system, implementation, kind, members), part in frame.groupby(["system", own, "kind", "devices"]):
        part = part.sort_values("bytes")
        # noise of single points must not make a larger message faster
        found[(devices.load(str(system)).name, str(implementation), str(kind), int(str(members)))] = (
            np.log(part["bytes"].to_numpy(np.float64)),
            np.log(np.maximum.accumulate(part["latency_us"].to_numpy(np.float64)) * 1e-6),
        )
    return found


def bus_share(system: System, kind: str, members: int, curve: Curve) -> float:
    """Largest bus bandwidth of a curve, as nccl-tests counts it, over the one-way rate of the links that join so many GPUs."""
    reached = form.traffic(kind, "ring", members, 1) * np.exp(curve[0] - curve[1]).max()
    return float(reached / system.group(members).bandwidth_bytes_per_s)


@lru_cache(maxsize=4096)
def believed(system: System, implementation: str, kind: str, members: int) -> Curve | None:
    """A measured curve of a host whose NCCL (where it was timed; else the curve itself) reaches `LEAST_SHARE` of the link."""
    curve = curves().get((system.device, implementation, kind, members))
    judge = curves().get((system.device, "nccl", kind, members), curve)
    return None if judge is None or bus_share(system, kind, members, judge) < LEAST_SHARE else curve


def _interpolate(curve: Curve, size: Any) -> Floats:
    """Straight lines in logarithms; below the smallest size flat, above the largest in proportion to the size."""
    x = np.log(np.maximum(size, 1.0))
    return np.asarray(np.exp(np.interp(x, *curve) + np.maximum(x - curve[0][-1], 0.0)))


def way_of(system: System, group: Group, kind: str) -> Way | None:
    """How a group's bytes go; None where no collective of the like was measured."""
    device = system.load_device()
    if device.kind != "gpu" or device.vendor not in ("NVIDIA", "AMD"):
        return None
    if group.level is system.network:
        return "network"
    if group.level.topology == "host":
        return "pcie"
    adds = kind == "all_reduce" and group.level.topology == "switch" and device.architecture in form.SWITCH_ADDS
    return "nvls" if adds and group.members >= form.SWITCH_ADDS_FROM else "ring"


@lru_cache(maxsize=65536)
def terms(kind: str, members: int, system: System, stride: int = 1, graph: bool = True, hide: str = "") -> Terms:
    """What a collective's time is made of, by formula; arguments as of `collective_time`."""
    if kind not in KINDS:
        raise InputError(f"collective {kind} is not covered; covered: {', '.join(KINDS)}", key="collective")
    group = system.group(members, stride)
    assumed = (
        () if group.level.per_direction.note != "assumed" else (f"{group.level.bandwidth_bytes_per_s * 8e-9:.0f} Gbit/s of network a GPU",)
    )
    way = way_of(system, group, kind)
    parts = math.ceil(members / group.inside)
    link = group.bandwidth_bytes_per_s
    if kind == "send_recv" or (kind == "all_to_all" and group.level is system.network):
        link = min(link, group.level.reach_bytes_per_s(2))  # each by a pair's link or its own adapter; a ring's members share all
    if way is None:
        steps = {"all_reduce": min(2 * (members - 1), 64), "all_to_all": 1, "send_recv": 1}.get(kind, min(members, 32))
        byte_s = form.traffic(kind, "ring", members, 1) / link
        if kind == "all_to_all":
            byte_s = max(byte_s, group.level.bisection_s_per_byte(members))
        hop_s = ICI_HOP_S if system.load_device().kind == "tpu" else HOP_S
        return Terms(steps * hop_s, byte_s, 0.0, False, *3 * (CLOSED_FORM_SD,), 0.0, "closed form", assumed)
    fitted = form.calibrated()
    p, doubt = fitted.without.get(hide, fitted.shipped), fitted.doubt
    place = "network" if way == "network" else "node"
    factors = p.kinds.get(form.LIKE.get(kind, kind), form.KindFactors(floor=0.0, efficiency=0.0))
    own = p.devices.get(system.device, form.Deviation()) if place == "node" and not hide else form.Deviation()
    if place == "network" and not graph:
        floor = p.floor_s["network"] * math.exp(p.growth["network"] * math.log(parts / 2) + factors.floor)
    else:
        captured = math.log(p.graph) + own.floor if graph else 0.0
        floor = p.floor_s["node"] * math.exp(p.growth["node"] * math.log(members / 8) + factors.floor + captured)
    if place == "network" and graph:
        floor += NETWORK_HOP_S * (2 * math.log2(parts) if kind == "all_reduce" else min(parts - 1, 64))
    pair = p.pair if way == "pcie" and members == 2 else 1.0
    efficiency = min(1.0, p.efficiency[way] * pair * math.exp(factors.efficiency + own.efficiency))
    scale = doubt.scale[way]
    known = place == "node" and way != "pcie" and not hide and system.device in p.devices
    return Terms(
        floor_s=floor,
        byte_s=float(form.traffic(kind, way, members, parts)) / link / efficiency,
        chunk_s=p.chunk_s[way] * math.exp(own.chunk),
        line=way == "ring",
        floor_sd=scale * doubt.floor,
        efficiency_sd=scale * doubt.efficiency["known" if known else "unknown" if system.load_device().vendor == "NVIDIA" else "foreign"],
        chunk_sd=scale * doubt.chunk,
        rest_sd=scale * doubt.rest,
        basis="fabric",
        assumed=assumed,
    )


@lru_cache(maxsize=65536)
def _measured(kind: str, members: int, system: System, stride: int, implementations: tuple[str, ...]) -> tuple[Curve | None, str]:
    """The first curve that is believed, and a note on one that is not."""
    if members * stride > system.devices_per_node:
        return None, ""
    for name in implementations:
        curve = believed(system, name, kind, members)
        if curve is not None:
            return curve, ""
    if any((system.device, name, kind, members) in curves() for name in implementations):
        return None, f"measured {kind} of {members} {system.device} reaches under {LEAST_SHARE:.0%} of the link's rate and is not used"
    return None, ""


@lru_cache(maxsize=4096)
def _inside(members: int, system: System, stride: int) -> int:
    """Members of a group over a network that one node joins; 0: fewer than two, or no network."""
    group = system.group(members, stride)
    return group.inside if group.level is system.network and group.inside > 1 else 0


@cache
def custom_kernels(hide: str) -> tuple[float, float]:
    """Engines' own all-reduces over switches: floor (s), mean logarithm over the architectures that may be known, and the best rate at
    which one of them moves `CUSTOM_BYTES` beyond its two floors (bytes/s)."""
    floors: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    for (name, implementation, _, members), curve in curves().items():
        device = devices.load(name)
        if implementation == "custom" and device.architecture != hide and systems.of_device(device).group(2).level.topology == "switch":
            floor, whole = float(np.exp(curve[1][0])), float(_interpolate(curve, CUSTOM_BYTES))
            floors.setdefault(device.architecture, []).append(math.log(floor))
            rates.setdefault(device.architecture, []).append(2 * (members - 1) / members * CUSTOM_BYTES / max(whole - 2 * floor, floor))
    return math.exp(float(np.mean([np.mean(found) for found in floors.values()]))), max(float(np.median(found)) for found in rates.values())


def engines_all_reduce_s(size: Floats, members: int, group: Group, share: float, hide: str) -> Floats:
    """An all-reduce by peers that read each other's memory: in one stage floor + (n - 1) s / B, or in two, of which each starts anew,
    2 floor + 2 (n - 1) / n s / B; B is `share` of the link, at most what such kernels reach; infinite beyond `CUSTOM_BYTES`."""
    floor, rate = custom_kernels(hide)
    byte_s = 1 / min(share * group.bandwidth_bytes_per_s, rate)
    stages = np.minimum(floor + (members - 1) * byte_s * size, 2 * floor + 2 * (members - 1) / members * byte_s * size)
    return np.where(size <= CUSTOM_BYTES, stages, np.inf)


def collective_time(
    kind: str,
    size_bytes: Floats,
    members: int,
    system: System,
    stride: int = 1,
    graph: bool = True,
    implementations: tuple[str, ...] = ("nccl",),
    hide: str = "",
) -> CollectiveTime:
    """Time of a collective of GPUs or TPUs; see the module.

    Args:
        kind: of `KINDS`; size_bytes: as nccl-tests prints it: a member's vector for all_reduce and all_to_all, the whole of all otherwise.
        members: devices of the group (count); stride: how far apart they lie (1: neighbours).
        system: the machine (`systems.of_device`, `systems.load`, `systems.cluster`).
        graph: launched in a CUDA graph, or hidden behind other work; False: by a host, as nccl-tests does.
        implementations: whose measured times may answer, the best first: nccl, custom, or an engine's own.
        hide: an architecture of which nothing may be known; empty: none.
    Raises:
        InputError: a kind that is not covered.
    Source: the protocols are NCCL's (Hu et al., arXiv:2507.04786); tables and machines in `calibrated.series`.
    """
    size = np.asarray(size_bytes, dtype=np.float64)
    if members < 2:
        return CollectiveTime(np.zeros(size.shape), np.zeros(size.shape), "measured")
    curve, note = _measured(kind, members, system, stride, implementations) if graph and not hide else (None, "")
    if curve is not None:
        return CollectiveTime(_interpolate(curve, size), np.full(size.shape, MEASURED_SD), "measured")
    t = terms(kind, members, system, stride, graph, hide)
    if t.basis == "closed form":
        seconds, log_sd = t.floor_s + t.byte_s * size, np.full(size.shape, CLOSED_FORM_SD)
        parts = {"latency": (t.floor_s / seconds, CLOSED_FORM_SD), "bandwidth": (t.byte_s * size / seconds, CLOSED_FORM_SD)}
        return CollectiveTime(seconds, log_sd, t.basis, t.assumed, parts)
    seconds, moved, fill = form.protocols(t.floor_s, t.byte_s * size, t.chunk_s, t.line)
    floor, group = np.full(size.shape, t.floor_s), system.group(members, stride)
    if graph and kind == "all_reduce" and "custom" in implementations and group.level.topology in ("switch", "mesh"):
        fitted = form.calibrated()
        own = engines_all_reduce_s(size, members, group, fitted.without.get(hide, fitted.shipped).efficiency["ring"], hide)
        faster = own < seconds
        floor = np.where(faster, np.minimum(own, custom_kernels(hide)[0]), floor)
        moved, fill, seconds = np.where(faster, own - floor, moved), np.where(faster, 0.0, fill), np.minimum(own, seconds)
    doubts = {"latency": (floor, t.floor_sd), "bandwidth": (moved, t.efficiency_sd), "filling": (fill, t.chunk_sd)}
    parts = {name: (part / seconds, sd) for name, (part, sd) in doubts.items()}
    log_sd = np.sqrt(sum(part**2 * sd**2 for part, sd in parts.values()) + t.rest_sd**2)
    if inside := _inside(members, system, stride):
        node = collective_time(kind, size, inside, system, stride, graph, implementations, hide)
        slower = node.seconds > seconds
        log_sd = np.where(slower, np.maximum(node.log_sd, log_sd), log_sd)
        parts = {name: (np.where(slower, node.parts.get(name, (share,))[0], share), sd) for name, (share, sd) in parts.items()}
        seconds = np.maximum(node.seconds, seconds)
    return CollectiveTime(seconds, log_sd, t.basis, t.assumed + ((note,) if note else ()), parts)


def collective_s(kind: str, size_bytes: Any, members: int, system: System, stride: int = 1, graph: bool = True) -> Any:
    """Time of a collective (s) without its doubt: a number for one size, an array for many; arguments as of `collective_time`."""
    size = np.asarray(size_bytes, dtype=np.float64)
    return np.where(size > 0, collective_time(kind, size, members, system, stride, graph).seconds, 0.0)[()]
