"""ASTRA-sim's own input files read as they are: a network YAML and a system JSON.

`python -m analysis replay` takes our one-file form; `read_native` gives the same `Network` from the tool's two files.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analysis.case_columns import nearest
from analysis.configs import read_yaml_text, told
from analysis.documents import LARGEST_BYTES, read_json
from analysis.errors import InputError
from analysis.networks.cases import UNAWARE, Network, check_network
from analysis.networks.codes import COLLECTIVES

OF_NETWORK = ("topology", "npus_per_dim", "bandwidth_gib_per_s", "bandwidth_GBps", "latency_ns")


class SystemFile(BaseModel):
    """What is read of a system JSON; its other keys are the tool's business."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    all_reduce: tuple[str, ...] = Field(alias="all-reduce-implementation")
    all_gather: tuple[str, ...] = Field(alias="all-gather-implementation")
    reduce_scatter: tuple[str, ...] = Field(alias="reduce-scatter-implementation")
    all_to_all: tuple[str, ...] = Field(alias="all-to-all-implementation")
    shared_bus: bool | int = Field(default=0, alias="model-shared-bus")
    preferred_dataset_splits: int = Field(default=1, alias="preferred-dataset-splits")
    scheduling_policy: str = Field(default="LIFO", alias="scheduling-policy")
    active_chunks_per_dim: int = Field(default=1, alias="active-chunks-per-dimension")
    endpoint_delay: int = Field(default=10, alias="endpoint-delay")
    local_mem_bw_GBps: float = Field(default=0, alias="local-mem-bw", allow_inf_nan=False)
    collective_optimization: str = Field(default="baseline", alias="collective-optimization")
    roofline: bool | int = Field(default=0, alias="roofline-enabled")
    peak: float | None = Field(default=None, alias="peak-perf", gt=0, allow_inf_nan=False)


def _system(path: Path) -> SystemFile:
    content = read_json(path, LARGEST_BYTES)
    if not isinstance(content, dict):
        raise InputError("expected an object", path=path)
    aliases = [str(field.alias) for field in SystemFile.model_fields.values()]
    for key in content:
        if key.endswith("-implementation-custom"):
            raise InputError(
                "collectives of one's own (Chakra traces) are not modelled; ring, direct, halvingDoubling and doubleBinaryTree are, by "
                f"{key.removesuffix('-custom')}", path=path, key=key,
            )  # fmt: skip
        if key not in aliases and (near := nearest(key, aliases)):
            raise InputError(f"no such key; did you mean {near}?", path=path, key=key)
    try:
        return SystemFile.model_validate(content)
    except ValidationError as error:
        key, said = told(error)
        raise InputError(said, path=path, key=key) from None


def read_native(
    network_path: str | Path, system_path: str | Path, *, backend: str = UNAWARE
) -> tuple[Network, dict[str, tuple[str, ...]], float | None]:
    """Network, algorithms of each collective, and roofline peak in TFLOPS (None: replay by durations).

    Args:
        network_path: the tool's network YAML (topology, npus_count, bandwidth in GiB/s, latency in ns; a list each).
    """
    network_path, system_path = Path(network_path), Path(system_path)
    shape, _ = read_yaml_text(network_path)
    if not isinstance(shape, dict):
        raise InputError("expected a mapping of keys to values", path=network_path)
    for key, kind in (("topology", str), ("npus_count", int), ("bandwidth", (int, float)), ("latency", (int, float))):
        values = shape.get(key)
        if not isinstance(values, list) or not all(isinstance(v, kind) and not isinstance(v, bool) for v in values):
            expected = "names" if kind is str else "numbers"
            raise InputError(f"expected a list of {expected}, got {values!r}", path=network_path, key=key)
    system = _system(system_path)
    algorithms = {}
    for collective in COLLECTIVES:
        given, key = getattr(system, collective), str(SystemFile.model_fields[collective].alias)
        if len(given) != len(shape["topology"]):
            raise InputError(f"expected a list of {len(shape['topology'])} algorithms, got {list(given)!r}", path=system_path, key=key)
        algorithms[collective] = given
    if system.shared_bus:
        raise InputError("a shared memory bus is not modelled; expected 0", path=system_path, key="model-shared-bus")
    if system.roofline and system.peak is None:
        raise InputError("the roofline is enabled: expected its peak (TFLOPS)", path=system_path, key="peak-perf")
    network = Network(
        backend=backend,
        topology=tuple(shape["topology"]),
        npus_per_dim=tuple(shape["npus_count"]),
        bandwidth_gib_per_s=tuple(float(b) for b in shape["bandwidth"]),
        latency_ns=tuple(float(v) for v in shape["latency"]),
        algorithm_per_dim=algorithms["all_reduce"],
        **{name: value for name, value in system if name in Network.__dataclass_fields__},
    )
    try:
        check_network(network)
    except InputError as error:
        raise InputError(error.message, path=network_path if error.key in OF_NETWORK else system_path, key=error.key) from None
    return network, algorithms, system.peak if system.roofline else None
