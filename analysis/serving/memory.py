"""How many KV blocks does a request need, and who has to give way when there are none?

Paged KV cache: a block holds the keys and values of `block_size` tokens. Always true, for each replica:
`free + blocks of requests + blocks of resident prefixes = all blocks`.

Prefix caching: requests that begin with the same prefix share its full blocks. The first one to finish its prompt leaves them in the
cache; they go, least recently used first, when nobody uses them and blocks are short. A prefix may continue another (block hashes of a
trace: a tree): who keeps a part keeps all above it, and of parts left together the deepest goes first, as vLLM frees a request's blocks
from the last. Answers are not found again: a trace does not say their hashes.

Block reuse: a freed block keeps its tokens until it is taken; a request's last blocks are freed first, and those free longest are taken
first. A preempted request begins after those of its full blocks that nobody has taken. Source: vLLM's `KVCacheManager` (`free`,
`get_computed_blocks`).
"""

from __future__ import annotations

from analysis.compiled import inner
from analysis.serving.state import NONE, Replica, next_tokens, put_first, take_first


@inner(error_model="numpy", _nrt=False)
def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold so many tokens: ceil(tokens / block_size)."""
    return (tokens + block_size - 1) // block_size


@inner(error_model="numpy", _nrt=False)
def available(replica: Replica) -> int:
    """Blocks that are free or can be made so without touching a request."""
    return replica.state.free + replica.state.evictable


@inner(error_model="numpy", _nrt=False)
def sharable(replica: Replica, i: int) -> int:
    """Blocks of the request's prompt that lie in the prefix cache; its last token is always computed.

    A prefix, or part of one, as it lies there is shared but for at most one block, or not at all: whoever uses it keeps it whole.
    """
    node = resident(replica, i)
    if node == NONE:
        return 0
    prefix, request = replica.prefixes[node], replica.requests[i]
    return min(min(request.prefix_tokens, request.prefill - 1) // replica.limits.block_size, prefix.before + prefix.blocks)


@inner(error_model="numpy", _nrt=False)
def resident(replica: Replica, i: int) -> int:
    """The deepest part of the request's prefix that lies in the cache and that it can share; NONE if there is none."""
    request = replica.requests[i]
    if request.prefix == NONE or replica.limits.prefix_caching == 0:
        return NONE
    wanted = min(request.prefix_tokens, request.prefill - 1) // replica.limits.block_size
    node = request.prefix
    while node != NONE:
        prefix = replica.prefixes[node]
        if prefix.blocks > 0 and wanted >= prefix.before + prefix.blocks - 1:
            return node if wanted > 0 else NONE
        node = prefix.above - 1
    return NONE


@inner(error_model="numpy", _nrt=False)
def keep(replica: Replica, node: int) -> None:
    """One more request uses a part of a prefix, and all above it; parts in use leave the LRU list."""
    state = replica.state
    while node != NONE:
        prefix = replica.prefixes[node]
        if prefix.users == 0:
            state.evictable -= prefix.blocks
            unlink(replica, node)
        prefix.users += 1
        node = prefix.above - 1


@inner(error_model="numpy", _nrt=False)
def leave(replica: Replica, node: int) -> None:
    """One request fewer uses a part of a prefix, and all above it; a part without users joins the end of the LRU list."""
    state = replica.state
    while node != NONE:
        prefix = replica.prefixes[node]
        prefix.users -= 1
        if prefix.users == 0:
            state.evictable += prefix.blocks
            prefix.older, prefix.newer = state.lru_last, 0
            if state.lru_last > 0:
                replica.prefixes[state.lru_last - 1].newer = node + 1
            else:
                state.lru_first = node + 1
            state.lru_last = node + 1
        node = prefix.above - 1


@inner(error_model="numpy", _nrt=False)
def unlink(replica: Replica, node: int) -> None:
    """Take a part of a prefix out of the LRU list of parts without users."""
    state, prefix = replica.state, replica.prefixes[node]
    if prefix.older > 0:
        replica.prefixes[prefix.older - 1].newer = prefix.newer
    else:
        state.lru_first = prefix.newer
    if prefix.newer > 0:
        replica.prefixes[prefix.newer - 1].older = prefix.older
    else:
        state.lru_last = prefix.older
    prefix.older, prefix.newer = 0, 0


@inner(error_model="numpy", _nrt=False)
def fits(replica: Replica, i: int, blocks: int, spare: int) -> bool:
    """Can a new request take `blocks` blocks, those it shares included, and leave `spare` of them free?"""
    room, node = available(replica), resident(replica, i)
    while node != NONE:
        prefix = replica.prefixes[node]
        if prefix.users > 0:  # and so all above it
            break
        room -= prefix.blocks
        node = prefix.above - 1
    return room - (blocks - sharable(replica, i)) >= spare


@inner(error_model="numpy", _nrt=False)
def take(replica: Replica, i: int, blocks: int) -> None:
    """Give the request more blocks; unused prefixes leave the cache if they must. There must be enough `available`."""
    state = replica.state
    while state.free < blocks:
        oldest = state.lru_first - 1
        unlink(replica, oldest)
        gone = replica.prefixes[oldest]
        state.free += gone.blocks
        state.evictable -= gone.blocks
        gone.blocks = 0
    state.free -= blocks
    replica.requests[i].blocks += blocks
    if replica.limits.reuse != 0:
        overwrite(replica, blocks)


@inner(error_model="numpy", _nrt=False)
def reusable(replica: Replica, i: int) -> int:
    """Full blocks of a preempted request that nobody has taken; its last token is always computed."""
    request = replica.requests[i]
    return min(request.freed, request.full, (request.prefill - 1) // replica.limits.block_size)


@inner(error_model="numpy", _nrt=False)
def remember(replica: Replica, i: int) -> None:
    """Append the request's freed blocks to the LRU free list."""
    state, requests = replica.state, replica.requests
    if requests[i].blocks > 0:
        requests[i].newer = NONE
        if state.oldest == NONE:
            state.oldest = i
        else:
            requests[state.newest].newer = i
        state.newest = i
        requests[i].freed = requests[i].blocks


@inner(error_model="numpy", _nrt=False)
def overwrite(replica: Replica, blocks: int) -> None:
    """Take free blocks: those without cached tokens first, then from the LRU end of the free list."""
    state = replica.state
    used = min(blocks, state.fresh)
    state.fresh -= used
    left = blocks - used
    while left > 0:
        owner = replica.requests[state.oldest]
        used = min(left, owner.freed)
        owner.freed -= used
        left -= used
        if owner.freed == 0:
            state.oldest = owner.newer


@inner(error_model="numpy", _nrt=False)
def reclaim(replica: Replica, i: int) -> None:
    """Take the request's blocks out of the LRU free list; they count as free blocks without cached tokens."""
    state, requests = replica.state, replica.requests
    if requests[i].freed == 0:
        return
    before, at = NONE, state.oldest
    while at != i:
        before, at = at, requests[at].newer
    if before == NONE:
        state.oldest = requests[i].newer
    else:
        requests[before].newer = requests[i].newer
    if state.newest == i:
        state.newest = before
    state.fresh += requests[i].freed
    requests[i].freed = 0


@inner(error_model="numpy", _nrt=False)
def admit(replica: Replica, i: int, blocks: int) -> None:
    """Admit a waiting request with `blocks` blocks, of which it shares what lies in the prefix cache."""
    state, request = replica.state, replica.requests[i]
    shared = sharable(replica, i)
    if shared > 0:
        request.node = resident(replica, i)
        keep(replica, request.node)
        request.shared = shared
        request.processed = shared * replica.limits.block_size
        request.cached += request.processed
        state.work -= request.processed
    if replica.limits.reuse != 0:
        request.processed = reusable(replica, i) * replica.limits.block_size
        request.cached += request.processed
        state.work -= request.processed
        reclaim(replica, i)
    take(replica, i, blocks - shared)
    request.order = state.admissions
    state.admissions += 1
    state.admitted += 1


@inner(error_model="numpy", _nrt=False)
def admit_whole(replica: Replica, size: int) -> int:
    """Admit waiting requests to a batch of `size`, prompts whole, each with the longest request's reservation, as limits and blocks allow.

    Returns:
        how many requests are in the batch then.
    """
    state, limits = replica.state, replica.limits
    while state.first != NONE and size < limits.max_batch and state.free >= limits.reserve:
        i = take_first(replica)
        admit(replica, i, limits.reserve)
        replica.batch[size], replica.tokens[size] = i, next_tokens(replica.requests[i])
        size += 1
    return size


@inner(error_model="numpy", _nrt=False)
def release(replica: Replica, i: int) -> None:
    """Give back all blocks of a request."""
    state, request = replica.state, replica.requests[i]
    state.free += request.blocks
    if replica.limits.reuse != 0:
        remember(replica, i)
    request.blocks = 0
    if request.shared > 0:
        leave(replica, request.node)
        request.shared = 0
    state.admitted -= 1


@inner(error_model="numpy", _nrt=False)
def leave_prefix(replica: Replica, i: int) -> None:
    """The prompt is done: its prefix stays in the cache for others, where nobody else has left more of it than the request found."""
    request = replica.requests[i]
    if request.prefix == NONE or replica.limits.prefix_caching == 0:
        return
    held = request.node if request.shared > 0 else NONE
    node, blocks = request.prefix, 0
    while node != NONE and replica.prefixes[node].blocks == 0:
        prefix = replica.prefixes[node]
        blocks += prefix.size if prefix.size > 0 else request.prefix_tokens // replica.limits.block_size
        node = prefix.above - 1
    whole = replica.prefixes[request.prefix].size > 0
    if node != held or blocks == 0 or request.blocks == 0 or (whole and blocks > request.blocks):
        return
    blocks = min(blocks, request.blocks)
    node = request.prefix
    while node != held:
        prefix = replica.prefixes[node]
        prefix.blocks, prefix.users = (prefix.size if whole else blocks), 1
        node = prefix.above - 1
    request.blocks -= blocks
    request.shared += blocks
    request.node = request.prefix


@inner(error_model="numpy", _nrt=False)
def preempt(replica: Replica, i: int) -> None:
    """Take the blocks of a running request away; it goes to the front of the waiting list.

    By recomputation what it had generated is prefilled again together with its prompt; by swapping its blocks wait in host memory.
    """
    state, request = replica.state, replica.requests[i]
    if replica.limits.swap != 0:
        request.swapped = request.blocks + request.shared
        state.moved += request.swapped
    else:
        state.work += request.processed
        request.full = (request.processed - int(request.processed > request.prefill)) // replica.limits.block_size
        request.prefill = max(request.prefill, request.processed)
        request.processed = 0
    release(replica, i)
    request.restarts += 1
    state.preempted += 1
    put_first(replica, i)


@inner(error_model="numpy", _nrt=False)
def resume_swapped(replica: Replica) -> None:
    """Bring requests whose blocks are elsewhere, at the front of the waiting list, into the cache while they fit.

    Their blocks wait in host memory after a preemption, or come from a replica that computed the prompt; the second way is paid for before
    the request arrives.
    """
    state, limits = replica.state, replica.limits
    while state.first != NONE and replica.requests[state.first].swapped > 0 and state.admitted < limits.max_batch:
        request = replica.requests[state.first]
        if available(replica) - request.swapped < max(limits.watermark, 1):
            return
        i = take_first(replica)
        take(replica, i, request.swapped)
        if request.restarts > 0:
            state.moved += request.swapped
        request.swapped = 0
        request.order = state.admissions
        state.admissions += 1
        state.admitted += 1
        replica.running[state.running] = i
        state.running += 1


@inner(error_model="numpy", _nrt=False)
def make_room(replica: Replica, i: int, blocks: int, first: int, last: int) -> tuple[bool, int]:
    """Preempt running requests, the last first, until the request can have `blocks` more blocks.

    The candidates are positions first to last - 1 of the running list; when they are used up the request itself is preempted.

    Returns: (whether the request still runs, the new `last`).
    """
    while available(replica) < blocks:
        if last > first:
            last -= 1
            preempt(replica, replica.running[last])
        else:
            preempt(replica, i)
            return False, last
    return True, last


@inner(error_model="numpy", _nrt=False)
def grow(replica: Replica, i: int) -> None:
    """Give a decoding request a block for its newest token if it needs one."""
    request = replica.requests[i]
    if request.processed > (request.blocks + request.shared) * replica.limits.block_size:
        take(replica, i, 1)
