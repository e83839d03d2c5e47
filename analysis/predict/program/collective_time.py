"""How long do the collectives of a program take on a machine? Each by its group, from `analysis.networks.collective_time`."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.hardware.systems import System
from analysis.networks import collective_time
from analysis.workloads.graph import Collective

KINDS = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "collective-broadcast": "broadcast",
}
"""Of StableHLO, and what NCCL calls them; permutations, sends and receives are sends."""


def layout(groups: Sequence[Sequence[int]], devices: int) -> tuple[int, int]:
    """Members and stride of the widest group: devices 0, 8, 16, 24 are 4 members that lie 8 apart.

    Args:
        groups: as the collective names them; empty: all devices.
    """
    if not groups:
        return max(1, devices), 1
    found = (1, 1)
    for group in groups:
        places = sorted(group)
        if len(places) < 2:
            continue
        stride = max(1, (places[-1] - places[0]) // (len(places) - 1))
        found = max(found, (len(places), stride))
    return found


def collective_s(collective: Collective, system: System, devices: int) -> float:
    """Time of one run (s).

    An all-gather is counted by what it leaves, a reduce-scatter by what it takes; a permutation, send or receive moves its bytes once over
    the slowest level that a pair crosses.
    """
    kind = KINDS.get(collective.kind, "send_recv")
    size = collective.input_bytes if kind in ("all_reduce", "all_to_all") else max(collective.input_bytes, collective.output_bytes)
    if kind == "send_recv":
        node = system.devices_per_node
        inside = all(pair[0] // node == pair[1] // node for pair in collective.groups if len(pair) == 2)
        return collective_time.collective_s(kind, size, 2, system, 1 if inside else node)
    members, stride = layout(collective.groups, devices)
    return collective_time.collective_s(kind, size, members, system, stride)
