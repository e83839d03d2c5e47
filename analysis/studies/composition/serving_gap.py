"""The composition gap of serving, measured: gamma = (measured - sum of measured kernels) / sum, signed, and what it is made of.

For a serving point, the sum is the kernels of its mean decode step (batch and cached tokens of the simulated closed loop); measured is the
time per output token. The gap is split without remainder:
    launch and host       host time of a step
    scheduling            what the closed loop adds: prompts between tokens, batches around the mean
    engine                what is left, the same for every row of an engine and origin: fusion, overlap, other software versions
    kernels and the rest  what is left in the row: kernel error, missing operators, plans the table does not tell
Communication is a part of the sum, and stands beside it as a share.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.serving.points.cases import Case
from analysis.serving.points.closed_loop import RESULT
from analysis.serving.points.operators import PARTS
from analysis.serving.points.points import HOST, Points
from analysis.serving.points.step_table import on_grid

GAP_PARTS = ("launch_and_host", "scheduling", "engine", "kernels_and_rest")


def gaps(cases: list[Case | None], raw: Points, measured_s: np.ndarray) -> pd.DataFrame:
    """One row a case that was simulated on kernels measured on its GPU.

    Args:
        cases, raw: serving points with nothing fitted; measured_s: time per output token, shape (cases,).
    Returns: index (of the case), engine, origin, family, gpu, clients, kernels_s, communication_share, gamma, and `GAP_PARTS`, which add
        up to gamma.
    """
    rows = []
    for i, case in enumerate(cases):
        if case is None or not np.isfinite(raw.result[i, 0]) or not measured_s[i] > 0:
            continue
        table = raw.tables[raw.table_of[i]]
        found = dict(zip(RESULT, raw.result[i], strict=True))
        kernels = on_grid(table, found["batch"], found["cached"])
        total, host = float(kernels.sum()), HOST[case.engine].step_s
        rows.append(
            {
                "index": i,
                "engine": case.engine,
                "origin": case.origin,
                "family": case.model.family,
                "gpu": case.device,
                "clients": case.clients,
                "source": table.source,
                "kernels_s": total,
                "communication_share": float(kernels[PARTS.index("communication")] / total),
                "gamma": measured_s[i] / total - 1,
                "launch_and_host": host / total,
                "scheduling": (found["tpot_mean"] - total - host) / total,
            }
        )
    frame = pd.DataFrame(rows)
    left = frame["gamma"] - frame["launch_and_host"] - frame["scheduling"]
    frame["engine"] = frame["engine"].astype(str)
    common = left.groupby([frame["engine"], frame["origin"]]).transform("median")
    return frame.rename(columns={"engine": "framework"}).assign(engine=common, kernels_and_rest=left - common)


def by(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Median gamma and mean parts of each value of a column, with the rows it rests on."""
    grouped = frame.groupby(column)
    out = grouped[["gamma", *GAP_PARTS, "communication_share"]].mean()
    out.insert(0, "rows", grouped.size())
    out.insert(1, "gamma_median", grouped["gamma"].median())
    return out.reset_index()
