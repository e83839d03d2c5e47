"""The kit that times operators: its shapes and their work are the committed ones, its runtimes agree, its tables have their columns."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from analysis.__main__ import main
from analysis.artifact.measuring import campaign, timing
from analysis.artifact.measuring.operators import IN_NUMPY, in_jax, operands, parsed, prepared, values
from analysis.documents import read_json
from analysis.tables import read_csv

SMALL = [
    "gemm m=8 n=6 k=5",
    "gemm[bias] m=8 n=6 k=5",
    "bmm batch=3 m=4 n=6 k=5",
    "bmm[transposed] batch=3 m=4 n=6 k=5",
    "softmax batch=2 rows=5 columns=7",
    "layernorm rows=4 columns=6",
    "rmsnorm rows=4 columns=6",
    *(f"elementwise[{name}] elements=33" for name in ("add", "mul", "relu", "silu")),
    "attention[naive] batch=2 heads=2 queries=8 keys=12 head_size=4",
]


@pytest.mark.parametrize("name", SMALL)
def test_jax_and_numpy_agree(name: str) -> None:
    ours = prepared(name, "numpy", "fp32")
    assert ours is not None
    np.testing.assert_allclose(np.asarray(in_jax(name, "fp32")()), ours(), atol=2e-6)
    wide = np.asarray(in_jax(name, "bf16")(), np.float32)
    np.testing.assert_allclose(wide, ours(), atol=3e-2 * max(1.0, np.abs(ours()).max()))


def test_convolution_by_hand() -> None:
    """Stride 2, a window of 3 padded by 1, in two groups: each result is a sum over the window and its group's channels."""
    name = "conv2d[bias] batch=1 height=5 width=5 channels=4 filters=6 window=3 stride=2 groups=2"
    x, w, b = values(name)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = np.empty((1, 3, 3, 6))
    for row, column, filter_ in np.ndindex(3, 3, 6):
        group = slice(0, 2) if filter_ < 3 else slice(2, 4)
        patch = padded[0, 2 * row : 2 * row + 3, 2 * column : 2 * column + 3, group]
        expected[0, row, column, filter_] = (patch * w[..., filter_]).sum() + b[filter_]
    np.testing.assert_allclose(np.asarray(in_jax(name, "fp32")()), expected, atol=1e-6)
    assert prepared(name, "numpy", "fp32") is None


def test_blocked_attention_is_attention() -> None:
    """520 queries and 768 keys: several blocks of 260 and 256, against the definition in double precision."""
    shape = "batch=1 heads=2 queries=520 keys=768 head_size=16"
    q, k, v = values(f"attention[fused] {shape}")
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(float), k) / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(-1, keepdims=True), v)
    for variant in ("fused", "naive"):
        np.testing.assert_allclose(np.asarray(in_jax(f"attention[{variant}] {shape}", "fp32")()), expected, atol=1e-6)


PER_ELEMENT = {"add": 1, "mul": 1, "relu": 1, "gelu": 5, "silu": 4, "softmax": 5, "layernorm": 7, "rmsnorm": 4}
"""Arithmetic an element that the committed tables count; an exponential, error function or division counts as one."""


def work(name: str) -> tuple[int, int]:
    """FLOP and compulsory traffic (elements): 2mnk of a product, 2 k^2 c a result of a convolution, 4d + 5 a score of attention."""
    kind, d = parsed(name)
    moved = sum(math.prod(shape) for shape in operands(name))
    if kind.startswith(("gemm", "bmm")):
        result = d.get("batch", 1) * d["m"] * d["n"]
        return 2 * result * d["k"], moved + result
    if kind.startswith("conv2d"):
        rows, columns = (-(-d[side] // d["stride"]) for side in ("height", "width"))  # odd windows, padded by half
        result = d["batch"] * rows * columns * d["filters"]
        return 2 * result * d["window"] ** 2 * d["channels"] // d["groups"], moved + result
    if kind.startswith("attention"):
        scores = d["batch"] * d["heads"] * d["queries"] * d["keys"]
        return scores * (4 * d["head_size"] + 5), moved + scores // d["keys"] * d["head_size"]
    result = math.prod(d.values())
    return result * PER_ELEMENT[kind.partition("[")[2].rstrip("]") or kind], moved + result


@pytest.mark.parametrize(
    ("name", "flop", "elements"),
    [
        ("gemm m=128 n=768 k=3072", 2 * 128 * 768 * 3072, 128 * 3072 + 3072 * 768 + 128 * 768),
        # ResNet-50's first layer: 118,013,952 multiply-accumulates (112 x 112 x 64 x 7 x 7 x 3)
        (
            "conv2d[bias] batch=1 height=224 width=224 channels=3 filters=64 window=7 stride=2 groups=1",
            2 * 118_013_952,
            224 * 224 * 3 + 7 * 7 * 3 * 64 + 64 + 112 * 112 * 64,
        ),
        ("attention[naive] batch=1 heads=2 queries=3 keys=5 head_size=7", 2 * 3 * 5 * (4 * 7 + 5), 2 * (2 * 3 * 7 + 2 * 5 * 7)),
        ("elementwise[add] elements=10", 10, 30),
    ],
)
def test_work_by_hand(name: str, flop: int, elements: int) -> None:
    assert work(name) == (flop, elements)


@pytest.mark.parametrize("folder", ["one_thread", "two_threads"])
def test_the_shapes_are_the_committed_ones_with_their_work(folder: str) -> None:
    """Every committed shape can be run, and counts the FLOP and traffic that its formulas give; quick has every kind, on both folders."""
    full, quick = campaign.shapes("full", folder), campaign.shapes("quick", folder)
    assert list(zip(full["flop"], full["traffic_elements"], strict=True)) == [work(name) for name in full["operator"]]
    assert set(quick["kind"]) == set(full["kind"]) and len(quick) < 50 and set(quick["operator"]) <= set(full["operator"])
    fused, naive = (set(quick["operator"][quick["variant"] == variant].str.partition(" ")[2]) for variant in ("fused", "naive"))
    assert fused and (folder == "two_threads" or fused == naive)


def test_a_timing_by_hand() -> None:
    """Ten samples 1 to 10 s: median 5.5, deviations .5 .5 1.5 ... 4.5 with median 2.5, percentiles 1.9 and 9.1 (linear)."""
    got = timing.summarise(range(1, 11), 3)  # type: ignore[arg-type]
    assert got == pytest.approx(
        {"median_s": 5.5, "mad_s": 2.5, "p10_s": 1.9, "p90_s": 9.1, "minimum_s": 1, "samples": 10, "calls": 3, "spread": 7.2 / 5.5}
    )


def test_samples_are_long_enough_and_stop_with_the_budget() -> None:
    """A call of 0.1 ms on a clock that only calls advance: three calls make a sample of 0.3 ms; 30 ms hold a hundred of them."""
    now = [0.0]

    def run() -> None:
        now[0] += 1e-4

    got = timing.measure(run, 0.03, clock=lambda: now[0])
    assert got["calls"] in (3, 4) and got["median_s"] == pytest.approx(1e-4) and 75 <= got["samples"] <= 101
    slow = timing.measure(lambda: now.__setitem__(0, now[0] + 1.0), 0.03, clock=lambda: now[0])
    assert (slow["samples"], slow["calls"]) == (5, 1)


def test_peaks_count_what_they_move() -> None:
    """2 n^3 of the product; STREAM's three arrays of the triad and two of a copy, 4 bytes each."""
    assert timing.AMOUNT == {"product": 2 * 1536**3, "triad": 3 * 4 * 2**24, "copy": 2 * 4 * 2**24}
    product = timing.peak("product")()
    assert product.shape == (1536, 1536) and product[0, 0] == pytest.approx(1536 / 4)


def test_a_tiny_suite_writes_the_committed_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through the command: same columns as the committed files, a row a device and operator, positive times, noise that follows."""
    names = ["gemm[bias]", "conv2d[bias]", "attention[fused]"]
    one = campaign.shapes("quick", "one_thread")
    tiny = one.loc[[one["operator"].str.startswith(name).idxmax() for name in names]]
    monkeypatch.setattr(campaign, "shapes", lambda suite, folder: tiny)
    monkeypatch.setattr(campaign, "usable_cores", lambda: (0,))
    monkeypatch.setattr(campaign, "DEVICES", {"one_thread": ("jax-1t-fp32", "numpy-1t-fp32")})
    monkeypatch.setattr(timing, "AMOUNT", {"product": timing.AMOUNT["product"]})
    assert main(["measure", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "jax-1t-fp32: 3 operators, spread of a row" in said and "time over the committed one" in said
    for table in ("operators", "measurements", "peaks", "unsupported"):
        ours, theirs = (read_csv(place / "one_thread" / f"{table}.csv") for place in (tmp_path, campaign.CAMPAIGN))
        assert list(ours) == list(theirs), table
    rows = read_csv(tmp_path / "one_thread" / "measurements.csv")
    assert rows.groupby("device").size().to_dict() == {"jax-1t-fp32": 3, "numpy-1t-fp32": 1}
    assert (rows[[column for column in rows if column.endswith("_s")]] > 0).all(axis=None) and (rows["minimum_s"] <= rows["median_s"]).all()
    unsupported = read_csv(tmp_path / "one_thread" / "unsupported.csv")
    assert set(unsupported["unsupported"]) == {"conv2d bias is not natural in NumPy", "attention fused is not natural in NumPy"}
    peaks = read_csv(tmp_path / "one_thread" / "peaks.csv")
    assert 1e9 < (peaks["amount"] / peaks["minimum_s"]).item() < 1e13
    facts = read_json(tmp_path / "one_thread" / "machine.json")
    assert set(facts) == set(read_json(campaign.CAMPAIGN / "one_thread" / "machine.json")) - {"suite"}
    part = rows[rows["device"] == "jax-1t-fp32"]
    assert facts["noise"]["jax-1t-fp32"]["spread_median"] == pytest.approx(part["spread"].median())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--suite", "tiny"], "expected quick or full"),
        (["--out", str(campaign.CAMPAIGN)], "holds the committed campaign"),
        (["--out", "/proc/measured"], "cannot be written"),
    ],
)
def test_what_cannot_be_measured_is_refused_first(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_numpy_runs_what_the_committed_rows_of_numpy_have() -> None:
    rows = read_csv(campaign.CAMPAIGN / "one_thread" / "measurements.csv")
    timed = set(rows["operator"][rows["device"] == "numpy-1t-fp32"].str.split().str[0])
    assert timed == set(IN_NUMPY)
