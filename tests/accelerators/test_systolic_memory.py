"""Systolic arrays with memory, in numbers, from SCALE-Sim's files, and as data-centric directives."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from analysis.__main__ import main
from analysis.accelerators.systolic.array import NO_QUIRKS, count, pipelined_cycles
from analysis.accelerators.systolic.cases import OUTPUTS, predict_cases
from analysis.accelerators.systolic.files import cases, read_design, read_topology
from analysis.commands.models import systolic as systolic_command
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.predict.program.systolic_device import arrays_of, product_cycles
from analysis.studies.accelerators.loopnest.maestro import Loop, directives, systolic_loops, text
from analysis.studies.accelerators.systolic.memory import Memory, with_memory, with_memory_tiled
from analysis.workloads.graph import Matmul

DATAFLOW = st.sampled_from(["os", "ws", "is"])
SIZE = st.integers(1, 400)
EDGE = st.sampled_from([4, 8, 16, 32])


def test_dram_reads_of_every_recorded_run_with_free_bandwidth() -> None:
    # data/recorded/scale-sim/README.md: 43 full runs in CALC mode, 64 KiB SRAMs. Writes: the tool spills every partial sum, and prints
    # a few words more in nine runs (padding of the last line it flushes), so ours must agree or lie below by less than two lines.
    frame = pd.read_csv(DATA / "recorded" / "scale-sim" / "layers.csv")
    frame = frame[(frame["run_kind"] == "full") & (frame["bw_mode"] == "CALC")]
    assert len(frame) == 43
    exact = 0
    for row in frame.itertuples():
        unique = None
        if isinstance(row.conv_note, str):
            note = dict(part.split("=") for part in row.conv_note.split(";"))
            unique = prod(int(x) for x in note["ifmap_padded"].split("x")) * int(note["cin"])
        got = with_memory(row.M, row.N, row.K, row.array_rows, row.array_cols, row.dataflow, Memory(65536, 65536, 0, 10), unique)
        assert (got.ifmap_reads, got.filter_reads) == (row.ifmap_dram_reads, row.filter_dram_reads), row
        extra = row.ofmap_dram_writes - (got.ofmap_writes + got.partial_sum_writes)
        assert 0 <= extra < 2 * row.array_cols, row
        exact += extra == 0
    assert exact == 34


@settings(max_examples=200)
@given(m=SIZE, n=SIZE, k=SIZE, rows=EDGE, columns=EDGE, dataflow=DATAFLOW, kib=st.sampled_from([0, 1, 4, 64, 4096]))
def test_memory_laws(m: int, n: int, k: int, rows: int, columns: int, dataflow: str, kib: int) -> None:
    def timed(bandwidth: float, size: float = kib * 1024) -> object:
        return with_memory(m, n, k, rows, columns, dataflow, Memory(size, size, size, bandwidth))

    slow, fast, free = timed(4), timed(16), timed(1e12)
    cycles = int(count(m, n, k, rows, columns, dataflow, NO_QUIRKS).demand_rows)
    assert free.compute_cycles == cycles and free.total_cycles == pytest.approx(cycles, abs=1e-3)
    assert slow.total_cycles >= fast.total_cycles - 1e-6 >= cycles - 2e-6
    assert slow.total_cycles >= slow.dram_bytes / 4 - 1e-6
    assert slow.total_cycles <= cycles + slow.dram_bytes / 4 + 1e-6
    assert slow.ifmap_reads >= m * k - 1e-6 and slow.filter_reads >= n * k - 1e-6 and slow.ofmap_writes == m * n
    assert timed(4, 2 * kib * 1024).dram_bytes <= slow.dram_bytes + 1e-6
    roomy = timed(4, 1e15)
    assert roomy.dram_bytes == pytest.approx(m * k + n * k + m * n)


@settings(max_examples=60, deadline=None)
@given(
    m=SIZE, n=SIZE, k=SIZE, rows=EDGE, columns=EDGE, dataflow=DATAFLOW, kib=st.sampled_from([1, 4, 64]), bandwidth=st.sampled_from([2, 32])
)
def test_cutting_into_parts_never_takes_longer(
    m: int, n: int, k: int, rows: int, columns: int, dataflow: str, kib: int, bandwidth: int
) -> None:
    memory = Memory(kib * 1024, kib * 1024, kib * 1024, bandwidth)
    whole, cut = (f(m, n, k, rows, columns, dataflow, memory) for f in (with_memory, with_memory_tiled))
    assert cut.total_cycles <= whole.total_cycles
    assert cut.ofmap_writes == m * n and cut.ifmap_reads >= m * k - 1e-6 and cut.filter_reads >= n * k - 1e-6
    assert cut.total_cycles >= max(cut.compute_cycles, cut.dram_bytes / bandwidth) - 1e-6
    assert cut.compute_cycles >= whole.compute_cycles - 1e-6
    assert cut.total_cycles == pytest.approx(cut.compute_cycles + cut.stall_cycles)


def blocks(size: int, edge: int) -> list[int]:
    return [min(edge, size - start) for start in range(0, size, edge)]


@given(m=SIZE, n=SIZE, k=SIZE, rows=EDGE, columns=EDGE)
def test_pipelined_folds_equal_a_walk_over_the_folds(m: int, n: int, k: int, rows: int, columns: int) -> None:
    loads = [r for _ in blocks(n, columns) for r in blocks(k, rows)]
    walk = loads[0] + sum(max(m, following) for following in loads[1:]) + m + loads[-1] + blocks(n, columns)[-1] - 2
    assert pipelined_cycles(m, n, k, rows, columns) == walk <= count(m, n, k, rows, columns, "ws", NO_QUIRKS).demand_rows
    assert walk * rows * columns >= m * n * k


def test_chips_have_their_published_peaks() -> None:
    # 2 x arrays x 128^2 (256^2) x clock against the vendor's figure: TPU v1 92 TOP/s (ISCA 2017), v3 123 and v4 275 TFLOP/s (docs).
    for name, dtype in (("TPU-v1", "int8"), ("TPU-v3", "bf16"), ("TPU-v4", "bf16")):
        device = devices.load(name)
        arrays = arrays_of(device)
        pes = arrays.count * arrays.rows * arrays.columns
        assert 2 * pes * device.clock_hz == pytest.approx(device.peak_flop_per_s(dtype), rel=0.005)
        assert 0.99 < 16384**3 / (product_cycles(arrays, Matmul(1, 16384, 16384, 16384)) * pes) <= 1


CONFIG = """[general]
run_name = "edge"
[run_presets]
InterfaceBandwidth = {mode}
UseRamulatorTrace = False
[layout]
IfmapSRAMBankBandwidth = 12
FilterSRAMBankBandwidth = 14
[architecture_presets]
ArrayHeight = {height}
ArrayWidth:   16
IfmapSramSzkB: 64
FilterSramSzkB: 32
OfmapSramSzkB: 8
Dataflow: ws
Bandwidth = 10
"""


def test_scale_sim_files(tmp_path: Path) -> None:
    path = tmp_path / "edge.cfg"
    path.write_text(CONFIG.format(mode="USER", height=8))
    design = read_design(path)
    assert (design.name, design.rows, design.columns, design.dataflow) == ("edge", 8, 16, "ws")
    path.write_text(CONFIG.format(mode="CALC", height="x"))
    with pytest.raises(InputError, match=r"8: ArrayHeight|9: ArrayHeight|10: ArrayHeight"):
        read_design(path)

    convolutions = tmp_path / "conv.csv"
    convolutions.write_text(
        "Layer,IFMAP H,IFMAP W,Filter H,Filter W,Channels,Filters,Strides,\nconv1,230,230,7,7,3,64,2,\nDP1,16,16,3,3,4,1,1,\n\n"
    )
    layers = read_topology(convolutions)
    assert [x.name for x in layers] == ["conv1", *(f"DP1Channel_{i}" for i in range(4))]
    assert layers[0].product() == (113 * 113, 64, 147) and layers[0].product(NO_QUIRKS) == (112 * 112, 64, 147)
    assert layers[1].product() == (196, 1, 9)
    products = tmp_path / "gemm.csv"
    products.write_text("Layer,M,N,K,\nq,128,768,512,1:2,\n")
    assert read_topology(products)[0].product() == (128, 768, 512)
    convolutions.write_text("Layer,IFMAP H,IFMAP W,Filter H,Filter W,Channels,Filters,Strides,\nconv1,230,230,7,7,3,,2,\n")
    with pytest.raises(InputError, match=r"conv.csv:2: filters"):
        read_topology(convolutions)


def test_the_files_as_they_are_shipped(tmp_path: Path) -> None:
    # The layout of SCALE-Sim's configs/google.cfg (version 2: no layout section, colons and blanks) and of its topologies: blank
    # line after the header, a tab before a name, a remark or nothing in place of the last comma.
    config = tmp_path / "google.cfg"
    config.write_text(
        "[general]\nrun_name = GoogleTPU_v1_ws\n\n[architecture_presets]\nArrayHeight:    256\nArrayWidth:     256\n"
        "IfmapSramSzkB:    6144\nFilterSramSzkB:   6144\nOfmapSramSzkB:    2048\nDataflow : ws\nBandwidth : 10\nMemoryBanks: 1\n\n"
        "[run_presets]\nInterfaceBandwidth: USER\nSRAM_row_size: 2"
    )
    topology = tmp_path / "net.csv"
    topology.write_text(
        "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n\n"
        "Conv1, 224, 224, 3, 3, 3, 32, 2,\nConv2_dw, 112, 112, 3, 3, 1, 1, 1,#dw\n\tConv11,28,28,1,1,256,256,1\n"
    )
    frame = cases(topology, config)
    assert frame["layer"].tolist() == ["Conv1", "Conv2_dw", "Conv11"]
    assert frame[["M", "N", "K"]].to_numpy().tolist() == [[112 * 112, 32, 27], [110 * 110, 1, 9], [784, 256, 256]]
    assert set(frame["array_rows"]) == {256} and set(frame["dataflow"]) == {"ws"}


SPARSE = """
[sparsity]
SparsitySupport : true
SparseRep : ellpack_block
OptimizedMapping : {optimized}
BlockSize : 8
"""
SCALE_SIM_SPARSE = {
    "ws": ((216, 100.0, 52.459016393442624, 4096, 256, 1024), (378, 91.66666666666666, 37.41496598639456, 2640, 528, 1440),
           (234, 42.1875, 15.59103260869565, 1632, 162, 459), (248, 82.03125, 19.42845394736842, 1008, 420, 540)),
    "os": ((240, 100.0, 53.333333333333336, 1024, 1024, 640), (324, 83.33333333333334, 50.92592592592593, 1320, 1584, 624),
           (192, 39.84375, 22.412109375, 612, 486, 249), (224, 52.734375, 26.3671875, 504, 840, 398)),
    "is": ((304, 100.0, 35.55555555555556, 512, 1024, 1024), (414, 76.38888888888889, 34.59119496855346, 440, 1584, 1440),
           (279, 53.125, 12.58223684210526, 306, 486, 459), (208, 49.21875, 25.026483050847453, 126, 840, 540)),
}  # fmt: skip
"""SCALE-Sim 3.0.0's operand_matrix and systolic_compute_* called on the four products below on 8 x 8: rows of the demand matrices,
mapping efficiency and utilisation (%), requests for inputs, weights and outputs."""


@pytest.mark.parametrize("dataflow", SCALE_SIM_SPARSE)
def test_sparse_products_are_those_of_scale_sim(tmp_path: Path, dataflow: str) -> None:
    config, topology = tmp_path / "a.cfg", tmp_path / "g.csv"
    text = CONFIG.format(mode="CALC", height=8).replace("ArrayWidth:   16", "ArrayWidth: 8").replace("ws", dataflow)
    rows = "Layer, M, N, K, Sparsity,\na, 32, 16, 62, 1:4,\nb, 20, 24, 43, 2:4,\nc, 17, 9, 45, 3:8,\nd, 9, 30, 27, 1:2,\n"
    topology.write_text(rows)
    config.write_text(text + SPARSE.format(optimized="false"))
    found = predict_cases(cases(topology, config))
    for row, expected in zip(found[list(OUTPUTS)].to_numpy(float), SCALE_SIM_SPARSE[dataflow], strict=True):
        assert row == pytest.approx(expected, rel=1e-12)
    topology.write_text(rows.replace(" Sparsity", ""))  # where nothing names it, the tool reads it all the same
    assert cases(topology, config)["sparsity"].tolist() == ["1:4", "2:4", "3:8", "1:2"]
    config.write_text(text + SPARSE.format(optimized="true"))
    with pytest.raises(InputError, match=r"OptimizedMapping: rows of random sparsity are not modelled"):
        read_design(config)
    config.write_text(text)  # not supported by the design: dense, as in the tool
    assert set(cases(topology, config)["sparsity"]) == {""}


def test_the_published_sparse_example(tmp_path: Path) -> None:
    """216 and 378 cycles: SCALE-Sim 3.0.0 reports 215 and 377 as index of the last."""
    frame = pd.DataFrame({"M": ["32", "20"], "N": ["16", "24"], "K": ["64", "40"], "array_rows": "8", "array_cols": "8", "dataflow": "ws"})
    assert predict_cases(frame)["demand_rows"].tolist() == [864, 630]
    assert predict_cases(frame.assign(sparsity=["1:4", "2:4"]))["demand_rows"].tolist() == [216, 378]
    for wrong in ("4:1", "0:4", "half", "1:4:8"):
        assert predict_cases(frame.assign(sparsity=wrong))["reason"].str.contains("sparsity must be N:M").all()


@pytest.mark.parametrize(
    ("header", "row", "product"),
    [
        # 15 x 14 outputs with strides 2 and 1; four inputs of them
        ("IFMAP H,IFMAP W,Filter H,Filter W,Channels,Filters,Stride height,Stride width,", "32,16,4,3,8,16,2,1,", (210, 16, 96)),
        ("IFMAP H,IFMAP W,Filter H,Filter W,Channels,Filters,Stride width,Stride height,", "32,16,4,3,8,16,1,2,", (210, 16, 96)),
        ("IFMAP H,IFMAP W,Filter H,Filter W,Channels,Filters,Strides,Batch Size,", "32,16,4,3,8,16,2,4,", (480, 16, 96)),
        ("M,N,K,", "2,3,4,", (2, 3, 4)),
        ("M,K,N,", "2,4,3,", (2, 3, 4)),
        ("M,N,K,Batch", "2,3,4,5", (10, 3, 4)),
        ("M\tN\tK", "2\t3\t4", (2, 3, 4)),
        ("M,N,K,", "2,3,4,# a remark, 7", (2, 3, 4)),
        ("M,N,K,remark", "2,3,4,the first", (2, 3, 4)),
    ],
)
def test_the_forms_of_a_topology(tmp_path: Path, header: str, row: str, product: tuple[int, int, int]) -> None:
    sign = "\t" if "\t" in header else ","
    (tmp_path / "t.csv").write_text(f"# of somebody\nLayer{sign}{header}\n\n# a layer\na{sign}{row}\n")
    assert [layer.product() for layer in read_topology(tmp_path / "t.csv")] == [product]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Layer,M,N,K,\na,2,3,4,5,\n", r"t.csv:2: column 5: 5 stands in a column that is not read"),
        ("Layer,H,W,FH,FW,C,F,Strides,\na,8,8,3,3,1,1,2,1,\n", r"t.csv:2: column 9: 1 stands in a column that is not read"),
        ("Layer,M,N,K,Sparsity\na,2,3,4,4:2\n", r"t.csv:2: sparsity: expected N:M"),
        ("Layer,M,N,K,Batch\na,2,3,4,x\n", r"t.csv:2: batch: expected a whole number"),
    ],
)
def test_numbers_of_a_topology_that_nothing_reads(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        read_topology(tmp_path / "t.csv")


def test_the_command(tmp_path: Path) -> None:
    def command(*arguments: str) -> Result:
        return CliRunner().invoke(systolic_command.app, [str(x) for x in arguments])

    source, out = tmp_path / "cases.csv", tmp_path / "out.csv"
    source.write_text("id,M,N,K,array_rows,array_cols,dataflow\n007,33,31,17,16,16,os\nb,1,1,1,16,16,xs\n")
    assert command(source, "--out", out).exit_code == 0
    lines = out.read_text().splitlines()
    assert lines[0] == ",".join(["id", "M", "N", "K", "array_rows", "array_cols", "dataflow", *OUTPUTS, "reason"])
    # recorded: layer edge1 on 16 x 16, os: 282 demand rows, 1122 and 1581 SRAM reads, 1215 writes
    assert lines[1].startswith("007,33,31,17,16,16,os,282,") and lines[1].endswith(",1122,1581,1215,")
    assert lines[2] == 'b,1,1,1,16,16,xs,,,,,,,"dataflow must be one of os, ws, is"'
    assert command(source, "--out", out, "--no-quirks").exit_code == 0
    assert out.read_text().splitlines()[1].endswith(",1122,1581,1023,")

    out.unlink()
    source.write_text("M,N,K,array_rows,array_cols\n1,1,1,1,1\n")
    failed = command(source, "--out", out)
    assert isinstance(failed.exception, InputError) and "dataflow" in str(failed.exception) and not out.exists()


def visits(loops: list[Loop]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]]:
    """Walk a description step by step: (time step, PE, index of every dimension), by offsets only."""
    lines = directives(loops)
    for steps in product(*(range(line.loop.factor) for line in lines)):
        index = dict.fromkeys("NMCPQRS", 0)
        for line, step in zip(lines, steps, strict=True):
            index[line.loop.dimension] += step * line.offset
        when = tuple(step for line, step in zip(lines, steps, strict=True) if not line.loop.spatial)
        where = tuple(step for line, step in zip(lines, steps, strict=True) if line.loop.spatial)
        yield when, where, index


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("NMCPQRS"), st.integers(1, 3), st.booleans()), max_size=6))
def test_directives_visit_every_point_once(raw: list[tuple[str, int, bool]]) -> None:
    loops = [Loop(*one) for one in raw]
    bounds = {d: prod(x.factor for x in loops if x.dimension == d) for d in "NMCPQRS"}
    seen = [tuple(index.values()) for _, _, index in visits(loops)]
    assert sorted(seen) == sorted(product(*(range(bounds[d]) for d in "NMCPQRS")))
    slots = [(when, where) for when, where, _ in visits(loops)]
    assert len(set(slots)) == len(slots)
    for line in directives(loops):
        # what "stays" or is shared really has the same index on both sides of the step
        for tensor, what in line.reuse.items():
            assert (what == "moves") == (line.loop.dimension in {"Weights": "MCRS", "Inputs": "NCPQRS", "Outputs": "NMPQ"}[tensor])


def test_weight_stationary_in_words() -> None:
    printed = text("q", systolic_loops({"P": 128, "M": 64, "C": 64}, 32, 32, "ws"))
    assert "TemporalMap(32,32) K;" in printed and "TemporalMap(1,1) Y';" in printed and "Cluster(32, P);" in printed
    assert "SpatialMap(1,1) C;" in printed and "Outputs reduction" in printed
    stationary = next(line for line in printed.splitlines() if "Y'" in line)
    assert "Weights stays" in stationary
    with pytest.raises(ValueError, match="multiple"):
        systolic_loops({"P": 128, "M": 65, "C": 64}, 32, 32, "ws")
    assert np.prod([x.factor for x in systolic_loops({"P": 128, "M": 64, "C": 64}, 32, 32, "os")]) == 128 * 64 * 64


def test_what_a_configuration_says_of_memory_is_named_as_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cfg").write_text(CONFIG.format(mode="USER", height=8))
    header = "Layer, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"
    (tmp_path / "t.csv").write_text(f"{header}\na, 8, 8, 3, 3, 4, 16, 1,\n")
    assert main(["systolic", str(tmp_path / "t.csv"), "--config", str(tmp_path / "a.cfg")]) == 0
    assert "memories, their bandwidths and mode are not counted" in capsys.readouterr().err
