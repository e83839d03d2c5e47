"""The comparison: NeuroScalar's network and ours on the same programs, designs and blocks, compared with trivial baselines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.cores.riscv.emulator import trace_program
from analysis.cores.timing.designs import TABLE_4, load_design
from analysis.cores.timing.simulation import simulate
from analysis.studies.cores.learning.accuracy import accuracy, fit_pc_table, majority
from analysis.studies.cores.learning.corpus import TEST, TRAIN, Program, instructions_of, program, split_blocks
from analysis.studies.cores.learning.model_files import Trunk
from analysis.studies.cores.learning.paper_training import (
    Corpus,
    Member,
    PaperModel,
    PaperSetting,
    PaperTraining,
    predict_paper,
    train_paper,
)
from analysis.studies.cores.learning.program_features import BLOCK, ProgramFeatures, program_features
from analysis.studies.cores.learning.ranking import five_way, pair_orders
from analysis.studies.cores.learning.trunk_training import Schedule, Trained, predict, train, without_memory
from analysis.studies.cores.programs import program_names, program_path

INSTRUCTIONS = 1 << 20
TESTED_BLOCKS = 32
SPLIT_SEED = 0
HELD_OUT, UNSEEN = "held-out windows", "unseen programs"
FULL_SIZE = "NeuroScalar, full size"


def load_program(name: str, instructions: int = INSTRUCTIONS, designs: Sequence[str] = TABLE_4) -> Program:
    """Trace the first instructions of a program of ours, time them on each design, and find their features."""
    trace, _ = trace_program(program_path(name), limit=instructions)
    cores = [load_design(d) for d in designs]
    return program(name, trace, np.stack([simulate(trace, core).retire_cycle for core in cores], axis=1), cores)


def load_programs() -> list[Program]:
    """`load_program` for every program of ours."""
    return [load_program(name) for name in program_names()]


def split(programs: Sequence[Program], seed: int = SPLIT_SEED) -> list[NDArray[np.int8]]:
    """Training, validation and test blocks of each program (the same blocks of every program of one length)."""
    return [split_blocks(len(p), seed) for p in programs]


def blocks_to_test(part: NDArray[np.int8], most: int = TESTED_BLOCKS) -> NDArray[np.int64]:
    """The test blocks that are looked at, in order: a sample of at most `most`, of whole length."""
    found = np.flatnonzero(part == TEST)
    found = found[found < len(part) - 1] if len(found) > 1 else found
    return np.sort(np.random.default_rng(0).permutation(found)[:most])


def indices(blocks: NDArray[np.int64], instructions: int) -> NDArray[np.int64]:
    """Instructions of some blocks."""
    return np.concatenate([np.arange(b * BLOCK, min((b + 1) * BLOCK, instructions)) for b in blocks.tolist()])


@dataclass(frozen=True)
class Answer:
    """What a model says about some blocks of a program: whole cycles and expected cycles, shape (n, designs)."""

    whole: NDArray
    expected: NDArray


def score(
    one: Program, blocks: NDArray[np.int64], answer: Answer, label: dict[str, object], designs: Sequence[str] = TABLE_4
) -> dict[str, list]:
    """Rows of every table for one model on one program: accuracy, cycles, pairs, five_way, blocks.

    Args:
        blocks: the blocks that `answer` is about.
        answer: of the model.
        label: columns that name the row: model, setting, seed.
    """
    truth = one.latency[indices(blocks, len(one))]
    label = {**label, "program": one.name}
    rows: dict[str, list] = {"accuracy": [], "cycles": [], "pairs": [], "five_way": [], "blocks": []}
    for d, design in enumerate(designs):
        figures = accuracy(truth[:, d], answer.whole[:, d]).as_dict()
        rows["accuracy"].append({**label, "design": design, **figures})
        rows["cycles"].append(
            {**label, "design": design, "true_cycles": int(truth[:, d].sum()), "predicted_cycles": float(answer.expected[:, d].sum())}
        )
    for pair in pair_orders(truth, np.rint(answer.whole)):
        rows["pairs"].append(
            {
                **label,
                "first": designs[pair.first],
                "second": designs[pair.second],
                "match": pair.match,
                "all_equal": pair.all_equal,
                "first_better": pair.first_better,
                "non_zero": pair.non_zero,
                "recall": pair.recall,
            }
        )
    if len(designs) > 1:
        rows["five_way"].append({**label, **five_way(truth, np.rint(answer.whole)).__dict__})
    edges = np.arange(0, len(truth), BLOCK)
    true, got = np.add.reduceat(truth, edges), np.add.reduceat(answer.expected, edges)
    for b, block in enumerate(blocks.tolist()):
        for d, design in enumerate(designs):
            rows["blocks"].append(
                {**label, "block": block, "design": design, "true_cycles": int(true[b, d]), "predicted_cycles": round(float(got[b, d]), 1)}
            )
    return rows


def merge(parts: Sequence[dict[str, list]]) -> dict[str, pd.DataFrame]:
    """The rows of several `score` calls as tables."""
    return {name: pd.DataFrame([row for part in parts for row in part[name]]) for name in parts[0]}


def baselines(programs: Sequence[Program], parts: Sequence[NDArray[np.int8]], setting: str) -> list[dict[str, list]]:
    """Trivial baselines for every program.

    Held-out windows: the program's most frequent training latency and its mean over all designs ("all designs equal"), and a table
    by program counter. Unseen programs: the same of all other programs, without a table. In both: what the
    first-order models say, unlearned.
    """
    rows = []
    for k, one in enumerate(programs):
        blocks = blocks_to_test(parts[k])
        n = len(indices(blocks, len(one)))
        sources = [k] if setting == HELD_OUT else [j for j in range(len(programs)) if j != k]
        train = np.concatenate([programs[j].latency[indices(np.flatnonzero(parts[j] == TRAIN), len(programs[j]))] for j in sources])
        flat = Answer(np.full((n, train.shape[1]), majority(train)), np.full((n, train.shape[1]), train.mean()))
        rows.append(score(one, blocks, flat, {"model": "all designs equal", "setting": setting, "seed": 0}))
        whole = np.tile([majority(train[:, d]) for d in range(train.shape[1])], (n, 1))
        rows.append(
            score(one, blocks, Answer(whole, np.tile(train.mean(axis=0), (n, 1))), {"model": "majority", "setting": setting, "seed": 0})
        )
        said = one.features.step[indices(blocks, len(one))]
        rows.append(score(one, blocks, Answer(said, said), {"model": "first-order model, nothing learned", "setting": setting, "seed": 0}))
        if setting == HELD_OUT:
            index, tested = indices(np.flatnonzero(parts[k] == TRAIN), len(one)), indices(blocks, len(one))
            tables = [fit_pc_table(one.pc[index], one.latency[index, d])(one.pc[tested]) for d in range(train.shape[1])]
            answer = Answer(np.stack([t[0] for t in tables], axis=1), np.stack([t[1] for t in tables], axis=1))
            rows.append(score(one, blocks, answer, {"model": "table by program counter", "setting": setting, "seed": 0}))
    return rows


def score_ours(trunk: Trunk, one: Program, blocks: NDArray[np.int64], label: dict[str, object]) -> dict[str, list]:
    """Rows of our network on one program."""
    got = predict(trunk, one.features, blocks)
    return score(one, blocks, Answer(got.likely, got.expected), label)


def own_cycles(trunk: Trunk, features: ProgramFeatures, blocks: NDArray[np.int64], label: dict[str, object]) -> list[dict[str, object]]:
    """Whose cycles are they? One row a design: the first-order model's, the same with the table of its errors, and the network's own.

    Args:
        features: of the whole trace.
        blocks: whose cycles are added up.
        label: columns that name the row: model, setting, seed, program.
    """
    got, said = predict(trunk, features, blocks), features.step[indices(blocks, len(features.opclass))]
    sums = {
        "first_order_cycles": said.sum(axis=0, dtype=float),
        "with_table_cycles": got.expected.sum(axis=0, dtype=float),
        "network_likely_cycles": got.likely.sum(axis=0, dtype=float),
        "network_mean_cycles": got.own.sum(axis=0, dtype=float),
    }
    return [
        {**label, "design": design} | {name: round(float(values[d]), 1) for name, values in sums.items()}
        for d, design in enumerate(trunk.designs)
    ]


def shipped_own_cycles(name: str, trunk: Trunk) -> dict[str, pd.DataFrame]:
    """`own_cycles` of the shipped weights on a program's held-out windows, with the memory of its code and without: table `own`."""
    trace, _ = trace_program(program_path(name), limit=INSTRUCTIONS)
    features = program_features(trace, [load_design(design) for design in TABLE_4])
    blocks = blocks_to_test(split_blocks(len(features.opclass), SPLIT_SEED))
    rows = []
    for model, one in (("ours", trunk), ("ours, memory erased", without_memory(trunk))):
        rows += own_cycles(one, features, blocks, {"model": model, "setting": HELD_OUT, "seed": 0, "program": name})
    return {"own": pd.DataFrame(rows)}


def ours_on_held_out_windows(programs: Sequence[Program], schedule: Schedule, seed: int) -> tuple[Trained, dict[str, pd.DataFrame]]:
    """Train on all programs, test on their held-out windows; the same network with its memory erased beside it."""
    parts = split(programs)
    trained = train(programs, parts, TABLE_4, schedule=schedule, seed=seed)
    rows = []
    for one, part in zip(programs, parts, strict=True):
        for name, trunk in (("ours", trained.trunk), ("ours, memory erased", without_memory(trained.trunk))):
            rows.append(score_ours(trunk, one, blocks_to_test(part), {"model": name, "setting": HELD_OUT, "seed": seed}))
    return trained, merge(rows)


def ours_on_unseen(programs: Sequence[Program], out: Sequence[int], schedule: Schedule, seed: int) -> dict[str, pd.DataFrame]:
    """Train on all programs but some, test on those, with nothing remembered of any place in the code."""
    parts = split(programs)
    rest = [k for k in range(len(programs)) if k not in out]
    trained = train([programs[k] for k in rest], [parts[k] for k in rest], TABLE_4, schedule=schedule, seed=seed)
    trunk = without_memory(trained.trunk)
    label: dict[str, object] = {"model": "ours", "setting": UNSEEN, "seed": seed}
    tested = {k: blocks_to_test(parts[k]) for k in out}
    own = [
        row
        for k, blocks in tested.items()
        for row in own_cycles(trunk, programs[k].features, blocks, {**label, "program": programs[k].name})
    ]
    return merge([score_ours(trunk, programs[k], blocks, label) for k, blocks in tested.items()]) | {"own": pd.DataFrame(own)}


def paper_side_by_side(
    corpus: Corpus,
    members: Sequence[Member],
    setting: PaperSetting,
    folder: Path | None,
    watch: Callable[[PaperTraining], None] = lambda state: None,
) -> tuple[list[PaperModel], dict[str, pd.DataFrame]]:
    """The paper's networks and their looks (`curve`), test (`size`), and, of the first one of each design, the tables of `score`.

    A GPU trains all at once, a CPU one after the other.

    Args:
        folder: of the checkpoints from which the trainings go on, see `train_paper`; None: without.
    """
    groups = [[m] for m in members] if jax.default_backend() == "cpu" else [members]
    files = [None if folder is None else folder / f"size_{k}.safetensors" for k in range(len(groups))]
    trained = [train_paper(corpus, group, setting, file, watch=watch) for group, file in zip(groups, files, strict=True)]
    models, kept = [m for one in trained for m in one.models], [k for one in trained for k in one.kept_steps]
    labels = [{"design": TABLE_4[m.design], "width": m.width or setting.width, "seed": m.seed} for m in members]
    looks = [(look, n, k) for k, one in enumerate(trained) for look in one.looks for n in range(len(groups[k]))]
    curve = [{**labels[n + k], "updates": look.step, "seconds": look.seconds, "mae": look.mae[n]} for look, n, k in looks]
    first = [[m.design for m in members].index(d) for d in range(corpus.latency.shape[1])]
    size, scored = [], []
    for one, part in zip(corpus.programs, corpus.parts, strict=True):
        blocks = blocks_to_test(part)
        truth, got = one.latency[indices(blocks, len(one))], predict_paper(models, one.raw, blocks)
        for n, (m, label) in enumerate(zip(members, labels, strict=True)):
            true, said = truth[:, m.design], got[:, n]
            cycles = {"true_cycles": int(true.sum()), "predicted_cycles": float(said.sum())}
            size.append({**label, "updates": kept[n], "program": one.name, **accuracy(true, said).as_dict(), **cycles})
        answer = Answer(got[:, first], got[:, first])
        label = {"model": FULL_SIZE, "setting": HELD_OUT, "seed": members[0].seed}
        scored.append(score(one, blocks, answer, label, TABLE_4[: len(first)]))
    return models, {"curve": pd.DataFrame(curve), "size": pd.DataFrame(size)} | merge(scored)


def paper_across(corpus: Corpus, setting: PaperSetting, together: int, folder: Path | None, design: int = 0) -> dict[str, pd.DataFrame]:
    """The paper's network learns one program and is tested on the held-out blocks of each: table `across`.

    Args:
        together: programs whose networks are trained side by side.
        folder: see `paper_side_by_side`.
    """
    tested = [indices(blocks_to_test(part), len(one)) for one, part in zip(corpus.programs, corpus.parts, strict=True)]
    seen = [one.latency[instructions_of(part, TRAIN, len(one)), design] for one, part in zip(corpus.programs, corpus.parts, strict=True)]
    rows = []
    for first in range(0, len(corpus.programs), together):
        learned = range(first, min(first + together, len(corpus.programs)))
        file = None if folder is None else folder / f"across_{first}.safetensors"
        models = train_paper(corpus, [Member(design, programs=(k,)) for k in learned], setting, file).models
        for k, (one, part) in enumerate(zip(corpus.programs, corpus.parts, strict=True)):
            truth, got = one.latency[tested[k], design], predict_paper(models, one.raw, blocks_to_test(part))
            guesses = {"majority_exact": float(np.mean(truth == majority(seen[k]))), "mean_cycles": float(seen[k].mean() * len(truth))}
            for n, from_ in enumerate(learned):
                label = {"trained_on": corpus.programs[from_].name, "tested_on": one.name}
                cycles = {"true_cycles": int(truth.sum()), "predicted_cycles": float(got[:, n].sum())}
                rows.append({**label, **accuracy(truth, got[:, n]).as_dict(), **cycles, **guesses})
    return {"across": pd.DataFrame(rows)}
