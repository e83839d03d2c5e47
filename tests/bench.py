"""Target speeds, compared with CPU-seconds measured on this machine: `python -m tests.bench [GROUP]` measures the rows of one table."""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.paths import DATA, EXAMPLES, ROOT

TARGETS = DATA / "evaluation" / "speed_targets.csv"


@dataclass(frozen=True)
class Benchmark:
    """One promised figure.

    Attributes:
        group: what `bench GROUP` selects.
        name: what is measured.
        run: measures it and returns the figure, in `unit`.
        target: the promised value; direction: "min" when the figure must be at least the target, "max" when at most.
        note: what is left out of the measurement, and what it is compared with.
    """

    group: str
    name: str
    run: Callable[[], float]
    unit: str
    target: float
    direction: Literal["min", "max"]
    note: str = ""


def cpu_s(work: Callable[[], object], repeats: int = 1, warm: bool = False) -> float:
    """Least CPU-seconds of some runs; `warm`: after one more, which compiles."""
    least = float("inf")
    if warm:
        work()
    for _ in range(repeats):
        start = time.process_time()
        work()
        least = min(least, time.process_time() - start)
    return least


def command_cpu_s(arguments: Sequence[str], compiled: Path, folder: Path = ROOT) -> float:
    """CPU-seconds of one of this project's commands in a process of its own, with its compiled code in a folder."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(compiled), "PYTHONPATH": str(ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "analysis", *arguments]
    subprocess.run(command, check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# Commands: the first answer of every line of the examples ------------------------------------------------------------------------------


def example_cpu_s(example: str, number: int) -> float:
    """CPU-seconds of one line of an example's `commands.txt` with nothing compiled; the lines before it run first, uncounted."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / example
        shutil.copytree(EXAMPLES / example, place)
        lines = (place / "commands.txt").read_text(encoding="utf-8").splitlines()[: number + 1]
        return [command_cpu_s(shlex.split(line)[1:], Path(folder) / f"compiled{at}", place) for at, line in enumerate(lines)][-1]


def _examples() -> list[Benchmark]:
    return [
        Benchmark(
            "first_answers",
            " ".join(shlex.split(line)[1:4]),
            partial(example_cpu_s, listed.parent.name, number),
            "CPU-s",
            3,
            "max",
            line,
        )
        for listed in sorted(EXAMPLES.glob("*/commands.txt"))
        for number, line in enumerate(listed.read_text(encoding="utf-8").splitlines())
    ]


# Files of cases ------------------------------------------------------------------------------------------------------------------------


def many_kernels(n: int, seed: int = 0) -> pd.DataFrame:
    """Random cases of all operators on five devices, with NeuSight's columns."""
    from analysis.kernels.fp32.cases import DIMENSIONS, OPS

    rng = np.random.default_rng(seed)
    op = np.array(OPS)[rng.integers(0, len(OPS), n)]
    frame = pd.DataFrame({"op": op})
    for name in ("B", "M", "N", "K", "H"):
        used = np.isin(op, [key for key, names in DIMENSIONS.items() if name in names])
        frame[name] = np.where(used, np.floor(2 ** rng.uniform(3, 13, n)), np.nan)
    names = ["NVIDIA A100 80GB PCIe", "NVIDIA H100 80GB HBM3", "NVIDIA L4", "Tesla T4", "AMD Instinct MI210"]
    return frame.assign(device=np.array(names)[rng.integers(0, len(names), n)])


def many_gemms(n: int, seed: int = 0) -> pd.DataFrame:
    """Different products and attention of today's number types on six GPUs, timed and not."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"op": np.where(rng.random(n) < 0.7, "gemm", "attention_decode")})
    gemm = (frame["op"] == "gemm").to_numpy()
    sizes = {name: np.floor(2 ** rng.uniform(4, 14, n)).astype(int) for name in ("M", "N", "K", "batch", "kv_tokens")}
    sizes |= {"kv_heads": 2 ** rng.integers(0, 4, n), "head_size": np.full(n, 128)}
    sizes |= {"query_heads": sizes["kv_heads"] * 8, "batch": 1 + sizes["batch"] // 64}
    cells = {name: np.where(gemm == (name in "MNK"), values.astype(str), "") for name, values in sizes.items()}
    names = np.array(["h100", "a100", "B200", "H200", "L40S", "L4"])
    return frame.assign(**cells, device=names[rng.integers(0, 6, n)], dtype="bf16")


def many_collectives(n: int, seed: int = 0) -> pd.DataFrame:
    """Different collectives of one to three dimensions, by closed form."""
    rng = np.random.default_rng(seed)
    shapes = (("Ring", "8", "ring"), ("Switch", "16", "direct"), ("Ring+Switch", "4x8", "ring+ring"),
              ("Ring+FullyConnected+Switch", "2x4x8", "ring+direct+direct"))  # fmt: skip
    which = rng.integers(0, len(shapes), n)
    columns = {name: np.array([shape[at] for shape in shapes])[which] for at, name in enumerate(NETWORK)}
    many = np.array([len(shape[1].split("x")) for shape in shapes])[which]
    link = {"bandwidth_gib_per_s": np.round(rng.uniform(20, 900, (n, 3)), 1), "latency_ns": rng.integers(50, 2000, (n, 3))}
    cells = {name: ["x".join(map(str, row[:k])) for row, k in zip(values.tolist(), many, strict=True)] for name, values in link.items()}
    kinds = np.array(["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])[rng.integers(0, 4, n)]
    frame = pd.DataFrame({"backend": "Congestion_Unaware", "collective": kinds, "size_bytes": rng.integers(1 << 10, 1 << 32, n)})
    return frame.assign(**columns, **cells)


NETWORK = ("topology", "npus_per_dim", "algorithm_per_dim")


def many_products(n: int, seed: int = 0) -> pd.DataFrame:
    """Different matrix products on systolic arrays."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: np.floor(2 ** rng.uniform(0, 14, n)).astype(int) for name in "MNK"})
    sides = {name: 2 ** rng.integers(3, 9, n) for name in ("array_rows", "array_cols")}
    return frame.assign(**sides, dataflow=np.array(["os", "ws", "is"])[rng.integers(0, 3, n)])


def many_steps(n: int, seed: int = 0) -> pd.DataFrame:
    """Different training runs: models, devices and plans drawn, batches that divide; about one in five is refused (heads, no FP8)."""
    rng, drawn = np.random.default_rng(seed), round(1.6 * n)
    models = ["llama-3-70b", "llama-3-8b", "llama-2-7b", "gpt3-175b", "mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b", "gpt2-xl"]
    texts = {
        "model": models, "device": ["H100", "A100", "H200", "B200", "GB200"], "precision": ["bf16", "fp8"],
        "recompute": ["none", "full", "selective", ""], "zero": ["", "1", "3"],
    }  # fmt: skip
    frame = pd.DataFrame({name: rng.choice(np.array(values, dtype=object), drawn) for name, values in texts.items()})
    ways = {name: 2 ** rng.integers(0, 4, drawn) for name in ("tensor_parallel", "pipeline_parallel")}
    data, micro, microbatches = (2 ** rng.integers(0, most, drawn) for most in (6, 3, 6))
    frame = frame.assign(**ways, gpus=data * ways["tensor_parallel"] * ways["pipeline_parallel"], micro_batch=micro)
    frame = frame.assign(global_batch=micro * data * microbatches, sequence_length=2 ** rng.integers(11, 15, drawn))
    return frame.drop_duplicates().head(n)


def million(command: str) -> float:
    """CPU-seconds from a CSV of a million different cases to the CSV of answers, all that is loaded once loaded before by a thousand."""
    from analysis.accelerators.systolic.cases import predict_cases
    from analysis.case_files import answer_file
    from analysis.kernels.cases import answers as kernels
    from analysis.networks.case_table import answer_cases as collectives
    from analysis.training.answers import answers as training

    makers: dict[str, Any] = {
        "kernels predict, fp32": (many_kernels, kernels),
        "kernels predict": (many_gemms, kernels),
        "collectives": (many_collectives, collectives),
        "systolic": (many_products, predict_cases),
        "predict training": (many_steps, training),
    }
    make, answer = makers[command]
    with tempfile.TemporaryDirectory() as folder:
        few, many, out = (Path(folder) / name for name in ("few.csv", "many.csv", "out.csv"))
        make(1000).to_csv(few, index=False)
        make(1_000_000).to_csv(many, index=False)
        answer_file(few, out, answer, beside=make is many_steps)
        return cpu_s(lambda: answer_file(many, out, answer, beside=make is many_steps))


# StableHLO -----------------------------------------------------------------------------------------------------------------------------

PROGRAM = "llama2_7b_train_unrolled"
_READ = """
import gc, json, sys, time
from analysis.workloads.hlo import bindings as hlo_bindings, child as hlo_child
content = open(sys.argv[1], "rb").read()
hlo_bindings.plain_operations()
gc.disable()
before = time.process_time()
record = hlo_child.read(content, None)
text = json.dumps(record, separators=(",", ":"))
after = time.process_time()
count = 0
def visit(operation):
    global count
    count += 1
    return hlo_bindings.ir.WalkResult.ADVANCE
hlo_bindings.parse(content, hlo_bindings.context()).operation.walk(visit)
assert "error" not in record and record["operator_work"], record
print(count / (after - before))
"""


def lowering_s() -> float:
    """CPU-seconds to lower the program (tracing, StableHLO), JAX already imported."""
    from analysis.studies.workloads.zoo import catalogue

    return cpu_s(lambda: catalogue.lower(PROGRAM))


def operations_read_per_s(form: Any) -> float:
    """Operations of MLIR text or bytecode parsed, simplified and costed a CPU-second (median of 3 processes, start-up apart)."""
    from analysis.studies.workloads.zoo import catalogue
    from analysis.workloads.hlo import reader

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        path.write_bytes(catalogue.serialise(catalogue.lower(PROGRAM), form))
        command, environment = [sys.executable, "-c", _READ, str(path)], {**os.environ, **reader.ENVIRONMENT}
        runs = [subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, text=True) for _ in range(3)]
    return sorted(float(run.stdout) for run in runs)[1]


def operators_fused_per_s() -> float:
    """Operators of the program a CPU-second that the study's fusion rule takes in, reading apart."""
    from analysis.predict.program import study_fusion
    from analysis.studies.workloads.zoo import catalogue
    from analysis.workloads.hlo import reader

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "step.mlir"
        path.write_text(catalogue.text(catalogue.lower(PROGRAM)))
        module = reader.read(path)
    return len(module.operators) / cpu_s(lambda: study_fusion.kernels(module))


# Networks and training -----------------------------------------------------------------------------------------------------------------

ASTRA_SIM = DATA / "recorded" / "astra-sim"


def collectives_per_s() -> float:
    """Closed-form collectives a CPU-second: the recorded runs that have one, of one to three dimensions, parsing apart."""
    from analysis.networks.case_table import parse_case
    from analysis.networks.cases import outside_model
    from analysis.networks.closed_forms import CaseArrays, closed_form_cycles
    from analysis.networks.columns import of_cases
    from analysis.tables import read_csv

    frame = read_csv(ASTRA_SIM / "collectives.csv", dtype=str, keep_default_na=False)
    arrays, _ = of_cases([case for case in map(parse_case, frame.to_dict("records")) if not outside_model(case)])
    cycles = np.zeros(len(arrays[0]), np.int64)
    closed_form_cycles(arrays, cycles)
    covered = CaseArrays(*[column[cycles >= 0] for column in arrays])
    cycles = cycles[cycles >= 0]
    return 200 * len(cycles) / cpu_s(lambda: [closed_form_cycles(covered, cycles) for _ in range(200)])


def trace_ms() -> float:
    """CPU-milliseconds to replay the GPT trace on congestion-aware links, event by event, parsing apart."""
    from analysis.networks.cases import AWARE, Network
    from analysis.networks.replay import prepare, simulated
    from analysis.networks.trace import read_groups, read_nodes

    nodes, groups = read_nodes(ASTRA_SIM / "gpt_tp4dp2" / "nodes.csv"), read_groups(ASTRA_SIM / "gpt_tp4dp2" / "comm_groups.json")
    prepared = prepare(nodes, Network(AWARE, active_chunks_per_dim=2), groups, 989)
    return cpu_s(lambda: [simulated(prepared) for _ in range(20)], warm=True) / 20 * 1e3


def all_reduces_per_s() -> float:
    """Calibrated all-reduces a CPU-second, a million sizes in one call."""
    from analysis.hardware import systems
    from analysis.networks.collective_time import collective_time

    sizes, machine = np.geomspace(1e3, 1e10, 1_000_000), systems.load("DGX-A100")
    collective_time("all_reduce", sizes[:10], 8, machine, graph=False)
    return sizes.size / cpu_s(lambda: collective_time("all_reduce", sizes, 8, machine, graph=False))


def plan_search_s() -> float:
    """CPU-seconds to search every plan of Llama 3 70B on 1,024 H100."""
    from analysis.training.search import search

    row = {"model": "llama-3-70b", "system": "HGX-H100", "global_batch": "1024", "sequence_length": "8192"}
    return cpu_s(lambda: search(row, 1024))


# Serving -------------------------------------------------------------------------------------------------------------------------------

VIDUR = DATA / "recorded" / "vidur"
REQUESTS, BATCHES = VIDUR / "requests_vllm_200_qps2.csv", VIDUR / "batches_vllm_200_qps2.csv.gz"


@cache
def _step_time() -> Any:
    from analysis.serving.step_time.linear import read_fit

    return read_fit(BATCHES)


@cache
def _table_7(count: int, rate_per_s: float) -> Any:
    from analysis.studies.serving.agreement import vidur_requests

    return vidur_requests(count, rate_per_s, seed=42)


def _serve(requests: Any, scheduler: str = "vllm", times: int = 1, **cluster: Any) -> None:
    from analysis.serving.simulate import simulate

    for _ in range(times):
        simulate(requests, scheduler, _step_time(), **cluster)


def requests_per_s(scheduler: str) -> float:
    """Requests of the survey's Table 7 simulated a CPU-second, compiled already, no file read or written."""
    _serve(_table_7(10, 2.0), scheduler)
    return 100_000 / cpu_s(lambda: _serve(_table_7(100_000, 2.0), scheduler), 3)


def million_on_64(routing: str) -> float:
    """CPU-seconds for a million requests on 64 replicas, two a second on each."""
    requests = _table_7(1_000_000, 128.0)
    _serve(_table_7(10, 2.0))
    return cpu_s(lambda: _serve(requests, replicas=64, routing=routing))


def growth() -> float:
    """CPU time a request at 10^6 requests over the least at 10^2, 10^3, 10^4, 10^5 and 10^6: 1 is linear."""
    _serve(_table_7(10, 2.0))
    costs = []
    for count in (100, 1_000, 10_000, 100_000, 1_000_000):
        repeats = max(1, 100_000 // count)
        costs.append(cpu_s(partial(_serve, _table_7(count, 2.0), times=repeats), 2) / (count * repeats))
    return float(costs[-1] / np.min(costs))


def recorded_run_s() -> float:
    """CPU-seconds to read the requests and steps of the recorded run and to write its batches and requests."""
    from analysis.serving.tables import write_run
    from analysis.serving.vidur import replay

    with tempfile.TemporaryDirectory() as folder:
        return cpu_s(lambda: write_run(replay(REQUESTS, BATCHES, "vllm")[0], folder), 3, warm=True)


def replay_first_answer(compiled: str) -> float:
    """CPU-seconds of `serve replay` in a fresh process, with an empty folder for compiled code (cold) or the one it left (warm)."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["serve", "replay", str(REQUESTS), "--scheduler", "vllm", "--steps", str(BATCHES), "--out", folder]
        return [command_cpu_s(arguments, Path(folder) / "compiled") for _ in range(2 if compiled == "warm" else 1)][-1]


# Accelerators --------------------------------------------------------------------------------------------------------------------------

LAYERS = {
    "c5_c": (512, 2048, 7, 7, 1, 1, 1, 2.067),
    "c2_c": (64, 256, 56, 56, 1, 1, 1, 4.475),
    "c3_c": (128, 512, 28, 28, 1, 1, 1, 4.401),
    "conv1": (3, 64, 112, 112, 7, 7, 2, 8.291),
    "c4_b": (256, 256, 14, 14, 3, 3, 1, 2.083),
    "c2_b": (64, 64, 56, 56, 3, 3, 1, 3.846),
}
"""Sizes (c, m, p, q, r, s, stride) and the CPU-seconds of Timeloop's recorded random search."""


def _setting(name: str) -> tuple[Any, Any, float]:
    from analysis.accelerators.loopnest.architecture import read_architecture
    from analysis.accelerators.loopnest.problem import convolution

    c, m, p, q, r, s, stride, recorded_s = LAYERS[name]
    architecture = read_architecture(DATA / "recorded/timeloop/architecture.yaml")
    return convolution(c=c, m=m, p=p, q=q, r=r, s=s, stride=stride), architecture, recorded_s


def _valid(name: str, wanted: int, seed: int) -> tuple[Any, list[Any]]:
    """A sampler of random mappings, and some that fit."""
    from analysis.accelerators.mapper.random_search import Sampler

    problem, architecture, _ = _setting(name)
    sampler, rng = Sampler(problem, architecture), np.random.default_rng(seed)
    kept: list[Any] = []
    while len(kept) < wanted:
        drawn = [sampler.draw(rng) for _ in range(2000)]
        kept += [genome for genome, fits in zip(drawn, sampler.price(drawn)[2], strict=True) if fits]
    return sampler, kept[:wanted]


def mappings_counted_per_s() -> float:
    """Valid random mappings of two layers counted in a CPU-second, all counts kept."""
    from analysis.accelerators.loopnest.fast import count_many

    total, spent = 0, 0.0
    for name in ("conv1", "c4_b"):
        sampler, genomes = _valid(name, 20_000, seed=0)
        layouts = [np.concatenate([a] * 5) for a in sampler.layouts(genomes)]
        n = len(layouts[0])
        results = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros((n, 6, 3, 5), dtype=np.int64)
        spent += cpu_s(partial(count_many, sampler.tab, sampler.problem.macs, *layouts, sampler.work, *results))
        total += n
    return total / spent


def mappings_differing() -> float:
    """Of 10,000 random valid mappings, how many the compiled path counts otherwise than the reference path."""
    from analysis.accelerators.loopnest.evaluation import evaluate
    from analysis.accelerators.loopnest.fast import count_many
    from analysis.accelerators.loopnest.tables import to_mapping

    wrong = 0
    for seed, name in enumerate(LAYERS):
        sampler, genomes = _valid(name, 1667, seed)
        n = len(genomes)
        energy, cycles, over = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        counts = np.zeros((n, 6, 3, 5), dtype=np.int64)
        count_many(sampler.tab, sampler.problem.macs, *sampler.layouts(genomes), sampler.work, energy, cycles, over, counts)  # type: ignore[call-arg]
        names = [level.name for level in sampler.architecture.levels]
        tensors = [tensor.name for tensor in sampler.problem.tensors]
        for i, genome in enumerate(genomes):
            mapping = to_mapping(sampler.problem, sampler.architecture, sampler.layout(genome))
            expected = evaluate(sampler.problem, sampler.architecture, mapping)
            same = expected.cycles == cycles[i] and abs(expected.energy_j / energy[i] - 1) < 1e-12
            for a in expected.accesses:
                got = counts[i, names.index(a.level), tensors.index(a.tensor)]
                same &= list(got) == [a.reads, a.fills, a.updates, a.tile_words, a.partition_words]
            wrong += not same
    return float(wrong)


def slowest_search() -> float:
    """Largest ratio, over the recorded layers, of this mapper's CPU time to that of Timeloop's recorded random search."""
    from analysis.accelerators.mapper.best_mapping import best_mapping

    ratios = []
    for name in LAYERS:
        problem, architecture, recorded_s = _setting(name)
        assert best_mapping(problem, architecture, "edp").proven
        ratios.append(cpu_s(partial(best_mapping, problem, architecture, "edp")) / recorded_s)
    return max(ratios)


def tilings_settled_per_s() -> float:
    """Tilings of conv1's space settled in a CPU-second, by bounds or by pricing; orders not multiplied in."""
    from analysis.accelerators.mapper.best_mapping import best_mapping

    problem, architecture, _ = _setting("conv1")
    best_mapping(problem, architecture, "edp")
    found = best_mapping(problem, architecture, "edp")
    return found.tilings / found.cpu_s


def systolic_layers_per_s(quirks: str) -> float:
    """Layers answered a CPU-second: different shapes, arrays and dataflows, every count of every layer, in calls that fit the cache."""
    from analysis.accelerators.systolic import array

    generator, layers = np.random.default_rng(0), 2_000_000
    shapes = generator.integers(1, 5_000, size=(3, layers))
    arrays = 2 ** generator.integers(2, 9, size=(2, layers))
    dataflow = generator.integers(0, 3, size=layers, dtype=np.int8)

    def every() -> None:
        for first in range(0, layers, 16_384):
            part = slice(first, first + 16_384)
            m, n, k = shapes[:, part]
            rows, columns = arrays[:, part]
            array.count(m, n, k, rows, columns, dataflow[part], getattr(array, quirks))

    return layers / cpu_s(every)


# Cores ---------------------------------------------------------------------------------------------------------------------------------


def emulated_mips() -> float:
    """All our programs to their ends, traced into one pair of arrays that is used again; compilation apart (million instructions/s)."""
    from analysis.cores.riscv.elf import read_elf
    from analysis.cores.riscv.emulator import load, run
    from analysis.studies.cores.programs import program_names, program_path

    index, address = np.zeros(1 << 20, np.uint32), np.zeros(1 << 20, np.uint64)
    run(load(read_elf(program_path("compression"))), index, address)
    instructions, spent = 0, 0.0
    for name in program_names():
        machine = load(read_elf(program_path(name)))
        start = time.process_time()
        while machine.exit_code is None:
            run(machine, index, address)
        spent += time.process_time() - start
        instructions += machine.retired
    return instructions / spent / 1e6


_STREAM = """
import resource
from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import epochs, load
from analysis.studies.cores.programs import program_names, program_path
from analysis.cores.riscv.trace import EPOCH_INSTRUCTIONS
for name in program_names():
    for _ in epochs(load(read_elf(program_path(name))), EPOCH_INSTRUCTIONS):
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)
"""


def stream_peak_gib() -> float:
    """Peak resident memory of a process that streams every program epoch by epoch, its interpreter and compiler included."""
    return float(subprocess.run([sys.executable, "-c", _STREAM], capture_output=True, text=True, check=True, cwd=ROOT).stdout)


def traced_to_disk_mips() -> float:
    """One program of ten million instructions and more, traced and written as .npz (million instructions a CPU-second)."""
    from analysis.cores.riscv.elf import read_elf
    from analysis.cores.riscv.emulator import epochs, load
    from analysis.cores.riscv.trace import TraceWriter
    from analysis.studies.cores.programs import program_path

    machine = load(read_elf(program_path("compression")))
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        writer = TraceWriter(Path(folder) / "trace.npz")
        for part in epochs(machine, 1 << 20):
            writer.add(part)
        writer.close()
        return machine.retired / (time.process_time() - start) / 1e6


def timing_mips(design: str) -> float:
    """The first 300,000 instructions of every program on one design, compilation and tracing apart (million instructions a CPU-second)."""
    from analysis.cores.riscv.elf import read_elf
    from analysis.cores.riscv.emulator import trace_program
    from analysis.cores.timing.designs import load_design
    from analysis.cores.timing.simulation import simulate

    core, seconds, count = load_design(design), 0.0, 0
    for path in (*sorted((DATA / "recorded" / "gem5").glob("*.elf")), *sorted((DATA / "cores" / "programs").glob("*.elf"))):
        trace, program = trace_program(path, 300_000)[0], read_elf(path)
        simulate(trace.slice(0, 1000), core, program)
        seconds += cpu_s(partial(simulate, trace, core, program))
        count += len(trace)
    return count / seconds / 1e6


def _json_trace(limit: int) -> Any:
    from analysis.cores.riscv.emulator import trace_program
    from analysis.studies.cores.programs import program_path

    return trace_program(program_path("json"), limit=limit)[0]


def features_mips() -> float:
    """Million instructions a CPU-second through our features."""
    from analysis.cores.timing.designs import TABLE_4, load_design
    from analysis.studies.cores.learning.program_features import program_features

    trace, cores = _json_trace(400_000), [load_design(name) for name in TABLE_4]
    program_features(trace.slice(0, 10_000), cores)
    return len(trace) / cpu_s(lambda: program_features(trace, cores)) / 1e6


def first_order_mips() -> float:
    """Million instructions a CPU-second through the first-order model of one design, inputs at hand."""
    from analysis.cores.timing.designs import load_design
    from analysis.studies.cores.first_order.inputs import first_order_inputs
    from analysis.studies.cores.first_order.model import first_order_times

    trace, core = _json_trace(1_000_000), load_design("8w")
    inputs = first_order_inputs(trace, core)
    return len(trace) / cpu_s(lambda: first_order_times(inputs, core), warm=True) / 1e6


def our_network_kips() -> float:
    """Thousand instructions a CPU-second through our network, all five designs at once, features at hand."""
    from analysis.cores.timing.designs import load_design
    from analysis.studies.cores.learning.corpus import BLOCK
    from analysis.studies.cores.learning.model_files import model_path, read_trunk
    from analysis.studies.cores.learning.program_features import program_features
    from analysis.studies.cores.learning.trunk_training import predict

    trunk = read_trunk(model_path("ours"))
    features = program_features(_json_trace(64 * BLOCK), [load_design(name) for name in trunk.designs])
    predict(trunk, features, np.arange(32))
    return 32 * BLOCK / cpu_s(lambda: predict(trunk, features, np.arange(32, 64))) / 1e3


def neutrino_compile_ms() -> float:
    """CPU-milliseconds to compile a time step of the paper's network for four sequences."""
    from analysis.studies.cores.neutrino.compiler import Network, compile_network
    from analysis.studies.cores.neutrino.machine import NeutrinoMachine

    return 1e3 * cpu_s(lambda: compile_network(Network(), NeutrinoMachine(), 4), 10, warm=True)


def neutrino_cycles_per_s() -> float:
    """Million cycles of the machine simulated a CPU-second, a thousand time steps in a row."""
    from analysis.studies.cores.neutrino.compiler import Network, compile_network
    from analysis.studies.cores.neutrino.cycles import simulate
    from analysis.studies.cores.neutrino.machine import NeutrinoMachine

    machine = NeutrinoMachine()
    program = compile_network(Network(), machine, 4).step * 1000
    return simulate(program, machine).total / cpu_s(lambda: simulate(program, machine), 3, warm=True) / 1e6


def neutrino_integers_per_s() -> float:
    """Instructions a CPU-second through Neutrino's program on integers, context included."""
    from threadpoolctl import threadpool_limits

    from analysis.studies.cores.learning.lstm import paper_parameters
    from analysis.studies.cores.neutrino.compiler import compile_network
    from analysis.studies.cores.neutrino.int8 import Bits, network_of, quantise, run_windows
    from analysis.studies.cores.neutrino.machine import NeutrinoMachine

    parameters, left, target = paper_parameters(), 16, 32
    windows = np.random.default_rng(0).normal(size=(32, left + target, 13))
    with threadpool_limits(1):
        model = quantise(parameters, windows, Bits())
        compiled = compile_network(network_of(parameters), NeutrinoMachine(), 1)
        spent_s = cpu_s(lambda: run_windows(model, compiled, windows, left, target), 3, warm=True)
    return windows.shape[0] * windows.shape[1] / spent_s


# Protocol and tests --------------------------------------------------------------------------------------------------------------------


def evidence_file_s() -> float:
    """CPU-seconds from an evidence file to its grades, mean of all files."""
    from analysis.artifact.mtap.evidence import Evidence, evidence_files
    from analysis.artifact.mtap.grading import grade_tool
    from analysis.artifact.mtap.rubric import Rubric
    from analysis.configs import read_yaml

    rubric, files = read_yaml(DATA / "mtap" / "rubric.yaml", Rubric), evidence_files(DATA / "mtap" / "evidence")
    return cpu_s(lambda: [grade_tool(read_yaml(path, Evidence), rubric) for path in files]) / len(files)


def simplex_s() -> float:
    """CPU-seconds to cut the weights' simplex of six tools with random grades, up to 15 planes."""
    from analysis.artifact.mtap.simplex import order_shares

    drawn = np.random.default_rng(0).integers(0, 4, size=(6, 5))
    return cpu_s(lambda: order_shares({f"tool {i}": [int(g) for g in row] for i, row in enumerate(drawn)}))


def _mutations() -> list[Benchmark]:
    """Share of small changes to the code that the tests notice, as last measured by `python -m tests.mutation`."""
    from analysis.tables import read_csv

    table = read_csv(DATA / "evaluation" / "mutation.csv", keep_default_na=False, dtype=object)
    return [
        Benchmark(
            "mutation",
            str(row["room"]),
            partial(float, 100 * int(row["killed_after"]) / (int(row["mutants"]) - int(row["equivalent"]))),
            "% of mutants",
            85,
            "min",
            f"{row['killed_after']} of {row['mutants']}, of which {row['equivalent']} change no answer",
        )
        for row in table[table["mutants"] != ""].to_dict("records")
    ]


def _table() -> list[Benchmark]:
    """The rows of `data/evaluation/speed_targets.csv`, each measured by a function of this file."""
    from analysis.tables import read_csv

    return [
        Benchmark(
            row["group"],
            row["name"],
            partial(globals()[row["function"]], *filter(None, [row["argument"]])),
            row["unit"],
            float(row["target"]),
            row["direction"],
            row["note"],
        )
        for row in read_csv(TARGETS, dtype=str, keep_default_na=False).to_dict("records")
    ]


def benchmarks() -> list[Benchmark]:
    """Every row: the table, the lines of the examples, the measured mutation rates."""
    return [*_table(), *_examples(), *_mutations()]


def report(only: str | None = None) -> int:
    """Measure the rows of all groups, or of one, print each figure with its target, and return how many missed it."""
    rows = benchmarks()
    groups = list(dict.fromkeys(row.group for row in rows))
    if only is not None and only not in groups:
        raise SystemExit(f"no benchmarks of {only!r}; there are: {', '.join(groups)}")
    missed = 0
    for row in rows:
        if only and row.group != only:
            continue
        figure = row.run()
        good = figure >= row.target if row.direction == "min" else figure <= row.target
        missed += not good
        sign, verdict = (">=" if row.direction == "min" else "<="), ("ok    " if good else "MISSED")
        line = f"{verdict} {row.group}: {row.name}: {figure:,.4g} {row.unit} (target {sign} {row.target:,.4g})"
        print(line + (f" - {row.note}" if row.note else ""), flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(1 if report(*sys.argv[1:2]) else 0)
