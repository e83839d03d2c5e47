"""Notebooks without waiting for imports: one process imports what every notebook needs, and forks a process and a kernel for each.

`python -m analysis.publishing.warm` reads the paths of jobs, one a line, and prints `PATH STATUS` as each ends. Only modules that every
notebook imports are imported before the fork, so that the trace of a notebook names what it used, as it does with a kernel of its own.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from analysis.paths import ROOT

EARLY = (
    "papermill",
    "nbclient",
    "nbformat",
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "matplotlib.pyplot",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.backends.backend_pdf",
    "pandas",
    "pandas.io.formats.style",
    "pydantic",
    "yaml",
    "scipy.stats",
    "scipy.optimize",
    "numba",
    "plotly.graph_objects",
    "analysis.publishing.trace",
    "analysis.publishing.run",
)
"""Imported once a build. No `analysis` module that some notebook does without, nothing that starts threads (JAX does)."""


class _Forked:
    """A forked process with the few methods of `subprocess.Popen` that a kernel's manager calls."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Exit status, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self) -> int:
        """Exit status, once it has ended."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)


class _Provisioner(LocalProvisioner):
    """Starts a kernel as a fork of this process."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Fork; `cmd` is the command line that a kernel of its own would have (python -m ipykernel_launcher ARGUMENTS)."""
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _kernel(cmd[cmd.index("-f") :], kwargs.get("cwd"))
        self.process = _Forked(pid)  # type: ignore[assignment]
        self.pid = self.pgid = pid  # type: ignore[assignment]
        return self.connection_info


class ForkingManager(AsyncKernelManager):
    """A kernel's manager that forks the kernel."""

    async def _async_pre_start_kernel(self, **options: Any) -> Any:
        if self.provisioner is None:
            self.provisioner = _Provisioner(kernel_id="forked", kernel_spec=self.kernel_spec, parent=self)
        return await super()._async_pre_start_kernel(**options)

    pre_start_kernel = _async_pre_start_kernel


def _kernel(arguments: list[str], folder: str | None) -> None:
    import pandas
    from ipykernel.kernelapp import IPKernelApp

    from analysis.publishing.execute import end_with_parent

    status = 1
    try:
        os.setsid()
        end_with_parent()
        if folder:
            os.chdir(folder)
        asyncio.set_event_loop_policy(None)
        asyncio.set_event_loop(asyncio.new_event_loop())
        for name in ("analysis.publishing.execute", "analysis.publishing.warm"):  # no notebook depends on them
            sys.modules.pop(name, None)
        pandas.set_option("display.max_columns", 20)  # what pandas itself sets where it is imported in a kernel
        sys.argv = ["ipykernel_launcher", *arguments]
        IPKernelApp.launch_instance(argv=arguments)
        status = 0
    finally:
        os._exit(status)


def _job(path: str) -> None:
    from analysis.publishing import execute

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
    """What a first compiled function and a first interactive figure load; otherwise half of the notebooks load it each for itself."""
    import numba
    import numpy
    from plotly.graph_objects import Figure

    numba.njit(lambda count: numpy.zeros(count).sum())(1)
    Figure().add_scatter(x=[0], y=[0]).to_html(full_html=False, include_plotlyjs=False)


def serve() -> None:
    """Import, then fork a process for each job that standard input names, until it ends."""
    from analysis.publishing.execute import end_with_parent

    end_with_parent()
    for name in EARLY:
        importlib.import_module(name)
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
        environment: of the notebooks.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "analysis.publishing.warm"],
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

    def close(self) -> None:
        """Let it end."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


if __name__ == "__main__":
    serve()
