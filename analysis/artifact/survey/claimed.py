"""What tools claim against what was measured: the rows, their recomputation from recorded files, and the chart of the front page."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from typing import Literal

import pandas as pd
from pydantic import Field, model_validator

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.suite.clean import at_its_best
from analysis.studies.written_tables import Row
from analysis.tables import read_csv

MeasuredBy = Literal["us", "a competitor", "its own data"]
Question = Literal["gpu", "training", "serving", "collective"]
SIGNS = {"us": "●", "a competitor": "■", "its own data": "◆"}
NEUSIGHT_NAMES = {"NeuSight": "neusight", "Habitat": "habitat", "Li et al.": "Li et al.", "roofline": "roofline"}
TICKS_PERCENT = (2, 5, 10, 20, 50, 100, 200, 400)


class Measured(Row):
    """A row of data/survey/claimed_measured.csv: one error of one tool that somebody measured, beside the error that the tool claims.

    Attributes:
        tool: name.
        claimed_low, claimed: percent; low is None for a single value, both are None where no figure was found.
        claim, claim_source: what the claim is of, and its address.
        measured: mean absolute error (percent) over `cases` cases.
        question: what the measurement is of, as the chooser asks.
        setting: what was predicted; terms: what the tool was given, and whose cases they are.
        measured_by: a `MeasuredBy`.
        recomputed_from: the file of this repository that gives the number again; empty when there is none.
        source: address of the measurements.
    """

    tool: str
    claimed_low: float | None = Field(default=None, alias="claimed_low_percent")
    claimed: float | None = Field(default=None, alias="claimed_percent")
    claim: str
    claim_source: str
    question: Question
    measured: float = Field(alias="measured_percent", gt=0)
    cases: int = Field(ge=1)
    setting: str
    terms: str = Field(min_length=1)
    measured_by: MeasuredBy
    recomputed_from: str
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _a_claim_has_its_address(self) -> Measured:
        if self.claimed is not None and not self.claim_source:
            raise InputError("a claim needs its address", key="claim_source")
        return self


def recompute(row: Measured) -> float | None:
    """The measured error again, from the recorded file that the row names; None when it names none.

    Mean absolute percentage error: 100 mean |predicted - measured| / measured.
    """
    if not row.recomputed_from:
        return None
    frame = read_csv(DATA.parent / row.recomputed_from)
    if "ratio_astra_over_nccl" in frame.columns:
        return float(100 * ((frame["astra_us"] - frame["nccl_us"]).abs() / frame["nccl_us"]).mean())
    if "predicted_s" in frame.columns:
        return float(100 * ((frame["predicted_s"] - frame["measured_s"]).abs() / frame["measured_s"]).mean())
    if "tpot_ms" in frame.columns:
        return serving_error(frame)
    return float(_stored(frame, row.tool)["mape_pct"].iloc[0])


def serving_error(answers: pd.DataFrame) -> float:
    """Mean error of a tool's time per output token on the measured serving points that the book scores (%).

    Args:
        answers: id, status, tpot_ms; with `database_mode`, several answers a row: measured kernels, corrected widths and the row's own
            quantisation are taken first, as `studies.serving.points.study` does.
    """
    points = read_csv(DATA / "frozen" / "predictor_serving" / "points.csv").drop_duplicates("id")
    flags = read_csv(DATA / "recorded" / "aiconfigurator" / "row_flags.csv.gz")
    chosen = at_its_best(answers) if "database_mode" in answers.columns else answers[answers["status"] == "ok"]
    both = chosen.merge(points[["id", "tpot_s"]], on="id")
    both = both[both["id"].isin(flags.loc[flags["clean_no_deepseek"] == 1, "id"])]
    return float(100 * ((1e-3 * both["tpot_ms"] - both["tpot_s"]).abs() / both["tpot_s"]).mean())


def with_fp8_cache() -> pd.DataFrame:
    """What aiconfigurator gains from the FP8 KV cache of the launch scripts, on the judged rows whose script has one.

    Returns:
        columns family (`all` last), rows (count), and medians of the absolute error (%) of time per output token and time to first token:
        without (the cache type that it assumes), given (FP8), ours (model family left out).
    """
    folder = DATA / "recorded" / "aiconfigurator"
    given = read_csv(folder / "fp8_cache.csv")
    scored = at_its_best(read_csv(folder / "predictions.csv.gz"))
    rows = given[given["status"] == "ok"].merge(scored, on="id", suffixes=("_given", "_without"))
    points = read_csv(DATA / "frozen" / "predictor_serving" / "points.csv")
    rows = rows.merge(points[points["split"] == "family"], on="id").rename(columns={"ttft_ms": "ttft_ms_ours", "tpot_ms": "tpot_ms_ours"})
    rows = rows.merge(read_csv(folder / "row_flags.csv.gz")[["id", "model_family"]], on="id")
    lines = []
    for family, part in [*rows.groupby("model_family"), ("all", rows)]:
        line: dict[str, object] = {"family": family, "rows": len(part)}
        for target in ("tpot", "ttft"):
            for whose in ("without", "given", "ours"):
                error = (1e-3 * part[f"{target}_ms_{whose}"] / part[f"{target}_s"] - 1).abs()
                line[f"{target}_{whose}_percent"] = float(100 * error.median())
        lines.append(line)
    return pd.DataFrame(lines)


def stored_median(tool: str) -> float:
    """Median error of a tool over the whole networks of NeuSight's stored predictions (%); beside the mean, it shows the tail."""
    frame = read_csv(DATA / "recorded" / "neusight" / "summary.csv")
    return float(_stored(frame, tool)["median_ape"].iloc[0])


def _stored(frame: pd.DataFrame, tool: str) -> pd.DataFrame:
    chosen = (
        (frame["level"] == "model_e2e") & (frame["device"] == "ALL NVIDIA") & (frame["slice"] == "inf+train")
        & (frame["predictor"] == NEUSIGHT_NAMES[tool])
    )  # fmt: skip
    return frame[chosen]


def by_tool(rows: Iterable[Measured]) -> list[list[Measured]]:
    """The rows of each tool together: largest gap between measured and claimed first, tools without a claim after them, baselines last."""
    groups: dict[str, list[Measured]] = {}
    for row in rows:
        groups.setdefault(row.tool, []).append(row)
    for group in groups.values():
        group.sort(key=lambda row: row.measured)

    def place(group: list[Measured]) -> tuple[int, float]:
        last = group[-1]
        if last.tool == "roofline":
            return 2, 0.0
        return (1, last.measured) if last.claimed is None else (0, -last.measured / last.claimed)

    return sorted(groups.values(), key=place)


def percent(value: float) -> str:
    """An error to the two digits that a mean over some tens of cases supports."""
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def _share(value: float) -> float:
    """Place on the axis (percent of its length), logarithmic from the first tick to the last."""
    low, high = math.log(TICKS_PERCENT[0] * 0.9), math.log(TICKS_PERCENT[-1])
    return 100 * (math.log(min(max(value, TICKS_PERCENT[0] * 0.9), TICKS_PERCENT[-1])) - low) / (high - low)


def factors(rows: Iterable[Measured]) -> pd.DataFrame:
    """Measured over claimed error of each tool that has a claim: columns tool, least and worst (over its rows, 1), rows (count)."""
    groups = [group for group in by_tool(rows) if group[0].claimed is not None]
    return pd.DataFrame(
        [
            {
                "tool": group[0].tool,
                "least": min(row.measured / float(row.claimed or 1) for row in group),
                "worst": max(row.measured / float(row.claimed or 1) for row in group),
                "rows": len(group),
            }
            for group in groups
        ]
    )


def chart_html(rows: Iterable[Measured], nobody: Mapping[str, float]) -> str:
    """The chart as HTML that follows width and colours of its page: a table, each row with its claim, its measurements and a bar.

    Args:
        nobody: tool -> claimed error (%) of tools that nobody scored, its authors' own data included.
    """
    lines = []
    for index, group in enumerate(by_tool(rows)):
        first = group[0]
        values = [row.measured for row in group]
        marks = []
        span = values + ([first.claimed] if first.claimed is not None else [])
        if len(span) > 1:
            left, right = _share(min(span)), _share(max(span))
            marks.append(f'<i class="line" style="left:{left:.1f}%;width:{right - left:.1f}%"></i>')
        if first.claimed is not None:
            left = _share(first.claimed_low or first.claimed)
            width = _share(first.claimed) - left
            marks.append(f'<i class="claimed" style="left:{left:.1f}%;width:{width:.1f}%"></i>')
            said = f"{percent(first.claimed_low)}–{percent(first.claimed)} %" if first.claimed_low else f"{percent(first.claimed)} %"
        else:
            said = "—"
        marks += [
            f'<i class="measured {row.measured_by.split()[-1]}" style="left:{_share(row.measured):.1f}%" '
            f'title="{html.escape(f"measured by {row.measured_by}: {row.setting}; {row.terms}")}"></i>'
            for row in group
        ]
        if index == 0:
            marks += [
                f'<b class="claimed" style="left:{_share(first.claimed or 1):.1f}%">claimed</b>',
                f'<b class="measured" style="left:{_share(first.measured):.1f}%">measured</b>',
            ]
        got = " and ".join(f"{SIGNS[row.measured_by]}\u00a0{percent(row.measured)}" for row in group) + "\u00a0%"
        name = "roofline alone" if first.tool == "roofline" else first.tool
        lines.append(
            f'<tr><th scope="row">{html.escape(name)}</th><td class="track" aria-hidden="true"><span>{"".join(marks)}</span></td>'
            f'<td class="said">{said}</td><td class="got">{got}</td></tr>'
        )
    marks = [f'<i class="claimed" style="left:{_share(value):.1f}%" title="{html.escape(name)}"></i>' for name, value in nobody.items()]
    lines.append(
        f'<tr><th scope="row">{len(nobody)} others</th><td class="track" aria-hidden="true"><span>{"".join(marks)}</span></td>'
        '<td class="said">claimed</td><td class="got">by nobody</td></tr>'
    )
    ticks = "".join(f'<i style="left:{_share(tick):.1f}%">{tick} %</i>' for tick in (2, 5, 10, 20, 50, 100, 400))
    legend = ", ".join(f"{sign}\u00a0{by}" for by, sign in SIGNS.items())
    return (
        '<table class="dots"><thead><tr><th scope="col">tool</th><td class="track" aria-hidden="true"></td>'
        '<th scope="col" class="said">claimed error</th><th scope="col" class="got">measured error</th></tr></thead>'
        f'<tbody>{"".join(lines)}</tbody><tfoot><tr><th scope="row">scale</th><td class="track"><span>{ticks}</span></td>'
        f'<td></td><td></td></tr><tr><td colspan="4">measured by {legend}; last line: by nobody</td></tr></tfoot></table>'
    )
