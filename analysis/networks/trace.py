"""Execution traces: which rank computes and communicates what, and what waits for what.

A trace is a table of nodes, one row a node, with the columns of `data/recorded/astra-sim/gpt_tp4dp2/nodes.csv` (a tidy Chakra trace):
rank, node_id, name, type, duration_micros, data_deps, ctrl_deps, num_ops, tensor_size, comm_type, comm_size, comm_src, comm_dst, comm_tag,
pg_name and, if given, is_cpu_op. `work_of` checks it and lays it out for the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from analysis.case_columns import Columns
from analysis.documents import read_json, whole_number
from analysis.errors import InputError, together
from analysis.networks import codes
from analysis.networks.cases import Network, cell_number
from analysis.networks.event_simulation.records import TraceNodes
from analysis.tables import read_csv
from analysis.workloads.chakra.node import COUNTS, Node

REQUIRED = ("rank", "node_id", "type", "data_deps", "ctrl_deps")
OPTIONAL = ("name", "duration_micros", "comm_type", *COUNTS, "pg_name", "is_cpu_op")
READS = Columns(names=(*REQUIRED, *OPTIONAL), required=REQUIRED)
TYPES = ("COMP_NODE", "COMM_COLL_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE", "METADATA_NODE", "INVALID_NODE")


def read_nodes(path: str | Path) -> list[Node]:
    """Read a trace from a CSV of nodes."""
    frame = read_csv(path, required=REQUIRED, dtype=str, keep_default_na=False)
    columns = {name: frame[name].tolist() if name in frame else [""] * len(frame) for name in (*REQUIRED, *OPTIONAL)}
    nodes: list[Node] = []

    def whole(name: str, row: int) -> int:
        text = columns[name][row].strip()
        if not text:
            return 0
        value = int(cell_number(text, int, name, path, row + 2))
        if value < 0:
            raise InputError(f"expected at least 0, got {text}", path=path, line=row + 2, key=name)
        return value

    def node(row: int) -> Node:
        waits: list[int] = []
        for name in ("data_deps", "ctrl_deps"):
            for word in columns[name][row].split():
                number = whole_number(word)
                if number is None or number < 0:
                    raise InputError(f"expected node numbers separated by spaces, got {word!r}", path=path, line=row + 2, key=name)
                waits.append(number)
        if not columns["rank"][row].strip() or not columns["node_id"][row].strip():
            raise InputError("expected a rank and a node number", path=path, line=row + 2, key="node_id")
        group = columns["pg_name"][row].strip()
        return Node(
            rank=whole("rank", row),
            node_id=whole("node_id", row),
            name=columns["name"][row],
            type=columns["type"][row],
            duration_us=whole("duration_micros", row),
            waits_for=tuple(dict.fromkeys(waits)),
            comm_type=columns["comm_type"][row],
            group=group.removesuffix(".0"),
            on_host=columns["is_cpu_op"][row].strip().lower() in ("1", "true"),
            line=row + 2,
            **{ours: whole(theirs, row) for theirs, ours in COUNTS.items()},
        )

    wrong: list[InputError] = []
    for row in range(len(frame)):
        try:
            nodes.append(node(row))
        except InputError as error:
            wrong.append(error)
    if wrong:
        raise together(wrong)
    return nodes


def read_groups(path: str | Path) -> dict[str, tuple[int, ...]]:
    """Read process groups: a JSON object of group number to list of ranks, as in ASTRA-sim's communicator group file."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError("expected an object of group number to list of ranks", path=path)
    groups = {}
    for name, ranks in content.items():
        if not isinstance(ranks, list) or not ranks or any(not isinstance(r, int) or isinstance(r, bool) or r < 0 for r in ranks):
            raise InputError(f"expected a list of ranks, got {ranks!r}", path=path, key=name)
        if len(set(ranks)) != len(ranks):
            raise InputError("a rank is listed twice", path=path, key=name)
        groups[str(name)] = tuple(ranks)
    return groups


def spread(nodes: Sequence[Node], npus: int, path: str | Path | None = None) -> list[Node]:
    """Nodes of all ranks, in order of rank and number; a trace of rank 0 alone stands for every rank (one program, many data)."""
    ranks = {node.rank for node in nodes}
    if ranks == {0} and npus > 1:
        nodes = [Node(**{**node.__dict__, "rank": rank}) for rank in range(npus) for node in nodes]
    elif not nodes or ranks != set(range(npus)):
        raise InputError(
            f"expected the ranks 0 to {npus - 1} of the network, or rank 0 alone, got {len(ranks)} ranks up to {max(ranks, default=-1)}",
            path=path,
            key="rank",
        )
    ordered = sorted(nodes, key=lambda node: (node.rank, node.node_id))
    for before, node in pairwise(ordered):
        if (before.rank, before.node_id) == (node.rank, node.node_id):
            raise InputError(f"rank {node.rank} has node {node.node_id} twice", path=path, line=node.line, key="node_id")
    return ordered


def roofline_ns(operations: float, tensor_bytes: float, memory_bytes_per_s: float, peak_flop_per_s: float) -> int:
    """Time of a compute node: operations over min(bandwidth x intensity, peak), rounded down to a nanosecond."""
    speed = min(memory_bytes_per_s * (operations / tensor_bytes), peak_flop_per_s)
    return int(operations / speed * 1e9)


def _refuse_cycle(
    ordered: Sequence[Node], parents: np.ndarray, child_first: np.ndarray, child: np.ndarray, path: str | Path | None
) -> None:
    left = parents.copy()
    ready = list(np.flatnonzero(left == 0))
    seen = 0
    while ready:
        row = ready.pop()
        seen += 1
        for c in child[child_first[row] : child_first[row + 1]]:
            left[c] -= 1
            if left[c] == 0:
                ready.append(c)
    if seen < len(ordered):
        node = ordered[int(np.flatnonzero(left > 0)[0])]
        raise InputError(
            f"the dependencies of node {node.node_id} of rank {node.rank} form a cycle", path=path, line=node.line, key="data_deps"
        )


class Laid(NamedTuple):
    """A node as the simulation takes it, but for what it waits for and whom it meets."""

    kind: int
    duration_ns: int
    collective: int = 0
    group: int = -1
    peer: int = 0


def _refuse(node: Node, path: str | Path | None, key: str, message: str) -> NoReturn:
    raise InputError(f"node {node.node_id} of rank {node.rank}: {message}", path=path, line=node.line, key=key)


def _given_ns(node: Node) -> int:
    """The duration in the trace (ns); 1 where it has none, as in the tool."""
    return node.duration_us * 1000 or 1


def _compute(node: Node, network: Network, peak_tflops: float | None, refuse: Callable[[str, str], NoReturn]) -> Laid:
    if node.operations and not node.duration_us and (peak_tflops is None or node.on_host):
        cure = "" if node.on_host else ", or a roofline (peak_TFLOPS of the network file, roofline-enabled of a system JSON)"
        refuse("duration_micros", f"has operations and no duration: expected one{cure}")
    if peak_tflops is None or node.on_host:
        return Laid(codes.NODE_CPU if node.on_host else codes.NODE_COMPUTE, _given_ns(node))
    if node.tensor_bytes and node.operations:
        return Laid(
            codes.NODE_COMPUTE, roofline_ns(node.operations, node.tensor_bytes, network.local_mem_bw_GBps * 1e9, peak_tflops * 1e12)
        )
    if node.duration_us:
        return Laid(codes.NODE_COMPUTE, _given_ns(node))
    if node.tensor_bytes:
        refuse("num_ops", "expected operations above 0 for the roofline")
    return Laid(codes.NODE_SKIP, _given_ns(node))


def _collective(
    node: Node, groups: Mapping[str, tuple[int, ...]], number: Mapping[str, int], refuse: Callable[[str, str], NoReturn]
) -> Laid:
    name = node.comm_type.lower()
    if name == "broadcast":
        if not node.duration_us:
            refuse("duration_micros", "a broadcast takes the duration that the trace says, as in ASTRA-sim, and it says none")
        return Laid(codes.NODE_BROADCAST, _given_ns(node))
    if name not in codes.COLLECTIVES:
        refuse("comm_type", f"expected one of {', '.join(c.upper() for c in codes.COLLECTIVES)} or BROADCAST, got {node.comm_type!r}")
    if node.comm_bytes < 1:
        refuse("comm_size", "expected at least 1 byte")
    if node.group in ("", "0"):
        return Laid(codes.NODE_COLLECTIVE, _given_ns(node), codes.COLLECTIVES[name])
    if node.group not in number:
        refuse("pg_name", f"group {node.group} is not among the groups {', '.join(number) or '(none given)'}")
    if node.rank not in groups[node.group]:
        refuse("pg_name", f"its rank is not in group {node.group}")
    if len(groups[node.group]) == 1:
        refuse("pg_name", f"group {node.group} has one rank: the tool waits for ever")
    return Laid(codes.NODE_COLLECTIVE, _given_ns(node), codes.COLLECTIVES[name], number[node.group])


def _message(node: Node, npus: int, refuse: Callable[[str, str], NoReturn]) -> Laid:
    sending = node.type == "COMM_SEND_NODE"
    peer = node.destination if sending else node.source
    if node.comm_bytes < 1:
        refuse("comm_size", "expected at least 1 byte")
    if not 0 <= peer < npus or peer == node.rank:
        refuse("comm_dst" if sending else "comm_src", f"expected another rank of the {npus}, got {peer}")
    return Laid(codes.NODE_SEND if sending else codes.NODE_RECEIVE, _given_ns(node), peer=peer)


def work_of(
    nodes: Sequence[Node],
    network: Network,
    groups: Mapping[str, tuple[int, ...]],
    peak_tflops: float | None = None,
    path: str | Path | None = None,
) -> tuple[TraceNodes, list[Node]]:
    """Check a trace and lay it out for the simulation; returns it with the nodes in the order of its rows.

    Compute nodes take their duration (without one, and without operations: 1 ns, as in the tool), or with `peak_tflops` the roofline of
    their operations and bytes; then a node without bytes is skipped, as the tool does, unless it has a duration.
    """
    npus = network.npus
    ordered = spread(nodes, npus, path)
    rows = {(node.rank, node.node_id): row for row, node in enumerate(ordered)}
    names = sorted(groups)
    number = {name: k for k, name in enumerate(names)}
    for name in names:
        if max(groups[name]) >= npus:
            raise InputError(f"group {name} has rank {max(groups[name])}, but the network has {npus} ranks", path=path, key="groups")
    count = len(ordered)
    laid = np.zeros((count, len(Laid._fields)), np.int64)
    pair = np.full(count, -1, np.int64)
    parents = np.zeros(count, np.int64)
    children: list[list[int]] = [[] for _ in range(count)]
    sends: dict[tuple[int, int, int, int], list[int]] = {}
    for row, node in enumerate(ordered):
        refuse = partial(_refuse, node, path)
        for other in node.waits_for:
            if (node.rank, other) not in rows:
                refuse("data_deps", f"waits for node {other}, which its rank does not have")
            children[rows[node.rank, other]].append(row)
        parents[row] = len(node.waits_for)
        if node.type == "COMP_NODE":
            laid[row] = _compute(node, network, peak_tflops, refuse)
        elif node.type in ("METADATA_NODE", "INVALID_NODE"):
            laid[row] = Laid(codes.NODE_SKIP, _given_ns(node))
        elif node.type == "COMM_COLL_NODE":
            laid[row] = _collective(node, groups, number, refuse)
        elif node.type in ("COMM_SEND_NODE", "COMM_RECV_NODE"):
            laid[row] = _message(node, npus, refuse)
            if laid[row][0] == codes.NODE_SEND:
                pair[row] = row
                sends.setdefault((node.rank, node.destination, node.tag, node.comm_bytes), []).append(row)
        else:
            refuse("type", f"expected one of {', '.join(TYPES)}, got {node.type!r}")
    kind, duration, collective, group, peer = (np.ascontiguousarray(column) for column in laid.T)
    size = np.array([node.comm_bytes for node in ordered], np.int64)
    for row, node in enumerate(ordered):
        if kind[row] == codes.NODE_RECEIVE:
            partners = sends.get((node.source, node.rank, node.tag, node.comm_bytes))
            if not partners:
                message = f"node {node.node_id} of rank {node.rank} receives what rank {node.source} never sends"
                raise InputError(message, path=path, line=node.line, key="comm_tag")
            pair[row] = partners.pop(0)
    child_first = np.concatenate([[0], np.cumsum([len(c) for c in children])]).astype(np.int64)
    child = np.array([c for part in children for c in part], np.int64)
    ranks = np.array([node.rank for node in ordered])
    first = np.searchsorted(ranks, np.arange(npus + 1)).astype(np.int64)
    _refuse_cycle(ordered, parents, child_first, child, path)
    members = [groups[name] for name in names]
    work = TraceNodes(
        first=first,
        kind=kind,
        duration_ns=duration,
        collective=collective,
        bytes=size,
        group=group,
        peer=peer,
        pair=pair,
        parents=parents,
        child_first=child_first,
        child=child,
        group_first=np.concatenate([[0], np.cumsum([len(m) for m in members])]).astype(np.int64),
        group_member=np.array([r for m in members for r in m], np.int64),
    )
    return work, ordered
