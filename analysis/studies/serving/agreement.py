"""How far is a run of ours from the recorded run of the same requests?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.paths import DATA
from analysis.serving.limits import Limits
from analysis.serving.requests import Requests, make_requests, read_requests
from analysis.serving.schedulers.names import SCHEDULERS
from analysis.serving.simulate import Result
from analysis.serving.tables import batches_table, requests_table
from analysis.serving.traffic import VidurDraw, split_by_ratio
from analysis.tables import read_csv

RECORDED = DATA / "recorded" / "vidur"


@dataclass(frozen=True)
class Recorded:
    """A recorded run.

    Attributes:
        name: such as `vllm_long_200_qps2`.
        scheduler: its scheduler.
        limits: its limits.
        requests: its requests.
        latencies: recorded table of requests.
        batches: recorded table of batches.
    """

    name: str
    scheduler: str
    limits: Limits
    requests: Requests
    latencies: pd.DataFrame
    batches: pd.DataFrame


def recorded_names() -> list[str]:
    """Names of the recorded runs that have their batches."""
    return sorted(path.name.removeprefix("batches_").removesuffix(".csv.gz") for path in RECORDED.glob("batches_*.csv.gz"))


def recorded_run(name: str) -> Recorded:
    """Read a recorded run; README.md beside the records gives the limits: 7,424 blocks and 4,096 tokens for long prompts."""
    path = RECORDED / f"requests_{name}.csv"
    return Recorded(
        name=name,
        scheduler=max((scheduler for scheduler in SCHEDULERS if scheduler in name), key=len),
        limits=Limits(kv_blocks=7424, max_request_tokens=4096) if "long" in name else Limits(),
        requests=read_requests(path),
        latencies=read_csv(path),
        batches=read_csv(RECORDED / f"batches_{name}.csv.gz", dtype={"request_ids": str, "num_tokens": str}),
    )


@dataclass(frozen=True)
class Agreement:
    """What differs.

    Attributes:
        batches: recorded batches.
        equal: of these, how many have the same members with the same tokens, at the same place in the order.
        start_s, ttft_s, e2e_s: largest absolute differences of a batch's start, of a request's TTFT and of its E2E, in seconds.
        kv_points: largest difference of the KV use, in percentage points.
    """

    batches: int
    equal: int
    start_s: float
    ttft_s: float
    e2e_s: float
    kv_points: float


def compare(result: Result, recorded: Recorded) -> Agreement:
    """Compare a run with its batches to the recorded one.

    Args:
        result: made of the recorded requests.
    """
    ours, theirs, table = batches_table(result), recorded.batches, requests_table(result)
    count = min(len(ours), len(theirs))
    same = np.ones(count, dtype=bool)
    for column in ("request_ids", "num_tokens"):
        same &= ours[column].to_numpy()[:count] == theirs[column].to_numpy()[:count]

    def largest(left: pd.Series, right: pd.Series) -> float:
        return float(np.abs(left.to_numpy()[:count] - right.to_numpy()[:count]).max())

    return Agreement(
        batches=len(theirs),
        equal=int(same.sum()),
        start_s=largest(ours["t_sched"], theirs["t_sched"]),
        ttft_s=largest(table["ttft"], recorded.latencies["ttft"]),
        e2e_s=largest(table["e2e"], recorded.latencies["e2e"]),
        kv_points=largest(ours["kv_mem_pct"], theirs["kv_mem_pct"]),
    )


def vidur_requests(count: int, rate_per_s: float, seed: int, low: int = 128, high: int = 512, prefill_to_decode: float = 20.0) -> Requests:
    """The very requests that VIDUR 7d47513 draws: Poisson arrivals, total lengths uniform between `low` and `high`.

    Each request takes two numbers from one Mersenne Twister: the gap, exponential and capped at three times its mean, then the length.

    Source: arrivals and lengths recorded in data/recorded/vidur; VIDUR's defaults for ratio and cap.
    """
    draw = VidurDraw(seed)
    both = [(draw.gap_s("poisson", rate_per_s), draw.uniform(low, high)) for _ in range(count)]
    gaps, total = np.array(both).reshape(-1, 2).T
    prompt, output = split_by_ratio(total, prefill_to_decode)
    return make_requests(np.cumsum(gaps), prompt, output)
