"""Fits the collectives' formula on all that was measured, and scores it by the split of data/evaluation/collectives_split.yaml."""

from __future__ import annotations

import numpy as np
import pandas as pd
import yaml

from analysis.hardware import devices, systems
from analysis.networks import collective_time
from analysis.networks.calibrated.form import Calibrated, Doubt
from analysis.studies.networks import fit, series
from analysis.studies.networks.fit import NINETY, SPREAD
from analysis.tables import read_csv

SPLIT = "all machines of data/evaluation/collectives_split.yaml; accuracy is stated on a machine left out, never on these rows"


def measured() -> pd.DataFrame:
    """Everything that was measured, tables that their links could not have made left out."""
    named = {name: devices.load(name).name for name in sorted(set(read_csv(series.TABLES)["system"]))}
    captured = series.graphs(named)
    cells = list(zip(captured["device"], captured["kind"], captured["gpus"], strict=True))
    kept = {
        cell for cell in set(cells) if collective_time.believed(systems.of_device(devices.load(cell[0])), "nccl", cell[1], int(cell[2]))
    }
    captured = captured[[cell in kept for cell in cells]]
    return pd.concat([series.nine_types(), captured, series.nccl_tests()], ignore_index=True)


def score(rows: pd.DataFrame) -> pd.DataFrame:
    """Every source that a host launched, left out of the fit: rows of `fit.left_out`, for both splits (machine, device)."""
    sources = sorted(set(rows.loc[~rows["graph"], "source"]))
    found = [fit.left_out(rows, name, split == "device").assign(split=split) for split in ("machine", "device") for name in sources]
    return pd.concat(found, ignore_index=True)


def with_intervals(scored: pd.DataFrame) -> pd.DataFrame:
    """Rows of `score` with lower_s and upper_s: each source's scale from all other sources left out (of the split `machine`)."""
    found = []
    machine = scored[scored["split"] == "machine"]
    for source, own in scored.groupby("source"):
        scale = own["way"].map(fit.scales(machine[machine["source"] != source])).to_numpy()
        half = np.exp(NINETY * scale * fit.log_sd(own, SPREAD))
        found.append(own.assign(lower_s=own["predicted_s"] / half, upper_s=own["predicted_s"] * half))
    return pd.concat(found, ignore_index=True)


def calibrated(rows: pd.DataFrame, scored: pd.DataFrame) -> Calibrated:
    """What is shipped: parameters, those without each architecture, and the intervals' spread."""
    architecture = rows["device"].map(lambda name: devices.load(name).architecture)
    without = {
        name: fit.parameters(fit.solve(rows[architecture != name]), rows[architecture != name]) for name in sorted(set(architecture))
    }
    scale = fit.scales(scored[scored["split"] == "machine"])
    return Calibrated(
        shipped=fit.parameters(fit.solve(rows), rows), without=without, doubt=Doubt(**{**SPREAD.model_dump(), "scale": scale}), split=SPLIT,
        hashes=series.hashes(),
    )  # fmt: skip


def summary(scored: pd.DataFrame) -> pd.DataFrame:
    """Rows of `with_intervals` by split, place and source: median error, bias, share inside, median width, rows.

    A place is one NVLink domain, PCIe, or over a network; `all of nccl-tests` are the machines that the split quotes.
    """
    error = scored["predicted_s"] / scored["time_s"] - 1
    held = scored.assign(
        error=error.abs(), bias=error, inside=scored["time_s"].between(scored["lower_s"], scored["upper_s"]),
        width=scored["upper_s"] / scored["lower_s"], place=scored["way"].map(fit.PLACE),
    )  # fmt: skip
    quoted = held[~held["source"].str.contains(" ")].assign(source="all of nccl-tests")
    columns: dict[str, tuple[str, str]] = {
        "median_error": ("error", "median"), "bias": ("bias", "median"), "inside": ("inside", "mean"), "width": ("width", "median"),
        "rows": ("error", "size"),
    }  # fmt: skip
    return pd.concat([held, quoted]).groupby(["split", "place", "source"]).agg(**columns).reset_index()  # type: ignore[call-overload]


def text(found: Calibrated) -> str:
    """The text of `data/models/nccl_collectives.yaml`."""
    head = "# Fitted by analysis.studies.networks.freeze; the full tier of the notebook nccl_calibrated writes this file.\n"

    def short(value: object) -> object:
        if isinstance(value, dict):
            return {key: short(item) for key, item in value.items()}
        return float(f"{value:.6g}") if isinstance(value, float) else value

    return head + yaml.safe_dump(short(found.model_dump()), sort_keys=False, width=140)


PERMISSIVE = {
    "azure_ND_A100_v4": "Azure, 8 A100",
    "azure_ND_H100_v5": "Azure, 8 H100",
    "aws_p5_1n": "AWS p5, 8 H100",
    "aws_p4de_2n": "AWS p4de, 2 x 8 A100",
}
"""Machines of nccl-tests whose rows may be shown (MIT, MIT-0), and what a figure calls them."""


def shown(scored: pd.DataFrame) -> pd.DataFrame:
    """Measured and predicted times of the machines that may be shown, each left out of the fit (us)."""
    rows = scored[(scored["split"] == "machine") & scored["source"].isin(PERMISSIVE)]
    times = {f"{name}_us": 1e6 * rows[f"{name}_s"] for name in ("predicted", "lower", "upper")}
    return pd.DataFrame({
        "source": rows["source"], "title": rows["source"].map(PERMISSIVE), "gpus": rows["gpus"], "size_bytes": rows["size_bytes"],
        "measured_us": 1e6 * rows["time_s"], **times,
    }).round(3)  # fmt: skip
