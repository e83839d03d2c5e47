"""Fetches other people's datasets: pinned, verified, converted. The one place that uses the network, besides environment and trials."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pooch

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import read_csv, write_atomic

SOURCES = DATA / "sources" / "files.csv"
ADDRESS = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class SourceFile:
    """One original file."""

    dataset: str
    repository: str
    commit: str
    path: str
    bytes: int
    sha256: str

    def url(self, base: str) -> str:
        """Address of the file below `base`."""
        return f"{base}/{self.repository}/{self.commit}/{quote(self.path)}"


def sources(path: Path = SOURCES) -> list[SourceFile]:
    """The list of original files."""
    frame = read_csv(path, required=["dataset", "repository", "commit", "path", "bytes", "sha256"])
    return [
        SourceFile(*row) for row in frame[["dataset", "repository", "commit", "path", "bytes", "sha256"]].itertuples(index=False, name=None)
    ]


def pipeweave_place(path: str) -> str | None:
    """Where a PipeWeave file goes in our layout, or None for a file that no table is made of.

    `dataset/collective/A100/all_reduce.csv` -> `collective/A100_all_reduce.csv.gz`; large tables are compressed.
    """
    parts = path.replace(" ", "_").split("/")
    if parts[:2] == ["dataset", "collective"]:
        return f"collective/{parts[2]}_{parts[3]}.gz"
    if parts[0] == "dataset" and parts[1].startswith("gemm_fp8"):
        return f"{parts[1]}.gz"
    if parts[0] in ("e2e", "hardware"):
        return f"{parts[0]}/{parts[1]}"
    if "moe_dse" in parts and parts[-1].startswith("moe_dse_"):
        return f"moe_dse/{parts[-1]}.gz"
    return None


CONVERTED: dict[str, Callable[[str], str | None]] = {"pipeweave": pipeweave_place}


def convert(dataset: str, original: Path, path: str, target: Path) -> Path | None:
    """Write the table made of one original file; returns its path, or None when no table is made of it.

    Args:
        dataset: our name of the dataset.
        original: the file as fetched.
        path: its path in the repository.
        target: folder of the datasets.
    """
    place = CONVERTED[dataset](path)
    if place is None:
        return None
    content = original.read_bytes()
    if place.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    return write_atomic(target / dataset / place, content)


def fetch(only: list[str] | None = None, target: Path | None = None, base: str | None = None, listing: Path = SOURCES) -> int:
    """Fetch, verify and convert; returns how many tables were written.

    Args:
        only: names of datasets; default: every one that has a converter.
        target: folder of the datasets; default `data/datasets`.
        base: address that repository paths are appended to; default GitHub's raw files, or `$ANALYSIS_DATA_ADDRESS`.
        listing: the list of files.
    Raises:
        InputError: an unknown dataset, a file that cannot be had, or one whose digest is wrong.
    """
    target = target or DATA / "datasets"
    base = base or os.environ.get("ANALYSIS_DATA_ADDRESS", ADDRESS)
    files = sources(listing)
    known = sorted({file.dataset for file in files})
    for name in only or []:
        if name not in known:
            raise InputError(f"no such dataset; there are: {', '.join(known)}", key=name)
    written = 0
    for name in only or known:
        if name not in CONVERTED:
            print(f"{name}: not yet; arrives with the study that uses it")
            continue
        for file in (file for file in files if file.dataset == name and CONVERTED[name](file.path)):
            try:
                original = pooch.retrieve(file.url(base), known_hash=f"sha256:{file.sha256}", path=target / ".originals", progressbar=False)
            except ValueError as error:
                raise InputError("digest differs from the pinned one", path=file.url(base), key=file.path) from error
            except Exception as error:
                raise InputError(f"cannot be fetched: {error}", path=file.url(base)) from None
            written += convert(name, Path(original), file.path, target) is not None
        print(f"{name}: {written} tables in {target}")
    return written
