"""How long NCCL's collectives take on real machines: a protocol-aware model calibrated on measured tables.

Time of an all-reduce of s bytes over n GPUs with one-way bandwidth B each, the fastest protocol of

    Simple:  floor + T + 2 sqrt(chunk T) + chunk,        T = k s / (efficiency B)
    LL128:   floor + T 128/120 + sqrt(chunk T)           (NVLink rings; a quarter of the chunk)
    LL:      floor + 2 T                                 (half of every line is a flag)

with k = 2 (n - 1) / n for a ring and 1 for the in-switch reduction (NVLS). `floor` holds launch and hop latencies; 2 sqrt(chunk T)
is the cost of filling a pipeline of optimally sized chunks: (sqrt(chunk) + sqrt(T))^2 = min over m of (m + 1)(chunk + T / m).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from analysis import units
from analysis.configs import Source, Strict, is_measured, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA

Algorithm = Literal["ring", "nvls", "pcie", "network"]
ALGORITHMS: tuple[Algorithm, ...] = ("ring", "nvls", "pcie", "network")
PROTOCOLS = ("simple", "ll128", "ll")
LL_SHARE = 0.5
LL128_SHARE = 120 / 128


class Fabric(Strict):
    """What one source says of a machine's links; see the comments of `data/models/nccl_machines.yaml`."""

    fabric: Literal["switch", "mesh", "pcie", "network"]
    nvls_from: int | None = None
    board_gpus: int | None = None
    gpus_per_node: int | None = None
    adapter_per_gpu: str | None = None
    measured_on: tuple[str, ...] = ()
    source: Source

    @model_validator(mode="after")
    def _names_what_it_was_read_off(self) -> Self:
        if is_measured(self.source) != bool(self.measured_on):
            raise ValueError("measured_on names the series of a source that is measured, and of no other")
        return self


class MeasuredMachine(Strict):
    """One machine, and what is known of it, the best informed first."""

    device: str
    known: tuple[Fabric, ...]

    def fabric(self, left_out: frozenset[str] = frozenset()) -> Fabric:
        """The first entry that was not read off what is left out.

        Args:
            left_out: series such as `H100 x2`.
        """
        allowed = [entry for entry in self.known if not left_out & set(entry.measured_on)]
        if not allowed:
            raise InputError(f"nothing is known of {self.device} but what was measured on {', '.join(sorted(left_out))}", key="machine")
        return allowed[0]


class MachineFile(Strict):
    """`data/models/nccl_machines.yaml`."""

    machines: dict[str, MeasuredMachine]


@dataclass(frozen=True)
class Link:
    """What the model needs to know of a group of GPUs.

    Attributes:
        bandwidth_bytes_per_s: one-way bandwidth that bounds each GPU (of the whole node for `network`).
        algorithm: ring or nvls over NVLink, pcie, or network.
        gpus: size of the group (count).
    """

    bandwidth_bytes_per_s: float
    algorithm: Algorithm
    gpus: int

    def __post_init__(self) -> None:
        if self.gpus < 2:
            raise InputError(f"a collective needs at least 2 GPUs, got {self.gpus}", key="gpus")
        if not self.bandwidth_bytes_per_s > 0:
            raise InputError(f"bandwidth must be positive, got {self.bandwidth_bytes_per_s}", key="bandwidth_bytes_per_s")
        if self.algorithm not in ALGORITHMS:
            raise InputError(f"expected one of {', '.join(ALGORITHMS)}", key="algorithm")

    @property
    def traffic(self) -> float:
        """Bytes through the bounding link for each byte reduced: 1 for NVLS, else 2 (n - 1) / n."""
        return 1.0 if self.algorithm == "nvls" else 2 * (self.gpus - 1) / self.gpus


class Deviation(Strict):
    """Logarithms by which a machine that was measured departs from the common parameters."""

    floor: float
    efficiency: float
    chunk: float


class Parameters(Strict):
    """Fitted parameters (`data/models/nccl_allreduce.yaml`).

    Args:
        floor_s: latency of a group of more than two (s); pair_factor: times this for two GPUs (1).
        efficiency: share of the link's bandwidth that data gets, by algorithm (1).
        chunk_s: time of one chunk that fills the pipeline, by algorithm (s).
        machines: departures of the machines that were in the fit.
        split: what was fitted on; hashes: SHA-256 of the inputs.
    """

    floor_s: float = Field(gt=0)
    pair_factor: float = Field(gt=0)
    efficiency: dict[Algorithm, float]
    chunk_s: dict[Algorithm, float]
    machines: dict[str, Deviation] = Field(default_factory=dict)
    split: str = ""
    hashes: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class CollectiveTime:
    """Time of a collective for each size, and what it is made of (s); `protocol` indexes `PROTOCOLS`."""

    time_s: NDArray[np.float64]
    floor_s: NDArray[np.float64]
    transfer_s: NDArray[np.float64]
    fill_s: NDArray[np.float64]
    protocol: NDArray[np.int64]


@cache
def machines() -> dict[str, MeasuredMachine]:
    """The machines whose tables are known, by name."""
    return read_yaml(DATA / "models" / "nccl_machines.yaml", MachineFile).machines


@cache
def fitted() -> Parameters:
    """The committed parameters, fitted on every table (`data/models/nccl_allreduce.yaml`)."""
    return read_yaml(DATA / "models" / "nccl_allreduce.yaml", Parameters)


def link_of(name: str, gpus: int, left_out: frozenset[str] = frozenset()) -> Link:
    """The bounding link and the algorithm of a group on a known machine.

    Args:
        gpus: size of the group (count).
        left_out: series (`H100 x2`) whose measured times may not have told what is known of the machine.
    Raises:
        InputError: unknown machine, or a group it cannot hold.
    """
    if name not in machines():
        raise InputError(f"no machine {name!r}; expected one of {', '.join(machines())}", key="machine")
    machine = machines()[name]
    device = devices.load(machine.device)
    nvlink, pcie = device.nvlink_bytes_per_s, device.pcie_bytes_per_s
    known = machine.fabric(left_out)
    if known.fabric == "network":
        assert known.adapter_per_gpu and known.gpus_per_node
        return Link(known.gpus_per_node * units.parse(known.adapter_per_gpu, "bytes/s"), "network", gpus)
    if known.fabric == "pcie":
        assert pcie
        return Link(pcie, "pcie", gpus)
    assert nvlink
    if known.fabric == "mesh":
        assert known.board_gpus
        if gpus > known.board_gpus:
            raise InputError(f"{name} has {known.board_gpus} GPUs, not {gpus}", key="gpus")
        return Link(nvlink * (gpus - 1) / (known.board_gpus - 1), "ring", gpus)
    return Link(nvlink, "nvls" if known.nvls_from and gpus >= known.nvls_from else "ring", gpus)


def evaluate(ideal_s: Any, pair: Any, floor: Any, pair_factor: Any, efficiency: Any, chunk: Any, line_protocol: Any) -> tuple[Any, ...]:
    """The formula of this module on arrays: (time, floor, transfer, fill, protocol); arguments in seconds and shares, broadcast together.

    Args:
        ideal_s: k s / B (s).
        pair: whether the group has two GPUs.
        floor, pair_factor, efficiency, chunk: parameters (s, 1, 1, s).
        line_protocol: whether LL128 is available.
    """
    latency = np.where(pair, floor * pair_factor, floor)
    transfer = ideal_s / efficiency
    root = np.sqrt(chunk * transfer)
    times = np.stack(
        [
            latency + transfer + 2 * root + chunk,
            np.where(line_protocol, latency + transfer / LL128_SHARE + root, np.inf),
            latency + transfer / LL_SHARE,
        ]
    )
    protocol = np.argmin(times, axis=0)
    moved = np.choose(protocol, [transfer, transfer / LL128_SHARE, transfer / LL_SHARE])
    return np.min(times, axis=0), latency, moved, np.choose(protocol, [2 * root + chunk, root, 0 * root]), protocol


def _time(ideal_s: NDArray[np.float64], link: Link, parameters: Parameters, machine: str | None) -> CollectiveTime:
    departure = parameters.machines.get(machine, None) if machine else None
    floor, efficiency, chunk = (departure.floor, departure.efficiency, departure.chunk) if departure else (0.0, 0.0, 0.0)
    values = evaluate(
        ideal_s,
        link.gpus == 2,
        parameters.floor_s * np.exp(floor),
        parameters.pair_factor,
        min(1.0, parameters.efficiency[link.algorithm] * np.exp(efficiency)),
        parameters.chunk_s[link.algorithm] * np.exp(chunk),
        link.algorithm == "ring",
    )
    return CollectiveTime(*(np.asarray(np.broadcast_to(value, ideal_s.shape)) for value in values))


def _sizes(size_bytes: ArrayLike) -> NDArray[np.float64]:
    sizes = np.atleast_1d(np.asarray(size_bytes, dtype=float))
    if not np.all(sizes >= 0):
        raise InputError("sizes must not be negative", key="size_bytes")
    return sizes


def all_reduce(size_bytes: ArrayLike, link: Link, parameters: Parameters | None = None, machine: str | None = None) -> CollectiveTime:
    """Time of an all-reduce of `size_bytes` held by every GPU.

    Args:
        machine: a machine of the fit, whose own departures then apply; default: the common parameters.
    """
    sizes = _sizes(size_bytes)
    return _time(sizes * link.traffic / link.bandwidth_bytes_per_s, link, parameters or fitted(), machine)


def all_gather(size_bytes: ArrayLike, link: Link, parameters: Parameters | None = None, machine: str | None = None) -> CollectiveTime:
    """Time of an all-gather that leaves `size_bytes` on every GPU: half the ring all-reduce's traffic, (n - 1) / n s / B.

    Args:
        size_bytes, link, parameters, machine: as for `all_reduce`; an NVLS group is timed as a ring, which NCCL chooses here.
    """
    ring = Link(link.bandwidth_bytes_per_s, "ring" if link.algorithm == "nvls" else link.algorithm, link.gpus)
    sizes = _sizes(size_bytes)
    return _time(sizes * (link.gpus - 1) / link.gpus / link.bandwidth_bytes_per_s, ring, parameters or fitted(), machine)


reduce_scatter = all_gather
"""Time of a reduce-scatter of `size_bytes` held by every GPU: the traffic of the all-gather, the other way round."""
