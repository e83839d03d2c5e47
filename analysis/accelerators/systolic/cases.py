"""What does each row of a case file cost on its systolic array, by SCALE-Sim's definitions?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.accelerators.systolic.array import DATAFLOWS, SCALE_SIM_3, Quirks, count, fits, kept
from analysis.accelerators.systolic.files import sparsity
from analysis.case_columns import Columns
from analysis.errors import InputError
from analysis.tables import numeric

INPUTS = ("M", "N", "K", "array_rows", "array_cols")
READS = Columns(names=(*INPUTS, "dataflow", "sparsity"), required=(*INPUTS, "dataflow"))
OUTPUTS = ("demand_rows", "mapping_eff_pct", "compute_util_pct", "ifmap_sram_reads", "filter_sram_reads", "ofmap_sram_writes")


def predict_cases(cases: pd.DataFrame, quirks: Quirks = SCALE_SIM_3, path: str | Path | None = None) -> pd.DataFrame:
    """The cases with their counts beside them: same rows, same order, same columns, then `OUTPUTS` and `reason`.

    A row that has no answer (a dimension that is not a whole number of at least 1, an unknown dataflow, counts beyond 63 bits)
    keeps its outputs empty and says why in `reason`.

    With a sparsity N:M the array runs the product of `array.kept` rows; a weight-stationary one reads a block of M inputs for each N rows.

    Args:
        cases: columns M, N, K, array_rows, array_cols (count), dataflow (os, ws or is); sparsity (N:M, empty: dense) if wanted.
    """
    missing = [column for column in (*INPUTS, "dataflow") if column not in cases]
    if missing:
        raise InputError(f"missing column; expected {', '.join((*INPUTS, 'dataflow'))}", path=path, line=1, key=", ".join(missing))
    result = cases.copy()
    reason = np.full(len(cases), "", dtype=object)
    good = np.ones(len(cases), dtype=bool)

    def refuse(rows: np.ndarray, why: str) -> None:
        nonlocal good
        reason[rows & good] = why
        good &= ~rows

    numbers: dict[str, np.ndarray] = {}
    for column in INPUTS:
        value = numeric(cases[column]).to_numpy(np.float64)
        whole = np.isfinite(value) & (value >= 1) & (value == np.floor(value)) & (value < 2.0**53)
        refuse(~whole, f"{column} must be a whole number of at least 1")
        numbers[column] = np.where(whole, value, 1).astype(np.int64)
    dataflow = cases["dataflow"].astype(str).str.strip().str.lower()
    refuse(~dataflow.isin(DATAFLOWS).to_numpy(), "dataflow must be one of os, ws, is")
    refuse(~fits(*(numbers[column] for column in INPUTS)), "the counts exceed 63 bits")

    ratios = cases["sparsity"].fillna("").astype(str).str.strip() if "sparsity" in cases else pd.Series("", index=cases.index)
    codes, texts = pd.factorize(ratios)
    known = [sparsity(text or "1:1") for text in texts]
    refuse(np.array([found is None for found in known], bool)[codes], "sparsity must be N:M with 1 <= N <= M")
    left, of = (np.array([(found or (1, 1))[part] for found in known], np.int64)[codes][good] for part in (0, 1))

    m, n, dense, rows, columns = (numbers[column][good] for column in INPUTS)
    k = kept(dense, left, of)
    counts = count(m, n, k, rows, columns, dataflow.to_numpy(str)[good], quirks)
    answers = {
        "demand_rows": counts.demand_rows,
        "mapping_eff_pct": 100 * counts.mapping_efficiency,
        "compute_util_pct": 100 * counts.compute_utilization,
        "ifmap_sram_reads": np.where(dataflow.to_numpy(str)[good] == "ws", counts.ifmap_sram_reads * of // left, counts.ifmap_sram_reads),
        "filter_sram_reads": counts.filter_sram_reads,
        "ofmap_sram_writes": counts.ofmap_sram_writes,
    }
    for column in OUTPUTS:
        kind = "Float64" if column.endswith("_pct") else "Int64"
        filled = pd.Series(pd.NA, index=cases.index, dtype=kind)
        filled[good] = answers[column]
        result[column] = filled
    result["reason"] = reason
    return result
