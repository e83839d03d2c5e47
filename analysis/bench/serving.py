"""How many serving requests does a CPU-second simulate, and how soon is the first answer there?"""

from __future__ import annotations

import tempfile
from functools import cache, partial
from pathlib import Path

import numpy as np

from analysis.bench.report import Benchmark, command_cpu_s, cpu_s
from analysis.paths import DATA
from analysis.serving.requests import Requests
from analysis.serving.simulate import simulate
from analysis.serving.step_time.linear import read_fit
from analysis.serving.steps import StepTime
from analysis.serving.traffic import vidur_requests
from analysis.serving.vidur.replay import replay, write_run

RECORDED = DATA / "recorded" / "vidur"
REQUESTS, BATCHES = RECORDED / "requests_vllm_200_qps2.csv", RECORDED / "batches_vllm_200_qps2.csv.gz"


@cache
def step_time() -> StepTime:
    """A linear step time fitted to the recorded vLLM run of 200 requests."""
    return read_fit(BATCHES)


@cache
def table_7(count: int, rate_per_s: float) -> Requests:
    """The requests of the survey's Table 7, more of them: 128-512 tokens, 20:1, Poisson."""
    return vidur_requests(count, rate_per_s, seed=42)


def requests_per_cpu_second(scheduler: str, count: int = 100_000) -> float:
    """Requests simulated a CPU-second, compiled already, no file read or written."""
    requests = table_7(count, 2.0)
    simulate(table_7(10, 2.0), scheduler, step_time())
    return count / cpu_s(lambda: simulate(requests, scheduler, step_time()), 3)


def million_on_64(routing: str) -> float:
    """CPU-seconds for a million requests on 64 replicas, two a second on each."""
    requests = table_7(1_000_000, 128.0)
    simulate(table_7(10, 2.0), "vllm", step_time())
    return cpu_s(lambda: simulate(requests, "vllm", step_time(), replicas=64, routing=routing))


def several(requests: Requests, repeats: int) -> None:
    """Simulate the same requests a few times."""
    for _ in range(repeats):
        simulate(requests, "vllm", step_time())


def growth() -> float:
    """CPU time a request at 10^6 requests over the least at 10^2, 10^3, 10^4, 10^5 and 10^6: 1 is linear."""
    simulate(table_7(10, 2.0), "vllm", step_time())
    costs = []
    for count in (100, 1_000, 10_000, 100_000, 1_000_000):
        requests = table_7(count, 2.0)
        repeats = max(1, 100_000 // count)
        costs.append(cpu_s(partial(several, requests, repeats), 2) / (count * repeats))
    return float(costs[-1] / np.min(costs))


def csv_seconds() -> float:
    """CPU-seconds to read the requests and steps of the recorded run and to write its batches and requests."""
    with tempfile.TemporaryDirectory() as folder:

        def work() -> None:
            result, _ = replay(REQUESTS, BATCHES, "vllm")
            write_run(result, folder)

        return cpu_s(work, 3, warm=True)


def first_answer(warm: bool) -> float:
    """CPU-seconds of `serve replay` in a fresh process, with an empty folder for compiled code or with the one it left."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["serve", "replay", str(REQUESTS), "--scheduler", "vllm", "--steps", str(BATCHES), "--out", folder]
        return [command_cpu_s(arguments, Path(folder) / "compiled") for _ in range(2 if warm else 1)][-1]


def benchmarks() -> list[Benchmark]:
    """The benchmarks of this subpackage, with their targets."""
    apart = "CSV and compilation apart (below); VIDUR: 830-1,240"
    rate = [
        Benchmark(f"Table 7 workload, {name}", partial(requests_per_cpu_second, name), "requests/CPU-s", 200_000, "min", apart)
        for name in ("vllm", "sarathi", "orca", "faster_transformer", "lightllm", "vllm_v1")
    ]
    return [
        *rate,
        Benchmark("recorded run: CSVs read, scheduled, written", csv_seconds, "CPU-s", 0.5, "max", "200 requests, 2,637 batches"),
        Benchmark("first answer, compiled before", lambda: first_answer(True), "CPU-s", 3, "max", "fresh process; VIDUR: 234 s"),
        Benchmark("first answer, compiling", lambda: first_answer(False), "CPU-s", 30, "max", "fresh process, compilation included"),
        Benchmark("a million requests on 64 replicas, round robin", lambda: million_on_64("round_robin"), "CPU-s", 15, "max"),
        Benchmark("a million requests on 64 replicas, least work", lambda: million_on_64("least_work"), "CPU-s", 15, "max"),
        Benchmark("cost of a request at 10^6 over the least at 10^2 ... 10^6", growth, "", 1.5, "max", "1 is linear"),
    ]
