"""How long do the collectives of a program take on a machine? Each by its group, from the models of `communication`."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.composition import communication
from analysis.hardware.systems import System
from analysis.workloads.graph import Collective


def layout(groups: Sequence[Sequence[int]], devices: int) -> tuple[int, int]:
    """Members and stride of the widest group: devices 0, 8, 16, 24 are 4 members that lie 8 apart.

    Args:
        groups: as the collective names them; empty: all devices.
        devices: of the program (count).
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

    An all-gather is counted by what it leaves, a reduce-scatter by what it takes; a broadcast costs what an all-gather of its result does;
    a permutation, send or receive moves its bytes once over the slowest level that a pair crosses.

    Args:
        collective: the operation.
        system: the machine; devices: of the program (count).
    """
    if collective.kind in ("collective-permute", "send", "recv"):
        size = max(collective.input_bytes, collective.output_bytes)
        inner = system.levels[0]
        inside = all(first // inner.size == second // inner.size for first, second in collective.groups if len(collective.groups[0]) == 2)
        level = inner if inside or len(system.levels) == 1 else system.levels[1]
        share = 1.0 if level is inner else communication.NETWORK_EFFICIENCY
        return size / (level.bandwidth_bytes_per_s * share) + communication.HOP_LATENCY_S if size else 0.0
    members, stride = layout(collective.groups, devices)
    group = communication.group(system, members, stride, communication.NETWORK_EFFICIENCY)
    if collective.kind == "all-reduce":
        return communication.all_reduce_s(system, group, collective.input_bytes)
    if collective.kind == "all-to-all":
        return communication.all_to_all_s(system, group, collective.input_bytes)
    return communication.all_gather_s(system, group, max(collective.input_bytes, collective.output_bytes))
