"""ASTRA-sim's own input files read as they are: a network YAML and a system JSON.

`python -m analysis replay` takes our one-file form; `read_native` gives the same `Network` from the tool's two files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from analysis.configs import read_yaml_text
from analysis.errors import InputError
from analysis.networks.cases import UNAWARE, Network, check_network

ALGORITHM_KEYS = {
    "all_reduce": "all-reduce-implementation",
    "all_gather": "all-gather-implementation",
    "reduce_scatter": "reduce-scatter-implementation",
    "all_to_all": "all-to-all-implementation",
}


def _system(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is not JSON: {error}", path=path) from None
    if not isinstance(content, dict):
        raise InputError("expected an object", path=path)
    return content


def read_native(
    network_path: str | Path, system_path: str | Path, *, backend: str = UNAWARE, queues_per_dim: int = 1
) -> tuple[Network, dict[str, tuple[str, ...]], float | None]:
    """Network, algorithms of each collective, and roofline peak in TFLOPS (None: replay by durations).

    Args:
        network_path: the tool's network YAML (topology, npus_count, bandwidth in GiB/s, latency in ns; a list each).
        system_path: the tool's system JSON.
        backend: which of the two analytical backends; the tool chooses it by which program is run.
        queues_per_dim: the tool's command-line option `num-queues-per-dim`.
    Raises:
        InputError: a missing or impossible value, with file and key.
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
    for collective, key in ALGORITHM_KEYS.items():
        given = system.get(key)
        if not isinstance(given, list) or len(given) != len(shape["topology"]):
            raise InputError(f"expected a list of {len(shape['topology'])} algorithms, got {given!r}", path=system_path, key=key)
        algorithms[collective] = tuple(given)
    if system.get("model-shared-bus"):
        raise InputError("a shared memory bus is not modelled; expected 0", path=system_path, key="model-shared-bus")
    network = Network(
        backend=backend,
        topology=tuple(shape["topology"]),
        npus_per_dim=tuple(shape["npus_count"]),
        bandwidth_GBps=tuple(float(b) for b in shape["bandwidth"]),
        latency_ns=tuple(float(v) for v in shape["latency"]),
        algorithm_per_dim=algorithms["all_reduce"],
        preferred_dataset_splits=int(system.get("preferred-dataset-splits", 1)),
        scheduling_policy=str(system.get("scheduling-policy", "LIFO")),
        active_chunks_per_dim=int(system.get("active-chunks-per-dimension", 1)),
        queues_per_dim=queues_per_dim,
        endpoint_delay=int(system.get("endpoint-delay", 10)),
        local_mem_bw_GBps=float(system.get("local-mem-bw", 0)),
        collective_optimization=str(system.get("collective-optimization", "baseline")),
    )
    try:
        check_network(network)
    except InputError as error:
        raise InputError(error.message, path=system_path if error.key == "local_mem_bw_GBps" else network_path, key=error.key) from None
    peak = float(system["peak-perf"]) if system.get("roofline-enabled") else None
    return network, algorithms, peak
