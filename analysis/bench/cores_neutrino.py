"""How fast is Neutrino compiled for, simulated and executed on integers, and how fast is the same network in fp32?"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from analysis.bench.report import Benchmark, cpu_s

SEQUENCES, LEFT, TARGET = 32, 16, 32


def compile_ms() -> float:
    """CPU-milliseconds to compile a time step of the paper's network for four sequences."""
    from analysis.cores.neutrino.compiler import Network, compile_network
    from analysis.cores.neutrino.machine import NeutrinoMachine

    return 1e3 * cpu_s(lambda: compile_network(Network(), NeutrinoMachine(), 4), 10, warm=True)


def million_cycles_per_cpu_second() -> float:
    """Cycles of the machine that are simulated, a thousand time steps in a row."""
    from analysis.cores.neutrino.compiler import Network, compile_network
    from analysis.cores.neutrino.cycles import simulate
    from analysis.cores.neutrino.machine import NeutrinoMachine

    machine = NeutrinoMachine()
    program = compile_network(Network(), machine, 4).step * 1000
    return simulate(program, machine).total / cpu_s(lambda: simulate(program, machine), 3, warm=True) / 1e6


def _windows() -> tuple[dict[str, np.ndarray], np.ndarray]:
    from analysis.cores.learning.lstm import paper_parameters

    return paper_parameters(), np.random.default_rng(0).normal(size=(SEQUENCES, LEFT + TARGET, 13))


def integers_per_cpu_second() -> float:
    """Instructions a CPU-second through Neutrino's program on integers, context included."""
    from analysis.cores.neutrino.compiler import compile_network
    from analysis.cores.neutrino.int8 import Bits, network_of, quantise, run_windows
    from analysis.cores.neutrino.machine import NeutrinoMachine

    parameters, windows = _windows()
    with threadpool_limits(1):
        model = quantise(parameters, windows, Bits())
        compiled = compile_network(network_of(parameters), NeutrinoMachine(), 1)
        spent_s = cpu_s(lambda: run_windows(model, compiled, windows, LEFT, TARGET), 3, warm=True)
        return windows.shape[0] * windows.shape[1] / spent_s


def fp32_per_cpu_second() -> float:
    """Instructions a CPU-second through the same network in fp32 (NumPy and numba, one thread), for comparison."""
    from analysis.cores.neutrino.batched_inference import flop_per_instruction, network_flop_per_cpu_second

    parameters, _ = _windows()
    with threadpool_limits(1):
        return network_flop_per_cpu_second(parameters) / flop_per_instruction(parameters)


def benchmarks() -> list[Benchmark]:
    """The figures of the accelerator's model; nothing was promised of them, the targets are what one waits for without noticing."""
    exact = "an exact model of the machine in NumPy, not an implementation for speed; the row below is its yardstick"
    return [
        Benchmark("Neutrino compiled", compile_ms, "ms", 10, "max", "one time step, four sequences"),
        Benchmark("Neutrino simulated", million_cycles_per_cpu_second, "million cycles/CPU-s", 10, "min", "compilation apart"),
        Benchmark("Neutrino's integers", integers_per_cpu_second, "instructions/CPU-s", 500, "min", exact),
        Benchmark("the same network in fp32", fp32_per_cpu_second, "instructions/CPU-s", 500, "min", "paper's network, one thread"),
    ]
