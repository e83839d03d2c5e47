"""The paper's network: its parameters one by one, and what it can see."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from analysis.artifact.claims.arithmetic_neuroscalar import lstm_parameters
from analysis.paths import DATA
from analysis.studies.cores.learning.instruction_features import FEATURES, fit_scaling
from analysis.studies.cores.learning.lstm import (
    LstmShape,
    count,
    draw,
    encode,
    instruction_vectors,
    joint_loss,
    parameter_shapes,
    predicted_target,
    recurrence,
)
from analysis.studies.cores.learning.paper_training import cut
from analysis.tables import read_csv

PRINTED = DATA / "claims" / "printed" / "neuroscalar_parameters.csv"


def test_parameters_are_the_papers_one_by_one() -> None:
    """NeuroScalar, appendix: 18 rows, 1,073,348 in all."""
    printed = read_csv(PRINTED).set_index("parameter")["printed"].to_dict()
    ours = {name: math.prod(shape) for name, shape in parameter_shapes(LstmShape()).items()}
    assert ours == {name: printed[name] for name in ours}
    assert set(printed) - set(ours) <= {"Total", "total"}
    assert count(parameter_shapes(LstmShape())) == 1_073_348


def test_two_directions_have_more_than_twice_as_many() -> None:
    """Section 3.3.1 says bidirectional: that would be 2,667,204 (our count; the paper does not print it)."""
    assert count(parameter_shapes(LstmShape(bidirectional=True))) == 2_667_204
    for hidden, layers, both in ((64, 1, False), (64, 3, True), (128, 2, True)):
        shape = LstmShape(hidden=hidden, layers=layers, bidirectional=both)
        assert count(parameter_shapes(shape)) == lstm_parameters(13, hidden, layers, both, projection=hidden)


def test_a_cell_is_the_formula() -> None:
    """Hochreiter and Schmidhuber 1997, in the gate order of the paper's parameter table (input, forget, cell, output)."""
    generator = np.random.default_rng(0)
    x, w, u, b = (generator.normal(size=size).astype(np.float32) for size in ((5, 1, 3), (8, 3), (8, 2), (8,)))
    h, c, expected = np.zeros(2), np.zeros(2), []
    for t in range(5):
        i, f, g, o = np.split(w @ x[t, 0] + u @ h + b, 4)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        expected.append(h)
    gates_x = x @ w.T + b
    assert np.allclose(recurrence(gates_x, u.T, False)[:, 0], expected, atol=1e-6)
    assert np.allclose(recurrence(gates_x[::-1].copy(), u.T, True)[::-1, 0], expected, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_gradients_are_the_differences(reverse: bool) -> None:
    """Ours are written down by hand; here beside central differences of the states' weighted sum."""
    generator = np.random.default_rng(1)
    gates_x, recurrent, weight = (generator.normal(size=size).astype(np.float32) for size in ((6, 2, 12), (3, 12), (6, 2, 3)))
    summed = jax.jit(lambda a, b: (recurrence(a, b, reverse) * weight).sum())
    check_grads(summed, (gates_x, recurrent), order=1, modes=["rev"], atol=1e-2, rtol=1e-2)


def test_categories_are_embedded_and_concatenated() -> None:
    """Section 3.1.2: seven categories each with a row of its own, then the projected addresses; row 0 of a category: outside the trace."""
    parameters = draw(parameter_shapes(LstmShape(hidden=4, embedding=3)), 0)
    raw = np.zeros((2, len(FEATURES)), np.float32)
    raw[1, FEATURES.index("source2_number")] = 31
    raw[1, FEATURES.index("address_low")] = 5
    scaling = fit_scaling(raw, categories=True)
    at = jnp.array([[[-1, 0, len(raw)]]])  # one member's window of four instructions, from the one before the trace on
    window = cut(jnp.asarray(raw), at, scaling.mean[None], scaling.deviation[None], 4)[0]
    got = np.asarray(jax.jit(instruction_vectors)(parameters, jnp.asarray(window)))[0]
    assert got.shape == (4, 24)
    table = np.asarray(parameters["embedding.weight"])
    assert len(table) == (24 + 1) + 3 * (3 + 1) + 3 * (32 + 1)  # operation classes; of three registers class and number
    starts = [0, 25, 29, 62, 66, 99, 103]
    assert np.array_equal(got[0, :21].reshape(7, 3), table[starts])  # outside the trace
    assert np.array_equal(got[1, :21].reshape(7, 3), table[[k + 1 for k in starts]])
    assert np.array_equal(got[2, 12:15], table[66 + 32])  # source2_number 31
    low = np.asarray(parameters["address_proj.weight"])[:, 3]
    assert np.allclose(got[2, 21:] - got[1, 21:], 2 * low, atol=1e-6)  # 0 and 5 are one deviation on either side of their mean


@pytest.mark.parametrize(("bidirectional", "sees_right"), [(False, False), (True, True)])
def test_only_both_directions_see_the_right_context(bidirectional: bool, sees_right: bool) -> None:
    """The shipped table is one direction: it cannot use the following instructions that section 3.1.2 centres the target for."""
    parameters = draw(parameter_shapes(LstmShape(hidden=8, bidirectional=bidirectional)), 0)
    windows = np.random.default_rng(0).normal(size=(1, 20, 13)).astype(np.float32)
    changed = windows.copy()
    changed[:, 12:] += 1
    said = jax.jit(encode)
    same = np.allclose(said(parameters, windows)[:, :12], said(parameters, changed)[:, :12], atol=1e-7)
    assert same != sees_right


def test_dropout_silences_between_layers_and_only_in_training() -> None:
    parameters = draw(parameter_shapes(LstmShape(hidden=8)), 0)
    windows, said = jnp.ones((2, 6, 13)), jax.jit(encode, static_argnames="dropout")
    whole = said(parameters, windows)
    assert np.array_equal(whole, said(parameters, windows, 0.5))
    assert not np.allclose(whole, said(parameters, windows, 0.5, jax.random.PRNGKey(0)))


def test_the_classifier_chooses_the_regressor() -> None:
    short, long = jnp.array([[1.0, 1.0]]), jnp.array([[4.0, 4.0]])
    logits = jnp.array([[[2.0, 0.0], [0.0, 2.0]]])
    assert predicted_target(short, long, logits).tolist() == [[1.0, 4.0]]
    loss = joint_loss(short, long, logits, jnp.array([[1.5, 4.0]]), jnp.array([[0, 1]]))
    assert float(loss) == pytest.approx(0.125 + math.log(1 + math.exp(-2)), rel=1e-6)
