"""The build: what runs again and what does not, failures, interruptions, and the same bytes every time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from conftest import run_analysis, small_checkout
from publishing.notebook_files import write

from analysis.artifact.publishing.execute import clean

pytestmark = pytest.mark.build

TABLE = 'run.table(pd.DataFrame({{"x": [{value}]}}), "t", title="T", columns={{"x": "a value (1)"}})'
FIGURE = """
from analysis import theme
theme.apply()
fig, ax = theme.figure()
ax.plot([1, 2, 3], [value, 2 * value, 1])
run.figure(fig, "line", caption="A line.", made="By hand.")
run.number("value", value, "{:.3f}")
"""
SAID = """
import sys
from IPython.display import display
print("before")
print("warned", file=sys.stderr)
display(pd.DataFrame({"x": [1]}), {"text/html": "<b>x</b>"})
print("after")
value
"""


def three(copy: Path) -> None:
    """alpha uses a module of the package, beta reads alpha's table, gamma uses neither."""
    (copy / "analysis" / "probe_one.py").write_text('"""Probe."""\n\n\ndef value() -> float:\n    """One."""\n    return 1.5\n')
    (copy / "data" / "input.csv").write_text("x\n4\n")
    start = "from analysis.probe_one import value as probe\nvalue = probe()"
    write(copy / "notebooks", "alpha", start, TABLE.format(value="value"), FIGURE)
    write(copy / "notebooks", "beta", 'value = float(run.read("alpha", "t").x[0]) * 2', TABLE.format(value="value"), FIGURE)
    reads = "from analysis.paths import DATA\nvalue = float(pd.read_csv(DATA / 'input.csv').x[0])"
    write(copy / "notebooks", "gamma", reads, TABLE.format(value="value"), FIGURE, SAID)
    (copy / "book" / "_toc.yml").write_text("format: jb-book\nroot: intro\nchapters:\n- glob: notebooks/*\n")
    (copy / "book" / "intro.md").write_text(
        "# Intro\n\nThe value is {num}`beta.value`, its cell {num}`beta/t[x: 3].x:.2f µs`.\n\n```{result-figure} alpha/line\n```\n"
    )


@pytest.fixture(scope="module")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which all `three` were built."""
    folder = small_checkout(tmp_path_factory.mktemp("built"))
    three(folder)
    assert build(folder) == ["alpha", "beta", "gamma"]
    return folder


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """The same, moved to a folder of the test's own."""
    return Path(shutil.copytree(built_once, tmp_path / "checkout"))


def build(copy: Path) -> list[str]:
    """Build the notebooks; returns the names of those that ran."""
    done = run_analysis("build", cwd=copy)
    assert done.returncode == 0 and "Warning" not in done.stderr, done.stdout + done.stderr
    return sorted(line.split("]")[1].split()[0] for line in done.stdout.splitlines() if line.startswith("  ["))


def digests(*folders: Path) -> dict[str, str]:
    """Digest of every file below some folders."""
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_only_what_uses_a_change_runs_again(built: Path) -> None:
    assert build(built) == []
    module = built / "analysis" / "probe_one.py"
    module.write_text(module.read_text() + "\n# a comment changes no result\n")
    assert build(built) == ["alpha"], "alpha's results are the same bytes, so beta stands"
    module.write_text(module.read_text().replace("1.5", "2.5"))
    assert build(built) == ["alpha", "beta"]
    (built / "data" / "input.csv").write_text("x\n5\n")
    before = digests(built / "data" / "results" / "beta")
    (built / "data" / "results" / "beta" / "t.csv").unlink()
    assert build(built) == ["beta", "gamma"]
    assert digests(built / "data" / "results" / "beta") == before
    used = json.loads((built / "_build" / "book" / "stamps" / "alpha.json").read_text())["inputs"]
    assert "analysis/probe_one.py" in used and not any("gamma" in name for name in used)
    (built / "notebooks" / "parameters.yaml").write_text("gamma:\n  book: {extra: 1}\n")
    assert build(built) == ["gamma"]


def test_papermill_writes_the_same_table_and_a_failing_notebook_spoils_nothing(built: Path) -> None:
    table = (built / "data" / "results" / "gamma" / "t.csv").read_bytes()
    arguments = [sys.executable, "-m", "papermill", "notebooks/gamma.ipynb", "out.ipynb", "-p", "out", "elsewhere"]
    done = subprocess.run(arguments, cwd=built, env={**os.environ, "PYTHONPATH": str(built)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (built / "elsewhere" / "t.csv").read_bytes() == table
    pages = [nbformat.read(path, 4) for path in (built / "out.ipynb", built / "data" / "results" / "gamma" / "gamma.ipynb")]
    clean(pages[0], outputs=True)
    outputs = [[output for cell in page.cells for output in cell.get("outputs", [])] for page in pages]
    assert outputs[0] == outputs[1], "the build's shell shows what a kernel does"
    kinds = [output.output_type for output in outputs[1]]
    assert kinds[-6:] == ["stream", "stream", "display_data", "display_data", "stream", "execute_result"]
    assert json.loads((built / "elsewhere" / "manifest.json").read_text())["tables"]["t"]["title"] == "T"
    before = digests(built / "data" / "results" / "alpha")
    module = built / "analysis" / "probe_one.py"
    module.write_text(module.read_text().replace("return 1.5", "return 1 / 0"))
    done = run_analysis("build", cwd=built)
    assert done.returncode == 1
    assert "alpha failed in cell" in done.stderr and "ZeroDivisionError" in done.stderr
    assert "_build/failed/alpha.ipynb" in done.stderr and (built / "_build" / "failed" / "alpha.ipynb").exists()
    assert digests(built / "data" / "results" / "alpha") == before


def test_quick_has_its_own_parameters_and_folder(copy: Path) -> None:
    write(copy / "notebooks", "alpha", TABLE.format(value="n"), parameters="n = 10")
    (copy / "notebooks" / "parameters.yaml").write_text("alpha:\n  quick: {n: 3}\n")
    assert run_analysis("build", "--tier", "quick", cwd=copy).returncode == 0
    assert (copy / "_build" / "quick" / "results" / "alpha" / "t.csv").read_text() == "x\n3\n"
    assert not (copy / "data" / "results").exists()


def test_wrong_setups_are_one_clear_line(copy: Path) -> None:
    write(copy / "notebooks", "alpha", 'run.read("nothing", "t")')
    done = run_analysis("build", cwd=copy)
    assert done.returncode == 2 and "reads the results of a notebook that does not exist: nothing" in done.stderr
    write(copy / "notebooks", "alpha", 'run.read("beta", "t")')
    write(copy / "notebooks", "beta", 'run.read("alpha", "t")')
    done = run_analysis("build", cwd=copy)
    assert done.returncode == 2 and "in a circle: alpha, beta" in done.stderr
    (copy / "notebooks" / "parameters.yaml").write_text("gone: {}\n")
    done = run_analysis("build", cwd=copy)
    assert done.returncode == 2 and "parameters for a notebook that does not exist" in done.stderr


def test_pages_unknown_numbers_and_killed_builds(built: Path) -> None:
    done = run_analysis("book", cwd=built)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = built / "_build" / "html"
    intro_html = (pages / "intro.html").read_text()
    assert "3.000" in intro_html and "3.00\u00a0µs</a>" in intro_html and 'href="notebooks/beta.html#:~:text=%22t%22"' in intro_html
    first = digests(pages)
    intro = built / "book" / "intro.md"
    text = intro.read_text()
    intro.write_text(text.replace("beta.value", "beta.typo").replace("[x: 3]", "[x: 4]"))
    done = run_analysis("book", cwd=built)
    assert done.returncode == 1 and "unknown number beta.typo" in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "x: 4" in line]
    assert done.returncode == 1 and "intro.md:3:" in line and line.endswith("t.csv: expected one row where x=4, found 0")
    assert digests(pages) == first, "the pages of before stay"
    intro.write_text(text)
    assert run_analysis("book", cwd=built).returncode == 0
    assert digests(pages) == first
    again = run_analysis("book", cwd=built)
    assert "up to date" in again.stdout
    stop_builds(built, first)


def stop_builds(copy: Path, pages: dict[str, str]) -> None:
    """`kill -9` at three moments, the whole process group and the leader alone, then a build that is left in peace: the same bytes."""
    expected = digests(copy / "data" / "results") | pages
    _remove(copy / "data" / "results")
    _remove(copy / "_build")
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    for number, moment in enumerate((0.3, 2.5, 5.0)):
        process = subprocess.Popen(
            [sys.executable, "-m", "analysis", "book"],
            cwd=copy,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(moment)
        if number % 2:
            process.send_signal(signal.SIGKILL)
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert run_analysis("book", cwd=copy).returncode == 0
    assert digests(copy / "data" / "results", copy / "_build" / "html") == expected


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
