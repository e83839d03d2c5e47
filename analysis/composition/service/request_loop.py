"""vLLM v1's engine over a list of requests, step by step; compiled.

Each step: running requests first, each with what it needs next, in the order of admission; then waiting ones, while the token budget, the
number of requests and the KV blocks last. A running request without blocks preempts the one admitted last, which starts over, but for
those of its full blocks that nobody has taken since: where prefixes are cached, a block keeps its tokens until it is taken, a request's
last blocks are freed first, and those free longest are taken first. The next step is scheduled while one runs (asynchronous scheduling,
the default of the recorded version): a request that arrives during a step joins the step after the next, and a finished request's place
is free one step later. Replicas (data parallelism) take a request where 4 x waiting + running is least; those of a mixture of experts
step together.
Source: vLLM's `Scheduler.schedule`, `KVCacheManager.get_computed_blocks` and `free`, and its data-parallel load balancer (docs.vllm.ai,
data_parallel_deployment).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.compiled import inner, outer
from analysis.composition.service.request_profile import SKEW_LEVERS, StepProfile

BLOCK = 16
PREPARE_S = 0.0224
"""From when a step with a prompt is scheduled to its first kernel, as no CUDA graph replays it; while a longer step runs, it is hidden.

Median of 29 steps of the recorded Llama 3.1 8B run: first 9.5 s, at most 60 requests decoding, all its prompts scheduled and finished
together; `first_token_s` - `scheduled_s` less the profiled time of the step, where that is within 16 ms of the step under way.
"""


@inner
def _between(axis: Any, x: float) -> tuple[int, float]:
    low, high = 0, axis.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        if axis[middle] <= x:
            low = middle
        else:
            high = middle
    share = (x - axis[low]) / (axis[high] - axis[low]) if high > low else 0.0
    return low, max(0.0, share)


@inner
def attention_s(p: StepProfile, chunk: float, before: float, decodes: float, cached: float) -> float:
    """Attention of all layers, linear in each of the four."""
    i, a = _between(p.chunk_axis, chunk)
    j, b = _between(p.before_axis, before)
    k, c = _between(p.decode_axis, decodes)
    m, d = _between(p.cached_axis, cached)
    total = 0.0
    for x in range(2):
        wx = a if x else 1 - a
        for y in range(2):
            wy = b if y else 1 - b
            for z in range(2):
                wz = c if z else 1 - c
                for w in range(2):
                    weight = wx * wy * wz * (d if w else 1 - d)
                    if weight != 0.0:
                        total += weight * p.attention[i + x, j + y, k + z, m + w]
    return total


@inner
def _nearest(axis: Any, x: float) -> int:
    best = 0
    for i in range(axis.size):
        if abs(np.log1p(axis[i]) - np.log1p(x)) < abs(np.log1p(axis[best]) - np.log1p(x)):
            best = i
    return best


@inner
def experts_s(p: StepProfile, tokens: float, experts: float, top_k: float, ranks: float) -> float:
    """Expert layers of one rank: uniform routing, 1 / ranks of the pairs and of the weights."""
    active = experts * (1 - (1 - top_k / experts) ** tokens) / ranks
    i, a = _between(p.expert_tokens, max(1.0, tokens / ranks))
    j, b = _between(p.expert_active, max(p.expert_active[0], active))
    low = p.experts[i, j] * (1 - b) + p.experts[i, j + 1] * b
    high = p.experts[i + 1, j] * (1 - b) + p.experts[i + 1, j + 1] * b
    return low * (1 - a) + high * a


@inner
def step_s(p: StepProfile, chunk: Any, before: Any, decoding: Any, ends: int, levers: Any) -> float:
    """Time of one replica's step without its experts: members' tokens, tokens before them, whether they decode; shapes (members,)."""
    tokens, decodes, cached, tallest, most, prompts, seen = 0, 0, 0, 0, 0, 0, 0.0
    for k in range(chunk.size):
        tokens += chunk[k]
        if decoding[k]:
            decodes += 1
            cached += before[k] + 1
            tallest = max(tallest, before[k] + 1)
        else:
            most = max(most, chunk[k])
            prompts += chunk[k]
            seen += float(chunk[k]) * before[k]
    mean = cached / decodes if decodes > 0 else 0.0
    # Prompts of one step share a launch, and decodes are slower beside prompts: both count once a step, as if the prompts were one.
    behind = seen / prompts if prompts > 0 else 0.0
    attend = attention_s(p, float(prompts), behind, float(decodes), mean) if chunk.size > 0 else 0.0
    if prompts > 0:
        attend -= attention_s(p, float(prompts), behind, 0.0, 0.0)
        least = p.chunk_axis[1]
        launch = attention_s(p, least, 0.0, 0.0, 0.0)
        for k in range(chunk.size):
            if not decoding[k]:
                attend += max(0.0, attention_s(p, max(least, float(chunk[k])), float(before[k]), 0.0, 0.0) - launch)
        attend += launch
    if decodes > 1 and p.alpha.size > 0 and tallest > mean:
        even = attention_s(p, float(prompts), behind, float(decodes), mean)
        wide = max(0.0, attention_s(p, float(prompts), behind, float(decodes), float(tallest)) - even)
        group = 0
        while group < levers.size and wide > levers[group] * even:
            group += 1
        attend += wide * p.alpha[_nearest(p.alpha_chunks, float(most)), _nearest(p.alpha_decodes, float(decodes)), group]
    return p.tokens[min(tokens, p.tokens.size - 1)] + p.sequences[min(ends, p.sequences.size - 1)] + attend


@outer
def run(
    p: StepProfile, arrived: Any, inputs: Any, outputs: Any, replicas: int, together: bool, ahead: int, max_running: int,
    budget_tokens: int, blocks: int, experts: float, top_k: float, ranks: float, first_token: Any, last_token: Any,
    levers: Any, prepare_s: float, caching: bool,
) -> int:  # fmt: skip
    """Run all requests; arrays by arrival. Writes the times of each one's first and last token; returns the steps made, -1 if stuck.

    `ahead` is 1 where the next step is scheduled while one runs (asynchronous scheduling), else 0; `prepare_s` as `PREPARE_S`;
    `caching`: prefixes are cached.
    """
    n = arrived.size
    done, made, held = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    after = np.full(n, -1, np.int64)
    first, last, queued = np.full(replicas, -1, np.int64), np.full(replicas, -1, np.int64), np.zeros(replicas, np.int64)
    running, size = np.zeros((replicas, max_running), np.int64), np.zeros(replicas, np.int64)
    free = np.full(replicas, blocks, np.int64)
    # Free blocks in the order in which they are taken: so many of each former owner (n + replica: of nobody), then those of the next one.
    left, newer, full = np.zeros(n + replicas, np.int64), np.full(n + replicas, -1, np.int64), np.zeros(n, np.int64)
    oldest, newest = np.full(replicas, -1, np.int64), np.full(replicas, -1, np.int64)
    for r in range(replicas):
        _give(n + r, blocks, r, left, newer, oldest, newest)
    # Scheduled steps of each replica: the one that runs (0) and the one behind it (1).
    members, chunk = np.zeros((replicas, 2, max_running), np.int64), np.zeros((replicas, 2, max_running), np.int64)
    before = np.zeros((replicas, 2, max_running), np.int64)
    decoding, emits = np.zeros((replicas, 2, max_running), np.bool_), np.zeros((replicas, 2, max_running), np.bool_)
    width = np.zeros((replicas, 2), np.int64)
    ends = np.full(replicas, np.inf)
    composed = np.zeros((replicas, 2))
    clock = 0.0
    arrivals, finished, steps = 0, 0, 0
    while finished < n:
        now = ends.min()
        if now == np.inf:
            if arrivals >= n:
                return -1
            now = max(clock, arrived[arrivals])
        clock = now
        for r in range(replicas):
            if ends[r] > now:
                continue
            for k in range(width[r, 0]):
                i = members[r, 0, k]
                if not emits[r, 0, k]:
                    continue
                if first_token[i] == 0.0:
                    first_token[i] = now
                if (
                    made[i] == outputs[i]
                    and done[i] >= inputs[i] + outputs[i] - 1
                    and (width[r, 1] == 0 or not _within(members[r, 1], width[r, 1], i))
                ):
                    last_token[i] = now
                    free[r] += held[i]
                    _give(i if caching else n + r, held[i], r, left, newer, oldest, newest)
                    held[i] = 0
                    finished += 1
                    _remove(running[r], size[r], i)
                    size[r] -= 1
            width[r, 0] = width[r, 1]
            for k in range(width[r, 1]):
                members[r, 0, k], chunk[r, 0, k], before[r, 0, k] = members[r, 1, k], chunk[r, 1, k], before[r, 1, k]
                decoding[r, 0, k], emits[r, 0, k] = decoding[r, 1, k], emits[r, 1, k]
            width[r, 1] = 0
            composed[r, 0] = composed[r, 1]
        while arrivals < n and arrived[arrivals] <= now:
            best = 0
            for r in range(replicas):
                if 4 * queued[r] + size[r] < 4 * queued[best] + size[best]:
                    best = r
            if first[best] < 0:
                first[best] = arrivals
            else:
                after[last[best]] = arrivals
            last[best] = arrivals
            queued[best] += 1
            arrivals += 1
        longest, gathered = 0.0, 0
        for r in range(replicas):
            if ends[r] > now and ends[r] < np.inf:
                continue
            for slot in range(1 + ahead):
                if width[r, slot] > 0 or (slot == 1 and width[r, 0] == 0):
                    continue
                budget, k, count = budget_tokens, 0, 0
                preempted = False
                while k < size[r] and budget > 0:
                    i = running[r, k]
                    want = min(inputs[i] + made[i] - done[i], budget) if made[i] < outputs[i] else 0
                    if want == 0:
                        k += 1
                        continue
                    need = (done[i] + want + BLOCK - 1) // BLOCK - held[i]
                    while need > free[r] and size[r] > k:
                        size[r] -= 1
                        victim = running[r, size[r]]
                        free[r] += held[victim]
                        _give(victim if caching else n + r, held[victim], r, left, newer, oldest, newest)
                        full[victim] = done[victim] // BLOCK
                        held[victim], done[victim] = 0, 0
                        after[victim] = first[r]
                        if first[r] < 0:
                            last[r] = victim
                        first[r] = victim
                        queued[r] += 1
                        preempted = True
                    if size[r] == k:
                        break
                    free[r] -= need
                    _take(need, r, left, newer, oldest, newest)
                    held[i] += need
                    _put(i, want, r, slot, count, members, chunk, before, decoding, emits, done, made, inputs)
                    budget -= want
                    count += 1
                    k += 1
                while not preempted and first[r] >= 0 and budget > 0 and size[r] < max_running:
                    i = first[r]
                    kept = BLOCK * min(left[i], full[i])
                    want = min(inputs[i] + made[i] - kept, budget)
                    need = (kept + want + BLOCK - 1) // BLOCK
                    if need > free[r]:
                        break
                    _take(need - _reclaim(i, r, left, newer, oldest, newest), r, left, newer, oldest, newest)
                    done[i] = kept
                    first[r] = after[i]
                    after[i] = -1
                    queued[r] -= 1
                    free[r] -= need
                    held[i] = need
                    running[r, size[r]] = i
                    size[r] += 1
                    _put(i, want, r, slot, count, members, chunk, before, decoding, emits, done, made, inputs)
                    budget -= want
                    count += 1
                width[r, slot] = count
                composed[r, slot] = now
            for k in range(width[r, 0]):
                gathered += chunk[r, 0, k]
        for r in range(replicas):
            if ends[r] > now and ends[r] < np.inf:
                continue
            w = width[r, 0]
            ends[r] = np.inf
            if w == 0:
                continue
            tokens, sampled, starts = 0, 0, False
            for k in range(w):
                starts = starts or not decoding[r, 0, k]
                tokens += chunk[r, 0, k]
                sampled += 1 if emits[r, 0, k] else 0
            duration = step_s(p, chunk[r, 0, :w], before[r, 0, :w], decoding[r, 0, :w], sampled, levers)
            if p.experts.size > 0:
                duration += experts_s(p, float(gathered if together else tokens), experts, top_k, ranks)
            if starts:
                duration += max(0.0, composed[r, 0] + prepare_s - now)
            longest = max(longest, duration)
            ends[r] = now + duration
            steps += 1
        if together and longest > 0:
            # Replicas that share their experts run their steps together; one without requests runs an empty step.
            for r in range(replicas):
                ends[r] = now + longest
    return steps


@inner
def _give(owner: int, count: int, r: int, left: Any, newer: Any, oldest: Any, newest: Any) -> None:
    """Free so many blocks of an owner: they are taken after all that are free already."""
    if left[owner] == 0 and count > 0:
        newer[owner] = -1
        if oldest[r] < 0:
            oldest[r] = owner
        else:
            newer[newest[r]] = owner
        newest[r] = owner
    left[owner] += count


@inner
def _take(count: int, r: int, left: Any, newer: Any, oldest: Any, newest: Any) -> None:
    """Take so many free blocks, those first that have been free longest."""
    while count > 0:
        owner = oldest[r]
        used = min(count, left[owner])
        left[owner] -= used
        count -= used
        if left[owner] == 0:
            oldest[r] = newer[owner]


@inner
def _reclaim(owner: int, r: int, left: Any, newer: Any, oldest: Any, newest: Any) -> int:
    """Take back what is left of an owner's blocks; returns how many."""
    found = left[owner]
    if found > 0:
        before, at = -1, oldest[r]
        while at != owner:
            before, at = at, newer[at]
        if before < 0:
            oldest[r] = newer[owner]
        else:
            newer[before] = newer[owner]
        if newest[r] == owner:
            newest[r] = before
        left[owner] = 0
    return found


@inner
def _within(members: Any, count: int, i: int) -> bool:
    for k in range(count):  # noqa: SIM110 (numba)
        if members[k] == i:
            return True
    return False


@inner
def _remove(running: Any, size: int, i: int) -> None:
    k = 0
    while running[k] != i:
        k += 1
    for j in range(k, size - 1):
        running[j] = running[j + 1]


@inner
def _put(
    i: int, want: int, r: int, slot: int, k: int, members: Any, chunk: Any, before: Any, decoding: Any, emits: Any, done: Any, made: Any,
    inputs: Any,
) -> None:  # fmt: skip
    """Put a request into a step; its tokens count as computed from now on, and the one it will give as made."""
    members[r, slot, k], chunk[r, slot, k], before[r, slot, k] = i, want, done[i]
    decoding[r, slot, k] = want == 1 and made[i] > 0
    done[i] += want
    emits[r, slot, k] = done[i] == inputs[i] + made[i]
    if emits[r, slot, k]:
        made[i] += 1


def simulate(
    p: StepProfile, arrived: Any, inputs: Any, outputs: Any, replicas: int, together: bool, max_running: int, budget_tokens: int,
    blocks: int, experts: tuple[int, int], ranks: int, ahead: int = 1, caching: bool = True,
) -> tuple[Any, Any]:  # fmt: skip
    """Times of first and last token (s), in the order given."""
    order = np.argsort(arrived, kind="stable")
    first, last = np.zeros(arrived.size), np.zeros(arrived.size)
    steps = run(
        p, arrived[order], inputs[order], outputs[order], replicas, together, ahead, max_running, budget_tokens, blocks,
        float(experts[0]), float(experts[1]), float(ranks), first, last, SKEW_LEVERS, PREPARE_S, caching,
    )  # fmt: skip
    if steps < 0:
        return np.full(arrived.size, np.nan), np.full(arrived.size, np.nan)
    out_first, out_last = np.empty_like(first), np.empty_like(last)
    out_first[order], out_last[order] = first, last
    return out_first, out_last
