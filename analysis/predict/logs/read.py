"""Whose log is it? Its reader by what stands in it; a CSV of one's own points by its columns."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from analysis.case_columns import Columns, carried, nearest, reads
from analysis.errors import InputError
from analysis.predict.logs import served, trained
from analysis.predict.logs.log import MOST_POINTS, Log, lines
from analysis.tables import read_csv

MEASURED = {
    "training": ("step_s", "tokens_per_s_per_gpu", "memory_gib"),
    "serving": ("ttft_ms", "tpot_ms", "output_tokens_per_s", "requests_per_s"),
    "collective": ("time_us",),
}
"""Kind of question -> what may be measured: a column `measured_` and this name."""
JSON = re.compile(r"\s*(\{|\[\s*(\{|$))")
"""How a file of JSON objects begins, and no line of a log: `[rank0]:`, `[titan]`, `[2026-11-26`."""
LOOKED_AT = 200_000
"""Lines in which the first measured one has to stand."""


def read(path: str | Path) -> Log:
    """A log, or a table of points."""
    path = Path(path)
    if path.suffix in (".csv", ".parquet") or path.name.endswith(".csv.gz"):
        return table(path)
    for at, line in lines(path):
        if at < 10 and JSON.match(line):
            return served.read(path)
        for tool, mark in trained.MARKS.items():
            if mark.search(line):
                return trained.read(path, tool, lines(path))
        if at >= LOOKED_AT:
            break
    known = ", ".join(("JSON of vLLM, SGLang, AIPerf, genai-perf or InferenceX", *trained.MARKS, "CSV"))
    raise InputError(f"is no log that is known here; known: {known}", path=path)


def table(path: Path) -> Log:
    """A CSV of one's own points: the columns of a case command, and `measured_` columns."""
    frame = read_csv(path, dtype=str, keep_default_na=False)
    frame.columns = [str(name).strip() for name in frame.columns]
    if not 0 < len(frame) <= MOST_POINTS:
        raise InputError(f"has {len(frame):,} points; 1 to {MOST_POINTS:,} are compared", path=path)
    fit = {kind: _fits(frame.columns, reads(f"predict {kind}")) for kind in MEASURED}
    kind = max(fit, key=lambda name: fit[name])
    carried(frame.columns, f"predict {kind}", path)
    given = [name for name in frame.columns if name.startswith("measured_")]
    known = [f"measured_{name}" for name in MEASURED[kind]]
    for name in given:
        if name not in known and (near := nearest(name, known)):
            raise InputError(f"no such column; did you mean {near}?", path=path, line=1, key=name)
    if not set(given) & set(known):
        raise InputError(f"has no measured column; expected one of {', '.join(known)}", path=path, line=1)
    kept = [name for name in frame.columns if name in known or name in reads(f"predict {kind}").known()]
    return Log(kind, "CSV", [{name: str(cell) for name, cell in zip(kept, row, strict=True)} for row in frame[kept].to_numpy()], ())


def _fits(header: object, columns: Columns) -> float:
    """Share of a command's columns that a header has, those it must have first."""
    given = {columns.aliases.get(name, name) for name in header}  # type: ignore[attr-defined]
    needed = [name in given for name in columns.required] or [False]
    return float(np.mean(needed)) + len(given & set(columns.names)) / 100
