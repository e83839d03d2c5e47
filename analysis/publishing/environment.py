"""The conda file, made from the lock: the same versions for those who prefer conda."""

from __future__ import annotations

import re

from analysis.paths import ROOT
from analysis.tables import write_atomic

PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]+\])?)==([^\s;\\]+)\s*(?:;\s*([^\\]+?))?\s*\\?$")


def pins() -> list[str]:
    """Every pin of `requirements.txt` as `name==version ; marker`, without hashes."""
    found = []
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        match = PIN.match(line)
        if match:
            name, version, marker = match.groups()
            found.append(f"{name}=={version}" + (f" ; {marker}" if marker else ""))
    return found


def text() -> str:
    """The content of `environment.yml`: Python from conda, every package at the version of the lock, through pip."""
    lines = [
        "# Written by `python -m analysis environment write` from requirements.txt; a test proves that they agree.",
        "# conda env create --file environment.yml && conda activate ml-performance-survey",
        "name: ml-performance-survey",
        "channels: [conda-forge]",
        "dependencies:",
        "  - python=3.11",
        "  - pip",
        "  - pip:",
    ]
    return "\n".join([*lines, *(f"      - {_quoted(pin)}" for pin in pins())]) + "\n"


def _quoted(pin: str) -> str:
    return f'"{pin}"' if ";" in pin or "[" in pin else pin


def write() -> None:
    """Write `environment.yml`."""
    write_atomic(ROOT / "environment.yml", text().encode("utf-8"))
