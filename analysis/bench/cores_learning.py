"""How much of this core's matrix-product rate does NeuroScalar's network reach, and how fast are features and our own network?"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from analysis.bench.report import Benchmark, cpu_s


def share_of_sgemm() -> float:
    """Rate of the paper's network (1,073,348 parameters, batched, NumPy and numba) over this core's own SGEMM rate, in percent."""
    from analysis.cores.learning.lstm import paper_parameters
    from analysis.cores.neutrino.batched_inference import share_of_sgemm as share

    with threadpool_limits(1):  # a second BLAS thread would spin and count as CPU time
        return 100 * share(paper_parameters())


def paper_network_kips() -> float:
    """Thousand instructions a CPU-second through the paper's network."""
    from analysis.cores.learning.lstm import paper_parameters
    from analysis.cores.neutrino.batched_inference import flop_per_instruction, network_flop_per_cpu_second

    parameters = paper_parameters()
    with threadpool_limits(1):
        return network_flop_per_cpu_second(parameters) / flop_per_instruction(parameters) / 1e3


def feature_mips() -> float:
    """Million instructions a CPU-second through our features."""
    from analysis.cores.learning.program_features import program_features
    from analysis.cores.riscv.emulator import trace_program
    from analysis.cores.riscv.programs import program_path
    from analysis.cores.timing.designs import TABLE_4, load_design

    trace, _ = trace_program(program_path("json"), limit=400_000)
    cores = [load_design(name) for name in TABLE_4]
    program_features(trace.slice(0, 10_000), cores)
    return len(trace) / cpu_s(lambda: program_features(trace, cores)) / 1e6


def first_order_mips() -> float:
    """Million instructions a CPU-second through the first-order model of one design, inputs at hand."""
    from analysis.cores.first_order.inputs import first_order_inputs
    from analysis.cores.first_order.model import first_order_times
    from analysis.cores.riscv.emulator import trace_program
    from analysis.cores.riscv.programs import program_path
    from analysis.cores.timing.designs import load_design

    trace, _ = trace_program(program_path("json"), limit=1_000_000)
    core = load_design("8w")
    inputs = first_order_inputs(trace, core)
    return len(trace) / cpu_s(lambda: first_order_times(inputs, core), warm=True) / 1e6


def our_network_kips() -> float:
    """Thousand instructions a CPU-second through our network, all five designs at once, features at hand."""
    from analysis.cores.learning.corpus import BLOCK
    from analysis.cores.learning.model_files import model_path, read_trunk
    from analysis.cores.learning.program_features import program_features
    from analysis.cores.learning.trunk_training import predict
    from analysis.cores.riscv.emulator import trace_program
    from analysis.cores.riscv.programs import program_path
    from analysis.cores.timing.designs import load_design

    trunk = read_trunk(model_path("ours"))
    trace, _ = trace_program(program_path("json"), limit=64 * BLOCK)
    features = program_features(trace, [load_design(name) for name in trunk.designs])
    predict(trunk, features, np.arange(32))
    return 32 * BLOCK / cpu_s(lambda: predict(trunk, features, np.arange(32, 64))) / 1e3


def benchmarks() -> list[Benchmark]:
    """The benchmarks of this subpackage, with their targets."""
    return [
        Benchmark("paper's network, one core", share_of_sgemm, "% of SGEMM", 50, "min", "both measured in one run, CPU-seconds"),
        Benchmark("paper's network, one core", paper_network_kips, "thousand instructions/CPU-s", 20, "min", "2.14 MFLOP an instruction"),
        Benchmark("our features", feature_mips, "million instructions/CPU-s", 1, "min", "with the first-order models of five designs"),
        Benchmark(
            "first-order model of a design", first_order_mips, "million instructions/CPU-s", 10, "min", "a pass over the trace, no cycles"
        ),
        Benchmark("our network, five designs", our_network_kips, "thousand instructions/CPU-s", 80, "min", "features at hand"),
    ]
