"""The wheel, installed into an environment of its own, answers every command's example in a folder that is no checkout."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analysis.__main__ import RUN, command_names
from analysis.paths import EXAMPLES, ROOT

LINES = [
    (folder.name, line)
    for folder in sorted(EXAMPLES.iterdir())
    if (folder / RUN).is_file()
    for line in (folder / RUN).read_text(encoding="utf-8").splitlines()
]
PARTS = ("analysis", "data", "examples", "pyproject.toml", "setup.py", "README.md", "LICENSE", "LICENSE-TEXT")
IGNORED = shutil.ignore_patterns("__pycache__", "results", "datasets")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The console command of a fresh environment that shares the packages of this one, and nothing of the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=IGNORED)
        else:
            shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(source)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    shutil.rmtree(source)
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    install = [*pip, "--python", str(python), "install", "--no-deps", "--no-index", "--no-compile", str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (site,) = environment.glob("lib/python3.*/site-packages")
    (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for path in (ROOT / "analysis").rglob("*.py"):  # what numba compiled for the checkout is good for the same files here
        place = site / path.relative_to(ROOT)
        if not place.exists():  # `howfast`, which lies beside the package there
            continue
        os.utime(place, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]"):
            (place.parent / "__pycache__").mkdir(exist_ok=True)
            shutil.copy(compiled, place.parent / "__pycache__")
    return environment / "bin" / "howfast"


def _outside(without: str = "") -> dict[str, str]:
    """An environment that leads nowhere into the checkout; `without`: a folder whose `sitecustomize` hides packages."""
    ours = ("PYTHONPATH", "ANALYSIS_DATASETS", "NUMBA_CACHE_DIR")
    return {key: value for key, value in os.environ.items() if key not in ours} | {"PYTHONPATH": without}


def _run(command: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *arguments], cwd=cwd, env=_outside(), capture_output=True, text=True)


EXTRAS = {"scipy", "sklearn", "jax", "jaxlib", "matplotlib", "networkx", "dask", "optax", "onnx", "cryptography"}
"""Packages that the wheel does not ask for."""
NEED_AN_EXTRA = {"blocks": "learning", "core key": "learning", "core seal": "learning", "core unseal": "learning"}
"""First words of a command -> the extra that it names."""
ABSENT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
"""


SERVER = """
import json, os, sys
import numba, numpy, pandas, pydantic, typer  # what most commands take longest to import
from analysis.__main__ import console
for line in sys.stdin:
    folder, arguments = json.loads(line)
    pid = os.fork()
    if not pid:
        os.chdir(folder)
        for number, name in ((1, "said.out"), (2, "said.err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.argv = ["howfast", *arguments]
        try:
            console()
        except SystemExit as stop:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(stop.code or 0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Runs commands one after another, each in a process forked when the imports are done."""

Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def ask(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Answers of the installed command in a folder, by default without `EXTRAS`."""
    folder = tmp_path_factory.mktemp("bare")
    (folder / "sitecustomize.py").write_text(ABSENT.format(names=EXTRAS))
    start = [installed.parent / "python", "-P", "-c", SERVER]
    servers = [
        subprocess.Popen(start, cwd=folder, env=_outside(without), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for without in ("", str(folder))
    ]

    def answered(cwd: Path, *arguments: str, whole: bool = False) -> subprocess.CompletedProcess[str]:
        server = servers[not whole]
        assert server.stdin is not None and server.stdout is not None
        print(json.dumps([str(cwd), arguments]), file=server.stdin, flush=True)
        status = int(server.stdout.readline())
        return subprocess.CompletedProcess(arguments, status, *[(cwd / name).read_text() for name in ("said.out", "said.err")])

    yield answered
    for server in servers:
        server.communicate()


def test_every_command_of_the_wheel_has_an_example() -> None:
    without = {"data", "measure"}  # the one fetches, the other times this machine: neither has an input
    assert {name for name, _ in LINES} == set(command_names("models", "evaluation")) - without


@pytest.mark.parametrize("name", sorted({name for name, _ in LINES}))
def test_examples_outside_the_checkout(ask: Ask, tmp_path: Path, name: str) -> None:
    """Without scipy, scikit-learn, JAX and matplotlib every example answers; those that need one name the extra that brings it."""
    done = ask(tmp_path, name, "--example", str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = [line for owner, line in LINES if owner == name]
    assert all(line in done.stdout for line in lines)
    for line in lines:
        program, *arguments = shlex.split(line)
        extra = next((extra for words, extra in NEED_AN_EXTRA.items() if line.startswith(f"howfast {words} ")), "")
        if extra:
            done = ask(tmp_path, *arguments)
            assert done.returncode == 2 and f"pip install 'howfast[{extra}]' brings it" in done.stderr, line
        # `hlo` reads programs in a process that imports JAX's parser whatever stands on the path
        done = ask(tmp_path, *arguments, whole=bool(extra) or name == "hlo")
        assert program == "howfast" and done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        outputs = [arguments[place + 1] for place, word in enumerate(arguments) if word == "--out"]
        assert all((tmp_path / out).exists() for out in outputs), line


def test_the_rest_says_that_it_needs_the_repository(installed: Path, tmp_path: Path) -> None:
    done = _run(installed, "book", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "error: book works on the repository, which an installed package is not: run it in a clone\n",
    )
    listed = _run(installed, cwd=tmp_path).stdout
    assert "  collectives" in listed and "  book" not in listed


def test_the_face_is_lazy_and_whole(installed: Path, tmp_path: Path) -> None:
    code = (
        "import sys, analysis; assert not [m for m in sys.modules if m.startswith('analysis.')], 'loads a module'\n"
        "assert 'repository' in analysis.__path__[0] or 'site-packages' in analysis.__file__\n"
        "assert all(callable(getattr(analysis, name)) for name in analysis.FACE)\n"
        "assert analysis.device('h100').memory_bytes > 79e9"
    )
    done = _run(installed.parent / "python", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_howfast_is_what_a_user_imports(installed: Path, tmp_path: Path) -> None:
    """`help(howfast)` shows every function with its line; a question asked in Python is checked as the command checks it."""
    code = (
        "import howfast, inspect, pydoc\n"
        "assert all(inspect.getdoc(getattr(howfast, name)) for name in howfast.__all__)\n"
        "assert all(f'    {name}(' in pydoc.plain(pydoc.render_doc(howfast)) for name in howfast.__all__)\n"
        "case = dict(op='gemm', device='h100', dtype='bf16', M=64, N=64, K=64)\n"
        "assert howfast.predict_kernels(case).loc[0, 'latency_ms'] > 0\n"
        "try: howfast.predict_kernels({**case, 'dtyp': 'bf16'})\n"
        "except Exception as error: assert 'did you mean dtype?' in str(error), error\n"
        "else: raise SystemExit('a misspelt column was answered')"
    )
    done = _run(installed.parent / "python", "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
