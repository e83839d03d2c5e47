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
from analysis.serving.heap import pop, push, without
from analysis.serving.interpolation import line, surface

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
        ("transfer_s", "f8"),  # disaggregated: of a prompt's cache to the decode worker, and of each of its tokens
        ("transfer_token_s", "f8"),
        ("transfer_tokens", "i8"),  # most of them that travel when the prompt is done: those before went with earlier chunks
        ("low", "f8"),  # shortest length over the label
        ("rate", "f8"),  # requests a second of clients that do not wait (Poisson); 0: a burst, then each answer releases the next
        ("exponential", "i8"),  # 1: lengths of answers are drawn exponentially, with the mean of the even ones
        ("prefix", "i8"),  # tokens at the start of every prompt that the KV cache holds already
        ("drafted", "i8"),  # tokens that are drafted in a decode step, which checks them all
        ("step_tokens", "f8"),  # tokens that a sequence gets from such a step in the mean (0: one)
        ("draft_table", "i8"),  # of what runs for each of them
    ],
    align=True,
)
LOOP = np.dtype(
    [
        *((name, "f8") for name in ("clock", "front", "server")),  # now; when the front end and the prefill workers are free
        *(("begin", "f8"), ("attended", "f8"), ("foremost", "i8"), ("together", "i8")),  # of prefill workers' next step
        *((name, "f8") for name in ("cached", "reserved", "carried")),  # KV cache (tokens): of running requests, promised, of a part
        *((name, "i8") for name in ("arrivals", "seen", "admitted", "running", "done", "size", "steps", "waited", "poll")),
        *((name, "i8") for name in ("partial", "partial_done", "lined", "out_of")),  # the prompt begun; running in order; taken back
        *((name, "i8") for name in ("prompts", "prompt_tokens", "ready", "hold")),  # of the next step
        *((name, "f8") for name in ("attention", "draft_attention")),  # of the next step's prompts
        ("drafts", "f8"),  # right ones that steps with prompts made, and that no whole step of all sequences has used yet
        *((name, "f8") for name in ("plain_weight", "batch_weight", "cached_weight", "queue")),
    ],
    align=True,
)
"""Where the loop is."""
RESULT = ("ttft_mean", "ttft_median", "tpot_mean", "tpot_median", "batch", "cached", "queue_mean", "throughput")


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
    need: Any  # tokens that the KV cache must hold before the next one is made
    held: Any  # of these, tokens of the prompt that it holds already
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
def _prefill(engine: Any, tables: Tables, r: Requests, s: Any, i: int) -> None:
    """The next prompt joins those that wait for a prefill worker, up to the budget of a step; their tokens go out once the decode worker
    has their caches, which travel while other prompts are processed."""
    j, fresh = engine.prefill_table, r.inputs[i] - r.held[i]
    if s.front > s.begin or s.together + fresh > engine.budget:
        s.begin, s.foremost, s.together, s.attended = max(s.front, s.server), i, 0, 0.0
    s.together += fresh
    s.attended += surface(tables.prompt_axis, tables.before_axis, tables.prefill[j], fresh, float(r.held[i]))
    base = line(tables.token_axis, tables.tokens[j], s.together) + s.attended
    base = max(base + line(tables.sequence_axis, tables.sequences[j], i + 1 - s.foremost), engine.prompt_host_s)
    s.server = s.begin + base / engine.servers
    for k in range(s.foremost, i + 1):
        moved = engine.transfer_token_s * min(r.inputs[k] - r.held[k], engine.transfer_tokens)
        r.sent[k] = s.begin + base + engine.transfer_s + moved
        r.first[k] = r.sent[k]


@inner(_nrt=False)
def _send(engine: Any, tables: Tables, r: Requests, s: Any) -> None:
    """A client sends the next request now; the front end takes one after another, and a prefill worker processes its prompt."""
    i = s.arrivals
    s.front = max(s.front, s.clock) + engine.send_s + engine.send_token_s * r.inputs[i]
    r.arrived[i] = s.clock
    r.sent[i] = s.front
    s.arrivals += 1
    if engine.servers > 0:
        _prefill(engine, tables, r, s, i)


@inner(_nrt=False)
def _look(engine: Any, r: Requests, s: Any) -> None:
    """What has arrived and is seen by the scheduler."""
    if s.running == 0 and s.partial < 0 and s.out_of == 0 and s.admitted < s.arrivals and r.sent[s.admitted] > s.clock:
        s.clock = r.sent[s.admitted]
    if engine.receive <= 1 or s.running == 0 or s.poll >= engine.receive:
        s.seen = s.admitted
        while s.seen < s.arrivals and r.sent[s.seen] <= s.clock:
            s.seen += 1
        s.poll = 0
    elif s.seen < s.admitted:
        s.seen = s.admitted


@inner(_nrt=False)
def _take_back(engine: Any, r: Requests, heap: Any, s: Any) -> None:
    """Where one more token of each does not fit, the last admitted give theirs up, and start again before all that wait."""
    while engine.reserve == 0 and engine.servers == 0 and s.running > 1 and s.cached + s.carried + s.running > engine.cache_tokens:
        s.lined -= 1
        i = r.order[s.lined]
        if r.ends[i] >= 0:
            r.need[i] = r.inputs[i] + r.outputs[i] - (r.ends[i] - s.steps)
            s.cached -= r.need[i] - 1
            r.left[i], r.ends[i], r.held[i] = r.ends[i] - s.steps - 1, -1, 0
            s.running -= 1
            r.pushed_out[s.out_of] = i
            s.out_of += 1
            s.size = without(heap, s.size, i)
            s.hold = 1


@inner(_nrt=False)
def _admit_processed(engine: Any, r: Requests, heap: Any, s: Any) -> None:
    """A decode worker admits requests whose prompts a prefill worker has processed."""
    while (
        s.admitted < s.seen
        and s.running < engine.max_running
        and (s.running == 0 or s.reserved + r.inputs[s.admitted] + r.outputs[s.admitted] <= engine.cache_tokens)
    ):
        i = s.admitted
        r.ends[i] = s.steps + r.left[i]
        s.size = push(heap, s.size, r.ends[i], i)
        s.running += 1
        s.cached += r.inputs[i]
        s.reserved += r.inputs[i] + r.outputs[i]
        r.ttft[i] = r.first[i] - r.arrived[i]
        s.admitted += 1


@inner(_nrt=False)
def _wait(engine: Any, r: Requests, s: Any) -> None:
    """TensorRT-LLM's batch_wait_*: hold new prompts until they fill a share of the budget, or for some steps."""
    if engine.wait_steps > 0 and s.running > 0 and s.admitted < s.seen and s.partial < 0:
        ready = s.running
        for i in range(s.admitted, s.seen):
            ready += r.inputs[i]
            if ready >= engine.wait_ratio * engine.budget:
                break
        if ready < engine.wait_ratio * engine.budget and s.waited < engine.wait_steps:
            s.hold = 1


@inner(_nrt=False)
def _attend(engine: Any, tables: Tables, s: Any, chunk: int, before: float) -> None:
    """A piece of a prompt joins the next step: its attention, and that of what drafts, which sees the prompts too."""
    s.attention += surface(tables.prompt_axis, tables.before_axis, tables.prefill[engine.table], chunk, before)
    if engine.drafted > 0:
        s.draft_attention += surface(tables.prompt_axis, tables.before_axis, tables.prefill[engine.draft_table], chunk, before)


@inner(_nrt=False)
def _decode_attention(engine: Any, tables: Tables, sequences: int, cached: float) -> float:
    """Attention of a decode step (s), and of what drafts its tokens one after another."""
    found = surface(tables.batch_axis, tables.cached_axis, tables.decode[engine.table], sequences, cached)
    if engine.drafted > 0:
        found += engine.drafted * surface(tables.batch_axis, tables.cached_axis, tables.decode[engine.draft_table], sequences, cached)
    return float(found)


@inner(_nrt=False)
def _admit(engine: Any, tables: Tables, r: Requests, s: Any) -> None:
    """Prompts of the next step: the one begun earlier, those taken back, new ones, while budget, places and KV cache last."""
    room = engine.budget - (s.running if engine.mixed == 1 else 0)
    if s.partial >= 0:
        chunk = min(r.need[s.partial] - s.partial_done, room)
        _attend(engine, tables, s, chunk, float(s.partial_done))
        s.prompt_tokens += chunk
        room -= chunk
        s.partial_done += chunk
        s.prompts += 1
        if s.partial_done == r.need[s.partial]:
            s.partial = -1
        else:
            s.carried = float(s.partial_done)
    while (
        s.partial < 0 and s.hold == 0 and room > 0 and s.running + s.prompts < engine.max_running and (s.out_of > 0 or s.admitted < s.seen)
    ):
        i = r.pushed_out[s.out_of - 1] if s.out_of > 0 else s.admitted
        held = s.reserved + r.outputs[i] if engine.reserve == 1 else s.cached + s.carried + s.prompt_tokens
        if s.running + s.prompts > 0 and held + r.need[i] > engine.cache_tokens:
            break
        fresh = r.need[i] - r.held[i]
        if engine.chunked == 0 and fresh > room and s.prompts > 0:
            break
        chunk = fresh if engine.chunked == 0 else min(fresh, room)
        _attend(engine, tables, s, chunk, float(r.held[i]))
        s.prompt_tokens += chunk
        room -= chunk
        s.prompts += 1
        if s.out_of > 0:
            s.out_of -= 1
        else:
            s.admitted += 1
            s.reserved += r.inputs[i] + r.outputs[i]
            s.queue += s.clock - r.arrived[i]
        if chunk < fresh:
            s.partial, s.partial_done, s.carried = i, r.held[i] + chunk, s.carried + r.held[i] + chunk
        else:
            r.ready[s.ready] = i
            s.ready += 1


@inner(_nrt=False)
def _step_with_prompts(engine: Any, tables: Tables, r: Requests, heap: Any, s: Any, begun: int) -> None:
    """One step with prompts, and with the running requests' tokens where the engine mixes them; `begun`: the prompt begun earlier."""
    k = engine.table
    s.waited = 0
    decodes = s.running if engine.mixed == 1 else 0
    checked = decodes * (1 + engine.drafted)
    duration = line(tables.token_axis, tables.tokens[k], s.prompt_tokens + checked) + s.attention
    duration += line(tables.sequence_axis, tables.sequences[k], s.prompts + checked)
    if decodes > 0:
        duration += _decode_attention(engine, tables, decodes, s.cached / decodes)
    if engine.drafted > 0:  # the prompts and a token of each sequence, then one token of each sequence after another
        d = engine.draft_table
        duration += line(tables.token_axis, tables.tokens[d], s.prompt_tokens + decodes) + s.draft_attention
        duration += (engine.drafted - 1) * line(tables.token_axis, tables.tokens[d], s.prompts + decodes)
        duration += engine.drafted * line(tables.sequence_axis, tables.sequences[d], s.prompts + decodes)
    duration += engine.host_s
    if s.prompt_tokens + checked > engine.graph_tokens:
        duration = max(duration, engine.prompt_host_s)
    s.clock += duration
    if decodes > 0:
        s.drafts += max(1.0, engine.step_tokens) - 1.0
        made = 1 + min(int(s.drafts), heap[0, 0] - s.steps - 1)
        s.drafts -= made - 1
        s.steps += made
        s.cached += decodes * made
    s.poll = engine.receive
    # Prompts finished in this step: all of those admitted except a partial one, and the earlier partial one.
    if begun >= 0 and s.partial != begun:
        r.ready[s.ready] = begun
        s.ready += 1
        s.carried = float(s.partial_done) if s.partial >= 0 else 0.0
    for k in range(s.ready):
        i = r.ready[k]
        if r.first[i] == 0.0:
            r.first[i] = s.clock
            r.ttft[i] = s.clock - r.arrived[i]
        r.ends[i] = s.steps + r.left[i]
        s.size = push(heap, s.size, r.ends[i], i)
        r.order[s.lined] = i
        s.lined += 1
        s.running += 1
        s.cached += r.need[i]


@inner(_nrt=False)
def _decode_steps(engine: Any, tables: Tables, r: Requests, heap: Any, s: Any) -> None:
    """All steps up to the next event, added up at once; one counts a token of each, of which a step that checks drafts makes several."""
    run = heap[0, 0] - s.steps
    if engine.reserve == 0 and engine.servers == 0:
        run = min(run, max(1, int((engine.cache_tokens - s.cached - s.carried) / s.running)))
    if s.hold == 1:
        run = min(run, max(1, engine.wait_steps - s.waited))
    if engine.receive > 1 and s.seen < s.arrivals:
        run = min(run, max(1, engine.receive - s.poll))
    checked, made = s.running * (1 + engine.drafted), max(1.0, engine.step_tokens)
    flat = line(tables.token_axis, tables.tokens[engine.table], checked)
    flat += line(tables.sequence_axis, tables.sequences[engine.table], checked)
    flat += engine.host_s
    if engine.drafted > 0:
        flat += engine.drafted * line(tables.token_axis, tables.tokens[engine.draft_table], s.running)
        flat += engine.drafted * line(tables.sequence_axis, tables.sequences[engine.draft_table], s.running)
    flat /= made
    if engine.receive <= 1 and s.seen < s.arrivals:
        # The next request is on its way: stop when it is there.
        now = flat + _decode_attention(engine, tables, s.running, s.cached / s.running) / made
        run = min(run, max(1, int((r.sent[s.seen] - s.clock) / now) + 1))
    run = max(run, 1)
    middle = s.cached / s.running + 0.5 * (run - 1)
    attend = _decode_attention(engine, tables, s.running, middle) / made
    s.clock += run * (flat + attend)
    s.plain_weight += run * s.running
    s.batch_weight += run * s.running * s.running
    s.cached_weight += run * s.running * middle
    s.steps += run
    s.cached += run * s.running
    s.waited += run if s.hold == 1 else 0
    s.poll += run


@inner(_nrt=False)
def _complete(engine: Any, tables: Tables, r: Requests, heap: Any, s: Any) -> None:
    """Requests that have their last token leave, and their clients send the next ones."""
    while s.size > 0 and heap[0, 0] <= s.steps:
        i = heap[0, 1]
        s.size = pop(heap, s.size)
        r.ends[i] = -1
        s.running -= 1
        s.cached -= r.inputs[i] + r.outputs[i] - 1
        s.reserved -= r.inputs[i] + r.outputs[i]
        r.tpot[i] = (s.clock - r.first[i]) / (r.outputs[i] - 1)
        s.done += 1
        if s.arrivals < engine.requests:
            _send(engine, tables, r, s)


@outer(_nrt=False)
def one(engine: Any, tables: Tables, r: Requests, heap: Any, s: Any, out: Any) -> None:
    """One serving point; writes times into `r` and all of `RESULT` from the batch on into `out`. `s`: a `LOOP` record of zeros."""
    n = engine.requests
    for i in range(n):
        r.need[i], r.left[i], r.ends[i] = r.inputs[i], r.outputs[i] - 1, -1
        r.held[i] = min(r.inputs[i] - 1, engine.prefix)
    s.partial = -1
    while s.arrivals < min(engine.clients, n):
        s.clock = r.arrived[s.arrivals]
        _send(engine, tables, r, s)
    s.clock = 0.0
    while s.done < n:
        _look(engine, r, s)
        s.prompts, s.prompt_tokens, s.ready, s.hold, s.attention, s.draft_attention = 0, 0, 0, 0, 0.0, 0.0
        begun = s.partial
        _take_back(engine, r, heap, s)
        if engine.servers > 0:
            _admit_processed(engine, r, heap, s)
        else:
            _wait(engine, r, s)
            _admit(engine, tables, r, s)
        if s.prompts > 0:
            _step_with_prompts(engine, tables, r, heap, s, begun)
        elif s.running > 0:
            _decode_steps(engine, tables, r, heap, s)
        _complete(engine, tables, r, heap, s)
    plain = max(1.0, s.plain_weight)
    out[4], out[5] = s.batch_weight / plain, s.cached_weight / plain
    out[6], out[7] = s.queue / n, n / s.clock


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
    arrived = np.zeros(n)
    if engine["rate"] > 0:
        gaps = -np.log1p(-(np.arange(n) + 0.5) / n) / engine["rate"]
        arrived = gaps[_shuffled(n, 3)].cumsum()
    return Requests(*lengths, arrived, *(np.zeros(n) for _ in range(4)), *(np.zeros(n, np.int64) for _ in range(7)))


def simulate(engines: Any, tables: Tables) -> Any:
    """Every serving point: `ENGINE` records, shape (n,) -> `RESULT`, shape (n, 8), seconds."""
    out = np.zeros((engines.size, len(RESULT)))
    run = one.chosen(engines["requests"].sum() <= PLAIN_REQUESTS, patience_s=0.2)
    for i in range(engines.size):
        r = _requests(engines[i])
        run(engines[i], tables, r, np.zeros((engines[i]["clients"] + 1, 2), np.int64), np.zeros(1, LOOP)[0], out[i])
        for at, seconds in ((0, r.ttft), (2, r.tpot)):
            out[i, at], out[i, at + 1] = seconds.cumsum()[-1] / seconds.size, np.median(seconds)  # added up in order
    return out
