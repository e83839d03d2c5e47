"""Every reader of files that a stranger may give, with valid files to begin with."""

from __future__ import annotations

import io
import pickle
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from analysis.paths import DATA

ROOT = Path(__file__).resolve().parents[2]
RECORDED = DATA / "recorded"
FILES = ROOT / "tests" / "accelerators" / "files"

SERVING = b"""requests:
  count: 50
  arrivals: {kind: gamma, rate_per_s: 5.0, cv: 2.0}
  prompt: {kind: zipf, low: 10, high: 400}
  output: {kind: uniform, low: 1, high: 20}
scheduler: sarathi
limits: {chunk: 256}
steps: {kind: roofline, model: llama-2-7b, device: A100-SXM4-80GB}
replicas: 2
routing: least_work
slo: {ttft_s: 0.2}
"""
TRAINING = b"""model: llama-2-7b
system: HGX-H100
plan: {tensor_parallel: 2, pipeline_parallel: 2, data_parallel: 2, global_batch: 64, sequence_length: 2048}
"""
NETWORK = b"""topology: Ring+Switch
backend: analytical-unaware
npus_per_dim: 4x2
bandwidth_GBps: 50x25
latency_ns: [500, 500]
local_mem_bw_GBps: 1600
"""
CFG = b"""[general]
run_name = a
[architecture_presets]
ArrayHeight: 8
ArrayWidth: 8
IfmapSramSzkB: 1
FilterSramSzkB: 1
OfmapSramSzkB: 1
Dataflow: os
Bandwidth: 10
[run_presets]
InterfaceBandwidth: USER
"""
TOPOLOGY = b"layer,h,w,fh,fw,c,f,s\nConv1,224,224,7,7,3,64,2,\nDPConv2,56,56,3,3,64,64,1,\n"
SYSTEM = b"""{"scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 2, "preferred-dataset-splits": 4,
"all-reduce-implementation": ["ring"], "all-gather-implementation": ["ring"], "reduce-scatter-implementation": ["ring"],
"all-to-all-implementation": ["ring"], "collective-optimization": "localBWAware", "local-mem-bw": 3350, "roofline-enabled": 1,
"peak-perf": 989}"""
LAYER = b"name: conv\nN: 1\nC: 64\nM: 64\nP: 56\nQ: 56\nR: 3\nS: 3\nstride: [2, 1]\ndilation: 1\n"
NATIVE_NETWORK = b"topology: [Ring]\nnpus_count: [4]\nbandwidth: [50.0]\nlatency: [500.0]\n"


def _head(path: Path, lines: int) -> bytes:
    return b"".join(path.open("rb").readlines()[:lines])


def _trace() -> bytes:
    from cores.toy_traces import toy_trace

    from analysis.cores.riscv.trace import write_trace

    with tempfile.TemporaryDirectory() as folder:
        write_trace(toy_trace(40, seed=1), Path(folder) / "t.npz")
        return (Path(folder) / "t.npz").read_bytes()


def _torch() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps({"a": [1, 2.5, "x"], "b": {}}, protocol=2))
    return stream.getvalue()


def readers() -> dict[str, tuple[list[bytes], Callable[[Path], Any]]]:
    """Reader by name: valid contents, and what reads a file of that kind."""
    import pandas as pd

    from analysis.accelerators.loopnest.architecture import read_architecture
    from analysis.accelerators.loopnest.layer import read_layer
    from analysis.accelerators.systolic.files import read_design, read_topology
    from analysis.accelerators.timeloop.architecture import read_design as read_timeloop_design
    from analysis.accelerators.timeloop.files import read_problem
    from analysis.accelerators.timeloop.yaml_tree import File, is_native
    from analysis.claims.check_files import read_checks
    from analysis.claims.ledger import read_ledger
    from analysis.configs import read_yaml
    from analysis.cores.riscv.elf import read_elf
    from analysis.cores.riscv.trace import read_trace
    from analysis.cores.timing.designs import load_design
    from analysis.hardware.devices import DeviceFile
    from analysis.hardware.systems import SystemFile
    from analysis.mtap.evidence import read_evidence
    from analysis.mtap.rubric import read_rubric, read_weights
    from analysis.networks.case_table import parse_case
    from analysis.networks.native import read_native
    from analysis.networks.network_file import read_network
    from analysis.networks.trace import read_groups, read_nodes
    from analysis.publishing.fetching.torch_file import read_torch
    from analysis.serving.configuration import read_configuration
    from analysis.serving.requests import read_requests
    from analysis.serving.vidur.config import read_vidur
    from analysis.survey.bibliography import load_bibliography
    from analysis.tables import read_csv
    from analysis.training.plan import Training
    from analysis.workloads.chakra.traces import read_rank
    from analysis.workloads.transformers import TransformerFile

    def checks(path: Path) -> Any:
        return read_checks(path.parent)

    def collectives(path: Path) -> Any:
        frame = read_csv(path, dtype=str, keep_default_na=False)
        return [parse_case(_Row(row), path=path, line=2) for row in frame.to_dict("records")]

    def system(path: Path) -> Any:
        network = path.with_name("network.yml")
        network.write_bytes(NATIVE_NETWORK)
        try:
            return read_native(network, path)
        finally:
            network.unlink()

    def serving(path: Path) -> Any:
        found = read_configuration(path)
        return found.limits()

    first_checks = sorted((DATA / "claims" / "checks").glob("*.yaml"))[0]
    devices = sorted((DATA / "hardware" / "devices").glob("*.yaml")) or sorted((DATA / "hardware").glob("*device*.yaml"))
    gpt = RECORDED / "astra-sim" / "gpt_tp4dp2"
    timeloop = [path.read_bytes() for path in sorted(FILES.glob("timeloop*.yaml"))]
    loopnest = [(RECORDED / "timeloop" / "architecture.yaml").read_bytes(), *timeloop]
    return {
        "core design": ([path.read_bytes() for path in sorted((DATA / "cores" / "designs").glob("*.yaml"))], load_design),
        "serving": ([SERVING], serving),
        "VIDUR JSON": ([path.read_bytes() for path in sorted((RECORDED / "vidur" / "configs").glob("*.json"))], read_vidur),
        "serving requests": ([b"request_id,arrived_at,num_prefill_tokens,num_decode_tokens\n0,0,10,5\n1,1.5,20,1\n"], read_requests),
        "training": ([TRAINING], lambda path: read_yaml(path, Training)),
        "devices": ([path.read_bytes() for path in devices[:3]], lambda path: read_yaml(path, DeviceFile)),
        "systems": ([(DATA / "hardware" / "systems.yaml").read_bytes()], lambda path: read_yaml(path, SystemFile)),
        "transformers": ([_head(DATA / "workloads" / "transformers.yaml", 40)], lambda path: read_yaml(path, TransformerFile)),
        "MTAP evidence": ([path.read_bytes() for path in sorted((DATA / "mtap" / "evidence").glob("*.yaml"))], read_evidence),
        "MTAP rubric": ([(DATA / "mtap" / "rubric.yaml").read_bytes()], read_rubric),
        "MTAP weights": ([(DATA / "mtap" / "weights.yaml").read_bytes()], read_weights),
        "claims checks": ([first_checks.read_bytes()], checks),
        "claims ledger": ([_head(DATA / "claims" / "ledger.csv", 20)], read_ledger),
        "network": ([NETWORK], read_network),
        "ASTRA-sim system": ([SYSTEM], system),
        "process groups": ([(gpt / "comm_groups.json").read_bytes()], read_groups),
        "trace nodes": ([_head(gpt / "nodes.csv", 20)], read_nodes),
        "Chakra trace": ([(gpt / "gpt.0.et").read_bytes()], lambda path: read_rank(path, 0)),
        "collectives": ([_head(RECORDED / "astra-sim" / "collectives.csv", 5)], collectives),
        "SCALE-Sim cfg": ([CFG], read_design),
        "SCALE-Sim topology": ([TOPOLOGY], read_topology),
        "Timeloop problem": (timeloop, read_problem),
        "Timeloop design": (timeloop, lambda path: read_timeloop_design(File(path), File(FILES / "timeloop_eyeriss_ert.yaml"))),
        "Timeloop or ours": (loopnest, is_native),
        "loop-nest design": (loopnest, read_architecture),
        "loop-nest layer": ([LAYER, *timeloop], read_layer),
        "bibliography": ([b"\n}\n".join((ROOT / "bib" / "references.bib").read_bytes().split(b"\n}\n")[:4]) + b"\n}\n"], load_bibliography),
        "PyTorch file": ([_torch()], read_torch),
        "core trace": ([_trace()], read_trace),
        "RISC-V executable": ([(DATA / "cores" / "programs" / "chase.elf").read_bytes()[:200_000]], read_elf),
        "table": (
            [_head(RECORDED / "astra-sim" / "collectives.csv", 5)],
            lambda path: pd.DataFrame(read_csv(path, required=["collective"])),
        ),
    }


class _Row(dict[str, str]):
    """A row of text in which a missing column is an empty cell."""

    def __missing__(self, key: str) -> str:
        return ""
