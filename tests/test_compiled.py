"""Functions compiled once, known by their content, and the same in plain Python."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numba.core.errors import TypingError

from analysis.compiled import dispatchers as compiled
from analysis.compiled import plain_python
from analysis.networks.case_table import parse_case
from analysis.networks.cases import outside_model
from analysis.networks.closed_forms import closed_form_cycles
from analysis.networks.columns import of_cases
from analysis.paths import DATA, ROOT
from analysis.tables import read_csv

OFFSET = 3


@compiled.inner
def deeper(values: np.ndarray, k: int) -> int:
    if values[k] < 0:
        raise ValueError("negative")
    return int(values[k]) + OFFSET


@compiled.inner
def deep(values: np.ndarray, k: int) -> int:
    return deeper(values, k) * 2


@compiled.outer
def total(values: np.ndarray) -> int:
    found = 0
    for k in range(len(values)):
        found += deep(values, k)
    return found


PARTS = np.dtype([("x", "i1"), ("y", "f8")], align=True)
RECORD = np.dtype([("n", "i4", (4,)), ("m", "i2", (2, 5)), ("parts", PARTS, (3,))], align=True)


@compiled.outer(_nrt=False)
def elements(s: Any, values: np.ndarray, table: np.ndarray, cube: np.ndarray) -> int:
    found = 0
    for k in range(4):
        s.n[k] += values[-1 - k]
        s.m[1, k - 2] += s.n[-1]
        s.parts[k - 3].x = 3
        s.parts[-1].y += s.m[-1, k]
        table[k, -1] = s.n[k]
        cube[k, 1, np.uint64(k)] += table[k, 0]
        found += table[-2, 4] + cube[-1, -2, 3]
    row = s.n[1:3]
    row[0] += 100
    table.T[0, 1] = values[2]
    return found + row[-1]


PROGRAM = """
import sys, numpy as np
from analysis.compiled import inner, outer
from pathlib import Path
@inner
def add(a, b):
    if b > 100:
        raise ValueError("too much")
    return a + b
@outer
def run(n):
    s = 0
    for k in range(n):
        s = add(s, k)
    return s
if __name__ == "__main__":
    print(run(10), sum(run._cache_misses.values()))
    try:
        run(1000)
    except ValueError as error:
        print(error)
"""


def test_compiled_plain_and_called_from_python_are_the_same() -> None:
    values = np.arange(10)
    assert total(values) == total.plain(values) == sum(2 * (k + 3) for k in range(10))
    assert deep(values, 4) == 14  # an inner function on its own
    for call in (total, total.plain):
        with pytest.raises(ValueError, match="negative"):
            call(np.array([1, -1]))


def test_elements_of_arrays_and_records_are_those_of_numpy() -> None:
    """Negative and unsigned indices, nested arrays, slices, arrays in another order: `analysis.compiled` lowers them itself."""
    answers = []
    for call, kind in ((elements, np.ndarray), (elements.plain, np.recarray)):
        s, table, cube = np.zeros(1, RECORD), np.arange(20.0).reshape(4, 5), np.zeros((4, 3, 5))
        found = call(s.view(kind)[0] if kind is np.recarray else s[0], np.arange(7), table, cube)
        answers.append((found, s.tobytes(), table.tobytes(), cube.tobytes()))
    assert answers[0] == answers[1] and answers[0][0] > 0


SIZED = np.dtype([("size", "i1"), ("base", "f8"), ("grid", "i2", (2, 3))], align=True)


@compiled.outer
def grow(s: Any, values: np.ndarray, by: int) -> float:
    for k in range(3):
        s.grid[1, k] += by + k
        values[k] = values[k - 3] + s.grid[-1][k]
    s.size += by
    s.base += s.size / by
    return s.base + values[-1]


def test_plain_python_changes_records_and_arrays_as_compiled_code_does() -> None:
    answers = []
    for call in (grow, lambda *given: plain_python.run_plain(grow.plain, given)):
        s, values = np.zeros(2, SIZED), np.arange(5)
        answers.append((call(s[1], values[1:4], 7), s.tobytes(), values.tobytes()))
    assert answers[0] == answers[1] and answers[0][0] > 0


def test_where_plain_python_stumbles_nothing_has_changed_and_compiled_code_answers() -> None:
    s, values = np.zeros(1, SIZED), np.arange(3)
    before = s.tobytes(), values.tobytes()
    with pytest.raises(OverflowError):
        plain_python.run_plain(grow.plain, (s[0], values, 200))  # does not fit `size`
    assert (s.tobytes(), values.tobytes()) == before
    other, same = s.copy(), values.copy()
    assert grow._in_plain(s[0], values, 200) == grow(other[0], same, 200)
    assert (str(s), values.tolist()) == (str(other), same.tolist()) and values.tobytes() != before[1]


def test_little_work_is_done_in_plain_python_until_that_has_taken_long(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = compiled.outer(grow.py_func)
    monkeypatch.setattr(fresh, "_on_disk", False)
    assert fresh.chosen(small=False) is fresh
    assert fresh.chosen(small=True) == fresh._in_plain
    fresh.chosen(small=True)(np.zeros(1, SIZED)[0], np.arange(3), 1)
    assert fresh.spent_s > 0 and fresh.chosen(small=True, patience_s=0.0) is fresh


def test_an_error_of_compilation_says_where_it_arose() -> None:
    with pytest.raises(TypingError, match=r"(?s)No implementation.*test_compiled.py"):
        compiled.outer(_adds_text)(1)


def _adds_text(value: Any) -> Any:
    return value + "text"


def test_content_counts_what_is_called_and_its_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiled.content(total)
    assert before == compiled.content(total)
    monkeypatch.setattr(sys.modules[__name__], "OFFSET", 4)
    assert compiled.content(total) != before


def test_two_processes_at_once_compile_once(tmp_path: Path) -> None:
    """The second waits and reads; an error raised two calls deep arrives in both, from compiled code and from the cache."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    both = [
        subprocess.Popen(
            [sys.executable, tmp_path / "program.py"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = sorted(process.communicate()[0] for process in both)
    assert said == ["45 0\ntoo much\n", "45 1\ntoo much\n"]


def test_a_cache_whose_types_have_moved_is_made_again(tmp_path: Path) -> None:
    """As after an update that moves a class: the compiled function's text is the same, its argument's module is gone. Neither compiling
    nor reading imports scipy.linalg, and both leave it as it was."""
    (tmp_path / "work.py").write_text("from analysis.compiled import outer\n@outer\ndef twice(p):\n    return 2 * p.x\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for home, misses in (("old", 1), ("old", 0), ("new", 1), ("new", 0)):
        for path in tmp_path.glob("???.py"):
            path.unlink()
        (tmp_path / f"{home}.py").write_text("from typing import NamedTuple\nclass Place(NamedTuple):\n    x: int\n", encoding="utf-8")
        program = (
            f"import sys, work; from {home} import Place; print(work.twice(Place(4)), sum(work.twice._cache_misses.values()), end=' ')"
        )
        program += "; print('scipy.linalg' in sys.modules); import scipy.linalg.cython_blas"
        said = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert said.stdout == f"8 {misses} False\n" and not said.returncode, said.stderr[-500:]


@pytest.fixture(scope="module")
def recorded() -> pd.DataFrame:
    return read_csv(DATA / "recorded" / "astra-sim" / "collectives.csv", dtype=str, keep_default_na=False)


def test_closed_forms_in_plain_python(recorded: pd.DataFrame) -> None:
    """Small case files are answered without compiled code: the same cycles for every tenth recorded run of ASTRA-sim."""
    cases = [parse_case(row) for row in recorded.iloc[::10].to_dict("records")]
    arrays, _ = of_cases([case for case in cases if not outside_model(case)])
    results = [np.empty(len(arrays.aware), np.int64) for _ in range(2)]
    closed_form_cycles(arrays, results[0])
    closed_form_cycles.plain(arrays, results[1])
    assert len(arrays.aware) > 200 and (results[0] == results[1]).all()


def test_the_cache_tells_fields_apart() -> None:
    """Two fields are one bytecode: what was compiled before a field was renamed or exchanged must not answer."""

    def first(record: Any) -> Any:
        return record.older

    def second(record: Any) -> Any:
        return record.newer

    assert first.__code__.co_code == second.__code__.co_code and compiled.content(first) != compiled.content(second)
