"""Tables of the kernel experiments, from predictions made with each device left out: accuracy, coverage, whole networks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.kernels.fp32 import devices as kernel_devices
from analysis.kernels.fp32.cases import GROUPS
from analysis.kernels.fp32.physics import roofline
from analysis.studies.freezing import Freeze
from analysis.studies.kernels.fp32.evaluation import summarise
from analysis.studies.kernels.fp32.fitting import operators_of
from analysis.studies.kernels.fp32.freeze import band_without, network_cases, one_die, table_device
from analysis.studies.kernels.networks.kernel_lists import NETWORKS, operators
from analysis.tables import read_csv

AMD = "AMD"


def predictions(work: Path, group: str) -> pd.DataFrame:
    """Measured kernels of a group and their predictions with the device left out, the intervals calibrated on the other devices.

    Returns:
        the table's columns, measured_s, predicted_s, lower_s, upper_s and vendor.
    """
    frame = read_csv(Freeze(work).path(group, "kernels"))
    residuals = Freeze(work).read(group, "residuals")
    frame["measured_s"] = frame["latency_ms"] / 1e3
    frame["vendor"] = [name.split()[0] for name in frame["device"]]
    frame.loc[frame["vendor"] != AMD, "vendor"] = "NVIDIA"
    for name in frame["device"].unique():
        band = band_without(residuals, name)
        rows = frame["device"] == name
        frame.loc[rows, "lower_s"] = frame.loc[rows, "predicted_s"] * np.exp(band.lower)
        frame.loc[rows, "upper_s"] = frame.loc[rows, "predicted_s"] * np.exp(band.upper)
    return frame


def accuracy(work: Path) -> pd.DataFrame:
    """Accuracy by vendor, group and device, and its mean over the devices of a vendor."""
    parts = []
    for group in GROUPS:
        for vendor, part in predictions(work, group).groupby("vendor"):
            parts.append(summarise(part, group).assign(vendor=vendor))
    return pd.concat(parts, ignore_index=True)


def networks(work: Path) -> pd.DataFrame:
    """Measured whole networks, one row each: ours as the sum of left-out kernel predictions, NeuSight's as it stores them.

    Returns:
        case columns, measured_ms, ours_ms, lower_ms, upper_ms (all kernels at that end of their interval), ours_<group>_ms, own_roofline_ms
        (data-sheet roofline of our list), neusight_ms, roofline_ms, habitat_ms, li_ms (theirs) and reason where ours has none.
    """
    cases = network_cases()
    kernels = pd.concat([read_csv(Freeze(work).path(group, "networks")).assign(group=group) for group in GROUPS], ignore_index=True)
    residuals = {group: Freeze(work).read(group, "residuals") for group in GROUPS}
    for column in ("predicted_s", "lower_s", "upper_s"):
        kernels[column] *= kernels["count"]
    for (group, device), part in kernels.groupby(["group", "device"]):
        band = band_without(residuals[str(group)], str(device))
        kernels.loc[part.index, "lower_s"] = part["predicted_s"] * np.exp(band.lower)
        kernels.loc[part.index, "upper_s"] = part["predicted_s"] * np.exp(band.upper)
    rows = []
    for number, case in cases.iterrows():
        own = kernels[kernels["case"] == number]
        row = {
            "network": case["model_name"],
            "sequence": case["seqlen"],
            "batch": case["batch"],
            "mode": "training" if case["mode"] == "train" else "inference",
            "device": table_device(case["device"]),
            "measured_ms": case["label_ms"],
            "neusight_ms": case["neusight_ms"],
            "roofline_ms": case["roofline_ms"],
            "habitat_ms": case["habitat_ms"],
            "li_ms": case["micro_ms"],
        }
        if case["model_name"] in NETWORKS:
            row |= {
                f"{name}_ms": 1e3 * own[f"{key}_s"].sum() for name, key in (("ours", "predicted"), ("lower", "lower"), ("upper", "upper"))
            }
            row |= {f"ours_{group}_ms": 1e3 * own.loc[own["group"] == group, "predicted_s"].sum() for group in GROUPS}
            listed = operators(NETWORKS[case["model_name"]], int(case["batch"]), int(case["seqlen"]), case["mode"] == "train")
            gpu = one_die(kernel_devices.load(table_device(case["device"])))
            row["own_roofline_ms"] = 1e3 * float((roofline(operators_of(listed), gpu).latency_s * listed["count"]).sum())
            row["reason"] = ""
        else:
            row["reason"] = "architecture not published"
        rows.append(row)
    found = pd.DataFrame(rows)
    return found.sort_values(["device", "network", "mode", "batch"]).reset_index(drop=True)
