"""A macro that computes inside its memory array: how long and how much energy does a product of a matrix and vectors take?"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from analysis.errors import InputError


@dataclass(frozen=True)
class Macro:
    """A compute-in-memory macro that works through inputs bit by bit and keeps each weight bit in a column of its own.

    Attributes:
        rows, columns: of the array, cells of one bit (count).
        slice_s: one slice of inputs against the whole array, conversion included (s).
        column_j: one column in one slice: array and converter (J).
        datapath_j: what one converted column costs behind the converter: shift, add, activation (J).
    """

    rows: int
    columns: int
    slice_s: float
    column_j: float
    datapath_j: float

    @property
    def weight_bits(self) -> int:
        """Weights that fit (bits)."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Answer:
    """Time and energy of a product.

    Attributes:
        latency_s, energy_j: of all vectors (s, J); loading the weights not included.
        operations: multiplications and additions of the product itself (count).
        macros: arrays needed to hold the weights (count); all work at once.
        utilization: share of the arrays' cells that hold a weight (1).
    """

    latency_s: float
    energy_j: float
    operations: float
    macros: int
    utilization: float

    @property
    def op_per_s(self) -> float:
        """Operations of the given width (1/s)."""
        return self.operations / self.latency_s

    @property
    def op_per_j(self) -> float:
        """Operations of the given width (1/J)."""
        return self.operations / self.energy_j


def product(macro: Macro, m: int, n: int, k: int, input_bits: int = 1, weight_bits: int = 1, datapath: bool = True) -> Answer:
    """A product of `m` vectors of length `k` with a resident k x n matrix.

    latency = m input_bits slice_s; energy = m input_bits (row tiles) n weight_bits (column_j + datapath_j): a column is
    converted once a slice, however few of its rows hold a weight.

    Args:
        m: vectors (count). n, k: columns and rows of the matrix (count).
        input_bits, weight_bits: widths (bits).
        datapath: whether what lies behind the converters counts.

    Source: dataflow of Jia et al., IEEE JSSC 55 (2020), https://doi.org/10.1109/JSSC.2020.2987714.
    """
    for key, value in {"m": m, "n": n, "k": k, "input_bits": input_bits, "weight_bits": weight_bits}.items():
        if value < 1:
            raise InputError(f"must be at least 1 (got {value})", key=key)
    tiles = ceil(k / macro.rows)
    macros = tiles * ceil(n * weight_bits / macro.columns)
    column = macro.column_j + (macro.datapath_j if datapath else 0.0)
    return Answer(
        latency_s=m * input_bits * macro.slice_s,
        energy_j=m * input_bits * tiles * n * weight_bits * column,
        operations=2.0 * m * n * k,
        macros=macros,
        utilization=n * weight_bits * k / (macros * macro.weight_bits),
    )
