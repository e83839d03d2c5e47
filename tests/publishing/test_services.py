"""What others run: the workflow files of two services, parameters that a reader sets, the archive."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml
from conftest import run_analysis
from publishing.notebook_files import write

from analysis.artifact.publishing import plan
from analysis.errors import InputError
from analysis.paths import ROOT


def test_services_run_one_script_on_a_supported_python() -> None:
    """Both files call `.ci/run` and nothing else; the Python is the oldest that pyproject allows."""
    github = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["ci"]
    gitlab = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())["ci"]
    assert [step["run"] for step in github["steps"] if "run" in step] == gitlab["script"] == [".ci/run"]
    oldest = next(line for line in (ROOT / "pyproject.toml").read_text().splitlines() if "requires-python" in line).split(">=")[1][:4]
    python = next(step["with"]["python-version"] for step in github["steps"] if "setup-python" in step.get("uses", ""))
    assert python == gitlab["image"].removeprefix("python:") == oldest
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_both_services_try_the_tools_again_by_a_schedule() -> None:
    """Of a scheduled run they do this and nothing else, and what they call is there."""
    github = yaml.safe_load((ROOT / ".github" / "workflows" / "trials.yml").read_text())
    gitlab = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())
    steps = [step["run"] for step in github["jobs"]["trials"]["steps"] if "run" in step]
    assert steps == gitlab["trials"]["script"] == ["make trials", ".venv/bin/python -m analysis trials --since"]
    assert github[True]["schedule"] and "schedule" in gitlab["trials"]["rules"][0]["if"] and "!=" in gitlab["ci"]["rules"][0]["if"]
    assert "--since" in run_analysis("trials", "--help", cwd=ROOT).stdout and "trials:" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("trials=5", "expected NOTEBOOK.key=value"),
        ("composition_lw.trials=5", "the nearest name is composition_law"),
        ("composition_law.trial=5", "composition_law has: trials, seed"),
        ("composition_law.trials=many", "expected a value like 20000, got 'many'"),
        ("composition_law.out=/tmp", "no such parameter"),
    ],
)
def test_settings_that_cannot_be_are_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan.given([setting])


TABLE = 'run.table(pd.DataFrame({"x": [value]}), "t", title="T", columns={"x": "a value (1)"})'


def test_a_setting_reaches_the_notebook_and_the_next_build_takes_it_back(copy: Path) -> None:
    write(copy / "notebooks", "alpha", TABLE, parameters="value = 2")
    table = copy / "data" / "results" / "alpha" / "t.csv"
    assert run_analysis("build", "--set", "alpha.value=7", cwd=copy).returncode == 0
    assert table.read_text().split() == ["x", "7"]
    assert run_analysis("build", cwd=copy).returncode == 0
    assert table.read_text().split() == ["x", "2"]


def test_an_archive_needs_a_commit_and_a_book(copy: Path) -> None:
    done = run_analysis("archive", cwd=copy)
    assert done.returncode == 2
    assert "git checkout" in done.stderr


def test_an_archive_holds_sources_results_book_and_their_digests(copy: Path) -> None:
    write(copy / "notebooks", "alpha", TABLE, parameters="value = 2")
    (copy / "data" / "results" / "alpha").mkdir(parents=True)
    (copy / "data" / "results" / "alpha" / "t.csv").write_text("x\n2\n")
    (copy / "_build" / "html").mkdir(parents=True)
    (copy / "_build" / "html" / "index.html").write_text("<p>a book</p>")
    name = ("-c", "user.name=tester", "-c", "user.email=tester@example.org")
    for arguments in (("init", "-q"), ("add", "notebooks", "analysis", "data"), (*name, "commit", "-q", "-m", "all")):
        subprocess.run(["git", *arguments], cwd=copy, check=True, capture_output=True)
    found = []
    for _ in range(2):
        done = run_analysis("archive", cwd=copy)
        assert done.returncode == 0, done.stderr
        found.append((copy / "_build" / "archive.tar.gz").read_bytes())
    assert found[0] == found[1]
    with tarfile.open(copy / "_build" / "archive.tar.gz") as archive:
        names = archive.getnames()
        provenance = json.load(archive.extractfile("PROVENANCE.json"))  # type: ignore[arg-type]
    assert {"source/notebooks/alpha.ipynb", "results/alpha/t.csv", "book/index.html"} <= set(names)
    assert set(provenance["sha256"]) == set(names) - {"PROVENANCE.json"}
