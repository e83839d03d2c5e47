"""Is the second measurement faster or slower than the first? Only if both were made under the same conditions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.artifact.measuring.folder import read
from analysis.errors import InputError

CONTROL_TOLERANCE = 0.10
"""Largest relative difference of the arithmetic control's median; beyond it the machine ran at another speed."""


def first_difference(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, str] | None:
    """The first condition in which two measurements differ, as its name and what each says; None when all agree.

    Compared are the kit's version, the machine (CPU, caches, governor, memory, GPU, system), every library's version, the time budget, and
    for each device that both have its cores and accelerator, then its control kernel.
    """

    def walk(name: str, left: Any, right: Any) -> tuple[str, str] | None:
        if isinstance(left, dict) and isinstance(right, dict):
            for key in dict.fromkeys([*left, *right]):
                found = walk(f"{name}.{key}" if name else key, left.get(key, "nothing"), right.get(key, "nothing"))
                if found:
                    return found
            return None
        return None if left == right else (name, f"{left} in the first, {right} in the second")

    for key in ("kit_version", "machine", "budget_s"):
        found = walk(key, before[key], after[key])
        if found:
            return found
    shared = [name for name in before["devices"] if name in after["devices"]]
    if not shared:
        return "devices", f"{', '.join(before['devices'])} in the first, {', '.join(after['devices'])} in the second: none in common"
    for name in shared:
        found = walk(f"devices.{name}", before["devices"][name], after["devices"][name])
        if found:
            return found
        left, right = (facts["noise"][name]["control_arithmetic_s"] for facts in (before, after))
        if abs(right / left - 1) > CONTROL_TOLERANCE:
            return (
                f"noise.{name}.control_arithmetic_s",
                f"the control kernel took {left:.3g} s and {right:.3g} s: the machine ran at another speed",
            )
    return None


def compare(before: Path, after: Path) -> pd.DataFrame:
    """Ratios of median times, second over first, for each device.

    An operator counts as changed when the ranges between its 10th and 90th percentiles do not overlap.

    Returns:
        device, operators (count), ratio (geometric mean, 1), lowest, highest, faster, slower (changed operators, count).
    """
    first, second = read(before), read(after)
    difference = first_difference(first.facts, second.facts)
    if difference:
        name, detail = difference
        raise InputError(f"not comparable: {detail}", path=after, key=name)
    pairs = first.measurements.merge(second.measurements, on=["device", "operator"], suffixes=("_before", "_after"))
    if pairs.empty:
        raise InputError("not comparable: no operator was measured in both", path=after, key="operator")
    pairs["ratio"] = pairs["median_s_after"] / pairs["median_s_before"]
    pairs["faster"] = pairs["p90_s_after"] < pairs["p10_s_before"]
    pairs["slower"] = pairs["p10_s_after"] > pairs["p90_s_before"]
    rows = [
        {
            "device": device,
            "operators": len(part),
            "ratio": float(np.exp(np.log(part["ratio"]).mean())),
            "lowest": part["ratio"].min(),
            "highest": part["ratio"].max(),
            "faster": int(part["faster"].sum()),
            "slower": int(part["slower"].sum()),
        }
        for device, part in pairs.groupby("device", sort=False)
    ]
    return pd.DataFrame(rows)
