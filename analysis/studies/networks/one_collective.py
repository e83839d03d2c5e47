"""How many cycles does one collective take, when is each NPU done, and how near is that to the bound of bandwidth?"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.errors import InputError
from analysis.networks.cases import CollectiveCase, check_case, outside_model
from analysis.networks.collectives import closed_forms, simulate_collective


@dataclass(frozen=True)
class CollectiveResult:
    """Answer for one collective.

    cycles: when the last NPU is done (cycles = ns); per_npu: when each is, in order of rank;
    method: `closed form` or `event simulation`; bandwidth_bound_cycles: (n-1)/n x bytes / bandwidth, which nothing beats;
    bus_bytes_per_s: bytes of the collective over time, times 2(n-1)/n or (n-1)/n, as NCCL's tests report it.
    """

    cycles: int
    per_npu: tuple[int, ...]
    method: str
    bandwidth_bound_cycles: float
    bus_bytes_per_s: float


def bandwidth_bound_cycles(case: CollectiveCase) -> float:
    """Least time to move the bytes that must leave an NPU through its links: sum over dimensions of (n-1)/n x bytes / bandwidth.

    For an all-gather, where the bytes given are an NPU's share, each NPU receives (n-1) shares. A ring or fully connected NPU has more
    than one link; the bound takes all of them.
    """
    total, network = 0.0, case.network
    npus = network.npus
    moved = case.size_bytes * (npus - 1) if case.collective == "all_gather" else case.size_bytes * (npus - 1) / npus
    for name, n, bandwidth in zip(network.topology, network.npus_per_dim, network.bandwidth_gib_per_s, strict=True):
        links = {"Ring": min(2, n - 1), "FullyConnected": n - 1, "Switch": 1}[name]
        total += links * bandwidth * 2**30 / 1e9
    return moved / total


def collective_cycles(case: CollectiveCase) -> CollectiveResult:
    """Cycles of one collective.

    Source: data/recorded/astra-sim/SEMANTICS.md.
    """
    check_case(case)
    reason = outside_model(case)
    if reason:
        raise InputError(f"outside the model: {reason}")
    npus = case.network.npus
    cycles = int(closed_forms([case])[0])
    per_npu, method = (cycles,) * npus, "closed form"
    if cycles < 0:
        per_npu, method = tuple(simulate_collective(case).cycles.tolist()), "event simulation"
        cycles = max(per_npu)
    total = case.size_bytes * (npus if case.collective == "all_gather" else 1)
    speed = total / (cycles * 1e-9) if cycles else float("inf")  # every delay may round down to nothing
    share = (npus - 1) / npus * (2 if case.collective == "all_reduce" else 1)
    return CollectiveResult(cycles, per_npu, method, bandwidth_bound_cycles(case), speed * share)
