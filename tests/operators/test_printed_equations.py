"""The survey's equations for operators, each against hand-worked numbers, a library, or a law that it must obey."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.artifact.claims.equations import attainable_flop_per_s, ridge_flop_per_byte
from analysis.hardware.roofline import Rates, time_on_device
from analysis.studies.kernels import learned
from analysis.studies.kernels.tiles import as_waves, greedy_kernel_latency, kernel_latency, kernel_latency_as_printed
from analysis.studies.kernels.wave_scaling import split_by_roofline, wave_scaling

V100 = Rates(15.7e12, 900e9)  # NVIDIA V100 data sheet: 15.7 TFLOP/s FP32, 900 GB/s
A100 = Rates(19.5e12, 1555e9)  # NVIDIA A100 40 GB data sheet: 19.5 TFLOP/s FP32, 1,555 GB/s
devices = st.builds(Rates, st.floats(1e9, 1e15), st.floats(1e9, 1e13))
work = st.just(0.0) | st.floats(1, 1e15)  # no work, or at least one operation or byte
part_s = st.just(0.0) | st.floats(1e-9, 1)
times = st.lists(st.floats(0, 10), min_size=1, max_size=40)


def test_roofline_by_hand() -> None:
    assert ridge_flop_per_byte(V100) == pytest.approx(17.444, abs=1e-3)
    assert attainable_flop_per_s(V100, 10) == 9e12  # memory side
    assert attainable_flop_per_s(V100, 100) == 15.7e12  # compute side
    bound = time_on_device(157e9, 900e6, V100)  # 10 ms of compute, 1 ms of traffic
    assert (bound.latency_s, bound.bound_by) == (pytest.approx(0.01), "compute")


@given(devices, work, work)
def test_nothing_beats_the_roofline(device: Rates, flop: float, bytes_moved: float) -> None:
    bound = time_on_device(flop, bytes_moved, device)
    assert bound.latency_s == max(bound.compute_s, bound.memory_s)
    if bytes_moved > 0 and flop > 0:
        rate = attainable_flop_per_s(device, flop / bytes_moved)
        assert flop / bound.latency_s == pytest.approx(rate, rel=1e-9)
        assert rate <= device.flop_per_s


def test_roofline_refuses() -> None:
    with pytest.raises(ValueError):
        Rates(0, 1)
    with pytest.raises(ValueError):
        attainable_flop_per_s(V100, -1)
    with pytest.raises(ValueError):
        time_on_device(-1, 0, V100)


def test_wave_scaling_by_hand() -> None:
    # 8 ms x 15.7/19.5 + 2 ms x 900/1555 = 6.4410 + 1.1576 ms
    scaled = wave_scaling(8e-3, 2e-3, V100, A100)
    assert scaled.latency_s == pytest.approx(7.5986e-3, rel=1e-4)
    assert scaled.compute_s == pytest.approx(6.4410e-3, rel=1e-4)


@given(part_s, part_s, devices, devices)
def test_wave_scaling_there_and_back_changes_nothing(compute_s: float, memory_s: float, one: Rates, other: Rates) -> None:
    there = wave_scaling(compute_s, memory_s, one, other)
    assert wave_scaling(there.compute_s, there.memory_s, other, one).latency_s == pytest.approx(compute_s + memory_s, rel=1e-9)
    assert wave_scaling(compute_s, memory_s, one, one).latency_s == pytest.approx(compute_s + memory_s)


def test_a_latency_splits_in_the_ratio_of_the_roofline_terms() -> None:
    compute_s, memory_s = split_by_roofline(11e-3, 157e9, 900e6, V100)  # terms 10 ms and 1 ms
    assert (compute_s, memory_s) == (pytest.approx(10e-3), pytest.approx(1e-3))
    with pytest.raises(ValueError):
        split_by_roofline(1.0, 0, 0, V100)


def test_tiles_by_hand_the_two_readings_differ() -> None:
    """Two waves of three tiles of 1 s and a last one of one tile of 2 s: 1 + 1 + 2 = 4 s on the device, 3 s by the print."""
    waves = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [2.0]]
    assert kernel_latency(waves) == 4
    assert kernel_latency_as_printed(waves) == 3
    assert as_waves([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.001, 5))
def test_equal_tiles_take_ceil_of_waves(tiles: int, slots: int, tile_s: float) -> None:
    waves = as_waves([tile_s] * tiles, slots)
    assert kernel_latency(waves) == pytest.approx(math.ceil(tiles / slots) * tile_s)
    # as printed, one full wave takes as long as all its tiles in a row, however wide the device
    assert kernel_latency_as_printed(waves) == pytest.approx(min(tiles, slots) * tile_s)


@given(times, st.integers(1, 10))
def test_tile_aggregation_obeys_its_bounds(tile_s: list[float], slots: int) -> None:
    by_waves, greedy = kernel_latency(as_waves(tile_s, slots)), greedy_kernel_latency(tile_s, slots)
    least = max(max(tile_s), sum(tile_s) / slots)
    assert least - 1e-9 <= greedy <= by_waves + 1e-9
    assert by_waves <= sum(tile_s) + 1e-9
    if slots == 1:
        assert by_waves == pytest.approx(sum(tile_s))
        assert kernel_latency_as_printed(as_waves(tile_s, 1)) == max(tile_s)  # one tile at a time, and yet the longest alone


@pytest.mark.parametrize("bad", [[], [[]], [[-1.0]]])
def test_tiles_refuse(bad: list[list[float]]) -> None:
    with pytest.raises(ValueError):
        kernel_latency(bad)
    with pytest.raises(ValueError):
        kernel_latency_as_printed(bad)


def test_attention_by_hand() -> None:
    # scores 1/sqrt(1) x [0, ln 3] -> weights 1/4, 3/4
    out = learned.attention(np.array([[1.0]]), np.array([[0.0], [np.log(3)]]), np.array([[4.0], [8.0]]))
    assert out == pytest.approx(np.array([[7.0]]))


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.integers(0, 1000))
def test_attention_mixes_and_does_not_depend_on_the_order_of_keys(n: int, m: int, d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q, k, v = rng.normal(size=(n, d)), rng.normal(size=(m, d)), rng.normal(size=(m, 3))
    out = learned.attention(q, k, v)
    assert (out >= v.min(axis=0) - 1e-9).all() and (out <= v.max(axis=0) + 1e-9).all()
    shuffle = rng.permutation(m)
    assert learned.attention(q, k[shuffle], v[shuffle]) == pytest.approx(out)
    assert learned.attention(q, np.zeros_like(k), v) == pytest.approx(np.tile(v.mean(axis=0), (n, 1)))


def test_softmax_does_not_overflow() -> None:
    assert learned.softmax(np.array([1000.0, 1000.0])) == pytest.approx(np.array([0.5, 0.5]))


def test_message_passing_by_hand() -> None:
    # 0 -> 1 and 2 -> 1, messages h_u * e: 1 x 2 + 5 x 3 = 17; update adds
    nodes, edges, weights = np.array([[1.0], [10.0], [5.0]]), np.array([[0, 1], [2, 1]]), np.array([[2.0], [3.0]])
    out = learned.message_passing(nodes, edges, weights, lambda h, e: h * e, lambda h, received: h + received)
    assert out.tolist() == [[1.0], [27.0], [5.0]]
    assert learned.granite_round(nodes, edges, lambda h: h).tolist() == [[1.0], [16.0], [5.0]]
    with pytest.raises(ValueError):
        learned.message_passing(nodes, np.array([[0, 3]]), weights[:1], lambda h, e: h, lambda h, r: h)


@given(st.integers(2, 8), st.integers(0, 500))
def test_message_passing_does_not_depend_on_how_nodes_are_numbered(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes, edges = rng.normal(size=(n, 3)), rng.integers(0, n, size=(2 * n, 2))
    out = learned.granite_round(nodes, edges, np.tanh)
    new_number = rng.permutation(n)
    renumbered = np.empty_like(nodes)
    renumbered[new_number] = nodes
    again = learned.granite_round(renumbered, new_number[edges], np.tanh)
    assert again[new_number] == pytest.approx(out)


def test_linear_model_and_layer() -> None:
    x = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    y = learned.linear(x, np.array([2.0, -3.0]), 0.5)
    assert y.tolist() == [2.5, -2.5, -0.5, 1.5]
    layer = learned.mlp_layer(np.array([1.0, -1.0]), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.5, 0.5]))
    assert layer.tolist() == [1.5, 0.0]


def test_all_predictors_share_one_interface() -> None:
    """Equation 3: the roofline and the linear model are called alike."""
    roofline: learned.Predictor[tuple[float, float], Rates] = lambda w, h: time_on_device(*w, h).latency_s  # noqa: E731
    theta = np.array([1e-13, 1e-12])
    fitted: learned.Predictor[tuple[float, float], Rates] = lambda w, h: float(learned.linear(np.array(w), theta, 0.0))  # noqa: E731
    assert [f((1e12, 1e9), V100) for f in (roofline, fitted)] == pytest.approx([1e12 / 15.7e12, 0.101])
