"""What a device does, against textbook counts, where XLA's book-keeping says something else; and sums that lack a part say so."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.predict.program.device_work import device_work
from analysis.predict.program.predict import MEASURED, SLOWEST_LAUNCH_S, predict
from analysis.studies.workloads.zoo import published_steps
from analysis.tables import read_csv
from analysis.workloads.graph import Matmul, Module, Operator, OperatorWork, Scope, Tensor
from analysis.workloads.hlo.reader import read

pytestmark = pytest.mark.usefixtures("programs_read_here")

SCAN = """func.func @main(%a: tensor<{n}xf32>) -> tensor<{n}xf32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %z) <{{padding = dense<[[{low}, 0]]> : tensor<1x2xi64>, window_dimensions = array<i64: {window}>,
    window_strides = array<i64: 1>}}> ({{
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %2 = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %2 : tensor<f32>
  }}) : (tensor<{n}xf32>, tensor<f32>) -> tensor<{n}xf32>
  return %0 : tensor<{n}xf32>
}}
"""
SORT = """func.func @main(%a: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
  %0 = "stablehlo.sort"(%a) <{{dimension = {axis} : i64, is_stable = true}}> ({{
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %2 = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
  }}) : (tensor<{shape}xf32>) -> tensor<{shape}xf32>
  return %0 : tensor<{shape}xf32>
}}
"""
ONE = "func.func @main(%a: tensor<{a}>{b}) -> tensor<{out}> {{\n  %0 = {op}\n  return %0 : tensor<{out}>\n}}\n"


def answer(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> dict:
    path = folder / "program.mlir"
    path.write_text(text)
    assert main(["hlo", "predict", str(path), "--device", "h100"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= {"seconds", "seconds_lower", "seconds_upper", "lower_bound"}
    return dict(found)


def one(op: str, a: str, out: str, b: str = "") -> str:
    return ONE.format(op=op, a=a, out=out, b=b)


def flop(found: dict) -> float:
    return sum(part["flop"] for part in found["by_class"].values())


def moved(found: dict) -> float:
    return sum(part["bytes"] for part in found["by_class"].values())


def test_a_running_sum_takes_microseconds_not_milliseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2^20 floats: 2 operations each and 4 MiB read and written twice, some 5 to 15 us; XLA's 5.5e11 operations took 16.4 ms."""
    n = 1 << 20
    found = answer(tmp_path, SCAN.format(n=n, low=n - 1, window=n), capsys)
    assert flop(found) == 2 * n and moved(found) == 16 * n
    assert (
        2.5e-6 <= found["seconds"] <= 15e-6
        and found["seconds_lower"] <= found["seconds"] <= found["seconds_upper"]
        and not found["lower_bound"]
    )
    pooled = answer(tmp_path, SCAN.format(n=n, low=2, window=3), capsys)  # a short window is no scan
    assert flop(pooled) == 2 * n and set(pooled["by_class"]) == {"reduction"}


def test_an_fft_is_five_n_log_n(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = "128x128x128xcomplex<f32>"
    op = f"stablehlo.fft %a, type = FFT, length = [128, 128, 128] : (tensor<{kind}>) -> tensor<{kind}>"
    found = answer(tmp_path, one(op, kind, kind), capsys)
    assert flop(found) == 5 * 128**3 * math.log2(128**3) and moved(found) == 3 * 2 * 8 * 128**3
    op = "stablehlo.fft %a, type = RFFT, length = [4096] : (tensor<64x4096xf32>) -> tensor<64x2049xcomplex<f32>>"
    found = answer(tmp_path, one(op, "64x4096xf32", "64x2049xcomplex<f32>"), capsys)
    assert flop(found) == 2.5 * 64 * 4096 * 12


@pytest.mark.parametrize(("shape", "axis", "passes"), [("1048576", 0, 4.5), ("1024x1024", 1, 1.0)])
def test_a_long_sort_passes_through_memory_for_every_digit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: str, axis: int, passes: float
) -> None:
    """Four digits of eight bits and a read (arXiv:2206.01784); 1M keys took 2.4 us, less than one pass of them in and out."""
    found = answer(tmp_path, SORT.format(shape=shape, axis=axis), capsys)
    assert moved(found) == passes * 2 * 4 * 2**20 and found["seconds"] >= passes * 2.5e-6


def test_complex_products_are_four_real_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind = "1024x1024xcomplex<f32>"
    op = f"stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<{kind}>, tensor<{kind}>) -> tensor<{kind}>"
    assert flop(answer(tmp_path, one(op, kind, kind, f", %b: tensor<{kind}>"), capsys)) == 8 * 1024**3
    op = f"stablehlo.multiply %a, %b : tensor<{kind}>"
    assert flop(answer(tmp_path, one(op, kind, kind, f", %b: tensor<{kind}>"), capsys)) == 6 * 1024**2


def test_linear_algebra(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """n^3 / 3 and n^2 m: Golub and Van Loan, 4.2 and 3.1."""
    op = "stablehlo.cholesky %a, lower = true : tensor<2048x2048xf32>"
    assert flop(answer(tmp_path, one(op, "2048x2048xf32", "2048x2048xf32"), capsys)) == pytest.approx(2048**3 / 3)
    square, columns = Tensor((512, 512), "f32", 4 * 512**2), Tensor((512, 64), "f32", 4 * 512 * 64)
    solve = OperatorWork("stablehlo.triangular_solve", "linear algebra", (square, columns), (columns,), 2 * 512 * 512 * 64, 1.0)
    assert device_work(solve).flop == 512**2 * 64
    call = OperatorWork("stablehlo.custom_call", "custom call", (square,), (square,), 0, 1.0, called="lapack_spotrf_ffi")
    assert device_work(call).flop == pytest.approx(512**3 / 3)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        (one("stablehlo.custom_call @mine(%a) : (tensor<64x64xf32>) -> tensor<64x64xf32>", "64x64xf32", "64x64xf32"), "custom_call @mine"),
        (
            one(
                "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<?x128xf32>, tensor<128x64xf32>) -> tensor<?x64xf32>",
                "?x128xf32", "?x64xf32", ", %b: tensor<128x64xf32>",
            ),
            "dot_general",
        ),
    ],
)  # fmt: skip
def test_a_sum_that_lacks_a_part_is_a_lower_bound_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, unknown: str
) -> None:
    found = answer(tmp_path, text, capsys)
    assert found["lower_bound"] is True and found["seconds_upper"] is None and found["seconds_lower"] <= found["seconds"]
    assert any(unknown in name for name in found["unknown"])
    out = tmp_path / "out.csv"
    assert main(["hlo", "predict", str(tmp_path / "program.mlir"), "--device", "h100", "--out", str(out)]) == 0
    table = read_csv(out)
    assert bool(table["lower_bound"][0]) and np.isnan(table["seconds_upper"][0]) and table["seconds_lower"][0] == found["seconds_lower"]


def test_collectives_without_a_system_make_a_lower_bound_too(tmp_path: Path) -> None:
    tensor = Tensor((1024, 1024), "bf16", 2 << 20)
    product = OperatorWork(
        "stablehlo.dot_general", "matmul", (tensor, tensor), (tensor,), 2.0 * 1024**3, 6 << 20, matmul=Matmul(1, *[1024] * 3)
    )
    module = Module("m", (Operator(0, product, (-1, -2), 0, 1),), (Scope("main", 0, 1),))
    found = predict(module, devices.load("H100"), "fused")
    assert not found.lower_bound and found.upper_s == pytest.approx(found.seconds * MEASURED["fused"][1] + SLOWEST_LAUNCH_S)
    assert predict(module, devices.load("H100"), "fused", launch_s=1e-5).upper_s == pytest.approx(
        (found.seconds + 1e-5) * MEASURED["fused"][1]
    )


def test_the_interval_is_what_published_steps_left() -> None:
    """data/frozen/hlo_published against the measured times of the same lines."""
    measured = {step.line: step.measured_s for step in published_steps.steps()}
    table = read_csv(DATA / "frozen" / "hlo_published" / "estimates.csv").drop_duplicates(["line", "fidelity", "again"])
    table = table[table["again"]]
    ratio = table["line"].map(measured) / table["time_s"]
    for fidelity, named in (("fused", "fused"), ("shares", "efficiency"), ("roofline", "roofline")):
        low, high = np.quantile(ratio[table["fidelity"] == fidelity], [0.05, 0.95])
        assert MEASURED[named][0] == pytest.approx(low, abs=5e-4)
        assert MEASURED[named][1] == pytest.approx(1.0 if named == "roofline" else high, abs=5e-4)


def test_what_hlo_cost_says_stays_xlas(tmp_path: Path) -> None:
    (tmp_path / "p.mlir").write_text(SORT.format(shape="1048576", axis=0))
    assert read(tmp_path / "p.mlir").flops == 20 * 2**20


def test_no_measured_program_waits_longer_for_a_launch_than_the_interval_says() -> None:
    """Twelve programs timed on an H200 (data/recorded/h200_own); gemm's one kernel waits for Python, not for a launch."""
    folder = DATA / "recorded" / "h200_own"
    said = read_csv(folder / "first_programs.csv").query("fidelity == 'kernels'").merge(read_csv(folder / "programs.csv"), on="program")
    each = ((said["ms"] / 1e3 - said["seconds"]) / said["launches"])[said["launches"] > 100]
    assert len(each) == 7 and 0.9 * SLOWEST_LAUNCH_S < each.max() < SLOWEST_LAUNCH_S
