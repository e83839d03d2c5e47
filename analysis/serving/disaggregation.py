"""What changes when prompts and decoding run on different replicas?

Prefill replicas compute prompts and the first token, and nothing else; the prompt's keys and values then travel to a decode replica,
where the request arrives

    latency + prompt tokens x seconds a token

later and goes on. Each transfer has its way to itself, and a prompt's blocks are free again as soon as it is done. A decode replica that
runs out of blocks preempts by the scheduler's own rule; with recomputation it prefills what it dropped by itself.

Source: the division of work of DistServe (Zhong et al., OSDI 2024) and Splitwise (Patel et al., ISCA 2024).
"""

from __future__ import annotations

import dataclasses

import numpy as np

from analysis.configs import Seconds, configuration
from analysis.serving.limits import Limits
from analysis.serving.requests import Requests
from analysis.serving.simulate import Batches, Result, by_start, simulate
from analysis.serving.steps import StepTime


@configuration
class Transfer:
    """How a prompt's cache gets to the decode replica.

    Attributes:
        latency_s: seconds of every transfer.
        token_s: seconds a prompt token: KV bytes of a token over the link's bandwidth.
    """

    latency_s: Seconds = 0.0
    token_s: Seconds = 0.0


def simulate_disaggregated(
    requests: Requests,
    scheduler: str,
    steps: StepTime,
    limits: Limits | None = None,
    prefill_replicas: int = 1,
    decode_replicas: int = 1,
    transfer: Transfer | None = None,
    routing: str = "least_work",
    seed: int = 0,
    record_batches: bool = False,
) -> Result:
    """Run requests on a pool of prefill replicas and a pool of decode replicas.

    In the result replicas 0 to prefill_replicas - 1 prefill and the rest decode; a request's replica is the one that ended it.

    Args:
        requests, scheduler, steps, limits, routing, seed, record_batches: as for `simulate`; routing is done in each pool.
        prefill_replicas, decode_replicas: how many of each.
        transfer: of a prompt's cache; by default it takes no time.
    """
    transfer, limits = transfer or Transfer(), limits or Limits()
    prompts = dataclasses.replace(requests, decode_tokens=np.minimum(requests.decode_tokens, 1))
    first = simulate(prompts, scheduler, steps, limits, prefill_replicas, routing, seed, record_batches)
    goes_on = np.flatnonzero(requests.decode_tokens > 1)
    moved_at = first.records["completed_at"] + transfer.latency_s + transfer.token_s * requests.prefill_tokens
    moved = dataclasses.replace(requests, arrived_at_s=moved_at).at(goes_on)
    second = simulate(moved, scheduler, steps, limits, decode_replicas, routing, seed, record_batches, prefilled=True)
    records = first.records.copy()
    for name in ("completed_at", "generated", "processed", "total", "prefill"):
        records[name][goes_on] = second.records[name]
    for name in ("computed", "restarts", "cached"):
        records[name][goes_on] += second.records[name]
    records["replica"][goes_on] = second.records["replica"] + prefill_replicas
    replicas = np.concatenate([first.replicas, second.replicas])
    batches = join(first.batches, second.batches, goes_on, prefill_replicas)
    return Result(requests, records, replicas, limits, scheduler, batches)


def join(first: Batches | None, second: Batches | None, positions: np.ndarray, offset: int) -> Batches | None:
    """Batches of both pools in one list by start time.

    Args:
        first, second: of the prefill and the decode pool.
        positions: in the whole list, of the decode pool's requests.
        offset: number of the first decode replica.
    """
    if first is None or second is None:
        return None
    later = second.rows.copy()
    later["replica"] += offset
    rows = np.concatenate([first.rows, later])
    rows["first"] = np.concatenate([first.offsets[:-1], second.offsets[:-1] + len(first.members)])
    members = np.concatenate([first.members, positions[second.members]])
    return by_start(rows, members, np.concatenate([first.tokens, second.tokens]))
