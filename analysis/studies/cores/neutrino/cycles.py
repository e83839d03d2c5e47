"""How many cycles does a tile's static program take, and how busy are its lanes?

Two engines work side by side: the vector engine executes in order, one instruction at a time; the weight port stages tiles in order, each
as soon as the slot that it overwrites was read for the last time. Nothing else can wait: there is no cache and no branch.
Source: NeuroScalar, section 4.3.1; what the paper leaves open is stated in `machine`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import outer
from analysis.errors import InputError
from analysis.studies.cores.neutrino.compiler import Compiled
from analysis.studies.cores.neutrino.machine import STAGE, Instruction, NeutrinoMachine

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Cycles:
    """Cycles of a program.

    Args:
        total: from its start to the end of its last vector instruction.
        by_part: cycles of the vector engine and waits, by part of the network; they add up to `total`.
        waits: cycles in which the vector engine waited for weights.
        macs: useful multiply-accumulates. lanes: of the machine.
    """

    total: float
    by_part: dict[str, float]
    waits: float
    macs: int
    lanes: int

    @property
    def utilisation(self) -> float:
        """Useful multiply-accumulates over those that the lanes could do: macs / (lanes x total)."""
        return self.macs / (self.lanes * self.total)


@outer
def _run(
    cycles: Integers, slot: Integers, stage: NDArray[np.bool_], bytes_staged: Integers, slots: int, port: float, waits: NDArray[np.float64]
) -> float:
    vector, weights = 0.0, 0.0
    ready, free = np.zeros(slots), np.zeros(slots)
    for i in range(len(cycles)):
        if stage[i]:
            weights = max(weights, free[slot[i]]) + bytes_staged[i] / port
            ready[slot[i]] = weights
            continue
        start = vector
        if slot[i] >= 0:
            start = max(vector, ready[slot[i]])
        waits[i] = start - vector
        vector = start + cycles[i]
        if slot[i] >= 0:
            free[slot[i]] = vector
    return vector


def simulate(program: tuple[Instruction, ...], machine: NeutrinoMachine) -> Cycles:
    """Run a program to its end.

    Args:
        program: in order, one or more time steps. machine: port and slots.
    """
    cycles = np.array([i.vector_cycles for i in program], np.int64)
    slot = np.array([i.slot for i in program], np.int64)
    stage = np.array([i.operation == STAGE for i in program])
    staged = np.array([i.rows if i.operation == STAGE else 0 for i in program], np.int64)
    waits = np.zeros(len(program))
    total = _run(cycles, slot, stage, staged, machine.slots, float(machine.port_of_a_tile), waits)
    by_part: dict[str, float] = {}
    for instruction, own, waited in zip(program, cycles, waits, strict=True):
        by_part[instruction.part] = by_part.get(instruction.part, 0.0) + float(own) + float(waited)
    return Cycles(float(total), by_part, float(waits.sum()), sum(i.macs for i in program), machine.lanes)


def step_cycles(compiled: Compiled, machine: NeutrinoMachine, predicted: bool = True, steps: int = 6) -> Cycles:
    """One time step in the steady state: the last of some steps in a row, with the staging of the next one under way.

    Args:
        compiled: the program. predicted: with the heads. steps: simulated; the difference of the last two runs is the steady state.
    """
    one = compiled.step + (compiled.heads if predicted else ())
    longer, shorter = simulate(one * steps, machine), simulate(one * (steps - 1), machine)
    by_part = {part: longer.by_part[part] - shorter.by_part[part] for part in longer.by_part}
    return Cycles(longer.total - shorter.total, by_part, longer.waits - shorter.waits, longer.macs - shorter.macs, machine.lanes)


@dataclass(frozen=True)
class Epoch:
    """An epoch on all tiles.

    Args:
        cycles: until the last tile is done. sequences: windows or streams that it was cut into. steps: time steps of each.
        instructions: predicted. utilisation: useful multiply-accumulates over those of all lanes in all cycles, context included as useful.
    """

    cycles: float
    sequences: int
    steps: int
    instructions: int
    utilisation: float
    tiles: int

    @property
    def cycles_per_instruction(self) -> float:
        """Cycles of the whole machine for each predicted instruction."""
        return self.cycles / self.instructions


def epoch_cycles(compiled: Compiled, machine: NeutrinoMachine, instructions: int = 100_000, window: int = 256, target: int = 128) -> Epoch:
    """Time for one epoch (cycles).

    With target below window the epoch is cut into ceil(n / target) windows that overlap; the heads run for the targets only. With target =
    0 it is cut into as many streams as the machine runs at once and no context is repeated. Rounds = ceil(sequences / (batch x tiles)).
    Tiles that share the port may hinder each other, so the schedule leaves some off when that is faster.

    Args:
        compiled: the program of a tile. machine: with its tiles.
        instructions: of the epoch. window, target: time steps of a sequence and those predicted; target 0 for streams.
    Raises:
        InputError: a target longer than its window.
    """
    if not 0 <= target <= window:
        raise InputError(f"expected 0 to {window}, got {target}", key="target")
    counts = [machine.tiles] if machine.broadcast else range(1, machine.tiles + 1)
    used = [_epoch(compiled, replace(machine, tiles=tiles), instructions, window, target) for tiles in counts]
    best = min(used, key=lambda epoch: epoch.cycles)
    return replace(best, utilisation=best.utilisation * best.tiles / machine.tiles)


def _epoch(compiled: Compiled, machine: NeutrinoMachine, instructions: int, window: int, target: int) -> Epoch:
    together = compiled.batch * machine.tiles
    if target == 0:
        window = target = math.ceil(instructions / together)
    sequences = math.ceil(instructions / target)
    rounds = math.ceil(sequences / together)
    both, context = step_cycles(compiled, machine, True), step_cycles(compiled, machine, False)
    first = simulate(compiled.step, machine).total - context.total
    cycles = rounds * (target * both.total + (window - target) * context.total) + max(first, 0.0)
    useful = sequences * (target * both.macs + (window - target) * context.macs) / compiled.batch
    return Epoch(cycles, sequences, window, instructions, useful / (machine.lanes * machine.tiles * cycles), machine.tiles)
