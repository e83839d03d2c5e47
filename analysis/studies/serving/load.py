"""How do schedulers compare as the load grows, for short prompts, long prompts and chat?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from scipy.interpolate import RegularGridInterpolator

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.serving.limits import Limits
from analysis.serving.metrics import summary, use
from analysis.serving.requests import Floats, Requests
from analysis.serving.schedulers import names
from analysis.serving.simulate import Result, simulate
from analysis.serving.step_time.profile import prompt_shape, read_profile
from analysis.serving.steps import StepTime
from analysis.serving.traffic import Arrivals, Lengths, generate
from analysis.studies.serving.table7 import advantage

PROFILED = ("vllm_200_qps2", "vllm_200_qps8", "vllm_long_200_qps2", "sarathi_long_200_qps2")
"""Recorded runs whose batches make the profile; all others are left to test it."""

SCHEDULERS = {name: kind.title for name, kind in names.SCHEDULERS.items()}


@dataclass(frozen=True)
class Mix:
    """Traffic of one kind: lengths of prompts and outputs, and the limits of the replica that serves it."""

    name: str
    prompt: Lengths
    output: Lengths
    limits: Limits


MIXES = (
    Mix("short prompts", Lengths("uniform", 122, 487), Lengths("uniform", 7, 25), Limits()),
    Mix("long prompts", Lengths("uniform", 975, 3900), Lengths("uniform", 49, 195), Limits(kv_blocks=7424, max_request_tokens=4096)),
    Mix("chat", Lengths("uniform", 100, 500), Lengths("uniform", 100, 400), Limits(max_request_tokens=1024)),
)
"""The recorded runs' lengths (totals of 128-512 and of 1,024-4,096, prompt to output 20:1), and short prompts with long answers."""


@cache
def profile() -> StepTime:
    """Step time of Llama-2-7B on one A100 from the batches of `PROFILED`."""
    return read_profile(DATA / "recorded" / "vidur" / f"batches_{run}.csv.gz" for run in PROFILED)


def draw(mix: Mix, rate_per_s: float, count: int, seed: int) -> Requests:
    """Poisson requests of a mix; the same seed gives the same lengths, and the same gaps up to the rate."""
    return generate(Arrivals("poisson", rate_per_s), mix.prompt, mix.output, count, seed)


@dataclass(frozen=True)
class Point:
    """One simulation of a sweep."""

    mix: Mix
    scheduler: str
    rate_per_s: float
    count: int
    seed: int

    def run(self, steps: StepTime | None = None) -> Result:
        """Simulate it, by default with `profile()`."""
        requests = draw(self.mix, self.rate_per_s, self.count, self.seed)
        return simulate(requests, self.scheduler, steps or profile(), self.mix.limits)


def measure(point: Point) -> dict[str, float | str]:
    """A row of a sweep: what was simulated, its latencies (s), throughput and use."""
    result = point.run()
    used, latency = use(result), summary(result)
    return {
        "mix": point.mix.name,
        "scheduler": point.scheduler,
        "rate_per_s": point.rate_per_s,
        "seed": point.seed,
        "e2e_mean_s": latency["e2e_s_mean"],
        "ttft_p99_s": latency["ttft_s_p99"],
        "tpot_mean_s": latency["tpot_s_mean"],
        "tpot_p99_s": latency["tpot_s_p99"],
        "served_per_s": point.count / result.makespan_s,
        "output_tokens_per_s": used.output_tokens_per_s,
        "in_flight": used.requests_in_flight,
        "mean_batch": used.mean_batch,
        "busy_share": used.busy_share,
        "kv_peak_share": used.kv_peak_share,
        "preemptions": used.preemptions,
    }


def average(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of every column of a sweep."""
    return rows.drop(columns="seed").groupby(["mix", "scheduler", "rate_per_s"], as_index=False, sort=False).mean()


def gains(rows: pd.DataFrame, column: str, schedulers: Iterable[str], baseline: str = "vllm") -> pd.DataFrame:
    """How far below the baseline each scheduler's latency is, paired by seed, with 95 % intervals.

    Args:
        rows: of `measure`.
        column: a latency.
        schedulers: those compared.
        baseline: the scheduler they are compared with.
    """
    found = []
    for (mix, rate), part in rows.groupby(["mix", "rate_per_s"], sort=False):
        table = part.pivot(index="seed", columns="scheduler", values=column)
        for scheduler in schedulers:
            interval = advantage(table[baseline], table[scheduler])
            in_flight = float(part.loc[part["scheduler"] == baseline, "in_flight"].mean())
            percent = {name: 100 * value for name, value in (("lower", interval.value), ("low", interval.low), ("high", interval.high))}
            found.append({"mix": mix, "scheduler": scheduler, "rate_per_s": rate, "in_flight": in_flight, **percent})
    return pd.DataFrame(found)


def shared_time(result: Result) -> float:
    """Share of the busy time in which more than one request was in the system, where a scheduler has a choice.

    Args:
        result: a run of one replica with its batches.
    """
    assert result.batches is not None
    rows = result.batches.rows
    arrived = np.searchsorted(np.sort(result.requests.arrived_at_s), rows["start"], side="right")
    gone = np.searchsorted(np.sort(result.records["completed_at"]), rows["start"], side="right")
    return float(rows["duration"][arrived - gone > 1].sum() / rows["duration"].sum())


def predict(steps: StepTime, batches: pd.DataFrame) -> Floats:
    """Seconds of recorded batches by a step time: the event loop's formula, for many batches at once; shape (batches,).

    Args:
        steps: not recorded.
        batches: with `total_tokens` and the columns of `COLUMNS` that say what is in a batch.
    """
    if steps.recorded is not None:
        raise InputError("recorded steps predict nothing")
    total = batches["total_tokens"].to_numpy(dtype=np.int64)
    decodes, mean = (batches[name].to_numpy(dtype=np.float64) for name in ("n_decode", "decode_kv_mean"))
    table, last = steps.token_s, steps.token_s.size - 1
    seconds = steps.fixed_s + table[np.minimum(total, last)] + np.maximum(total - last, 0) * (table[-1] - table[-2])
    context, root = prompt_shape(batches)
    pairs = np.zeros(len(batches))
    for row, text in enumerate(batches["prefill_kv_chunk"]):
        if isinstance(text, str):
            pieces = np.array([piece.split(":") for piece in text.split(";")], dtype=np.float64)
            pairs[row] = (pieces[:, 1] * (pieces[:, 0] + 0.5 * (pieces[:, 1] + 1))).sum()
    seconds = seconds + steps.prompt_s * (total - decodes) + steps.pair_s * pairs + steps.request_s * decodes + steps.kv_s * decodes * mean
    if steps.kv_rounding:
        mean = np.ceil(mean / steps.kv_rounding) * steps.kv_rounding
    for grid, x, y, where in ((steps.prefill, context, root, root > 0), (steps.decode, decodes, mean, decodes > 0)):
        if grid is not None and where.any():
            values = RegularGridInterpolator((grid.x, grid.y), grid.seconds, bounds_error=False, fill_value=None)(
                np.column_stack([x, y])[where]
            )
            seconds[where] += np.maximum(0.0, values)
    return seconds
