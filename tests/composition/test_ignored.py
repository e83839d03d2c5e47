"""Nothing that a question says is ignored: every column of every case command, changed one at a time, is refused, modelled or named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from analysis.case_columns import COMMANDS, reads
from analysis.errors import InputError
from tests.composition import questions
from tests.composition.questions import ALIKE, ANSWERS, KINDS, QUESTIONS, Question, asked, counts


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


@pytest.mark.parametrize("deaf", ["kind", "precision", "zero", "micro_batch"])
def test_a_command_that_ignores_a_column_is_found(monkeypatch: pytest.MonkeyPatch, deaf: str) -> None:
    """The same walk over a command that drops one column before it answers."""
    whole = questions._answer("predict training")

    def drops(frame: pd.DataFrame) -> pd.DataFrame:
        return whole(frame.drop(columns=deaf, errors="ignore"))

    answers: Callable[[str], Callable[[pd.DataFrame], pd.DataFrame]] = lambda command: drops  # noqa: E731
    monkeypatch.setattr(questions, "_answer", answers)
    base = replace(QUESTIONS[0], row={key: cell for key, cell in QUESTIONS[0].row.items() if key != deaf})
    every = asked((base,))
    found = [each.change for each in every if each.kind == "ignored"]
    assert found and all(change.startswith(f"{deaf}=") for change in found) and len(found) >= 3
    assert set(KINDS) == set(counts(every))


def test_a_base_that_is_not_answered_is_told() -> None:
    with pytest.raises(InputError, match="does not answer its own base row"):
        asked((replace(QUESTIONS[0], row={**QUESTIONS[0].row, "device": "abacus"}),))
