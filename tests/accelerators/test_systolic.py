"""Systolic arrays: SCALE-Sim's recorded runs exactly, data moved cycle by cycle, and laws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.accelerators.systolic.array import NO_QUIRKS, SCALE_SIM_3, Quirks, convolution_output, count, dataflow_codes
from analysis.accelerators.systolic.cases import OUTPUTS, predict_cases
from analysis.paths import DATA
from analysis.studies.accelerators.systolic.cycles import run

RECORDED = DATA / "recorded" / "scale-sim"
DATAFLOW = st.sampled_from(["os", "ws", "is"])
SMALL = st.integers(1, 9)
SIZE = st.integers(1, 3000)
EDGE = st.integers(1, 256)


def recorded() -> pd.DataFrame:
    frame = pd.read_csv(RECORDED / "layers.csv")
    return frame[frame["demand_rows"].notna() & (frame["run_kind"] != "timeout")].reset_index(drop=True)


def test_every_recorded_layer_that_finished() -> None:
    # data/recorded/scale-sim/README.md: 219 runs, three timed out.
    frame = recorded()
    assert len(frame) == 216
    answer = predict_cases(frame[["M", "N", "K", "array_rows", "array_cols", "dataflow"]])
    for column in ("demand_rows", "ifmap_sram_reads", "filter_sram_reads", "ofmap_sram_writes"):
        assert (answer[column].astype("int64") == frame[column]).all(), column
    for column in ("mapping_eff_pct", "compute_util_pct"):  # recorded with four decimals
        assert np.abs(answer[column].astype(float) - frame[column]).max() <= 5.0001e-5, column


def test_reported_cycles_of_runs_with_memory() -> None:
    # SCALE-Sim's COMPUTE_REPORT: compute cycles = index of the last demand row + stalls.
    frame = recorded()
    frame = frame[frame["compute_cycles_reported"].notna() & frame["stall_cycles"].notna()]
    assert len(frame) > 70
    got = count(frame["M"], frame["N"], frame["K"], frame["array_rows"], frame["array_cols"], frame["dataflow"].to_numpy(str), SCALE_SIM_3)
    assert (got.compute_cycles + frame["stall_cycles"] == frame["compute_cycles_reported"]).all()


def test_convolution_rows_of_the_recorded_layers() -> None:
    frame = recorded()
    seen = 0
    for note, m, true in frame.loc[frame["conv_note"].notna(), ["conv_note", "M", "M_true"]].itertuples(index=False):
        fields = dict(part.split("=") for part in note.split(";"))
        height, width = (int(x) for x in fields["ifmap_padded"].split("x"))
        window_h, window_w = (int(x) for x in fields["f"].split("x"))
        stride = int(fields["stride"])
        rounded = convolution_output([height, width], [window_h, window_w], stride, SCALE_SIM_3)
        exact = convolution_output([height, width], [window_h, window_w], stride, NO_QUIRKS)
        assert rounded.prod() == m and exact.prod() == true, note
        seen += rounded.prod() != exact.prod()
    assert seen > 10  # the rounding shows in the strided layers


@pytest.mark.skipif(not (RECORDED / "other_shapes.csv").exists(), reason="data/recorded/scale-sim/other_shapes.csv is not there")
def test_shapes_and_arrays_beyond_the_recorded_file() -> None:
    # Runs of SCALE-Sim 3.0.0's compute part on other array sizes, tall and wide arrays, strided convolutions, Llama shapes.
    frame = pd.read_csv(RECORDED / "other_shapes.csv")
    answer = predict_cases(frame[["M", "N", "K", "array_rows", "array_cols", "dataflow"]])
    for column in OUTPUTS:
        exact = frame[column].to_numpy(float)
        assert np.abs(answer[column].to_numpy(float) - exact).max() <= 1e-9 * max(1.0, np.abs(exact).max()), column


@settings(max_examples=150, deadline=None)
@given(m=SMALL, n=SMALL, k=SMALL, rows=st.integers(1, 5), columns=st.integers(1, 5), dataflow=DATAFLOW, seed=st.integers(0, 9))
def test_moving_data_through_the_array_equals_the_formulas(
    m: int, n: int, k: int, rows: int, columns: int, dataflow: str, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    a, b = generator.integers(-9, 10, (m, k)), generator.integers(-9, 10, (k, n))
    seen = run(a, b, rows, columns, dataflow)
    formula = count(m, n, k, rows, columns, dataflow, NO_QUIRKS)
    assert (seen.product == a @ b).all()
    assert seen.cycles == formula.demand_rows == formula.compute_cycles
    assert seen.folds == formula.row_folds * formula.column_folds
    assert seen.macs_per_cycle.sum() == formula.macs == m * n * k
    assert seen.ifmap_reads == formula.ifmap_sram_reads
    assert seen.filter_reads == formula.filter_sram_reads
    assert seen.ofmap_writes == formula.ofmap_sram_writes
    assert seen.macs_per_cycle.max() <= rows * columns
    assert formula.compute_utilization == pytest.approx(seen.macs_per_cycle.mean() / (rows * columns))


@given(m=SIZE, n=SIZE, k=SIZE, rows=EDGE, columns=EDGE, dataflow=DATAFLOW, quirks=st.sampled_from([NO_QUIRKS, SCALE_SIM_3]))
def test_laws(m: int, n: int, k: int, rows: int, columns: int, dataflow: str, quirks: Quirks) -> None:
    c = count(m, n, k, rows, columns, dataflow, quirks)
    assert 0 < c.compute_utilization <= 1 and 0 < c.mapping_efficiency <= 1
    assert c.compute_utilization <= c.mapping_efficiency + 1e-12
    assert c.demand_rows * rows * columns >= c.macs
    assert c.ifmap_sram_reads >= m * k and c.filter_sram_reads >= n * k and c.ofmap_sram_writes >= m * n
    wider, taller = count(m, n, k, rows, columns + 1, dataflow, quirks), count(m, n, k, rows + 1, columns, dataflow, quirks)
    assert wider.column_folds <= c.column_folds and taller.row_folds <= c.row_folds


@given(m=SIZE, n=SIZE, k=SIZE, rows=EDGE, columns=EDGE, dataflow=DATAFLOW)
def test_quirks_only_add(m: int, n: int, k: int, rows: int, columns: int, dataflow: str) -> None:
    exact = count(m, n, k, rows, columns, dataflow)
    padded = count(m, n, k, rows, columns, dataflow, Quirks(full_edge_folds=True))
    assert padded.demand_rows >= exact.demand_rows
    if exact.mapping_efficiency == 1.0:
        assert padded.demand_rows == exact.demand_rows
    edges = count(m, n, k, rows, columns, dataflow, Quirks(output_write_edges=True))
    extra = (rows + columns) * int(exact.row_folds * exact.column_folds) if dataflow == "os" else 0
    assert edges.ofmap_sram_writes - exact.ofmap_sram_writes == extra
    assert count(m, n, k, rows, columns, dataflow, Quirks(last_cycle_index=True)).compute_cycles == exact.demand_rows - 1


@given(m=SIZE, n=SIZE, k=SIZE, rows=EDGE, columns=EDGE)
def test_input_stationary_is_weight_stationary_of_the_transposed_product(m: int, n: int, k: int, rows: int, columns: int) -> None:
    one, other = count(m, n, k, rows, columns, "is", SCALE_SIM_3), count(n, m, k, rows, columns, "ws", SCALE_SIM_3)
    assert one.demand_rows == other.demand_rows and one.ofmap_sram_writes == other.ofmap_sram_writes
    assert one.ifmap_sram_reads == other.filter_sram_reads and one.filter_sram_reads == other.ifmap_sram_reads


def test_arrays_of_shapes_equal_one_by_one() -> None:
    generator = np.random.default_rng(1)
    m, n, k = generator.integers(1, 5000, (3, 200))
    rows, columns = generator.integers(1, 300, (2, 200))
    names = np.array(["os", "ws", "is"])[generator.integers(0, 3, 200)]
    for quirks in (NO_QUIRKS, SCALE_SIM_3):
        together = count(m, n, k, rows, columns, names, quirks)
        for i in range(200):
            alone = count(m[i], n[i], k[i], rows[i], columns[i], str(names[i]), quirks)
            assert all(getattr(alone, field) == getattr(together, field)[i] for field in vars(alone))


def test_cases_keep_rows_and_say_why() -> None:
    frame = pd.DataFrame(
        {
            "name": ["a", "b", "c", "d", "e"],
            "M": ["4", "0", "4", "4", str(4 * 10**9)],
            "N": ["4", "4", "x", "4", str(4 * 10**9)],
            "K": ["4", "4", "4", "4", str(4 * 10**9)],
            "array_rows": ["2"] * 5,
            "array_cols": ["2"] * 5,
            "dataflow": ["os", "os", "os", "rs", "ws"],
        }
    )
    answer = predict_cases(frame)
    assert list(answer.columns) == [*frame.columns, *OUTPUTS, "reason"] and (answer[frame.columns] == frame).all().all()
    assert answer["reason"].tolist() == [
        "",
        "M must be a whole number of at least 1",
        "N must be a whole number of at least 1",
        "dataflow must be one of os, ws, is",
        "the counts exceed 63 bits",
    ]
    # four folds of K + R + C - 2 = 6 cycles; outputs 4 x 4 + 4 folds x (R + C)
    assert answer.loc[0, "demand_rows"] == 24 and answer.loc[0, "ofmap_sram_writes"] == 32
    assert answer.loc[1:, list(OUTPUTS)].isna().all().all()


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        count(0, 1, 1, 1, 1, "os")
    with pytest.raises(ValueError, match="63 bits"):
        count(2**22, 2**22, 2**22, 1, 1, "os")
    with pytest.raises(ValueError, match="'rs'"):
        dataflow_codes(["os", "rs"])
    with pytest.raises(ValueError, match="window"):
        convolution_output(3, 5, 1)
