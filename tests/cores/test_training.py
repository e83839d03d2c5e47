"""Both networks learn small traces, beat the trivial baselines, keep their sums, and survive their files."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from cores.toy_traces import DESIGNS

from analysis.cores.riscv.emulator import trace_program
from analysis.cores.timing.designs import TABLE_4, load_design
from analysis.cores.timing.simulation import simulate
from analysis.errors import InputError
from analysis.studies.cores.learning import freeze
from analysis.studies.cores.learning.accuracy import accuracy, majority
from analysis.studies.cores.learning.corpus import BLOCK, Program, program, split_blocks
from analysis.studies.cores.learning.instruction_features import Window
from analysis.studies.cores.learning.lstm import LstmShape, parameter_shapes
from analysis.studies.cores.learning.model_files import TrunkShape, model_path, read_trunk, write_trunk
from analysis.studies.cores.learning.paper_training import Corpus, Member, PaperSetting, predict_paper, train_paper
from analysis.studies.cores.learning.ranking import whole_program_order
from analysis.studies.cores.learning.study import blocks_to_test, indices, own_cycles, paper_across, paper_side_by_side
from analysis.studies.cores.learning.trunk_training import Schedule, Trained, predict, train, without_memory
from analysis.studies.cores.programs import program_path

CORES = [load_design("8w").model_copy(update={"width": width}) for width in (1, 8)]
SMALL = TrunkShape(2, mixed=24, hidden=24)
SHORT = Schedule(steps=60, batch=16, window=128, rate=1e-2)


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    traces = [trace_program(program_path(name), 14 * BLOCK)[0] for name in ("json", "strings")]
    return [
        program(f"program{k}", trace, np.stack([simulate(trace, core).retire_cycle for core in CORES], axis=1), CORES)
        for k, trace in enumerate(traces)
    ]


@pytest.fixture(scope="module")
def parts(programs: list[Program]) -> list[np.ndarray]:
    return [split_blocks(len(p), 3) for p in programs]


@pytest.fixture(scope="module")
def trained(programs: list[Program], parts: list[np.ndarray]) -> Trained:
    return train(programs, parts, DESIGNS, SMALL, SHORT)


def test_ours_beats_the_majority_and_keeps_the_sum(programs: list[Program], parts: list[np.ndarray], trained: Trained) -> None:
    trunk = trained.trunk
    for one, part in zip(programs, parts, strict=True):
        blocks = blocks_to_test(part)
        truth = one.latency[indices(blocks, len(one))]
        got = predict(trunk, one.features, blocks)
        for d in range(2):
            found = accuracy(truth[:, d], got.expected[:, d], got.likely[:, d])
            guess = accuracy(truth[:, d], np.full(len(truth), majority(truth[:, d]))).exact
            assert found.exact > guess + 0.2 * (1 - guess)
            assert found.rae < 0.7  # 1: always the mean
        assert np.abs(got.expected.sum(axis=0) / truth.sum(axis=0) - 1).max() < 0.1
        order = whole_program_order(truth.sum(axis=0), got.expected.sum(axis=0))
        assert order.right == order.clear_pairs == 1
        rows = own_cycles(trunk, one.features, blocks, {"model": "ours"})
        said = one.features.step[indices(blocks, len(one))].astype(float).sum(axis=0)
        for d, row in enumerate(rows):  # whose cycles are whose: only the first two know nothing of the network
            assert row["first_order_cycles"] == pytest.approx(said[d], abs=0.1)
            assert row["with_table_cycles"] == pytest.approx(got.expected[:, d].sum(dtype=float), abs=0.1)
            assert row["network_mean_cycles"] == pytest.approx(truth[:, d].sum(), rel=0.25)
            assert row["network_likely_cycles"] == got.likely[:, d].sum()
        turned = dataclasses.replace(trunk, parameters={**trunk.parameters, "heads.weight": -trunk.parameters["heads.weight"]})
        again = predict(turned, one.features, blocks)
        assert np.array_equal(again.expected, got.expected) and not np.array_equal(again.own, got.own)


def test_training_is_repeatable_and_keeps_its_best_look(programs: list[Program], parts: list[np.ndarray], trained: Trained) -> None:
    short = Schedule(steps=2, batch=2, window=64, checks=1)
    one, again = (train(programs, parts, DESIGNS, SMALL, short, 5).trunk.parameters["mix.weight"] for _ in range(2))
    assert np.array_equal(one, again)
    assert trained.kept_step > 0 and min(trained.validation) < trained.validation[0]


def test_blocks_are_predicted_alike_alone_and_together(programs: list[Program], trained: Trained) -> None:
    whole = predict(trained.trunk, programs[0].features)
    some = predict(trained.trunk, programs[0].features, np.array([7, 3]))
    for k, block in enumerate((7, 3)):
        here = slice(block * BLOCK, (block + 1) * BLOCK)
        assert np.allclose(whole.expected[here], some.expected[k * BLOCK : (k + 1) * BLOCK], atol=1e-4)
        assert np.allclose(whole.own[here], some.own[k * BLOCK : (k + 1) * BLOCK], atol=1e-2)
    assert len(whole.expected) == len(programs[0])


def test_a_network_trained_without_memory_is_asked_without_it(programs: list[Program], parts: list[np.ndarray]) -> None:
    short = Schedule(steps=2, batch=2, window=64, checks=1, withheld=1.0)
    trunk = train(programs, parts, DESIGNS, SMALL, short, 5).trunk
    assert not trunk.memory.any() and not trunk.residual.any()


def test_memory_helps_on_code_that_was_seen(programs: list[Program], parts: list[np.ndarray], trained: Trained) -> None:
    one, blocks = programs[0], blocks_to_test(parts[0])
    truth = one.latency[indices(blocks, len(one))]
    exact = [
        accuracy(truth[:, 0], predict(trunk, one.features, blocks).likely[:, 0]).exact
        for trunk in (trained.trunk, without_memory(trained.trunk))
    ]
    assert exact[0] > exact[1]


def test_the_papers_network_learns(programs: list[Program], parts: list[np.ndarray]) -> None:
    """In both directions, which runs the one-directional layer twice; `test_lstm` tells them apart."""
    setting = PaperSetting(kind="bilstm", width=16, layers=1, steps=60, batch=16, rate=1e-2, checks=3)
    result = train_paper(Corpus(programs, parts), [Member()], setting)
    looks = [look.mae[0] for look in result.looks]
    assert min(looks) < looks[0] and result.kept_steps == [result.looks[int(np.argmin(looks))].step] and result.finished
    one, blocks = programs[0], blocks_to_test(parts[0])
    truth = one.latency[indices(blocks, len(one)), 0]
    got = predict_paper(result.models, one.raw, blocks)[:, 0]
    assert got.shape == truth.shape and (got >= 0).all()
    assert accuracy(truth, got).mae < accuracy(truth, np.full(len(truth), truth.mean())).mae
    whole = predict_paper(result.models, one.raw)[:, 0]
    assert np.allclose(whole[indices(blocks, len(one))], got, atol=1e-5)


TINY = PaperSetting(width=6, steps=6, batch=2, checks=3, embedding=3, last_rate=1.0, window=Window(64, 32))


def test_an_interrupted_training_gives_the_same_bits(programs: list[Program], parts: list[np.ndarray], tmp_path: Path) -> None:
    """With embeddings and dropout; stopped between two looks."""
    corpus, members, file = Corpus(programs, parts), [Member(1, 4)], tmp_path / "c.safetensors"
    whole = train_paper(corpus, members, TINY)
    part = train_paper(corpus, members, TINY, file, seconds=1e-9)  # one update, then the time is spent
    assert not part.finished and not part.looks
    part = train_paper(corpus, members, TINY, file)
    assert part.finished and [(look.step, look.mae) for look in part.looks] == [(look.step, look.mae) for look in whole.looks]
    assert all(np.array_equal(part.models[0].parameters[name], value) for name, value in whole.models[0].parameters.items())
    with pytest.raises(InputError, match="is of another training"):
        train_paper(corpus, [Member(0, 4)], TINY, file)


def test_networks_side_by_side_are_those_trained_alone(programs: list[Program], parts: list[np.ndarray]) -> None:
    """Another design, another seed, one program of two, and a narrower one in the arrays of the wider: its own size is all that it uses."""
    corpus, once = Corpus(programs, parts), dataclasses.replace(TINY, steps=2, checks=1)
    members = [Member(0, 4), Member(1, 4), Member(0, 5), Member(0, 4, programs=(1,)), Member(0, 4, width=4)]
    together = train_paper(corpus, members, once)
    for n, member in enumerate(members[:4]):
        alone = train_paper(corpus, [member], once).models[0]
        assert np.array_equal(alone.scaling.mean, together.models[n].scaling.mean)
        for name, value in alone.parameters.items():
            assert np.allclose(value, together.models[n].parameters[name], atol=2e-6)
    parameters = [model.parameters for model in together.models]
    assert not np.allclose(parameters[0]["rnn.weight_hh_l1"], parameters[1]["rnn.weight_hh_l1"], atol=1e-5)
    narrow = {}
    for name, shape in parameter_shapes(LstmShape(hidden=4, embedding=3)).items():
        gates = 4 if name.startswith("rnn.") else 1
        value = parameters[4][name]
        rest = np.array(value).reshape(gates, len(value) // gates, *value.shape[1:])
        own = (slice(None), slice(shape[0] // gates), *map(slice, shape[1:]))
        narrow[name] = rest[own].copy().reshape(shape)
        rest[own] = 0
        assert not rest.any()
    model = dataclasses.replace(together.models[4], parameters=narrow)  # cut out, it says the same
    said = [predict_paper([one], programs[0].raw, np.array([2])) for one in (model, together.models[4])]
    assert np.allclose(*said, atol=1e-5) and np.ptp(said[0]) > 0


def test_models_survive_their_files(programs: list[Program], trained: Trained, tmp_path: Path) -> None:
    trunk = trained.trunk
    write_trunk(trunk, tmp_path / "a.safetensors", {"trained_on": "toys"})
    again = read_trunk(model_path(str(tmp_path / "a.safetensors")))
    blocks = np.array([2])
    before, after = (predict(model, programs[0].features, blocks) for model in (trunk, again))
    assert np.array_equal(before.expected, after.expected) and np.array_equal(before.likely, after.likely)


def test_damaged_or_missing_models_are_refused(trained: Trained, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_trunk(trained.trunk, path, {})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="not a complete safetensors file"):
        read_trunk(path)
    with pytest.raises(InputError, match="no such model; known"):
        model_path("nobody")


def test_the_full_size_is_the_papers() -> None:
    """Two layers of 256 (appendix), a context of the largest reorder buffer on the left, every design; and its tables come in pieces."""
    shapes = parameter_shapes(LstmShape(hidden=freeze.FULL.width, embedding=freeze.FULL.embedding))
    assert shapes["rnn.weight_hh_l1"] == (1024, 256) and freeze.FULL.window.left == load_design("8w").rob_entries
    assert {m.design for m in freeze.MEMBERS if m.width is None} == set(range(len(TABLE_4)))


def test_networks_side_by_side_give_their_tables(programs: list[Program], parts: list[np.ndarray], tmp_path: Path) -> None:
    corpus, short = Corpus(programs, parts), dataclasses.replace(TINY, steps=2, checks=2)
    members = [Member(0), Member(1), Member(0, width=3)]
    models, tables = paper_side_by_side(corpus, members, short, tmp_path)
    assert len(tables["curve"]) == 6 and len(tables["size"]) == 6 and set(tables["size"]["width"]) == {3, 6}
    row = tables["size"].query("width == 3 and program == 'program1'").iloc[0]
    blocks = blocks_to_test(parts[1])
    got = predict_paper([models[2]], programs[1].raw, blocks)[:, 0]
    assert row["mae"] == pytest.approx(accuracy(programs[1].latency[indices(blocks, len(programs[1])), 0], got).mae, rel=1e-6)
    assert set(tables["cycles"]["design"]) == set(TABLE_4[:2]) and len(tables["pairs"]) == 2
    across = paper_across(corpus, short, 1, None)["across"]
    assert len(across) == 4 and across.groupby("tested_on")["majority_exact"].nunique().eq(1).all()
