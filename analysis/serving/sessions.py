"""Which turn follows which, and what of its prompt was computed for the turn before? Conversations of several requests.

A turn is sent when the answer before it is complete and its user has thought for `think_s`, but not before its own `arrived_at`. Its prompt
holds the earlier turns, where it is as long as the last one's prompt and answer together; a shorter one was cut, and shares nothing. The
blocks of prompts and answers that a later turn continues form a chain, which the cache keeps and evicts block by block (`memory`); of an
answer's last token nothing was computed. As vLLM hashes blocks (docs.vllm.ai, automatic_prefix_caching).
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from analysis.serving.requests import Requests

Ints = NDArray[np.int64]


def following(requests: Requests) -> Ints:
    """Of each request the position of the session's next turn, -1: it is the last, or of no session. Turns follow in the order of rows."""
    found = np.full(len(requests), -1, np.int64)
    order = np.argsort(requests.session, kind="stable")
    same = (requests.session[order][1:] == requests.session[order][:-1]) & (requests.session[order][1:] >= 0)
    found[order[:-1][same]] = order[1:][same]
    return found


def chained(requests: Requests, block_size: int) -> tuple[Requests, Ints, Ints]:
    """The requests with their chains as prefixes; of each the deepest block of its answer shared by the next turn, and its end (tokens)."""
    follows, prompt = following(requests), requests.prefill_tokens
    end = prompt + requests.decode_tokens
    deepest, tokens, after, after_tokens = (np.full(len(requests), value, np.int64) for value in (-1, 0, -1, 0))
    begins: list[int] = []
    count = 0
    has_before = np.zeros(len(requests), bool)
    has_before[follows[follows >= 0]] = True
    for first in np.flatnonzero((follows >= 0) & ~has_before):
        at, base, held, before = int(first), count, 0, 0
        while at >= 0:
            later = int(follows[at])
            if prompt[at] < before:  # its beginning was cut
                base, held = count, 0
            continued = later >= 0 and prompt[later] >= end[at]
            whole = int(end[at] - 1) // block_size if continued else held
            full = min(int(prompt[at]) // block_size, whole)
            if whole > held:
                begins += [count] if held == 0 else []
                count += whole - held
            if full:
                deepest[at], tokens[at] = base + full - 1, full * block_size
            if continued and whole > full:
                after[at], after_tokens[at] = base + whole - 1, whole * block_size
            at, held, before = later, whole, int(end[at])
    above = np.arange(count) - 1
    above[begins] = -1
    return dataclasses.replace(requests, prefix=deepest, prefix_tokens=tokens, above=above, hashed_tokens=block_size), after, after_tokens
