"""How do the times of a kernel's tiles add up to the kernel's? As printed, and as a GPU runs them."""

from __future__ import annotations

from collections.abc import Sequence

Waves = Sequence[Sequence[float]]


def as_waves(tile_s: Sequence[float], slots: int) -> list[list[float]]:
    """Deal tiles out in launch order, `slots` at a time."""
    if slots < 1:
        raise ValueError("a device runs at least one tile at a time")
    return [list(tile_s[i : i + slots]) for i in range(0, len(tile_s), slots)]


def _checked(waves: Waves) -> Waves:
    if not waves or any(len(wave) == 0 for wave in waves):
        raise ValueError("expected at least one wave, none of them empty")
    if any(t < 0 for wave in waves for t in wave):
        raise ValueError("times cannot be negative")
    return waves


def kernel_latency_as_printed(waves: Waves) -> float:
    """The aggregation that the survey prints: T = max over waves of the sum over the wave's tiles.

    It has tiles of one wave, which run side by side, wait for each other, and waves, which follow each other, overlap.

    Args:
        waves: tile times (s), one list a wave.
    Source: earlier survey draft, equation 8.
    """
    return max(sum(wave) for wave in _checked(waves))


def kernel_latency(waves: Waves) -> float:
    """Waves one after the other, each as long as its slowest tile: T = sum over waves of the max over the wave's tiles.

    Args:
        waves: tile times (s), one list a wave.
    Source: how thread blocks are scheduled; NeuSight (ASPLOS 2025) multiplies a tile's time by the number of waves.
    """
    return sum(max(wave) for wave in _checked(waves))


def greedy_kernel_latency(tile_s: Sequence[float], slots: int) -> float:
    """No waves at all: each slot takes the next tile as soon as it is free; the time at which the last one ends.

    Never more than `kernel_latency` of the same tiles in the same order: a wave adds the wait for its slowest tile.
    """
    if slots < 1 or not tile_s:
        raise ValueError("expected at least one tile and one slot")
    free = [0.0] * slots
    for t in tile_s:
        free[free.index(min(free))] += t
    return max(free)
