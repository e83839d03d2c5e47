"""One PDF of the whole book: every chapter on one page, printed by Chromium; no TeX needed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from analysis.artifact.publishing import book
from analysis.errors import InputError
from analysis.paths import BUILD, ROOT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def browser() -> str:
    """Path of Chromium."""
    for name in BROWSERS:
        found = shutil.which(name)
        if found:
            return found
    raise InputError("needs Chromium to print: on Debian, apt-get install chromium")


def write() -> Path:
    """Write `_build/book.pdf`; returns its path."""
    program = browser()
    book.build("singlehtml")
    page = BUILD / "singlehtml" / "index.html"
    target = BUILD / "book.pdf"
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                program,
                "--headless",
                "--no-sandbox",
                *QUIET,
                f"--user-data-dir={profile}",
                "--no-pdf-header-footer",
                "--virtual-time-budget=60000",
                f"--print-to-pdf={target}",
                page.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=600,
        )
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1e6:.1f} MB")
    return target
