"""How far back did a program last touch a cache line: distances that hold for every cache, found without simulating one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import outer

COLD = -1
"""Distance of a line that was never touched before."""


@outer
def stack_distances(lines: NDArray[np.int64], kinds: int) -> NDArray[np.int32]:
    """Distinct other lines touched since the last touch of the same line; `COLD` at the first touch.

    A fully associative LRU cache of s lines hits exactly when the distance is below s, whatever s is. A Fenwick tree over
    touches holds a one at the last touch of each line: O(log n) a touch.

    Args:
        lines: line of each touch, 0..kinds-1, shape (n,).
        kinds: how many different lines there are.
    Source: Mattson et al., Evaluation techniques for storage hierarchies, 1970.
    """
    n = len(lines)
    tree = np.zeros(n + 1, np.int32)
    last = np.full(kinds, -1, np.int64)
    result = np.empty(n, np.int32)
    touched = 0
    for i in range(n):
        line = lines[i]
        before = last[line]
        if before < 0:
            result[i] = COLD
            touched += 1
        else:
            older, k = 0, before + 1
            while k > 0:
                older += tree[k]
                k -= k & -k
            result[i] = touched - older
            k = before + 1
            while k <= n:
                tree[k] -= 1
                k += k & -k
        k = i + 1
        while k <= n:
            tree[k] += 1
            k += k & -k
        last[line] = i
    return result


@outer
def set_distances(line_addresses: NDArray[np.int64], set_bits: int, deepest: int) -> NDArray[np.uint8]:
    """Distinct other lines of the same set touched since the last touch, for 2^set_bits sets; `deepest` if more, or never touched.

    A cache of 2^set_bits sets and w ways with LRU hits exactly when the distance is below w.

    Args:
        line_addresses: address of each touched line over the line size, shape (n,).
        set_bits: logarithm of the number of sets.
        deepest: largest distance told apart.
    Source: Hill and Smith, Evaluating associativity in CPU caches, 1989.
    """
    stacks = np.full((1 << set_bits, deepest), np.int64(-1))
    mask = np.int64((1 << set_bits) - 1)
    result = np.empty(len(line_addresses), np.uint8)
    for i in range(len(line_addresses)):
        line = line_addresses[i]
        stack = stacks[line & mask]
        place = 0
        while place < deepest and stack[place] != line:
            place += 1
        result[i] = place
        for k in range(min(place, deepest - 1), 0, -1):
            stack[k] = stack[k - 1]
        stack[0] = line
    return result


@outer
def touches_since(lines: NDArray[np.int64], positions: NDArray[np.int64], kinds: int) -> NDArray[np.int64]:
    """Instructions since the same line was touched before; `COLD` at the first touch.

    Args:
        lines: line of each touch, 0..kinds-1, shape (n,).
        positions: instruction of each touch, rising, shape (n,).
        kinds: how many different lines there are.
    """
    last = np.full(kinds, -1, np.int64)
    result = np.empty(len(lines), np.int64)
    for i in range(len(lines)):
        before = last[lines[i]]
        result[i] = COLD if before < 0 else positions[i] - before
        last[lines[i]] = positions[i]
    return result
