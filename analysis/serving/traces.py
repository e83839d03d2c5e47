"""Whose trace of requests is this? Public traces by their own columns, as the columns that `requests` reads.

| trace | times | lengths |
|---|---|---|
| Azure LLM inference (CSV) | TIMESTAMP, from the first | ContextTokens, GeneratedTokens |
| BurstGPT (CSV) | Timestamp (s) | Request tokens, Response tokens; Session ID (or SessionID): turns of a conversation |
| Mooncake (JSON lines) | timestamp (ms) | input_length, output_length; hash_ids: blocks of 512 tokens |
| ServeGen (CSV or JSON lines) | timestamp (s) | input_tokens, output_tokens |
| VIDUR, processed (CSV) | arrived_at (s), or none | num_prefill_tokens, num_decode_tokens |
| ShareGPT (JSON) | none | words times `tokens_per_word` of a conversation's first question and answer, or of as many `turns` |

Hashes become a tree of prefixes (`hash_tree`), which the engine shares block by block. Sources: github.com/Azure/AzurePublicDataset,
HPMLL/BurstGPT, kvcache-ai/Mooncake (FAST25-release), alibaba/ServeGen, microsoft/vidur; of ShareGPT's conversations vLLM's benchmark
takes the first two turns too, and leaves out those below 4 tokens, prompts above 1,024 and sums above 2,048
(vllm/benchmarks/datasets.py, is_valid_sequence).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.documents import parse_json, read_json, read_text
from analysis.errors import InputError
from analysis.tables import numeric, read_csv

LENGTHS = ("num_prefill_tokens", "num_decode_tokens")
TRACES = (
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
    ("Timestamp", "Request tokens", "Response tokens"),
    ("timestamp", "input_length", "output_length"),
    ("timestamp", "input_tokens", "output_tokens"),
)
HASHES, HASHED_TOKENS = "hash_ids", 512


def read_trace(path: str | Path, tokens_per_word: float = 0.0, turns: int = 1) -> pd.DataFrame:
    """A trace as a table: of a known format `arrived_at` (if there are times) and `LENGTHS`, else its own columns.

    Args:
        tokens_per_word: of texts without token counts; 0: not given; turns: of a conversation at most, each prompt with all before it.
    """
    if Path(path).suffix == ".json":
        return _conversations(path, tokens_per_word, turns)
    if tokens_per_word or turns > 1:
        key = "requests.tokens_per_word" if tokens_per_word else "requests.turns"
        raise InputError("is read for a JSON of conversations alone: this trace has its own token counts", key=key)
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
            raise InputError(
                f"expected a date and time, got {str(found['arrived_at'].iloc[line - 2])!r}", path=path, line=line, key=known[0]
            )
        found["arrived_at"] = (times - times.min()).dt.total_seconds()
    elif known[1] == "input_length":
        found["arrived_at"] = pd.to_numeric(found["arrived_at"], errors="coerce") / 1e3
    found.insert(0, "request_id", np.arange(len(found)))
    named = next((name for name in ("Session ID", "SessionID") if name in frame.columns), None) if known[0] == "Timestamp" else None
    if named is not None:
        found["session_id"] = frame[named]
        _check_history(found, path, named)
    return found.assign(**{HASHES: frame[HASHES]}) if HASHES in frame.columns else found


MOST_CUT = 0.1
"""Share of later turns that may be shorter than what was said before them, cut to a model's context."""


def _check_history(frame: pd.DataFrame, path: str | Path, named: str) -> None:
    """Refuse sessions whose prompts do not hold the turns before them: BurstGPT's schema leaves that open."""
    prompts, answers = (numeric(frame[name]) for name in LENGTHS)
    before = (prompts + answers).groupby(frame["session_id"]).shift()
    cut = float((prompts < before)[before.notna()].mean()) if before.notna().any() else 0.0
    if cut > MOST_CUT:
        message = f"{cut:.0%} of later turns are shorter than the turns before them, so prompts do not hold the conversation; "
        raise InputError(message + "leave the column out, and each request stands for itself", path=path, key=named)


SHORTEST, LONGEST_PROMPT, LONGEST = 4, 1024, 2048
"""Tokens of the conversations that vLLM's benchmark keeps."""


def _conversations(path: str | Path, tokens_per_word: float, turns: int) -> pd.DataFrame:
    """Lengths of ShareGPT's conversations by their words."""
    listed = read_json(path, python=True)
    if not isinstance(listed, list) or not all(isinstance(one, dict) and isinstance(one.get("conversations"), list) for one in listed):
        raise InputError("expected a list of conversations, as ShareGPT has them", path=path)
    if not tokens_per_word:
        raise InputError(
            "a JSON of conversations (ShareGPT) has texts, no token counts: count them with the model's tokenizer, and give a CSV with "
            f"{', '.join(LENGTHS)}, or say tokens_per_word (English prose: about 1.3)", path=path,
        )  # fmt: skip
    rows: list[tuple[int, int, int]] = []
    for session, one in enumerate(listed):
        told = [turn.get("value") if isinstance(turn, dict) else None for turn in one["conversations"][: 2 * turns]]
        before = 0
        for question, answer in zip(told[::2], told[1::2], strict=False):
            if not isinstance(question, str) or not isinstance(answer, str):
                break
            asked, answered = (round(tokens_per_word * len(text.split())) for text in (question, answer))
            short = min(asked, answered) < SHORTEST if before == 0 else min(asked, answered) < 1
            if short or (before == 0 and (asked > LONGEST_PROMPT or asked + answered > LONGEST)):
                break
            rows.append((session, before + asked, answered))
            before += asked + answered
    if not rows:
        raise InputError(f"none of {len(listed)} conversations is between {SHORTEST} and {LONGEST} tokens long", path=path)
    found = pd.DataFrame(rows, columns=["session_id", *LENGTHS])
    found.insert(0, "request_id", np.arange(len(found)))
    return found if turns > 1 else found.drop(columns="session_id")


def _lines(path: str | Path) -> pd.DataFrame:
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        try:
            row = parse_json(line, path) if line.strip() else None
        except InputError:
            row = line
        if row is not None and not isinstance(row, dict):
            raise InputError("expected a JSON object on each line", path=path, line=number)
        rows += [row] if row is not None else []
    return pd.DataFrame(rows)


def hash_tree(hashes: pd.Series, prompts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Block hashes as a tree of prefixes: each request's deepest full block and the tokens to there, and what each block continues."""
    places: dict[tuple[int, Any], int] = {}
    above: list[int] = []
    which, tokens = np.full(len(hashes), -1, np.int64), np.zeros(len(hashes), np.int64)
    for row, (blocks, prompt) in enumerate(zip(hashes, prompts, strict=True)):
        node, full = -1, list(blocks)[: int(prompt) // HASHED_TOKENS] if isinstance(blocks, (list, tuple)) else []
        for block in full:
            parent, node = node, places.setdefault((node, str(block)), len(above))
            if node == len(above):
                above.append(parent)
        which[row], tokens[row] = node, HASHED_TOKENS * len(full)
    return which, tokens, np.array(above, np.int64)
