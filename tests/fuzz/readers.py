"""Every reader of files that a stranger may give, with valid files to begin with; and every command that takes a file, as a whole."""

from __future__ import annotations

import atexit
import contextlib
import gc
import gzip
import io
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.paths import DATA

ROOT = Path(__file__).resolve().parents[2]
RECORDED = DATA / "recorded"
FILES = ROOT / "tests" / "accelerators" / "files"
EXAMPLE = ROOT / "examples" / "loopnest"

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
CLUSTER = b"""model: llama-2-7b
system: HGX-H100
gpus: 8
global_batch: 16
sequence_length: 2048
tensor_parallel: [1, 2]
pipeline_parallel: [1, 2]
microbatch: [1]
zero: [0, 1]
recompute: [none]
"""
META = b"""{"model": "meta-llama/Llama-3.1-8B-Instruct", "engine_kwargs": {"tensor_parallel_size": 2, "data_parallel_size": 1,
"max_num_seqs": 128, "max_num_batched_tokens": 4096, "gpu_memory_utilization": 0.9, "block_size": 16}, "kv_cache": {"num_blocks": 2000}}"""
BURSTGPT = b"Timestamp,Session ID,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,s,GPT-4,9,5,14,c\n9,s,GPT-4,20,3,23,c\n"
SHAREGPT = (
    b'[{"id": "a", "conversations": [{"from": "human", "value": "how long are these six words"}, {"from": "gpt", "value": '
    b'"as long as a rule of thumb says"}]}, {"id": "b", "conversations": []}]'
)
MOONCAKE = b"""{"timestamp": 0, "input_length": 1100, "output_length": 10, "hash_ids": [1, 2, 3]}
{"timestamp": 3052, "input_length": 3180, "output_length": 8, "hash_ids": [1, 2, 4, 5, 6, 7, 8]}
"""
SITE = b"""name: ours
measured:
  time_us:
    factors: {on=A100-SXM4-80GB: 1.0, latency: 1.2, bandwidth: 0.95}
    spread: {latency: 0.37, bandwidth: 0.05}
    scale: 0.06
    learned: {on=A100-SXM4-80GB: [0.0], latency: [-0.3], bandwidth: [0.01]}
    weight: 0.8
    scale_without: 0.09
    points: 3
    model: DIGEST
    error_percent: [8.0, 4.5]
"""
STEPS = b"total_time_s,x\n0.01,1\n0.02,2\n0.0125,3\n"
NATIVE_NETWORK = b"topology: [Ring]\nnpus_count: [4]\nbandwidth: [50.0]\nlatency: [500.0]\n"


def _head(path: Path, lines: int) -> bytes:
    return b"".join(path.open("rb").readlines()[:lines])


def _entries(path: Path, number: int) -> bytes:
    """The first entries of a YAML mapping, whole."""
    return b"\n".join(re.split(rb"\n(?=[^\s#])", path.read_bytes())[:number]) + b"\n"


def _trace() -> bytes:
    from cores.toy_traces import toy_trace

    from analysis.studies.cores.trace_files import write_trace

    with tempfile.TemporaryDirectory() as folder:
        write_trace(toy_trace(40, seed=1), Path(folder) / "t.npz")
        return (Path(folder) / "t.npz").read_bytes()


@dataclass(frozen=True)
class Reader:
    """What reads a file.

    Args:
        bases: valid contents.
        read: takes the file's path; an `InputError` refuses it.
        file: name that the file is given: some readers look at its ending.
        starts: whether it may start processes, as the reader of StableHLO does.
    """

    bases: list[bytes]
    read: Callable[[Path], Any]
    file: str = "input.yaml"
    starts: bool = False


def programs() -> list[bytes]:
    """Small StableHLO programs: the tests' own, which hold what is odd, and small ones that JAX wrote."""
    from workloads import hlo_texts as texts

    odd = [
        texts.COLLECTIVES, texts.MESH_AXES, texts.GSPMD, texts.COUNTED_LOOP, texts.COMPOSITE, texts.STRANGE, texts.DYNAMIC, texts.REFINED,
        texts.QUANTISED, texts.CHECKED, texts.TOKENS, texts.EINSUM, texts.COMPLEX_CONSTANT,
    ]  # fmt: skip
    kept = DATA / "workloads" / "stablehlo"
    return [text.encode() for text in odd] + [gzip.decompress((kept / f"{name}.mlir.gz").read_bytes()) for name in ("gemm", "moe_block")]


def onnx_files() -> list[bytes]:
    """Small ONNX files: a transformer's export, a network of convolutions, operators with what is worked out before the run."""
    import onnx

    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    inside = ("light/light_squeezenet", "simple/test_shrink/model", "simple/test_gradient_of_add/model")
    kept = [(data / f"{each}.onnx").read_bytes() for each in inside]
    model = onnx.load_from_string(gzip.decompress((ROOT / "tests" / "workloads" / "onnx" / "bert_base.onnx.gz").read_bytes()))
    for given in model.graph.input:
        for dim, size in zip(given.type.tensor_type.shape.dim, (2, 16), strict=True):
            dim.dim_value = size
    del model.graph.node[60:]
    return [model.SerializeToString(), *kept]


def bytecode(text: bytes) -> bytes:
    """The same program as bytecode; the text where the parser does not take it."""
    from analysis.workloads.hlo import bindings

    made = bindings.context()
    try:
        module = bindings.parse(text, made)
    except bindings.ParseFailed:
        return text
    stream = io.BytesIO()
    with made:
        module.operation.write_bytecode(stream)
    return stream.getvalue()


SLOW = ("blocks.csv",)  # the fits of `blocks evaluate` take seconds; its reader is fed as `measured blocks`


def scratch() -> Path:
    """A folder for what else a reader needs, gone at the end."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def program(path: Path) -> Any:
    """A StableHLO program, read as `hlo cost` reads it; the child process is forked, not started, which takes a twentieth of the time."""
    from analysis.workloads.hlo import reader
    from tests.fuzz.forked import record

    return reader.graph(record(path), path.name)


def commands() -> dict[str, Reader]:
    """The examples of every command as it is run: one reader a command line and file that it names."""
    from analysis.__main__ import _run
    from analysis.errors import InputError

    def told(stream: io.TextIOWrapper) -> str:
        stream.seek(0)
        return (stream.read().splitlines() or [""])[-1]

    place = scratch()
    found: dict[str, Reader] = {}
    for listed in sorted((ROOT / "examples").glob("*/commands.txt")):
        beside = place / listed.parent.name
        shutil.copytree(listed.parent, beside)
        lines = listed.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            words = shlex.split(line)[1:]
            outs = {at + 1 for at, word in enumerate(words) if word == "--out"}
            later = {word for other in lines[number + 1 :] for word in shlex.split(other)}
            if any(words[at] in later and not (beside / words[at]).exists() for at in outs):  # a later line reads what this one writes
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    _run([str(beside / word) if at in outs or (beside / word).is_file() else word for at, word in enumerate(words)])
            for at, word in enumerate(words):
                if at in outs or not (beside / word).is_file() or word in SLOW:
                    continue

                def run(path: Path, words: list[str] = words, outs: set[int] = outs, at: int = at, beside: Path = beside) -> None:
                    folder = path.parent.parent / "out"
                    given = [
                        str(path) if i == at else str(folder / w) if i in outs else str(beside / w) if (beside / w).is_file() else w
                        for i, w in enumerate(words)
                    ]
                    said, wrong = io.TextIOWrapper(io.BytesIO(), write_through=True), io.TextIOWrapper(io.BytesIO(), write_through=True)
                    try:
                        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
                            status = _run(given)
                    finally:
                        for left in folder.iterdir():
                            shutil.rmtree(left) if left.is_dir() else left.unlink()
                        gc.collect()  # a command is its process's only one: what it leaves in cycles would otherwise add up
                    if status == 2:
                        raise InputError(told(wrong).replace(str(path), "FILE"))
                    if status not in (0, 1):
                        raise AssertionError(f"status {status}: {told(wrong)}")

                name = f"{' '.join(word for word in words[:2] if re.fullmatch('[a-z]+', word))} {word}"
                name = name if name not in found else f"{name} ({number + 1})"
                found[name] = Reader([(beside / word).read_bytes()], run, word, starts=listed.parent.name == "hlo")
    return found


def readers() -> dict[str, Reader]:
    """Reader by name."""
    import pandas as pd

    from analysis.accelerators.loopnest.architecture import read_architecture
    from analysis.accelerators.loopnest.layer import read_layer
    from analysis.accelerators.systolic.files import read_design, read_topology
    from analysis.accelerators.timeloop.architecture import read_design as read_timeloop_design
    from analysis.accelerators.timeloop.files import read_mapped, read_problem
    from analysis.accelerators.timeloop.yaml_tree import File, is_native
    from analysis.artifact.claims.check_files import read_checks
    from analysis.artifact.claims.findings import read_findings
    from analysis.artifact.claims.ledger import read_ledger
    from analysis.artifact.mtap.evidence import Evidence
    from analysis.artifact.mtap.rubric import Rubric, Weights
    from analysis.artifact.survey.bibliography import load_bibliography
    from analysis.case_files import answer_file
    from analysis.configs import read_yaml
    from analysis.cores.riscv.elf import read_elf
    from analysis.cores.timing.designs import load_design
    from analysis.hardware import own
    from analysis.hardware.devices import DeviceFile, load
    from analysis.hardware.systems import SystemFile
    from analysis.kernels import profiler_trace
    from analysis.networks.case_table import parse_case
    from analysis.networks.native import read_native
    from analysis.networks.network_file import read_network
    from analysis.networks.trace import read_groups, read_nodes
    from analysis.predict.logs.read import read as read_log
    from analysis.serving.points.request_answers import read_meta
    from analysis.serving.points.simulation import read_configuration
    from analysis.serving.requests import read_requests
    from analysis.serving.steps import read_recorded
    from analysis.serving.vidur import VidurConfig
    from analysis.site import digest, read_site
    from analysis.studies.cores.blocks import data as blocks_of
    from analysis.studies.cores.learning.model_files import read_trunk
    from analysis.studies.cores.system.sealed import read_key, seal, unseal
    from analysis.studies.cores.trace_files import read_trace
    from analysis.tables import read_csv
    from analysis.training.config import Cluster, Training
    from analysis.workloads.chakra.traces import read_rank
    from analysis.workloads.checkpoints import read_config
    from analysis.workloads.models import ModelFile
    from tests.checks.requirements import read_requirements

    def checks(path: Path) -> Any:
        return read_checks(path.parent)

    def cases(path: Path) -> Any:
        def answer(frame: pd.DataFrame) -> pd.DataFrame:
            return pd.DataFrame({"status": [""] * len(frame)})

        return answer_file(path, path.parent.parent / "out" / "answers.csv", answer)

    def collectives(path: Path) -> Any:
        frame = read_csv(path, dtype=str, keep_default_na=False)
        return [parse_case(_Row(row), path=path, line=2) for row in frame.to_dict("records")]

    place = scratch()
    network_yaml = place / "network.yml"
    network_yaml.write_bytes(NATIVE_NETWORK)
    (place / "trace.npz").write_bytes(_trace())
    seal(place / "trace.npz", place / "sealed", bytes(32))

    def machine(path: Path) -> Any:
        own.read(path)

    def blocks(path: Path) -> Any:
        frame = read_csv(path, required=blocks_of.REQUIRED)
        return [blocks_of.from_table(frame, core, path) for core in dict.fromkeys(frame["arch"])]

    def profile(path: Path) -> Any:
        return profiler_trace.kernels(profiler_trace.read(path), "H100-SXM5-80GB", path)

    def mapping(path: Path) -> Any:
        return read_mapped(EXAMPLE / "arch.yaml", EXAMPLE / "layer.yaml", path)

    def timeloop_mapping(path: Path) -> Any:
        return read_mapped(
            FILES / "timeloop_eyeriss_v03.yaml", FILES / "timeloop_reference_layer.yaml", path, ert=FILES / "timeloop_eyeriss_ert.yaml"
        )

    def serving(path: Path) -> Any:
        found = read_configuration(path)
        return found.limits()

    logs = ROOT / "tests" / "predict" / "logs"
    first_checks = sorted((DATA / "claims" / "checks").glob("*.yaml"))[0]
    devices = sorted((DATA / "hardware" / "devices").glob("*.yaml")) or sorted((DATA / "hardware").glob("*device*.yaml"))
    gpt = RECORDED / "astra-sim" / "gpt_tp4dp2"
    timeloop = [path.read_bytes() for path in sorted(FILES.glob("timeloop*.yaml"))]
    loopnest = [(RECORDED / "timeloop" / "architecture.yaml").read_bytes(), *timeloop]
    every = {
        "core design": ([path.read_bytes() for path in sorted((DATA / "cores" / "designs").glob("*.yaml"))], load_design),
        "serving": ([SERVING], serving),
        "VIDUR JSON": (
            [path.read_bytes() for path in sorted((RECORDED / "vidur" / "configs").glob("*.json"))],
            lambda path: read_yaml(path, VidurConfig),
        ),
        "hashed requests": ([MOONCAKE], read_requests),
        "conversations": ([SHAREGPT], lambda path: read_requests(path, lambda count: np.arange(float(count)), 1.3)),
        "serving requests": (
            [b"request_id,arrived_at,num_prefill_tokens,num_decode_tokens\n0,0,10,5\n1,1.5,20,1\n", BURSTGPT],
            read_requests,
        ),
        "training": ([TRAINING], lambda path: read_yaml(path, Training)),
        "devices": ([path.read_bytes() for path in devices[:3]], lambda path: read_yaml(path, DeviceFile)),
        "systems": ([(DATA / "hardware" / "systems.yaml").read_bytes()], lambda path: read_yaml(path, SystemFile)),
        "models": ([_head(DATA / "workloads" / "models.yaml", 30)], lambda path: read_yaml(path, ModelFile)),
        "config.json": ([path.read_bytes() for path in sorted((ROOT / "tests" / "workloads" / "configs").glob("*.json"))], read_config),
        "MTAP evidence": (
            [path.read_bytes() for path in sorted((DATA / "mtap" / "evidence").glob("*.yaml"))],
            lambda path: read_yaml(path, Evidence),
        ),
        "MTAP rubric": ([(DATA / "mtap" / "rubric.yaml").read_bytes()], lambda path: read_yaml(path, Rubric)),
        "MTAP weights": ([(DATA / "mtap" / "weights.yaml").read_bytes()], lambda path: read_yaml(path, Weights)),
        "claims checks": ([_entries(first_checks, 8)], checks),
        "claims ledger": ([_head(DATA / "claims" / "ledger.csv", 20)], read_ledger),
        "network": ([NETWORK], read_network),
        "ASTRA-sim system": ([SYSTEM], lambda path: read_native(network_yaml, path)),
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
        "core trace": ([_trace()], read_trace),
        "profiler trace": ([(ROOT / "examples" / "kernels" / "profile.json").read_bytes()], profile),
        "RISC-V executable": ([(DATA / "cores" / "programs" / "chase.elf").read_bytes()[:200_000]], read_elf),
        "table": (
            [_head(RECORDED / "astra-sim" / "collectives.csv", 5)],
            lambda path: pd.DataFrame(read_csv(path, required=["collective"])),
        ),
        "mapping": ([(EXAMPLE / "mapping.yaml").read_bytes()], mapping),
        "Timeloop mapping": ([(FILES / "timeloop_reference_mapping.yaml").read_bytes()], timeloop_mapping),
        "findings": ([_entries(DATA / "claims" / "findings.yaml", 5)], read_findings),
        "requirements": ([_head(DATA / "claims" / "requirements.csv", 12)], read_requirements),
        "cluster of plans": ([CLUSTER], lambda path: read_yaml(path, Cluster)),
        "engine settings": ([META], read_meta),
        "own machine": ([own.as_file(load(name)).encode() for name in ("H100-SXM5-80GB", "TPU-v5e", "MI300X")], machine),
        "recorded steps": ([STEPS], read_recorded),
        "network weights": ([(DATA / "models" / "neuroscalar" / "ours.safetensors").read_bytes()], read_trunk),
        "key": ([b"0" * 64 + b"\n", bytes(range(32))], read_key),
        "sealed trace": ([(place / "sealed").read_bytes()], lambda path: unseal(path, bytes(32))),
        "logs": ([path.read_bytes() for path in sorted(logs.glob("*.[ltj]*"))], read_log),
        "site": ([SITE.replace(b"DIGEST", digest("time_us").encode())], read_site),
        "measured blocks": ([(ROOT / "examples" / "blocks" / "blocks.csv").read_bytes()], blocks),
    }
    files = {
        "logs": "input.log",
        "hashed requests": "input.jsonl",
        "conversations": "input.json",
        "config.json": "config.json",
        "core trace": "input.npz",
        "sealed trace": "input.sealed",
        "Chakra trace": "input.0.et",
    }
    found = {name: Reader(bases, read, files.get(name, "input.yaml")) for name, (bases, read) in every.items()}
    training = ROOT / "examples" / "predict" / "training.csv"
    found["cases"] = Reader([training.read_bytes()], cases, "input.csv")
    found["packed cases"] = Reader([gzip.compress(training.read_bytes(), mtime=0)], cases, "input.csv.gz")
    parquet = [pd.read_csv(training).to_parquet(compression=packed) for packed in ("snappy", "zstd", None)]
    found["Parquet cases"] = Reader(parquet, cases, "input.parquet")
    found["packed table"] = Reader([gzip.compress(every["table"][0][0], mtime=0)], every["table"][1], "input.csv.gz")
    found["StableHLO text"] = Reader(programs(), program, "input.mlir", starts=True)
    found["ONNX"] = Reader(onnx_files(), program, "input.onnx", starts=True)
    found["StableHLO bytecode"] = Reader([bytecode(text) for text in programs()], program, "input.mlirbc", starts=True)
    return found


class _Row(dict[str, str]):
    """A row of text in which a missing column is an empty cell."""

    def __missing__(self, key: str) -> str:
        return ""
