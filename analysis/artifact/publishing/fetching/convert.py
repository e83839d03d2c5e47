"""Original files of other people's datasets, and the tables that are made of them: one converter a dataset, chosen by name."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.artifact.publishing.fetching import convert_measured, convert_neusight, convert_pmevo
from analysis.tables import to_csv_bytes

Originals = Mapping[str, Path]
Tables = Iterator[tuple[str, bytes]]


@dataclass(frozen=True)
class Converter:
    """How one dataset's tables are made."""

    needed: Callable[[str], bool]
    tables: Callable[[Originals], Tables]


def packed(tables: Iterator[tuple[str, pd.DataFrame]]) -> Tables:
    """Tables as bytes: compressed, without a time, when their name ends in .gz."""
    for name, frame in tables:
        content = to_csv_bytes(frame)
        yield name, gzip.compress(content, mtime=0) if name.endswith(".gz") else content


def pipeweave_place(path: str) -> str | None:
    """Where a PipeWeave file goes in our layout, or None for a file that no table is made of.

    `dataset/collective/A100/all_reduce.csv` -> `collective/A100_all_reduce.csv.gz`; large tables are compressed.
    """
    parts = path.replace(" ", "_").split("/")
    if parts[:2] == ["dataset", "collective"]:
        return f"collective/{parts[2]}_{parts[3]}.gz"
    if parts[0] == "dataset" and parts[1].startswith("gemm_fp8"):
        return f"{parts[1]}.gz"
    if convert_measured.REAL_RUNS.fullmatch(path):
        return "e2e_real_runs.csv"
    if parts[0] in ("e2e", "hardware", "workload"):
        return f"{parts[0]}/{parts[1]}"
    return None


def pipeweave(originals: Originals) -> Tables:
    """PipeWeave's files as they are, placed and compressed; the batches that were really served as one table."""
    yield from convert_measured.pipeweave_runs(originals)
    for path, file in originals.items():
        place = pipeweave_place(path)
        if place is not None and place != "e2e_real_runs.csv":
            content = file.read_bytes()
            yield place, gzip.compress(content, mtime=0) if place.endswith(".gz") else content


CONVERTERS: dict[str, Converter] = {
    "pipeweave": Converter(lambda path: pipeweave_place(path) is not None, pipeweave),
    "neusight": Converter(convert_neusight.needed, lambda originals: packed(convert_neusight.tables(originals))),
    "pmevo": Converter(convert_pmevo.needed, lambda originals: packed(convert_pmevo.tables(originals))),
    "vtrain": Converter(lambda path: path.startswith("data/ground_truth_"), convert_measured.vtrain),
    "llm_inference_bench": Converter(lambda path: path.endswith("All_results.csv"), convert_measured.llm_inference_bench),
    "llm_foundry": Converter(lambda path: path.endswith("benchmarking/README.md"), convert_measured.llm_foundry),
    "megatron_bridge": Converter(lambda path: path in convert_measured.BRIDGE_PAGES, convert_measured.megatron_bridge),
    "llmservingsim": Converter(lambda path: convert_measured.serving_place(path) is not None, convert_measured.llmservingsim),
}
