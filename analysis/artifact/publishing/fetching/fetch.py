"""Fetches other people's datasets: pinned, verified, converted. The one place that uses the network, besides environment and trials."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from analysis.artifact.publishing.fetching.convert import CONVERTERS
from analysis.artifact.publishing.fetching.download import download
from analysis.errors import InputError
from analysis.paths import DATA, DATASETS
from analysis.progress import Progress
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


def fetch_originals(name: str, files: list[SourceFile], base: str, folder: Path) -> dict[str, Path]:
    """Fetch one dataset's files, verified; those that are there and right are kept.

    Returns:
        Where each file is, by its path in the repository.
    """
    total, done, fetched = sum(file.bytes for file in files), 0, 0
    found: dict[str, Path] = {}
    failed: list[InputError] = []
    with Progress() as progress:
        for file in files:
            target = folder / file.path
            try:
                seen = lambda arrived, before=done: progress(before + arrived, total, f"bytes of {name}")  # noqa: E731
                fetched += download(file.url(base), target, file.bytes, file.sha256, seen)
                found[file.path] = target
            except InputError as error:
                failed.append(error)
                if "cannot be fetched" in error.message and len(failed) == 3:
                    break  # three files in a row that cannot be had: the network is away
            done += file.bytes
    if failed:
        for earlier in failed[:-1]:
            print(f"error: {earlier}")
        raise failed[-1]
    print(f"{name}: {len(files)} files ({total / 1e6:.0f} MB) verified, {fetched} of them fetched now")
    return found


def fetch(only: list[str] | None = None, target: Path | None = None, base: str | None = None, listing: Path = SOURCES) -> int:
    """Fetch, verify and convert; returns how many tables were written.

    Args:
        only: names of datasets; default: all.
        target: folder of the datasets; default `data/datasets`.
        base: address that repository paths are appended to; default GitHub's raw files, or `$ANALYSIS_DATA_ADDRESS`.
    """
    target = target or DATASETS
    base = base or os.environ.get("ANALYSIS_DATA_ADDRESS", ADDRESS)
    files = sources(listing)
    known = sorted({file.dataset for file in files} & set(CONVERTERS))
    for name in only or []:
        if name not in known:
            raise InputError(f"no such dataset; there are: {', '.join(known)}", key=name)
    written = 0
    for name in only or known:
        converter = CONVERTERS[name]
        wanted = [file for file in files if file.dataset == name and converter.needed(file.path)]
        originals = fetch_originals(name, wanted, base, target / ".originals" / name)
        made = list(converter.tables(originals))  # all before any is written: a broken file leaves the old tables whole
        for place, content in made:
            write_atomic(target / name / place, content)
        written += len(made)
        print(f"{name}: {len(made)} tables in {target / name}")
    return written
