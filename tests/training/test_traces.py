"""A training step as Chakra traces: bytes by hand, the schedule on a network that takes no time, the predictor's time of collectives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.networks.collective_time import collective_s
from analysis.networks.network_file import read_network
from analysis.networks.replay import Replay, prepare, replay
from analysis.studies.training import schedule
from analysis.training import views
from analysis.training.cases import Cases
from analysis.training.config import Training, row_of
from analysis.training.traces import step_nodes
from analysis.training.views import Answer, forward_share, stage_s
from analysis.training.work import parts, system_of
from analysis.workloads.chakra.node import Node
from analysis.workloads.chakra.rescale import rescaled
from analysis.workloads.chakra.traces import read_trace, write_trace

PLAN = "tensor_parallel: 2, pipeline_parallel: 2, data_parallel: 2, global_batch: 16, microbatch: 1, sequence_length: 4096"
NETWORK = """backend: Congestion_Unaware
topology: Switch
npus_per_dim: {gpus}
bandwidth_gib_per_s: {gib}
latency_ns: {latency}
local_mem_bw_GBps: 1.0e+9
"""


def answer(folder: Path, plan: str = PLAN, more: str = "") -> Answer:
    path = folder / "t.yaml"
    path.write_text(f"model: llama-2-7b\nsystem: DGX-H100\nplan: {{{plan}}}\n{more}")
    return views.ask(row_of(read_yaml(path, Training)))


def replayed(folder: Path, nodes: list[Node], groups: dict[str, tuple[int, ...]], gib: float, latency: int = 1) -> Replay:
    ranks = 1 + max(node.rank for node in nodes)
    path = folder / "network.yaml"
    path.write_text(NETWORK.format(gpus=ranks, gib=gib, latency=latency))
    network, peak, _ = read_network(path)
    return replay(prepare(nodes, network, groups, peak, None, path), path)


def test_collectives_move_what_megatron_s_layout_says(tmp_path: Path) -> None:
    """By hand: 8 microbatches of 4,096 tokens x 4,096 x 2 B pass 16 blocks of a stage, two gathers and two scatters each, both ways."""
    nodes, groups = step_nodes(answer(tmp_path))
    boundary = 2 * 4096 * 4096
    own = [node for node in nodes if node.rank == 0]
    moved = Counter((node.comm_type, node.comm_bytes, groups[node.group]) for node in own if node.type == "COMM_COLL_NODE")
    tensor = {key: count for key, count in moved.items() if key[2] == (0, 1)}
    assert tensor == {("ALL_GATHER", boundary // 2, (0, 1)): 512, ("REDUCE_SCATTER", boundary, (0, 1)): 512}
    # weights of half a stage with the embedding: (6,738,415,616 - 2 x 32,000 x 4,096) / 2 stages and one embedding, over 2 GPUs
    weights = (6_738_415_616 - 2 * 32_000 * 4096) / 2 + 32_000 * 4096
    (reduced,) = [key for key in moved if key[0] == "REDUCE_SCATTER" and key[2] == (0, 2)]
    (gathered,) = [key for key in moved if key[0] == "ALL_GATHER" and key[2] == (0, 2)]
    assert reduced[1] / 4 == pytest.approx(weights / 2, rel=1e-3) and gathered[1] * 2 / 2 == pytest.approx(weights / 2, rel=1e-3)
    sent = [node for node in own if node.type == "COMM_SEND_NODE"]
    assert {(node.destination, node.comm_bytes) for node in sent} == {(4, boundary // 2)} and len(sent) == 8
    received = {(node.source, node.destination, node.tag) for node in nodes if node.type == "COMM_RECV_NODE"}
    assert received == {(node.source, node.destination, node.tag) for node in nodes if node.type == "COMM_SEND_NODE"}


@pytest.mark.parametrize("more", ["", ", interleave: 2"])
def test_on_a_network_that_takes_no_time_the_schedule_remains(tmp_path: Path, more: str) -> None:
    found = answer(tmp_path, PLAN + more)
    result = replayed(tmp_path, *step_nodes(found), 1e6)
    time_s = found.time_s | {"communication": 0.0}
    passes = stage_s(time_s, found.case, float(forward_share([found.case])[0]))
    expected = schedule.makespan_s(schedule.simulate(*passes, 8, found.case.virtual)) + time_s["optimizer"]
    assert max(result.ranks["cycles"]) / 1e9 == pytest.approx(expected, rel=2e-3)


def test_the_replay_of_collectives_is_the_predictor_s_time_of_them(tmp_path: Path) -> None:
    """Each collective of the trace as the predictor times it; and replayed at the rate that one of them has by it, start-up included."""
    found = answer(tmp_path, "tensor_parallel: 2, global_batch: 4, microbatch: 1, sequence_length: 4096")
    work = parts([found.case])
    raw = float(found.case.microbatches * (work.tensor + work.tensor_back)[0])
    nodes, groups = step_nodes(found)
    machine = system_of(found.case.machine)
    kinds = {"ALL_GATHER": ("all_gather", 2), "REDUCE_SCATTER": ("reduce_scatter", 1)}
    own = [kinds[node.comm_type] + (node.comm_bytes,) for node in nodes if node.rank == 0 and node.comm_type]
    assert sum(collective_s(kind, whole * size, 2, machine) for kind, whole, size in own) == pytest.approx(raw, rel=1e-6)
    rate = 4096 * 4096 * len(own) / raw  # of two, each sends half of a boundary's 2 x 4,096 x 4,096 bytes
    result = replayed(tmp_path, nodes, groups, rate / 2**30)
    assert max(result.ranks["comm_cycles"]) / 1e9 == pytest.approx(raw, rel=0.02)
    assert max(result.ranks["gpu_cycles"]) / 1e9 == pytest.approx(sum(found.time_s.values()) - found.time_s["communication"], rel=2e-3)


def test_sharded_weights_are_gathered_beside_the_work(tmp_path: Path) -> None:
    found = answer(tmp_path, "data_parallel: 8, global_batch: 8, microbatch: 1, sequence_length: 4096", "program: fsdp\n")
    nodes, groups = step_nodes(found)
    own = [node for node in nodes if node.rank == 3 and node.type == "COMM_COLL_NODE"]
    of = Cases.of([found.case])
    gathered = sum(node.comm_bytes for node in own if node.comm_type == "ALL_GATHER") * 8
    assert gathered == pytest.approx(2 * 2.0 * 6.738e9, rel=0.05)  # twice, in 16 bits; the root's own once
    assert not groups and of.gpus[0] == 8
    fast, slow = (replayed(tmp_path, nodes, groups, gib) for gib in (1e6, 400.0))
    assert max(slow.ranks["comm_cycles"]) > 5 * max(slow.ranks["exposed_comm_cycles"])
    assert max(slow.ranks["cycles"]) < 1.2 * max(fast.ranks["cycles"])


def test_tokens_go_to_their_experts_and_back(tmp_path: Path) -> None:
    """Mixtral 8x7B by hand: 4,096 tokens x 4,096 x 2 B to 2 experts each, 32 layers, there and back, both passes of 2 microbatches."""
    plan = "data_parallel: 8, expert_parallel: 4, global_batch: 16, microbatch: 1, sequence_length: 4096"
    path = tmp_path / "m.yaml"
    path.write_text(f"model: mixtral-8x7b\nsystem: DGX-H100\nplan: {{{plan}}}\nprogram: megatron\n")
    found = views.ask(row_of(read_yaml(path, Training)))
    nodes, groups = step_nodes(found)
    moved = Counter((node.comm_bytes, groups[node.group]) for node in nodes if node.rank == 6 and node.comm_type == "ALL_TO_ALL")
    copies = 2 if found.case.recipe.dispatcher != "flex" else 4 * (1 - (3 / 4) ** 2)
    assert moved == {(round(4096 * 4096 * 2 * copies), (4, 5, 6, 7)): 32 * 2 * 2 * 2}
    replicas = {groups[node.group] for node in nodes if node.rank == 6 and node.group and node.comm_type != "ALL_TO_ALL"}
    assert replicas == {(2, 6)}  # of the same experts; everything else is reduced over all
    fast, slow = (max(replayed(tmp_path, nodes, groups, gib).ranks["cycles"]) for gib in (1e6, 100.0))
    assert slow > fast


def test_files_are_read_again_and_what_is_not_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(tmp_path)
    nodes, groups = step_nodes(found)
    files = write_trace(nodes, tmp_path, "step", groups)
    again = read_trace(files[0])
    assert [(n.rank, n.node_id, n.type, n.comm_bytes, n.waits_for, n.duration_us, n.tag, n.group) for n in again] == [
        (n.rank, n.node_id, n.type, n.comm_bytes, n.waits_for, n.duration_us, n.tag, n.group) for n in nodes
    ]
    assert main(["train", str(tmp_path / "t.yaml"), "--trace", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "t.7.et").read_bytes() == files[7].read_bytes()
    with pytest.raises(InputError, match=r"holds t\.\d\.et, of a trace with more ranks"):
        write_trace([node for node in nodes if node.rank < 4], tmp_path / "out", "t", {})
    (tmp_path / "network.yaml").write_text(NETWORK.format(gpus=8, gib=400, latency=500) + "groups: out/t.groups.json\n")
    arguments = ["replay", str(tmp_path / "out" / "t.0.et"), "--network", str(tmp_path / "network.yaml"), "--out", str(tmp_path / "w.csv")]
    assert main(arguments) == 0
    capsys.readouterr()
    with pytest.raises(InputError, match="traces of context parallelism are not written"):
        step_nodes(answer(tmp_path, PLAN.replace("data_parallel", "context_parallel")))
    assert main(["train", str(tmp_path / "t.yaml"), "--trace", str(tmp_path / "no"), "--out", str(tmp_path / "no.json")]) == 2
    assert "t.yaml: plan: traces of" in capsys.readouterr().err and not (tmp_path / "no.json").exists()
    with pytest.raises(InputError, match="a trace of about"):
        step_nodes(answer(tmp_path, PLAN.replace("data_parallel: 2", "data_parallel: 512").replace("16", "16384")))


def test_a_trace_for_twice_the_replicas_is_the_one_that_the_plan_gives(tmp_path: Path) -> None:
    """Two against four data-parallel replicas of two tensor-parallel GPUs, four microbatches each: the same messages in the same groups."""
    plans = [f"tensor_parallel: 2, data_parallel: {d}, global_batch: {4 * d}, microbatch: 1, sequence_length: 4096" for d in (2, 4)]
    two, four = (step_nodes(answer(tmp_path, plan, more="program: megatron\n")) for plan in plans)
    grown = [name for name, group in two[1].items() if group[1] - group[0] > 1]
    nodes, groups = rescaled(*two, 8, grown)

    def moved(nodes: list[Node], groups: dict[str, tuple[int, ...]]) -> Counter:  # type: ignore[type-arg]
        kept = [node for node in nodes if node.type == "COMM_COLL_NODE"]
        return Counter((node.rank, node.comm_type, round(node.comm_bytes, -4), tuple(sorted(groups[node.group]))) for node in kept)

    assert moved(nodes, groups) == moved(*four)
    found, expected = (max(replayed(tmp_path, *one, 400.0).ranks["cycles"]) for one in ((nodes, groups), four))
    assert found == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("ranks", "grown", "message"),
    [
        (6, ["1"], "expected a multiple of the trace's 4"),
        (8, ["9"], "no group '9'; the trace has all, 1"),
        (8, [], "say which groups are data parallel"),
        (4_000_000, ["1"], "at most 2,000,000"),
    ],
)
def test_what_a_trace_cannot_be_rescaled_to_is_refused(tmp_path: Path, ranks: int, grown: list[str], message: str) -> None:
    plan = "tensor_parallel: 2, data_parallel: 2, global_batch: 4, microbatch: 1, sequence_length: 4096"
    with pytest.raises(InputError, match=message):
        rescaled(*step_nodes(answer(tmp_path, plan)), ranks, grown)


def test_replay_at_other_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An all-reduce of a ring of 8 takes 2 x 7 / 8 of its bytes over a link, of 16 ranks 2 x 15 / 16."""
    rows = "".join(f"{r},1,g,COMM_COLL_NODE,,,ALL_REDUCE,1073741824\n" for r in range(8))
    (tmp_path / "n.csv").write_text(f"rank,node_id,name,type,data_deps,ctrl_deps,comm_type,comm_size\n{rows}")
    net = "backend: Congestion_Unaware\ntopology: Ring\nbandwidth_gib_per_s: 50\nlatency_ns: 0\nlocal_mem_bw_GBps: 1600\nnpus_per_dim: "
    cycles = []
    for ranks, more in ((8, []), (16, ["--ranks", "16", "--data-parallel", "all"])):
        (tmp_path / "net.yaml").write_text(f"{net}{ranks}\n")
        said = ["replay", str(tmp_path / "n.csv"), "--network", str(tmp_path / "net.yaml"), "--out", str(tmp_path / "o.csv")]
        assert main([*said, *more]) == 0
        cycles.append(int(capsys.readouterr().out.split(" ranks, ")[1].split()[0]))
    assert cycles[1] / cycles[0] == pytest.approx((15 / 16) / (7 / 8), rel=0.01)
