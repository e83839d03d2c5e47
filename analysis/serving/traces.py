"""Whose trace of requests is this? Public traces by their own columns, as the columns that `requests` reads.

| trace | times | lengths |
|---|---|---|
| Azure LLM inference (CSV) | TIMESTAMP, from the first | ContextTokens, GeneratedTokens |
| BurstGPT (CSV) | Timestamp (s) | Request tokens, Response tokens |
| Mooncake (JSON lines) | timestamp (ms) | input_length, output_length; hash_ids: blocks of 512 tokens |
| VIDUR, processed (CSV) | arrived_at (s), or none | num_prefill_tokens, num_decode_tokens |

Requests whose first hash is the same share a prefix: the blocks with which all of them begin. What Mooncake's requests share beyond that is
not counted. Sources: github.com/Azure/AzurePublicDataset, HPMLL/BurstGPT, kvcache-ai/Mooncake (FAST25-release), microsoft/vidur.
"""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.documents import read_text
from analysis.errors import InputError
from analysis.tables import read_csv

LENGTHS = ("num_prefill_tokens", "num_decode_tokens")
TRACES = (
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    ("Timestamp", "Request tokens", "Response tokens"),
    ("timestamp", "input_length", "output_length"),
)
MOONCAKE_BLOCK = 512


def read_trace(path: str | Path) -> pd.DataFrame:
    """A trace as a table: its own columns where it is nobody's that is known here, else `arrived_at` (if there are times) and `LENGTHS`.

    Raises:
        InputError: a line that is no JSON object, or a time that is none.
    """
    frame = _lines(path) if Path(path).suffix == ".jsonl" else read_csv(path)
    known = next((names for names in TRACES if set(names) <= set(frame.columns)), None)
    if known is None:
        if set(LENGTHS) <= set(frame.columns) and "request_id" not in frame.columns:
            frame.insert(0, "request_id", np.arange(len(frame)))
        return frame
    found = frame[list(known)].set_axis(["arrived_at", *LENGTHS], axis=1)
    if known[0] == "TIMESTAMP":
        times = pd.to_datetime(found["arrived_at"], errors="coerce")
        if times.isna().any():
            line = int(np.flatnonzero(times.isna())[0]) + 2
            raise InputError(f"expected a date and time, got {found['arrived_at'].iloc[line - 2]!r}", path=path, line=line, key=known[0])
        found["arrived_at"] = (times - times.min()).dt.total_seconds()
    elif known[0] == "timestamp":
        found["arrived_at"] = pd.to_numeric(found["arrived_at"], errors="coerce") / 1e3
    found.insert(0, "request_id", np.arange(len(found)))
    return found if "hash_ids" not in frame.columns else found.assign(**_prefixes(frame["hash_ids"], found[LENGTHS[0]]))


def _lines(path: str | Path) -> pd.DataFrame:
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        try:
            row = json.loads(line) if line.strip() else None
        except ValueError:
            row = line
        if row is not None and not isinstance(row, dict):
            raise InputError("expected a JSON object on each line", path=path, line=number)
        rows += [row] if row is not None else []
    return pd.DataFrame(rows)


def _prefixes(hashes: pd.Series, prompts: pd.Series) -> dict[str, Any]:
    """Prefix and its tokens for each request: the blocks with which all that have the same first block begin."""
    lists = [list(blocks) if isinstance(blocks, (list, tuple)) else [] for blocks in hashes]
    shared: dict[Any, list[Any]] = {}
    counts: dict[Any, int] = {}
    for blocks in filter(None, lists):
        before = shared.setdefault(blocks[0], blocks)
        shared[blocks[0]] = [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, blocks, strict=False))]
        counts[blocks[0]] = counts.get(blocks[0], 0) + 1
    names = {first: number for number, first in enumerate(first for first, count in counts.items() if count > 1)}
    which = [names.get(blocks[0], -1) if blocks else -1 for blocks in lists]
    tokens = [MOONCAKE_BLOCK * len(shared[blocks[0]]) if of >= 0 else 0 for blocks, of in zip(lists, which, strict=True)]
    return {"prefix_id": which, "prefix_tokens": np.minimum(tokens, pd.to_numeric(prompts, errors="coerce").fillna(0))}
