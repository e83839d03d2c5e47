"""The README's sample answer and accuracies are what the models and their committed scores give; its sentences are short."""

import re

from tests.checks import readme


def test_the_sample_and_the_accuracies_are_todays() -> None:
    page = readme.PAGE.read_text(encoding="utf-8")
    assert page == readme.with_parts(page), "python -m tests.checks.readme writes them again"


def test_no_sentence_has_more_than_25_words() -> None:
    page = re.sub(r"```.*?```|^\|.*?$|^#.*?$|<!--.*?-->", "\n\n", readme.PAGE.read_text(encoding="utf-8"), flags=re.S | re.M)
    sentences = re.split(r"(?<=[.?!:;])\s+|\n\n+", page)
    assert [sentence for sentence in sentences if len(sentence.split()) > 25] == []
