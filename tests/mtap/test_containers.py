"""Container files: what they start from, where a build ended and why, what a prediction inside cost. A script says the engine's lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.artifact.commands.repository.trials import app
from analysis.artifact.mtap.trials import containers
from analysis.errors import InputError

FILE = """ARG BASE=python:3.11
FROM golang:1.24 AS builder
RUN go mod download
FROM --platform=linux/amd64 ${BASE}
COPY --from=ghcr.io/tool/uv:latest /uv /bin/
COPY --from=builder /out /out
FROM scratch
"""
ENGINE = """#!/bin/sh
case "$1" in
bud) echo 'STEP 1/3: FROM a'; echo 'STEP 2/3: RUN make'; sleep 0.3; echo "$SAYS"
     test "$RC" = 0 && echo 'STEP 3/3: CMD x' && sleep 0.2
     echo 'Error: building at STEP "RUN make": exit status 2'; exit "$RC";;
from) echo named;;
run) case "$*" in *du*) printf '123\\t/\\n';; *) echo '{"quantity": "latency", "value": 2.5, "unit": "ms"}';; esac;;
esac
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    engine = tmp_path / "engine"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    monkeypatch.setattr(containers, "ENGINE", str(engine))
    (tmp_path / "Dockerfile").write_text(FILE)
    return tmp_path / "Dockerfile"


def test_base_images_are_those_that_no_stage_made() -> None:
    assert containers.base_images(FILE) == ["golang:1.24", "python:3.11", "ghcr.io/tool/uv:latest"]


def test_each_step_lasts_until_the_next_and_the_prediction_is_asked_inside(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RC", "0")
    tables = containers.attempt("A tool", file, program="print(1)")
    row, seconds = tables["containers"].iloc[0], list(tables["container_steps"]["seconds"])
    assert (row["status"], row["step"], row["steps"], row["size_mb"], row["value"], row["unit"]) == (0, 3, 3, 123, 2.5, "ms")
    assert seconds[0] < 0.25 <= seconds[1] < 1.5 and seconds[2] >= 0.15
    assert row["root"] == "as shipped" and row["class"] == ""


@pytest.mark.parametrize(
    ("says", "expected"), [("ld: symbol not found", "F1"), ("go: lookup proxy.golang.org on 10.0.0.1:53: no such host", "blocked")]
)
def test_a_build_that_ends_names_its_step_and_its_cause(file: Path, monkeypatch: pytest.MonkeyPatch, says: str, expected: str) -> None:
    monkeypatch.setenv("RC", "2")
    monkeypatch.setenv("SAYS", says)
    row = containers.attempt("A tool", file, program="print(1)")["containers"].iloc[0]
    assert (row["status"], row["stopped_at"], row["class"]) == (2, "RUN make", expected)
    assert row["message"] == says.replace("10.0.0.1:53", "<address>")


def test_without_an_engine_or_with_a_root_that_is_no_pair_it_is_said_in_a_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "ENGINE", "no-such-engine")
    with pytest.raises(InputError, match="Debian's package buildah"):
        containers.attempt("A tool", file)
    said = CliRunner().invoke(app, ["--container", str(file), "--root", "python:3.11", "--out", str(file.parent / "out")])
    assert isinstance(said.exception, InputError) and "IMAGE=ROOT.tar" in str(said.exception)
