"""Neutrino: cycles derived by hand, laws of the schedule, and the integer program against the LSTM's equations worked one by one."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.studies.cores.learning import lstm
from analysis.studies.cores.neutrino.compiler import Network, buffer_bytes, compile_network, largest_batch
from analysis.studies.cores.neutrino.cycles import epoch_cycles, simulate, step_cycles
from analysis.studies.cores.neutrino.int8 import Bits, largest, network_of, quantise, rescale, run_windows, saturate
from analysis.studies.cores.neutrino.machine import VECTOR_OPERATIONS, NeutrinoMachine

PAPER = Network()
WIDE = NeutrinoMachine(port=1 << 20)  # weights arrive at once: what is left is the vector engine

machines = st.builds(NeutrinoMachine, port=st.integers(8, 1024), tiles=st.integers(1, 8), broadcast=st.booleans())
networks = st.builds(
    Network, inputs=st.integers(1, 32), hidden=st.integers(1, 256), layers=st.integers(1, 2), classifier=st.integers(1, 64)
)


def test_the_work_is_the_parameter_table() -> None:
    # 1,073,348 parameters (NeuroScalar, appendix), of which biases: 256 + 2 x 2 x 1024 + 64 + 2 + 1 + 1 = 4,420
    assert PAPER.macs() == 1_073_348 - 4_420
    assert PAPER.weight_bytes() <= NeutrinoMachine().weight_memory


@pytest.mark.parametrize(("batch", "layer"), [(1, 2066), (2, 4132), (4, 8264), (5, 10330)])
def test_cycles_of_a_layer_by_hand(batch: int, layer: int) -> None:
    """Eight products of 256 cycles and 18 vector instructions for each sequence.

    The 18: bias, quantise, activation for each of four gates; two products and a sum for the cell; quantise, tanh and a product for the
    output. 8 x 256 x 4 + 18 x 4 = 8264: the paper prints 8264 cycles a layer and 99 % (section 4.3.2), which four sequences give and one
    does not.
    """
    cycles = step_cycles(compile_network(PAPER, WIDE, batch), WIDE)
    assert cycles.by_part["layer0"] == cycles.by_part["layer1"] == layer == batch * (8 * 256 + 18)
    assert 8 * 256 * 256 * batch / (256 * layer) == pytest.approx(0.9913, abs=5e-5)
    # Projection: 13 rows, bias, quantise. Heads: 256 rows, bias, store, quantise, relu; 64 rows, bias, store.
    assert cycles.by_part["projection"] == batch * 15 and cycles.by_part["heads"] == batch * 326


@pytest.mark.parametrize(("batch", "port", "hidden_cost"), [(1, 256, False), (1, 252, True), (4, 64, False), (4, 60, True)])
def test_the_port_that_hides_the_weights(batch: int, port: int, hidden_cost: bool) -> None:
    """Eight matrices of 65,536 bytes in 2066 cycles a sequence: 253.8 / batch bytes a cycle are the least that keep up."""
    machine = NeutrinoMachine(port=port)
    layer = step_cycles(compile_network(PAPER, machine, batch), machine).by_part["layer1"]
    assert (layer > batch * 2066) == hidden_cost


def test_one_sequence_behind_the_port_of_four() -> None:
    # 64 bytes a cycle: eight matrices take 8 x 1024 cycles, whatever the one sequence needs.
    machine = NeutrinoMachine(port=64)
    cycles = step_cycles(compile_network(PAPER, machine, 1), machine)
    assert cycles.by_part["layer1"] == 8 * 65536 / 64


def test_buffers_hold_five_sequences() -> None:
    # 2 layers x (256 + 512) + 5 x 256 = 2816 bytes a sequence; 16,384 / 2816 = 5.8
    assert buffer_bytes(PAPER, 1) == 2816 and largest_batch(PAPER, NeutrinoMachine()) == 5
    with pytest.raises(InputError, match="5 fit"):
        compile_network(PAPER, NeutrinoMachine(), 6)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: NeutrinoMachine(lanes=0), "lanes"),
        (lambda: NeutrinoMachine(weight_buffer=65536), "weight_buffer"),
        (lambda: compile_network(Network(hidden=257), NeutrinoMachine(), 1), "hidden"),
        (lambda: compile_network(Network(layers=3), NeutrinoMachine(), 1), "weight_memory"),
        (lambda: compile_network(PAPER, NeutrinoMachine(), 0), "batch"),
        (lambda: epoch_cycles(compile_network(PAPER, NeutrinoMachine(), 1), NeutrinoMachine(), target=300), "target"),
        (lambda: Network(inputs=0), "inputs"),
        (lambda: Bits(weights=1), "weights"),
    ],
)
def test_what_does_not_fit_is_refused(build: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        build()  # type: ignore[operator]


@settings(max_examples=40, deadline=None)
@given(networks, machines, st.integers(1, 5))
def test_no_cycle_without_lanes(network: Network, machine: NeutrinoMachine, batch: int) -> None:
    """Cycles >= multiply-accumulates / lanes; a wider port is never slower; what waits is what a port that is free at once saves."""
    compiled = compile_network(network, machine, min(batch, largest_batch(network, machine)))
    program = compiled.step + compiled.heads
    got = simulate(program, machine)
    assert got.macs == network.macs() * compiled.batch
    assert got.total >= got.macs / machine.lanes
    assert sum(got.by_part.values()) == pytest.approx(got.total) == pytest.approx(sum(i.vector_cycles for i in program) + got.waits)
    assert simulate(program, replace(machine, port=2 * machine.port)).total <= got.total + 1e-6
    assert 0 < got.utilisation <= 1


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 7), st.integers(16, 512), st.booleans(), st.sampled_from([0, 64, 128, 256]), st.integers(1000, 100_000))
def test_more_tiles_are_never_slower(tiles: int, port: int, broadcast: bool, target: int, instructions: int) -> None:
    compiled = compile_network(PAPER, NeutrinoMachine(), 4)
    few, more = (
        epoch_cycles(compiled, NeutrinoMachine(port=port, broadcast=broadcast, tiles=t), instructions, target=target)
        for t in (tiles, tiles + 1)
    )
    assert more.cycles <= few.cycles + 1e-6
    assert few.utilisation <= 1 and more.utilisation <= 1  # and no faster than all lanes of all tiles allow


def test_a_batch_never_costs_more_for_each_sequence() -> None:
    for port in (16, 64, 256):
        machine = NeutrinoMachine(port=port)
        each = [step_cycles(compile_network(PAPER, machine, batch), machine).total / batch for batch in range(1, 6)]
        assert each == sorted(each, reverse=True)


def test_epoch_by_hand() -> None:
    """100,000 instructions in windows of 256 with 128 predicted: 782 windows, four at a time on a tile: 196 rounds; 98 on two tiles."""
    compiled = compile_network(PAPER, WIDE, 4)
    context, both = 4 * (15 + 2 * 2066), 4 * (15 + 2 * 2066 + 326)
    for tiles, rounds in ((1, 196), (2, 98), (8, 25)):
        epoch = epoch_cycles(compiled, replace(WIDE, tiles=tiles))
        assert epoch.sequences == 782
        assert epoch.cycles == pytest.approx(rounds * 128 * (context + both), abs=1)  # the very first tile of weights may be waited for


# --- integers


@settings(deadline=None)
@given(st.floats(1e-6, 100), st.integers(-(1 << 23), 1 << 23))
def test_rescale_is_a_multiplication(factor: float, value: int) -> None:
    # A 15-bit multiplier is off by at most 2^-15 of the product, rounding by a half.
    got = int(rescale(factor)(np.int64(value)))
    assert abs(got - value * factor) <= 0.5 + abs(value * factor) * 2.0**-15


def test_a_vanishing_factor_makes_zero() -> None:
    assert rescale(1e-15)(np.array([1 << 30, -(1 << 30)])).tolist() == [0, 0]


@pytest.mark.parametrize("factor", [0.0, -1.0, 1e9])
def test_rescale_refuses(factor: float) -> None:
    with pytest.raises(ValueError, match="factor"):
        rescale(factor)


def _small(seed: int, hidden: int = 6, deviation: float = 1.2) -> tuple[dict[str, np.ndarray], np.ndarray]:
    shape = lstm.LstmShape(inputs=5, hidden=hidden, layers=2, classifier=4)
    rng = np.random.default_rng(seed)
    parameters = {name: rng.normal(0, deviation, size).astype(np.float32) for name, size in lstm.parameter_shapes(shape).items()}
    return parameters, rng.standard_normal((3, 7, 5)) * [1, 10, 0.1, 2, 3]


def _round(value: int, multiplier: int, shift: int) -> int:
    """value x multiplier / 2^shift, halves up, in Python's unbounded integers."""
    return (value * multiplier + (1 << (shift - 1))) // (1 << shift)


def _by_the_equations(q: object, window: list[list[int]], left: int, target: int) -> list[tuple[int, int, int, int]]:
    """The quantised network written out unit by unit, with no program, batch or array."""
    bits, top = q.bits, largest(q.bits.activations)  # type: ignore[attr-defined]
    hidden, classifier = q.network.hidden, q.network.classifier  # type: ignore[attr-defined]
    tiles, biases, rescales, tables = q.tiles, q.biases, q.rescales, q.tables  # type: ignore[attr-defined]

    def scaled(name: str, value: int, lane: int) -> int:
        r = rescales[name]
        return _round(
            int(value),
            int(np.broadcast_to(r.multiplier, (hidden,))[lane] if np.ndim(r.multiplier) == 0 else r.multiplier[lane]),
            int(np.broadcast_to(r.shift, (hidden,))[lane] if np.ndim(r.shift) == 0 else r.shift[lane]),
        )

    def cut(value: int, width: int) -> int:
        return max(-largest(width), min(largest(width), value))

    def dot(vector: list[int], tile: str, lane: int) -> int:
        return sum(a * int(tiles[tile][row, lane]) for row, a in enumerate(vector))

    h, c = ([[0] * hidden for _ in range(2)] for _ in range(2))
    out = []
    for step, features in enumerate(window):
        x = [
            cut(scaled("projection.scale", dot(features, "projection.weight", u) + int(biases["projection.bias"][u]), u), bits.activations)
            for u in range(hidden)
        ]
        for layer in range(2):
            gates = {}
            for gate in "ifgo":
                name = f"layer{layer}.{gate}"
                values = []
                for u in range(hidden):
                    total = dot(x, f"{name}.input", u) + dot(h[layer], f"{name}.recurrent", u) + int(biases[f"{name}.bias"][u])
                    index = cut(scaled(f"{name}.scale", total, u), bits.activations) + top
                    values.append(int(tables["tanh" if gate == "g" else "sigmoid"][index]))
                gates[gate] = values
            for u in range(hidden):
                kept = cut(scaled("cell", gates["f"][u] * c[layer][u], u), bits.cell)
                new = cut(scaled("new", gates["i"][u] * gates["g"][u], u), bits.cell)
                c[layer][u] = cut(kept + new, bits.cell)
                squashed = int(tables["tanh"][cut(scaled("cell.scale", c[layer][u], u), bits.activations) + top])
                h[layer][u] = cut(scaled("output", gates["o"][u] * squashed, u), bits.activations)
            x = list(h[layer])
        if left <= step < left + target:
            first = [dot(h[1], "heads.weight", u) + int(biases["heads.bias"][u]) for u in range(classifier + 2)]
            units = [
                max(
                    0,
                    cut(
                        _round(first[u], int(rescales["heads.scale"].multiplier[u]), int(rescales["heads.scale"].shift[u])),
                        bits.activations,
                    ),
                )
                for u in range(classifier)
            ]
            logits = [dot(units, "classifier.weight", u) + int(biases["classifier.bias"][u]) for u in range(2)]
            out.append((first[classifier], first[classifier + 1], *logits))
    return out


@pytest.mark.parametrize(("seed", "bits", "batch"), [(0, Bits(), 1), (1, Bits(), 2), (2, Bits(), 4), (3, Bits(12, 6, 10, 14), 3)])
def test_the_program_computes_the_equations_bit_for_bit(seed: int, bits: Bits, batch: int) -> None:
    parameters, windows = _small(seed)
    q = quantise(parameters, windows, bits)
    got = run_windows(q, compile_network(network_of(parameters), NeutrinoMachine(), batch), windows, left=2, target=4)
    for index, window in enumerate(windows):
        expected = np.array(_by_the_equations(q, q.features(window).tolist(), 2, 4))
        np.testing.assert_allclose(got.short[index], expected[:, 0] * q.head_step[-2], rtol=1e-12)
        np.testing.assert_allclose(got.long[index], expected[:, 1] * q.head_step[-1], rtol=1e-12)
        np.testing.assert_allclose(got.logits[index], expected[:, 2:] * q.classifier_step, rtol=1e-12)
    operations = {i.operation for i in compile_network(network_of(parameters), NeutrinoMachine(), batch).step}
    assert operations | {"relu", "store"} == {*VECTOR_OPERATIONS, "stage"}


def test_wide_integers_are_fp32() -> None:
    """With 16 bits and more the integer network approaches the JAX one: the quantisation, not the program, makes the difference."""
    parameters, windows = _small(5, hidden=24, deviation=0.3)  # pre-activations stay within the tables' reach
    jax_parameters = {name: jnp.asarray(value) for name, value in parameters.items()}
    short, long, logits = lstm.heads(jax_parameters, lstm.encode(jax_parameters, jnp.asarray(windows, jnp.float32)))
    compiled = compile_network(network_of(parameters), NeutrinoMachine(), 2)
    errors = []
    for bits in (Bits(), Bits(12, 12, 12, 18), Bits(20, 16, 16, 24)):
        got = run_windows(quantise(parameters, windows, bits), compiled, windows, 0, windows.shape[1])
        errors.append(max(float(np.abs(a - b).max()) for a, b in ((got.short, short), (got.long, long), (got.logits, logits))))
    assert errors[0] > errors[1] > errors[2] and errors[2] < 5e-3


def test_a_bidirectional_network_is_refused() -> None:
    shapes = lstm.parameter_shapes(lstm.LstmShape(hidden=4, bidirectional=True))
    with pytest.raises(InputError, match="bidirectional"):
        network_of({name: np.zeros(size) for name, size in shapes.items()})


@given(st.lists(st.integers(-(1 << 40), 1 << 40), min_size=1), st.integers(2, 24))
def test_saturation(values: list[int], bits: int) -> None:
    got = saturate(np.array(values), bits)
    assert np.abs(got).max() <= largest(bits) == 2 ** (bits - 1) - 1
    assert all(a == b for a, b in zip(got.tolist(), values, strict=True) if abs(b) <= largest(bits))
