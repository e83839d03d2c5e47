"""One class each describes a model, a device, a machine, a collective's time and an interval: told by its fields."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.paths import ROOT

PACKAGE = ROOT / "analysis"

FACTS = {
    "model": {"hidden", "hidden_size", "layers", "vocabulary", "attention", "experts", "tied", "context", "kv_heads"},
    "device": {
        "vendor",
        "architecture",
        "tdp",
        "tdp_w",
        "l2",
        "l2_bytes",
        "sms",
        "sm_count",
        "clock",
        "clock_hz",
        "memory",
        "lanes_per_sm",
    },
    "machine": {"device", "devices_per_node", "levels", "network", "domain", "network_bytes_per_s", "host", "device_count"},
    "collective's time": {"seconds", "log_sd", "basis", "parts", "floor_s", "byte_s", "chunk_s"},
    "interval": {"value", "low", "high", "clusters", "resamples", "estimate"},
}
"""Noun -> fields that describe one; a class that has `LEAST` of them is one."""
LEAST = {"model": 4, "device": 4, "machine": 3, "collective's time": 3, "interval": 4}
KNOWN = {
    "model": {"workloads/models.py Model"},
    "device": {"hardware/devices.py Device"},
    "machine": {
        "hardware/systems.py System",
        "training/machines.py Machine",  # a view of a system: the host's speed and the power limit of a run
    },
    "collective's time": {"networks/collective_time.py CollectiveTime", "networks/collective_time.py Terms"},
    "interval": {"studies/intervals.py Interval"},
}
"""The classes that there are; those of `studies` and `artifact` describe what they compare with."""


def _fields(node: ast.ClassDef) -> set[str]:
    return {each.target.id for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}


def _classes(text: str) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))


def _is_one(noun: str, fields: set[str]) -> bool:
    return len(fields & FACTS[noun]) >= LEAST[noun]


def _models() -> Iterator[Path]:
    wings = (PACKAGE / "studies", PACKAGE / "artifact")
    models = (path for path in sorted(PACKAGE.rglob("*.py")) if not any(wing in path.parents for wing in wings))
    return (path for path in (*models, PACKAGE / "studies" / "intervals.py"))


@pytest.mark.parametrize("noun", FACTS)
def test_no_second_class_describes_it(noun: str) -> None:
    found = {
        f"{path.relative_to(PACKAGE)} {node.name}"
        for path in _models()
        for node in _classes(path.read_text(encoding="utf-8"))
        if _is_one(noun, _fields(node))
    }
    assert found == KNOWN[noun]


def test_a_second_one_is_noticed_by_any_name() -> None:
    text = "class Card:\n    name: str\n    vendor: str\n    sms: int\n    clock_hz: float\n    tdp_w: float\n"
    assert [_is_one("device", _fields(node)) for node in _classes(text)] == [True]
