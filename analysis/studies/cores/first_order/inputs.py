"""What does the first-order core model read from a trace: hits by reuse distance, stores before loads, mispredicted branches?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import outer
from analysis.cores.riscv.trace import LOADS, PLAIN_INSTRUCTIONS, STORES, Trace
from analysis.cores.timing.designs import Cache, Design
from analysis.cores.timing.predictor import BRANCH, INDIRECT_JUMP, RETURN, correct, learn, predict
from analysis.cores.timing.simulation import predictor_state
from analysis.cores.timing.state import Record
from analysis.studies.cores.first_order.reuse import set_distances

WORD_BITS = 3
RIGHT, WRONG_AT_EXECUTION, WRONG_AT_DECODE = 0, 1, 2  # RIGHT: or no branch
HIT, NEXT_LEVEL, MEMORY = 0, 1, 2


@outer
def store_before(
    words: NDArray[np.int64], positions: NDArray[np.int64], stores: NDArray[np.bool_], kinds: int, n: int
) -> NDArray[np.int64]:
    """Instruction of the last store to the same word before each load, -1 without one, shape (n,).

    Args:
        words: word of each access, 0..kinds-1.
        positions: instruction of each access, rising.
        stores: whether an instruction stores, shape (n,).
    """
    last = np.full(kinds, np.int64(-1))
    result = np.full(n, np.int64(-1))
    for t in range(len(words)):
        i = positions[t]
        if stores[i]:
            last[words[t]] = i
        else:
            result[i] = last[words[t]]
    return result


@outer
def wrong_branches(
    p: Record, pc: NDArray[np.int64], length: NDArray[np.int64], opclass: NDArray[np.int64], following: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Which branches a predictor gets wrong when each one is known before the next is predicted: nothing is in flight, no wrong path.

    Args:
        p: the predictor at reset (`timing.simulation.predictor_state`).
        pc, length, opclass: of each instruction.
        following: PC of the instruction that follows.
    Returns:
        RIGHT, WRONG_AT_EXECUTION, or WRONG_AT_DECODE for a direct jump, whose target the decoder sees; shape (n,).
    """
    result = np.zeros(len(pc), np.uint8)
    for i in range(len(pc)):
        kind = opclass[i]
        if kind < BRANCH or kind > RETURN:
            continue
        _, target = predict(p, i + 1, pc[i], length[i], kind)
        if target != following[i]:
            result[i] = WRONG_AT_EXECUTION if kind == BRANCH or kind >= INDIRECT_JUMP else WRONG_AT_DECODE
            taken = kind != BRANCH or following[i] != pc[i] + length[i]
            correct(p, i + 1, 1 if taken else 0, following[i])
        learn(p, i + 1)
    return result


@dataclass(frozen=True)
class FirstOrderInputs:
    """A trace as the first-order model reads it; the same for every design with the same predictor and line size.

    Attributes:
        row: static instruction of each executed one, int64 (n,); `rows` how many there are.
        opclass: uint8 (n,).
        sources, destination: registers, 64 and above none; shapes (n, 3) and (n,).
        near_store: last store to the same block in which a core looks for dependences, -1 without one, int64 (n,).
        word_store: last store to the same eight bytes, int64 (n,).
        wrong: as `wrong_branches` says, uint8 (n,).
        taken: whether the next instruction is elsewhere, bool (n,).
        code_line: number of the line of code, int64 (n,).
        line: number of the data line, 0..lines-1, int64 (n,); 0 where memory is not touched.
        line_address: its address over the line size, int64 (n,).
        memory: instructions that touch memory, int64 (accesses,).
    """

    row: NDArray[np.int64]
    rows: int
    opclass: NDArray[np.uint8]
    sources: NDArray[np.uint8]
    destination: NDArray[np.uint8]
    near_store: NDArray[np.int64]
    word_store: NDArray[np.int64]
    wrong: NDArray[np.uint8]
    taken: NDArray[np.bool_]
    code_line: NDArray[np.int64]
    line: NDArray[np.int64]
    lines: int
    line_address: NDArray[np.int64]
    memory: NDArray[np.int64]


def first_order_inputs(trace: Trace, design: Design) -> FirstOrderInputs:
    """Read a trace once for the designs that share the branch predictor, the line and the dependence block of this one."""
    n = len(trace)
    few = n <= PLAIN_INSTRUCTIONS
    opclass, address, pc = trace.opclass, trace.address.astype(np.int64), trace.pc.astype(np.int64)
    stores = np.isin(opclass, [int(c) for c in STORES])
    memory = np.flatnonzero(stores | np.isin(opclass, [int(c) for c in LOADS]))

    def last_store(bits: int) -> NDArray[np.int64]:
        words, word_of = np.unique(address[memory] >> bits, return_inverse=True)
        return store_before.chosen(few)(word_of, memory, stores, len(words), n)

    line_bits = design.line_bytes.bit_length() - 1
    lines, line_of = np.unique(address[memory] >> line_bits, return_inverse=True)
    line = np.zeros(n, np.int64)
    line[memory] = line_of
    following = np.append(pc[1:], np.int64(trace.end_pc))
    length, kind = trace.code.length[trace.index].astype(np.int64), opclass.astype(np.int64)
    wrong = np.zeros(n, np.uint8)
    if design.branch_prediction.kind != "perfect":
        wrong = wrong_branches.chosen(few)(predictor_state(design)[0], pc, length, kind, following)
    return FirstOrderInputs(
        row=trace.index.astype(np.int64),
        rows=len(trace.code.pc),
        opclass=opclass,
        sources=trace.sources,
        destination=trace.destination,
        near_store=last_store(design.dependence_check_bytes.bit_length() - 1),
        word_store=last_store(WORD_BITS),
        wrong=wrong,
        taken=trace.taken,
        code_line=pc >> line_bits,
        line=line,
        lines=max(1, len(lines)),
        line_address=address >> line_bits,
        memory=memory,
    )


def levels(lines: NDArray[np.int64], first: Cache, second: Cache, line_bytes: int) -> NDArray[np.uint8]:
    """Where each access finds its line, by set distance: HIT in the first cache, NEXT_LEVEL, or MEMORY; each sees all accesses.

    Args:
        lines: address of each touched line over the line size, in the order of the program, shape (n,).
    """
    level = np.full(len(lines), MEMORY, np.uint8)
    for name, cache in ((NEXT_LEVEL, second), (HIT, first)):
        sets = cache.size_bytes // (line_bytes * cache.ways)
        level[set_distances.chosen(len(lines) <= PLAIN_INSTRUCTIONS)(lines, sets.bit_length() - 1, cache.ways) < cache.ways] = name
        if cache.perfect:
            level[:] = name
    return level
