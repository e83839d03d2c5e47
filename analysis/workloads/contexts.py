"""How long may a request to a model be? Prompt and answer together, as its published configuration says."""

from __future__ import annotations

from functools import cache

from pydantic import RootModel

from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.paths import DATA

PATH = DATA / "workloads" / "context_lengths.yaml"


class _Lengths(RootModel[dict[str, int]]):
    """Beginning of a model's name -> tokens."""


@cache
def _lengths() -> dict[str, int]:
    return {plain(name): tokens for name, tokens in read_yaml(PATH, _Lengths).root.items()}


def plain(name: str) -> str:
    """A name without case, and of its marks the dots alone."""
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter == ".")


def longest(model: str) -> int | None:
    """Tokens of the longest request that the model takes (a checkpoint's name, with or without its owner); None where that is not known."""
    asked = plain(model.strip().rsplit("/", 1)[-1]).removeprefix("meta")
    return max(((len(name), tokens) for name, tokens in _lengths().items() if asked.startswith(name)), default=(0, None))[1]


def beyond(model: str, tokens: int) -> str:
    """Why a request of so many tokens is longer than the model takes; empty where it is not, or no limit is known."""
    most = longest(model)
    if most is None or tokens <= most:
        return ""
    return f"a request of {tokens:,} tokens: {model} takes {most:,} (max_position_embeddings of its configuration)"


def check(model: str, tokens: int, key: str) -> None:
    """Refuse a request longer than the model takes.

    Raises:
        InputError: it is.
    """
    if reason := beyond(model, tokens):
        raise InputError(reason, key=key)
