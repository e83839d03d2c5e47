"""Runs one notebook: `python -m analysis.artifact.publishing.execute JOB.json`.

The job names the notebook, its parameters, the folder for its results and where to write the trace and the report. Results are
complete when this process ends with status 0; the build moves them into place then. papermill runs the cells by nbclient, in a kernel
that is forked and not started: its imports would take seconds of every notebook.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from analysis.paths import ROOT

BEGIN = "from analysis.artifact.publishing import trace as _trace; _trace.start()"
END = "_trace.save({path!r})"


def end_with_parent() -> None:
    """Ask the kernel to end this process when the build that started it dies, so that no orphan writes into results."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def clean(notebook: Any, *, outputs: bool) -> None:
    """Make a notebook's bytes depend on its content alone: ids in order, no times, no execution metadata.

    Args:
        notebook: an nbformat notebook, changed in place.
        outputs: keep the outputs (a page of the book) or drop them (the stored notebook).
    """
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        if cell.cell_type == "code":
            if not outputs:
                cell.outputs, cell.execution_count = [], None
            cell.outputs = [output for output in cell.outputs if not _only_a_path(output)]
            for output in cell.outputs:
                if output.output_type == "display_data" or output.output_type == "execute_result":
                    output["metadata"] = {}
                elif output.output_type == "stream":
                    output["text"] = _anywhere(output["text"])
    notebook.nbformat, notebook.nbformat_minor = 4, 5


def _only_a_path(output: Any) -> bool:
    """Whether an output is nothing but the path that a last line returned."""
    return output.output_type == "execute_result" and str(output.data.get("text/plain", "")).startswith("PosixPath(")


def _without(path: str, instead: str, text: str) -> str:
    """A text without a path, as it is or as papermill writes it into a cell: letters beyond ASCII and quotes escaped."""
    escaped = path.encode("unicode_escape").decode("ascii")
    for written in (escaped.replace('"', r"\""), escaped, path):
        text = text.replace(written, instead)
    return text


def _anywhere(text: str) -> str:
    """A cell's printed text without what differs from one machine or process to the next."""
    return _without(f"{ROOT}/", "", re.sub(r"/\S*/ipykernel_\d+/\d+\.py", "cell", text))


def _kernel(folder: str) -> Any:
    """An IPython kernel forked from this process, which has imported what notebooks need; nbclient takes its manager as it is.

    Args:
        folder: where its connection file and sockets go; a short path, since a socket's address has 107 characters at most.
    """
    from queue import Empty

    from ipykernel.kernelapp import IPKernelApp
    from jupyter_client.asynchronous import AsyncKernelClient
    from jupyter_client.manager import AsyncKernelManager

    class Client(AsyncKernelClient):
        """A client that is ready with the kernel's first published message; Jupyter's own waits 0.2 s longer for every notebook."""

        async def wait_for_ready(self, timeout: float | None = None) -> None:
            """Ask the kernel for itself until what it publishes arrives."""
            while True:
                self.kernel_info()
                await self.get_shell_msg(timeout=timeout)
                try:
                    await self.get_iopub_msg(timeout=0.02)
                    return
                except Empty:
                    continue

    class Forked(AsyncKernelManager):
        """The manager of a kernel that runs already."""

        pid, has_kernel = 0, True

        async def is_alive(self) -> bool:  # type: ignore[override]
            """Whether its process runs."""
            if self.pid and os.waitpid(self.pid, os.WNOHANG)[0]:
                self.pid = 0
            return bool(self.pid)

        def end(self) -> None:
            """End its process: what the notebook wrote is on the disk."""
            if self.pid:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)

    kernel = Forked(client_factory=Client, transport="ipc", ip=f"{folder}/s", connection_file=f"{folder}/kernel.json")
    kernel.write_connection_file()
    kernel.pid = os.fork()
    if kernel.pid == 0:
        try:
            end_with_parent()
            IPKernelApp.launch_instance(argv=["-f", kernel.connection_file])
        finally:
            os._exit(1)
    return kernel


def execute(job: dict[str, Any]) -> dict[str, Any]:
    """Run the notebook of a job through papermill; returns what it cost and, if it failed, where."""
    import nbformat
    import pandas
    import papermill

    pandas.set_option("display.max_columns", 20)  # what pandas itself sets where it is imported in a kernel
    sys.modules.pop("analysis.artifact.publishing.execute", None)  # no notebook depends on it
    notebook = nbformat.read(job["notebook"], as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(BEGIN))
    notebook.cells.append(nbformat.v4.new_code_cell(END.format(path=job["trace"])))
    page = Path(job["page"])
    page.parent.mkdir(parents=True, exist_ok=True)
    source = page.with_suffix(".source.ipynb")
    nbformat.write(notebook, source)
    began = time.monotonic()
    failure = None
    folder = tempfile.mkdtemp()
    kernel = _kernel(folder)
    try:
        papermill.execute_notebook(
            str(source),
            str(page),
            parameters=job["parameters"],
            progress_bar=False,
            log_output=False,
            kernel_name="python3",
            language="python",
            cwd=job["cwd"],
            request_save_on_cell_execute=False,
            engine_name="nbclient",
            km=kernel,
        )
    except papermill.PapermillExecutionError as error:
        failure = {"cell": error.exec_count, "error": f"{error.ename}: {error.evalue}", "source": error.source}
    finally:
        kernel.end()
        shutil.rmtree(folder, ignore_errors=True)
        source.unlink(missing_ok=True)
    if failure is None:
        done = nbformat.read(page, as_version=4)
        done.cells = done.cells[1:-1]
        for cell in done.cells:
            if "injected-parameters" in cell.metadata.get("tags", []):
                cell.source = _without(job["parameters"]["out"], f"data/results/{Path(job['notebook']).stem}", cell.source)
        clean(done, outputs=True)
        nbformat.write(done, page)
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "failure": failure,
        "wall_s": round(time.monotonic() - began, 2),
        "cpu_s": round(own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime, 2),
        "peak_mib": round(max(own.ru_maxrss, below.ru_maxrss) / 1024),
    }


def main(path: str) -> int:
    """Run the job in a JSON file and write its report; returns the exit status."""
    end_with_parent()
    if os.getppid() == 1:
        return 1
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    report = execute(job)
    Path(job["report"]).write_text(json.dumps(report), encoding="utf-8")
    return 1 if report["failure"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
