"""Is the plan that we would recommend as good as the best that was measured? The playbook's sweeps, their source left out of the fit."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.studies.training import sources
from analysis.studies.training.fit import Prepared
from analysis.training.cases import COLUMNS, read
from analysis.training.memory import fits, memory
from analysis.training.step import step

CELL = ["model", "gpus"]


def swept() -> tuple[Prepared, NDArray[np.float64]]:
    """Plans of the playbook that ran, broken runs apart, and those that did not; measured step of each (s; infinite: it failed)."""
    ran, failed = sources.scored(sources.panel_rows(), "ultrascale"), sources.failed_plans()
    frame = pd.concat([ran, failed], ignore_index=True).fillna("")
    cases, _, errors = read(frame[[name for name in COLUMNS if name in frame.columns]].astype(str))
    assert not errors, errors
    step_s = np.concatenate([sources.measured_step_s(ran), np.full(len(failed), np.inf)])
    plain = np.ones(len(frame))
    runs = sources.Runs("ultrascale", list(cases), step_s, plain, plain)
    return Prepared.of(runs), step_s


def choices(shares: NDArray[np.float64]) -> pd.DataFrame:
    """The fastest plan that surely fits, of each model and number of GPUs, against the best measured: `reached` is best over chosen step.

    A chosen plan that failed reaches 0. Beside it what the plan of most data parallelism, and the fastest by time alone, reach.

    Args:
        shares: fitted without the playbook.
    """
    prepared, measured_s = swept()
    cases = prepared.runs.cases
    frame = pd.DataFrame({"model": [item.name for item in cases], "gpus": [item.gpus for item in cases], "measured_s": measured_s})
    frame["predicted_s"] = step(prepared.parts, prepared.plans, shares)["total"]
    frame["surely"] = fits(cases, memory(cases)) == "yes"
    frame["data"] = [item.data for item in cases]
    frame["plan"] = [
        f"DP {item.data} TP {item.tensor} PP {item.pipeline} microbatch {item.micro_batch:g} ZeRO {item.zero}" for item in cases
    ]
    found = []
    for (model, gpus), cell in frame.groupby(CELL):
        best = float(cell["measured_s"].min())
        sure = cell[cell["surely"]]
        if sure.empty or not np.isfinite(best):
            continue
        chosen = sure.sort_values("predicted_s").iloc[0]
        blind = cell.sort_values("predicted_s").iloc[0]
        widest = sure.sort_values(["data", "predicted_s"], ascending=[False, True]).iloc[0]
        found.append(
            {"model": model, "gpus": gpus, "plans": len(cell), "ran": int(np.isfinite(cell["measured_s"]).sum()), "best_s": best}
            | {"plan": chosen["plan"], "chosen_s": chosen["measured_s"], "reached": best / chosen["measured_s"]}
            | {"reached_by_time_alone": best / blind["measured_s"], "reached_by_most_data_parallel": best / widest["measured_s"]}
        )
    return pd.DataFrame(found)
