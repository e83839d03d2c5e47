"""What do measured points of one's own site say of the predictor's answers? A few shrunk constants, and the interval that they leave.

    log(measured / predicted) = sum of c_k x_k + error,    c_k ~ Normal(0, v_k),    error ~ scale x Student's t of `FREEDOM`

x are a point's terms: how its answer moves with the predictor's parts, and the groups that it belongs to. v is the spread of c between the
sources of the panel (a random-effects prior), so that a constant is pulled towards none, a factor of 1, as far as few points cannot tell it
from chance. A term that no point had keeps its prior: it moves no answer and widens the interval. A term `on=DEVICE` (of value 0) says
where a point ran: elsewhere the constants of such points do not hold.

Whether a log supports constants at all is asked of each point with the constants of the others: log-densities add up to D more than those
without constants, and the constants count for the weight 1 / (1 + exp(`AGAINST` - D)). Answers and intervals are those of the mixture.
Source: Y. Yao et al., Using stacking to average Bayesian predictive distributions (Bayesian Analysis 13, 2018), section 3.4 (pseudo-BMA).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from numpy.typing import NDArray

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import write_atomic

Floats = NDArray[np.float64]
Terms = Mapping[str, float]

FREEDOM = 4
"""Of the t distribution of errors: broken and congested runs are common, and must not pull a constant."""
LEANING = 3.0
"""Points of other sources that a site's own scale of errors leans on."""
AGAINST = 2.0
"""Log-density by which constants must do better to count for half: of 0 to 3 the one by which sources that judge nothing become least worse
without becoming worse in the mean."""
HALF = 2.1318467863266495
"""Half a 90 % interval, in standard deviations: the 95th percentile of that t distribution."""
PRIOR = DATA / "models" / "site_prior.yaml"
MODELS = {
    "step_s": ("training_step.yaml", "training_tpu.yaml", "nccl_collectives.yaml"),
    "tpot_ms": ("serving_points.yaml", "nccl_collectives.yaml"),
    "ttft_ms": ("serving_points.yaml", "nccl_collectives.yaml"),
    "time_us": ("nccl_collectives.yaml",),
}
"""What may be calibrated, and the fitted parameters (data/models) that constants are relative to; kernel tables change with a release."""


class Prior(Strict):
    """Of one target: standard deviation of each component of constants between sources, and typical scale of their errors (logarithms)."""

    spread: dict[str, float]
    scale: float
    sources: tuple[str, ...]


class PriorFile(Strict):
    """`data/models/site_prior.yaml`."""

    split: str
    targets: dict[str, Prior]


class Constants(Strict):
    """Constants of one target.

    Attributes:
        factors: term -> what an answer is multiplied by where the term is 1.
        spread: component -> prior standard deviation (logarithm); scale: of the site's errors (logarithm).
        learned: term -> coordinates, whose products are what the points took off the prior's covariance.
        weight: of the constants (1 - weight: of none), already in the factors; scale_without: of errors without constants (logarithm).
        points: that were fitted on; model: digest of the parameters that the factors are relative to.
        error_percent: median absolute error of the predictor's own answers, and of each point as the others calibrate it.
    """

    factors: dict[str, float]
    spread: dict[str, float]
    scale: float
    learned: dict[str, tuple[float, ...]]
    weight: float
    scale_without: float
    points: int
    model: str
    error_percent: tuple[float, float]

    def holds(self, terms: Terms) -> bool:
        """Whether the points ran on the device of a question, if it says one."""
        return all(name in self.factors for name in terms if component(name) == "on")

    def adjust(self, terms: Sequence[Terms]) -> tuple[Floats, Floats, Floats]:
        """Factor on each answer, and the ends of its 90 % interval as factors, shape (points,) each."""
        mean, variance = np.zeros(len(terms)), np.full(len(terms), self.scale**2)
        width = len(next(iter(self.learned.values()), ()))
        for index, point in enumerate(terms):
            off = np.zeros(width)
            for name, x in point.items():
                mean[index] += x * np.log(self.factors.get(name, 1.0))
                variance[index] += (x * self.spread.get(component(name), 0.0)) ** 2
                if name in self.learned:
                    off += x * np.array(self.learned[name])
            variance[index] -= off @ off
        variance = self.weight * np.maximum(variance, self.scale**2) + (1 - self.weight) * (self.scale_without**2 + mean**2 / self.weight)
        half = HALF * np.sqrt(variance)
        return np.exp(mean), np.exp(mean - half), np.exp(mean + half)


class Site(Strict):
    """What `calibrate` writes and `--site` reads."""

    name: str
    measured: dict[str, Constants]

    def adjust(self, target: str, terms: Sequence[Terms], low: Floats, high: Floats) -> tuple[Floats, Floats, Floats, list[str]]:
        """Factor on each answer, ends of its interval as factors on the predictor's own answer, and what is assumed of the site.

        Args:
            target: of `MODELS`; low, high: the predictor's own ends, kept where the site has no such points.
        """
        found = self.measured.get(target)
        used = np.array([found is not None and found.holds(point) for point in terms], dtype=bool)
        if found is None or not used.any():
            return np.ones(len(terms)), low, high, [f"site {self.name} has no {target} of such runs: not used for it"] * len(terms)
        factor, *ends = found.adjust(terms)
        weak = "" if found.weight > 0.5 else f", whose log supports no correction (constants count for {found.weight:.0%})"
        words = f"{target} x {{:.3g}} and its interval as at site {self.name}, by {found.points} points{weak}"
        other = f"site {self.name} has no {target} on this device: not used for it"
        said = [words.format(x) if here else other for x, here in zip(factor, used, strict=True)]
        return np.where(used, factor, 1.0), np.where(used, ends[0], low), np.where(used, ends[1], high), said


def component(term: str) -> str:
    """Which terms share one prior spread: `model=llama-3.1-8b` and every other `model=`."""
    return term.replace(":", "=").partition("=")[0]


@cache
def digest(target: str) -> str:
    """Digest of the parameters behind a target."""
    return hashlib.sha256(b"".join((DATA / "models" / name).read_bytes() for name in MODELS[target])).hexdigest()[:12]


@cache
def prior() -> PriorFile:
    """The committed priors."""
    return read_yaml(PRIOR, PriorFile)


def read_site(path: str | Path | None) -> Site | None:
    """A site's file; None where no file is named."""
    if path is None:
        return None
    found = read_yaml(path, Site)
    for target, one in found.measured.items():
        if target not in MODELS:
            raise InputError(f"no such quantity; known: {', '.join(MODELS)}", path=path, key=f"measured.{target}")
        if one.model != digest(target):
            raise InputError(
                "was calibrated with other parameters of the predictor: run `calibrate` again", path=path, key=f"measured.{target}.model"
            )
        least = min([*one.factors.values(), one.scale, one.scale_without, one.weight])
        if len({len(row) for row in one.learned.values()}) > 1 or least <= 0 or one.weight > 1:
            message = "rows of unlike length, a factor or scale that is not positive, or a weight that is not from 0 to 1"
            raise InputError(message, path=path, key=f"measured.{target}")
    return found


def write_site(site: Site, path: str | Path) -> None:
    """Write a site's file."""
    content = site.model_dump()
    for one in content["measured"].values():
        one["learned"] = {name: list(row) for name, row in one["learned"].items()}
        one["error_percent"] = list(one["error_percent"])
    write_atomic(Path(path), (f"# Written by `calibrate`; read by --site.\n{yaml.safe_dump(content, sort_keys=False, width=150)}").encode())


def design(terms: Sequence[Terms]) -> tuple[Floats, list[str]]:
    """Terms of points as a matrix, shape (points, terms), and its columns."""
    names = list(dict.fromkeys(name for point in terms for name in point))
    return np.array([[point.get(name, 0.0) for name in names] for point in terms]).reshape(len(terms), len(names)), names


def posterior(x: Floats, error: Floats, variance: Floats, scale: float, steps: int = 60) -> tuple[Floats, Floats, float]:
    """Mean and covariance of the constants, and the scale of errors: expectation and maximisation over weights of the t distribution.

    Args:
        x: shape (points, terms); error: log(measured / predicted), shape (points,); variance: of the prior, shape (terms,).
        scale: typical of other sources.
    """
    weight, found = np.ones(len(error)), scale**2
    pull = np.diag(1 / np.maximum(variance, 1e-8))
    for _ in range(steps):
        covariance = np.linalg.inv((x.T * (weight / found)) @ x + pull)
        mean = covariance @ (x.T @ (weight * error)) / found
        left = (error - x @ mean) ** 2 + np.einsum("ij,jk,ik->i", x, covariance, x)
        before, found = found, float((LEANING * scale**2 + weight @ left) / (LEANING + len(error)))
        weight = (FREEDOM + 1) / (FREEDOM + left / found)
        if abs(np.log(found / before)) < 1e-4:
            break
    return mean, np.asarray(covariance, dtype=np.float64), float(np.sqrt(found))


def fit(target: str, terms: Sequence[Terms], error: Floats, believed: Prior | None = None) -> Constants:
    """Constants of a site.

    Args:
        target: of `MODELS`; terms: of each point; error: log(measured / predicted), shape (points,).
        believed: the prior; by default the committed one.
    """
    believed = believed or prior().targets[target]
    x, names = design(terms)
    variance = np.array([believed.spread.get(component(name), 0.0) ** 2 for name in names])
    mean, covariance, scale = posterior(x, error, variance, believed.scale)
    size, axes = np.linalg.eigh(np.diag(variance) - covariance)
    kept = np.flatnonzero(size > 1e-6 * max(size.max(), 1e-12))[-len(error) :]
    learned = axes[:, kept] * np.sqrt(size[kept])
    left, better = _left_out(x, error, variance, believed.scale)
    weight = max(1e-3, float(1 / (1 + np.exp(AGAINST + (_left_out(x[:, :0], error, variance[:0], believed.scale)[1] - better).sum()))))
    return Constants(
        factors={name: float(f"{np.exp(weight * value):.5g}") for name, value in zip(names, mean, strict=True)},
        spread=believed.spread,
        scale=float(f"{scale:.5g}"),
        learned={name: tuple(float(f"{value:.5g}") for value in row) for name, row in zip(names, learned, strict=True)},
        weight=float(f"{weight:.4g}"),
        scale_without=float(f"{posterior(x[:, :0], error, variance[:0], believed.scale)[2]:.5g}"),
        points=len(error),
        model=digest(target),
        error_percent=tuple(float(f"{np.median(_off(each)):.4g}") for each in (error, error - weight * (error - left))),  # type: ignore[arg-type]
    )


def _off(error: Floats) -> Floats:
    return np.asarray(100 * np.abs(np.exp(-error) - 1))


def _left_out(x: Floats, error: Floats, variance: Floats, scale: float) -> tuple[Floats, Floats]:
    """What is left of each point's error as the other points calibrate it, and the logarithm of its density by them, up to a constant."""
    out, density = np.empty(len(error)), np.empty(len(error))
    for index in range(len(error)):
        rest = np.arange(len(error)) != index
        mean, covariance, found = posterior(x[rest], error[rest], variance, scale)
        out[index] = error[index] - x[index] @ mean
        spread = found**2 + x[index] @ covariance @ x[index]
        density[index] = -0.5 * np.log(spread) - 0.5 * (FREEDOM + 1) * np.log1p(out[index] ** 2 / spread / FREEDOM)
    return out, density
