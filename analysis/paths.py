"""Where things lie: in the repository, or in what an installed wheel brought of it."""

from __future__ import annotations

import os
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent
"""Folder of the package `analysis`: what a process of our own needs on its path."""
_BROUGHT = HOME / "analysis" / "repository"
CHECKOUT = not _BROUGHT.is_dir()
"""Whether this is the repository; a wheel brings `data/`, without results and others' datasets, and `examples/`, and nothing else."""
ROOT = HOME if CHECKOUT else _BROUGHT
DATA = ROOT / "data"
RESULTS = DATA / "results"
NOTEBOOKS = ROOT / "notebooks"
BOOK = ROOT / "book"
BUILD = ROOT / "_build"
EXAMPLES = ROOT / "examples"
DATASETS = DATA / "datasets" if CHECKOUT else Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "howfast"
"""Where `data fetch` puts other people's datasets."""
