"""How fast are several systolic arrays that share a layer, as in a TPU?"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.hardware import devices


@dataclass(frozen=True)
class Chip:
    """Matrix units of one chip.

    Args:
        device: name in `analysis.hardware`, which gives clock, memory bandwidth and published peak.
        arrays: matrix units (count).
        rows, columns: PEs of one (count).
        dtype: of the peak compared with.
        word_bytes: size of an operand (bytes).
    """

    device: str
    arrays: int
    rows: int
    columns: int
    dtype: str
    word_bytes: int

    @property
    def clock_hz(self) -> float:
        """Clock (Hz)."""
        clock = devices.load(self.device).clock_hz
        assert clock is not None
        return clock

    @property
    def peak_flop_per_s(self) -> float:
        """2 x arrays x R x C x clock (FLOP/s)."""
        return 2.0 * self.arrays * self.rows * self.columns * self.clock_hz

    @property
    def published_peak_flop_per_s(self) -> float:
        """The vendor's figure (FLOP/s)."""
        return devices.load(self.device).peak_flop_per_s(self.dtype)


# Sources: TPU v1: Jouppi et al., ISCA 2017, section 2 (one 256 x 256 matrix unit); v3: cloud.google.com/tpu/docs/v3 (2 TensorCores x
# 2 units of 128 x 128); v4: cloud.google.com/tpu/docs/v4 (2 TensorCores x 4 units of 128 x 128).
CHIPS = {
    "TPU v1": Chip("TPU-v1", 1, 256, 256, "int8", 1),
    "TPU v3": Chip("TPU-v3", 4, 128, 128, "bf16", 2),
    "TPU v4": Chip("TPU-v4", 8, 128, 128, "bf16", 2),
}


@dataclass(frozen=True)
class ChipTime:
    """One product on one chip.

    Args:
        cycles: of the busiest array (cycles).
        compute_s, memory_s: array time, and time to move each operand once (s).
        latency_s: the larger of the two (s).
        bound: "compute" or "memory".
        split: parts of M and of N, arrays = their product (count).
        utilization: MACs / (PEs x cycles) (1).
    """

    cycles: int
    compute_s: float
    memory_s: float
    latency_s: float
    bound: str
    split: tuple[int, int]
    utilization: float


def pipelined_cycles(m: int, n: int, k: int, rows: int, columns: int) -> int:
    """Weight-stationary cycles when the next weights load while this fold streams.

    R_0 + sum over folds of max(M, rows of the next fold) + R_last + C_last - 2: waves of consecutive folds follow each other
    without a gap, so that skew is paid once. Never more than the sum of separate folds.

    Args:
        m, n, k: dimensions of the product (count).
        rows, columns: the array (count).
    """
    row_folds, column_folds = -(-k // rows), -(-n // columns)
    last = k - (row_folds - 1) * rows
    first = min(rows, k)
    # Loads hidden behind a stream: every fold's but the first; the last stream hides none.
    full_loads = column_folds * (row_folds - 1) - (1 if row_folds > 1 else 0)
    last_loads = column_folds - (1 if row_folds == 1 else 0)
    streaming = full_loads * max(m, rows) + last_loads * max(m, last) + m
    return first + streaming + last + (n - (column_folds - 1) * columns) - 2


def on_chip(chip: Chip, m: int, n: int, k: int) -> ChipTime:
    """Time of a product split over the arrays of a chip, by the best cut of M and N into equal parts.

    latency = max(cycles / clock, bytes / memory bandwidth), each operand moved once.

    Args:
        m, n, k: dimensions of the product (count).
    """
    best: tuple[int, tuple[int, int]] | None = None
    for parts in range(1, chip.arrays + 1):
        if chip.arrays % parts == 0:
            cut = (parts, chip.arrays // parts)
            cycles = pipelined_cycles(-(-m // cut[0]), -(-n // cut[1]), k, chip.rows, chip.columns)
            if best is None or cycles < best[0]:
                best = (cycles, cut)
    assert best is not None
    compute = best[0] / chip.clock_hz
    memory = chip.word_bytes * (m * k + k * n + m * n) / devices.load(chip.device).memory_bandwidth_bytes_per_s
    return ChipTime(
        cycles=best[0],
        compute_s=compute,
        memory_s=memory,
        latency_s=max(compute, memory),
        bound="compute" if compute >= memory else "memory",
        split=best[1],
        utilization=m * n * k / (best[0] * chip.arrays * chip.rows * chip.columns),
    )
