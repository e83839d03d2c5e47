"""Trace replay against ASTRA-sim's printed results, and against itself. Sources: data/recorded/astra-sim/{gpt_tp4dp2,resnet50_dp}*."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from analysis.compiled import plain_python
from analysis.errors import InputError
from analysis.networks.cases import AWARE, UNAWARE, Network
from analysis.networks.event_simulation import loop as event_simulation
from analysis.networks.replay import prepare, replay, simulated, union_cycles
from analysis.networks.trace import read_groups, read_nodes, roofline_ns
from analysis.paths import DATA
from analysis.tables import read_csv, write_csv
from analysis.workloads.chakra.node import Node
from analysis.workloads.chakra.traces import rank_bytes, read_trace, write_trace
from tests.networks.known_durations import run_known

RECORDED = DATA / "recorded" / "astra-sim"
ANSWERS = ["rank", "cycles", "exposed_comm_cycles", "gpu_cycles", "comm_cycles"]


@pytest.fixture(scope="module")
def gpt() -> list[Node]:
    return read_nodes(RECORDED / "gpt_tp4dp2" / "nodes.csv")


@pytest.fixture(scope="module")
def groups() -> dict[str, tuple[int, ...]]:
    return read_groups(RECORDED / "gpt_tp4dp2" / "comm_groups.json")


def gpt_runs() -> list[tuple[dict, pd.DataFrame]]:
    keys = [
        "backend",
        "active_chunks_per_dim",
        "preferred_dataset_splits",
        "scheduling_policy",
        "peak_TFLOPS",
        "local_mem_bw_GBps",
        "bw_GBps",
    ]
    frame = read_csv(RECORDED / "gpt_tp4dp2_results.csv")
    return [(dict(zip(keys, key, strict=True)), part) for key, part in frame.groupby(keys)]


def gpt_network(run: dict, backend: str | None = None) -> Network:
    return Network(
        backend=backend or run["backend"],
        bandwidth_gib_per_s=(run["bw_GBps"],),
        latency_ns=(936.25,),
        preferred_dataset_splits=run["preferred_dataset_splits"],
        scheduling_policy=run["scheduling_policy"],
        active_chunks_per_dim=run["active_chunks_per_dim"],
        local_mem_bw_GBps=run["local_mem_bw_GBps"],
    )


@pytest.mark.parametrize(("run", "expected"), gpt_runs())
def test_gpt_trace_all_ranks(run: dict, expected: pd.DataFrame, gpt: list[Node], groups: dict) -> None:
    prepared = prepare(gpt, gpt_network(run), groups, run["peak_TFLOPS"])
    ours = replay(prepared).ranks
    assert (ours[ANSWERS].to_numpy() == expected.sort_values("rank")[ANSWERS].to_numpy()).all()


@pytest.mark.parametrize("active", [1, 2, 4])
def test_known_durations_equal_events_on_congested_links(active: int, gpt: list[Node], groups: dict) -> None:
    network = Network(backend=AWARE, active_chunks_per_dim=active)
    prepared = prepare(gpt, network, groups, 989)
    known = run_known(prepared, network)
    if known is not None:
        run = simulated(prepared)
        for ours, theirs in zip((run.started, run.ended, run.cycles, run.compute), known, strict=True):
            assert (ours == theirs).all()
    else:
        assert active == 4


def test_a_short_trace_in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a first replay after an installation is answered: without compiling, with the same cycles."""
    network = Network(AWARE, ("Switch",), (4,), (400.0,), (936.25,), active_chunks_per_dim=2)
    prepared = prepare(read_nodes(RECORDED / "resnet50_dp" / "nodes.csv"), network, {})
    compiled_cycles = simulated(prepared).ended
    calls = []
    chosen = lambda small: lambda *given: calls.append(small) or plain_python.run_plain(event_simulation.run.plain, given)  # noqa: E731
    monkeypatch.setattr(event_simulation, "run", SimpleNamespace(chosen=chosen, plain=event_simulation.run.plain))
    assert (simulated(prepared).ended == compiled_cycles).all() and calls[0]


@pytest.mark.parametrize("row", read_csv(RECORDED / "resnet50_dp.csv").to_dict("records"))
def test_resnet_trace(row: dict) -> None:
    """574,289 / 1,454,270 / 3,307,886 cycles of communication, the survey's Table 8."""
    network = Network(AWARE, ("Switch",), (row["npus"],), (row["bandwidth_GBps"],), (row["latency_ns"],), active_chunks_per_dim=2)
    ranks = replay(prepare(read_nodes(RECORDED / "resnet50_dp" / "nodes.csv"), network, {})).ranks
    assert len(ranks) == row["npus"]
    assert set(ranks["comm_cycles"]) == {row["published_comm"]} == {row["comm_cycles_union"]}
    assert set(ranks["cycles"]) == {row["wall_cycles"]}
    assert set(ranks["gpu_cycles"]) == {row["gpu_cycles"]}
    assert set(ranks["exposed_comm_cycles"]) == {row["exposed_cycles"]}


def test_chakra_files_read_as_the_table(gpt: list[Node]) -> None:
    fields = ["rank", "node_id", "name", "type", "duration_us", "operations", "tensor_bytes", "comm_type", "comm_bytes", "group"]
    read = read_trace(RECORDED / "gpt_tp4dp2" / "gpt.0.et")
    assert [[getattr(n, f) for f in fields] for n in read] == [[getattr(n, f) for f in fields] for n in gpt]
    assert [set(n.waits_for) for n in read] == [set(n.waits_for) for n in gpt]


def wire_fields(message: bytes) -> list[tuple[int, object]]:
    """A second reader: protobuf's wire format by hand, without the schema or the library."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            at, shift = at + 1, shift + 7
            if message[at - 1] < 128:
                return value, at

    fields: list[tuple[int, object]] = []
    at = 0
    while at < len(message):
        key, at = varint(at)
        if key & 7 == 0:
            value, at = varint(at)
            fields.append((key >> 3, value))
        else:
            assert key & 7 == 2
            length, at = varint(at)
            fields.append((key >> 3, message[at : at + length]))
            at += length
    return fields


def test_written_chakra_files_have_a_second_reader(gpt: list[Node], tmp_path, groups: dict) -> None:
    files = write_trace(gpt, tmp_path, "ours", {})[:-1]
    assert [f.name for f in files] == [f"ours.{rank}.et" for rank in range(8)]
    assert rank_bytes(read_trace(files[0])[:184]) == files[0].read_bytes()
    content, messages = files[0].read_bytes(), []
    while content:
        length = shift = used = 0
        while True:
            length |= (content[used] & 127) << shift
            shift, used = shift + 7, used + 1
            if content[used - 1] < 128:
                break
        messages.append(content[used : used + length])
        content = content[used + length :]
    nodes = [dict(wire_fields(m)) | {10: [v for k, v in wire_fields(m) if k == 10]} for m in messages[1:]]
    mine = [n for n in gpt if n.rank == 0]
    assert [n.get(1, 0) for n in nodes] == [n.node_id for n in mine]
    assert [n[2].decode() for n in nodes] == [n.name for n in mine]
    assert [n[3] for n in nodes] == [{"COMP_NODE": 4, "COMM_COLL_NODE": 7}[n.type] for n in mine]
    sizes = [{dict(wire_fields(a))[1]: dict(wire_fields(a)) for a in n[10]} for n in nodes]
    assert [s.get(b"comm_size", {}).get(9, 0) for s in sizes] == [n.comm_bytes for n in mine]
    again = replay(prepare(read_trace(files[0]), Network(), groups, 989)).ranks
    assert set(again["cycles"]) == {13571568}  # gpt_tp4dp2_results.csv, first row


def nodes_frame(nodes: list[Node]) -> pd.DataFrame:
    """Nodes as the tidy table that `read_nodes` reads."""
    return pd.DataFrame(
        {
            "rank": [n.rank for n in nodes],
            "node_id": [n.node_id for n in nodes],
            "name": [n.name for n in nodes],
            "type": [n.type for n in nodes],
            "duration_micros": [n.duration_us for n in nodes],
            "data_deps": [" ".join(map(str, n.waits_for)) for n in nodes],
            "ctrl_deps": "",
            "num_ops": [n.operations for n in nodes],
            "tensor_size": [n.tensor_bytes for n in nodes],
            "comm_type": [n.comm_type for n in nodes],
            "comm_size": [n.comm_bytes for n in nodes],
            "comm_src": [n.source for n in nodes],
            "comm_dst": [n.destination for n in nodes],
            "comm_tag": [n.tag for n in nodes],
            "pg_name": [n.group for n in nodes],
            "is_cpu_op": [int(n.on_host) for n in nodes],
        }
    )


def test_table_round_trip(gpt: list[Node], tmp_path) -> None:
    write_csv(nodes_frame(gpt), tmp_path / "nodes.csv")
    assert [replace(n, line=0) for n in read_nodes(tmp_path / "nodes.csv")] == [replace(n, line=0) for n in gpt]


def node(rank: int, number: int, kind: str, **given: object) -> Node:
    blank = Node(rank, number, "", kind, 0, (), 0, 0, "", 0, 0, 0, 0, "", False, 2)
    return replace(blank, **given)  # type: ignore[arg-type]


def test_point_to_point_and_broadcast() -> None:
    """A message of 2^20 bytes through a switch: unaware floor(2L + m/B); store and forward 2 floor(L + m/B)."""
    trace = [
        node(0, 1, "COMM_SEND_NODE", comm_bytes=1 << 20, destination=1, tag=7),
        node(1, 1, "COMM_RECV_NODE", comm_bytes=1 << 20, source=0, tag=7),
        node(1, 2, "COMP_NODE", duration_us=5, waits_for=(1,)),
        node(0, 2, "COMM_COLL_NODE", comm_type="BROADCAST", comm_bytes=8, duration_us=3, waits_for=(1,)),
    ]
    serial = (1 << 20) / (400 * 2**30 / 1e9)
    for backend, delay in ((UNAWARE, int(2 * 936.25 + serial)), (AWARE, 2 * int(936.25 + serial))):
        ranks = replay(prepare(trace, Network(backend=backend, npus_per_dim=(2,)), {})).ranks
        assert ranks["cycles"].tolist() == [delay + 3000, delay + 5000]
        assert ranks["comm_cycles"].tolist() == [delay + 3000, delay]


@pytest.mark.parametrize(
    ("given", "peak", "said"),
    [
        (
            {"type": "COMM_COLL_NODE", "comm_type": "BROADCAST", "comm_bytes": 1 << 20},
            None,
            "duration_micros: .*a broadcast takes the duration",
        ),
        ({"type": "COMP_NODE", "operations": 10}, None, "duration_micros: .*has operations and no duration"),
        ({"type": "COMP_NODE", "operations": 10, "on_host": True}, 100.0, "duration_micros: .*has operations and no duration"),
    ],
)
def test_nodes_that_nothing_times_are_refused(given: dict[str, Any], peak: float | None, said: str) -> None:
    """They took one cycle."""
    kind = given.pop("type")
    with pytest.raises(InputError, match=said):
        prepare([node(r, 1, kind, **given) for r in range(2)], Network(npus_per_dim=(2,)), {}, peak)


def test_chakra_as_json_and_collectives_by_name(tmp_path: Path) -> None:
    """The same trace as a binary file, as Chakra's jsonizer writes it (camel case, 64 bits as text), as a list, and with names of types."""
    trace = [
        replace(node(0, 1, "COMP_NODE", duration_us=5, name="x"), line=0),
        replace(node(0, 2, "COMM_COLL_NODE", comm_type="ALL_REDUCE", comm_bytes=1 << 20, waits_for=(1,)), line=0),
    ]
    objects = [
        {"version": "0.0.4"},
        {"id": "1", "name": "x", "type": "COMP_NODE", "durationMicros": "5", "attr": [{"name": "is_cpu_op", "boolVal": False}]},
        {
            "id": "2", "type": "COMM_COLL_NODE", "data_deps": ["1"],
            "attr": [{"name": "comm_type", "stringVal": "all_reduce"}, {"name": "comm_size", "int64Val": "1048576"}],
        },
    ]  # fmt: skip
    files = {
        "binary.0.et": rank_bytes(trace),
        "lines.0.et": "\n".join(map(json.dumps, objects)).encode(),
        "one.0.json": "".join(json.dumps(each, indent=1) for each in objects).encode(),
        "list.0.json": json.dumps(objects[1:]).encode(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        assert [replace(each, line=0) for each in read_trace(tmp_path / name)] == trace, name
    for text, said in (
        ('{"version":"1"}\n{"id": 1, "type": "COMP_NODE", "durations": 3}', r"bad.0.et:2: is not a node of Chakra.*durations"),
        ('{"version":"1"}\n{"id": 1, ', r"bad.0.et:2: is not JSON"),
        ("[1, 2]", r"bad.0.et: is cut off|bad.0.et"),
    ):
        (tmp_path / "bad.0.et").write_text(text)
        with pytest.raises(InputError, match=said):
            read_trace(tmp_path / "bad.0.et")


def test_overlap_and_slots() -> None:
    """Compute and communication overlap; two computes do not."""
    trace = [
        node(r, k, kind, **given)
        for r in range(2)
        for k, (kind, given) in enumerate(
            [
                ("COMM_COLL_NODE", {"comm_type": "ALL_REDUCE", "comm_bytes": 1 << 20}),
                ("COMP_NODE", {"duration_us": 4}),
                ("COMP_NODE", {"duration_us": 6}),
            ]
        )
    ]
    result = replay(prepare(trace, Network(npus_per_dim=(2,)), {}))
    talk = result.ranks["comm_cycles"][0]
    assert result.ranks["gpu_cycles"].tolist() == [10_000, 10_000]
    assert result.ranks["cycles"][0] == max(talk, 10_000)


def test_roofline_and_union() -> None:
    assert roofline_ns(1e12, 1e6, 3.35e12, 1e15) == 1_000_000  # compute bound: 1e12 / 1e15 s
    assert roofline_ns(1e6, 3.35e9, 3.35e12, 1e15) == 1_000_000  # memory bound: 3.35e9 bytes / 3.35e12 bytes/s
    assert union_cycles(pd.Series([0, 5, 20]).to_numpy(), pd.Series([10, 12, 30]).to_numpy()) == 22


@pytest.mark.parametrize(
    ("trace", "groups", "message"),
    [
        ([node(0, 1, "COMP_NODE", waits_for=(2,)), node(0, 2, "COMP_NODE", waits_for=(1,))], {}, "form a cycle"),
        ([node(0, 1, "COMP_NODE", waits_for=(9,))], {}, "waits for node 9"),
        ([node(0, 1, "COMM_COLL_NODE", comm_type="ALL_REDUCE", comm_bytes=8, group="3")], {}, "group 3 is not among"),
        ([node(0, 1, "COMM_COLL_NODE", comm_type="ALL_REDUCE", comm_bytes=8, group="3")], {"3": (1, 2)}, "not in group 3"),
        ([node(0, 1, "COMM_COLL_NODE", comm_type="ALL_REDUCE", comm_bytes=8, group="3")], {"3": (0, 99)}, "has rank 99"),
        ([node(0, 1, "COMM_COLL_NODE", comm_type="ALL_REDUCE")], {}, "at least 1 byte"),
        ([node(0, 1, "COMM_COLL_NODE", comm_type="BARRIER", comm_bytes=8)], {}, "expected one of"),
        ([node(r, 1, "COMM_RECV_NODE", comm_bytes=8, source=(r + 1) % 8) for r in range(8)], {}, "never sends"),
        ([node(0, 1, "MEM_LOAD_NODE")], {}, "expected one of"),
        ([node(0, 1, "COMP_NODE"), node(0, 1, "COMP_NODE")], {}, "twice"),
        ([node(0, 1, "COMP_NODE"), node(5, 1, "COMP_NODE")], {}, "expected the ranks"),
        ([], {}, "expected the ranks"),
    ],
)
def test_bad_traces_have_one_clear_error(trace: list[Node], groups: dict, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        prepare(trace, Network(), groups)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("algorithm", "collective", "size", "message"),
    [
        ("halvingDoubling", "ALL_TO_ALL", 1 << 20, "no all-to-all"),
        ("doubleBinaryTree", "ALL_GATHER", 1 << 20, "is an all-reduce"),
        ("ring", "ALL_GATHER", 3, "fewer bytes than chunks"),
    ],
)
def test_collectives_that_the_tool_cannot_run(algorithm: str, collective: str, size: int, message: str) -> None:
    trace = [node(0, 1, "COMM_COLL_NODE", comm_type=collective, comm_bytes=size)]
    with pytest.raises(InputError, match=message):
        prepare(trace, Network(algorithm_per_dim=(algorithm,)), {})


def test_ranks_that_disagree_stall() -> None:
    trace = [node(0, 1, "COMM_COLL_NODE", comm_type="ALL_REDUCE", comm_bytes=1 << 20), node(1, 1, "COMP_NODE")]
    with pytest.raises(InputError, match="stalls"):
        replay(prepare(trace, Network(npus_per_dim=(2,)), {}))
