"""How predictable is a program's control flow: what idealised predictors without table limits would have got wrong?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import inner, outer

GLOBAL_BITS = 12
LOCAL_BITS = 10
TABLE_BITS = 20
NAMES = ("bias_wrong", "global_wrong", "local_wrong", "either_wrong", "target_wrong")

CONDITIONAL, JUMP, CALL, INDIRECT_JUMP, INDIRECT_CALL, RETURN = 15, 16, 17, 18, 19, 20


@inner(_nrt=False)
def _slot(row: np.int64, history: np.int64) -> np.int64:
    mixed = np.uint64(row) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(history) * np.uint64(0xC2B2AE3D27D4EB4F)
    return np.int64((mixed ^ (mixed >> np.uint64(29))) >> np.uint64(64 - TABLE_BITS - 16)) & ((1 << TABLE_BITS) - 1)


@inner(_nrt=False)
def _step(table: NDArray[np.int8], slot: np.int64, taken: bool) -> bool:
    """Predict with a two-bit counter and train it; true where it was right."""
    right = (table[slot] >= 2) == taken
    if taken:
        table[slot] = min(3, table[slot] + 1)
    else:
        table[slot] = max(0, table[slot] - 1)
    return right


@outer
def surprises(
    row: NDArray[np.uint32], rows: int, opclass: NDArray[np.uint8], taken: NDArray[np.bool_], next_row: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Where idealised predictors are wrong, 0 or 1 for each name in `NAMES`; 0 where nothing is to predict.

    Two-bit counters for each branch (bias), each branch and the last 12 outcomes of all (global), each branch and its own last 10
    (local); `either` picks between the last two by a two-bit counter for each branch. A target is wrong when an indirect jump goes
    elsewhere than the last time after the same global history, or a return does not go behind its call. Tables are so large that
    two branches hardly meet: these are properties of the program, not of a predictor that was built.

    Args:
        row: static instruction of each executed one, shape (n,).
        rows: how many static instructions there are.
        opclass: of each executed instruction.
        taken: whether the next instruction is elsewhere than behind this one.
        next_row: static instruction that follows, or -1.
    Returns:
        shape (n, 5).
    Source: Yeh and Patt, Two-level adaptive branch prediction, 1991; McFarling, Combining branch predictors, 1993.
    """
    n = len(row)
    result = np.zeros((n, 5), np.uint8)
    bias = np.full(rows, 1, np.int8)
    choice = np.full(rows, 2, np.int8)
    by_global = np.full(1 << TABLE_BITS, 1, np.int8)
    by_local = np.full(1 << TABLE_BITS, 1, np.int8)
    targets = np.full(1 << TABLE_BITS, -1, np.int64)
    local = np.zeros(rows, np.int64)
    calls = np.zeros(1024, np.int64)
    depth = 0
    history = np.int64(0)
    for i in range(n):
        kind = opclass[i]
        if kind < CONDITIONAL or kind > RETURN:
            continue
        here = np.int64(row[i])
        if kind == CONDITIONAL:
            went = taken[i]
            result[i, 0] = not _step(bias, here, went)
            right_global = _step(by_global, _slot(here, history), went)
            right_local = _step(by_local, _slot(here, local[here] | np.int64(1 << 40)), went)
            result[i, 1] = not right_global
            result[i, 2] = not right_local
            result[i, 3] = not (right_global if choice[here] >= 2 else right_local)
            if right_global != right_local:
                _step(choice, here, right_global)
            local[here] = ((local[here] << 1) | np.int64(went)) & ((1 << LOCAL_BITS) - 1)
            history = ((history << 1) | np.int64(went)) & ((1 << GLOBAL_BITS) - 1)
        elif kind in (INDIRECT_JUMP, INDIRECT_CALL):
            slot = _slot(here, history | np.int64(1 << 41))
            result[i, 4] = targets[slot] != next_row[i]
            targets[slot] = next_row[i]
            history = ((history << 2) ^ (next_row[i] & 3)) & ((1 << GLOBAL_BITS) - 1)
        elif kind == RETURN:
            depth = max(depth - 1, 0)
            result[i, 4] = calls[depth % 1024] + 1 != next_row[i]
        if kind in (CALL, INDIRECT_CALL):
            calls[depth % 1024] = here
            depth += 1
    return result
