"""How many collectives a CPU-second, and how long does a congestion-aware trace take?"""

from __future__ import annotations

import numpy as np

from analysis.bench.report import Benchmark, cpu_s
from analysis.networks.case_table import parse_case
from analysis.networks.cases import AWARE, Network, outside_model
from analysis.networks.closed_forms import CaseArrays, case_arrays, closed_form_cycles
from analysis.networks.replay import prepare, simulated
from analysis.networks.trace import read_groups, read_nodes
from analysis.paths import DATA
from analysis.tables import read_csv

RECORDED = DATA / "recorded" / "astra-sim"


def collectives_per_cpu_second(repeats: int = 200) -> float:
    """Closed-form collectives a CPU-second: the recorded runs that have one, of one to three dimensions, parsing apart."""
    frame = read_csv(RECORDED / "collectives.csv", dtype=str, keep_default_na=False)
    cases = [case for case in map(parse_case, frame.to_dict("records")) if not outside_model(case)]
    arrays = case_arrays(cases)
    result = np.zeros(len(cases), np.int64)
    closed_form_cycles(arrays, result)
    covered = CaseArrays(*[column[result >= 0] for column in arrays])
    result = result[result >= 0]
    return repeats * len(result) / cpu_s(lambda: [closed_form_cycles(covered, result) for _ in range(repeats)])


def trace_milliseconds(repeats: int = 20) -> float:
    """CPU-milliseconds to replay the GPT trace on congestion-aware links, event by event, parsing apart."""
    nodes = read_nodes(RECORDED / "gpt_tp4dp2" / "nodes.csv")
    groups = read_groups(RECORDED / "gpt_tp4dp2" / "comm_groups.json")
    prepared = prepare(nodes, Network(AWARE, active_chunks_per_dim=2), groups, 989)
    return cpu_s(lambda: [simulated(prepared) for _ in range(repeats)], warm=True) / repeats * 1e3


def benchmarks() -> list[Benchmark]:
    """The benchmarks of this subpackage, with their targets."""
    return [
        Benchmark(
            "closed-form collectives", collectives_per_cpu_second, "collectives/CPU-s", 1e6, "min", "parsing apart; ASTRA-sim: 36 ms each"
        ),
        Benchmark("congestion-aware GPT trace", trace_milliseconds, "CPU-ms", 100, "max", "parsing apart; ASTRA-sim: 0.32 s"),
    ]
