"""A few damaged files for every reader, the same at every run; `make fuzz` feeds them for as long as one wants."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import read_csv
from tests.fuzz.mutations import mutated
from tests.fuzz.readers import Reader, commands, readers
from tests.fuzz.run import FAULTS, Bench, outcome

EVERY = readers()
OTHERS = [content for reader in EVERY.values() for content in reader.bases if len(content) < 100_000]
CASES = 15  # of each reader; all of them together take about ten CPU-seconds


@pytest.mark.parametrize("name", EVERY)
def test_valid_files_are_read(tmp_path: Path, name: str) -> None:
    """Damage teaches nothing where the undamaged file is refused, too."""
    reader = EVERY[name]
    accepted = 0
    for content in reader.bases:
        for folder in ("in", "out"):  # as a reader has them in `Bench`
            (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / "in" / reader.file
        path.write_bytes(content)
        try:
            reader.read(path)
            accepted += 1
        except InputError:
            continue
    assert accepted


@pytest.mark.parametrize("name", EVERY)
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    reader = EVERY[name]
    bench = Bench(reader, tmp_path_factory.mktemp("fuzz"))

    @settings(
        max_examples=CASES, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, 2**32))
    def feed(seed: int) -> None:
        random = Random(seed)
        kind, what, _ = bench.feed(mutated(random.choice(reader.bases), random, OTHERS))
        assert kind not in FAULTS, f"{name}, seed {seed}: {kind}: {what}"

    try:
        feed()
    finally:
        bench.close()


def _raises(path: Path) -> None:
    raise KeyError("x")


def _says_two_lines(path: Path) -> None:
    raise ValueError("one\ntwo")


def _writes(path: Path) -> None:
    path.with_name("other").touch()


def _writes_elsewhere(path: Path) -> None:
    (path.parents[1] / "elsewhere").write_text("x")


def _starts(path: Path) -> None:
    try:
        subprocess.run(["true"], check=True)
    except BaseException:
        return  # what is swallowed is seen all the same


def _runs(path: Path) -> None:
    exec(compile("x = 1", str(path), "exec"))


@pytest.mark.parametrize(
    ("read", "kind"),
    [
        (_raises, "traceback"), (_says_two_lines, "traceback"), (_writes, "outside"), (_writes_elsewhere, "outside"), (_starts, "run"),
        (_runs, "run"),
    ],
)  # fmt: skip
def test_the_harness_sees_faults(tmp_path: Path, read: object, kind: str) -> None:
    bench = Bench(Reader([b"x"], read), tmp_path)  # type: ignore[arg-type]
    try:
        assert bench.feed(b"x")[0] == kind
    finally:
        bench.close()
    assert not (tmp_path / "elsewhere").exists()


def test_the_output_folder_may_be_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    reader = Reader([b"x"], lambda path: (out / "x").write_text("x"))
    assert outcome(reader, tmp_path / "x", out) == ("accepted", "")
    assert os.listdir(out) == ["x"]


def test_the_recorded_fuzz_run_is_of_every_reader_and_left_no_fault() -> None:
    """Issue 19: at least a million cases, no traceback, hang, file outside the output folder, nor code run from data."""
    recorded = read_csv(DATA / "evaluation" / "fuzz.csv", required=["reader", "kind", "cases"])
    assert set(recorded.reader[recorded.kind == "reader"]) == set(EVERY)
    assert set(recorded.reader[recorded.kind == "command"]) == set(commands())
    assert recorded.cases[recorded.kind == "reader"].sum() >= 1_000_000
    assert (recorded.cases == recorded.accepted + recorded.refused).all()
    assert (recorded.accepted > 0).all()  # where all is refused the valid file was, too
    assert not recorded[[f"{kind}s" if kind != "memory" else kind for kind in FAULTS]].to_numpy().any()
