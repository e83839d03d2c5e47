"""Measured against predicted: the points of a log, inside or outside the predictor's interval, and which part could explain each.

    a part explains a point alone if it took  1 + (measured - predicted) / part  times as long

Of the predictor's parts (kernels, collectives, host, queue, ...) the one is named whose time would have to move by the fewest of its own
standard deviations; none where each would have to move by more than `FARTHEST`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.errors import InputError
from analysis.predict.logs.log import Log
from analysis.predict.logs.read import MEASURED, read
from analysis.site import Site
from analysis.tables import as_number

Parts = dict[str, tuple[float, float]]
"""Part of an answer -> its share, and the standard deviation that it gives the answer's logarithm."""

FARTHEST = 4.0
"""Factor on a part's time beyond which it is not believed to explain a point by itself."""
LEAST_DOUBT = 0.05
"""Doubt (logarithm) of any part: clocks, releases, what a log does not say."""
NEEDED = {
    "training": ("model", "device", "gpus", "sequence_length", "global_batch"),
    "serving": ("model", "device", "engine", "tensor_parallel", "input_tokens", "output_tokens", "clients"),
    "collective": ("device", "gpus", "collective"),
}
"""What a question must say."""


@dataclass(frozen=True)
class Answered:
    """Answers to a log's rows: the case command's table, and of each row by target its parts and what a site's constants multiply."""

    table: pd.DataFrame
    parts: list[dict[str, Parts]]
    terms: list[dict[str, dict[str, float]]]


def question(log: Log, options: Mapping[str, object], path: str | Path | None = None) -> tuple[pd.DataFrame, list[str]]:
    """Rows of the case command, as text, from a log and the options that say what it does not; and what the options overrule."""
    given = {name: str(value) for name, value in options.items() if value not in (None, "")}
    for name in given:
        if not _column(name, log.kind):
            raise InputError(f"is no part of a question of {log.kind}", key=f"--{name.replace('_', '-')}")
    notes, rows = [], []
    for row in log.rows:
        if log.tool == "CSV":
            rows.append({**row, **{_column(name, log.kind): value for name, value in given.items()}})
            continue
        notes += [f"{name} {value}, as the option says, not {row[name]}" for name, value in given.items() if row.get(name, value) != value]
        row = {**row, **given}
        if log.kind == "training" and "hidden_size" in row:
            row.setdefault("model", "as its sizes say")
        missing = [name for name in NEEDED[log.kind] if not row.get(name) and not (name == "tensor_parallel" and row.get("gpus"))]
        if missing:
            said = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
            raise InputError(f"this log of {log.tool} does not say {', '.join(missing)}: give {said}", path=path, key=missing[0])
        rows.append(_served(row) if log.kind == "serving" else row)
    return pd.DataFrame(rows).fillna("").astype(str), list(dict.fromkeys(notes))


def _column(option: str, kind: str) -> str:
    """The case command's column for an option, in any vocabulary; empty where it has none."""
    from analysis.case_columns import reads

    return "attention_dp_size" if (option, kind) == ("data_parallel", "serving") else reads(f"predict {kind}").read_as(option)


def _served(row: dict[str, str]) -> dict[str, str]:
    """A serving point in the case command's columns: labels from means, clients of a rank."""
    found = {_column(name, "serving") or name: value for name, value in row.items()}
    if "arrival" in row:  # sent by a client of the log's own, whose lengths are means where nothing else is said
        found.setdefault("length_low", "1")
    ranks = float(row.get("data_parallel") or 1)
    if ranks > 1:
        found["batch_size"] = f"{max(1, round(float(row['clients']) / ranks))}"
    return {"mode": "agg", **found}


def ask(kind: str, frame: pd.DataFrame, site: Site | None = None) -> Answered:
    """The case command's answers to a table of its columns, with parts and terms."""
    return ASK[kind](frame, site)


def _training(frame: pd.DataFrame, site: Site | None) -> Answered:
    from analysis.training import answers, cases, interval
    from analysis.training.step import BREAKDOWN, NAMES, Plans, step
    from analysis.training.work import parts

    table = answers.answers(frame, site)
    found, rows, _ = cases.read(frame)
    answered = (table["status"] == "").to_numpy()
    out = Answered(table, [{} for _ in frame.index], [{} for _ in frame.index])
    if not answered.any():
        return out
    live, items = rows[answered[rows]], found.take(answered[rows])
    work, plans, shares, spread = parts(items), Plans.of(items), answers.fitted().shares, answers.fitted().spread
    seconds, moves = step(work, plans, shares), interval.moves(interval.log_step(work, plans), shares, spread)
    terms = interval.site_terms(items, work, plans, shares, spread)
    for place, index in enumerate(live):
        whole = float(seconds["total"][place])
        time = {part: sum(float(seconds[name][place]) for name in BREAKDOWN if PART_OF_STEP[name] == part) for part in SHARES_OF}
        moved = {
            part: [x for x, name in zip(moves[place], NAMES, strict=True) if name.startswith(names)] for part, names in SHARES_OF.items()
        }
        doubt = {part: float(np.linalg.norm(x)) for part, x in moved.items()}
        out.parts[index]["step_s"] = {part: (time[part] / whole, doubt[part]) for part in SHARES_OF if time[part] > 0}
        out.terms[index]["step_s"] = terms[place]
    return out


SHARES_OF = {
    "kernels": ("product", "rowwise", "grouped", "attention", "flash", "stream", "loss"),
    "collectives": ("tensor", "expert", "context", "send", "gather", "reduce"),
    "host": ("host", "between", "routing", "expert_host", "graphed", "grace", "pipelined_host"),
}
"""Part -> how the fitted shares begin that its time goes with."""
PART_OF_STEP = {"communication": "collectives", "reduce": "collectives", "host": "host", "bubble": "bubble"} | dict.fromkeys(
    ("products", "attention", "memory_bound", "recompute", "output_layer", "optimizer"), "kernels"
)


def _serving(frame: pd.DataFrame, site: Site | None) -> Answered:
    from analysis.serving.points import answers, waterfall
    from analysis.serving.points.constants import load

    (found, result), parameters = answers.answered(frame, site), load()
    table = result.table
    out = Answered(table, [{} for _ in found], [{} for _ in found])
    for index, item in enumerate(found):
        if item is None or table["status"].iloc[index]:
            continue
        answered = {name: float(table[name].iloc[index]) for name in ("ttft_ms", "tpot_ms")}
        made = waterfall.breakdown(index, item, result.raw, result.features, parameters, answered)
        for target, rows in made[made["ms"] > 0].groupby("target"):
            whole = float(rows["ms"].sum())
            parts: Parts = {}
            for part, ms, sd in zip(rows["part"].astype(str), rows["ms"].to_numpy(float), rows["doubt"].to_numpy(float), strict=True):
                name = PART_OF_TOKEN.get(part, "engine" if "fitted" in part else part)
                share, doubt = parts.get(name, (0.0, 0.0))
                parts[name] = (share + ms / whole, math.hypot(doubt, ms / whole * sd))
            out.parts[index][f"{target}_ms"] = parts
        terms = answers.site_terms(result.features.iloc[[index]])[0]
        out.terms[index] |= {"ttft_ms": terms, "tpot_ms": terms}
    return out


PART_OF_TOKEN = {
    **dict.fromkeys(("matrix products", "attention", "experts", "norms and element-wise kernels", "vocabulary and sampling"), "kernels"),
    "communication": "collectives", "scheduling: prompts between tokens": "prompts between tokens", "the prompt's own steps": "kernels",
}  # fmt: skip


def _collective(frame: pd.DataFrame, site: Site | None) -> Answered:
    from analysis.networks import collective_cases

    table = collective_cases.answers(frame, site)
    out = Answered(table, [{} for _ in range(len(frame))], [{} for _ in range(len(frame))])
    for index, row in enumerate(frame.astype(str).to_dict("records")):
        if not table["status"].iloc[index]:
            parts, terms = collective_cases.parts_of({str(name): str(cell) for name, cell in row.items()})
            out.parts[index]["time_us"] = {name: (share, share * sd) for name, (share, sd) in parts.items()}
            out.terms[index]["time_us"] = terms
    return out


ASK: dict[str, Callable[[pd.DataFrame, Site | None], Answered]] = {"training": _training, "serving": _serving, "collective": _collective}

ANSWER = {
    "step_s": ("step_time_s", "lower_s", "upper_s", "step_s"), "tokens_per_s_per_gpu": ("tokens_per_s_per_gpu", "", "", "step_s"),
    "memory_gib": ("memory_gib", "memory_lower_gib", "memory_upper_gib", ""), "time_us": ("time_us", "lower_us", "upper_us", "time_us"),
    "ttft_ms": ("ttft_ms", "ttft_lower_ms", "ttft_upper_ms", "ttft_ms"),
    "tpot_ms": ("tpot_ms", "tpot_lower_ms", "tpot_upper_ms", "tpot_ms"),
    "output_tokens_per_s": ("output_tokens_per_s", "output_tokens_per_s_lower", "output_tokens_per_s_upper", "tpot_ms"),
    "requests_per_s": ("requests_per_s", "requests_per_s_lower", "requests_per_s_upper", "tpot_ms"),
}  # fmt: skip
"""What is measured -> columns of the answer, and the time (of `analysis.site.MODELS`) behind it; a rate goes with one over it."""
RATES = ("tokens_per_s_per_gpu", "output_tokens_per_s", "requests_per_s")


def points(kind: str, frame: pd.DataFrame, answered: Answered) -> pd.DataFrame:
    """A row for each measured value: point, metric, measured, predicted, lower, upper, ratio, inside, explained_by, assumed, status."""
    out = []
    for index, (row, answer) in enumerate(zip(frame.to_dict("records"), answered.table.to_dict("records"), strict=True)):
        for metric in MEASURED[kind]:
            measured = as_number(row.get(f"measured_{metric}", ""))
            if not measured > 0:
                continue
            value, low, high, target = ANSWER[metric]
            predicted, ends = float(answer[value]), [float(answer.get(name, math.nan)) for name in (low, high)]
            if metric == "tokens_per_s_per_gpu":
                ends = [predicted * answer["step_time_s"] / answer[name] for name in ("upper_s", "lower_s")]
            sent = row.get("arrival") == "poisson" or row.get("request_rate", "") not in ("", "0", "0.0")
            parts = {} if metric in RATES and sent else answered.parts[index].get(target, {})  # a rate is then the senders'
            ratio = measured / predicted
            out.append(
                {
                    "point": index + 1, "metric": metric, "measured": measured, "predicted": predicted, "lower": ends[0], "upper": ends[1],
                    "ratio": ratio, "inside": "yes" if ends[0] <= measured <= ends[1] else "no" if ends[0] == ends[0] else "",
                    "explained_by": explanation(1 / ratio if metric in RATES else ratio, parts),
                    "assumed": answer["assumed"], "status": answer["status"],
                }
            )  # fmt: skip
    return pd.DataFrame(out)


def explanation(ratio: float, parts: Parts) -> str:
    """Which part's time alone could make an answer `ratio` times as long; empty where there are no parts."""
    if not parts or ratio != ratio:
        return ""
    needed = {name: 1 + (ratio - 1) / share for name, (share, _) in parts.items() if share > 0}
    able = {name: x for name, x in needed.items() if 1 / FARTHEST <= x <= FARTHEST}
    if not able:
        return "no part alone"
    best = min(able, key=lambda name: abs(math.log(able[name])) * parts[name][0] / math.hypot(parts[name][1], LEAST_DOUBT * parts[name][0]))
    return f"{best} x {able[best]:.2f}"


@dataclass(frozen=True)
class Comparison:
    """Logs against answers: their kind and frame, the answers, a row for each measured value, and notes on them all."""

    kind: str
    frame: pd.DataFrame
    answered: Answered
    table: pd.DataFrame
    notes: tuple[str, ...]


def compare(paths: Sequence[str | Path], options: Mapping[str, object], site: Site | None = None) -> Comparison:
    """Logs of one kind against the predictor's answers.

    Args:
        paths: logs; options: what they do not say, by the names of `NEEDED` and of the case command; site: whose constants hold.
    """
    logs = [(path, read(path)) for path in paths]
    kinds = sorted({log.kind for _, log in logs})
    if len(kinds) > 1:
        raise InputError(f"logs of {' and '.join(kinds)}: compare one kind at a time", path=paths[-1])
    asked = [(log, *question(log, options, path)) for path, log in logs]
    frame = pd.concat([found for _, found, _ in asked], ignore_index=True).fillna("").astype(str)
    answered = ask(kinds[0], frame, site)
    table = points(kinds[0], frame, answered)
    if table.empty:
        raise InputError("has no measured value", path=paths[0])
    if (table["status"] != "").all():
        raise InputError(f"no point is answered, such as: {table['status'].iloc[0]}", path=paths[0])
    notes = dict.fromkeys(note for log, _, said in asked for note in (f"log of {log.tool}", *log.notes, *said))
    return Comparison(kinds[0], frame, answered, table, tuple(notes))


def summary(table: pd.DataFrame) -> list[dict[str, Any]]:
    """For each metric: points, answered, median measured over predicted, median absolute error (%), how many lie inside."""
    found = []
    for metric, rows in table.groupby("metric", sort=False):
        kept = rows[(rows["status"] == "") & np.isfinite(rows["ratio"])]
        error = float(100 * (1 / kept["ratio"] - 1).abs().median())
        one = {"metric": metric, "points": len(rows), "answered": len(kept), "inside": int((kept["inside"] == "yes").sum())}
        found.append({**one, "median_ratio": float(kept["ratio"].median()), "median_error_percent": error})
    return found


def report(found: Comparison) -> str:
    """The comparison as text."""
    lines = [f"{'point':>5} {'':24} {'measured':>12} {'predicted':>12} {'90 % interval':>25}  inside  explained by"]
    for row in found.table.to_dict("records"):
        if row["status"]:
            lines.append(f"{row['point']:5} {row['metric']:24} {row['measured']:12.5g} {row['status']}")
            continue
        ends = f"{row['lower']:.5g} to {row['upper']:.5g}"
        numbers = f"{row['measured']:12.5g} {row['predicted']:12.5g} {ends:>25}"
        lines.append(f"{row['point']:5} {row['metric']:24} {numbers}  {row['inside']:6}  {row['explained_by']}")
    for one in summary(found.table):
        lines.append(
            f"{one['metric']}: {one['answered']} of {one['points']} points answered, {one['inside']} inside; median error "
            f"{one['median_error_percent']:.1f} %, measured over predicted {one['median_ratio']:.3f}"
        )
    said = dict.fromkeys(text for row in found.table["assumed"] for text in str(row).split("; ") if text)
    return "\n".join([*lines, "taken:", *(f"  {note}" for note in found.notes), "assumed:", *(f"  {text}" for text in said)])


def calibrated(found: Comparison, name: str) -> Site:
    """A site from the points of a comparison that are answered (with no site of its own): constants of every time that was measured.

    A rate stands for the time behind it where that was not measured itself.
    """
    from analysis.site import MODELS, fit

    table = found.table[(found.table["status"] == "") & np.isfinite(found.table["ratio"])]
    errors: dict[str, dict[int, float]] = {}
    for row in sorted(table.to_dict("records"), key=lambda one: one["metric"] in RATES):
        target = ANSWER[row["metric"]][3]
        if target in MODELS:
            sign = -1.0 if row["metric"] in RATES else 1.0
            errors.setdefault(target, {}).setdefault(row["point"] - 1, sign * math.log(row["ratio"]))
    if not errors:
        raise InputError(f"no measured value can be calibrated; expected one of {', '.join(MODELS)} or a rate")
    measured = {
        target: fit(target, [found.answered.terms[index][target] for index in rows], np.array(list(rows.values())))
        for target, rows in errors.items()
    }
    return Site(name=name, measured=measured)


def calibration_text(site: Site) -> str:
    """What was fitted, in lines: the error before and after, and the constants farthest from 1."""
    lines = []
    for target, one in site.measured.items():
        before, after = one.error_percent
        lines.append(f"{target}: {one.points} points; median error {before:.1f} %, each point calibrated by the others {after:.1f} %")
        if one.weight <= 0.5:
            lines.append(f"  your log supports no correction: constants count for {one.weight:.0%} of their worth")
        far = sorted(one.factors.items(), key=lambda pair: -abs(math.log(pair[1])))
        lines += [f"  x {factor:.3f}  {term}" for term, factor in far[:8] if abs(math.log(factor)) > 5e-3]
    return "\n".join(lines)
