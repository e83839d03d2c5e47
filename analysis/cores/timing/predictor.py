"""Where does the front end go next: tournament predictor, branch target buffer, return stack and indirect predictor.

The rules are those of gem5 24.0 (src/cpu/pred: bpred_unit.cc, tournament.cc, simple_btb.cc, ras.cc, simple_indirect.cc), restated:
histories move at prediction and are repaired at a squash; counters and the target buffer learn when the branch commits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.compiled import inner
from analysis.cores.timing.state import HISTORY, Record

BRANCH, JUMP, CALL, INDIRECT_JUMP, INDIRECT_CALL, RETURN = 15, 16, 17, 18, 19, 20
RAS_NONE, RAS_PUSHED, RAS_POPPED = 0, 1, 2


BTB_TAG_BITS = 16


def random_state() -> NDArray[np.uint32]:
    """State of the C library's rand() with seed 1, uint32 (31,): gem5 chooses the way of the indirect predictor with it."""
    state = [1]
    for _ in range(30):
        state.append(state[-1] * 16807 % 2147483647)
    for k in range(3, 313):  # the first 310 sums are thrown away
        state[k % 31] = (state[k % 31] + state[(k - 3) % 31]) % (1 << 32)
    return np.roll(np.array(state, np.uint32), -(313 % 31))


@inner(_nrt=False)
def random_number(p: Record) -> int:
    """Next number of rand(): the sum of the states 3 and 31 steps ago, without its lowest bit."""
    at = p.random_at
    p.random[at] = p.random[at] + p.random[(at + 28) % 31]
    p.random_at = (at + 1) % 31
    return int(p.random[at]) >> 1


@inner(_nrt=False)
def btb_word(p: Record, pc: int) -> int:
    """What the target buffer knows of an address: index and tag bits of its word."""
    return (pc >> 2) & (((p.btb_mask + 1) << BTB_TAG_BITS) - 1)


@inner(_nrt=False)
def is_call(kind: int) -> bool:
    """Whether a kind of branch pushes a return address."""
    return kind in (CALL, INDIRECT_CALL)


@inner(_nrt=False)
def is_indirect(kind: int) -> bool:
    """Whether the indirect predictor knows a kind of branch: its target is in a register, and it is no return."""
    return kind in (INDIRECT_JUMP, INDIRECT_CALL)


@inner(_nrt=False)
def ras_push(p: Record, h: Record, address: int) -> None:
    """A call writes the address behind it over the oldest of the return stack."""
    h.ras_action = RAS_PUSHED
    h.ras_top = p.ras_top
    p.ras_top = (p.ras_top + 1) % p.ras_entries
    h.ras_entry = p.ras[p.ras_top]
    p.ras[p.ras_top] = address


@inner(_nrt=False)
def ras_pop(p: Record, h: Record) -> int:
    """A return takes the newest address of the return stack; 0 where none was ever written."""
    h.ras_action = RAS_POPPED
    h.ras_top = p.ras_top
    h.ras_entry = p.ras[p.ras_top]
    p.ras_top = (p.ras_top - 1) % p.ras_entries
    return h.ras_entry


@inner(_nrt=False)
def ras_restore(p: Record, h: Record) -> None:
    """Take back what a branch did to the return stack; an address that a push wrote over stays lost."""
    if h.ras_action == RAS_PUSHED:
        p.ras_top = h.ras_top
    elif h.ras_action == RAS_POPPED:
        p.ras_top = h.ras_top
        p.ras[p.ras_top] = h.ras_entry
    h.ras_action = RAS_NONE


@inner(_nrt=False)
def indirect_index(p: Record, pc: int) -> int:
    """Set of the indirect target cache: PC, 13 bits of outcomes and the last three indirect targets."""
    mixed = (pc >> 2) ^ p.indirect_history
    for k in range(3):
        at = p.path_n - 1 - k
        if at < 0:
            break
        mixed ^= p.path[at & 1023] >> (2 + k * 2)
    return mixed & 255


@inner(_nrt=False)
def shift_history(p: Record, h: Record, conditional: int, taken: int) -> None:
    """A predicted outcome enters the histories: every branch the global one, conditional ones their own as well."""
    p.global_history = ((p.global_history << 1) | taken) & 0xFFFFF
    if conditional:
        p.local_history[h.local_index] = (p.local_history[h.local_index] << 1) | taken


@inner(_nrt=False)
def indirect_update(p: Record, kind: int, taken: int, target: int) -> None:
    """Every outcome enters the indirect predictor's history, every indirect target its path."""
    if is_indirect(kind):
        p.path[p.path_n & 1023] = target
        p.path_n += 1
    p.indirect_history = ((p.indirect_history << 1) | taken) & 0x1FFF


@inner(_nrt=False)
def tournament_lookup(p: Record, h: Record, pc: int) -> int:
    """Predict by local or by global history, as the choice counter of the global history says."""
    h.local_index = (pc >> 2) & p.local_history_mask
    h.local_history = p.local_history[h.local_index] & p.local_mask
    h.local_taken = p.local_counter[h.local_history] > 1
    h.global_taken = p.global_counter[p.global_history & p.global_mask] > 1
    if p.choice_counter[p.global_history & p.global_mask] > 1:
        return h.global_taken
    return h.local_taken


@inner(_nrt=False)
def predict(p: Record, seq: int, pc: int, length: int, kind: int) -> tuple[int, int]:
    """Predict the branch at `pc`: returns (taken, next PC) and opens an entry in the history of branches in flight."""
    h = p.history[p.tail & (HISTORY - 1)]
    p.tail += 1
    h.seq = seq
    h.pc = pc
    h.kind = kind
    h.global_history = p.global_history
    h.indirect_history = p.indirect_history
    h.ras_action = RAS_NONE
    conditional = kind == BRANCH
    taken = tournament_lookup(p, h, pc) if conditional else 1
    found = False
    target = pc + length
    entry = (pc >> 2) & p.btb_mask
    h.btb_hit = p.btb_word[entry] == btb_word(p, pc)
    if h.btb_hit and taken:
        found = True
        target = p.btb_target[entry]
    if is_call(kind):
        ras_push(p, h, pc + length)
    elif kind == RETURN:
        address = ras_pop(p, h)
        if address:  # nothing was ever pushed there: the target buffer's
            target = address
            found = True
    if is_indirect(kind):
        h.indirect_set = indirect_index(p, pc)
        for way in range(2):
            if p.indirect_tag[h.indirect_set, way] == (pc >> 2) & 0xFFFF:
                target = p.indirect_target[h.indirect_set, way]
                found = True
                break
    if not found:
        taken = 0
        target = pc + length
    h.taken = taken
    h.target = target
    shift_history(p, h, conditional, taken)
    indirect_update(p, kind, taken, target)
    return taken, target


@inner(_nrt=False)
def forget(p: Record, h: Record) -> None:
    """Undo what a squashed branch did to the histories and the return stack."""
    ras_restore(p, h)
    p.indirect_history = h.indirect_history
    if is_indirect(h.kind) and p.path_n > 0:
        p.path_n -= 1
    p.global_history = h.global_history
    if h.kind == BRANCH:
        p.local_history[h.local_index] = h.local_history


@inner(_nrt=False)
def squash_after(p: Record, seq: int) -> None:
    """Forget every branch younger than `seq`."""
    while p.tail > p.head and p.history[(p.tail - 1) & (HISTORY - 1)].seq > seq:
        forget(p, p.history[(p.tail - 1) & (HISTORY - 1)])
        p.tail -= 1


@inner(_nrt=False)
def correct(p: Record, seq: int, taken: int, target: int) -> None:
    """A branch in flight turns out otherwise: repair the histories and remember its outcome for commit."""
    squash_after(p, seq)
    if p.tail == p.head:
        return
    h = p.history[(p.tail - 1) & (HISTORY - 1)]
    h.taken = taken
    h.target = target
    p.global_history = ((h.global_history << 1) | taken) & 0xFFFFF
    if h.kind == BRANCH:
        p.local_history[h.local_index] = (h.local_history << 1) | taken
    p.indirect_history = h.indirect_history
    if is_indirect(h.kind):
        if p.path_n > 0:
            p.path_n -= 1
        h.indirect_set = indirect_index(p, h.pc)
    indirect_update(p, h.kind, taken, target)
    if is_indirect(h.kind) and taken:
        tag = (h.pc >> 2) & 0xFFFF
        slot = -1
        for way in range(2):
            if p.indirect_tag[h.indirect_set, way] == tag:
                slot = way
                break
        if slot < 0:
            slot = random_number(p) % 2
        p.indirect_tag[h.indirect_set, slot] = tag
        p.indirect_target[h.indirect_set, slot] = target
    if not taken and h.ras_action != RAS_NONE:
        ras_restore(p, h)


@inner(_nrt=False)
def count(counters: NDArray, index: int, up: int) -> None:
    """A counter of two bits goes up or down, as far as it can."""
    if up and counters[index] < 3:
        counters[index] += 1
    elif not up and counters[index] > 0:
        counters[index] -= 1


@inner(_nrt=False)
def tournament_learn(p: Record, h: Record) -> None:
    """Counters of a branch that retires: the choice between both when they disagreed, then each for itself."""
    index = h.global_history & p.global_mask
    if h.kind == BRANCH:
        if h.local_taken != h.global_taken:
            count(p.choice_counter, index, h.local_taken != h.taken)
        count(p.local_counter, h.local_history, h.taken)
    count(p.global_counter, index, h.taken)


@inner(_nrt=False)
def learn(p: Record, seq: int) -> None:
    """Commit every branch up to `seq`: counters and target buffer learn."""
    while p.tail > p.head and p.history[p.head & (HISTORY - 1)].seq <= seq:
        h = p.history[p.head & (HISTORY - 1)]
        tournament_learn(p, h)
        if h.taken:
            entry = (h.pc >> 2) & p.btb_mask
            p.btb_word[entry] = btb_word(p, h.pc)
            p.btb_target[entry] = h.target
        p.head += 1
