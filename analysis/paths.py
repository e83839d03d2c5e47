"""Where things lie in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
RESULTS = DATA / "results"
NOTEBOOKS = ROOT / "notebooks"
BOOK = ROOT / "book"
BUILD = ROOT / "_build"
