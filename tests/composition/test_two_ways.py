"""One question has one answer, whichever command, file, name or language it is asked in (tests/composition/two_ways.py draws them)."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.composition.two_ways import KINDS, differences

pytestmark = pytest.mark.usefixtures("programs_read_here")

DRAWN = {"serving": 5, "training": 10, "product": 12, "collective": 5, "batch": 8, "array": 4, "network": 6}


@pytest.mark.parametrize("kind", KINDS)
def test_no_question_is_answered_differently_in_two_ways(tmp_path: Path, kind: str) -> None:
    draw, asked, found = random.Random(17), 0, []
    for _ in range(DRAWN[kind]):
        ways, told = differences(KINDS[kind], KINDS[kind].draw(draw), tmp_path)
        asked, found = asked + ways, found + told
    assert not found, "\n".join(found)
    assert asked >= 2 * DRAWN[kind]


def test_a_way_that_answers_another_question_is_found(tmp_path: Path) -> None:
    """Weights sharded under another name of the column; the walk has to see it."""
    kind = KINDS["training"]
    first = kind.ways["predict training"]
    deaf = replace(kind, ways={"predict training": first, "deaf": lambda question, folder: first({**question, "zero": 0}, folder)})
    question = {"model": "llama-3-8b", "device": "h100", "gpus": 8, "sequence_length": 4096, "global_batch": 32, "zero": 3}
    ways, told = differences(deaf, question, tmp_path)
    assert ways == 2 and any("step_time_s" in line for line in told)
    assert differences(kind, question, tmp_path)[1] == []
