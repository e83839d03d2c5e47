"""Sparse tensors: sizes of the formats against tensors really encoded, gating and skipping against multiplies really done."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.paths import DATA
from analysis.studies.accelerators.sparse.compute import SparseProduct, accesses, cost, expected_maximum
from analysis.studies.accelerators.sparse.formats import FORMATS, Tile, break_even_density, encode, expected_size
from analysis.tables import read_csv

UNSTRUCTURED = [form for form in FORMATS if form != "n_of_m"]


def random_tensor(tile: Tile, density: float, seed: int, structured: bool = False) -> np.ndarray:
    generator = np.random.default_rng(seed)
    values = generator.integers(1, 2 ** min(tile.word_bits, 16), (tile.rows, tile.columns))
    if structured:
        keep = np.zeros((tile.rows, tile.columns), bool)
        for row in range(tile.rows):
            for start in range(0, tile.columns, tile.block):
                width = min(tile.block, tile.columns - start)
                chosen = generator.permutation(width)[: min(tile.kept, width)]
                keep[row, start + chosen] = generator.random(len(chosen)) < density
        return np.where(keep, values, 0)
    return np.where(generator.random(values.shape) < density, values, 0)


def decode(parts: dict[str, np.ndarray], tile: Tile, form: str) -> np.ndarray:
    """The tensor back from what `encode` stored."""
    flat = np.zeros(tile.elements, np.int64)
    if form == "dense":
        flat[:] = parts["values"]
    elif form == "bitmap":
        flat[parts["mask"] == 1] = parts["values"]
    elif form == "rle":
        flat[np.cumsum(parts["runs"] + 1) - 1] = parts["values"]
    elif form == "csr":
        rows = np.repeat(np.arange(tile.rows), np.diff(parts["pointers"]))
        flat[rows * tile.columns + parts["columns"]] = parts["values"]
    elif form == "coordinates":
        flat[parts["positions"]] = parts["values"]
    else:
        width = math.ceil(tile.columns / tile.block) * tile.block
        blocks = np.zeros((tile.rows * width // tile.block, tile.block), np.int64)
        np.put_along_axis(blocks, parts["slots"], parts["values"], axis=1)
        return blocks.reshape(tile.rows, width)[:, : tile.columns]
    return flat.reshape(tile.rows, tile.columns)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 40),
    bits=st.sampled_from([1, 4, 8, 16]),
    run_bits=st.integers(1, 5),
    block=st.sampled_from([(1, 2), (2, 4), (1, 4), (4, 8)]),
    density=st.floats(0, 1),
    form=st.sampled_from(FORMATS),
    seed=st.integers(0, 100),
)
def test_encoding_restores_the_tensor_and_counts_its_own_bits(
    rows: int, columns: int, bits: int, run_bits: int, block: tuple[int, int], density: float, form: str, seed: int
) -> None:
    tile = Tile(rows, columns, bits, run_bits, block=block[1], kept=block[0])
    tensor = random_tensor(tile, density, seed, structured=form == "n_of_m")
    size, parts = encode(tensor, tile, form)
    assert (decode(parts, tile, form) == tensor).all()
    assert size.value_bits == parts["values"].size * bits
    # every stored index fits the bits it is charged
    width = {"rle": run_bits, "csr": int(np.ceil(np.log2(max(columns, 1)))) if columns > 1 else 0}
    if form == "rle" and parts["runs"].size:
        assert parts["runs"].max() < 2**run_bits
        assert size.metadata_bits == parts["runs"].size * run_bits
    if form == "csr" and parts["columns"].size:
        assert parts["columns"].max() < max(2 ** width["csr"], 1)
    if form == "bitmap":
        assert size.metadata_bits == parts["mask"].size
    if form == "n_of_m":
        assert parts["slots"].max() < block[1]


@pytest.mark.parametrize("form", UNSTRUCTURED)
@pytest.mark.parametrize("density", [0.02, 0.1, 0.35, 0.7, 0.95])
def test_expected_size_is_the_mean_of_random_tensors(form: str, density: float) -> None:
    tile = Tile(32, 96, word_bits=8, run_bits=4)
    sizes = [encode(random_tensor(tile, density, seed), tile, form)[0].bits for seed in range(60)]
    expected = expected_size(tile, form, density).bits
    # four standard errors of the mean; RLE leaves the last run open, up to one entry
    slack = 4 * np.std(sizes) / np.sqrt(len(sizes)) + (tile.word_bits + tile.run_bits if form == "rle" else 1e-9)
    assert abs(np.mean(sizes) - expected) <= slack


def test_structured_size_is_exact() -> None:
    tile = Tile(16, 64, word_bits=8, block=4, kept=2)
    size, _ = encode(random_tensor(tile, 1.0, 0, structured=True), tile, "n_of_m")
    assert size == expected_size(tile, "n_of_m", 0.5)
    # NVIDIA's 2:4 (Mishra et al. 2021): half the values and two bits each; 8-bit: 16x64/2 x (8 + 2) bits, 62.5 % of dense
    assert size.bits == 5120 and size.bits / expected_size(tile, "dense", 1).bits == 0.625
    with pytest.raises(ValueError, match="more than 2"):
        encode(np.ones((16, 64), np.int64), tile, "n_of_m")


def test_break_even() -> None:
    for bits in (4, 8, 16):
        tile = Tile(64, 64, word_bits=bits)
        assert break_even_density(tile, "bitmap") == pytest.approx(1 - 1 / bits)
        assert break_even_density(tile, "coordinates") == pytest.approx(bits / (bits + 12))
    for form in ("bitmap", "rle", "csr", "coordinates"):
        tile = Tile(64, 64)
        edge = break_even_density(tile, form)
        assert 0 < edge < 1
        assert (
            expected_size(tile, form, edge - 1e-6).bits
            <= expected_size(tile, "dense", 1).bits
            < expected_size(tile, form, edge + 1e-6).bits
        )
    assert break_even_density(Tile(8, 8, word_bits=1), "bitmap") == pytest.approx(0, abs=1e-12)


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(UNSTRUCTURED))
def test_denser_is_never_smaller(a: float, b: float, form: str) -> None:
    tile = Tile(16, 128)
    low, high = sorted((a, b))
    assert expected_size(tile, form, low).bits <= expected_size(tile, form, high).bits * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize(
    ("on_inputs", "on_weights"), [("none", "none"), ("gate", "none"), ("skip", "none"), ("skip", "gate"), ("skip", "skip")]
)
def test_multiplies_really_done(on_inputs: str, on_weights: str) -> None:
    generator = np.random.default_rng(3)
    pes, length, waits, di, dw = 16, 64, 400, 0.4, 0.6
    inputs = generator.random((waits, pes, length)) < di
    weights = generator.random((waits, pes, length)) < dw
    slot = np.ones_like(inputs)
    active = np.ones_like(inputs)
    for operand, action in ((inputs, on_inputs), (weights, on_weights)):
        if action == "skip":
            slot &= operand
        if action != "none":
            active &= operand
    seen_cycles = slot.sum(axis=2).max(axis=1).sum()
    answer = cost(SparseProduct(waits * pes * length, di, dw, on_inputs, on_weights, pes, length))
    assert answer.cycles == pytest.approx(seen_cycles, rel=0.01)
    assert answer.multiplies == pytest.approx((slot & active).sum(), rel=0.01)
    assert answer.gated == pytest.approx((slot & ~active).sum(), rel=0.02, abs=1e-6)
    assert answer.multiplies + answer.gated + answer.skipped == pytest.approx(waits * pes * length)
    assert answer.cycles >= answer.balanced_cycles - 1e-9


@given(st.integers(1, 60), st.floats(0.01, 0.99), st.integers(1, 64))
def test_the_largest_of_more_draws_is_larger(trials: int, probability: float, draws: int) -> None:
    one, more = expected_maximum(trials, probability, draws), expected_maximum(trials, probability, draws + 1)
    assert trials * probability - 1e-9 <= one <= more + 1e-9 <= trials + 1e-6


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="density"):
        expected_size(Tile(2, 2), "bitmap", 1.5)
    with pytest.raises(ValueError, match="huffman"):
        expected_size(Tile(2, 2), "huffman", 0.5)
    with pytest.raises(ValueError, match="action"):
        SparseProduct(1, 0.5, 0.5, "drop", "none")


def test_every_count_of_four_sparseloop_exercises_is_the_printed_one() -> None:
    # 01.2.2: B is read 16 times where A has 4 non-zeros of 16: "Actual scalar reads 4, Gated scalar reads 12"
    assert accesses(16, action="gating", condition=0.25) == (4, 12, 0)
    rows = read_csv(DATA / "recorded" / "sparseloop" / "exercises.csv", keep_default_na=False)
    assert len(rows) == 32 and rows["exercise"].nunique() == 4
    for row in rows.itertuples():
        found = accesses(row.dense, row.density, row.action, float(row.condition or 1))
        assert found == (row.actual, row.gated, row.skipped), (row.exercise, row.level, row.tensor, row.access)
