"""A page has the same bytes wherever the checkout lies and whatever the user's home is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.artifact.publishing import build, execute
from tests.publishing.notebook_files import write

PLACES = ["plain", "with spaces and 'quotes\"", "größe-日本"]


@pytest.mark.parametrize("place", PLACES)
def test_paths_leave_the_cells_as_papermill_writes_them(place: str) -> None:
    from papermill.translators import PythonTranslator

    path = f"/home/{place}/data/results/.name"
    cell = f"# Parameters\nout = {PythonTranslator.translate(path)}\n"
    assert execute._without(path, "data/results/name", cell) == '# Parameters\nout = "data/results/name"\n'


def test_a_notebook_gets_no_setting_from_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLCONFIGDIR", "/nonexistent/matplotlib")
    made = build.environment()
    for name in ("MPLCONFIGDIR", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR"):
        assert Path(made[name]).is_relative_to(build.BUILD)


@pytest.mark.build
def test_the_page_is_the_same_in_a_strange_place_without_a_home(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pages = []
    for place, home in ((PLACES[0], None), (PLACES[2], "/nonexistent/home")):
        checkout = tmp_path_factory.mktemp("any") / place / "checkout"
        shutil.copytree(copy, checkout)
        write(checkout / "notebooks", "drawn", "import matplotlib.pyplot", "print(run.out)")
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(checkout), **({"HOME": home} if home else {"HOME": str(checkout)})}
        done = subprocess.run(
            [sys.executable, "-m", "analysis", "build", "--only", "drawn"], cwd=checkout, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        pages.append((checkout / "data" / "results" / "drawn" / "drawn.ipynb").read_bytes())
    assert pages[0] == pages[1] and b"nonexistent" not in pages[0]


@pytest.mark.skipif(not os.environ.get("STRANGE_PLACES"), reason="six builds take minutes: set STRANGE_PLACES=1")
def test_a_part_of_the_book_has_the_same_bytes_in_strange_places() -> None:
    from tests import environments

    assert environments.main(["--notebooks", "10"]) == 0
