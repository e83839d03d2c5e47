"""One node of an execution trace, whether it came from a Chakra file or from a table."""

from __future__ import annotations

from dataclasses import dataclass


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
