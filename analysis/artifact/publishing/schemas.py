"""JSON Schemas of the files that commands read, made from the models that read them; `data/schemas` holds them for editors."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from analysis.errors import InputError
from analysis.tables import write_atomic

MODELS = {
    "train": ("analysis.training.config", "Training", "train CONFIG.yaml"),
    "train_search": ("analysis.training.config", "Cluster", "train search CLUSTER.yaml"),
    "serve": ("analysis.serving.points.simulation", "SimulationConfig", "serve simulate CONFIG.yaml, serve capacity CONFIG.yaml"),
    "network": ("analysis.networks.network_file", "NetworkFile", "replay --network NETWORK.yaml"),
    "arch": ("analysis.accelerators.loopnest.architecture", "_Design", "map --arch ARCH.yaml, loopnest --arch ARCH.yaml"),
    "layer": ("analysis.accelerators.loopnest.layer", "Layer", "map --layer LAYER.yaml, loopnest --layer LAYER.yaml"),
    "mapping": ("analysis.accelerators.loopnest.mapping", "_Mapping", "loopnest --mapping MAPPING.yaml"),
    "core_design": ("analysis.cores.timing.designs", "Design", "core simulate --design DESIGN.yaml"),
    "devices": ("analysis.hardware.own", "MachineFile", "MACHINE.yaml wherever a device is asked for, data/hardware/devices"),
    "evidence": ("analysis.artifact.mtap.evidence", "Evidence", "mtap score EVIDENCE.yaml"),
}
"""By name: module and class of the model, and where such a file is read."""


def schema(name: str) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a file that a command reads."""
    if name not in MODELS:
        raise InputError(f"no schema {name!r}; there are: {', '.join(MODELS)}", key="name")
    module, kind, read_by = MODELS[name]
    found = getattr(import_module(module), kind).model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": read_by, **{k: v for k, v in found.items() if k != "title"}}


def text(name: str) -> str:
    """`schema` as it is printed and kept."""
    return json.dumps(schema(name), indent=1, sort_keys=True) + "\n"


def write(folder: Path) -> int:
    """Write every schema as NAME.schema.json into a folder; returns how many there are."""
    for name in MODELS:
        write_atomic(folder / f"{name}.schema.json", text(name).encode())
    return len(MODELS)
