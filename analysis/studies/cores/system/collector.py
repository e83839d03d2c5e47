"""What does the trace collector cost: a FIFO at retirement, drained to memory, that stalls the core when it is full; and what it writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import outer
from analysis.cores.riscv.trace import Trace, file_columns
from analysis.errors import InputError
from analysis.studies.cores.system.sealed import SealedWriter, unseal
from analysis.studies.cores.trace_files import RECORD, trace_of_columns

END = np.dtype("<u8")


@dataclass(frozen=True)
class Collector:
    """The hardware (NeuroScalar, section 4.1.2; what the paper leaves open has our choice as its default).

    Attributes:
        entries: of the FIFO.
        instructions_per_entry: an entry is written when so many have retired, or padded when the process is switched away.
        bytes_per_instruction: stored for each (PC 8, address 8, opclass 1, three registers 3 are 20; 2.5 MB an epoch are 25).
        drain_bytes_per_cycle: what the memory hierarchy takes from the FIFO.
        retire_width: instructions the core retires a cycle at most; after a stall it catches up at this rate.
    """

    entries: int = 512
    instructions_per_entry: int = 5
    bytes_per_instruction: int = 25
    drain_bytes_per_cycle: float = 64.0
    retire_width: int = 8

    def __post_init__(self) -> None:
        for name in ("entries", "instructions_per_entry", "bytes_per_instruction", "drain_bytes_per_cycle", "retire_width"):
            if getattr(self, name) <= 0:
                raise InputError(f"expected a positive number, got {getattr(self, name)}", key=name)

    @property
    def entry_bytes(self) -> int:
        """Bytes of one entry: instructions_per_entry x bytes_per_instruction."""
        return self.instructions_per_entry * self.bytes_per_instruction

    @property
    def fifo_bytes(self) -> int:
        """Bytes of the FIFO: entries x entry_bytes."""
        return self.entries * self.entry_bytes


@dataclass(frozen=True)
class Collected:
    """What happened.

    Attributes:
        instructions: collected (those of the traced process).
        entries_written: to memory, padded ones included.
        memory_bytes: written to memory.
        stall_cycles: in which the core could not retire because the FIFO was full.
        cycles: until the last instruction retired, stalls included.
        peak_entries: highest number of entries in the FIFO.
    """

    instructions: int
    entries_written: int
    memory_bytes: int
    stall_cycles: int
    cycles: int
    peak_entries: int

    @property
    def slowdown(self) -> float:
        """Cycles with the collector over cycles without."""
        return self.cycles / (self.cycles - self.stall_cycles) if self.cycles > self.stall_cycles else float("inf")


@outer
def _collect(
    retired: NDArray[np.int64], traced: NDArray[np.bool_], entries: int, per_entry: int, entry_bytes: float, drain: float
) -> tuple[int, int, int, int]:
    partial, occupied, collected, written, stalls, peak = 0, 0, 0, 0, 0, 0
    credit = 0.0  # bytes of the entry at the FIFO's head that have left already
    running = False
    for cycle in range(len(retired)):
        if running and not traced[cycle] and partial > 0:
            # Switched away: the entry begun is written as it is; the kernel's switch hides a wait for room.
            occupied += 1
            written += 1
            partial = 0
        running = traced[cycle]
        arriving = retired[cycle] if traced[cycle] else 0
        while True:
            if occupied > 0:
                credit += drain
                while occupied > 0 and credit >= entry_bytes:
                    credit -= entry_bytes
                    occupied -= 1
                if occupied == 0:
                    credit = 0.0
            while arriving > 0 and occupied < entries:
                take = min(arriving, per_entry - partial)
                partial += take
                arriving -= take
                collected += take
                if partial == per_entry:
                    partial = 0
                    occupied += 1
                    written += 1
                    peak = max(peak, occupied)
            if arriving == 0:
                break
            stalls += 1
    if partial > 0:
        occupied += 1
        written += 1
    return collected, written, stalls, max(peak, occupied)


def collect(collector: Collector, retired: NDArray[np.int64], traced: NDArray[np.bool_] | None = None) -> Collected:
    """Run the collector over a program's retirement.

    A cycle drains drain_bytes_per_cycle, then takes what retires; what finds the FIFO full stalls the core by whole cycles.

    Args:
        retired: instructions retired in each cycle, int (cycles,), at most retire_width.
        traced: whether the traced process runs in that cycle, bool (cycles,); None: always.
    Raises:
        InputError: lengths differ, or a cycle retires more than retire_width.
    """
    retired = np.asarray(retired, np.int64)
    traced = np.ones(len(retired), np.bool_) if traced is None else np.asarray(traced, np.bool_)
    if len(traced) != len(retired):
        raise InputError(f"expected {len(retired)} cycles, got {len(traced)}", key="traced")
    if len(retired) and (retired.min() < 0 or retired.max() > collector.retire_width):
        raise InputError(f"expected 0 to {collector.retire_width} instructions a cycle, got {retired.max()}", key="retired")
    parts = (collector.entries, collector.instructions_per_entry, float(collector.entry_bytes), float(collector.drain_bytes_per_cycle))
    collected, written, stalls, peak = _collect(retired, traced, *parts)
    return Collected(collected, written, written * collector.entry_bytes, stalls, len(retired) + stalls, peak)


def retired_per_cycle(retire_cycle: NDArray[np.int64]) -> NDArray[np.int64]:
    """Instructions retired in each cycle, from the cycle in which each instruction retires (first one's is cycle 0)."""
    cycles = np.asarray(retire_cycle, np.int64)
    return np.bincount(cycles - cycles.min()).astype(np.int64)


def write_epoch(trace: Trace, path: str | Path, key: bytes, collector: Collector | None = None) -> None:
    """What the collector writes of an epoch: entry by entry through the cipher, so that memory holds ciphertext only.

    An instruction takes 24 bytes: the paper's six signals, and what our models read besides (a third source, the bytes touched, the
    instruction's length, whether a branch was taken).

    Source: NeuroScalar, section 4.1.2, "encrypted on-the-fly by the collector hardware".
    """
    records = np.empty(len(trace), RECORD)
    for name, column in file_columns(trace).items():
        records[name] = column
    step = (collector or Collector()).instructions_per_entry
    with SealedWriter(path, key) as writer:
        for first in range(0, len(records), step):
            writer.write(records[first : first + step].tobytes())
        writer.write(np.array(trace.end_pc, END).tobytes())


def read_epoch(path: str | Path, key: bytes) -> Trace:
    """The epoch in a file of `write_epoch`.

    Raises:
        InputError: another key, truncated or changed.
    """
    content = unseal(path, key).getvalue()
    records = np.frombuffer(content[: -END.itemsize], RECORD)
    return trace_of_columns({name: records[name] for name in RECORD.names or ()}, int(np.frombuffer(content[-END.itemsize :], END)[0]))
