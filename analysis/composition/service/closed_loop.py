"""The engine and its clients: a burst of C requests, then each answer releases the next; compiled.

An engine step holds one token of each running request, and prompts up to the token budget: together (`mixed`), or prompts first. Between
events nothing but the cached tokens changes, so a run of equal decode steps is added up at once (attention is linear in the cached tokens
between two grid points). Requests have lengths drawn uniformly and independently from 0.8 of the label, or answers' exponentially.
Client: https://github.com/SemiAnalysisAI/InferenceX utils/bench_serving/benchmark_serving.py. Engines: vLLM v1's scheduler, TensorRT-LLM's
in-flight batching (and its batch_wait_*), SGLang's prefill-first loop (and its scheduler_recv_interval). Where the KV cache has no room for
another token of each, vLLM and SGLang take back the last admitted, process their tokens anew once there is room, and let all others wait
behind them; TensorRT-LLM admits only what will fit to its end.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from analysis.compiled import inner, outer

ENGINE = np.dtype(
    [
        ("clients", "i8"),
        ("requests", "i8"),
        ("input", "i8"),
        ("output", "i8"),
        ("budget", "i8"),
        ("max_running", "i8"),
        ("mixed", "i8"),
        ("chunked", "i8"),
        ("receive", "i8"),
        ("wait_ratio", "f8"),
        ("wait_steps", "i8"),
        ("cache_tokens", "f8"),  # KV cache (tokens)
        ("reserve", "i8"),  # 1: a request is admitted only if its last token will fit too (TensorRT-LLM's no-evict policy)
        ("host_s", "f8"),  # of each decode step
        ("prompt_host_s", "f8"),  # least duration of a step with a prompt
        ("graph_tokens", "i8"),  # most tokens of a step that a CUDA graph holds: beyond, the host launches each layer
        ("send_s", "f8"),  # the front end takes requests one after another: of each request
        ("send_token_s", "f8"),  # and of each prompt token
        ("servers", "f8"),  # disaggregated: prefill ranks for each decode rank; 0: aggregated
        ("table", "i8"),
        ("prefill_table", "i8"),
        ("low", "f8"),  # shortest length over the label
        ("exponential", "i8"),  # 1: lengths of answers are drawn exponentially, with the mean of the even ones
    ],
    align=True,
)
RESULT = ("ttft_mean", "ttft_median", "tpot_mean", "tpot_median", "batch", "cached", "prompt_share", "steps_s", "queue_mean", "throughput")


PLAIN_REQUESTS = 5000
"""So many requests are simulated in plain Python sooner than the loop is compiled."""


class Requests(NamedTuple):
    """Requests in the order in which clients make them, shape (n,)."""

    inputs: Any  # tokens
    outputs: Any
    arrived: Any  # seconds
    sent: Any
    first: Any
    ttft: Any
    tpot: Any
    need: Any  # tokens to process before the next one is made
    left: Any  # tokens still to make
    ends: Any  # decode step of the last (-1: not running)
    order: Any  # running ones, as they were admitted
    pushed_out: Any
    ready: Any


class Tables(NamedTuple):
    """Step times of all configurations on the grids (seconds), and the grids."""

    tokens: Any  # f8 (tables, n)
    sequences: Any  # f8 (tables, s)
    decode: Any  # f8 (tables, b, k)
    prefill: Any  # f8 (tables, p, q)
    token_axis: Any
    sequence_axis: Any
    batch_axis: Any
    cached_axis: Any
    prompt_axis: Any
    before_axis: Any


@inner(_nrt=False)
def _place(axis: Any, x: float) -> tuple[int, float]:
    """Interval of a value on an axis and its share of it; beyond the ends the line continues."""
    low, high = 0, axis.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if axis[middle] <= x:
            low = middle
        else:
            high = middle
    return low, (x - axis[low]) / (axis[low + 1] - axis[low])


@inner(_nrt=False)
def _line(axis: Any, values: Any, x: float) -> float:
    i, f = _place(axis, max(x, axis[0]))
    return values[i] + f * (values[i + 1] - values[i])


@inner(_nrt=False)
def _surface(first: Any, second: Any, values: Any, x: float, y: float) -> float:
    i, f = _place(first, max(x, first[0]))
    j, g = _place(second, max(y, second[0]))
    low = values[i, j] + g * (values[i, j + 1] - values[i, j])
    high = values[i + 1, j] + g * (values[i + 1, j + 1] - values[i + 1, j])
    return low + f * (high - low)


@inner(_nrt=False)
def _push(heap: Any, size: int, key: int, value: int) -> int:
    i = size
    while i > 0 and heap[(i - 1) // 2, 0] > key:
        heap[i, 0], heap[i, 1] = heap[(i - 1) // 2, 0], heap[(i - 1) // 2, 1]
        i = (i - 1) // 2
    heap[i, 0], heap[i, 1] = key, value
    return size + 1


@inner(_nrt=False)
def _pop(heap: Any, size: int) -> int:
    last = size - 1
    key, value = heap[last, 0], heap[last, 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= key:
            break
        heap[i, 0], heap[i, 1] = heap[child, 0], heap[child, 1]
        i = child
    heap[i, 0], heap[i, 1] = key, value
    return last


@inner(_nrt=False)
def _without(heap: Any, size: int, value: int) -> int:
    """The heap without one entry."""
    kept = 0
    for i in range(size):
        key, held = heap[i, 0], heap[i, 1]
        if held != value:
            kept = _push(heap, kept, key, held)
    return kept


@outer(_nrt=False)
def one(engine: Any, tables: Tables, r: Requests, heap: Any, out: Any) -> None:
    """One serving point; writes times into `r` and all of `RESULT` from the batch on into `out`."""
    n, c, k = engine.requests, engine.clients, engine.table
    inputs, outputs, arrived, sent, first, ttft, tpot = r.inputs, r.outputs, r.arrived, r.sent, r.first, r.ttft, r.tpot
    need, left, ends, order, pushed_out, ready_now = r.need, r.left, r.ends, r.order, r.pushed_out, r.ready
    for i in range(n):
        need[i], left[i], ends[i] = inputs[i], outputs[i] - 1, -1
    lined, out_of = 0, 0
    token_s, sequence_s, decode_s, prefill_s = tables.tokens[k], tables.sequences[k], tables.decode[k], tables.prefill[k]
    clock, front, server = 0.0, 0.0, 0.0
    running, cached, steps = 0, 0.0, 0
    reserved = 0.0
    arrivals, admitted, done, size, waited = 0, 0, 0, 0, 0
    partial, partial_done = -1, 0
    ready_count, carried = 0, 0.0
    poll, seen = 0, 0
    decode_time, decode_weight, plain_weight, batch_weight, cached_weight, prompt_time = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    queue = 0.0
    while arrivals < min(c, n):
        front += engine.send_s + engine.send_token_s * inputs[arrivals]
        sent[arrivals] = front
        arrivals += 1
    if engine.servers > 0:
        for i in range(arrivals):
            base = _line(tables.token_axis, tables.tokens[engine.prefill_table], inputs[i]) + tables.sequences[engine.prefill_table][0]
            base += _surface(tables.prompt_axis, tables.before_axis, tables.prefill[engine.prefill_table], inputs[i], 0.0)
            base = max(base, engine.prompt_host_s)
            begin = max(sent[i], server)
            server = begin + base / engine.servers
            sent[i] = begin + base
            first[i] = sent[i]
    while done < n:
        # What has arrived and is seen by the scheduler.
        if running == 0 and partial < 0 and out_of == 0 and admitted < arrivals and sent[admitted] > clock:
            clock = sent[admitted]
        if engine.receive <= 1 or running == 0 or poll >= engine.receive:
            seen = admitted
            while seen < arrivals and sent[seen] <= clock:
                seen += 1
            poll = 0
        elif seen < admitted:
            seen = admitted
        room = engine.budget - (running if engine.mixed == 1 else 0)
        prompts, prompt_tokens, attention = 0, 0, 0.0
        last_partial = partial
        ready_count = 0
        hold = False
        # No room for one more token of each: the last admitted give theirs up, and start again before all that wait.
        while engine.reserve == 0 and engine.servers == 0 and running > 1 and cached + carried + running > engine.cache_tokens:
            lined -= 1
            i = order[lined]
            if ends[i] >= 0:
                need[i] = inputs[i] + outputs[i] - (ends[i] - steps)
                cached -= need[i] - 1
                left[i], ends[i] = ends[i] - steps - 1, -1
                running -= 1
                pushed_out[out_of] = i
                out_of += 1
                size = _without(heap, size, i)
                hold = True
        if engine.servers > 0:
            # Decode rank: requests come with their prompt processed.
            while (
                admitted < seen
                and running < engine.max_running
                and (running == 0 or reserved + inputs[admitted] + outputs[admitted] <= engine.cache_tokens)
            ):
                i = admitted
                ends[i] = steps + left[i]
                size = _push(heap, size, ends[i], i)
                running += 1
                cached += inputs[i]
                reserved += inputs[i] + outputs[i]
                ttft[i] = first[i] - arrived[i]
                admitted += 1
        else:
            if engine.wait_steps > 0 and running > 0 and admitted < seen and partial < 0:
                ready = running
                for i in range(admitted, seen):
                    ready += inputs[i]
                    if ready >= engine.wait_ratio * engine.budget:
                        break
                if ready < engine.wait_ratio * engine.budget and waited < engine.wait_steps:
                    hold = True
            if partial >= 0:
                chunk = min(need[partial] - partial_done, room)
                attention += _surface(tables.prompt_axis, tables.before_axis, prefill_s, chunk, partial_done)
                prompt_tokens += chunk
                room -= chunk
                partial_done += chunk
                prompts += 1
                if partial_done == need[partial]:
                    partial = -1
                else:
                    carried = float(partial_done)
            while partial < 0 and not hold and room > 0 and running + prompts < engine.max_running and (out_of > 0 or admitted < seen):
                i = pushed_out[out_of - 1] if out_of > 0 else admitted
                held = reserved + outputs[i] if engine.reserve == 1 else cached + carried + prompt_tokens
                if running + prompts > 0 and held + need[i] > engine.cache_tokens:
                    break
                if engine.chunked == 0 and need[i] > room and prompts > 0:
                    break
                chunk = need[i] if engine.chunked == 0 else min(need[i], room)
                attention += _surface(tables.prompt_axis, tables.before_axis, prefill_s, chunk, 0.0)
                prompt_tokens += chunk
                room -= chunk
                prompts += 1
                if out_of > 0:
                    out_of -= 1
                else:
                    admitted += 1
                    reserved += inputs[i] + outputs[i]
                    queue += clock - arrived[i]
                if chunk < need[i]:
                    partial, partial_done, carried = i, chunk, carried + chunk
                else:
                    ready_now[ready_count] = i
                    ready_count += 1
        if prompts > 0:
            waited = 0
            decodes = running if engine.mixed == 1 else 0
            duration = _line(tables.token_axis, token_s, prompt_tokens + decodes) + attention
            duration += _line(tables.sequence_axis, sequence_s, prompts + decodes)
            if decodes > 0:
                duration += _surface(tables.batch_axis, tables.cached_axis, decode_s, decodes, cached / decodes)
            duration += engine.host_s
            if prompt_tokens + decodes > engine.graph_tokens:
                duration = max(duration, engine.prompt_host_s)
            clock += duration
            prompt_time += duration * running
            decode_weight += decodes
            if decodes > 0:
                steps += 1
                cached += decodes
            poll = engine.receive
            # Prompts finished in this step: all of those admitted except a partial one, and the earlier partial one.
            if last_partial >= 0 and partial != last_partial:
                ready_now[ready_count] = last_partial
                ready_count += 1
                carried = float(partial_done) if partial >= 0 else 0.0
            for one_ready in range(ready_count):
                i = ready_now[one_ready]
                if first[i] == 0.0:
                    first[i] = clock
                    ttft[i] = clock - arrived[i]
                ends[i] = steps + left[i]
                size = _push(heap, size, ends[i], i)
                order[lined] = i
                lined += 1
                running += 1
                cached += need[i]
        elif running > 0:
            run = heap[0, 0] - steps
            if engine.reserve == 0 and engine.servers == 0:
                run = min(run, max(1, int((engine.cache_tokens - cached - carried) / running)))
            if hold:
                run = min(run, max(1, engine.wait_steps - waited))
            if engine.receive > 1 and seen < arrivals:
                run = min(run, max(1, engine.receive - poll))
            flat = _line(tables.token_axis, token_s, running) + _line(tables.sequence_axis, sequence_s, running) + engine.host_s
            if engine.receive <= 1 and seen < arrivals:
                # The next request is on its way: stop when it is there.
                now = flat + _surface(tables.batch_axis, tables.cached_axis, decode_s, running, cached / running)
                run = min(run, max(1, int((sent[seen] - clock) / now) + 1))
            run = max(run, 1)
            middle = cached / running + 0.5 * (run - 1)
            attend = _surface(tables.batch_axis, tables.cached_axis, decode_s, running, middle)
            clock += run * (flat + attend)
            decode_time += run * (flat + attend) * running
            decode_weight += run * running
            plain_weight += run * running
            batch_weight += run * running * running
            cached_weight += run * running * middle
            steps += run
            cached += run * running
            waited += run if hold else 0
            poll += run
        while size > 0 and heap[0, 0] <= steps:
            i = heap[0, 1]
            size = _pop(heap, size)
            ends[i] = -1
            running -= 1
            cached -= inputs[i] + outputs[i] - 1
            reserved -= inputs[i] + outputs[i]
            tpot[i] = (clock - first[i]) / (outputs[i] - 1)
            done += 1
            if arrivals < n:
                arrived[arrivals] = clock
                front = max(front, clock) + engine.send_s + engine.send_token_s * inputs[arrivals]
                sent[arrivals] = front
                if engine.servers > 0:
                    j = engine.prefill_table
                    base = _line(tables.token_axis, tables.tokens[j], inputs[arrivals]) + tables.sequences[j][0]
                    base += _surface(tables.prompt_axis, tables.before_axis, tables.prefill[j], inputs[arrivals], 0.0)
                    base = max(base, engine.prompt_host_s)
                    begin = max(front, server)
                    server = begin + base / engine.servers
                    sent[arrivals] = begin + base
                    first[arrivals] = sent[arrivals]
                arrivals += 1
    plain = max(1.0, plain_weight)
    out[4], out[5] = batch_weight / plain, cached_weight / plain
    out[6] = prompt_time / max(1e-30, prompt_time + decode_time)
    out[7] = (prompt_time + decode_time) / max(1.0, decode_weight)
    out[8] = queue / n
    out[9] = n / clock


@cache
def _shuffled(count: int, seed: int) -> Any:
    """0 to count - 1 in random order."""
    out = list(range(count))
    draws = np.random.RandomState(seed).randint(0, np.arange(count, 1, -1))
    for i, j in zip(range(count - 1, 0, -1), draws.tolist(), strict=True):
        out[i], out[j] = out[j], out[i]
    return np.array(out)


def _lengths(count: int, low: int, high: int, seed: int) -> Any:
    """Whole numbers evenly spread over low to high, in random order."""
    return (low + ((np.arange(count) + 0.5) / count * (high - low + 1)).astype(np.int64))[_shuffled(count, seed)]


def drawn(count: int, input_tokens: int, output_tokens: int, low: float, exponential: bool = False) -> tuple[Any, Any]:
    """Lengths of prompts and answers: even from `low` of the labels, or answers exponential with the mean of these; shapes (count,)."""
    inputs = _lengths(count, max(1, int(input_tokens * low)), input_tokens, 1)
    outputs = _lengths(count, max(2, int(output_tokens * low)), output_tokens, 2)
    if exponential:
        quantiles = -np.log1p(-(np.arange(count) + 0.5) / count)
        outputs = np.maximum(2, np.rint(outputs.mean() * quantiles)).astype(np.int64)[_shuffled(count, 2)]
    return inputs, outputs


def _requests(engine: Any) -> Requests:
    n = int(engine["requests"])
    lengths = drawn(n, int(engine["input"]), int(engine["output"]), float(engine["low"]), bool(engine["exponential"]))
    return Requests(*lengths, *(np.zeros(n) for _ in range(5)), *(np.zeros(n, np.int64) for _ in range(6)))


def simulate(engines: Any, tables: Tables) -> Any:
    """Every serving point: `ENGINE` records, shape (n,) -> `RESULT`, shape (n, 10), seconds."""
    out = np.zeros((engines.size, len(RESULT)))
    run = one.chosen(engines["requests"].sum() <= PLAIN_REQUESTS, patience_s=0.2)
    for i in range(engines.size):
        r = _requests(engines[i])
        run(engines[i], tables, r, np.zeros((engines[i]["clients"] + 1, 2), np.int64), out[i])
        for at, seconds in ((0, r.ttft), (2, r.tpot)):
            out[i, at], out[i, at + 1] = seconds.cumsum()[-1] / seconds.size, np.median(seconds)  # added up in order
    return out
