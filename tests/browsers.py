"""Chromium for the tests of pages, or the reason why there is none and what to install."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess

from analysis.artifact.publishing.pdf import BROWSERS

DEBIAN = "on Debian: apt-get install chromium libatomic1"


def missing(driver: list[str] | None = None) -> str:
    """Why no browser can be started, with the cure; empty where one can.

    Looks before anything is started: Playwright's driver is a program of its own that may lack a library (libatomic on a bare
    Debian), and then brings the test down that starts it.

    Args:
        driver: command that shows that the driver starts; without it Playwright's.
    """
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed: make test installs it"
    if not any(shutil.which(name) for name in BROWSERS):
        return f"no Chromium on this machine ({DEBIAN})"
    if driver is None:
        from playwright._impl._driver import compute_driver_executable

        driver = [str(compute_driver_executable()[0]), "--version"]
    try:
        done = subprocess.run(driver, capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Playwright's driver does not start: {error} ({DEBIAN})"
    if done.returncode:
        return f"Playwright's driver does not start: {(done.stderr.strip().splitlines() or ['no reason given'])[0]} ({DEBIAN})"
    return ""
