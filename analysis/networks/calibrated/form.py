"""How long does a collective of GPUs take over a link? One formula for all kinds, its parameters calibrated on measured machines.

With T = k s / (efficiency B), the fastest of NCCL's protocols:

    Simple:  floor + T + 2 sqrt(chunk T) + chunk
    LL128:   floor + T 128/120 + sqrt(chunk T)           (NVLink rings; a quarter of the chunk)
    LL:      floor + 2 T                                 (half of every line is a flag)

s is the message as nccl-tests prints it, B what a ring through the group gets of each member's links. k, the bytes through the narrowest
link for a byte of the message: 2 (n - 1) / n for an all-reduce round a ring, 1 in a switch that adds (NVLS), 2 (N - 1) / N through the
adapters of a node for an all-reduce over N nodes, whose GPUs add up inside first (a tree); half of the ring's for all-gather and
reduce-scatter; (n - 1) / n for an all-to-all, over nodes (N - 1) / N; 1 for broadcast, reduce and send. The floor grows as a power of
n / 8, over nodes of N / 2. 2 sqrt(chunk T) fills a pipeline of chunks of the best size: min over m of (m + 1) (chunk + T / m).

Source of the protocols: Hu et al., Demystifying NCCL, arXiv:2507.04786.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from analysis.configs import Strict, read_yaml
from analysis.paths import DATA

Floats = NDArray[np.float64]
Way = Literal["ring", "nvls", "pcie", "network"]
WAYS: tuple[Way, ...] = ("ring", "nvls", "pcie", "network")
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send_recv")
LIKE = {"broadcast": "all_gather", "reduce": "reduce_scatter", "send_recv": "all_to_all"}
"""Kinds that no table times: whose floor and efficiency they take."""
LL_SHARE, LL128_SHARE = 0.5, 120 / 128
SWITCH_ADDS_FROM = 5
"""Smallest group that NCCL reduces in the switch: 8 GiB on four and five H200 (data/published/distributed_training.csv)."""
SWITCH_ADDS = ("hopper", "blackwell")
"""Architectures whose NVSwitch adds."""


class Deviation(Strict):
    """Logarithms by which a device departs from the common parameters; `floor` of collectives in a CUDA graph."""

    efficiency: float = 0.0
    chunk: float = 0.0
    floor: float = 0.0


class KindFactors(Strict):
    """Logarithms by which a kind departs from the ring all-reduce."""

    floor: float
    efficiency: float


class Parameters(Strict):
    """Fitted parameters.

    Args:
        floor_s: of eight GPUs in a node, and of two nodes (s); growth: its exponent in GPUs, and in nodes.
        graph: factor on the floor in a node for collectives in a CUDA graph; pair: on the efficiency of two cards on PCIe.
        efficiency: share of the link's bandwidth that data gets, by way; chunk_s: time of a chunk, by way (s).
        kinds, devices: departures.
    """

    floor_s: dict[Literal["node", "network"], float]
    growth: dict[Literal["node", "network"], float]
    graph: float
    pair: float
    efficiency: dict[Way, float]
    chunk_s: dict[Way, float]
    kinds: dict[str, KindFactors]
    devices: dict[str, Deviation]


class Doubt(Strict):
    """Standard deviations of logarithms around the answer.

    Args:
        floor: of hosts; efficiency: of a device that was measured, of one that was not, of a maker none of whose devices was; chunk;
            rest: of what the formula leaves.
        scale: factor on all, by place, with which the 90 % interval holds 90 % of a machine that was left out.
    """

    floor: float
    efficiency: dict[Literal["known", "unknown", "foreign"], float]
    chunk: float
    rest: float
    scale: dict[Way, float]


class Calibrated(Strict):
    """`data/models/nccl_collectives.yaml`.

    Args:
        shipped: fitted on everything; without: on everything but an architecture's GPUs, for studies that leave it out.
        doubt: see `Doubt`; split: what was fitted on; hashes: SHA-256 of the inputs.
    """

    shipped: Parameters
    without: dict[str, Parameters]
    doubt: Doubt
    split: str
    hashes: dict[str, str]


@cache
def calibrated() -> Calibrated:
    """The committed parameters."""
    return read_yaml(DATA / "models" / "nccl_collectives.yaml", Calibrated)


def traffic(kind: str, way: str, members: Any, parts: Any) -> Any:
    """Bytes through the narrowest link for a byte of the message; arrays broadcast.

    Args:
        members: GPUs; parts: nodes that they span (for `network`).
    """
    ring = (members - 1) / members
    if kind == "all_reduce":
        return 1.0 if way == "nvls" else 2 * (parts - 1) / parts if way == "network" else 2 * ring
    if kind in ("broadcast", "reduce", "send_recv"):
        return 1.0 + 0.0 * ring
    return (parts - 1) / parts if way == "network" and kind == "all_to_all" else ring


def protocols(floor: Any, transfer: Any, chunk: Any, line_protocol: Any) -> tuple[Any, Any, Any]:
    """The formula above on arrays: (time, bytes' share of it, cost of filling the pipeline) (s); `transfer` is T."""
    root = np.sqrt(chunk * transfer)
    moved = np.stack(np.broadcast_arrays(transfer, transfer / LL128_SHARE, transfer / LL_SHARE))
    fill = np.stack(np.broadcast_arrays(2 * root + chunk, np.where(line_protocol, root, np.inf), 0.0 * root))
    best = np.argmin(moved + fill, axis=0)
    moved, fill = np.choose(best, list(moved)), np.choose(best, list(fill))
    return floor + moved + fill, moved, fill
