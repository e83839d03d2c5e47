"""Which requests arrive, when, and how long are they?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_columns import Columns, carried
from analysis.errors import InputError
from analysis.serving.traces import HASHED_TOKENS, HASHES, hash_tree, read_trace
from analysis.tables import numeric

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
COLUMNS = ("request_id", "arrived_at", "num_prefill_tokens", "num_decode_tokens")
READS = Columns(names=(*COLUMNS, "prefix_id", "prefix_tokens", "session_id", "think_s"), required=COLUMNS)
"""Columns of a table of requests: VIDUR's."""


@dataclass(frozen=True)
class Requests:
    """Requests of a run, in any order; ids need not be 0, 1, 2, ...

    Attributes:
        decode_tokens: tokens generated, at least 1; the first comes with the prompt's end.
        prefix: which shared prefix the prompt begins with, -1: none.
        above: of prefixes that are hashed block by block, what each continues (-1: it is the beginning), shape (prefixes,); empty where
            a prefix stands for itself.
        hashed_tokens: tokens of each of these blocks.
        session: which conversation the request is a turn of, -1: none; empty where there are no conversations.
        think_s: from the answer before it to the request (s).
    """

    request_id: Ints
    arrived_at_s: Floats
    prefill_tokens: Ints
    decode_tokens: Ints
    prefix: Ints
    prefix_tokens: Ints
    above: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    hashed_tokens: int = 0
    session: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    think_s: Floats = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.request_id)

    def at(self, positions: Ints) -> Requests:
        """Those at some positions, in that order."""
        of_all = ("above", "hashed_tokens", *(("session", "think_s") if not len(self.session) else ()))
        return Requests(**{name: column if name in of_all else column[positions] for name, column in vars(self).items()})


def make_requests(
    arrived_at_s: Floats,
    prefill_tokens: Ints,
    decode_tokens: Ints,
    request_id: Ints | None = None,
    prefix: Ints | None = None,
    prefix_tokens: Ints | None = None,
    path: str | Path | None = None,
) -> Requests:
    """Requests from arrays of equal length; ids count from 0 if not given."""
    count = len(arrived_at_s)
    ids = np.arange(count) if request_id is None else np.asarray(request_id)
    which = np.full(count, -1) if prefix is None else np.asarray(prefix)
    shared = np.zeros(count, np.int64) if prefix_tokens is None else np.asarray(prefix_tokens)
    requests = Requests(
        request_id=ids.astype(np.int64),
        arrived_at_s=np.asarray(arrived_at_s, dtype=np.float64),
        prefill_tokens=np.asarray(prefill_tokens).astype(np.int64),
        decode_tokens=np.asarray(decode_tokens).astype(np.int64),
        prefix=which.astype(np.int64),
        prefix_tokens=shared.astype(np.int64),
    )
    problem = first_problem(requests)
    if problem is not None:
        position, key, message = problem
        if path is not None:
            raise InputError(message, path=path, line=position + 2, key=key)
        raise InputError(f"request {requests.request_id[position]}: {message}", key=key)
    return requests


def first_problem(requests: Requests) -> tuple[int, str, str] | None:
    """The first thing wrong: (position, column, message), or None."""
    too_long = (requests.prefix_tokens < 0) | (requests.prefix_tokens > requests.prefill_tokens)
    wrong = [
        (~np.isfinite(requests.arrived_at_s) | (requests.arrived_at_s < 0), "arrived_at", "expected seconds, not negative"),
        (requests.prefill_tokens < 1, "num_prefill_tokens", "expected at least 1 token"),
        (requests.decode_tokens < 1, "num_decode_tokens", "expected at least 1 token (the prompt's end gives the first)"),
        (too_long, "prefix_tokens", "expected 0 to the prompt's tokens"),
        (pd.Series(requests.request_id).duplicated().to_numpy(), "request_id", "is given twice"),
    ]
    found = [(int(np.flatnonzero(mask)[0]), key, message) for mask, key, message in wrong if mask.any()]
    return min(found) if found else None


def read_requests(
    path: str | Path, arrive: Callable[[int], Floats] | None = None, tokens_per_word: float = 0.0, turns: int = 1, think_s: float = 0.0
) -> Requests:
    """Requests from a CSV with the columns of VIDUR's records, or from a public trace (`traces`).

    Args:
        path: CSV with `request_id,arrived_at,num_prefill_tokens,num_decode_tokens`, and if wanted `prefix_id,prefix_tokens` (an empty
            `prefix_id`: no shared prefix), or `session_id,think_s`, whose rows are turns in their order (`sessions`).
        arrive: arrival times of so many requests or sessions (s), for a trace of lengths alone; tokens_per_word, turns: for one of texts;
        think_s: where a turn does not say.
    """
    frame = read_trace(path, tokens_per_word, turns)
    told = "session_id" in frame.columns
    sessions = pd.factorize(frame["session_id"])[0].astype(np.int64) if told else np.zeros(0, np.int64)
    if arrive is not None and "arrived_at" not in frame.columns and len(frame):
        own = np.where(sessions >= 0, sessions, sessions.max(initial=-1) + np.cumsum(sessions < 0)) if told else np.arange(len(frame))
        frame.insert(0, "arrived_at", arrive(int(own.max()) + 1)[own])
    carried(frame.columns, "serve", path)
    columns: dict[str, Any] = {}
    for name in [*COLUMNS, *(n for n in ("prefix_id", "prefix_tokens", "think_s") if n in frame)]:
        numbers = numeric(frame[name]).to_numpy(dtype=np.float64)
        if name.startswith("prefix"):
            numbers = np.where(frame[name].isna(), -1 if name == "prefix_id" else 0, numbers)
        if name == "think_s":
            numbers = np.where(frame[name].isna(), think_s, numbers)
        fits = np.isfinite(numbers) & ((numbers >= 0) | (name != "think_s"))
        if name not in ("arrived_at", "think_s"):
            fits &= (numbers == np.floor(numbers)) & (np.abs(numbers) < 2**53)  # beyond, a double holds no whole numbers, nor an int64
        if not fits.all():
            line = int(np.flatnonzero(~fits)[0])
            expected = {"arrived_at": "a number", "think_s": "seconds, not negative"}.get(name, "a whole number")
            raise InputError(f"expected {expected}, got {str(frame[name].iloc[line])!r}", path=path, line=line + 2, key=name)
        columns[name] = numbers
    alone = (sessions < 0 if told else np.ones(len(frame), bool)) & (frame["think_s"].notna() if "think_s" in frame else False)
    if (alone := alone & (columns.get("think_s", 0.0) > 0)).any():
        message = "is the time between the turns of a session, and this request is of none (session_id)"
        raise InputError(message, path=path, line=int(np.flatnonzero(alone)[0]) + 2, key="think_s")
    ids, arrived_at_s, prompts, outputs = (columns[name] for name in COLUMNS)
    if HASHES in frame.columns:
        which, tokens, above = hash_tree(frame[HASHES], prompts)
        found = make_requests(arrived_at_s, prompts, outputs, ids, which, tokens, path)
        return replace(found, above=above, hashed_tokens=HASHED_TOKENS)
    found = make_requests(arrived_at_s, prompts, outputs, ids, columns.get("prefix_id"), columns.get("prefix_tokens"), path)
    if not told:
        return found
    if (found.prefix >= 0).any():
        raise InputError("turns share what came before them: give session_id or prefixes, not both", path=path, key="session_id")
    return replace(found, session=sessions, think_s=np.asarray(columns.get("think_s", np.full(len(found), think_s)), np.float64))
