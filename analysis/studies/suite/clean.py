"""What is wrong with a measured serving point? Rules on the row and its neighbours alone."""

from __future__ import annotations

import pandas as pd

from analysis.paths import DATA
from analysis.tables import read_csv

CONFIGURATION = [
    "backend", "backend_version", "model_path", "system", "precision", "mode", "isl", "osl", "gemm_quant_mode", "moe_quant_mode",
    "batch_size", "tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size", "prefill_batch_size",
    "prefill_num_workers", "prefill_tp_size", "prefill_pp_size", "prefill_attention_dp_size", "prefill_moe_tp_size",
    "prefill_moe_ep_size", "decode_batch_size", "decode_num_workers", "decode_tp_size", "decode_pp_size",
    "decode_attention_dp_size", "decode_moe_tp_size", "decode_moe_ep_size",
]  # fmt: skip
TIMES = ["silicon_ttft_ms", "silicon_tpot_ms"]
WIDTHS = ["tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size"]


def _unrecorded() -> pd.DataFrame:
    """Rows whose plan the benchmark did not write down, by id, with the real one."""
    flags = read_csv(DATA / "recorded" / "aiconfigurator" / "row_flags.csv.gz", dtype=str, keep_default_na=False)
    return flags[flags["plan_unrecorded"] == "1"].drop_duplicates("id").set_index("id")


def as_run(points: pd.DataFrame) -> pd.DataFrame:
    """Points (text) with the plan that the benchmark's scripts ran, where its results do not say it (`plan_unrecorded` of row_flags).

    Until 3 November 2025 the results had no expert parallelism and no attention data parallelism; such rows stand as tensor parallel.
    Source: https://github.com/SemiAnalysisAI/InferenceX/pull/145, /pull/204 and the launch scripts before them. 54 of these rows have a
    run of December with the plan written down: 0.4 % apart in the median.
    """
    real = _unrecorded().reindex(points["id"])
    found, known = points.copy(), real["clean"].notna().to_numpy()
    for name in WIDTHS:
        found.loc[known, name] = real[f"real_{name}"].to_numpy()[known]
    ranks = real["real_attention_dp_size"].to_numpy()[known].astype(int)
    found.loc[known, "batch_size"] = (real["concurrency"].to_numpy()[known].astype(int) // ranks).astype(str)
    return found


def serving_flags(points: pd.DataFrame) -> pd.Series:
    """Flags of each point, separated by blanks; empty where nothing is wrong.

    repeat: the same configuration and the same two times as an earlier row (a copy, not a measurement);
    squared_width: both widths of the experts above one and equal, or tensor and attention data parallelism equal and above one: N GPUs that
    became N x N; implausible_width: more than eight GPUs in one aggregated server, not squared; no_worker_counts: disaggregated without the
    number of prefill workers, so that the total of GPUs is unknown; plan_unrecorded: see `as_run`;
    deepseek: multi-token prediction is in some rows and in no column.
    """
    together = points["mode"] == "agg"
    squared = together & (
        ((points["moe_tp_size"] == points["moe_ep_size"]) & (points["moe_tp_size"] > 1))
        | ((points["tp_size"] == points["attention_dp_size"]) & (points["tp_size"] > 1))
    )
    wide = together & (points["tp_size"] * points["attention_dp_size"].fillna(1) > 8) & ~squared
    rules = {
        "repeat": points.duplicated(CONFIGURATION + TIMES),
        "squared_width": squared,
        "implausible_width": wide,
        "no_worker_counts": (points["mode"] == "disagg") & points["prefill_num_workers"].isna(),
        "plan_unrecorded": points["id"].isin(_unrecorded().index),
        "deepseek": points["model_path"].str.contains("DeepSeek"),
    }
    words = pd.Series("", index=points.index)
    for name, found in rules.items():
        words = words.where(~found, words + " " + name)
    return words.str.strip()


def at_its_best(answers: pd.DataFrame, mode: str = "SILICON") -> pd.DataFrame:
    """aiconfigurator's answer to each row: corrected widths first, then the row's own quantisation; `mode`: measured kernels, or SOL."""
    chosen = answers[(answers["status"] == "ok") & (answers["database_mode"] == mode)]
    order = 2 * (chosen["widths"] != "corrected") + (chosen["quantisation"] != "csv_quant")
    return chosen.assign(order=order).sort_values("order", kind="stable").drop_duplicates("id").drop(columns="order")
