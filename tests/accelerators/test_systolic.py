"""Systolic arrays: SCALE-Sim's recorded runs exactly, data moved cycle by cycle, and laws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.accelerators.systolic.array import (
    NO_QUIRKS,
    SCALE_SIM_3,
    Quirks,
    convolution_output,
    count,
    dataflow_codes,
    fits,
    kept,
    pipelined_cycles,
)
from analysis.accelerators.systolic.cases import OUTPUTS, predict_cases
from analysis.accelerators.systolic.files import cases as scale_sim_cases
from analysis.accelerators.systolic.files import read_design, read_topology, sparsity
from analysis.paths import DATA
from analysis.studies.accelerators.systolic.cycles import run
from tests.golden import answer
from tests.golden import kept as kept_answers

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


def test_utilisation_is_the_tool_s_or_the_array_s_by_its_definition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """24 x 24 x 24 on 12 x 12, weights in place: four folds of 2 x 12 + 12 + 24 - 2 = 58 cycles. The array: 24^3 / (144 x 232) = 41.4 %, as
    the page's explorer says; SCALE-Sim charges 11 cycles of skew a fold more, 24^3 / (144 x 276) = 34.8 %. Help and output say which."""
    from analysis.artifact.explorers import systolic_array

    (tmp_path / "cases.csv").write_text("M,N,K,array_rows,array_cols,dataflow\n24,24,24,12,12,ws\n")
    asked = ["systolic", str(tmp_path / "cases.csv"), "--out", str(tmp_path / "out.csv")]
    found = []
    for more in ([], ["--no-quirks"]):
        assert main([*asked, *more]) == 0
        found.append((pd.read_csv(tmp_path / "out.csv")["compute_util_pct"][0], capsys.readouterr().err))
    shown = {control.name: control.default for control in systolic_array.CONTROLS} | {
        "dataflow": "ws",
        "array": 12,
        "m": 24,
        "n": 24,
        "k": 24,
    }
    assert found[0][0] == pytest.approx(100 * 24**3 / (144 * (4 * 58 + 4 * 11))) and found[1][0] == pytest.approx(
        100 * 24**3 / (144 * 4 * 58)
    )
    assert 100 * systolic_array.answer(shown)["utilization"] == pytest.approx(found[1][0])
    assert "as SCALE-Sim reports it" in found[0][1] and "SCALE-Sim" not in found[1][1]
    assert main(["systolic", "--help"]) == 0
    assert "SCALE-Sim's own utilisation" in " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_counts_of_every_dataflow_and_departure() -> None:
    """The formulas of `count`, each departure by itself; rows of a table with its refusals, files of the tool with theirs."""
    sizes = (np.array([1, 7, 24, 100]), np.array([3, 8, 24, 33]), np.array([5, 9, 24, 70]))
    found: dict[str, Any] = {}
    for flow in ("os", "ws", "is"):
        for name in ("", *Quirks.__dataclass_fields__):
            found[f"{flow} {name}"] = count(*sizes, 8, 12, flow, Quirks(**{name: True}) if name else NO_QUIRKS)
    found["sparse"] = [kept(np.array([1, 7, 8, 9]), n, m).tolist() for n, m in ((1, 1), (1, 2), (2, 4), (3, 4))]
    found["fits"] = [bool(fits(size, size, size, 1, 1)) for size in (2**20, 2**20 + 320000, 1_321_121, 1_321_122, 1_321_123, 2**21)]
    found["outputs"] = [[int(convolution_output(size, 7, 2, q)) for size in (7, 8, 230)] for q in (NO_QUIRKS, SCALE_SIM_3)]
    wrong = (
        (0, 1, 1, 1, 1, "os"),
        (1, 1, 1, 1, 0, "os"),
        (1, 1, 1, 1, 1, "x"),
        (2**21, 2**21, 2**21, 1, 1, "os"),
        (1, 1, 1, 1, 1, 3),
        (1, 1, 1, 1, 1, -1),
    )
    found["wrong"] = [answer(lambda given=given: count(*given)) for given in wrong]  # type: ignore[misc]
    found["windows"] = [
        answer(lambda given=given: int(convolution_output(*given))) for given in ((6, 7, 1), (7, 7, 0), (7, 0, 1), (7, 7, 1))
    ]  # type: ignore[misc]
    rows = [
        (7, 8, 9, 4, 5, "OS", ""),
        (7, 8, 9, 4, 5, "ws", "2:4"),
        (7, 8, 9, 4, 5, "is", "3:2"),
        (0, 8, 9, 4, 5, "os", ""),
        (7.5, 8, 9, 4, 5, "os", ""),
        (7, 8, 9, 4, 5, "rs", ""),
        (2**40, 2**40, 9, 4, 5, "os", ""),
        (7, 8, 10, 4, 5, "is", "1:4"),
    ]
    table = pd.DataFrame(rows, columns=["M", "N", "K", "array_rows", "array_cols", "dataflow", "sparsity"]).astype(str)
    found["rows"] = predict_cases(table).astype(object).where(lambda cells: cells.notna(), None).to_dict("records")
    found["column"] = answer(lambda: predict_cases(table.drop(columns="K")))
    kept_answers("systolic", found)


CONFIG = """[general]
run_name = r
[architecture_presets]
ArrayHeight : 8
ArrayWidth : 12
IfmapSramSzkB: 6
FilterSramSzkB: 7
OfmapSramSzkB: 8
IfmapOffset: 0
FilterOffset: 1
OfmapOffset: 2
Dataflow : ws
Bandwidth : 10
[run_presets]
InterfaceBandwidth: USER
"""
TOPOLOGY = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
conv, 230, 230, 7, 7, 3, 64, 2,
"""


def test_files_of_the_tool_at_their_edges(tmp_path: Path) -> None:
    """Each key and cell that is read, what is refused in which words and at which line."""
    found: dict[str, Any] = {}
    changes = {
        "as it is": ("", ""),
        "os": ("Dataflow : ws", "Dataflow : os"),
        "no flow": ("Dataflow : ws", "Dataflow : rs"),
        "no height": ("ArrayHeight : 8\n", ""),
        "height 0": ("ArrayHeight : 8", "ArrayHeight : 0"),
        "half": ("ArrayWidth : 12", "ArrayWidth : 1.5"),
        "another key": ("Bandwidth : 10", "Bandwith : 10"),
        "calc": ("USER", "CALC"),
        "no section": ("[architecture_presets]", "[arch]"),
        "twice": ("ArrayHeight : 8", "ArrayHeight : 8\nArrayHeight : 9"),
        "sparse": ("Bandwidth : 10", "Bandwidth : 10\n[sparsity]\nSparsitySupport : true\nOptimizedMapping : false\nBlockSize : 4\n"),
        "memory": ("Bandwidth : 10", "Bandwidth : 10\nMemoryBanks: 4"),
    }
    for name, (old, new) in changes.items():
        (tmp_path / "c.cfg").write_text(CONFIG.replace(old, new) if old else CONFIG)
        found[f"design {name}"] = answer(lambda: read_design(tmp_path / "c.cfg"), tmp_path)
    (tmp_path / "c.cfg").write_text(CONFIG)
    head = TOPOLOGY.split("\n")[0]
    layers = {
        "as it is": TOPOLOGY,
        "products": "Layer, M, N, K,\na, 3, 5, 7,\nb, 4, 6, 8,\n",
        "sparse": "Layer, M, N, K, Sparsity,\na, 3, 5, 7, 2:4,\n",
        "a letter": TOPOLOGY.replace("230, 230", "x, 230"),
        "window": TOPOLOGY.replace("230, 230", "6, 230"),
        "stride 0": TOPOLOGY.replace("64, 2", "64, 0"),
        "short": f"{head}\nconv, 230, 230,\n",
        "two strides": TOPOLOGY.replace("64, 2", "64, 2, 3"),
        "nothing": f"{head}\n",
        "no head": "conv, 230, 230, 7, 7, 3, 64, 2,\n",
        "M 0": "Layer, M, N, K,\na, 0, 5, 7,\n",
        "ratio": "Layer, M, N, K, Sparsity,\na, 3, 5, 7, 5:4,\n",
    }
    for name, text in layers.items():
        (tmp_path / "t.csv").write_text(text)
        found[f"layers {name}"] = answer(lambda: read_topology(tmp_path / "t.csv"), tmp_path)
        found[f"cases {name}"] = answer(lambda: scale_sim_cases(tmp_path / "t.csv", tmp_path / "c.cfg", NO_QUIRKS), tmp_path)
    found["ratios"] = [
        sparsity(text) for text in ("1:1", "2:4", "0:4", "5:4", "2", "2:x", "", "4:4", "-1:2", "999999:999999", "1:1000000", "1:9999999")
    ]
    found["chips"] = [pipelined_cycles(*given) for given in ((7, 8, 9, 4, 5), (64, 64, 64, 8, 8), (1, 1, 1, 8, 8))]
    kept_answers("scale_sim_files", found)
