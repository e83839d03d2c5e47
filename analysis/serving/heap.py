"""Values by their keys, the least first, for compiled loops: rows (key, value) of an array of which the first `size` are filled."""

from __future__ import annotations

from typing import Any

from analysis.compiled import inner


@inner(_nrt=False)
def push(heap: Any, size: int, key: Any, value: int) -> int:
    """Put a value in by its key; returns the size then."""
    i = size
    while i > 0 and heap[(i - 1) // 2, 0] > key:
        heap[i, 0], heap[i, 1] = heap[(i - 1) // 2, 0], heap[(i - 1) // 2, 1]
        i = (i - 1) // 2
    heap[i, 0], heap[i, 1] = key, value
    return size + 1


@inner(_nrt=False)
def pop(heap: Any, size: int) -> int:
    """Take the first value out (it is heap[0, 1] before); returns the size then."""
    last = size - 1
    key, value = heap[last, 0], heap[last, 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= key:
            break
        heap[i, 0], heap[i, 1] = heap[child, 0], heap[child, 1]
        i = child
    heap[i, 0], heap[i, 1] = key, value
    return last


@inner(_nrt=False)
def without(heap: Any, size: int, value: int) -> int:
    """The heap without one entry."""
    kept = 0
    for i in range(size):
        key, held = heap[i, 0], heap[i, 1]
        if held != value:
            kept = push(heap, kept, key, held)
    return kept
