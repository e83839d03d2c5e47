"""A predicted program as Chakra traces, one a device, so that ASTRA-sim (or `analysis.networks`) times the collectives on a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from analysis.errors import InputError
from analysis.predict.program.predict import COLLECTIVE_KINDS, ProgramPrediction, operator_times
from analysis.workloads.chakra.node import Node, Rank
from analysis.workloads.chakra.traces import write_trace
from analysis.workloads.graph import Collective, Module

LARGEST_TRACE = 200_000


Step = float | Collective
"""Seconds of arithmetic between two collectives, or a collective."""


def steps(module: Module, prediction: ProgramPrediction) -> list[Step]:
    """The program in order, loops unrolled, what lies between two collectives as one step.

    A kernel may hold operators from far apart, so the predicted time is spread over the operators in the ratio of their rooflines; the sum
    is the prediction's.
    """
    times = operator_times(module, prediction)
    found: list[Step] = []
    for step in _run(module, times, 0, len(module.operators), 0):
        if isinstance(step, float) and found and isinstance(found[-1], float):
            found[-1] += step
        else:
            found.append(step)
        if len(found) > LARGEST_TRACE:
            raise InputError(f"more than {LARGEST_TRACE:,} steps once its loops are unrolled", key="trace")
    return found


def _run(module: Module, times: list[float], first: int, end: int, scope: int) -> Iterator[Step]:
    """Steps of one run of a scope whose operators are those from `first` to before `end`."""
    place = first
    while place < end:
        operator = module.operators[place]
        if operator.scope == scope:
            yield operator.work.collective or times[place]
            place += 1
            continue
        child = operator.scope
        while module.scopes[child].parent != scope:
            child = module.scopes[child].parent
        after = place
        while after < end and _inside(module, module.operators[after].scope, child):
            after += 1
        runs = module.scopes[child].trips // max(1, module.scopes[scope].trips)
        if any(each.work.collective is not None for each in module.operators[place:after]):
            for _ in range(runs):
                yield from _run(module, times, place, after, child)
        else:
            outer = max(1, module.scopes[scope].trips)
            part = module.operators[place:after]
            yield sum(times[each.id] * each.trips for each in part) / outer
        place = after


def _inside(module: Module, scope: int, outer: int) -> bool:
    while scope > outer:
        scope = module.scopes[scope].parent
    return scope == outer


def nodes(module: Module, prediction: ProgramPrediction) -> tuple[list[Node], dict[str, tuple[int, ...]]]:
    """Trace of all devices, one node after the other, and the devices of each group by number.

    Compute nodes carry their time and neither operations nor bytes, from which ASTRA-sim would make a roofline of its own.
    An all-gather's size is what a device gives, the others' what it holds, as ASTRA-sim takes them.
    """
    ranks = module.devices
    listed = steps(module, prediction)
    for each in listed:
        if isinstance(each, Collective) and each.kind not in COLLECTIVE_KINDS:
            raise InputError(f"{each.kind} has no collective in Chakra; expected one of {', '.join(COLLECTIVE_KINDS)}", key="trace")
    groups: dict[tuple[int, ...], str] = {}
    found: list[Node] = []
    for number in range(ranks):
        rank = Rank(number, groups, ranks)
        for step in listed:
            if isinstance(step, float):
                rank.compute(f"compute_{len(rank.nodes)}", step)
                continue
            group = next((each for each in step.groups if number in each), tuple(range(ranks)))
            if len(group) > 1:
                rank.last = (rank.collective(COLLECTIVE_KINDS[step.kind], step.input_bytes, group, rank.last),)
        found += rank.nodes
    return found, {name: group for group, name in groups.items()}


def write(module: Module, prediction: ProgramPrediction, folder: Path, name: str) -> list[Path]:
    """Write `NAME.RANK.et` for each device and `NAME.groups.json`, the groups as ASTRA-sim reads them."""
    found, groups = nodes(module, prediction)
    return write_trace(found, folder, name, groups)
