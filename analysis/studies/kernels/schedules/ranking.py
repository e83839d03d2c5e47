"""Which schedule to try first: a cost model trained to rank, compared with orders that need no training.

score = f(problem, configuration, GPU); loss = -log(sum over near-best exp(score) / sum over all exp(score)), a ranking objective in
the spirit of AutoTVM's: only the order within a problem counts, never the time itself.
Source: Chen et al. 2018 (learning to optimize tensor programs), section 3; the list-wise form is Cao et al. 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from analysis.studies import attempts as log
from analysis.studies.freezing import origin
from analysis.studies.kernels.schedules.data import CONFIGURATION, SPECS, Sweeps, cost
from analysis.tables import write_csv

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BOOSTED_ROWS = 200_000


@dataclass(frozen=True)
class RankingSettings:
    """How the ranking model is trained.

    Attributes:
        width: of two hidden layers (count).
        steps: of Adam.
        batch: problems a step (count).
        rate: first step size; it falls to zero along a cosine.
        decay: weight decay.
    """

    width: int = 64
    steps: int = 300
    batch: int = 32
    rate: float = 3e-3
    decay: float = 1e-3


def features(sweeps: Sweeps, gpu: int, elsewhere: Floats | None) -> Floats:
    """What the model sees of each problem and configuration on a GPU: shapes, the roofline's terms, the GPU, and where else it did well.

    Args:
        elsewhere: share of the other GPUs where the configuration is near-best for the problem, shape (problems, configurations).
    Returns:
        shape (problems, configurations, d).
    """
    spec = sweeps.specs.iloc[gpu]
    terms = cost(sweeps.problems, sweeps.configurations, spec)
    shape = terms.tiles.shape

    def of_problem(values: Any) -> Floats:
        return np.broadcast_to(np.asarray(values, dtype=float)[:, None], shape)

    def of_configuration(values: Any) -> Floats:
        return np.broadcast_to(np.asarray(values, dtype=float)[None], shape)

    problems, configurations = sweeps.problems, sweeps.configurations
    columns = [of_problem(np.log2(problems[name].to_numpy(dtype=float))) for name in ("M", "E", "topk", "H", "N")]
    columns += [of_problem((problems["weight_type"] == kind).to_numpy(dtype=float)) for kind in ("w13", "w2")]
    columns += [of_configuration(np.log2(configurations[name].to_numpy(dtype=float))) for name in CONFIGURATION[:5]]
    columns += [of_configuration((configurations["num_stages"] == stages).to_numpy(dtype=float)) for stages in (2, 3, 4, 5)]
    m, e, k = (problems[name].to_numpy(dtype=float) for name in ("M", "E", "topk"))
    block = configurations["BLOCK_SIZE_M"].to_numpy(dtype=float)
    columns.append(np.log2((m * k / np.minimum(e, m * k))[:, None] / block[None]))
    shared = terms.shared_bytes / (spec["sharedMemorySize"] * 1024)
    columns += [np.log2(terms.tiles), np.log2(terms.waves), terms.tiles / spec["numSms"] / terms.waves, np.log2(terms.filled)]
    columns += [
        np.log2(terms.compute_s),
        np.log2(terms.memory_s),
        np.log2(terms.compute_s / terms.memory_s),
        np.log2(shared),
        np.minimum(1 / shared, 8),
    ]
    columns += [np.full(shape, np.log2(spec[fact])) for fact in SPECS]
    if elsewhere is not None:
        columns.append(elsewhere)
    return np.stack(columns, axis=-1)


def share_elsewhere(sweeps: Sweeps, others: list[int]) -> Floats:
    """Share of the other GPUs on which each configuration is near-best for each problem, of those that swept the problem."""
    swept = np.maximum(sweeps.measured[others].sum(axis=0), 1)
    return sweeps.near_best[others].sum(axis=0) / swept[:, None]


def popularity(sweeps: Sweeps, others: list[int]) -> Floats:
    """Share of the other GPUs' problems for which each configuration is near-best, shape (configurations,)."""
    return sweeps.near_best[others].sum(axis=(0, 1)) / max(sweeps.measured[others].sum(), 1)


def train_scores(sweeps: Sweeps, target: int, others: list[int], settings: RankingSettings, seed: int, with_elsewhere: bool) -> Floats:
    """Scores on the target GPU from a model trained on the others.

    With `with_elsewhere` a training GPU gets features of the training GPUs besides itself, as the target gets those of all of them.

    Args:
        sweeps: of all GPUs; the target's near-best lists are not read.
    Returns:
        shape (problems, configurations).
    """

    def seen_by(gpu: int) -> Floats:
        told = share_elsewhere(sweeps, [other for other in others if other != gpu]) if with_elsewhere else None
        return features(sweeps, gpu, told)

    x = np.concatenate([seen_by(gpu)[sweeps.measured[gpu]] for gpu in others]).astype(np.float32)
    y = np.concatenate([sweeps.near_best[gpu][sweeps.measured[gpu]] for gpu in others])
    mean, spread = x.mean(axis=(0, 1)), x.std(axis=(0, 1)) + 1e-6
    x = (x - mean) / spread
    rng = np.random.default_rng(seed)
    sizes = [x.shape[2], settings.width, settings.width, 1]
    weights = [(jnp.asarray(rng.normal(0, a**-0.5, (a, b)), jnp.float32), jnp.zeros(b, jnp.float32)) for a, b in pairwise(sizes)]

    def score(weights: Any, rows: Any) -> Any:
        for number, (w, b) in enumerate(weights):
            rows = rows @ w + b
            rows = jax.nn.relu(rows) if number < len(weights) - 1 else rows
        return rows[..., 0]

    def loss(weights: Any, rows: Any, near: Any) -> Any:
        scores = score(weights, rows)
        good = jax.nn.logsumexp(jnp.where(near, scores, -jnp.inf), axis=1)
        return (jax.nn.logsumexp(scores, axis=1) - good).mean()

    optimizer = optax.adamw(optax.cosine_decay_schedule(settings.rate, settings.steps), weight_decay=settings.decay)
    state = optimizer.init(weights)

    @jax.jit
    def step(weights: Any, state: Any, rows: Any, near: Any) -> Any:
        updates, state = optimizer.update(jax.grad(loss)(weights, rows, near), state, weights)
        return optax.apply_updates(weights, updates), state

    for _ in range(settings.steps):
        batch = rng.choice(len(x), settings.batch, replace=False) if len(x) > settings.batch else np.arange(len(x))
        weights, state = step(weights, state, jnp.asarray(x[batch]), jnp.asarray(y[batch]))
    wanted = ((seen_by(target) - mean) / spread).astype(np.float32)
    return np.concatenate([np.asarray(score(weights, jnp.asarray(part)), dtype=float) for part in np.array_split(wanted, 8)])


def boosted_scores(sweeps: Sweeps, target: int, others: list[int], seed: int) -> Floats:
    """Scores on the target GPU from gradient-boosted trees on the same features, trained on the others to tell near-best schedules.

    This is the kind of cost model that AutoTVM and Ansor fit with XGBoost; scikit-learn's histogram trees stand in for it, with its
    settings as they come and every near-best schedule beside a sample of the rest.

    Args:
        sweeps: of all GPUs; the target's near-best lists are not read.
    Returns:
        Log-odds of being near-best, shape (problems, configurations).
    """
    x = np.concatenate([features(sweeps, gpu, None)[sweeps.measured[gpu]].astype(np.float32) for gpu in others])
    y = np.concatenate([sweeps.near_best[gpu][sweeps.measured[gpu]] for gpu in others]).ravel()
    rest = np.flatnonzero(~y)
    drawn = np.random.default_rng(seed).choice(rest, min(BOOSTED_ROWS, len(rest)), replace=False)
    kept = np.concatenate([np.flatnonzero(y), drawn])
    trees = HistGradientBoostingClassifier(random_state=seed).fit(x.reshape(-1, x.shape[-1])[kept], y[kept])
    wanted = features(sweeps, target, None).astype(np.float32)
    found: Floats = trees.decision_function(wanted.reshape(-1, wanted.shape[-1])).reshape(wanted.shape[:2])
    return found


def orders(sweeps: Sweeps, target: int, settings: RankingSettings, seed: int) -> dict[str, Floats]:
    """Scores of each method on the target GPU, from the other GPUs only; random order is not among them, its figures are exact."""
    others = [gpu for gpu in range(len(sweeps.gpus)) if gpu != target]
    terms = cost(sweeps.problems, sweeps.configurations, sweeps.specs.iloc[target])
    popular = popularity(sweeps, others)
    fits = terms.shared_bytes <= sweeps.specs.iloc[target]["sharedMemorySize"] * 1024
    roofline = -np.log(np.maximum(terms.compute_s, terms.memory_s)) - 1e3 * ~fits - 1e-6 * terms.tiles
    return {
        "roofline": roofline,
        "popular": np.broadcast_to(popular, terms.tiles.shape),
        "same problem elsewhere": share_elsewhere(sweeps, others) + 1e-3 * popular,
        "boosted trees": boosted_scores(sweeps, target, others, seed),
        "ranked": train_scores(sweeps, target, others, settings, seed, with_elsewhere=False),
        "ranked and elsewhere": train_scores(sweeps, target, others, settings, seed, with_elsewhere=True),
    }


def first_hits(scores: Floats, near: NDArray[np.bool_]) -> Integers:
    """How many configurations are tried until one is near-best, by falling score; ties in the order of the table.

    Args:
        scores: shape (problems, configurations).
        near: likewise; at least one in each row.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.argmax(np.take_along_axis(near, order, axis=1), axis=1) + 1


def random_first_hit(near: NDArray[np.bool_]) -> Floats:
    """Expected tries in random order: (N + 1) / (g + 1) for g near-best among N."""
    return (near.shape[1] + 1) / (near.sum(axis=1) + 1)


def random_top(near: NDArray[np.bool_], k: int) -> Floats:
    """Chance that k configurations drawn at random hold a near-best one: 1 - C(N - g, k) / C(N, k)."""
    total, good = near.shape[1], near.sum(axis=1)
    missed = np.ones(len(near))
    for drawn in range(k):
        missed *= np.maximum(total - good - drawn, 0) / max(total - drawn, 1)
    return 1 - missed


def evaluate(sweeps: Sweeps, settings: RankingSettings, seed: int = 0, tops: tuple[int, ...] = (1, 3, 5, 10, 30)) -> pd.DataFrame:
    """Each GPU left out in turn; one row a GPU and method."""
    rows = []
    for target, gpu in enumerate(sweeps.gpus):
        swept = sweeps.measured[target]
        near = sweeps.near_best[target][swept]
        found: dict[str, object] = {f"top{k}": float(random_top(near, k).mean()) for k in tops}
        expected = random_first_hit(near)
        about = {"gpu": gpu, "problems": len(near), "configurations": near.shape[1], "near_best": float(np.median(near.sum(axis=1)))}
        rows.append(
            about | {"method": "random"} | found | {"tries_mean": float(expected.mean()), "tries_median": float(np.median(expected))}
        )
        for method, scores in orders(sweeps, target, settings, seed).items():
            tries = first_hits(scores[swept], near)
            found = {f"top{k}": float((tries <= k).mean()) for k in tops}
            rows.append(about | {"method": method} | found | {"tries_mean": float(tries.mean()), "tries_median": float(np.median(tries))})
    return pd.DataFrame(rows)


def attempts(found: pd.DataFrame, settings: RankingSettings) -> pd.DataFrame:
    """Rows for the log: nothing was selected, every order was tried once."""
    means = found.groupby("method", sort=False)["tries_median"].agg(["mean", "max"])
    tries = [
        {
            "configuration": f"{method}: {vars(settings)}" if str(method).startswith("ranked") else str(method),
            "fitted_on": "near-best schedules of the other GPUs" if method not in ("random", "roofline") else "nothing is fitted",
            "test_value": float(row["mean"]),
            "test_max": float(row["max"]),
            "chosen": method == "ranked",
        }
        for method, row in means.iterrows()
    ]
    return log.rows(
        tries,
        room="operators",
        experiment="schedule_ranking",
        tested_on="the GPU left out, each in turn",
        test_metric="median tries to a schedule within 1 % of the best, mean over GPUs",
        note="settings were not tuned; test_max is the worst GPU",
    )


def write(found: pd.DataFrame, folder: Path) -> None:
    """Keep what the pages show."""
    write_csv(found, folder / "ranking.csv")
    write_csv(origin([f"pipeweave/moe_dse/moe_dse_{gpu}_99" for gpu in dict.fromkeys(found["gpu"])]), folder / "origin.csv")
