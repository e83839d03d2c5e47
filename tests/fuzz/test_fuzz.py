"""A few damaged files for every reader, the same at every run; `make fuzz` feeds them for as long as one wants."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from analysis.errors import InputError
from tests.fuzz.mutations import mutated
from tests.fuzz.readers import readers
from tests.fuzz.run import fault_of

EVERY = readers()
OTHERS = [content for bases, _ in EVERY.values() for content in bases]
CASES = 25  # of each reader; all of them together take about ten CPU-seconds


@pytest.mark.parametrize("name", EVERY)
def test_valid_files_are_read(tmp_path: Path, name: str) -> None:
    """Damage teaches nothing where the undamaged file is refused, too."""
    bases, read = EVERY[name]
    accepted = 0
    for content in bases:
        (tmp_path / "input.yaml").write_bytes(content)
        try:
            read(tmp_path / "input.yaml")
            accepted += 1
        except InputError:
            continue
    assert accepted


@pytest.mark.parametrize("name", EVERY)
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    bases, read = EVERY[name]
    folder = tmp_path_factory.mktemp("fuzz")

    @settings(
        max_examples=CASES, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.integers(0, 2**32))
    def feed(seed: int) -> None:
        random = Random(seed)
        fault = fault_of(read, mutated(random.choice(bases), random, OTHERS), folder)
        assert not fault, f"{name}, seed {seed}: {fault}"

    feed()


@pytest.mark.parametrize("kind", ["traceback", "writes"])
def test_the_harness_sees_faults(tmp_path: Path, kind: str) -> None:
    def bad(path: Path) -> None:
        if kind == "traceback":
            raise KeyError("x")
        path.with_name("other").touch()

    assert {"traceback": "KeyError", "writes": "writes beside"}[kind] in fault_of(bad, b"", tmp_path)
