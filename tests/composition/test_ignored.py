"""Nothing that a question says is ignored: every column of every case command, changed one at a time, is refused, modelled or named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from analysis.case_columns import COMMANDS, reads
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.serving.batch import MEASURED
from analysis.tables import read_csv
from tests.composition import questions
from tests.composition.questions import ALIKE, ANSWERS, CANNOT_FIT, DEVICE_WORDS, KINDS, QUESTIONS, SMALL, Question, asked, counts


def test_every_command_is_asked_about_every_column() -> None:
    assert {question.command for question in QUESTIONS} == set(COMMANDS) == set(ANSWERS)
    for command in COMMANDS:
        told = {name for question in QUESTIONS if question.command == command for name in (*question.row, *question.others)}
        left = [name for name in reads(command).names if name not in told and name not in ALIKE]
        # a worker of disaggregated serving has the columns of an aggregated replica, a question about training those of `predict training`
        other = ("prefill_", "decode_", "global_batch", "sequence_length", "step_target_s", "days_target", "sure", "kv_precision")
        assert [name for name in left if not name.startswith(other) and name not in ("ffn", "gated", "kv_heads", "head_size", "tied")] == []


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: f"{question.command} {len(question.row)}")
def test_nothing_is_ignored(question: Question) -> None:
    found = asked((question,))
    assert [each.change for each in found if each.kind == "ignored"] == []
    numbers = counts(found)
    assert numbers["refused"] > 100 and numbers["modelled"] >= 5 and numbers["named"] >= 1 and sum(numbers.values()) == len(found)
    titles = [each.change.split(":")[0] for each in found]
    assert titles.count("too large") == bool(question.too_large) and titles.count("unmeasured") == bool(question.unmeasured)


def test_a_command_that_ignores_columns_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same walk over a command that drops four columns before it answers: these alone are found, and each with several values."""
    whole, deaf = questions._answer("predict training"), ["kind", "precision", "zero", "micro_batch"]

    def drops(frame: pd.DataFrame) -> pd.DataFrame:
        return whole(frame.drop(columns=deaf, errors="ignore"))

    answers: Callable[[str], Callable[[pd.DataFrame], pd.DataFrame]] = lambda command: drops  # noqa: E731
    monkeypatch.setattr(questions, "_answer", answers)
    base = replace(QUESTIONS[0], row={key: cell for key, cell in QUESTIONS[0].row.items() if key not in deaf})
    every = asked((base,))
    found = Counter(each.change.partition("=")[0] for each in every if each.kind == "ignored")
    assert set(found) == {*deaf} and min(found.values()) >= 3
    assert set(KINDS) == set(counts(every))


def test_a_base_that_is_not_answered_is_told() -> None:
    with pytest.raises(InputError, match="does not answer its own base row"):
        asked((replace(QUESTIONS[0], row={**QUESTIONS[0].row, "device": "abacus"}),))


SERVED = {"h100_sxm", "h200_sxm", "b200_sxm", "b300_sxm", "gb200"}
"""Devices of the served points (data/measured_suite/serving_points.csv.gz)."""


@pytest.mark.parametrize("command", DEVICE_WORDS)
def test_every_device_that_nobody_measured_is_refused_or_named(command: str) -> None:
    """All of data/hardware at once: a V100's batch and collective were answered as an H100's, without a word."""
    column, said, words = DEVICE_WORDS[command]
    base = dict(pair.split("=", 1) for pair in SMALL[command].split())
    found = questions._answer(command)(pd.DataFrame([{**base, column: name} for name in devices.all_devices()], dtype=str))
    refused = found["status"].fillna("").ne("")
    named = found[said].fillna("").str.contains(words)
    known = {
        "predict training": {"A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM-180GB"},
        "predict batch": {devices.load(name).name for name in SERVED} | {name for name in MEASURED if devices.load(name).dies > 1},
        "predict serving": {devices.load(name).name for name in SERVED},
        "predict collective": {"A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM-180GB"},
        "kernels predict": {devices.load(name).name for name in SERVED} | {"A100-SXM4-80GB", "L40S"},
    }[command]
    asked_of = pd.Series(list(devices.all_devices()))
    assert not set(asked_of[named.to_numpy()]) & known  # nothing cries wolf
    silent = set(asked_of[(~refused & ~named).to_numpy()]) - known
    timed = read_csv(DATA / "models" / "gpu_kernels" / "collectives.csv")["system"].unique()
    by_nccl = {devices.load(name).name for name in timed}
    by_nccl |= {"A100-SXM4-40GB", "H20-SXM5-96GB", "H800-SXM5-80GB", "RTX-6000-Ada"}  # a board of Azure's, and PipeWeave's machines
    elsewhere = {"predict training": {"A100-SXM4-40GB", "H200-SXM5-141GB", "MI300X", "MI325X"}, "predict collective": by_nccl}
    elsewhere["kernels predict"] = by_nccl
    assert silent <= elsewhere.get(command, set()), silent
    assert named.sum() >= 10


@pytest.mark.parametrize("command", CANNOT_FIT)
def test_no_plan_beyond_the_memory_is_answered_as_one_that_fits(command: str) -> None:
    rows = pd.DataFrame([dict(pair.split("=", 1) for pair in row.split()) for row in CANNOT_FIT[command]], dtype=str).fillna("")
    found = questions._answer(command)(rows)
    fits = found["fits"].ne("no") if "fits" in found else found["status"].eq("")
    assert not fits.any(), rows[fits.to_numpy()].to_dict("records")
