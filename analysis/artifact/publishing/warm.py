"""Notebooks without waiting for imports: one process imports what every notebook needs, and forks a process for each.

`python -m analysis.artifact.publishing.warm` reads the paths of jobs, one a line, and prints `PATH STATUS` as each ends. Only modules
that every notebook imports are imported before the fork, so that the trace of a notebook names what it used.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import subprocess
import sys
from pathlib import Path

from analysis.call_stack import in_one_piece
from analysis.paths import ROOT

EARLY = (
    "analysis.artifact.publishing.execute",  # with papermill, nbformat, nbclient, IPython and yaml
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "pandas",
    "pandas.io.formats.style",
    "pydantic",
    "analysis.artifact.publishing.trace",
    "analysis.artifact.publishing.run",
)
"""Imported once a build. No `analysis` module that some notebook does without, nothing that starts threads (JAX does)."""
MANY = 5
"""From so many notebooks on `_use_once` saves more than it takes."""


def _job(path: str) -> None:
    from analysis.artifact.publishing import execute

    status = 1
    try:
        log = os.open(Path(path).with_name("log.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        status = execute.main(path)
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:  # a full disk
        print(f"error: {error}", file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(status)


def _use_once() -> None:
    """What a first notebook, compiled function and figure of each kind load; otherwise most notebooks load it each for itself."""
    import matplotlib.pyplot as plt
    import nbformat
    import numba
    import numpy
    import scipy.optimize
    import scipy.stats  # noqa: F401 (most notebooks do)
    from plotly.graph_objects import Figure

    from analysis import theme
    from analysis.artifact.publishing.package import glossary
    from analysis.artifact.publishing.run import drawn

    glossary()
    nbformat.validate(nbformat.v4.new_notebook())

    numba.njit(lambda count: numpy.zeros(count).sum())(1)
    Figure().add_scatter(x=[0], y=[0]).to_html(full_html=False, include_plotlyjs=False)
    with plt.rc_context():
        theme.apply()
        fig, ax = theme.figure()
        ax.loglog([1e-6, 1e9], [1, 1000], label="a")
        ax.set_xticks(10.0 ** numpy.arange(-6, 10))  # a power of ten takes ten milliseconds to read the first time
        ax.set_title("a")
        ax.legend()
        drawn(fig, {"svg": {}})
        plt.close(fig)


def serve() -> None:
    """Import, then fork a process for each job that standard input names, until it ends."""
    from analysis.artifact.publishing.execute import end_with_parent, shell

    end_with_parent()
    shell()
    for name in EARLY:
        importlib.import_module(name)
    if int(sys.argv[1]) >= MANY:
        _use_once()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # a notebook is short: what it leaves behind goes with its process
    running: dict[int, str] = {}
    reading = True
    while reading or running:
        if reading and select.select([0], [], [], 0.02)[0]:
            line = os.read(0, 65536).decode()
            reading = bool(line)
            for path in line.split("\n"):
                if path:
                    sys.stdout.flush()
                    pid = os.fork()
                    if pid == 0:
                        _job(path)
                    running[pid] = path
        try:
            pid, status = os.waitpid(-1, os.WNOHANG if reading else 0)
        except ChildProcessError:
            continue
        if pid in running:
            print(f"{os.waitstatus_to_exitcode(status)} {running.pop(pid)}", flush=True)


class Workers:
    """The build's side: jobs go in, exit statuses come out.

    Args:
        environment: of the notebooks; count: how many are to run.
    """

    def __init__(self, environment: dict[str, str], count: int) -> None:
        Path(environment["IPYTHONDIR"]).mkdir(parents=True, exist_ok=True)  # IPython itself warns where the folder above is missing
        self.process = subprocess.Popen(
            [sys.executable, "-m", "analysis.artifact.publishing.warm", str(count)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        self.ended: dict[str, int] = {}

    def submit(self, path: Path) -> None:
        """Run the job in a JSON file (see `execute`)."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{path}\n".encode())
        self.process.stdin.flush()

    def status(self, path: Path) -> int | None:
        """Exit status of a job, or None while it runs."""
        assert self.process.stdout is not None
        while select.select([self.process.stdout], [], [], 0)[0]:
            line = self.process.stdout.readline().decode().rstrip("\n")
            if not line:
                return self.ended.get(str(path), 1)  # the process has ended: no job of it goes on
            status, name = line.split(" ", 1)
            self.ended[name] = int(status)
        return self.ended.get(str(path))

    def wait(self) -> None:
        """Wait until a job ends, a second at most."""
        assert self.process.stdout is not None
        select.select([self.process.stdout], [], [], 1.0)

    def close(self) -> None:
        """Let it end."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


if __name__ == "__main__":
    in_one_piece(serve)
