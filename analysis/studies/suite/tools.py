"""Who is right about what? Tools beside each other on the same measured rows, by question and source, as they are and at one efficiency.

A tool's answer "at one efficiency" is its answer times the constant that fits the other sources of the same question: what a user with
measurements of their own would try first. Our times are frozen predictions whose constants saw nothing of the judged source; our memory is
the shipped model's, some of whose counts were set with the Ultra-Scale Playbook's peaks in view, so it is no score on unknown rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.hardware.devices import Device
from analysis.paths import DATA
from analysis.studies.statistics import kendall_tau_b
from analysis.studies.suite.clean import at_its_best
from analysis.studies.training import sources
from analysis.tables import read_csv
from analysis.training.cases import COLUMNS, read

Floats = NDArray[np.float64]
RECORDED = DATA / "recorded" / "panel"
UTILISATION = 0.4
"""Share of the data-sheet peak in the rule of 6 FLOP a parameter and token: of the order that PaLM's authors print for large runs
(arXiv:2204.02311, table 3); the row "at one efficiency" fits it."""
LEAST_PLANS = 5
"""Plans of one model and number of GPUs below which no order is scored."""
SMALL = 8
"""Rows below which a source counts with the other small ones."""


def training_rows() -> pd.DataFrame:
    """Scored rows of the panel: id, source, setting (model and GPUs), measured_s, and each tool's step time (s), NaN where it has none."""
    frame = sources.panel_rows()
    ours = read_csv(DATA / "frozen" / "measured_suite" / "training_predictions.csv").drop_duplicates("row_id").set_index("row_id")
    parts = []
    for source in sources.PANEL:
        rows = sources.scored(frame, source)
        keys = [name for name in COLUMNS if name in rows.columns]
        number = rows.groupby(keys, sort=False, dropna=False).ngroup()
        own = ours.reindex([f"{source}:{k}" for k in number])
        parts.append(
            pd.DataFrame(
                {
                    "id": rows["id"].to_numpy(),
                    "source": source,
                    "setting": (rows["model"] + " " + rows["hidden_size"] + " " + rows["gpus"] + " " + rows["precision"]).to_numpy(),
                    "measured": sources.measured_step_s(rows),
                    "this project": own["predicted_s"].to_numpy(),
                    "lower": own["lower_s"].to_numpy(),
                    "upper": own["upper_s"].to_numpy(),
                    "6 FLOP a parameter and token": _rule(rows),
                }
            )
        )
    out = pd.concat(parts, ignore_index=True)
    peers = read_csv(RECORDED / "training.csv").rename(columns={"calculon_step_s": "Calculon", "llm_analysis_step_s": "llm-analysis"})
    return out.merge(peers, on="id", how="left")


def _rule(rows: pd.DataFrame) -> Floats:
    """6 x parameters x tokens over the GPUs' peak at `UTILISATION` (s); twice a parameter and token less where no weight is trained."""
    runs, kept, _ = read(rows[[name for name in COLUMNS if name in rows.columns]])
    peak = runs.device.each(_half_precision)
    out = np.full(len(rows), np.nan)
    flop = np.where(runs.trained, 6, 4) * runs.shape.active_parameters * runs.global_batch * runs.sequence
    out[kept] = flop / (runs.gpus * peak * UTILISATION)
    return out


def _half_precision(device: Device) -> float:
    """Its peak in bf16, or in fp16 where it has none (FLOP/s)."""
    name = next((name for name in ("bf16", "fp16") if name in device.peak), "")
    return device.peak_flop_per_s(name) if name else float("nan")


def served_rows() -> dict[str, pd.DataFrame]:
    """Clean points of InferenceX's benchmark by metric: source (model family), setting, measured, and each tool's time (ms)."""
    recorded = DATA / "recorded" / "aiconfigurator"
    ours = read_csv(DATA / "frozen" / "predictor_serving" / "points.csv")
    ours = ours[ours["split"] == "family"].set_index("id")
    answers = read_csv(recorded / "predictions.csv.gz")
    peer, roofs = (at_its_best(answers, mode).set_index("id") for mode in ("SILICON", "SOL"))
    genz = read_csv(recorded / "genz_predictions.csv").set_index("id")
    mlsysim = read_csv(recorded / "mlsysim_0.3.0.csv").set_index("id")
    out = {}
    for metric, name in (("ttft", "time to first token (prefill)"), ("tpot", "time per output token (decode)")):
        frame = pd.DataFrame({"id": ours.index, "measured": 1e3 * ours[f"{metric}_s"].to_numpy()})
        for column, key in (("this project", f"{metric}_ms"), ("lower", f"{metric}_lower_ms"), ("upper", f"{metric}_upper_ms")):
            frame[column] = ours[key].to_numpy()
        frame["aiconfigurator"] = peer[f"{metric}_ms"].reindex(frame["id"]).to_numpy()
        frame["aiconfigurator's roofline"] = roofs[f"{metric}_ms"].reindex(frame["id"]).to_numpy()
        frame["GenZ"] = genz[f"{metric}_ms"].reindex(frame["id"]).to_numpy()
        if metric in mlsysim:
            frame["mlsysim"] = mlsysim[metric].reindex(frame["id"]).to_numpy()
        flags = read_csv(recorded / "row_flags.csv.gz", dtype=str, keep_default_na=False).set_index("id").reindex(frame["id"])
        frame["source"] = "InferenceX, " + flags["model_family"].to_numpy()
        frame["setting"] = frame["id"].str.replace(r"_c\d+_.*$", "", regex=True)
        out[name] = frame[(flags["clean"] == "1").to_numpy()]
    return out


def at_one_efficiency(frame: pd.DataFrame, tool: str) -> Floats:
    """A tool's answers times the constant that fits the other sources: exp of the median log of measured over predicted there."""
    out = np.full(len(frame), np.nan)
    log = np.log(frame["measured"].to_numpy() / frame[tool].to_numpy(dtype=float))
    source = frame["source"].to_numpy()
    for name in np.unique(source):
        others = (source != name) & np.isfinite(log)
        medians = [np.median(log[others & (source == other)]) for other in np.unique(source[others])]
        if medians:
            out[source == name] = frame[tool].to_numpy(dtype=float)[source == name] * np.exp(np.median(medians))
    return out


def _tau(group: pd.DataFrame, answer: Floats) -> float:
    """Mean tau-b of plans of one model and number of GPUs, where a tool answers enough of them."""
    found = []
    for _, rows in group.assign(answer=answer).dropna(subset=["answer"]).groupby("setting"):
        if len(rows) >= LEAST_PLANS and rows["measured"].nunique() > 1 and rows["answer"].nunique() > 1:
            found.append(kendall_tau_b(rows["measured"], rows["answer"]))
    return float(np.mean(found)) if found else float("nan")


def scores(frame: pd.DataFrame, question: str) -> pd.DataFrame:
    """One row a source, tool and setting of the tool, on the source's rows; small sources are judged together.

    Columns: answered_percent, median_percent, bias_percent (median signed error), tau, covered_percent and width where the tool gives an
    interval.
    """
    tools = [name for name in frame.columns if name not in ("id", "source", "setting", "measured", "lower", "upper")]
    frame = frame.reset_index(drop=True)
    columns: dict[tuple[str, str], Floats] = {}
    for tool in tools:
        columns[tool, "as it is"] = frame[tool].to_numpy(dtype=float)
        if tool != "this project":
            columns[tool, "at one efficiency"] = at_one_efficiency(frame, tool)
    rows_of = frame["source"].map(frame["source"].value_counts())
    judged = frame["source"].where(rows_of >= SMALL, "small sources")
    out = []
    for source, group in frame.groupby(judged, sort=True):
        for (tool, setting), answers in columns.items():
            answer = answers[group.index]
            answered = np.isfinite(answer)
            if not answered.any():
                continue
            error = answer[answered] / group["measured"].to_numpy()[answered] - 1
            row = {"question": question, "source": source, "tool": tool, "setting": setting, "rows": len(group)}
            row |= {"answered_percent": 100 * answered.mean(), "median_percent": 100 * np.median(np.abs(error))}
            row |= {"bias_percent": 100 * np.median(error), "tau": _tau(group, answer), "covered_percent": np.nan, "width": np.nan}
            if tool == "this project":
                inside = group["measured"].between(group["lower"], group["upper"])[answered]
                row |= {"covered_percent": 100 * inside.mean(), "width": (group["upper"] / group["lower"])[answered].median()}
            out.append(row)
    return pd.DataFrame(out)


def memory_rows() -> pd.DataFrame:
    """Measured peaks of the panel: source, setting, measured (GiB), ours, and the rule of 16 bytes a parameter over what shards it."""
    from analysis.training.memory import GIB, memory

    frame = sources.panel_rows()
    frame = frame[frame["measured_memory_gib"] != ""]
    runs, kept, _ = read(frame[[name for name in COLUMNS if name in frame.columns]])
    frame, held = frame.iloc[kept], memory(runs)
    shards = runs.tensor * runs.pipeline * np.where(runs.zero == 3, runs.data, 1)
    state = np.where(np.isin(runs.zero, (0, 3)) | (runs.data == 1), 16.0, 4.0 + 12.0 / runs.data)
    return pd.DataFrame(
        {
            "id": frame["id"].to_numpy(),
            "source": frame["source"].to_numpy(),
            "setting": (frame["model"] + " " + frame["gpus"]).to_numpy(),
            "measured": pd.to_numeric(frame["measured_memory_gib"]).to_numpy(),
            "this project": held.total / GIB,
            "lower": held.ends[0] / GIB,
            "upper": held.ends[1] / GIB,
            "bytes of weights, gradients and optimizer": state * runs.shape.parameters / shards / GIB,
        }
    )


QUESTIONS: dict[str, Callable[[], pd.DataFrame]] = {"training step": training_rows, "memory of a training GPU": memory_rows}


def table() -> pd.DataFrame:
    """Every question, source and tool."""
    found = [scores(rows(), question) for question, rows in QUESTIONS.items()]
    served = [scores(frame, question) for question, frame in served_rows().items()]
    return pd.concat([*found, *served, served_elsewhere()], ignore_index=True)


def served_elsewhere() -> pd.DataFrame:
    """Served points of strangers by source: ours as frozen with the source left to others, and aiconfigurator on the same rows.

    Times per output token where the source prints them, else the output tokens per second of the whole run (its inverse is judged, so that
    an answer that is too fast has a negative bias in both).
    """
    ours = read_csv(DATA / "frozen" / "predictor_serving" / "sources.csv")
    ours = ours[ours["target"] == "tpot"].set_index("source")
    rows = read_csv(DATA / "published" / "served_panel.csv", dtype=str, keep_default_na=False)
    peer = read_csv(RECORDED / "serving.csv").set_index("row_id")
    out = []
    for source, group in rows.groupby("source", sort=True):
        if source not in ours.index or len(group) < SMALL:
            continue
        by_token = bool((group["measured_tpot_ms"] != "").any())
        name = "measured_tpot_ms" if by_token else "measured_out_tok_s"
        measured = pd.to_numeric(group[name].replace("", "nan")).to_numpy(dtype=float)
        answer = peer["tpot_ms" if by_token else "output_tokens_per_s"].reindex(group["row_id"]).to_numpy(dtype=float)
        ratio = answer / measured if by_token else measured / answer
        ratio = ratio[np.isfinite(measured)]
        good = ratio[np.isfinite(ratio)]
        own = ours.loc[source]
        common = {
            "question": "time per output token, other servers",
            "source": source,
            "setting": "as it is",
            "rows": len(ratio),
            "tau": np.nan,
        }
        out.append(
            common
            | {
                "tool": "this project",
                "answered_percent": 100 * own["rows"] / len(ratio),
                "median_percent": own["median_elsewhere_percent"],
            }
            | {
                "bias_percent": own["bias_elsewhere_percent"],
                "covered_percent": own["coverage_elsewhere_percent"],
                "width": own["width_elsewhere"],
            }
        )
        if len(good):
            scored = {"answered_percent": 100 * len(good) / len(ratio), "median_percent": 100 * np.median(np.abs(good - 1))}
            scored |= {"bias_percent": 100 * np.median(good - 1), "covered_percent": np.nan, "width": np.nan}
            out.append(common | {"tool": "aiconfigurator"} | scored)
    return pd.DataFrame(out)


def winners(found: pd.DataFrame, least_answered: float = 50.0) -> pd.DataFrame:
    """Of each question and source: the tool nearest and the one furthest off, of those that answer at least so many percent of the rows."""
    fair = found[found["answered_percent"] >= least_answered]
    out = []
    for (question, source), group in fair.groupby(["question", "source"], sort=False):
        order = group.sort_values("median_percent")
        best, worst = order.iloc[0], order.iloc[-1]
        out.append(
            {
                "question": question, "source": source, "rows": int(best["rows"]), "tools": group["tool"].nunique(),
                "best": f"{best['tool']}, {best['setting']}", "best_percent": best["median_percent"],
                "worst": f"{worst['tool']}, {worst['setting']}", "worst_percent": worst["median_percent"],
            }
        )  # fmt: skip
    return pd.DataFrame(out)
