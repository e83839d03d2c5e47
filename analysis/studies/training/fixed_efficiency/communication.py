"""Time of the collectives of a plan, as the fixed-efficiency baseline of `training` and the published steps of `study_step` have them.

Within a node the all-reduce calibrated on nine machine types, between nodes bandwidth and efficiency; what answers users is
`analysis.networks.collective_time`.

Groups are laid out as Megatron does: tensor-parallel neighbours first, then data-parallel, then pipeline stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from analysis.hardware.systems import System
from analysis.networks.measured_fabrics import model as measured

MEASURED_AS = {
    "A100-SXM4-80GB": "A100",
    "A100-SXM4-40GB": "A100",
    "H100-SXM5-80GB": "H200",
    "H200-SXM5-141GB": "H200",
    "B200-SXM-180GB": "B200",
}
"""Device -> machine whose measured departures its NVLink collectives take; an H100 on NVSwitch has the H200's links."""

SWITCH_REDUCTION = {"hopper", "blackwell"}
NETWORK_EFFICIENCY = 0.9
"""Share of an adapter's bandwidth between nodes, where `data/models/training_efficiencies.yaml` says nothing else."""
HOP_LATENCY_S = 5e-6
"""Latency of a hop between nodes or chips: a few microseconds (NCCL's tuning assumes 2.7 to 14 for InfiniBand)."""


@dataclass(frozen=True)
class Group:
    """A communicator.

    Attributes:
        gpus: members (count).
        inside: whether all are in one node.
        bandwidth_bytes_per_s: one-way bandwidth of each member where the ring is narrowest.
    """

    gpus: int
    inside: bool
    bandwidth_bytes_per_s: float


def group(system: System, gpus: int, stride: int, network_efficiency: float) -> Group:
    """The group of `gpus` members that lie `stride` apart.

    Between nodes a ring crosses each node's border once, so its members in a node share that node's adapters:
    min(inner bandwidth, members in a node x adapter x efficiency).

    Args:
        system: the machine; gpus, stride: counts; network_efficiency: share of the adapter's bandwidth (1).
    """
    inner = system.levels[0]
    if gpus * stride <= inner.size:
        return Group(gpus, True, inner.bandwidth_bytes_per_s)
    outer = system.levels[min(1, len(system.levels) - 1)]
    in_node = max(1, inner.size // stride)
    reachable = in_node * outer.bandwidth_bytes_per_s * network_efficiency
    return Group(gpus, False, min(inner.bandwidth_bytes_per_s, reachable))


@lru_cache(maxsize=65536)
def all_reduce_s(system: System, members: Group, size_bytes: float) -> float:
    """All-reduce of `size_bytes` held by each member (s); an all-gather or reduce-scatter takes half the transfer."""
    if members.gpus < 2 or size_bytes <= 0:
        return 0.0
    device = system.load_device()
    if members.inside and device.kind == "gpu":
        algorithm = "nvls" if device.architecture in SWITCH_REDUCTION and members.gpus > 4 else "ring"
        link = measured.Link(members.bandwidth_bytes_per_s, algorithm, members.gpus)  # type: ignore[arg-type]
        return float(measured.all_reduce(size_bytes, link, machine=MEASURED_AS.get(device.name)).time_s[0])
    hops = 2 * (members.gpus - 1)
    return 2 * (members.gpus - 1) / members.gpus * size_bytes / members.bandwidth_bytes_per_s + min(hops, 64) * HOP_LATENCY_S


@lru_cache(maxsize=65536)
def all_gather_s(system: System, members: Group, size_bytes: float) -> float:
    """All-gather that leaves `size_bytes` on each member, or reduce-scatter of as much (s)."""
    if members.gpus < 2 or size_bytes <= 0:
        return 0.0
    device = system.load_device()
    if members.inside and device.kind == "gpu":
        link = measured.Link(members.bandwidth_bytes_per_s, "ring", members.gpus)
        return float(measured.all_gather(size_bytes, link, machine=MEASURED_AS.get(device.name)).time_s[0])
    return (members.gpus - 1) / members.gpus * size_bytes / members.bandwidth_bytes_per_s + min(members.gpus, 32) * HOP_LATENCY_S


def send_s(system: System, gpus: int, size_bytes: float, network_efficiency: float) -> float:
    """Send between neighbouring pipeline stages (s): bytes / bandwidth of one GPU's way there + hop.

    Args:
        system: the machine; gpus: of all stages together (count); size_bytes: bytes of one GPU.
    """
    inner = system.levels[0]
    inside = gpus <= inner.size or len(system.levels) == 1
    level = inner if inside else system.levels[1]
    return size_bytes / (level.bandwidth_bytes_per_s * network_efficiency) + HOP_LATENCY_S
