"""On a machine that lacks something, a test skips with the reason and the cure; it does not break."""

import sys

import pytest

from tests import browsers


def test_no_browser_is_said_before_playwright_starts(monkeypatch):
    monkeypatch.setattr(browsers.shutil, "which", lambda name: None)
    started = browsers.missing(driver=["/nonexistent/must-not-be-started"])
    assert started == "no Chromium on this machine (on Debian: apt-get install chromium libatomic1)"


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        # what the loader says on a Debian without libatomic1
        ([sys.executable, "-c", "import sys; sys.exit('node: error while loading shared libraries: libatomic.so.1')"], "libatomic.so.1"),
        (["/nonexistent/node"], "No such file"),
        ([sys.executable, "-c", ""], ""),
    ],
)
def test_a_driver_that_does_not_start_is_a_reason_to_skip(monkeypatch, driver, reason):
    monkeypatch.setattr(browsers.shutil, "which", lambda name: f"/usr/bin/{name}")
    found = browsers.missing(driver)
    assert (reason in found and "apt-get install" in found) if reason else not found
