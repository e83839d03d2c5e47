"""One function of the protocol is edited in a copy of the built book: exactly the notebooks that use it run again."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, run_analysis

pytestmark = pytest.mark.build

DIRECT = "analysis/artifact/mtap/simplex.py"
THROUGH_OTHERS = "analysis/artifact/mtap/gaps.py"  # the notebook of claims uses it, by arithmetic.py


def importers(module: str) -> set[str]:
    """Notebooks whose own source imports the module by name."""
    dotted = module.removesuffix(".py").replace("/", ".")
    package, _, name = dotted.rpartition(".")
    found = re.compile(rf"from {re.escape(dotted)} import|import {re.escape(dotted)}\b|from {re.escape(package)} import .*\b{name}\b")
    return {path.stem for path in (ROOT / "notebooks").glob("*.ipynb") if found.search(path.read_text(encoding="utf-8"))}


def users(module: str) -> set[str]:
    """Notebooks whose last run noted that it used the module."""
    stamps = (ROOT / "_build" / "book" / "stamps").glob("*.json")
    return {path.stem for path in stamps if module in json.loads(path.read_text(encoding="utf-8"))["inputs"]}


@pytest.fixture(scope="module")
def checkout(built_book: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the built book, in which nothing is to run."""
    folder = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for file in listed.stdout.decode().split("\0"):
        if file and (ROOT / file).is_file():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, folder / file)
    shutil.copytree(ROOT / "data" / "results", folder / "data" / "results", dirs_exist_ok=True)
    shutil.copytree(ROOT / "_build" / "book", folder / "_build" / "book")
    untouched = run_analysis("build", cwd=folder)
    assert untouched.stdout.strip() == "all notebooks are up to date", untouched.stdout + untouched.stderr
    return folder


@pytest.mark.parametrize("name", [DIRECT, THROUGH_OTHERS])
def test_an_edit_in_mtap_runs_only_what_uses_it(checkout: Path, name: str) -> None:
    module = checkout / name
    text = module.read_text(encoding="utf-8")
    edited = re.sub(r'(\ndef \w+\(.*?\) -> [^\n]+:\n    """)', r"\1Edited. ", text, count=1, flags=re.DOTALL)
    assert edited != text
    module.write_text(edited, encoding="utf-8")
    done = run_analysis("build", cwd=checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = {line.split("]")[1].split()[0] for line in done.stdout.splitlines() if line.startswith("  [")}
    assert ran == users(name)
    assert importers(name) <= ran
    if name == DIRECT:
        assert ran == importers(name) == {"mtap_sensitivity"}, "one notebook asks for shares of the simplex"
    assert len(ran) < len(list((ROOT / "notebooks").glob("*.ipynb"))) / 2, "most of the book has nothing to do with it"
