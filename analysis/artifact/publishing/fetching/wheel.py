"""Fetches a pinned wheel of the package index, by hash; it is kept as a file and read, never installed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from analysis.artifact.publishing.fetching.download import digest
from analysis.errors import InputError
from analysis.paths import DATA, DATASETS
from analysis.tables import read_csv

PACKAGES = DATA / "sources" / "packages.csv"


def names() -> list[str]:
    """Datasets that come as wheels."""
    return [str(name) for name in read_csv(PACKAGES)["dataset"]]


def fetch_wheel(name: str) -> Path:
    """Fetch one wheel with pip into `data/datasets/<name>`; one that is there and right is kept."""
    row = read_csv(PACKAGES).set_index("dataset").loc[name]
    size = int(str(row["bytes"]))
    megabytes = size / 1e6
    place = DATASETS / name / str(row["file"])
    if place.is_file() and place.stat().st_size == size and digest(place) == row["sha256"]:
        print(f"{name}: 1 wheel ({megabytes:.0f} MB) verified, none fetched now")
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        wanted = Path(folder) / "wanted.txt"
        wanted.write_text(f"{row['requirement']} --hash=sha256:{row['sha256']}\n")
        options = ["--no-deps", "--only-binary=:all:", "--platform", str(row["platform"]), "--python-version", str(row["python"])]
        options += ["--implementation", "cp", "--abi", "abi3", "--require-hashes", "--disable-pip-version-check", "--no-input", "--quiet"]
        command = [sys.executable, "-m", "pip", "download", *options, "--dest", folder, "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = Path(folder) / str(row["file"])
        if done.returncode or not found.is_file():
            said = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("ERROR")), "pip gave no wheel")
            raise InputError(f"cannot be fetched: {said.removeprefix('ERROR: ')}", key=str(row["requirement"]))
        if digest(found) != row["sha256"]:
            raise InputError("is not the pinned wheel", path=found.name)
        found.replace(place)
    print(f"{name}: 1 wheel ({megabytes:.0f} MB) verified, fetched now")
    return place
