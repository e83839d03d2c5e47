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
    duration_us: int
    waits_for: tuple[int, ...]
    operations: int
    tensor_bytes: int
    comm_type: str
    comm_bytes: int
    source: int
    destination: int
    tag: int
    group: str
    on_host: bool
    line: int
