"""What several rooms' tests share: the built book, and a small copy of the repository to build in."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from analysis.call_stack import in_one_piece
from tests import browsers

OURS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
os.environ.update({name: os.environ.get(name, value) for name, value in OURS.items()})  # before anything imports numpy and JAX
"""Two workers on two cores: threads beyond one a process wait for each other, spinning, and take ten times the processor; and tests'
networks are so small that XLA takes longer to optimise them than they run."""

gc.set_threshold(100_000, 20, 20)  # as `main` has it: looking through what imports made is a fifth of their time

ROOT = Path(__file__).resolve().parent.parent


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests that read the built book come first and stay with one worker, so that the other goes on while the book is built."""
    items.sort(key=lambda item: "built_book" not in getattr(item, "fixturenames", ()))
    for item in items:
        if "built_book" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("book"))


def pytest_collection_finish() -> None:
    """What imports made stays to the end: the collector leaves it alone."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """A test runs as pytest has it, with the call stack of a command: what compiles takes a sixth less."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    in_one_piece(runtestprotocol, item, nextitem=nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def run_analysis(*arguments: str, cwd: Path = ROOT, **options: object) -> subprocess.CompletedProcess[str]:
    """Run `python -m analysis ...` as a user would."""
    environment = {name: value for name, value in os.environ.items() if name not in OURS} | {"PYTHONPATH": str(cwd), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "analysis", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, **options
    )  # type: ignore[call-overload, no-any-return]


def run_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has imported what it needs: for tests of what a command says, not of how it starts."""
    from analysis.__main__ import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(list(arguments))
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(list(arguments), status, *said)


@pytest.fixture(scope="session")
def built_book() -> Path:
    """The pages of the book, built first if they are out of date (minutes the first time)."""
    done = run_analysis("book")
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "_build" / "html"


@pytest.fixture
def programs_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are read in this process, and no process is started for each: for tests of what a program computes."""
    from analysis.errors import InputError
    from analysis.workloads import own_process
    from analysis.workloads.hlo import reader

    def record(path: Path, entry: str | None, part: int, seconds: int, memory_bytes: int, sizes: dict[str, int]) -> dict[str, Any]:
        found = own_process.record(str(path), entry, part, sizes)
        if "error" in found:
            raise InputError(found["error"], path=path, line=found["line"] or None)
        return dict(json.loads(json.dumps(found)))

    monkeypatch.setattr(reader, "_record", record)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A running Chromium; skips with the reason and the cure where there is none."""
    reason = browsers.missing()
    if reason:
        pytest.skip(reason)
    from playwright.sync_api import Error, sync_playwright

    from analysis.artifact.publishing.pdf import QUIET, browser

    with sync_playwright() as playwright:
        try:
            running = playwright.chromium.launch(executable_path=browser(), args=["--no-sandbox", *QUIET])
        except Error as error:
            pytest.skip(f"Chromium does not start: {str(error).splitlines()[0]} ({browsers.DEBIAN})")
        yield running
        running.close()


def small_checkout(folder: Path) -> Path:
    """A copy of the code with no notebooks, no chapters and no results, to build in."""
    for name in ("analysis", "bib"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("requirements.txt", "_config.yml"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "book" / "_style", folder / "book" / "_style")
    (folder / "notebooks").mkdir()
    (folder / "data" / "workloads").mkdir(parents=True)
    for name in ("foreign_files.yaml", "retired.json", "vocabulary.txt"):
        shutil.copy(ROOT / "data" / "workloads" / name, folder / "data" / "workloads")
    (folder / "notebooks" / "parameters.yaml").write_text("{}\n")
    (folder / "data" / "columns.yaml").write_text("{}\n")
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """`small_checkout` in a folder of the test's own."""
    return small_checkout(tmp_path)
