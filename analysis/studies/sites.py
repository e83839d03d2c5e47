"""How much closer do ten measured points of a site bring the predictor to its others? Priors between sources, and scores of those left out.

Split and protocol: data/evaluation/site_split.yaml. Every point is predicted with its source left out; of a judged source, the prior too is
that of the other sources. `freeze` writes the judged points, these priors and the shipped one, the scores of single clusters and the
least that constants can reach; the notebook draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from analysis.paths import DATA
from analysis.site import PRIOR, Prior, component, design, fit, posterior
from analysis.tables import read_csv, write_atomic, write_csv

Floats = NDArray[np.float64]
FROZEN = DATA / "frozen" / "site_calibration"
JUDGED = {"step_s": ("ultrascale", "torchao"), "tpot_ms": ("sgl_cookbook",), "ttft_ms": ("sgl_cookbook",), "time_us": ("aws_p4de_2n",)}
"""Target -> sources of the panel of at least 15 points whose median error is above 12 %."""
CONFIGURATION = ["model", "gpu_printed", "tp_size", "gemm_quant_mode", "engine_version"]
"""Columns of a served point that say which engine on which machine was measured."""
FEWEST = 5
MOST = 150
"""Points of a source that a prior looks at: of more, every second, third, ... says the same."""
STEPS = 60
LEAST = 1e-8
TEN, LEAST_JUDGED, MODELS_OF_A_SITE, GROUPS = 10, 5, 3, 6
"""Points drawn; fewest judged; models of a cluster in a draw; groups of a source that are scored."""
FAMILIES = {
    "the source": [], "device": ["device"], "engine's version": ["engine_version"], "number type": ["gemm_quant_mode"],
    "model": ["model"], "model and device": ["model", "device"], "configuration": CONFIGURATION,
}  # fmt: skip
"""Families of constants, by the columns whose values have a constant each."""


def training() -> pd.DataFrame:
    """Steps of every source, each predicted with its source left out (as frozen), with terms by the shipped shares."""
    from analysis.studies.training import sources
    from analysis.training.answers import fitted
    from analysis.training.interval import site_terms
    from analysis.training.step import Plans
    from analysis.training.work import parts

    frozen = read_csv(DATA / "frozen" / "measured_suite" / "training_predictions.csv").set_index("row_id")
    tables = []
    for runs in sources.all_runs():
        own = frozen.loc[[f"{runs.source}:{index}" for index in range(len(runs.cases))]]
        terms = site_terms(runs.cases, parts(runs.cases), Plans.of(runs.cases), fitted().shares, fitted().spread)
        times = (runs.step_s, *(own[name] for name in ("predicted_s", "lower_s", "upper_s")))
        tables.append(_table("step_s", runs.source, own.index, times, terms, [case.name for case in runs.cases]))
    return pd.concat(tables, ignore_index=True)


def serving() -> pd.DataFrame:
    """Times of a token and to the first: sources as the others tell; of first tokens the public benchmark by engine and GPU."""
    from analysis.kernels.library import KernelLibrary
    from analysis.serving.points.answers import site_terms
    from analysis.serving.points.constants import elsewhere, load
    from analysis.studies.serving.sources import rows
    from analysis.studies.serving.sources.spread import answered, fit

    library, parameters = KernelLibrary.load(), load()
    parts = [*(source(library) for source in (rows.pipeweave, rows.offline, rows.ml_energy)), rows.panel(library, parameters)]
    token = pd.concat([answered(part, parameters) for part in parts], ignore_index=True)
    tables = []
    for source, own in token.groupby("source", sort=False):
        told = fit(token[token["source"] != source], parameters.tpot_interval, parameters.elsewhere["tpot"].families)
        ends = elsewhere(own, own["answer"].to_numpy(), parameters.tpot_interval, told)
        tables.append(_table("tpot_ms", str(source), own["row_id"].fillna(""), (own["measured"], *ends), site_terms(own), own["family"]))
    first = answered(rows.panel(library, parameters, "ttft"), parameters, "ttft")
    own = first[first["source"] == "sgl_cookbook"]
    columns = [own[name] for name in ("measured", "answer", "lower", "upper")]
    tables.append(_table("ttft_ms", "sgl_cookbook", own["row_id"], columns, site_terms(own), own["family"]))
    points = read_csv(DATA / "frozen" / "predictor_serving" / "points.csv").query("split == 'family'")
    bench = points.merge(read_csv(DATA / "measured_suite" / "serving_points.csv.gz").drop_duplicates("id"), on="id").query("mode == 'agg'")
    bench = bench[(bench["ttft_s"] > 0) & (bench["ttft_ms"] > 0)].assign(family=bench["model_path"], device=bench["system"])
    bench["types"] = bench["precision"].fillna("")
    for (engine, gpu), own in bench.groupby(["backend", "system"]):
        columns = [own["ttft_s"], *(1e-3 * own[name] for name in ("ttft_ms", "ttft_lower_ms", "ttft_upper_ms"))]
        tables.append(_table("ttft_ms", f"benchmark {engine} {gpu}", own["id"], columns, site_terms(own), own["family"]))
    return pd.concat(tables, ignore_index=True)


def collectives() -> pd.DataFrame:
    """All-reduces of nccl-tests, each predicted with its machine left out (as frozen)."""
    from analysis.networks.collective_cases import parts_of
    from analysis.studies.datasets import load

    machines = load("panel/collectives").fillna("").astype(str).drop_duplicates("machine").set_index("machine")
    tables = []
    for source, own in read_csv(DATA / "frozen" / "nccl_calibrated" / "nccl_tests.csv").groupby("source", sort=False):
        machine = {str(name): str(cell) for name, cell in machines.loc[str(source)].items()}
        terms = [parts_of(machine | {"size_bytes": str(size)})[1] for size in own["size_bytes"]]
        columns = [1e-6 * own[name] for name in ("measured_us", "predicted_us", "lower_us", "upper_us")]
        tables.append(_table("time_us", str(source), own["size_bytes"].astype(str), columns, terms))
    return pd.concat(tables, ignore_index=True)


def _table(
    target: str, source: str, rows: Iterable[Any], times: Sequence[Any], terms: Sequence[Mapping[str, float]], models: Iterable[str] = ()
) -> pd.DataFrame:
    """Points of a source; times: measured, predicted, lower, upper, shape (points,) each."""
    columns = {name: np.asarray(cells) for name, cells in zip(("measured_s", "predicted_s", "lower_s", "upper_s"), times, strict=True)}
    found = pd.DataFrame({"target": target, "source": source, "row": list(rows), **columns})
    found["model"] = list(models) or ""
    found["device"] = [next((name.partition("=")[2] for name in point if component(name) in ("on", "device")), "") for point in terms]
    return found.assign(terms=["|".join(f"{name} {x:.5g}" for name, x in point.items()) for point in terms])


def terms_of(cells: pd.Series) -> list[dict[str, float]]:
    """Terms of points from their text, `name value` joined by `|`."""
    return [{name: float(x) for name, _, x in (pair.rpartition(" ") for pair in cell.split("|"))} for cell in cells]


def between(points: pd.DataFrame) -> Prior:
    """How constants spread between sources, by expectation and maximisation: v = mean over sources and terms of mean^2 + variance.

    Args:
        points: of one target, sources of `FEWEST` points and more count.
    """
    sources = {}
    for source, own in points.groupby("source", sort=True):
        own = own.iloc[:: max(1, len(own) // MOST)]
        if len(own) >= FEWEST:
            x, names = design(terms_of(own["terms"]))
            sources[str(source)] = (x, names, np.log(own["measured_s"].to_numpy() / own["predicted_s"].to_numpy()))
    spread = dict.fromkeys((component(name) for _, names, _ in sources.values() for name in names), 0.02)
    scales = {source: float(np.median(np.abs(error)) ** 2 + 1e-4) for source, (_, _, error) in sources.items()}
    for _ in range(STEPS):
        total, count = dict.fromkeys(spread, 0.0), dict.fromkeys(spread, 0)
        typical = float(np.exp(np.mean(np.log(list(scales.values())))))
        for source, (x, names, error) in sources.items():
            variance = np.array([spread[component(name)] for name in names])
            mean, covariance, scale = posterior(x, error, variance, np.sqrt(typical), 15)
            scales[source] = scale**2
            for name, value, own in zip(names, mean, np.diag(covariance), strict=True):
                total[component(name)] += value**2 + own
                count[component(name)] += 1
        spread = {name: max(total[name] / count[name], LEAST) for name in spread}
    scale = float(np.exp(0.5 * np.mean(np.log(list(scales.values())))))
    spread.pop("on", None)  # a mark, no constant
    return Prior(spread={name: float(f"{v**0.5:.4g}") for name, v in spread.items()}, scale=float(f"{scale:.4g}"), sources=tuple(sources))


def freeze() -> pd.DataFrame:
    """Write the judged points, the priors with each judged source left out, and the shipped prior; returns the priors."""
    every = pd.concat([training(), serving(), collectives()], ignore_index=True)
    shipped, priors, judged = {}, [], []
    for target, names in JUDGED.items():
        own = every[every["target"] == target]
        shipped[target] = between(own).model_dump()
        judged.append(own[own["source"].isin(names)])
        for source in names:
            prior = between(own[own["source"] != source])
            priors += [(target, source, name, sd) for name, sd in {**prior.spread, "scale of errors": prior.scale}.items()]
    table = pd.DataFrame(priors, columns=["target", "left_out", "component", "sd"])
    write_csv(pd.concat(judged), FROZEN / "points.csv")
    write_csv(table, FROZEN / "priors.csv")
    write_csv(clusters(every), FROZEN / "clusters.csv")
    served = [own for (_, source), own in pd.concat(judged).groupby(["target", "source"]) if source == "sgl_cookbook"]
    write_csv(pd.concat([bound(own, table) for own in served]), FROZEN / "bound.csv")
    content = {"split": "every source of data/evaluation/site_split.yaml, each predicted with itself left out", "targets": shipped}
    for one in shipped.values():
        one["sources"] = list(one["sources"])
    write_atomic(PRIOR, f"# Written by analysis.studies.sites.freeze.\n{yaml.safe_dump(content, sort_keys=False, width=150)}".encode())
    return table


def prior_without(priors: pd.DataFrame, target: str, source: str) -> Prior:
    """The frozen prior of a target with one source left out."""
    own = priors[(priors["target"] == target) & (priors["left_out"] == source)].set_index("component")["sd"].to_dict()
    scale = own.pop("scale of errors")
    return Prior(spread={str(name): float(sd) for name, sd in own.items()}, scale=float(scale), sources=())


def draws(points: pd.DataFrame, prior: Prior, count: int = TEN, repeats: int = 20, seed: int = 0, models: int = 0) -> pd.DataFrame:
    """Constants from a few drawn points of a source, judged on its other points.

    Args:
        points: of one source and target; count: points drawn; repeats: draws.
        models: so many models are drawn first (0: all stay); a draw that leaves fewer than `LEAST_JUDGED` others is left out.
    Returns:
        a row a draw: judged (count); before_percent, after_percent: median absolute error; inside, inside_before: share inside (%);
        width, width_before: median upper over lower.
    """
    target, terms = str(points["target"].iloc[0]), terms_of(points["terms"])
    measured, predicted = (points[name].to_numpy() for name in ("measured_s", "predicted_s"))
    stream, out = np.random.default_rng(seed), []
    for _ in range(repeats):
        order = stream.permutation(len(points))
        if models:
            order = order[np.isin(points["model"].to_numpy()[order], stream.permutation(points["model"].unique())[:models])]
        if len(order) < count + LEAST_JUDGED:
            continue
        drawn, rest = order[:count], order[count:]
        found = fit(target, [terms[i] for i in drawn], np.log(measured[drawn] / predicted[drawn]), prior)
        factor, low, high = found.adjust([terms[i] for i in rest])
        m, p = measured[rest], predicted[rest]
        lower, upper = points["lower_s"].to_numpy()[rest], points["upper_s"].to_numpy()[rest]
        out.append(
            {
                "judged": len(rest), "before_percent": _median(p / m), "after_percent": _median(p * factor / m),
                "inside_before": 100 * float(np.mean((lower <= m) & (m <= upper))), "width_before": float(np.median(upper / lower)),
                "inside": 100 * float(np.mean((p * low <= m) & (m <= p * high))), "width": float(np.median(high / low)),
            }
        )  # fmt: skip
    return pd.DataFrame(out)


def _median(ratio: Floats) -> float:
    return float(100 * np.median(np.abs(ratio - 1)))


def scores(
    points: pd.DataFrame, priors: pd.DataFrame, counts: Mapping[str, int] | None = None, repeats: int = 20, seed: int = 0
) -> pd.DataFrame:
    """Mean over draws for each judged source, by how many points are drawn; ratio is calibrated over uncalibrated error."""
    out = []
    for (target, source), own in points.groupby(["target", "source"], sort=False):
        prior = prior_without(priors, str(target), str(source))
        for count in (counts or {"ten": 10}).values():
            if len(own) < count + LEAST_JUDGED:
                continue
            mean = draws(own.reset_index(drop=True), prior, count, repeats, seed).mean()
            ratio = mean["after_percent"] / mean["before_percent"]
            out.append({"target": target, "source": source, "points": len(own), "drawn": count, **mean.to_dict(), "ratio": ratio})
    return pd.DataFrame(out).drop(columns="judged")


def clusters(every: pd.DataFrame, repeats: int = 20, seed: int = 0) -> pd.DataFrame:
    """What ten points bring at a cluster with few models (`cluster`), and with one (`one_model`): a row a source, mean over groups."""
    out = []
    for (target, source), own in every.groupby(["target", "source"], sort=True):
        rest = every[(every["target"] == target) & (every["source"] != source)]
        groups = {
            ("cluster" if name == "device" else "one_model", key): rows
            for name, by in (("device", ["device"]), ("model", ["device", "model"]))
            for key, rows in own.groupby(by, sort=True)
            if len(rows) >= TEN + LEAST_JUDGED
        }
        for kind in ("cluster", "one_model"):
            keys = [key for key in groups if key[0] == kind]
            keys = [keys[i] for i in np.unique(np.linspace(0, len(keys) - 1, GROUPS).round().astype(int))] if keys else []
            prior = between(rest) if keys else None
            drawn = [draws(groups[key].reset_index(drop=True), prior, TEN, repeats, seed, MODELS_OF_A_SITE) for key in keys if prior]
            scored = [one.mean() for one in drawn if len(one)]
            if scored:
                mean = pd.DataFrame(scored).mean().drop("judged")
                ratio = mean["after_percent"] / mean["before_percent"]
                error = _median(own["predicted_s"].to_numpy() / own["measured_s"].to_numpy())
                out.append({"split": kind, "target": target, "source": source, "groups": len(scored), **mean.to_dict(), "ratio": ratio})
                out[-1]["error_percent"] = error
    return pd.DataFrame(out).sort_values(["split", "target", "source"], ignore_index=True)


def bound(points: pd.DataFrame, priors: pd.DataFrame, counts: Iterable[int] = (10, 20, 30, 60), repeats: int = 200) -> pd.DataFrame:
    """The least ratio of errors that constants can reach on served points of the cookbook, of one target, and the one that ours reach.

    Two kinds of row: constants of a family that know every measurement; and points drawn at random, each of which gives the other points of
    its configuration the constant that all of them would choose, while those of other configurations stay as predicted.

    Returns:
        target, known, groups (constants), seen (share of the judged points whose configuration was drawn), ratio (the least), ours.
    """
    panel = read_csv(DATA / "published" / "served_panel.csv", dtype=str, keep_default_na=False).set_index("row_id")
    rows = points.reset_index(drop=True).join(panel[CONFIGURATION[1:]], on="row")
    off = pd.Series(np.log(rows["measured_s"] / rows["predicted_s"]))
    target, before, out = str(points["target"].iloc[0]), _median(np.exp(-off.to_numpy())), []
    for name, by in FAMILIES.items():
        group = rows.groupby(by).ngroup() if by else pd.Series(0, index=rows.index)
        ratio = _median(np.exp((off.groupby(group).transform("median") - off).to_numpy())) / before
        out.append({"target": target, "known": f"all points, a constant of {name}", "groups": int(group.nunique()), "ratio": ratio})
    best, own, which = (off - off.groupby(group).transform("median")).to_numpy(), off.to_numpy(), group.to_numpy()
    ours = scores(points, priors, {f"{count}": count for count in counts}).set_index("drawn")["ratio"]
    stream = np.random.default_rng(0)
    for count in counts:
        seen, ratios = [], []
        for _ in range(repeats):
            drawn, rest = np.split(stream.permutation(len(rows)), [count])
            known = np.isin(which[rest], which[drawn])
            seen.append(known.mean())
            ratios.append(_median(np.exp(-np.where(known, best[rest], own[rest]))) / _median(np.exp(-own[rest])))
        row = {"groups": int(group.nunique()), "seen": float(np.mean(seen)), "ratio": float(np.mean(ratios)), "ours": ours[count]}
        out.append({"target": target, "known": f"{count} points", **row})
    return pd.DataFrame(out)
