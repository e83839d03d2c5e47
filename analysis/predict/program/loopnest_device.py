"""How long does a matrix product take on a TPU by the best loop nest? The mapper over the chip's memory, on-chip memory and arrays."""

from __future__ import annotations

from functools import cache

from analysis.accelerators.loopnest.architecture import Architecture, Axis, Level, Rule
from analysis.accelerators.loopnest.problem import Problem, Tensor
from analysis.accelerators.mapper.best_mapping import best_mapping
from analysis.hardware.devices import Device
from analysis.predict.program.systolic_device import Arrays, arrays_of
from analysis.workloads.graph import Matmul

ROWS_TOGETHER = 8
"""Rows of the left operand are padded to this: a TPU's vector registers hold 8 x 128 elements."""


def padded(product: Matmul, arrays: Arrays) -> Matmul:
    """The product with its sides rounded up to what the arrays take at once (a smaller side stays as it is)."""

    def up(size: int, step: int) -> int:
        return size if size <= step else -(-size // step) * step

    return Matmul(product.batch, up(product.m, ROWS_TOGETHER), up(product.n, arrays.columns), up(product.k, arrays.rows))


def as_problem(product: Matmul) -> Problem:
    """The product as a loop nest over batch B, rows M, columns N and summed K."""

    def tensor(name: str, ranks: str, read_write: bool = False) -> Tensor:
        return Tensor(name, tuple(((rank, 1),) for rank in ranks), read_write)

    bounds = (("B", product.batch), ("M", product.m), ("N", product.n), ("K", product.k))
    return Problem("product", bounds, (tensor("Weights", "BKN"), tensor("Inputs", "BMK"), tensor("Outputs", "BMN", True)))


def as_architecture(device: Device, word_bytes: int, clock_hz: float) -> Architecture:
    """Main memory, on-chip memory and weight-stationary arrays side by side; energies are not asked for.

    Args:
        word_bytes: size of an operand (bytes).
        clock_hz: of the arrays (Hz).
    """
    arrays = arrays_of(device)
    pes = arrays.count * arrays.rows * arrays.columns
    bandwidth = device.memory_bandwidth_bytes_per_s / word_bytes / clock_hz
    on_chip = int((device.l2_bytes or 32 * 2**20) // word_bytes)
    everything = ("Weights", "Inputs", "Outputs")
    return Architecture(
        name=device.name,
        levels=(
            Level("memory", everything, shared_bandwidth=bandwidth),
            Level(
                "on-chip",
                everything,
                capacity_words=on_chip,
                fanout=(Axis("rows", arrays.rows), Axis("columns", arrays.count * arrays.columns)),
            ),
            Level("registers", ("Weights",), instances=pes, capacity_words=1),
        ),
        mac_count=pes,
        mac_energy_j=0.0,
        cycle_s=1.0 / clock_hz,
        rules=(
            ("rows", Rule(factor_one=("B", "M", "N"))),
            ("columns", Rule(factor_one=("B", "M", "K"))),
            ("registers", Rule(factor_one=("B", "K", "N"))),
        ),
    )


@cache
def product_s(device_name: str, product: Matmul, word_bytes: int, peak_flop_per_s: float) -> float:
    """Time of a product by its best mapping (s); the search takes seconds, so alike products are searched once.

    Args:
        word_bytes: size of an operand (bytes).
        peak_flop_per_s: of the type of arithmetic; gives the clock.
    """
    from analysis.hardware import devices

    device = devices.load(device_name)
    arrays = arrays_of(device)
    clock = peak_flop_per_s / (2.0 * arrays.count * arrays.rows * arrays.columns)
    problem, architecture = as_problem(padded(product, arrays)), as_architecture(device, word_bytes, clock)
    found = best_mapping(problem, architecture, "latency", most_configurations=200_000, most_splits=20_000_000)
    return found.evaluation.cycles / clock
