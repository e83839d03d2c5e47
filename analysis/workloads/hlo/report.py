"""What does a program cost? Sums over its operator graph, by operation, by class and by collective."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from analysis.workloads.graph import Module, Operator

COSTS = ("flops", "bytes", "transcendentals")


def sums(operators: Iterable[Operator]) -> dict[str, float]:
    """How many operators, how often they run, their operations, bytes and transcendental operations, loops counted as often as they run."""
    listed = list(operators)
    return {
        "operators": len(listed),
        "runs": sum(operator.trips for operator in listed),
        **{name: math.fsum(getattr(operator, name) for operator in listed) for name in COSTS},
    }


def grouped(module: Module, key: Callable[[Operator], str]) -> dict[str, dict[str, float]]:
    """`sums` of the operators that share a key, the most operations first."""
    groups: dict[str, list[Operator]] = {}
    for operator in module.operators:
        groups.setdefault(key(operator), []).append(operator)
    found = {name: sums(operators) for name, operators in groups.items()}
    return dict(sorted(found.items(), key=lambda item: (-item[1]["flops"], -item[1]["bytes"], item[0])))


def collectives(module: Module) -> list[dict[str, Any]]:
    """Communication between devices: like collectives once, with how often they run."""
    found: dict[Any, int] = {}
    for operator in module.collectives:
        found[operator.work.collective] = found.get(operator.work.collective, 0) + operator.trips
    return [
        {
            "kind": collective.kind,
            "runs": runs,
            "input_bytes": collective.input_bytes,
            "output_bytes": collective.output_bytes,
            "group_size": collective.group_size,
            "groups": [list(group) for group in collective.groups],
        }
        for collective, runs in found.items()
    ]


def report(module: Module) -> dict[str, Any]:
    """Everything that `python -m analysis hlo cost` prints."""
    return {
        "program": module.name,
        "partitions": module.partitions,
        "replicas": module.replicas,
        "operators": len(module.operators),
        **{name: getattr(module, name) for name in COSTS},
        "loops_once": {name: math.fsum(getattr(operator.work, name) for operator in module.operators) for name in COSTS},
        "by_operation": grouped(module, lambda operator: operator.name),
        "by_class": grouped(module, lambda operator: operator.op_class),
        "loops": [{"runs": scope.trips, "known": scope.trips_known} for scope in module.scopes if scope.kind == "loop"],
        "collectives": collectives(module),
        "unknown": module.unknown,
        "notes": list(module.notes),
    }
