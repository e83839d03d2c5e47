"""Deployment trials: steps are classed by rule, records compared, and nothing of one machine stays in a message."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis.artifact.commands.repository.trials import app
from analysis.artifact.mtap.trials import exercises, records, running
from analysis.artifact.mtap.trials.catalogue import Trial, catalogue, find
from analysis.artifact.mtap.trials.running import Step, answer, attempt, failure_class, machine_class, packages, run, scrub
from analysis.errors import InputError
from analysis.paths import ROOT


def step(name: str, status: int, message: str = "") -> Step:
    return Step("x", name, 1.0, status, message)


@pytest.mark.parametrize(
    ("taken", "value", "expected"),
    [
        (step("install: pip install x", 1, "no matching distribution"), None, "F1"),
        (step("install: pip install x", 0), None, ""),
        (step("first prediction", 1, "TypeError: only 0-dimensional arrays"), None, "F2"),
        (step("first prediction", 1, "requests.exceptions.ConnectionError: HTTPSConnectionPool"), None, "blocked"),
        (step("build: go build", 1, "lookup proxy.golang.org: no such host"), None, "blocked"),
        (step("build: cmake ..", 1, "CMakeLists.txt:11 (find_package)"), None, "F1"),
        (step("first prediction", 0), None, "F3"),
        (step("first prediction", 0), -1.0, "F3"),
        (step("first prediction", 0), 10.5, ""),
    ],
)
def test_failures_are_classed_by_rule(taken: Step, value: float | None, expected: str) -> None:
    assert failure_class(taken, value) == expected


def test_nothing_of_one_machine_stays_in_a_message() -> None:
    said = scrub('File "/home/someone/x/lib/python3.11/site-packages/tool/a.py", see https://index.example.org/simple/x at 0x7f3aa2b4c5d6')
    assert said == 'File "a.py", see <address> at 0x...'
    assert "/" not in machine_class()


def test_the_answer_is_the_last_line_of_json() -> None:
    assert answer('noise\n{"quantity": "latency", "value": 2.5, "unit": "s"}\n')["value"] == 2.5  # type: ignore[index]
    assert answer("no answer") is None


def test_pins_have_names_versions_and_hashes_and_no_address(tmp_path: Path) -> None:
    item = {
        "metadata": {"name": "Some_Tool", "version": "1.2"},
        "download_info": {"url": "https://somewhere/x.whl", "archive_info": {"hashes": {"sha256": "ab"}}},
    }
    (tmp_path / "report.json").write_text(json.dumps({"install": [item]}))
    (package,) = packages(tmp_path / "report.json")
    assert (package.name, package.version, package.sha256) == ("some-tool", "1.2", "ab")


def test_a_tool_that_cannot_be_installed_is_a_failure_on_record(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.whl")
    words = dict.fromkeys(("documented_install", "instructions", "prediction", "predicts"), "-")
    trial = Trial(tool="Broken", name="broken", package="broken", program="pass", requirements=(missing,), **words)
    stale = tmp_path / "runs" / "broken" / "answer.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("1")
    tables = attempt(trial, tmp_path)
    assert not stale.exists()
    assert tables["outcome"]["outcome"].tolist() == ["fails"] and tables["outcome"]["classes"].tolist() == ["F1"]
    assert not tables["steps"]["message"].str.contains(str(tmp_path)).any()


def test_a_tool_without_a_package_is_cloned_built_and_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment without pip, which nothing here needs and which takes seconds to put there."""

    def without_pip(command: list[str], *about: Any) -> Step:
        return run([*command, *(["--without-pip"] if "venv" in command else [])], *about)

    monkeypatch.setattr(running, "run", without_pip)
    source = tmp_path / "source"
    subprocess.run(["git", "init", "-q", str(source)], check=True)
    (source / "answer.txt").write_text("3", encoding="utf-8")
    signed = ["-c", "user.name=x", "-c", "user.email=x@x.org"]
    for command in (["add", "."], [*signed, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(source), *command], check=True)
    known = {"tool": "x", "name": "x", "documented_install": "git clone", "instructions": "https://x.org", "prediction": "https://x.org"}
    known |= {"predicts": "a number", "program": "value = open('clone/built.txt').read()\n", "quantity": "time", "unit": "s"}
    trial = Trial(**known, repository=str(source), commit="HEAD", build=("cp clone/answer.txt clone/built.txt",))
    outcome = attempt(trial, tmp_path / "out")["outcome"].iloc[0]
    assert (outcome["outcome"], outcome["value"], outcome["packages"]) == ("runs", 3.0, 0)
    gone = attempt(trial.model_copy(update={"build": ("false",)}), tmp_path / "out")["outcome"].iloc[0]
    assert (gone["outcome"], gone["classes"]) == ("fails", "F1")


def test_a_change_since_the_last_record_is_told() -> None:
    row = {"tool": "t", "date": "2026-11-22", "version": "1", "outcome": "runs", "value": 2.0, "cpu_minutes": 1.0}
    pins = pd.DataFrame([{"tool": "t", "name": "numpy", "version": "1"}])
    moved = pins.assign(version="2")

    def verdict(**new: object) -> str:
        now = pd.DataFrame([{**row, "date": "2027-01-01", **new}])
        return str(records.changes(pd.DataFrame([row]), now, pins, moved)["verdict"][0])

    assert verdict() == "other versions"
    assert verdict(value=2.2) == "other answer"
    assert verdict(outcome="fails", value=None) == "worse"
    assert records.changes(pd.DataFrame([row]), pd.DataFrame([{**row, "date": "2027-01-01"}]), pins, pins)["verdict"][0] == "same"


def test_the_catalogue_says_where_everything_is_documented() -> None:
    assert len(catalogue()) >= 12 and len({t.name for t in catalogue()}) == len(catalogue())
    for trial in catalogue():
        for said in (trial.instructions, trial.prediction):
            assert said.startswith("https://") or (trial.name == "ours" and (ROOT / said).is_file())
        assert all(cure.reason and cure.source.startswith("https://") for cure in trial.cures)
        for program in (trial.first(), *(trial.first(cure.program) for cure in trial.cures)):
            compile(program, trial.name, "exec")
    with pytest.raises(InputError, match="expected one of"):
        find("maestro")


def test_every_exercise_adds_to_a_tool_of_the_catalogue() -> None:
    for exercise in exercises.read():
        assert find(exercise.name).tool
        compile(exercise.program, exercise.name, "exec")


def test_a_killed_run_resumes_with_the_tool_that_it_was_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def tries(trial: Trial, out: Path) -> dict[str, pd.DataFrame]:
        tried.append(trial.name)
        if tried == ["genz", "kavier"]:
            raise KeyboardInterrupt
        row = {"tool": trial.tool, "outcome": "runs", "classes": "", "message": "", "value": 1.0}
        return {
            "outcome": pd.DataFrame([row]),
            "steps": pd.DataFrame([{"tool": trial.tool, "step": "all", "seconds": 1.0}]),
            "pins": pd.DataFrame([{"tool": trial.tool, "name": "x", "version": "1", "sha256": "ab"}]),
        }

    monkeypatch.setattr(running, "attempt", tries)
    asked = ["--only", "genz", "--only", "kavier", "--only", "llm-analysis", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, asked).exit_code != 0 and not (tmp_path / "outcomes.csv").exists()
    again = CliRunner().invoke(app, asked)
    assert again.exit_code == 0 and "genz: done before" in again.output
    assert tried == ["genz", "kavier", "kavier", "llm-analysis"]
    assert pd.read_csv(tmp_path / "outcomes.csv")["tool"].tolist() == ["GenZ", "Kavier", "llm-analysis"]
    CliRunner().invoke(app, [*asked, "--again"])
    assert tried[4:] == ["genz", "kavier", "llm-analysis"]


def test_failures_are_told(tmp_path: Path) -> None:
    step = run([sys.executable, "-c", "raise SystemExit('no luck')"], "x", "try", tmp_path)
    assert step.status == 1 and step.message == "no luck"
    assert run([sys.executable, "-c", "pass"], "x", "try", tmp_path).message == ""
    slow = run([sys.executable, "-c", "import time; time.sleep(9)"], "x", "wait", tmp_path, timeout_s=0.2)
    assert slow.status == 124 and "0 s" in slow.message
