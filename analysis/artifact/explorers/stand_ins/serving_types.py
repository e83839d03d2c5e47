"""Stands for the serving modules around the event loop in the page: requests, limits and results as plain records, without pandas.

What the requests go through is the project's own: `serving.engine`, its memory, schedulers and step times.
"""

# mypy: ignore-errors

from typing import Any

import numpy as np

from analysis.serving import state
from analysis.serving.schedulers.names import SCHEDULERS

Floats = Ints = Any


class Given:
    """Anything with named values."""

    def __init__(self, **named):
        self.__dict__.update(named)


Limits = Given


def make_requests(arrived_at_s, prefill_tokens, decode_tokens):
    """Requests in order of arrival."""
    return Given(arrived_at_s=arrived_at_s, prefill_tokens=prefill_tokens, decode_tokens=decode_tokens)


def _rows(kind, count):
    rows = [Given(**dict.fromkeys(kind.names, 0)) for _ in range(count)]
    return np.ndarray(rows, (count,))


def _columns(rows, names):
    return {name: [getattr(row, name) for row in rows] for name in names}


def _limits(limits, scheduler):
    share = limits.watermark if scheduler in ("vllm", "sarathi") else 0
    return Given(
        scheduler=SCHEDULERS[scheduler].code,
        block_size=limits.block_size,
        blocks=limits.kv_blocks,
        watermark=int(share * limits.kv_blocks),
        max_batch=limits.max_batch,
        max_tokens=limits.max_batch_tokens,
        chunk=limits.chunk,
        reserve=-(-limits.max_request_tokens // limits.block_size),
        max_waiting=10,
        swap=0,
        prefix_caching=0,
        reuse=0,
        swap_s_per_block=0.0,
    )


def simulate(requests, scheduler, steps, limits, record_batches=True):
    """One replica, through `analysis.serving.engine.run`."""
    from analysis.serving import engine

    count = len(requests.arrived_at_s)
    rows = _rows(state.REQUEST, count)
    for row, arrived, prompt, answer in zip(rows, requests.arrived_at_s, requests.prefill_tokens, requests.decode_tokens, strict=True):
        row.arrived_at, row.prefill, row.total = arrived, prompt, prompt + answer
        row.scheduled_at = row.prefill_completed_at = row.completed_at = np.nan
        row.next = row.replica = row.prefix = state.NONE
    states = _rows(state.STATE, 1)
    states[0].first = states[0].last = states[0].held = state.NONE
    states[0].free = limits.kv_blocks
    room = [[[0] * (limits.max_batch + 1)] for _ in range(3)]
    most = sum(requests.prefill_tokens) + sum(requests.decode_tokens)  # each member of a batch brings a token at least
    log = _rows(state.BATCH, sum(requests.decode_tokens) + most // 64)
    members, tokens = [0] * most, [0] * most
    settings = [_limits(limits, scheduler)]
    none = np.ndarray([], (0,))
    running, batch, parts = room
    assigned = [0] * count
    engine.run(states, rows, running, [none], batch, parts, settings, steps.compiled, assigned, engine.ASSIGNED, log, members, tokens)
    batches = list(log)[: states[0].batches]
    offsets = [0]
    for batch in batches:
        offsets.append(offsets[-1] + batch.size)
    kept = Given(rows=_columns(batches, state.BATCH.names), offsets=offsets, members=members, tokens=tokens)
    return Given(records=_columns(rows, state.REQUEST.names), batches=kept)
