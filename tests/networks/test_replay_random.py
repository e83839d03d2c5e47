"""Known durations against the event-driven simulation on random traces, ties included."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.networks.cases import AWARE, UNAWARE, Network
from analysis.networks.replay import prepare, simulated
from analysis.workloads.chakra.node import Node
from tests.networks.known_durations import run_known

COLLECTIVES = ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL")


def random_trace(seed: int, npus: int) -> tuple[list[Node], dict[str, tuple[int, ...]]]:
    """One program on all ranks: compute, host work, broadcasts and collectives over everyone, every second rank, or a half."""
    rng = np.random.default_rng(seed)
    half = npus // 2
    groups = {"1": tuple(range(0, npus, 2)), "2": tuple(range(1, npus, 2)), "3": tuple(range(half)), "4": tuple(range(half, npus))}
    nodes = []
    for k in range(int(rng.integers(3, 25))):
        waits = tuple(int(x) for x in rng.choice(k, size=min(k, int(rng.integers(0, 3))), replace=False)) if k else ()
        kind = rng.choice(["compute", "compute", "host", "collective", "broadcast"])
        duration, size = int(rng.integers(1, 12)), int(rng.choice([64, 1000, 1 << 16, 1 << 20]))
        collective, over = str(rng.choice(COLLECTIVES)), int(rng.integers(0, 3)) if npus > 2 else 0
        for rank in range(npus):
            group = ("", "12"[rank % 2], "34"[rank >= half])[over]
            if kind in ("compute", "host"):
                nodes.append(Node(rank, k, "", "COMP_NODE", duration, waits, 0, 0, "", 0, 0, 0, 0, "", kind == "host", 0))
            elif kind == "broadcast":
                nodes.append(Node(rank, k, "", "COMM_COLL_NODE", duration, waits, 0, 0, "BROADCAST", 8, 0, 0, 0, "", False, 0))
            else:
                nodes.append(Node(rank, k, "", "COMM_COLL_NODE", 0, waits, 0, 0, collective, size, 0, 0, 0, group, False, 0))
    return nodes, groups if npus > 2 else {}


def test_durations_are_known_for_most_random_traces() -> None:
    """The test below says nothing where they are not."""
    known = 0
    for seed in range(60):
        nodes, groups = random_trace(seed, 4)
        network = Network(UNAWARE, ("Switch",), (4,), (25.0,), (500.0,), ("ring",), 2, active_chunks_per_dim=2, endpoint_delay=10)
        known += run_known(prepare(nodes, network, groups), network) is not None
    assert known >= 30


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([2, 4, 8]),
    st.sampled_from([AWARE, UNAWARE]),
    st.sampled_from(["Switch", "FullyConnected"]),
    st.sampled_from([25.0, 400.0]),
    st.sampled_from([0.0, 500.0, 1000.0]),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([0, 10, 1000]),
)
def test_known_durations_equal_events(seed, npus, backend, topology, bandwidth, latency, splits, active, endpoint) -> None:
    nodes, groups = random_trace(seed, npus)
    network = Network(
        backend, (topology,), (npus,), (bandwidth,), (latency,), ("ring",), splits, active_chunks_per_dim=active, endpoint_delay=endpoint
    )
    prepared = prepare(nodes, network, groups)
    known = run_known(prepared, network)
    if known is not None:
        run = simulated(prepared)
        for ours, theirs in zip((run.started, run.ended, run.cycles, run.compute), known, strict=True):
            assert (ours == theirs).all()
