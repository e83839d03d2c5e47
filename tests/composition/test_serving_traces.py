"""Steps of a served model as Chakra traces: collectives by hand, and on a network that takes no time the step's own kernels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.errors import InputError
from analysis.kernels.library import KernelLibrary
from analysis.networks.network_file import read_network
from analysis.networks.replay import prepare, replay
from analysis.serving.points import cases, traces
from analysis.serving.points.operators import PARTS
from analysis.serving.points.points import points
from analysis.serving.points.step_table import on_grid
from analysis.workloads.chakra.traces import read_trace

ROW = {
    "backend": "vllm",
    "model_path": "llama-3.1-70b",
    "system": "h100_sxm",
    "isl": "1024",
    "osl": "256",
    "batch_size": "16",
    "tp_size": "4",
}
ROW |= {"gemm_quant_mode": "fp8", "mode": "agg"}
MIXTURE = {"model_path": "deepseek-v3", "system": "h200_sxm", "tp_size": "1", "attention_dp_size": "8", "moe_tp_size": "1"}
MIXTURE |= {"moe_ep_size": "8", "batch_size": "4"}


def made(**asked: str) -> tuple[cases.Case, dict[str, traces.Trace], float]:
    """A case, its traces, and the seconds of its mean decode step without collectives."""
    case = cases.case({**ROW, **asked})
    raw = points([case], KernelLibrary.load())
    assert not raw.status[0]
    parts = on_grid(raw.tables[raw.table_of[0]], *raw.result[0, 4:6])
    return case, traces.steps(case, raw), float(parts.sum() - parts[PARTS.index("communication")] + raw.engines[0]["host_s"])


def makespan_s(folder: Path, trace: traces.Trace, gpus: int) -> float:
    path = folder / "network.yaml"
    path.write_text(
        f"backend: Congestion_Unaware\ntopology: Switch\nnpus_per_dim: {gpus}\nbandwidth_gib_per_s: 1.0e+6\nlatency_ns: 0\n"
        "local_mem_bw_GBps: 1.0e+9\n"
    )
    network, peak, _ = read_network(path)
    return float(max(replay(prepare(*[trace[0], network, trace[1], peak, None, path]), path).ranks["cycles"])) * 1e-9


def test_a_decode_step_has_the_all_reduces_of_tensor_parallelism(tmp_path: Path) -> None:
    """Llama 3.1 70B on 4 GPUs: two all-reduces in each of 80 blocks, of 2 x 8,192 bytes a sequence; the rest is the step's kernels."""
    _, found, seconds = made()
    nodes, groups = found["decode"]
    assert {node.rank for node in nodes} == {0, 1, 2, 3} and not groups
    own = [node for node in nodes if node.rank == 0]
    (kind, size), count = Counter((node.comm_type, node.comm_bytes) for node in own if node.type == "COMM_COLL_NODE").popitem()
    assert (kind, count) == ("ALL_REDUCE", 160) and 12 * 2 * 8192 < size <= 16 * 2 * 8192
    assert makespan_s(tmp_path, found["decode"], 4) == pytest.approx(seconds, rel=6e-3)
    (_, whole), _ = Counter((node.comm_type, node.comm_bytes) for node in found["prompt"][0] if node.comm_type).popitem()
    assert whole == 1024 * 2 * 8192


def test_experts_and_stages_have_groups_and_messages_of_their_own(tmp_path: Path) -> None:
    """DeepSeek-V3 with 8 attention ranks: a gather and a scatter in each of 58 layers of experts; a pipeline's stages send on."""
    _, found, seconds = made(**MIXTURE)
    own = Counter(node.comm_type for node in found["decode"][0] if node.rank == 5 and node.comm_type)
    assert own == {"ALL_GATHER": 58, "REDUCE_SCATTER": 58}
    assert makespan_s(tmp_path, found["decode"], 8) == pytest.approx(seconds, rel=6e-3)
    _, found, seconds = made(pp_size="2")
    nodes, groups = found["decode"]
    assert sorted(groups.values()) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    sent, received = (
        {(n.source, n.destination, n.tag, n.comm_bytes) for n in nodes if n.type == f"COMM_{way}_NODE"} for way in ("SEND", "RECV")
    )
    assert sent == received and {(one[0], one[1]) for one in sent} == {(0, 4), (1, 5), (2, 6), (3, 7)}
    assert makespan_s(tmp_path, found["decode"], 8) == pytest.approx(seconds, rel=6e-3)


def test_the_command_writes_both_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["predict", "one", "--model", "llama-3.1-8b", "--device", "h100", "--gpus", "2", "--clients", "4", "--output-tokens", "64"]
    assert main([*asked, "--json", "--trace", str(tmp_path / "t")]) == 0
    assert {len(read_trace(tmp_path / "t" / f"{name}.0.et")) for name in ("decode", "prompt")} == {2 * (1 + 32 * 5)}
    assert "without the fitted terms" in capsys.readouterr().err
    assert main([*asked, "--draft", "eagle", "--draft-tokens", "2", "--trace", str(tmp_path / "no")]) == 2
    assert "draft: traces of steps with drafts" in capsys.readouterr().err and not (tmp_path / "no").exists()
    with pytest.raises(InputError, match="workers for prompts alone"):
        both = {
            f"{side}_{key}": value
            for side in ("prefill", "decode")
            for key, value in (("tp_size", "4"), ("batch_size", "8"), ("num_workers", "1"))
        }
        made(mode="disagg", **both)
