"""How does a split program compare with an even share of the whole? Work, collectives and redundancy, one row a module."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from analysis.studies.workloads.partition.volumes import Volume
from analysis.workloads.graph import Module


@dataclass(frozen=True)
class CollectiveTotal:
    """Collectives of one kind in one device's module.

    Args:
        count: how often they run; bytes: of the tensors they make (all-gather) or reduce, all runs together.
    """

    kind: str
    count: int
    bytes: int


def collectives(module: Module) -> dict[str, CollectiveTotal]:
    """Collectives by kind; those in a loop as often as it runs."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for operator in module.collectives:
        collective = operator.work.collective
        assert collective is not None
        counts[collective.kind] += operator.trips
        sizes[collective.kind] += operator.trips * max(collective.input_bytes, collective.output_bytes)
    return {kind: CollectiveTotal(kind, counts[kind], sizes[kind]) for kind in counts}


def derived(volumes: list[Volume]) -> dict[str, CollectiveTotal]:
    """Volumes derived by hand, summed by kind."""
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for volume in volumes:
        counts[volume.kind] += volume.count
        sizes[volume.kind] += volume.bytes
    return {kind: CollectiveTotal(kind, counts[kind], sizes[kind]) for kind in counts}


def redundancy(device: Module, whole: Module, devices: int) -> float:
    """Work done over work needed: devices x operations of one device's module / operations of the whole program (1).

    1 is an even split with nothing done twice; `devices` is every device doing everything.
    """
    return devices * device.flops / whole.flops
