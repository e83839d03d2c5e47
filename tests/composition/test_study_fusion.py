"""The study's fusion rule on programs small enough to count by hand, and its scores on made-up steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax import lax

from analysis.paths import DATA
from analysis.predict.program import device_rates, study_fusion
from analysis.studies.composition import study_score, study_step
from analysis.studies.workloads.zoo import published_steps
from analysis.tables import read_csv
from analysis.workloads.graph import Module
from analysis.workloads.hlo import reader as hlo
from tests.workloads.hlo_oracle import lowered_text, our_module, xla_cost


def module_of(tmp_path: Path, function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = jnp.float32) -> Module:
    path = tmp_path / "program.mlir"
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    path.write_text(jax.jit(function).lower(*arguments).as_text())
    return hlo.read(path)


def moved(module: Module, **options: Any) -> list[tuple[str, float]]:
    return [(kernel.kind, kernel.bytes) for kernel in study_fusion.kernels(module, **options) if kernel.bytes]


def test_a_chain_is_one_kernel_that_reads_its_inputs_and_writes_its_end(tmp_path: Path) -> None:
    # exp(a + b) * a on 1000 fp32 numbers: a and b are read, the result is written: 3 x 4,000 bytes.
    found = moved(module_of(tmp_path, lambda a, b: lax.exp(a + b) * a, (1000,), (1000,)))
    assert found == [("elementwise", 12000.0)]


def test_a_reduction_ends_a_kernel_and_what_is_cheap_is_made_again(tmp_path: Path) -> None:
    # x - sum(x): the sum reads 100 x 50 numbers and writes 100; the difference reads both and writes 100 x 50.
    def centred(x: Any) -> Any:
        doubled = x * 2.0
        return doubled - lax.broadcast_in_dim(lax.reduce_sum(doubled, (1,)), (100, 50), (0,))

    found = sorted(moved(module_of(tmp_path, centred, (100, 50))))
    assert found == [("elementwise", 4.0 * (5000 + 100 + 5000)), ("reduction", 4.0 * (5000 + 100))]
    # Without making again, the doubled x is written by the first kernel and read by the second.
    kept = sorted(moved(module_of(tmp_path, centred, (100, 50)), rematerialize=False))
    assert sum(size for _, size in kept) == sum(size for _, size in found) + 4.0 * 5000


def test_a_transcendental_is_written_not_made_again(tmp_path: Path) -> None:
    def normalised(x: Any) -> Any:
        raised = lax.exp(x)
        return raised / lax.broadcast_in_dim(lax.reduce_sum(raised, (1,)), (100, 50), (0,))

    found = sorted(moved(module_of(tmp_path, normalised, (100, 50))))
    assert found == [("elementwise", 4.0 * (5000 + 100 + 5000)), ("reduction", 4.0 * (5000 + 100 + 5000))]


def test_a_product_stands_alone(tmp_path: Path) -> None:
    # relu(A B): the product writes C, the relu reads and writes it.
    found = sorted(moved(module_of(tmp_path, lambda a, b: lax.max(a @ b, jnp.zeros((8, 8))), (8, 16), (16, 8))))
    assert found == [("elementwise", 4.0 * 128), ("matmul", 4.0 * (128 + 128 + 64))]


def test_a_loop_reads_a_slice_of_its_stack(tmp_path: Path) -> None:
    # Ten trips, each adds its row of 1,000 numbers: read carry and row, write carry.
    def total(x: Any, rows: Any) -> Any:
        return lax.scan(lambda x, row: (x + row * 2.0, None), x, rows)[0]

    module = module_of(tmp_path, total, (1000,), (10, 1000))
    big = [kernel for kernel in study_fusion.kernels(module) if kernel.trips == 10 and kernel.bytes > 10000]
    assert sum(kernel.bytes for kernel in big) == 10 * 3 * 4000.0


def test_scores_stay_on_the_chip(tmp_path: Path) -> None:
    from analysis.studies.workloads.zoo import transformer as zt

    def attend(q: Any, k: Any, v: Any) -> Any:
        return zt.attention(q, k, v, None)

    shape = (2, 64, 4, 8)
    module = module_of(tmp_path, attend, shape, shape, shape)
    fused = moved(module, on_chip=study_score.scores_on_chip(64))
    written_out = moved(module)
    # q, k, v read and the result written by the two products; scores (2 x 4 x 64 x 64) only where they are written out.
    assert sum(size for kind, size in fused if kind == "matmul") == 4.0 * 4 * 2 * 64 * 4 * 8
    assert sum(size for _, size in written_out) > sum(size for _, size in fused) + 4 * 4.0 * 2 * 4 * 64 * 64


def test_a_share_of_a_peak_is_slower_than_the_peak() -> None:
    for step in published_steps.steps()[::20]:
        peaks, shares = (study_step.rates(step.device, step.arithmetic, with_shares) for with_shares in (False, True))
        assert shares[0].flop_per_s < peaks[0].flop_per_s and shares[1].flop_per_s == peaks[1].flop_per_s
        assert shares[0].bandwidth_bytes_per_s == shares[1].bandwidth_bytes_per_s < peaks[0].bandwidth_bytes_per_s


def test_the_study_frozen_before_scoring_is_recomputed_bit_for_bit() -> None:
    # data/frozen/hlo_published/estimates.csv, written at commit b963dfa before any step was scored; every column, compared with ==.
    every = published_steps.steps()
    chosen = [
        next(step for step in every if step.workload.startswith("resnet")),
        next(step for step in every if step.workload == "transformer"),
    ]
    frozen = read_csv(DATA / "frozen" / "hlo_published" / "estimates.csv").rename(columns=study_score.FROZEN_AS)
    kept = pd.concat([frozen[frozen["line"] == step.line] for step in chosen], ignore_index=True)
    found = study_score.estimates(chosen)
    assert len(found) > 0
    pd.testing.assert_frame_equal(found, kept, check_exact=True)


def test_shares_are_shares_and_unlisted_devices_take_the_default() -> None:
    assert all(0.5 < value < 1 for share in device_rates.shares().values() for value in (share.matrix, share.fp32_matrix, share.memory))
    # 267.9 of 312 TFLOP/s (mag-/gpu_benchmark, A100 SXM), times what a typical large product reaches of the best.
    file = device_rates.read_yaml(device_rates.PATH, device_rates.ShareFile)
    assert device_rates.share_of("A100-SXM4-80GB").matrix == pytest.approx(267.9 / 312 * file.typical_over_best)
    assert device_rates.share_of("L4") == device_rates.shares()["default GPU"]
    assert device_rates.share_of("TPU-v4") == device_rates.shares()["default TPU"]


def test_constants_leave_out_what_they_say() -> None:
    frame = pd.DataFrame(
        {"device": ["a", "a", "b"], "flop": [10.0, 20.0, 30.0], "peak": [10.0, 10.0, 10.0], "measured_s": [2.0, 4.0, 12.0]}
    )
    # shares: 0.5, 0.5 on a; 0.25 on b.
    assert study_score.constant_elsewhere(frame, "device") == pytest.approx([1 / 0.25, 2 / 0.25, 3 / 0.5])
    within = study_score.constant_within(frame, "device")
    assert within[:2] == pytest.approx([2.0, 4.0]) and np.isnan(within[2])


def test_trends_count_pairs_of_devices() -> None:
    frame = pd.DataFrame(
        {
            "group": ["g"] * 3 + ["h"],
            "device": ["x", "y", "z", "x"],
            "source": ["s", "s", "t", "u"],
            "unit_s": [1.0, 2.0, 3.0, 1.0],
            "up_unit_s": [1.0, 2.0, 3.0, 1.0],
            "down_unit_s": [3.0, 2.0, 1.0, 1.0],
            "flat_unit_s": [1.0, 1.0, 1.0, 1.0],
        }
    )
    table = study_score.trends(frame, ["up", "down", "flat"])
    assert table.to_dict("records") == [{"group": "g", "devices": 3, "pairs": 3, "up": 1.0, "down": -1.0, "flat": 0.0, "cluster": "s, t"}]
    two = pd.concat([table, table.assign(cluster="u", up=0.0)])
    assert study_score.mean_tau(two, "up", 10, 0, against="down").value == 1.5


def test_sources_are_one_cluster_where_they_are_linked() -> None:
    sets = [frozenset("ab"), frozenset("c"), frozenset("bd"), frozenset("e")]
    assert study_score.together(sets) == ["a, b, d", "c", "a, b, d", "e"]


def _rows_of(table: Any, places: Any) -> Any:
    numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    return lax.gather(table, places, numbers, (1, table.shape[1]), mode="promise_in_bounds")


def _added(table: Any, places: Any, rows: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    return lax.scatter_add(table, places, rows, numbers, mode="promise_in_bounds")


@pytest.mark.parametrize(("table", "many"), [(1000, 30), (10, 5000)])
def test_a_gather_reads_what_it_gathers_and_a_scatter_what_it_changes(table: int, many: int) -> None:
    """Bytes by XLA's cost analysis: a gather's indices and twice its result, a scatter's indices and three times its updates."""
    rows, places, new = (jax.ShapeDtypeStruct(*each) for each in (((table, 64), "f4"), ((many, 1), "i4"), ((many, 64), "f4")))
    for function, arguments, counted in (
        (_rows_of, (rows, places), 4 * many + 2 * 256 * many),
        (_added, (rows, places, new), 4 * many + 3 * 256 * many),
    ):
        text = lowered_text(function, *arguments)
        assert xla_cost(text)["bytes"] == counted
        assert sum(size for _, size in moved(our_module(text))) == counted
    # As the rule was stated: the whole table, whatever is gathered, or nothing where the rows can be made again.
    first = moved(our_module(lowered_text(_rows_of, rows, places)), as_stated=True)
    assert sum(size for _, size in first) == 256 * (table + many) + 4 * many


def test_a_gather_is_read_where_it_is_used_and_zeros_under_a_scatter_are_written() -> None:
    shapes = (jax.ShapeDtypeStruct(*each) for each in (((1000, 64), "f4"), ((30, 1), "i4"), ((30, 64), "f4")))
    rows, places, new = shapes
    # exp of the rows: one kernel reads indices and rows and writes as much.
    assert moved(our_module(lowered_text(lambda t, i: jnp.exp(_rows_of(t, i)), rows, places))) == [("elementwise", 120.0 + 2 * 7680)]
    # An embedding's gradient: zeros for all of the table, then the rows that are added.
    gradient = lowered_text(lambda i, v: _added(jnp.zeros((1000, 64)), i, v), places, new)
    assert sum(size for _, size in moved(our_module(gradient))) == 256000 + 120 + 2 * 7680
