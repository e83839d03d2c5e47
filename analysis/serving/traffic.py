"""What traffic do we offer? Arrival times and lengths drawn from named distributions.

Common random numbers: two traffics with the same seed and count have the same lengths, and the same arrivals up to the rate, so that
comparisons at different rates or under different schedulers are paired.
"""

from __future__ import annotations

import math
import random
from typing import Any, Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import ArgsKwargs

from analysis.configs import Count, Rate, configuration
from analysis.errors import InputError
from analysis.serving.requests import Floats, Ints, Requests, make_requests


def _refuse_unread(raw: Any, default: str, reads: dict[str, tuple[str, ...]]) -> Any:
    """Raise ValueError where a key is named that its kind of distribution does not read."""
    named = (raw.kwargs or {}) if isinstance(raw, ArgsKwargs) else raw
    if not isinstance(named, dict):
        return raw
    kind = raw.args[0] if isinstance(raw, ArgsKwargs) and raw.args else named.get("kind", default)
    known = {key for keys in reads.values() for key in keys}
    if kind in reads and (stray := [key for key in named if key in known and key not in reads[kind]]):
        raise ValueError(f"{kind} does not read {', '.join(stray)}; it reads {', '.join(reads[kind]) or 'nothing'}")
    return raw


@configuration
class Arrivals:
    """Arrival process.

    Attributes:
        kind: poisson (exponential gaps), gamma (gaps of coefficient of variation `cv`), uniform (equal gaps) or burst (all at time 0).
    """

    kind: Literal["poisson", "gamma", "uniform", "burst"] = "poisson"
    rate_per_s: Rate = 1.0
    cv: Rate = 1.0

    @model_validator(mode="before")
    @classmethod
    def _only_what_is_read(cls, raw: Any) -> Any:
        rate = ("rate_per_s",)  # of a burst too: sweeps over kinds set it for all
        return _refuse_unread(raw, "poisson", {"poisson": rate, "gamma": (*rate, "cv"), "uniform": rate, "burst": rate})


@configuration
class Lengths:
    """Distribution of a number of tokens.

    Attributes:
        kind: fixed (`low`), uniform (`low` to `high`, both possible), zipf (`low` to `high`, probability of the k-th value ~ 1/k^exponent)
            or empirical (drawn with replacement from `values`).
    """

    kind: Literal["fixed", "uniform", "zipf", "empirical"] = "fixed"
    low: Count = 128
    high: Count = 512
    exponent: float = 1.0
    values: tuple[Count, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _only_what_is_read(cls, raw: Any) -> Any:
        both = ("low", "high")
        return _refuse_unread(raw, "fixed", {"fixed": ("low",), "uniform": both, "zipf": (*both, "exponent"), "empirical": ("values",)})

    def __post_init__(self) -> None:
        if self.kind == "empirical" and not self.values:
            raise ValueError("empirical lengths need `values`")
        if self.kind in ("uniform", "zipf") and self.high < self.low:
            raise ValueError(f"expected low <= high, got {self.low} and {self.high}")


def draw_arrivals(arrivals: Arrivals, count: int, generator: np.random.Generator) -> Floats:
    """Arrival times in seconds, ascending, shape (count,)."""
    if arrivals.kind == "burst":
        return np.zeros(count)
    if arrivals.kind == "uniform":
        gaps = np.ones(count)
    elif arrivals.kind == "poisson":
        gaps = generator.exponential(size=count)
    else:
        shape = 1.0 / arrivals.cv**2
        gaps = generator.gamma(shape, size=count) / shape
    return np.cumsum(gaps) / arrivals.rate_per_s


def draw_lengths(lengths: Lengths, count: int, generator: np.random.Generator) -> Ints:
    """Token counts, shape (count,)."""
    if lengths.kind == "fixed":
        return np.full(count, lengths.low, dtype=np.int64)
    if lengths.kind == "uniform":
        return generator.integers(lengths.low, lengths.high + 1, count)
    if lengths.kind == "empirical":
        return generator.choice(np.array(lengths.values, dtype=np.int64), count)
    weights = np.arange(1, lengths.high - lengths.low + 2, dtype=np.float64) ** -lengths.exponent
    cumulative = np.cumsum(weights) / weights.sum()
    return lengths.low + np.minimum(np.searchsorted(cumulative, generator.random(count), side="right"), len(weights) - 1)


def generate(arrivals: Arrivals, prompt: Lengths, output: Lengths, count: int, seed: int = 0) -> Requests:
    """Draw requests; arrivals, prompts and outputs have random streams of their own."""
    if count < 0:
        raise InputError(f"expected a number of requests, not negative, got {count}", key="count")
    when, first, second = (np.random.default_rng([seed, stream]) for stream in range(3))
    return make_requests(draw_arrivals(arrivals, count, when), draw_lengths(prompt, count, first), draw_lengths(output, count, second))


def split_by_ratio(total_tokens: Floats, prefill_to_decode: float) -> tuple[Ints, Ints]:
    """Split total tokens t into prompt and output: output = ceil(t / (1 + ratio)), prompt = floor(t - output), as VIDUR does."""
    output = np.ceil(total_tokens / (1.0 + prefill_to_decode)).astype(np.int64)
    return np.floor(total_tokens - output).astype(np.int64), output


class VidurDraw:
    """VIDUR 7d47513's random streams: Python's and numpy's, both seeded with the generator's seed."""

    def __init__(self, seed: int) -> None:
        self.python, self.numpy = random.Random(seed), np.random.RandomState(seed)

    def gap_s(self, kind: str, rate_per_s: float, cv: float = 1.0) -> float:
        """Next gap between arrivals: poisson (capped at three times its mean), gamma or static (none)."""
        if kind == "poisson":
            return min(-math.log(1.0 - self.python.random()) / rate_per_s, 3.0 * (1.0 / rate_per_s))
        return 0.0 if kind == "static" else float(self.numpy.standard_gamma(1.0 / cv**2) * (1.0 / (rate_per_s * (1.0 / cv**2))))

    def uniform(self, low: int, high: int) -> float:
        """Total tokens, uniform between two numbers."""
        return self.python.uniform(low, high)


def vidur_zipf(count: int, low: int, high: int, theta: float, seed: int) -> Floats:
    """VIDUR's Zipf draws of total tokens between `low` and `high`, shape (count,).

    Source: its zipf_generator.py, after Gray et al., Quickly generating billion-record synthetic databases, SIGMOD 1994.
    """
    items = high - low + 1
    powers = 1.0 / np.arange(1, max(items, 2)) ** theta
    zeta_2, zeta = float(powers[:1].sum()), float(powers[: items - 1].sum())
    alpha, eta = 1.0 / (1.0 - theta), (1 - (2.0 / items) ** (1 - theta)) / (1 - zeta_2 / (zeta + 1e-8))
    u = np.random.RandomState(seed).random_sample(count)
    far = low + (items * (eta * u - eta + 1) ** alpha).astype(np.int64)
    return np.where(u * zeta < 1.0, low, np.where(u * zeta < 1.0 + 0.5**theta, low + 1, far)).astype(np.float64)
