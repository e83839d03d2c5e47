"""How many bytes would Intel's Processor Trace write for an executed program, in place of a collector of its own?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import outer
from analysis.cores.riscv.trace import OpClass, Trace

BITS_PER_SHORT_PACKET = 6
CALL_STACK = 64
"""Calls that are remembered for the compression of returns; a further one forces out the oldest."""

_BRANCH, _CALL, _INDIRECT_JUMP = int(OpClass.BRANCH), int(OpClass.CALL), int(OpClass.INDIRECT_JUMP)
_INDIRECT_CALL, _RETURN = int(OpClass.INDIRECT_CALL), int(OpClass.RETURN)


@dataclass(frozen=True)
class Packets:
    """What would be written for a trace.

    Attributes:
        instructions: of the trace.
        outcomes: conditional branches, and returns to where the call said: a bit each in a TNT packet.
        targets: other indirect transfers: a TIP packet each.
        bytes: of both kinds of packet.
    """

    instructions: int
    outcomes: int
    targets: int
    bytes: int

    @property
    def bytes_per_instruction(self) -> float:
        """Mean over the trace."""
        return self.bytes / self.instructions


@outer
def _packets(opclass: NDArray[np.uint8], behind: NDArray[np.uint64], target: NDArray[np.uint64], depth: int) -> tuple[int, int, int]:
    stack = np.zeros(depth, np.uint64)
    top = held = 0
    last = np.uint64(0)
    pending = outcomes = targets = written = 0
    for i in range(len(opclass)):
        kind = opclass[i]
        bit = kind == _BRANCH
        told = kind in (_INDIRECT_JUMP, _INDIRECT_CALL)
        if kind == _RETURN:
            top = (top - 1) % depth
            bit = held > 0 and stack[top] == target[i]
            held = max(0, held - 1)
            told = not bit
        if kind in (_CALL, _INDIRECT_CALL):
            stack[top] = behind[i]
            top = (top + 1) % depth
            held = min(held + 1, depth)
        if bit:
            outcomes += 1
            pending += 1
            if pending == BITS_PER_SHORT_PACKET:
                written += 1
                pending = 0
        if told:
            written += 1 if pending else 0
            pending = 0
            targets += 1
            changed = last ^ target[i]
            payload = (
                2 if changed >> np.uint64(16) == 0 else 4 if changed >> np.uint64(32) == 0 else 6 if changed >> np.uint64(48) == 0 else 8
            )
            written += 1 + payload
            last = target[i]
    return outcomes, targets, written + (1 if pending else 0)


def packets(trace: Trace, depth: int = CALL_STACK) -> Packets:
    """Packets of a trace.

    One bit a conditional branch or expected return, six to a byte; for each other indirect transfer a byte and 2, 4, 6 or 8 of the address,
    by how many of its lower bytes differ from the last one's. Direct jumps and calls write nothing. A target forces out the outcomes before
    it, as hardware without deferred targets does. Not counted: packets for synchronisation, time and context.

    Args:
        depth: calls remembered for the compression of returns; a return to anywhere else writes a target.
    Source: Intel SDM, volume 3C, sections 36.4.2.1 (TNT) and 36.4.2.2 (TIP, returns).
    """
    behind = trace.pc + trace.code.length[trace.index]
    outcomes, targets, written = _packets(trace.opclass, behind, trace.next_pc, depth)
    return Packets(len(trace), outcomes, targets, written)
