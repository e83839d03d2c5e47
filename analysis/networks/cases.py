"""A question: one collective on one network, in the words of ASTRA-sim's inputs, checked before anything is computed.

Two kinds of trouble are kept apart. A value that cannot be (a negative size, no bandwidth) is bad input and raises `InputError`.
A case that is well formed but that the tool, or this model of it, does not answer gets a reason from `outside_model`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from analysis.documents import whole_number
from analysis.errors import InputError
from analysis.networks.codes import ALGORITHMS, COLLECTIVES, TOPOLOGIES
from analysis.networks.event_simulation.records import SimulatedSystem

AWARE, UNAWARE = "Congestion_Aware", "Congestion_Unaware"
RECORDED_AS = {"bandwidth_gib_per_s": "bandwidth_GBps"}
"""What ASTRA-sim, and files recorded from it, call a column; accepted for ours."""

# What a file may ask for: beyond it lies no machine, and the arithmetic in 64 bits would not hold.
MOST_DIMENSIONS = 16
MOST_NPUS = 1 << 20
MOST_SPLITS = 1 << 16
MOST_BYTES = 10**16
LONGEST_DELAY_NS = 10**12


@dataclass(frozen=True)
class Network:
    """A network and the settings of the system layer on it; tuples have one entry a dimension, dimension 0 varies fastest.

    Units: `bandwidth_gib_per_s` is GiB/s (ASTRA-sim's "GB/s" times 2**30), `local_mem_bw_GBps` is 1e9 bytes/s, times are ns = cycles.
    """

    backend: str = UNAWARE
    topology: tuple[str, ...] = ("Switch",)
    npus_per_dim: tuple[int, ...] = (8,)
    bandwidth_gib_per_s: tuple[float, ...] = (400.0,)
    latency_ns: tuple[float, ...] = (936.25,)
    algorithm_per_dim: tuple[str, ...] = ("ring",)
    preferred_dataset_splits: int = 4
    scheduling_policy: str = "LIFO"
    active_chunks_per_dim: int = 1
    queues_per_dim: int = 1
    endpoint_delay: int = 10
    local_mem_bw_GBps: float = 3350.0
    collective_optimization: str = "localBWAware"

    @property
    def npus(self) -> int:
        """How many NPUs there are in all."""
        return int(np.prod(self.npus_per_dim))


COLUMNS = ("backend", "collective", "size_bytes", *[field.name for field in fields(Network) if field.name != "backend"])
"""Of a table of collectives: the network's settings, and what is asked of it."""


@dataclass(frozen=True)
class CollectiveCase:
    """One collective: `size_bytes` is what each NPU holds (for an all-gather: what each NPU puts in)."""

    collective: str
    size_bytes: int
    network: Network = Network()


def cell_number(text: str, kind: type, key: str, path: str | Path | None, line: int | None) -> float:
    """A cell as a number (`kind` float) or a whole one (int), which may be written with decimals or an exponent."""
    try:
        exact = whole_number(text) if kind is int else None
        value = float(text) if exact is None else exact
        if kind is int and exact is None and (value != int(value) or abs(value) >= 10**18):
            raise ValueError
        return kind(value)  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        expected = "a whole number" if kind is int else "a number"
        raise InputError(f"expected {expected}, got {text!r}", path=path, line=line, key=key) from None


def check_network(network: Network, *, path: str | Path | None = None, line: int | None = None) -> None:
    """Refuse values that cannot be."""

    def refuse(key: str, message: str) -> None:
        raise InputError(message, path=path, line=line, key=key)

    dims = len(network.topology)
    for key in ("npus_per_dim", "bandwidth_gib_per_s", "latency_ns", "algorithm_per_dim"):
        if len(getattr(network, key)) != dims:
            refuse(key, f"expected {dims} entries, one for each dimension of topology, got {len(getattr(network, key))}")
    if dims > MOST_DIMENSIONS:
        refuse("topology", f"expected at most {MOST_DIMENSIONS} dimensions, got {dims}")
    if math.prod(network.npus_per_dim) > MOST_NPUS:
        refuse("npus_per_dim", f"expected at most {MOST_NPUS:,} NPUs in all, got {'x'.join(map(str, network.npus_per_dim))}")
    if any(n < 1 for n in network.npus_per_dim):
        refuse("npus_per_dim", f"expected NPU counts of at least 1, got {'x'.join(map(str, network.npus_per_dim))}")
    if any(not 0 < b < float("inf") for b in network.bandwidth_gib_per_s):
        refuse("bandwidth_gib_per_s", f"expected bandwidths above 0, got {'x'.join(map(str, network.bandwidth_gib_per_s))}")
    if any(not 0 <= latency < float("inf") for latency in network.latency_ns):
        refuse("latency_ns", f"expected latencies of at least 0, got {'x'.join(map(str, network.latency_ns))}")
    if not 0 < network.local_mem_bw_GBps < float("inf"):
        refuse("local_mem_bw_GBps", f"expected a bandwidth above 0, got {network.local_mem_bw_GBps}")
    if network.endpoint_delay < 0:
        refuse("endpoint_delay", f"expected at least 0, got {network.endpoint_delay}")
    if network.endpoint_delay > LONGEST_DELAY_NS:
        refuse("endpoint_delay", f"expected at most {LONGEST_DELAY_NS:.0e}, got {network.endpoint_delay}")
    if any(latency > LONGEST_DELAY_NS for latency in network.latency_ns):
        refuse("latency_ns", f"expected latencies of at most {LONGEST_DELAY_NS:.0e}, got {'x'.join(map(str, network.latency_ns))}")
    for key in ("preferred_dataset_splits", "active_chunks_per_dim", "queues_per_dim"):
        if getattr(network, key) < 1:
            refuse(key, f"expected at least 1, got {getattr(network, key)}")
        if getattr(network, key) > MOST_SPLITS:
            refuse(key, f"expected at most {MOST_SPLITS:,}, got {getattr(network, key)}")


def network_reason(network: Network) -> str:
    """Why the model does not answer for this network; empty if it does."""
    known = {
        "backend": ((network.backend,), (AWARE, UNAWARE)),
        "topology": (network.topology, TOPOLOGIES),
        "algorithm_per_dim": (network.algorithm_per_dim, ALGORITHMS),
        "scheduling_policy": ((network.scheduling_policy,), ("LIFO", "FIFO")),
        "collective_optimization": ((network.collective_optimization,), ("localBWAware", "baseline")),
    }
    for key, (given, allowed) in known.items():
        for name in given:
            if name not in allowed and not (key == "algorithm_per_dim" and name.startswith("direct") and name[6:].isdigit()):
                return f"{key} {name!r} is not modelled; there are {', '.join(allowed)}"
    if network.backend == AWARE and len(network.topology) > 1:
        return "the congestion-aware network of this revision has one dimension"
    if network.backend == AWARE and network.topology[0] == "Ring" and network.npus_per_dim[0] == 2:
        return "the tool aborts on a congestion-aware ring of 2 NPUs (both directions are the same pair of links)"
    if network.npus < 2:
        return "one NPU has nobody to talk to"
    for name, n in zip(network.algorithm_per_dim, network.npus_per_dim, strict=True):
        if name in ("halvingDoubling", "doubleBinaryTree") and n & (n - 1):
            return f"{name} needs a power of two of NPUs in its dimension, got {n}"
    if len(network.topology) > 1 and "doubleBinaryTree" in network.algorithm_per_dim:
        return "doubleBinaryTree on several dimensions: no recorded run to follow"
    return ""


def outside_model(case: CollectiveCase) -> str:
    """Why the model has no answer for this case; empty if it has one."""
    network = case.network
    if case.collective not in COLLECTIVES:
        return f"collective {case.collective!r} is not modelled; there are {', '.join(COLLECTIVES)}"
    reason = network_reason(network)
    if reason:
        return reason
    if case.collective == "all_to_all" and "halvingDoubling" in network.algorithm_per_dim:
        return "the tool has no all-to-all by halvingDoubling"
    if case.collective != "all_reduce" and "doubleBinaryTree" in network.algorithm_per_dim:
        return "the tool's doubleBinaryTree is an all-reduce, whatever it is asked for"
    if case.collective == "all_gather" and case.size_bytes < network.preferred_dataset_splits:
        return "fewer bytes than chunks: the tool divides by zero"
    return ""


def check_case(case: CollectiveCase, *, path: str | Path | None = None, line: int | None = None) -> None:
    """Refuse a size or a network that cannot be (see `check_network`)."""
    if case.size_bytes <= 0:
        raise InputError(f"expected at least 1 byte, got {case.size_bytes}", path=path, line=line, key="size_bytes")
    if case.size_bytes > MOST_BYTES:
        raise InputError(f"expected at most {MOST_BYTES:.0e} bytes, got {case.size_bytes}", path=path, line=line, key="size_bytes")
    check_network(case.network, path=path, line=line)


def machine_of(network: Network, algorithms: Mapping[str, tuple[str, ...]] | None = None) -> SimulatedSystem:
    """The network as the compiled functions take it.

    Args:
        algorithms: algorithm of each dimension for single collectives, where they differ from the network's.
    """
    sizes = np.array(network.npus_per_dim, np.int64)
    given = algorithms or {}
    rows = [given.get(name, network.algorithm_per_dim) for name in COLLECTIVES]
    window = [[int(a[6:]) if a.startswith("direct") and a != "direct" else -1 for a in row] for row in rows]
    return SimulatedSystem(
        aware=int(network.backend == AWARE),
        npus=int(sizes.prod()),
        dimensions=len(sizes),
        size=sizes,
        stride=np.concatenate([np.ones(1, np.int64), np.cumprod(sizes)[:-1]]).astype(np.int64),
        kind=np.array([TOPOLOGIES[name] for name in network.topology], np.int64),
        algorithm=np.array([[ALGORITHMS["direct" if a.startswith("direct") else a] for a in row] for row in rows], np.int64),
        window=np.array(window, np.int64),
        latency_ns=np.array(network.latency_ns, np.float64),
        bytes_per_ns=np.array(network.bandwidth_gib_per_s, np.float64) * 2**30 / 1e9,
        endpoint_ns=int(network.endpoint_delay),
        memory_bytes_per_ns=float(network.local_mem_bw_GBps),
        splits=int(network.preferred_dataset_splits),
        queues=int(network.queues_per_dim),
        running_limit=-(-network.active_chunks_per_dim // network.queues_per_dim),
        baseline=int(network.collective_optimization == "baseline"),
    )
