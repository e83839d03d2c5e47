"""How many bits does a sparse tensor take in each format, and from what density on does compressing it pay?

Bitmap, run lengths (RLE), compressed rows (CSR), coordinates, and N:M structured, as Sparseloop names them. Each has the expected size
at a density and an encoder that builds it, against which it is tested.
Source: Sparseloop (Wu, Emer, Sze, MICRO 2022), section 3.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FORMATS = ("dense", "bitmap", "rle", "csr", "coordinates", "n_of_m")


@dataclass(frozen=True)
class Tile:
    """The piece of a tensor that is stored together.

    Args:
        rows, columns: its shape (elements).
        word_bits: size of a value (bits).
        run_bits: size of a run length in RLE (bits).
        block, kept: M and N of N:M, at most `kept` values in each `block` (count).
    """

    rows: int
    columns: int
    word_bits: int = 8
    run_bits: int = 5
    block: int = 4
    kept: int = 2

    def __post_init__(self) -> None:
        if min(self.rows, self.columns, self.word_bits, self.run_bits, self.kept) < 1 or self.kept > self.block:
            raise ValueError("a tile needs positive sizes and 1 <= kept <= block")

    @property
    def elements(self) -> int:
        """Rows x columns (elements)."""
        return self.rows * self.columns


@dataclass(frozen=True)
class Size:
    """Size of a stored tile.

    Args:
        value_bits: the values kept (bits).
        metadata_bits: where they belong (bits).
    """

    value_bits: float
    metadata_bits: float

    @property
    def bits(self) -> float:
        """Both together (bits)."""
        return self.value_bits + self.metadata_bits


def _index_bits(values: int) -> int:
    """Bits that tell `values` possibilities apart."""
    return math.ceil(math.log2(values)) if values > 1 else 0


def expected_size(tile: Tile, form: str, density: float) -> Size:
    """Expected size when each element is non-zero with probability `density`, independently.

    With n elements, b bits a value, z = n density non-zeros:
        dense        n b
        bitmap       z b                      + n
        rle          e b                      + e run_bits,  e = n density / (1 - (1 - density)^(2^run_bits)) entries
        csr          z b                      + z ceil(log2 columns) + (rows + 1) ceil(log2(n + 1))
        coordinates  z b                      + z ceil(log2 n)
        n_of_m       (n kept / block) b       + (n kept / block) ceil(log2 block)
    An RLE entry covers up to 2^run_bits elements; longer runs of zeros are broken by an entry with the value zero. N:M does not
    depend on the density: the tensor was pruned to fit, and empty slots are stored.

    Args:
        tile: shape and widths.
        form: one of `FORMATS`.
        density: non-zeros / elements (1).

    Raises:
        ValueError: an unknown format, or a density outside [0, 1].
    """
    if not 0 <= density <= 1:
        raise ValueError(f"density must lie in [0, 1], got {density}")
    n, bits = tile.elements, tile.word_bits
    nonzeros = n * density
    if form == "dense":
        return Size(n * bits, 0)
    if form == "bitmap":
        return Size(nonzeros * bits, n)
    if form == "rle":
        reach = 2**tile.run_bits
        entries = n / reach if density == 0 else nonzeros / -math.expm1(reach * math.log1p(-density)) if density < 1 else float(n)
        return Size(entries * bits, entries * tile.run_bits)
    if form == "csr":
        return Size(nonzeros * bits, nonzeros * _index_bits(tile.columns) + (tile.rows + 1) * _index_bits(n + 1))
    if form == "coordinates":
        return Size(nonzeros * bits, nonzeros * _index_bits(n))
    if form == "n_of_m":
        slots = tile.rows * math.ceil(tile.columns / tile.block) * tile.kept
        return Size(slots * bits, slots * _index_bits(tile.block))
    raise ValueError(f"unknown format {form!r}, expected one of {', '.join(FORMATS)}")


def encode(values: NDArray[np.int64], tile: Tile, form: str) -> tuple[Size, dict[str, NDArray[np.int64]]]:
    """Store a tensor in a format: its exact size, and the parts from which it can be restored.

    Args:
        values: shape (rows, columns).
    """
    flat = values.ravel()
    bits, where = tile.word_bits, np.flatnonzero(flat)
    kept = flat[where]
    if form == "dense":
        return Size(flat.size * bits, 0), {"values": flat.copy()}
    if form == "bitmap":
        return Size(kept.size * bits, flat.size), {"mask": (flat != 0).astype(np.int64), "values": kept}
    if form == "rle":
        reach, runs, stored, run = 2**tile.run_bits, [], [], 0
        for value in flat:
            if value != 0 or run == reach - 1:
                runs.append(run)
                stored.append(value)
                run = 0
            else:
                run += 1
        return Size(len(runs) * bits, len(runs) * tile.run_bits), {"runs": np.array(runs, np.int64), "values": np.array(stored, np.int64)}
    if form == "csr":
        pointers = np.concatenate([[0], np.cumsum((values != 0).sum(axis=1))])
        metadata = kept.size * _index_bits(tile.columns) + pointers.size * _index_bits(flat.size + 1)
        return Size(kept.size * bits, metadata), {"pointers": pointers, "columns": where % tile.columns, "values": kept}
    if form == "coordinates":
        return Size(kept.size * bits, kept.size * _index_bits(flat.size)), {"positions": where, "values": kept}
    if form == "n_of_m":
        width = math.ceil(tile.columns / tile.block) * tile.block
        padded = np.zeros((tile.rows, width), np.int64)
        padded[:, : tile.columns] = values
        blocks = padded.reshape(-1, tile.block)
        if ((blocks != 0).sum(axis=1) > tile.kept).any():
            raise ValueError(f"a block of {tile.block} has more than {tile.kept} non-zeros")
        order = np.argsort(blocks == 0, axis=1, kind="stable")[:, : tile.kept]
        stored_blocks = np.take_along_axis(blocks, order, axis=1)
        return Size(order.size * bits, order.size * _index_bits(tile.block)), {"slots": order, "values": stored_blocks}
    raise ValueError(f"unknown format {form!r}, expected one of {', '.join(FORMATS)}")


def break_even_density(tile: Tile, form: str) -> float:
    """Largest density at which a format takes no more bits than the dense tensor; 0 if it never does.

    Found by bisection: the size grows with the density. bitmap: 1 - 1 / b in closed form.

    Args:
        form: one of `FORMATS` whose size depends on the density; for n_of_m the answer is 1 or 0.
    """
    dense = expected_size(tile, "dense", 1.0).bits
    if expected_size(tile, form, 1.0).bits <= dense:
        return 1.0
    if expected_size(tile, form, 0.0).bits > dense:
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_size(tile, form, middle).bits <= dense else (low, middle)
    return low
