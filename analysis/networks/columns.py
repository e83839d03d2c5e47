"""Rows of a table of collectives as arrays, a column at a time: each different text of a column is read once.

What is not written plainly, cannot be, or lies outside the model is left to `case_table`, which reads it a row at a time and says what is
wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.networks import cases
from analysis.networks import codes as numbers
from analysis.networks.closed_forms import MOST_DIMENSIONS, CaseArrays
from analysis.tables import as_number

DIGITS = 17
"""Most of a whole number that is read here."""
WINDOWED = -1
"""Algorithm of a direct exchange with a window (`direct3`), which has no formula."""


Texts = list[str]
Values = NDArray[Any]
Read = Callable[[Texts], tuple[Values, NDArray[np.bool_]]]
"""Values of different texts, and which of them are plainly written and possible."""


def _named(names: Mapping[str, int]) -> Read:
    def read(texts: Texts) -> tuple[Values, NDArray[np.bool_]]:
        return np.array([names.get(text, 0) for text in texts], np.int64), np.array([text in names for text in texts], bool)

    return read


def _whole(least: int, most: int) -> Read:
    def read(texts: Texts) -> tuple[Values, NDArray[np.bool_]]:
        if "".join(texts).isascii() and all(map(str.isdigit, texts)) and max(map(len, texts)) <= DIGITS:
            values = np.fromiter(map(int, texts), np.int64, len(texts))
        else:
            plain = (text.isdigit() and text.isascii() and len(text) <= DIGITS for text in texts)
            values = np.array([int(text) if fine else least - 1 for text, fine in zip(texts, plain, strict=True)], np.int64)
        return values, (values >= least) & (values <= most)

    return read


def _real(least: float, most: float) -> Read:
    """Numbers from `least` to `most`."""

    def read(texts: Texts) -> tuple[Values, NDArray[np.bool_]]:
        try:
            values = np.fromiter(map(float, texts), float, len(texts))
        except ValueError:
            values = np.array([as_number(text) for text in texts], float)
        return values, (values >= least) & (values <= most)

    return read


def _algorithms(texts: Texts) -> tuple[Values, NDArray[np.bool_]]:
    windowed = [text.startswith("direct") and text[6:].isdigit() for text in texts]
    values = [WINDOWED if window else numbers.ALGORITHMS.get(text, 0) for text, window in zip(texts, windowed, strict=True)]
    return np.array(values, np.int64), np.array([w or text in numbers.ALGORITHMS for text, w in zip(texts, windowed, strict=True)], bool)


RATE = _real(math.ulp(0.0), float(np.finfo(float).max))
ONE: dict[str, Read] = {
    "backend": _named({cases.AWARE: 1, cases.UNAWARE: 0}),
    "collective": _named(numbers.COLLECTIVES),
    "size_bytes": _whole(1, cases.MOST_BYTES),
    "scheduling_policy": _named({"LIFO": 0, "FIFO": 1}),
    "preferred_dataset_splits": _whole(1, cases.MOST_SPLITS),
    "active_chunks_per_dim": _whole(1, cases.MOST_SPLITS),
    "queues_per_dim": _whole(1, cases.MOST_SPLITS),
    "endpoint_delay": _whole(0, cases.LONGEST_DELAY_NS),
    "local_mem_bw_GBps": RATE,
    "collective_optimization": _named({"localBWAware": 0, "baseline": 1}),
}
"""Columns of one value a row, and how their texts are read."""
MANY: dict[str, tuple[str, Read, float]] = {
    "topology": ("+", _named(numbers.TOPOLOGIES), 0),
    "npus_per_dim": ("x", _whole(1, cases.MOST_NPUS), 1),
    "bandwidth_gib_per_s": ("x", RATE, 1),
    "latency_ns": ("x", _real(0.0, cases.LONGEST_DELAY_NS), 0),
    "algorithm_per_dim": ("+", _algorithms, 0),
}
"""Columns of a value a dimension: what joins them, how their texts are read, and what stands where there is no dimension."""
FIELDS = {
    "aware": "backend", "collective": "collective", "size_bytes": "size_bytes", "splits": "preferred_dataset_splits",
    "active": "active_chunks_per_dim", "queues": "queues_per_dim", "endpoint_ns": "endpoint_delay",
    "memory_bytes_per_ns": "local_mem_bw_GBps", "baseline": "collective_optimization", "npus": "npus_per_dim", "kind": "topology",
    "algorithm": "algorithm_per_dim", "latency_ns": "latency_ns", "bytes_per_ns": "bandwidth_gib_per_s",
}  # fmt: skip
"""Field of `CaseArrays` -> column."""


def _by_dimension(texts: Texts, sign: str, read: Read, rest: float) -> tuple[Values, NDArray[np.int64]]:
    """Values of each text, a column a dimension, and how many dimensions it has (0: not read here)."""
    parts = [text.split(sign) for text in texts] if sign in "".join(texts) else None
    if parts is None:
        values, fine = read(texts)
        table = np.full((len(texts), MOST_DIMENSIONS), rest, values.dtype)
        table[:, 0] = values
        return table, fine.astype(np.int64)
    count = np.array([len(part) for part in parts], np.int64)
    values, fine = read([each for part in parts for each in part])
    owner = np.repeat(np.arange(len(texts)), count)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    table = np.full((len(texts), MOST_DIMENSIONS), rest, values.dtype)
    held = place < MOST_DIMENSIONS
    table[owner[held], place[held]] = values[held]
    wrong = np.bincount(owner, ~fine, len(texts)) > 0
    return table, np.where(wrong | (count > MOST_DIMENSIONS), 0, count)


def side_by_side(frame: pd.DataFrame, defaults: Mapping[str, str]) -> tuple[CaseArrays, NDArray[np.bool_]]:
    """The rows that have, or may have, a formula, and which rows of the table these are."""
    good = np.ones(len(frame), bool)
    one: dict[str, Values] = {}
    for name, read in ONE.items():
        codes, texts = _texts(frame, name, defaults)
        values, fine = read(texts)
        one[name] = values[codes]
        good &= fine[codes]
    many: dict[str, Values] = {}
    counts = []
    for name, (sign, read, rest) in MANY.items():
        codes, texts = _texts(frame, name, defaults)
        table, count = _by_dimension(texts, sign, read, rest)
        many[name] = table[codes]
        counts.append(count[codes])
    good &= _inside(frame, one, many, counts)
    many["bandwidth_gib_per_s"] = many["bandwidth_gib_per_s"] * 2**30 / 1e9
    return CaseArrays(dimensions=counts[0][good], **{field: {**one, **many}[name][good] for field, name in FIELDS.items()}), good


def of_cases(asked: Sequence[cases.CollectiveCase]) -> tuple[CaseArrays, NDArray[np.bool_]]:
    """The same of cases that were read already."""
    facts = [{**vars(case.network), **vars(case)} for case in asked]
    rows = [[MANY[name][0].join(map(str, fact[name])) if name in MANY else str(fact[name]) for name in cases.COLUMNS] for fact in facts]
    return side_by_side(pd.DataFrame(rows, columns=list(cases.COLUMNS)), {})


def _texts(frame: pd.DataFrame, name: str, defaults: Mapping[str, str]) -> tuple[NDArray[np.int64], list[str]]:
    """Of each row the number of its text, and the different texts."""
    held = name if name in frame else cases.RECORDED_AS.get(name, name)
    if held not in frame:
        return np.zeros(len(frame), np.int64), [defaults[name]]
    codes, texts = pd.factorize(frame[held].astype(str))
    return codes, list(texts.to_numpy(dtype=object))


def _inside(
    frame: pd.DataFrame, one: Mapping[str, NDArray[Any]], many: Mapping[str, NDArray[Any]], counts: list[NDArray[np.int64]]
) -> NDArray[np.bool_]:
    """Rows that `check_case` and `outside_model` would accept, as far as several columns decide that together."""
    dimensions, npus, algorithm = counts[0], many["npus_per_dim"], many["algorithm_per_dim"]
    everyone = npus.astype(float).prod(axis=1)
    good = dimensions > 0
    for other in counts[1:]:
        good &= other == dimensions
    good &= (everyone >= 2) & (everyone <= cases.MOST_NPUS)
    aware, collective = one["backend"] == 1, one["collective"]
    good &= ~(aware & ((dimensions > 1) | ((many["topology"][:, 0] == numbers.RING) & (npus[:, 0] == 2))))
    there = np.arange(MOST_DIMENSIONS) < dimensions[:, None]
    tree, halving = (there & (algorithm == code) for code in (numbers.DOUBLE_BINARY_TREE, numbers.HALVING_DOUBLING))
    good &= ~((tree | halving) & (npus & (npus - 1) != 0)).any(axis=1)
    good &= ~(tree.any(axis=1) & ((dimensions > 1) | (collective != numbers.ALL_REDUCE)))
    good &= ~(halving.any(axis=1) & (collective == numbers.ALL_TO_ALL))
    good &= ~((collective == numbers.ALL_GATHER) & (one["size_bytes"] < one["preferred_dataset_splits"]))
    if "npus" in frame:
        codes, texts = _texts(frame, "npus", {})
        said, fine = _whole(1, cases.MOST_NPUS)(texts)
        empty = np.array([text == "" for text in texts], bool)
        good &= empty[codes] | (fine[codes] & (said[codes] == everyone))
    return good
