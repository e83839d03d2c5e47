"""Is a branch taken: TAGE, a table without tags and several with, each looked up with a longer part of the global history.

The algorithm is Seznec's and Michaud's ("A case for (partially) TAgged GEometric history length branch prediction", 2006): the table with
the longest history whose tag fits provides the prediction, or the next one while the entry is new and new entries have been bad; an
entry is useful when it was right and the next one was not; a wrong prediction takes an entry that is not useful in one table with
longer history. The outcomes in flight are in the history; a squash takes them back.
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.cores.timing.designs import Tage
from analysis.cores.timing.state import HISTORY, TAGE_BITS, Record

COUNTER_MAX = 3
"""Counters of three bits: -4 to 3, taken from 0 on."""
USEFUL_MAX = 3
NEW_MAX = 7


def history_lengths(tables: int, shortest: int, longest: int) -> list[int]:
    """Geometric history lengths L(i) = shortest * (longest / shortest)^((i - 1) / (tables - 1)), rounded."""
    if tables == 1:
        return [shortest]
    return [int(shortest * (longest / shortest) ** (k / (tables - 1)) + 0.5) for k in range(tables)]


def set_up(t: Record, design: Tage) -> None:
    """Write a design's sizes into the tables at reset."""
    t["tables"], t["tag_mask"] = design.tables, (1 << design.tag_bits) - 1
    t["index_bits"], t["tag_bits"] = design.entries.bit_length() - 1, design.tag_bits
    t["base_mask"] = design.base_entries - 1
    t["reset_period"] = design.reset_period
    t["length"][: design.tables] = history_lengths(design.tables, design.shortest_history, design.longest_history)
    t["random"] = 1
    t["tag"] = -1
    t["base"] = -1


@inner(_nrt=False)
def fold(value: int, entering: int, leaving: int, length: int, bits: int) -> int:
    """A history of `length` outcomes folded to `bits` by exclusive or, one outcome later."""
    value = (value << 1) | entering
    value ^= leaving << (length % bits)
    value ^= value >> bits
    return value & ((1 << bits) - 1)


@inner(_nrt=False)
def tage_push(t: Record, taken: int) -> None:
    """An outcome enters the history."""
    for k in range(t.tables):
        leaving = int(t.outcome[(t.position - t.length[k]) & (TAGE_BITS - 1)])
        t.fold_index[k] = fold(t.fold_index[k], taken, leaving, t.length[k], t.index_bits)
        t.fold_tag[k] = fold(t.fold_tag[k], taken, leaving, t.length[k], t.tag_bits)
        t.fold_more[k] = fold(t.fold_more[k], taken, leaving, t.length[k], t.tag_bits - 1)
    t.outcome[t.position & (TAGE_BITS - 1)] = taken
    t.position += 1


@inner(_nrt=False)
def tage_rewind(t: Record, position: int) -> None:
    """Take the history back to what it was at `position`: fold it anew."""
    if position == t.position:
        return
    for k in range(t.tables):
        t.fold_index[k] = t.fold_tag[k] = t.fold_more[k] = 0
        for at in range(position - t.length[k], position):
            outcome = int(t.outcome[at & (TAGE_BITS - 1)])
            t.fold_index[k] = fold(t.fold_index[k], outcome, 0, t.length[k], t.index_bits)
            t.fold_tag[k] = fold(t.fold_tag[k], outcome, 0, t.length[k], t.tag_bits)
            t.fold_more[k] = fold(t.fold_more[k], outcome, 0, t.length[k], t.tag_bits - 1)
    t.position = position


@inner(_nrt=False)
def tage_lookup(t: Record, place: int, pc: int) -> int:
    """Predict the conditional branch at `pc`; `place` (of those in flight) keeps what learning needs."""
    f = t.flight[place & (HISTORY - 1)]
    word = pc >> 2
    mask = (1 << t.index_bits) - 1
    f.base = word & t.base_mask
    f.provider = f.other = -1
    for k in range(t.tables - 1, -1, -1):
        f.index[k] = (word ^ (word >> (k + 1)) ^ t.fold_index[k]) & mask
        f.tag[k] = (word ^ t.fold_tag[k] ^ (t.fold_more[k] << 1)) & t.tag_mask
        if t.tag[k, f.index[k]] == f.tag[k]:
            if f.provider < 0:
                f.provider = k
            elif f.other < 0:
                f.other = k
    f.other_taken = t.counter[f.other, f.index[f.other]] >= 0 if f.other >= 0 else t.base[f.base] >= 0
    f.taken = f.other_taken
    f.provided = f.other_taken
    if f.provider >= 0:
        counter = t.counter[f.provider, f.index[f.provider]]
        f.provided = counter >= 0
        f.fresh = (counter == 0 or counter == -1) and t.useful[f.provider, f.index[f.provider]] == 0
        if not (f.fresh and t.new_is_bad >= 0):
            f.taken = f.provided
    return f.taken


@inner(_nrt=False)
def count(counter: int, up: int) -> int:
    """A saturating counter a step further."""
    return min(counter + 1, COUNTER_MAX) if up else max(counter - 1, -COUNTER_MAX - 1)


@inner(_nrt=False)
def tage_learn(t: Record, place: int, taken: int) -> None:
    """The conditional branch at `place` of those in flight retires."""
    f = t.flight[place & (HISTORY - 1)]
    if f.taken != taken and f.provider < t.tables - 1:
        allocate(t, f, taken)
    if f.provider < 0:
        up = t.base[f.base] + (1 if taken else -1)
        t.base[f.base] = min(max(up, -2), 1)
    else:
        k, at = f.provider, f.index[f.provider]
        if f.fresh and f.provided != f.other_taken:
            t.new_is_bad = min(max(t.new_is_bad + (1 if f.other_taken == taken else -1), -NEW_MAX - 1), NEW_MAX)
        if t.useful[k, at] == 0:
            if f.other >= 0:
                t.counter[f.other, f.index[f.other]] = count(t.counter[f.other, f.index[f.other]], taken)
            else:
                up = t.base[f.base] + (1 if taken else -1)
                t.base[f.base] = min(max(up, -2), 1)
        t.counter[k, at] = count(t.counter[k, at], taken)
        if f.provided != f.other_taken:
            up = t.useful[k, at] + (1 if f.provided == taken else -1)
            t.useful[k, at] = min(max(up, 0), USEFUL_MAX)
    t.learnt += 1
    if t.learnt % t.reset_period == 0:  # forget the higher, next time the lower bit of what was useful
        keep = 1 if t.learnt // t.reset_period % 2 else 2
        for k in range(t.tables):
            for at in range(1 << t.index_bits):
                t.useful[k, at] &= keep


@inner(_nrt=False)
def allocate(t: Record, f: Record, taken: int) -> None:
    """Take one entry that is not useful, in a table with longer history than the provider's; without one, all become less useful."""
    first = f.provider + 1
    t.random = (t.random >> 1) ^ (-(t.random & 1) & 0xB400)  # a register of 16 bits: shorter histories are taken twice as often
    if t.random & 1 and first < t.tables - 1:
        first += 1
    for k in range(first, t.tables):
        if t.useful[k, f.index[k]] == 0:
            t.tag[k, f.index[k]] = f.tag[k]
            t.counter[k, f.index[k]] = 0 if taken else -1
            return
    for k in range(f.provider + 1, t.tables):
        if t.useful[k, f.index[k]] > 0:
            t.useful[k, f.index[k]] -= 1
