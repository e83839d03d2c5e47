"""How far off is a predictor on kernels it has not seen? Splits, errors by group and device, scores of anyone's predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import datasets
from analysis.case_columns import Columns
from analysis.errors import InputError
from analysis.intervals import cluster_bootstrap
from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import CODE, GEMMS, GROUP, GROUPS, Floats
from analysis.kernels.fp32.model import Ensemble
from analysis.kernels.fp32.residual import Hybrid, group_of
from analysis.studies.kernels.fp32.fitting import Measurements, fit
from analysis.studies.kernels.fp32.selection import Selection, candidates
from analysis.studies.statistics import absolute_percentage_errors, spearman
from analysis.tables import numeric, read_csv

OLDER = ("Tesla P4", "Tesla P100-PCIE-16GB", "Tesla V100-PCIE-32GB", "Tesla T4", "NVIDIA A100-PCIE-40GB")
SPLITS = ("leave-one-device-out", "old-to-new", "unseen-shapes", "new-operators", "random")
BLIND = ("leave-one-device-out", "old-to-new", "unseen-shapes")
TABLES = ("bmm", "linear", "elem", "softmax", "ln")
READS = Columns(
    names=("op", "device", "B", "M", "N", "K", "H", "latency_ms", "lower_ms", "upper_ms", "split"), required=("op", "device", "latency_ms")
)
"""Columns of a table of measured or predicted kernels: NeuSight's."""
Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Fold:
    """One fit and what it is tested on.

    Args:
        train, test: rows, shape (n,).
    """

    name: str
    train: Rows
    test: Rows


def folds(frame: pd.DataFrame, split: str, seed: int = 0) -> Iterator[Fold]:
    """The folds of a split over measured rows.

    Args:
        frame: columns op, device and, for unseen-shapes, `split` (train or test, as NeuSight cut its shapes).
    """
    device = frame["device"].to_numpy(dtype=object)
    names = sorted(set(device))
    if split == "leave-one-device-out":
        if len(names) < 3:
            raise InputError(f"leave-one-device-out needs three devices or more, got {len(names)}", key="device")
        for name in names:
            yield Fold(name, device != name, device == name)
    elif split == "old-to-new":
        old = np.isin(device, OLDER)
        if old.all() or not old.any():
            raise InputError(f"old-to-new needs rows of {', '.join(OLDER)} and of others", key="device")
        yield Fold("the five older GPUs", old, ~old)
    elif split == "unseen-shapes":
        if "split" not in frame:
            raise InputError("unseen-shapes needs the column split (train or test)", key="split")
        train = (frame["split"] == "train").to_numpy()
        seen = np.isin(device, list(set(device[train])))
        yield Fold("NeuSight's test shapes", train, ~train & seen)
    elif split == "new-operators":
        op = frame["op"].to_numpy(dtype=object)
        for name in sorted(set(op)):
            if (op != name).any():
                yield Fold(name, op != name, op == name)
    elif split == "random":
        test = np.random.default_rng(seed).random(len(frame)) < 0.2
        yield Fold("a fifth at random", ~test, test)
    else:
        raise InputError(f"unknown split {split!r}; expected one of {', '.join(SPLITS)}", key="split")


def accuracy(measured_s: Floats, predicted_s: Floats, lower_s: Floats | None = None, upper_s: Floats | None = None) -> dict[str, float]:
    """Errors of one set of rows: percentage errors, bias, rank correlation, and coverage and width of the intervals."""
    errors = absolute_percentage_errors(measured_s, predicted_s)
    found = {
        "cases": float(len(errors)),
        "mape": float(errors.mean()),
        "median_ape": float(np.median(errors)),
        "p90_ape": float(np.quantile(errors, 0.9)),
        "max_ape": float(errors.max()),
        "bias": float(100 * np.expm1(np.median(np.log(predicted_s / measured_s)))),
        "spearman": spearman(measured_s, predicted_s) if len(errors) > 2 else float("nan"),
    }
    if lower_s is not None and upper_s is not None:
        found["coverage"] = float(np.mean((measured_s >= lower_s) & (measured_s <= upper_s)))
        found["upper_over_lower"] = float(np.median(upper_s / lower_s))
    return found


def measured_frame(tables: tuple[str, ...] = TABLES, vendor: str = "nvidia") -> pd.DataFrame:
    """NeuSight's measured kernels of one vendor, one row each (needs the dataset)."""
    return pd.concat([datasets.load(f"neusight/{table}_{vendor}") for table in tables], ignore_index=True)


def predictions_left_out(frame: pd.DataFrame, group: str, seed: int = 0) -> pd.DataFrame:
    """Ours with each device left out, settings selected inside the others: one row a measured kernel of the group.

    Returns:
        columns row, device, measured_s, predicted_s, lower_s, upper_s.
    """
    rows = np.flatnonzero(frame["op"].map(GROUP).to_numpy() == group)
    measured = Measurements.from_frame(frame.iloc[rows])
    selection = Selection(measured, group, seed)
    parts = []
    for name in selection.devices:
        index = np.flatnonzero(measured.device == name)
        one = selection.fit(frozenset({name})).predict(measured.take(index).operators, kernel_devices.load(name))
        parts.append(
            pd.DataFrame(
                {
                    "row": rows[index],
                    "device": name,
                    "measured_s": measured.latency_s[index],
                    "predicted_s": one.latency_s,
                    "lower_s": one.lower_s,
                    "upper_s": one.upper_s,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


def summarise(table: pd.DataFrame, group: str) -> pd.DataFrame:
    """Accuracy by device and, in the row `mean over devices`, its mean over them.

    Args:
        table: columns device, measured_s, predicted_s and, if there are any, lower_s and upper_s.
    """
    has_band = "lower_s" in table and bool(table["lower_s"].notna().all())
    rows = []
    for device, part in table.groupby("device", sort=True):
        band = (part["lower_s"].to_numpy(), part["upper_s"].to_numpy()) if has_band else (None, None)
        rows.append({"group": group, "device": device, **accuracy(part["measured_s"].to_numpy(), part["predicted_s"].to_numpy(), *band)})
    found = pd.DataFrame(rows)
    numbers = found.drop(columns=["group", "device"])
    mean = numbers.mean().to_dict() | {"cases": numbers["cases"].sum(), "max_ape": numbers["max_ape"].max()}
    found = pd.concat([found, pd.DataFrame([{"group": group, "device": "mean over devices", **mean}])], ignore_index=True)
    if has_band:
        found["coverage_low"], found["coverage_high"] = np.nan, np.nan
        found.loc[found.index[-1], "upper_over_lower"] = float((table["upper_s"] / table["lower_s"]).median())
        if len(found) > 2:
            spread = cluster_bootstrap(np.mean, found["device"][:-1].to_numpy(), found["coverage"][:-1], together=True)
            found.loc[found.index[-1], ["coverage_low", "coverage_high"]] = [spread.low, spread.high]
    return found


def evaluate_frame(frame: pd.DataFrame, split: str, seed: int = 0) -> pd.DataFrame:
    """Accuracy of the hybrid predictor on a split of measured rows, by operator group and device."""
    groups = frame["op"].map(GROUP)
    present = [group for group in GROUPS if (groups == group).any()]
    if split == "leave-one-device-out":
        list(folds(frame, split))  # says at once what a table lacks
        return pd.concat([summarise(predictions_left_out(frame, group, seed), group) for group in present], ignore_index=True)
    results = []
    measured = Measurements.from_frame(frame)
    kinds = group_of(measured.operators)
    for fold in folds(frame, split, seed):
        for group in present:
            test = fold.test & (kinds == group)
            train = fold.train & np.isin(kinds, _family(group) if split == "new-operators" else [group])
            if not test.any() or len(set(measured.device[train])) < 3:
                continue
            predictor = _fitted(measured.take(train), group, split, seed)
            parts = []
            for name in sorted(set(measured.device[test])):
                index = np.flatnonzero(test & (measured.device == name))
                one = predictor.predict(measured.take(index).operators, kernel_devices.load(str(name)))
                values = {"measured_s": measured.latency_s[index], "predicted_s": one.latency_s}
                if (one.upper_s > one.lower_s).all():
                    values |= {"lower_s": one.lower_s, "upper_s": one.upper_s}
                parts.append(pd.DataFrame({"device": name, **values}))
            results.append(summarise(pd.concat(parts), group).assign(fold=fold.name))
    if not results:
        raise InputError(f"{split} leaves nothing to test in this table", key="split")
    return pd.concat(results, ignore_index=True)


def _family(group: str) -> list[str]:
    return list(GEMMS) if group in GEMMS else [name for name in GROUPS if name not in GEMMS]


def _fitted(train: Measurements, group: str, split: str, seed: int) -> Ensemble | Hybrid:
    """Selected inside the training devices where the split is between devices; elsewhere the first candidate, without an interval."""
    if split == "old-to-new":
        return Selection(train, group, seed).fit()
    settings = next(iter(candidates(group).values()))
    return fit(Hybrid(settings, seed), train)


def evaluate_file(path: Path, split: str, seed: int = 0) -> pd.DataFrame:
    """`evaluate_frame` on a file with NeuSight's columns."""
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; expected one of {', '.join(SPLITS)}", key="--split")
    frame = read_csv(path, required=["op", "device", "latency_ms"])
    unknown = sorted(set(frame["op"].astype(str)) - set(CODE))
    if unknown:
        raise InputError(f"operators that are not covered: {', '.join(unknown)}", path=path, key="op")
    bad = np.flatnonzero(~(numeric(frame["latency_ms"]) > 0))
    if len(bad):
        raise InputError("expected a latency above zero", path=path, line=int(bad[0]) + 2, key="latency_ms")
    for name in sorted(set(frame["device"].astype(str))):
        kernel_devices.load(name)
    return evaluate_frame(frame, split, seed)


def score_file(path: Path, split: str) -> pd.DataFrame:
    """Score predictions of the blind rows of a split against the measured kernels (needs the dataset).

    The rows are found by op, device and shape, so the file may have any order; all blind rows of the operator groups that it answers must
    be there.
    """
    if split not in BLIND:
        raise InputError(f"unknown split {split!r}; expected one of {', '.join(BLIND)}", key="--split")
    theirs = read_csv(path, required=["op", "device", "latency_ms"])
    truth = measured_frame()
    blind = np.zeros(len(truth), dtype=bool)
    for fold in folds(truth, split):
        blind |= fold.test
    keys = ["op", "device", "B", "M", "N", "K", "H"]
    truth = truth[blind & truth["op"].map(GROUP).isin(set(theirs["op"].map(GROUP))).to_numpy()]
    for frame in (truth, theirs):
        for key in keys[2:]:
            frame[key] = numeric(frame[key]).fillna(1.0) if key in frame else 1.0
    keep = [*keys, "latency_ms"] + [name for name in ("lower_ms", "upper_ms") if name in theirs]
    joined = truth[[*keys, "latency_ms"]].merge(
        theirs[keep].drop_duplicates(keys), on=keys, how="left", suffixes=("_measured", "_predicted")
    )
    missing = int(joined["latency_ms_predicted"].isna().sum())
    if missing:
        raise InputError(f"{missing} of {len(joined)} blind rows have no prediction; expected one for each", path=path, key="latency_ms")
    table = pd.DataFrame(
        {
            "group": joined["op"].map(GROUP),
            "device": joined["device"],
            "measured_s": joined["latency_ms_measured"] / 1e3,
            "predicted_s": joined["latency_ms_predicted"] / 1e3,
        }
    )
    if {"lower_ms", "upper_ms"} <= set(joined):
        table["lower_s"], table["upper_s"] = joined["lower_ms"] / 1e3, joined["upper_ms"] / 1e3
    return pd.concat([summarise(part, str(group)) for group, part in table.groupby("group", sort=True)], ignore_index=True)
