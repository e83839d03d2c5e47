"""Refits the calibrated all-reduce model on the measured tables and sums up its leave-one-out errors (what the full tier commits)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import yaml

from analysis.networks.measured_fabrics.model import Parameters
from analysis.paths import DATA
from analysis.studies.networks import fit as measured_fit
from analysis.studies.networks import tables as measured_tables
from analysis.tables import read_csv

SPLIT = (
    "all nine machine types and every GPU count (PipeWeave and quoted tables), medians by half octave; "
    "accuracy is stated on a machine type or GPU count left out, never on these rows"
)


@dataclass(frozen=True)
class Refit:
    """Parameters fitted on everything, and tables of what was left out."""

    parameters: Parameters
    summary: pd.DataFrame
    by_size: pd.DataFrame
    left_out: pd.DataFrame
    curves: pd.DataFrame


def refit() -> Refit:
    """Fits, leaves out and sums up: median over all measured rows, and over octaves of size so that small messages count alike."""
    raw = measured_tables.measured()
    binned = measured_tables.half_octaves(raw)
    parameters = measured_fit.fit(binned, SPLIT, measured_tables.input_hashes())
    predictors = {form: measured_fit.model(form) for form in measured_fit.FORMS} | {
        "protocols_fabric_fitted": measured_fit.model("protocols", blind=False),
        "interpolation": measured_fit.interpolation,
    }
    errors = measured_fit.leave_one_out(raw, binned, predictors)
    errors["octave"] = np.floor(np.log2(errors["size_bytes"])).astype(int)
    cells = errors.groupby(["scheme", "model", "left_out", "machine", "gpus", "octave"])["absolute_error"].median().reset_index()
    summary = (
        errors.groupby(["scheme", "model"])["absolute_error"]
        .agg(median_error="median", mean_error="mean", rows="size")
        .join(cells.groupby(["scheme", "model"])["absolute_error"].median().rename("median_error_by_octave"))
        .join(cells[cells["octave"] >= 20].groupby(["scheme", "model"])["absolute_error"].median().rename("median_error_from_1_mib"))
        .reset_index()
    )
    by_size = cells.groupby(["scheme", "model", "octave"])["absolute_error"].median().rename("median_error").reset_index()
    left_out = errors.groupby(["scheme", "model", "left_out"])["absolute_error"].agg(median_error="median", rows="size").reset_index()
    return Refit(parameters, summary, by_size, left_out, curves(binned))


def curves(binned: pd.DataFrame) -> pd.DataFrame:
    """Measured time by octave beside the prediction for a machine type that was left out, for the figure (s)."""
    octave = np.floor(np.log2(binned["size_bytes"])).astype(int)
    predict = measured_fit.model("protocols")
    parts = []
    for machine in sorted(set(binned["machine"])):
        test = binned[binned["machine"] == machine]
        parts.append(test.assign(octave=octave[test.index], predicted_s=predict(binned[binned["machine"] != machine], test)))
    joined = pd.concat(parts)
    return (
        joined.groupby(["machine", "origin", "gpus", "octave"])
        .agg(size_bytes=("size_bytes", "median"), measured_s=("time_s", "median"), predicted_s=("predicted_s", "median"))
        .reset_index()
    )


def astra_comparison() -> pd.DataFrame:
    """ASTRA-sim's validated 8-GPU setting beside the measured 8 x H200, both as recorded, and our prediction with H200 left out.

    Returns:
        size_bytes (bytes), measured_us, astra_us, ours_us (us), astra_error, ours_error (1, signed).
    Raises:
        DatasetMissing: the PipeWeave tables are not on this machine.
    """
    recorded = read_csv(DATA / "recorded" / "astra-sim" / "astra_hgx8_vs_nccl_h200.csv", required=["size_bytes", "astra_us", "nccl_us"])
    binned = measured_tables.half_octaves(measured_tables.measured())
    test = pd.DataFrame({"machine": "H200", "origin": "published", "gpus": 8, "size_bytes": recorded["size_bytes"].astype(float)})
    ours = 1e6 * measured_fit.model("protocols")(binned[binned["machine"] != "H200"], test)
    measured = recorded["nccl_us"]
    return pd.DataFrame(
        {
            "size_bytes": recorded["size_bytes"],
            "measured_us": measured,
            "astra_us": recorded["astra_us"],
            "ours_us": ours,
            "astra_error": recorded["astra_us"] / measured - 1,
            "ours_error": ours / measured - 1,
        }
    )


def parameters_yaml(parameters: Parameters) -> str:
    """The parameters as the text of `data/models/nccl_allreduce.yaml`."""
    head = "# Fitted by analysis.studies.networks.freeze.refit(); the full tier of the notebook nccl_calibrated writes this file.\n"
    return head + yaml.safe_dump(parameters.model_dump(), sort_keys=False, width=140)
