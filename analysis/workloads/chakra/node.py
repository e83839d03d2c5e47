"""One node of an execution trace, whether it came from a Chakra file or from a table; and those of a rank, as they are added."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Node:
    """One node of a trace; sizes in bytes, operations in flop, 0 where not given."""

    rank: int
    node_id: int
    name: str
    type: str
    duration_us: int = 0
    waits_for: tuple[int, ...] = ()
    operations: int = 0
    tensor_bytes: int = 0
    comm_type: str = ""
    comm_bytes: int = 0
    source: int = 0
    destination: int = 0
    tag: int = 0
    group: str = ""
    on_host: bool = False
    line: int = 0


COUNTS = {
    "num_ops": "operations", "tensor_size": "tensor_bytes", "comm_size": "comm_bytes", "comm_src": "source", "comm_dst": "destination",
    "comm_tag": "tag",
}  # fmt: skip
"""Attributes of Chakra's nodes that are numbers, and columns of a table of them -> our fields."""


@dataclass
class Rank:
    """Nodes of one rank as they are added; `groups`: of all ranks, with their numbers; `last`: what the next node waits for."""

    rank: int
    groups: dict[tuple[int, ...], str]
    ranks: int
    nodes: list[Node] = field(default_factory=list)
    last: tuple[int, ...] = ()
    computed_us: float = 0.0
    written_us: int = 0

    def add(self, kind: str, name: str, waits: tuple[int, ...], **more: Any) -> int:
        """A node that waits for others; its number."""
        self.nodes.append(Node(self.rank, len(self.nodes), name, kind, waits_for=waits, **more))
        return len(self.nodes) - 1

    def compute(self, name: str, seconds: float, *waits: int) -> None:
        """Arithmetic after all before it; a trace has whole microseconds, which add up to the time of all."""
        self.computed_us += 1e6 * seconds
        whole = round(self.computed_us) - self.written_us
        self.written_us += whole
        self.last = (self.add("COMP_NODE", name, (*self.last, *waits), duration_us=whole),)

    def collective(self, kind: str, size: int, group: tuple[int, ...], waits: tuple[int, ...]) -> int:
        """A collective of some ranks, named as in `all_gather`, that waits for some nodes; its number."""
        number = self.groups.setdefault(group, str(len(self.groups) + 1)) if len(group) < self.ranks else ""
        return self.add("COMM_COLL_NODE", kind, waits, comm_type=kind.upper(), comm_bytes=size, group=number)
