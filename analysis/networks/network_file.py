"""A network and system settings from a YAML file, for the replay of traces.

Keys are the columns of `data/recorded/astra-sim/collectives.csv` (several dimensions joined by `x` or `+`, or as a list), and besides
`peak_TFLOPS` (roofline peak, 1e12 flop/s; left out: nodes take their durations) and `groups` (path of a JSON file of process groups,
relative to the YAML file or to the current folder).
"""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Annotated, Any

from pydantic import AliasChoices, Field, field_validator, model_validator

from analysis.configs import AlsoWritten, Strict, read_yaml
from analysis.documents import is_file, read_text
from analysis.errors import InputError
from analysis.networks.cases import RECORDED_AS, Network, check_network
from analysis.networks.trace import read_groups

JOINED = AlsoWritten({"type": ["string", "number"]})
"""One value, or several joined by `x` or `+`."""


class NetworkFile(Strict):
    """What the file may say. Columns that describe a single collective or its result are accepted and not used: the trace says them."""

    backend: str
    topology: Annotated[tuple[str, ...], JOINED]
    npus_per_dim: Annotated[tuple[int, ...], JOINED]
    bandwidth_gib_per_s: Annotated[tuple[float, ...], JOINED] = Field(
        validation_alias=AliasChoices("bandwidth_gib_per_s", "bandwidth_GBps")
    )
    latency_ns: Annotated[tuple[float, ...], JOINED]
    algorithm_per_dim: Annotated[tuple[str, ...], JOINED] = ()
    npus: int | None = None
    preferred_dataset_splits: int = Network.preferred_dataset_splits
    scheduling_policy: str = Network.scheduling_policy
    active_chunks_per_dim: int = Network.active_chunks_per_dim
    queues_per_dim: int = Network.queues_per_dim
    endpoint_delay: int = Network.endpoint_delay
    local_mem_bw_GBps: float = Network.local_mem_bw_GBps
    collective_optimization: str = Network.collective_optimization
    peak_TFLOPS: float | None = None
    groups: str | None = None
    collective: str | None = None
    size_bytes: int | None = None
    status: str | None = None
    cycles_max: float | None = None
    cycles_min: float | None = None
    cycles_per_npu: str | int | None = None
    sim_wall_s: float | None = None
    sweep: str | None = None

    @field_validator("topology", "algorithm_per_dim", "npus_per_dim", "bandwidth_gib_per_s", "latency_ns", mode="before")
    @classmethod
    def split(cls, value: Any, info: Any) -> Any:
        """`50.0x25.0`, `Ring+Switch`, one value or a list."""
        if isinstance(value, str):
            return value.split("+" if info.field_name in ("topology", "algorithm_per_dim") else "x")
        return value if isinstance(value, (list, tuple)) else [value]

    @model_validator(mode="after")
    def count(self) -> NetworkFile:
        """`npus` must be the product of `npus_per_dim`."""
        product = prod(self.npus_per_dim)
        if self.npus is not None and self.npus != product:
            raise ValueError(f"npus is {self.npus}, but the product of npus_per_dim is {product}")
        return self

    def network(self) -> Network:
        """As the model takes it; without algorithms every dimension has the ring."""
        names = [field for field in Network.__dataclass_fields__ if field != "algorithm_per_dim"]
        algorithms = self.algorithm_per_dim or ("ring",) * len(self.topology)
        return Network(algorithm_per_dim=algorithms, **{name: getattr(self, name) for name in names})


def read_network(path: str | Path) -> tuple[Network, float | None, dict[str, tuple[int, ...]]]:
    """Read a network file: (network, roofline peak in TFLOPS or None, process groups)."""
    path = Path(path)
    content = read_yaml(path, NetworkFile)
    network = content.network()
    try:
        check_network(network)
    except InputError as error:
        raise InputError(error.message, path=path, key=error.key, line=_line(path, error.key)) from None
    if content.peak_TFLOPS is not None and not 0 < content.peak_TFLOPS < float("inf"):
        raise InputError(
            f"expected a peak above 0, got {content.peak_TFLOPS}", path=path, key="peak_TFLOPS", line=_line(path, "peak_TFLOPS")
        )
    if not content.groups:
        return network, content.peak_TFLOPS, {}
    for folder in (path.parent, Path.cwd()):
        if is_file(folder / content.groups):
            return network, content.peak_TFLOPS, read_groups(folder / content.groups)
    raise InputError(
        f"no file {content.groups} beside this file or in the current folder", path=path, key="groups", line=_line(path, "groups")
    )


def _line(path: Path, key: str | None) -> int | None:
    for number, text in enumerate(read_text(path).splitlines(), 1):
        if key and text.split(":")[0].strip() in (key, RECORDED_AS.get(key)):
            return number
    return None
