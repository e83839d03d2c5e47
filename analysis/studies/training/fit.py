"""Which shares make the model agree with measured runs? A robust fit with priors, every source of equal weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml
from numpy.typing import NDArray

from analysis.configs import Strict
from analysis.kernels.library import Hide
from analysis.studies.intervals import next_group
from analysis.studies.training.sources import PLAN_ASSUMED, Runs
from analysis.tables import write_atomic
from analysis.training.interval import group
from analysis.training.shares import FittedShare, Share
from analysis.training.step import NAMES, PRIOR, SHARES, Plans, step
from analysis.training.work import Parts, parts

Floats = NDArray[np.float64]

OF_MIXTURES = ("grouped", "routing", "expert_host", "graphed", "grace", "expert", "expert_overlap")
"""Shares of which no dense model's step is made."""
SPREAD = np.array([share.spread for share in SHARES.values()])
LEVEL = 0.9
"""Share of the runs that an interval states to cover (1)."""
NOISE = 0.08
"""Scale of the error of a run (1): beyond it the loss grows linearly, so that no odd run pulls the fit."""
EACH, WEIGHT = 0.5, 6.0
"""What a run counts for, and at most its source: runs of a source are no independent draws (at twice as much, other halves of the rows that
the fit had seen half of were 8.2 % off in place of 7.9)."""


def soft(z: Floats) -> Floats:
    """Residual whose square is the soft-L1 loss of z: beyond 1 it grows like a root, so that no odd run pulls a fit."""
    return np.asarray(np.sign(z) * np.sqrt(2 * (np.sqrt(1 + z**2) - 1)))


def as_fitted(shares: Mapping[str, Share], values: Floats, after: Floats | None = None) -> dict[str, FittedShare]:
    """Shares with their fitted values, in one order; after: the spread of each that is left."""
    left = {} if after is None else dict(zip(shares, after, strict=True))
    return {name: FittedShare(value=v, **vars(shares[name]), after=left.get(name)) for name, v in zip(shares, values, strict=True)}


def write(path: Path, content: Strict, writer: str) -> None:
    """Write fitted shares, to six digits."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: short(each) for name, each in value.items() if each is not None}
        return [short(each) for each in value] if isinstance(value, list) else float(f"{value:.6g}") if isinstance(value, float) else value

    text = yaml.safe_dump(short(content.model_dump(mode="json", exclude_defaults=True)), sort_keys=False, width=150)
    write_atomic(path, f"# Written by {writer}.\n{text}".encode())


@dataclass(frozen=True)
class Prepared:
    """A source with its parts worked out."""

    runs: Runs
    parts: Parts
    plans: Plans

    @classmethod
    def of(cls, runs: Runs, hide: Hide = "none") -> Prepared:
        """Work out the parts of a source."""
        return cls(runs, parts(runs.cases, hide), Plans.of(runs.cases))

    def log_error(self, shares: Floats) -> Floats:
        """log(predicted / measured) of each run."""
        return np.asarray(np.log(step(self.parts, self.plans, shares)["total"] / self.runs.step_s))

    def take(self, index: NDArray[np.bool_]) -> Prepared:
        """A part of the runs."""
        chosen = np.flatnonzero(index)
        columns = {name: getattr(self.runs, name)[chosen] for name in ("step_s", "repeats", "spread")}
        runs = replace(self.runs, cases=[self.runs.cases[i] for i in chosen], **columns)
        return Prepared(
            runs,
            Parts(**{name: value[chosen] for name, value in vars(self.parts).items()}),
            Plans(**{name: value[chosen] for name, value in vars(self.plans).items()}),
        )


class Learned(NamedTuple):
    """Shares as a fit found them, and what is left of the spread of each: all of it where no run told of the share."""

    shares: Floats
    spread: Floats


MOST = 120
"""Runs of a source that a fit looks at; of more, every second, third, ... run says the same, for a source has one weight."""


def thinned(item: Prepared) -> Prepared:
    """A source with at most some `MOST` of its runs."""
    step_by = len(item.runs.cases) // MOST
    return item if step_by < 2 else item.take(np.arange(len(item.runs.cases)) % step_by == 0)


def fit(sources: Sequence[Prepared]) -> Learned:
    """Shares that fit the sources best: sum over sources of WEIGHT x mean soft-L1 error / NOISE, and the squared distance from the priors.

    Dense models teach first, all shares; mixtures of experts and hybrids, which are noisier and lie in one source, then teach the shares
    that only they have, and move nothing that a dense model's step is made of.

    Args:
        sources: what may be seen, of which those whose plans are assumed teach nothing; none: the priors.
    """
    sources = [item for item in sources if item.runs.source not in PLAN_ASSUMED]
    logs, spread = np.zeros(len(PRIOR)), SPREAD.copy()
    for mixtures, free in ((False, np.ones(len(PRIOR), dtype=bool)), (True, np.isin(NAMES, OF_MIXTURES))):
        chosen = [(item, np.array([(group(case) == "mixture") == mixtures for case in item.runs.cases])) for item in sources]
        items = [thinned(item.take(of_kind)) for item, of_kind in chosen if of_kind.any()]
        if items:
            logs[free], spread[free] = _least(items, logs, free)
    return Learned(np.asarray(PRIOR * np.exp(logs)), spread)


def _least(items: Sequence[Prepared], logs: Floats, free: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """log(share / prior) of the shares that are free and what is left of their spreads (Laplace), the others as in `logs`."""
    scales = np.concatenate([np.full(len(item.runs.cases), np.sqrt(min(EACH, WEIGHT / len(item.runs.cases)))) for item in items])
    measured = np.concatenate([item.runs.step_s for item in items])
    parts = Parts(**{name: np.concatenate([getattr(item.parts, name) for item in items]) for name in vars(items[0].parts)})
    plans = Plans(**{name: np.concatenate([getattr(item.plans, name) for item in items]) for name in vars(items[0].plans)})

    def residuals(moved: Floats) -> Floats:
        shares = logs.copy()
        shares[free] = moved
        error = np.log(step(parts, plans, PRIOR * np.exp(shares))["total"] / measured)
        return np.concatenate([scales * soft(error / NOISE), moved / SPREAD[free]])

    from scipy.optimize import least_squares  # a wheel scores predictions without it

    found = least_squares(residuals, np.zeros(int(free.sum())), method="trf", max_nfev=100)
    return np.asarray(found.x), np.sqrt(np.diag(np.linalg.inv(found.jac.T @ found.jac)))


def stretch(scores: Sequence[Floats], groups: int, level: float = LEVEL) -> tuple[float, float]:
    """Ends between which log(measured / predicted) / doubt of a run of the next source lies: random effects, a draw a source.

    mean of means -+ t sqrt(1 + 1 / groups) sqrt(variance of the sources' means, less their own noise, + mean variance within)

    Args:
        scores: one array a source; groups: sources that are independent of each other (count); level: share to cover (1).
    """
    if not scores:
        return -2.0, 2.0
    means = np.array([values.mean() for values in scores])
    within = np.array([values.var() for values in scores])
    noise = float(np.mean([values.var() / len(values) for values in scores]))
    between = max(0.0, float(means.var(ddof=1)) - noise) if len(scores) > 1 else 0.0
    half = next_group(max(groups, 2), level) * float(np.sqrt(between + within.mean()))
    return min(float(means.mean()) - half, -0.3), max(float(means.mean()) + half, 0.3)
