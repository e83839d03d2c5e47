"""Measured systems as tables: vTrain, llm-foundry, Megatron-Bridge, LLM-Inference-Bench, LLMServingSim, and PipeWeave's served batches.

Some runs are kept back, so that a prediction of them can be judged blind: `data/sources/README.md` names them, and no table holds them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import RootModel

from analysis.configs import read_yaml
from analysis.documents import LARGEST_JSON_BYTES, read_text
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import read_csv, to_csv_bytes

Originals = Mapping[str, Path]
Tables = Iterator[tuple[str, bytes]]


class Named(RootModel[dict[str, dict[str, str]]]):
    """`data/sources/columns.yaml`."""


NAMED = read_yaml(DATA / "sources" / "columns.yaml", Named).root
"""By dataset, the columns that its tables take, and our names."""
VTRAIN, BATCHES, FOUNDRY, BRIDGE = (NAMED[name] for name in ("vtrain", "llm_inference_bench", "llm_foundry", "megatron_bridge"))
REQUEST, ENGINE, REAL_COLUMNS = (NAMED[name] for name in ("llmservingsim_client", "llmservingsim_engine", "pipeweave_runs"))
VTRAIN_SIZES = (3.6, 39.1)  # billion parameters

BATCHES_WITHOUT = ("MI300X", "GH200")

BRIDGE_PAGES = ("docs/performance-summary.md", "docs/performance-summary-archive.md")

SERVED = re.compile(r"bench/examples/([^/]+)/([^/]+)/vllm/(requests\.jsonl|meta\.json)")
PROFILE = re.compile(r"profiler/perf/([^/]+)/[^/]+/([^/]+)/bf16/(tp\d+)/(attention|dense|moe|per_sequence|skew)\.csv")
META = ("model", "vllm_version", "engine_kwargs", "kv_cache", "num_requests")
REAL_RUNS = re.compile(r"e2e/real/e2e_(.+)\.jsonl")


def _csv(path: Path, required: list[str]) -> pd.DataFrame:
    """A CSV whose cells stay text, so that every number is written as it was read."""
    return read_csv(path, required, dtype=str, keep_default_na=False, encoding="utf-8-sig")


def _json(text: str, path: Path, line: int | None = None) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not JSON ({error})", path=path, line=line) from None
    if not isinstance(found, dict):
        raise InputError("is not a JSON object", path=path, line=line)
    return found


def _lines(path: Path) -> list[dict[str, Any]]:
    found = [_json(text, path, line) for line, text in enumerate(read_text(path, LARGEST_JSON_BYTES).splitlines(), 1) if text.strip()]
    if not found:
        raise InputError("is empty; expected one JSON object a line", path=path)
    return found


def _markdown_tables(path: Path) -> Iterator[tuple[dict[int, str], list[dict[str, str]]]]:
    """The tables of a Markdown page: the headings that each stands under, by level, and its rows."""
    headings: dict[int, str] = {}
    columns: list[str] = []
    rows: list[dict[str, str]] = []
    for number, text in enumerate([*read_text(path, LARGEST_JSON_BYTES).splitlines(), ""], 1):
        line = text.strip()
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if not columns:
                columns = cells
            elif len(cells) != len(columns):
                raise InputError(f"row of {len(cells)} cells under a header of {len(columns)}", path=path, line=number)
            elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                rows.append(dict(zip(columns, cells, strict=True)))
            continue
        if columns:
            yield dict(headings), rows
            columns, rows = [], []
        if heading := re.match(r"(#+)\s+(.*)", line):
            level = len(heading[1])
            headings = {above: title for above, title in headings.items() if above < level} | {level: heading[2].strip()}


def vtrain(originals: Originals) -> Tables:
    """Training iterations on A100: of one node, and of several nodes without the models kept back."""
    for path, file in originals.items():
        several = path.endswith("_multi.csv")
        frame = _csv(file, list(VTRAIN))
        columns = dict(VTRAIN)
        if several:
            others = [name for name in frame.columns if name not in VTRAIN]
            if len(others) != 1:
                message = f"expected the model's size as the one column besides the known ones; there are {others or 'none'}"
                raise InputError(message, path=file, line=1)
            columns = {others[0]: "parameters_billion", **columns}
        frame = frame[list(columns)].rename(columns=columns)
        if several:
            size = pd.to_numeric(frame["parameters_billion"].str.rstrip("Bb "), errors="coerce")
            if size.isna().any():
                raise InputError("is not a number of billions", path=file, line=int(size.isna().argmax()) + 2, key="parameters_billion")
            frame = frame.assign(parameters_billion=size)[size.isin(VTRAIN_SIZES)]
            if frame.empty:
                raise InputError(f"has no run of {VTRAIN_SIZES} billion parameters", path=file, key="parameters_billion")
        yield ("multi_node.csv" if several else "single_node.csv"), to_csv_bytes(frame)


def llm_inference_bench(originals: Originals) -> Tables:
    """Latency of whole batches, without the accelerators kept back."""
    for file in originals.values():
        frame = _csv(file, list(BATCHES))[list(BATCHES)].rename(columns=BATCHES)
        kept_back = frame["hardware"].str.upper().str.contains("|".join(BATCHES_WITHOUT))
        yield "results.csv", to_csv_bytes(frame[~kept_back])


def llm_foundry(originals: Originals) -> Tables:
    """MPT training throughput: the tables of one page below each other, in the source's columns."""
    for file in originals.values():
        rows = [row for _, table in _markdown_tables(file) for row in table]
        if not rows or not all(set(FOUNDRY) <= set(row) for row in rows):
            lacking = [name for name in FOUNDRY if not rows or any(name not in row for row in rows)]
            raise InputError("has no table with this column, or one without it", path=file, key=lacking[0])
        yield "mpt_training.csv", to_csv_bytes(pd.DataFrame(rows)[list(FOUNDRY)])


def megatron_bridge(originals: Originals) -> Tables:
    """Training throughput that NVIDIA prints: a row a system and release, without what is kept back.

    Releases before 26.02 print one table a system (a column Model, none System) and are not taken.
    """
    rows = []
    for page in BRIDGE_PAGES:
        if page not in originals:
            raise InputError("is not in the list of files", key=page)
        found = 0
        for headings, table in _markdown_tables(originals[page]):
            release = headings.get(2, "").removesuffix(" NeMo Container")
            kind, model = headings.get(3, "").removesuffix(" Performance"), headings.get(4, "")
            if not table or "System" not in table[0]:
                continue
            found += 1
            lacking = sorted(set(BRIDGE) - {"FSDP"} - set(table[0]))
            if lacking or not re.fullmatch(r"[\d.]+", release) or not model.startswith("Model: "):
                message = "expected a release, a kind, 'Model: <name>' and the known columns"
                raise InputError(message, path=originals[page], key=lacking[0] if lacking else f"{release} {model}".strip() or None)
            for row in table:
                if "GB300" not in row["System"] and release.split(".")[:2] != ["26", "08"]:
                    cells = {ours: row.get(theirs, "") for theirs, ours in BRIDGE.items()}
                    rows.append({"release": release, "kind": kind, "model": model.removeprefix("Model: "), **cells})
        if not found:
            raise InputError("has no table with this column", path=originals[page], key="System")
    yield "pretraining.csv", to_csv_bytes(pd.DataFrame(rows, columns=["release", "kind", "model", *BRIDGE.values()]))


def serving_place(path: str) -> str | None:
    """Where a file of LLMServingSim goes, or None: no table, or a run that is kept back."""
    if found := PROFILE.fullmatch(path):
        return f"profiles/{found[1]}_{found[2]}_{found[3]}_{found[4]}.csv.gz".lower()
    found = SERVED.fullmatch(path)
    if not found or found[1] == "RTX4090" or found[2].startswith("Qwen3-30B"):
        return None
    return f"{found[1]}_{found[2]}_{found[3]}".lower().replace("jsonl", "csv")


def _requests(path: Path) -> pd.DataFrame:
    """Requests of one run: the client's clock from its first arrival, the engine's from the first request queued (s)."""
    columns: dict[str, list[Any]] = {}
    found = _lines(path)
    for theirs, ours in {**REQUEST, **ENGINE}.items():
        for line, entry in enumerate(found, 1):
            if not isinstance(entry.get(theirs), str if theirs == "request_id" else (int, float)):
                raise InputError("is missing, or not of the expected type", path=path, line=line, key=theirs)
        columns[ours] = [entry[theirs] for entry in found]
    frame = pd.DataFrame(columns)
    engine = list(ENGINE.values())
    frame["arrived_s"] = (frame["arrived_s"] - frame["arrived_s"].min()).round(6)
    frame[engine] = (frame[engine] - frame["queued_s"].min()).round(6)
    return frame


def llmservingsim(originals: Originals) -> Tables:
    """Requests and engine settings of the runs that are not kept back, and the kernels' profiles as they are."""
    for path, file in originals.items():
        place = serving_place(path)
        if place is None:
            continue
        if place.endswith(".csv.gz"):
            yield place, gzip.compress(file.read_bytes(), mtime=0)
        elif place.endswith(".csv"):
            yield place, to_csv_bytes(_requests(file))
        else:
            found = _json(read_text(file), file)
            lacking = [name for name in META if name not in found and name != "kv_cache"]
            if lacking:
                raise InputError("is missing", path=file, key=lacking[0])
            yield place, (json.dumps({name: found[name] for name in META if name in found}, indent=1) + "\n").encode()


def pipeweave_runs(originals: Originals) -> Tables:
    """Every repeat of every batch that PipeWeave's authors served, one table for all GPUs; nothing where no such file is listed."""
    rows = []
    for path, file in originals.items():
        if found := REAL_RUNS.fullmatch(path):
            for line, entry in enumerate(_lines(file), 1):
                if lacking := [name for name in REAL_COLUMNS if entry.get(name) is None and name != "iteration"]:
                    raise InputError("is missing", path=file, line=line, key=lacking[0])
                rows.append({"hardware": found[1].replace("_", " "), **{name: entry.get(name) for name in REAL_COLUMNS}})
    if rows:
        yield "e2e_real_runs.csv", to_csv_bytes(pd.DataFrame(rows, dtype=object))
