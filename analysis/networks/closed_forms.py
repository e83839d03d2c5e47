"""Cycles of many collectives at once, by formula: over a million a second.

What a formula needs is that no two messages wait for each other in a way that depends on details: the congestion-unaware network always,
the congestion-aware one for rings, halving-doubling and direct exchange with one chunk in flight, and for rings with several.
Elsewhere the answer is -1 and `event_simulation` has it. With ep the endpoint delay, d the delay of a message of m bytes, p the reduction:

    ring, n NPUs       all-reduce      ep + (n-1)(2d + 2ep + p)     reduce-scatter  ep + (n-1)(d + ep + p)
    m = S/n            all-to-all      ep + n(n-1)/2 (d + ep)       all-gather      ep + (n-1)(d + ep), m = S
    direct             reduce-scatter  ep + D + ep + p              all-gather, all-to-all  ep + D + ep       all-reduce  2D + 3ep + p
    halving-doubling   ep + sum over steps of (d(m_i) + ep) + sum of p(m_i) over the reducing steps after the first

for one chunk S; D is the farthest peer's delay. C chunks with A in flight take (C/A) T + (A-1) w, where w is the serialisation of a
message, or nothing where links do not contend. On several dimensions the chunks pass the phases like parts through a workshop.
Source: data/recorded/astra-sim/SEMANTICS.md; every formula is tested against the event-driven simulation.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from analysis.networks import codes
from analysis.networks.codes import inner, light, outer

MOST_DIMENSIONS = 4


class CaseArrays(NamedTuple):
    """Cases side by side: one entry a case, and of the last six one column a dimension."""

    aware: np.ndarray
    collective: np.ndarray
    size_bytes: np.ndarray
    dimensions: np.ndarray
    splits: np.ndarray
    active: np.ndarray
    queues: np.ndarray
    endpoint_ns: np.ndarray
    memory_bytes_per_ns: np.ndarray
    baseline: np.ndarray
    npus: np.ndarray
    kind: np.ndarray
    algorithm: np.ndarray
    latency_ns: np.ndarray
    bytes_per_ns: np.ndarray


@light
def message_cycles(aware, kind, nodes, distance, latency, speed, size):
    """Delay of a message to a node `distance` away: hops rounded down one by one where links store and forward, else all at once."""
    hops = 2 if kind == codes.SWITCH else 1 if kind == codes.FULLY_CONNECTED else min(distance, nodes - distance)
    if aware:
        return hops * np.int64(latency + size / speed)
    return np.int64(hops * latency + size / speed)


@light
def reduction_cycles(size, memory):
    """A write and two reads, each rounded down; the tool keeps the size in 32 bits."""
    wrapped = (size + 2147483648) % 4294967296 - 2147483648
    return 3 * np.int64(wrapped / memory) if wrapped > 0 else np.int64(0)


@light
def halving_step(collective, nodes, rounds, size, step):
    """Bytes and distance of a step of halving-doubling, whose first message has `size`: halves outward, doubles back; an all-gather only
    doubles."""
    if collective == codes.ALL_GATHER:
        return size << step, (nodes // 2) >> step
    if step < rounds or collective != codes.ALL_REDUCE:
        return size >> step, 1 << step
    back = step - rounds  # the tool halves once more and doubles again: a size that halves unevenly stays rounded down
    return (size >> rounds) << (back + 1), (nodes // 2) >> back


@inner
def halving_doubling_cycles(aware, collective, kind, nodes, latency, speed, endpoint, memory, size):
    """One chunk by halving-doubling, which reduces in every step outward but the first."""
    rounds = 0
    while (2 << rounds) <= nodes:
        rounds += 1
    first = size if collective == codes.ALL_GATHER else size // 2
    total = endpoint
    for step in range(2 * rounds if collective == codes.ALL_REDUCE else rounds):
        message, distance = halving_step(collective, nodes, rounds, first, step)
        total += message_cycles(aware, kind, nodes, distance, latency, speed, message) + endpoint
        if collective != codes.ALL_GATHER and 0 < step < rounds:
            total += reduction_cycles(message, memory)
    return total


@inner
def phase_cycles(aware, collective, algorithm, kind, nodes, latency, speed, endpoint, memory, size):
    """One chunk alone through one phase; -1: no formula."""
    if algorithm == codes.HALVING_DOUBLING:
        return halving_doubling_cycles(aware, collective, kind, nodes, latency, speed, endpoint, memory, size)
    if algorithm != codes.RING and algorithm != codes.DIRECT:
        return -1
    message = size if collective == codes.ALL_GATHER else size // nodes
    reduction = reduction_cycles(message, memory)
    if algorithm == codes.RING:
        step = message_cycles(aware, kind, nodes, 1, latency, speed, message) + endpoint
        if collective == codes.ALL_REDUCE:
            return endpoint + (nodes - 1) * (2 * step + reduction)
        if collective == codes.ALL_TO_ALL:
            return endpoint + nodes * (nodes - 1) // 2 * step
        return endpoint + (nodes - 1) * (step + (reduction if collective == codes.REDUCE_SCATTER else 0))
    # direct: on a ring the farthest peer decides, except that an all-reduce may overlap its halves
    if kind == codes.RING and (aware or (collective == codes.ALL_REDUCE and nodes > 3)) and nodes > 2:
        return -1
    farthest = message_cycles(aware, kind, nodes, nodes // 2, latency, speed, message)
    if aware and kind == codes.SWITCH:
        farthest += (nodes - 2) * np.int64(message / speed)
    if collective == codes.ALL_REDUCE:
        if aware and kind == codes.SWITCH and nodes > 2 and endpoint + reduction >= np.int64(message / speed):
            return -1  # the second half starts before the endpoint is through with the first
        return 2 * farthest + 3 * endpoint + reduction
    return farthest + 2 * endpoint + (reduction if collective == codes.REDUCE_SCATTER else 0)


@light
def chunking(collective, size, splits, npus):
    """(bytes of a chunk, chunks): a chunk is never smaller than one byte an NPU, except for an all-gather."""
    chunk = size // splits
    if collective != codes.ALL_GATHER and npus > chunk:
        return npus, splits
    return chunk, (size + chunk - 1) // chunk


@inner
def ring_in_flight_cycles(collective, kind, nodes, latency, speed, endpoint, memory, chunk, chunks, flight):
    """Several chunks in flight on congestion-aware links, ring algorithm: each follows the one before by one serialisation.

    -1 once the chunks in flight fill a link for longer than a message takes to come round: then the links' queues decide.
    """
    message = chunk if collective == codes.ALL_GATHER else chunk // nodes
    serial = np.int64(message / speed)
    alone = phase_cycles(1, collective, codes.RING, kind, nodes, latency, speed, endpoint, memory, chunk)
    delay = message_cycles(1, kind, nodes, 1, latency, speed, message)
    if flight * serial > delay + endpoint:
        return -1
    if chunks % flight == 0:
        return chunks // flight * alone + (flight - 1) * serial
    return (chunks // flight + 1) * alone + (chunks % flight - 1) * serial


@light
def one_dimension_cycles(arrays, i, everyone):
    """All chunks of a collective of case `i` among the nodes of its one dimension, of `everyone` on it; -1: no formula."""
    aware, collective, algorithm, kind = arrays.aware[i], arrays.collective[i], arrays.algorithm[i, 0], arrays.kind[i, 0]
    nodes, latency, speed = arrays.npus[i, 0], arrays.latency_ns[i, 0], arrays.bytes_per_ns[i, 0]
    endpoint, memory, queues = arrays.endpoint_ns[i], arrays.memory_bytes_per_ns[i], arrays.queues[i]
    chunk, chunks = chunking(collective, arrays.size_bytes[i], arrays.splits[i], everyone)
    used = queues if collective != codes.ALL_REDUCE or arrays.baseline[i] or queues == 1 else queues // 2
    limit = (arrays.active[i] + queues - 1) // queues
    fullest = (chunks + used - 1) // used
    flight = min(limit * used, chunks)
    if aware and flight > 1:
        if algorithm == codes.RING and queues == 1:
            return ring_in_flight_cycles(collective, kind, nodes, latency, speed, endpoint, memory, chunk, chunks, flight)
        return -1
    alone = phase_cycles(aware, collective, algorithm, kind, nodes, latency, speed, endpoint, memory, chunk)
    if alone < 0:
        return -1
    return (fullest + limit - 1) // limit * alone


@light
def visits_of(collective, baseline, dimensions, npus):
    """How many dimensions a chunk visits, and the place of the last on its way out: an all-reduce comes back, unless it is `baseline`."""
    if collective != codes.ALL_REDUCE or baseline:
        return dimensions, -1
    last = 0
    for dim in range(dimensions):
        if npus[dim] > 1:
            last = dim
    return 2 * last + 1, last


@light
def visit(collective, k, visits, last):
    """Dimension of the k-th visit and the collective there: in order (an all-gather in reverse), an all-reduce out and back."""
    if last < 0:
        return visits - 1 - k if collective == codes.ALL_GATHER else k, collective
    if k < last:
        return k, codes.REDUCE_SCATTER
    return 2 * last - k, codes.ALL_REDUCE if k == last else codes.ALL_GATHER


@inner
def flow_shop_makespan(chunks, phases, duration, wait, queue, queues_in_all, limit):
    """Identical chunks through a line of phases: each phase has queues that run `limit` chunks at a time, first come first served.

    duration, wait: cycles of each phase, and of these the ones after its last registered piece of work (they settle who goes first when
    two chunks end in the same cycle); queue: the queue of each phase and chunk.
    """
    phase = np.zeros(chunks, np.int64)
    end = np.full(chunks, -1, np.int64)
    registered = np.zeros(chunks, np.int64)
    begun = np.zeros(chunks, np.int64)
    joined = np.arange(chunks)
    running = np.zeros(queues_in_all, np.int64)
    stamp = chunks
    order = 0
    now = 0
    done = 0
    for c in range(chunks):
        place = queue[0, c]
        if running[place] < limit:
            running[place] += 1
            end[c] = duration[0]
            registered[c] = duration[0] - wait[0]
            begun[c] = order
            order += 1
    while done < chunks:
        best = -1
        for c in range(chunks):
            if end[c] >= 0 and (best < 0 or (end[c], registered[c], begun[c]) < (end[best], registered[best], begun[best])):
                best = c
        now = end[best]
        left = queue[phase[best], best]
        running[left] -= 1
        end[best] = -1
        phase[best] += 1
        joined[best] = stamp
        stamp += 1
        entered = left
        if phase[best] == phases:
            done += 1
            joined[best] = -1
        else:
            entered = queue[phase[best], best]
        for turn in range(2):
            place = left if turn == 0 else entered
            if turn == 1 and entered == left:
                break
            while running[place] < limit:
                first = -1
                for c in range(chunks):
                    if end[c] < 0 and phase[c] < phases and queue[phase[c], c] == place and (first < 0 or joined[c] < joined[first]):
                        first = c
                if first < 0:
                    break
                running[place] += 1
                end[first] = now + duration[phase[first]]
                registered[first] = end[first] - wait[phase[first]]
                begun[first] = order
                order += 1
    return now


@inner
def several_dimensions_cycles(arrays, i):
    """A collective over several dimensions of a congestion-unaware network; -1: no formula."""
    collective, baseline, dimensions = arrays.collective[i], arrays.baseline[i], arrays.dimensions[i]
    npus, queues = arrays.npus[i], arrays.queues[i]
    duration = np.zeros(2 * MOST_DIMENSIONS, np.int64)
    wait = np.zeros(2 * MOST_DIMENSIONS, np.int64)
    visits, last = visits_of(collective, baseline, dimensions, npus)
    everyone = 1
    for dim in range(dimensions):
        everyone *= npus[dim]
    size, chunks = chunking(collective, arrays.size_bytes[i], arrays.splits[i], everyone)
    queue = np.zeros((visits, chunks), np.int64)
    endpoint, memory = arrays.endpoint_ns[i], arrays.memory_bytes_per_ns[i]
    phases = 0
    for k in range(visits):
        dim, what = visit(collective, k, visits, last)
        if npus[dim] == 1:
            continue
        algorithm, kind, latency, speed = (
            arrays.algorithm[i, dim],
            arrays.kind[i, dim],
            arrays.latency_ns[i, dim],
            arrays.bytes_per_ns[i, dim],
        )
        duration[phases] = phase_cycles(0, what, algorithm, kind, npus[dim], latency, speed, endpoint, memory, size)
        if duration[phases] < 0:
            return -1
        wait[phases] = endpoint
        if what == codes.REDUCE_SCATTER and algorithm != codes.HALVING_DOUBLING:
            wait[phases] = reduction_cycles(size // npus[dim], memory)
        if what == codes.REDUCE_SCATTER:
            size //= npus[dim]
        elif what == codes.ALL_GATHER:
            size *= npus[dim]
        for c in range(chunks):
            if queues == 1:
                queue[phases, c] = dim
            elif collective != codes.ALL_REDUCE or baseline:
                queue[phases, c] = dim * queues + c % queues
            elif what == codes.ALL_GATHER:
                queue[phases, c] = dim * queues + queues // 2 + c % (queues - queues // 2)
            else:
                queue[phases, c] = dim * queues + c % (queues // 2)
        phases += 1
    limit = (arrays.active[i] + queues - 1) // queues
    return flow_shop_makespan(chunks, phases, duration, wait, queue, dimensions * queues, limit)


@outer
def closed_form_cycles(arrays, result):
    """Fill `result` with the cycles of every case that has a closed form, and -1 for the others.

    Args:
        arrays: `CaseArrays` of N cases.
        result: (N,) integers, written in place.
    """
    for i in range(result.shape[0]):
        if arrays.dimensions[i] > 1:
            result[i] = -1 if arrays.aware[i] else several_dimensions_cycles(arrays, i)
        else:
            result[i] = one_dimension_cycles(arrays, i, arrays.npus[i, 0])
