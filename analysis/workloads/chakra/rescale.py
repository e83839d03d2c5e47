"""A trace for more data-parallel replicas than it was taken with: the same work on each rank, wider groups of those that share weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from analysis.errors import InputError
from analysis.workloads.chakra.node import Node

MOST_NODES = 2_000_000
ALL = "all"
"""Names the group of collectives that have none."""
Groups = dict[str, tuple[int, ...]]


def rescaled(nodes: Sequence[Node], groups: Mapping[str, tuple[int, ...]], ranks: int, grown: Collection[str]) -> tuple[list[Node], Groups]:
    """Copies of a trace's ranks behind each other, each with batches of its own; nothing else of a trace grows.

    Formula: rank r of copy c is r + c R; a group that grows has the members of all copies, of others each copy has its own. What a rank
    gives to an all-gather is its share of the weights, 1 / copies; what the other collectives take is what each rank holds, and stays.

    Args:
        ranks: a multiple of the trace's; grown: data-parallel groups by number, `ALL` that of all ranks; a trace does not say which.
    Raises:
        InputError: ranks that are no multiple, a group that the trace does not have, none that grows, or too many nodes.
    """
    own = 1 + max((node.rank for node in nodes), default=0)
    copies = ranks // own
    if ranks < own or ranks % own:
        raise InputError(f"{ranks} ranks: expected a multiple of the trace's {own}", key="--ranks")
    if stray := next((name for name in grown if name not in groups and name != ALL), None):
        raise InputError(f"no group {stray!r}; the trace has {', '.join([ALL, *groups])}", key="--data-parallel")
    if not grown:
        raise InputError("say which groups are data parallel: a trace does not", key="--data-parallel")
    if len(nodes) * copies > MOST_NODES:
        raise InputError(f"{len(nodes) * copies:,} nodes: at most {MOST_NODES:,}", key="--ranks")
    wide: Groups = {}
    for name, group in {**groups, ALL: tuple(range(own))}.items():
        each = [tuple(rank + copy * own for rank in group) for copy in range(copies)]
        if name in grown:
            wide[name] = tuple(rank for one in each for rank in one)
        else:
            wide |= {f"{name}.{copy}": one for copy, one in enumerate(each)}
    return [node for copy in range(copies) for node in _copied(nodes, copy, own, copies, grown)], wide


def _copied(nodes: Sequence[Node], copy: int, own: int, copies: int, grown: Collection[str]) -> Iterator[Node]:
    for node in nodes:
        ends: dict[str, Any] = {
            "rank": node.rank + copy * own,
            "source": node.source + copy * own,
            "destination": node.destination + copy * own,
        }
        if node.type != "COMM_COLL_NODE":
            yield replace(node, **ends)
            continue
        name = node.group or ALL
        size = max(1, round(node.comm_bytes / copies)) if name in grown and node.comm_type == "ALL_GATHER" else node.comm_bytes
        yield replace(node, **ends, comm_bytes=size, group=name if name in grown else f"{name}.{copy}")
