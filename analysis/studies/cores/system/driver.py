"""The driver's side: configure the collector, sample epochs of a running program, schedule their inference at low priority."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from analysis.cores.riscv.emulator import EmulatedMachine, epochs
from analysis.cores.riscv.trace import EPOCH_INSTRUCTIONS, Trace
from analysis.errors import InputError


@dataclass(frozen=True)
class Configuration:
    """What a user sets.

    Attributes:
        sample_every: one epoch in so many is collected.
        offset: the first epoch collected, 0 to sample_every - 1.
        epoch_instructions: per epoch.
        buffer_epochs: room of the protected buffer; a sampled epoch that finds it full is dropped, never awaited.
    """

    sample_every: int = 10
    offset: int = 0
    epoch_instructions: int = EPOCH_INSTRUCTIONS
    buffer_epochs: int = 4

    def __post_init__(self) -> None:
        for name in ("sample_every", "epoch_instructions", "buffer_epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"expected 1 or more, got {getattr(self, name)}", key=name)
        if not 0 <= self.offset < self.sample_every:
            raise InputError(f"expected 0 to {self.sample_every - 1}, got {self.offset}", key="offset")


@dataclass(frozen=True)
class Schedule:
    """What became of the sampled epochs.

    Attributes:
        started_s: when the inference of each began, NaN for the dropped.
        dropped: how many found the buffer full.
        busy_share: share of the time until the last one finished in which the accelerator worked for us.
    """

    started_s: tuple[float, ...]
    dropped: int
    busy_share: float


def configuration_for(overhead: float, instructions_per_second: float, inference_s: float) -> Configuration:
    """The sampling rate at which the accelerator is busy for the share `overhead` of the time.

    sample_every = ceil(inference_s / overhead * instructions_per_second / epoch_instructions)

    Args:
        overhead: 0 to 1.
    Source: NeuroScalar, section 4.2 (25 ms, 0.1 %, 3,000 MIPS: one epoch in 0.75 million).
    """
    if not 0 < overhead <= 1:
        raise InputError(f"expected more than 0 and at most 1, got {overhead}", key="overhead")
    every = inference_s / overhead * instructions_per_second / EPOCH_INSTRUCTIONS
    return Configuration(sample_every=max(1, int(np.ceil(every - 1e-9))))


def sampled_epochs(machine: EmulatedMachine, configuration: Configuration, limit: int | None = None) -> Iterator[tuple[int, Trace]]:
    """Run a program; give number and trace of the epochs that the sampling rate picks."""
    for number, trace in enumerate(epochs(machine, configuration.epoch_instructions, limit)):
        if number % configuration.sample_every == configuration.offset:
            yield number, trace


def schedule(arrivals_s: list[float], inference_s: float, configuration: Configuration, others_busy_until_s: float = 0.0) -> Schedule:
    """First come, first served on one accelerator, behind everything else that it does.

    Args:
        arrivals_s: when each sampled epoch is complete in the buffer, ascending.
        configuration: for the room in the buffer (the epoch in work occupies its place until it is done).
        others_busy_until_s: foreground work keeps the accelerator until then; ours begins after it.
    """
    started: list[float] = []
    done: list[float] = []
    free = others_busy_until_s
    for arrival in arrivals_s:
        if sum(end > arrival for end in done) >= configuration.buffer_epochs:
            started.append(float("nan"))
            continue
        begin = max(arrival, free)
        free = begin + inference_s
        done.append(free)
        started.append(begin)
    busy = len(done) * inference_s / free if done and free > 0 else 0.0
    return Schedule(tuple(started), len(arrivals_s) - len(done), busy)
