"""What is the largest rate of requests that still meets a bound on latency?

Bisection with common random numbers: the same requests with the same lengths arrive at every rate, only faster or slower, so that the
answer changes with the rate and not with the draw. A statistic need not grow with the rate everywhere; what is found is a rate that meets
the bounds beside one that does not.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from analysis.errors import InputError
from analysis.serving.metrics import LATENCIES, latency_s
from analysis.serving.requests import Requests
from analysis.serving.simulate import Result
from analysis.tables import as_number

STATISTIC = re.compile(r"(?P<latency>ttft|tpot|tpot_vidur|e2e|queueing)_(?P<statistic>mean|max|p(?P<percent>\d{1,2}(\.\d+)?))\Z")


@dataclass(frozen=True)
class Bound:
    """A bound on a statistic of a latency: `ttft_p99=0.5` is name ttft_p99, 0.5 s."""

    name: str
    most_s: float

    def __post_init__(self) -> None:
        if STATISTIC.match(self.name) is None:
            names = ", ".join(name.removesuffix("_s") for name in LATENCIES)
            raise InputError(f"expected one of {names}, then _mean, _max or _p and a percentile, got {self.name!r}", key="--slo")
        if not (self.most_s > 0 and math.isfinite(self.most_s)):
            raise InputError(f"expected seconds above 0, got {self.most_s}", key=self.name)

    def value(self, result: Result) -> float:
        """The statistic in a run, seconds; NaN without requests."""
        match = STATISTIC.match(self.name)
        assert match is not None
        values = latency_s(result, match["latency"] + "_s")
        if not values.size:
            return float("nan")
        if match["statistic"] in ("mean", "max"):
            return float(getattr(values, match["statistic"])())
        return float(np.percentile(values, float(match["percent"])))

    def allows(self, value_s: float) -> bool:
        """Whether such a statistic meets the bound; one without values (NaN: no request has it) does."""
        return not value_s > self.most_s


def read_bound(text: str) -> Bound:
    """A bound from `NAME=SECONDS`, such as `ttft_p99=0.5`."""
    name, equals, seconds = text.partition("=")
    most = as_number(seconds)
    if not equals or math.isnan(most):
        raise InputError(f"expected NAME=SECONDS, such as ttft_p99=0.5, got {text!r}", key="--slo")
    return Bound(name.strip(), most)


def at_rate(requests: Requests, rate_per_s: float) -> Requests:
    """The same requests at another rate: arrival times stretched so that n requests take n / rate seconds."""
    last = float(requests.arrived_at_s.max()) if len(requests) else 0.0
    if last <= 0:
        raise InputError("a search over rates needs requests that do not all arrive at time 0", key="requests")
    return dataclasses.replace(requests, arrived_at_s=requests.arrived_at_s * (len(requests) / (rate_per_s * last)))


@dataclass(frozen=True)
class Try:
    """One rate tried: whether all bounds were met, the statistics (seconds), requests in flight as `in_flight` counts them."""

    rate_per_s: float
    met: bool
    values_s: Mapping[str, float]
    in_flight: tuple[float, float] = (0.0, 0.0)


LOWEST_PER_S, HIGHEST_PER_S = 1e-3, 1e5
"""Rates beyond which the search gives up."""
GROWTH = 1.25
"""From the third to the last quarter of the arrivals: requests in flight that grow by more are no steady queue's."""


def in_flight(result: Result) -> tuple[float, float]:
    """Mean requests in flight that the arrivals of the third and of the last quarter find."""
    arrived = np.sort(result.requests.arrived_at_s)
    done = np.sort(result.records["completed_at"][result.complete])
    found = np.arange(1, len(arrived) + 1) - np.searchsorted(done, arrived, side="right")
    third, last = (found[int(a * len(found)) : int(b * len(found))] for a, b in ((0.5, 0.75), (0.75, 1.0)))
    return (float(third.mean()), float(last.mean())) if third.size and last.size else (0.0, 0.0)


@dataclass(frozen=True)
class Capacity:
    """The answer.

    Attributes:
        rate_per_s: largest rate tried that meets the bounds; 0 if none does.
        above_per_s: smallest rate tried above it that does not; infinite if none failed.
        bound_by: bounds not met at `above_per_s`.
    """

    rate_per_s: float
    above_per_s: float
    tries: tuple[Try, ...]
    bound_by: tuple[str, ...]

    @property
    def status(self) -> str:
        """Why the rate is not to be trusted, with numbers; empty where it is."""
        if self.rate_per_s == 0:
            return f"no rate down to {min(each.rate_per_s for each in self.tries):g} a second meets the bounds"
        if math.isinf(self.above_per_s):
            return (
                f"nothing binds up to {self.rate_per_s:g} a second: the requests are too few or the bounds too loose to show a largest rate"
            )
        before, last = next(each.in_flight for each in self.tries if each.rate_per_s == self.rate_per_s)
        if last > GROWTH * before + 1:
            grown = f"from {before:.1f} to {last:.1f} in the last two quarters of the arrivals"
            return f"requests in flight still grow at the end ({grown}): too few requests for a steady queue, whose rate is lower"
        return ""


def capacity(serve: Callable[[float], Result], bounds: list[Bound], relative_tolerance: float = 0.01) -> Capacity:
    """Largest rate at which all bounds are met: doubled (or halved) until one side of the answer is known, then bisected.

    Args:
        serve: runs the same requests at a rate.
        bounds: all must be met.
        relative_tolerance: stop when the rates on both sides differ by less than this share.
    """
    tries: list[Try] = []

    def good(rate_per_s: float) -> bool:
        result = serve(rate_per_s)
        values = {bound.name: bound.value(result) for bound in bounds}
        tries.append(Try(rate_per_s, all(bound.allows(values[bound.name]) for bound in bounds), values, in_flight(result)))
        return tries[-1].met

    low, high = 0.0, math.inf
    rate = 1.0
    while LOWEST_PER_S <= rate <= HIGHEST_PER_S:
        if good(rate):
            low, rate = rate, 2.0 * rate
        else:
            high, rate = rate, 0.5 * rate
        if low > 0 and math.isfinite(high):
            break
    while low > 0 and math.isfinite(high) and high - low > relative_tolerance * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if good(middle) else (low, middle)
    failed = [t for t in tries if t.rate_per_s == high]
    bound_by = tuple(b.name for b in bounds if failed and failed[0].values_s[b.name] > b.most_s)
    return Capacity(low, high, tuple(tries), bound_by)
