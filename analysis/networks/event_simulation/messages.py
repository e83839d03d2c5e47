"""Events, links and messages: what is due when, which link is free, which message has arrived."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np

from analysis.networks.closed_forms import message_cycles
from analysis.networks.codes import FULLY_CONNECTED, RING, light
from analysis.networks.event_simulation import records as rec


@light
def schedule(state, time, kind, first, second):
    """Put an event behind all others of its tick."""
    control, event, bucket = state.control, state.event, state.bucket
    control[rec.EVENTS] += 1
    here = control[rec.EVENT_FREE]
    if here < 0:
        control[rec.FAILED] = rec.FULL_EVENTS
        return
    control[rec.EVENT_FREE] = event[here, 3]
    event[here, 0], event[here, 1], event[here, 2], event[here, 3] = kind, first, second, -1
    count = control[rec.BUCKETS]
    low, high = 0, count  # times fall with the index, the next tick is last
    while low < high:
        middle = (low + high) // 2
        if bucket[middle, 0] > time:
            low = middle + 1
        else:
            high = middle
    if low < count and bucket[low, 0] == time:
        event[bucket[low, 2], 3] = here
        bucket[low, 2] = here
        return
    if count == bucket.shape[0]:
        control[rec.FAILED] = rec.FULL_BUCKETS
        return
    for k in range(count, low, -1):
        bucket[k, 0], bucket[k, 1], bucket[k, 2] = bucket[k - 1, 0], bucket[k - 1, 1], bucket[k - 1, 2]
    bucket[low, 0], bucket[low, 1], bucket[low, 2] = time, here, here
    control[rec.BUCKETS] = count + 1


@light
def register(state, rank, delay, kind, first, processing, size):
    """Put an item into a rank's list of a tick; the first one of a tick brings the event with it."""
    control, item, tick, ticks = state.control, state.item, state.tick, state.ticks
    here = control[rec.ITEM_FREE]
    if here < 0:
        control[rec.FAILED] = rec.FULL_ITEMS
        return
    control[rec.ITEM_FREE] = item[here, 4]
    item[here, 0], item[here, 1], item[here, 2], item[here, 3], item[here, 4] = kind, first, processing, size, -1
    time = control[rec.NOW] + delay
    for k in range(ticks[rank]):
        if tick[rank, k, 0] == time:
            if tick[rank, k, 2] < 0:
                tick[rank, k, 1] = here
            else:
                item[tick[rank, k, 2], 4] = here
            tick[rank, k, 2] = here
            return
    k = ticks[rank]
    if k == tick.shape[1]:
        control[rec.FAILED] = rec.FULL_TICKS
        return
    tick[rank, k, 0], tick[rank, k, 1], tick[rank, k, 2] = time, here, here
    ticks[rank] = k + 1
    schedule(state, time, rec.RANK_TICK, rank, 0)


@light
def find_slot(state, tag, source, target, npus):
    """Place where the messages of a chunk between two ranks are matched with the receives."""
    key = (tag * npus + source) * npus + target + 1
    mask = state.slot_key.shape[0] - 1
    place = ((key * -7046029254386353131) >> 20) & mask
    while state.slot_key[place] != key:
        if state.slot_key[place] == 0:
            state.control[rec.SLOTS] += 1
            if 2 * state.control[rec.SLOTS] > mask:
                state.control[rec.FAILED] = rec.FULL_SLOTS
                state.control[rec.SLOTS] = 0
            state.slot_key[place] = key
            return place
        place = (place + 1) & mask
    return place


@light
def wire(machine, state, number):
    """Send a message over the next link of its route, or queue it there."""
    message, link = state.message, state.link
    n = machine.npus
    device, target = message[number, rec.M_DEVICE], message[number, rec.M_TARGET]
    kind = machine.kind[0]
    if kind == FULLY_CONNECTED:
        edge, onward = device * n + target, target
    elif kind == RING:
        ahead = target - message[number, rec.M_SOURCE]
        if ahead < 0:
            ahead += n
        if n - ahead < ahead:
            edge, onward = n + device, (device - 1 + n) % n
        else:
            edge, onward = device, (device + 1) % n
    elif device < n:
        edge, onward = device, n
    else:
        edge, onward = n + target, target
    if link[edge, 0]:
        message[number, rec.M_NEXT] = -1
        if link[edge, 1] < 0:
            link[edge, 1] = number
        else:
            message[link[edge, 2], rec.M_NEXT] = number
        link[edge, 2] = number
        return
    transmit(machine, state, number, edge, onward)


@light
def transmit(machine, state, number, edge, onward):
    """Occupy a free link: arrival after latency and serialisation, free after serialisation, each rounded down."""
    state.link[edge, 0] = 1
    serial = state.message[number, rec.M_BYTES] / machine.bytes_per_ns[0]
    now = state.control[rec.NOW]
    schedule(state, now + np.int64(machine.latency_ns[0] + serial), rec.NEXT_DEVICE, number, onward)
    schedule(state, now + np.int64(serial), rec.LINK_FREE, edge, onward)


@light
def send(machine, state, tag, source, target, size):
    """Start a message; on the congestion-unaware network it only waits out its delay."""
    if machine.aware:
        number = state.control[rec.MESSAGE_FREE]
        if number < 0:
            state.control[rec.FAILED] = rec.FULL_MESSAGES
            return
        message = state.message
        state.control[rec.MESSAGE_FREE] = message[number, rec.M_NEXT]
        message[number, rec.M_TAG], message[number, rec.M_SOURCE], message[number, rec.M_TARGET] = tag, source, target
        message[number, rec.M_BYTES], message[number, rec.M_DEVICE] = size, source
        wire(machine, state, number)
        return
    for dim in range(machine.dimensions):
        here = (source // machine.stride[dim]) % machine.size[dim]
        there = (target // machine.stride[dim]) % machine.size[dim]
        if here != there:
            delay = message_cycles(
                0, machine.kind[dim], machine.size[dim], abs(here - there), machine.latency_ns[dim], machine.bytes_per_ns[dim], size
            )
            schedule(state, state.control[rec.NOW] + delay, rec.DELIVERED, tag, source * machine.npus + target)
            return


@light
def post_receive(machine, state, tag, source, target, stream):
    """A rank waits for a message; one that is already there is taken at once (as an event of this tick)."""
    place = find_slot(state, tag, source, target, machine.npus)
    slot = state.slot[place]
    slot[rec.S_STREAM] = stream
    slot[rec.S_POSTED] += 1
    if slot[rec.S_ARRIVED] >= slot[rec.S_POSTED]:
        schedule(state, state.control[rec.NOW], rec.RECEIVE_NOW, stream, 0)
