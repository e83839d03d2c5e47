"""Runs one notebook: `python -m analysis.artifact.publishing.execute JOB.json`.

The job names the notebook, its parameters, the folder for its results and where to write the trace and the report. Results are
complete when this process ends with status 0; the build moves them into place then. papermill runs the cells by nbclient, in an IPython
shell of this same process: starting a kernel takes longer than most notebooks, and talking to one as long as a short cell.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import re
import resource
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import pandas
import papermill
from ipykernel.compiler import XCachingCompiler
from ipykernel.zmqshell import ZMQInteractiveShell
from jupyter_client.session import Session
from nbclient.exceptions import CellExecutionError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, papermill_engines
from papermill.log import logger
from traitlets.config import Config

from analysis.artifact.publishing import trace
from analysis.paths import ROOT


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


class _Stream(io.StringIO):
    """What a cell prints, sent whenever it is flushed."""

    encoding = "utf-8"

    def __init__(self, name: str, session: _Session, number: int) -> None:
        super().__init__()
        self.name, self._session, self._number = name, session, number

    def fileno(self) -> int:
        """What is written past Python goes to the build's log."""
        return self._number

    def flush(self) -> None:
        """Let what was printed be an output of the cell."""
        if text := self.getvalue():
            self.seek(0)
            self.truncate()
            self._session.send(None, "stream", {"name": self.name, "text": text})


class _Session(Session):
    """What the shell tells its client, taken by the client without a socket between them."""

    take: Any = None

    def send(self, stream: Any, msg_or_type: Any, content: Any = None, *_: Any, **__: Any) -> Any:
        """Hand a message to the client."""
        message = msg_or_type if isinstance(msg_or_type, dict) else self.msg(msg_or_type, content)
        self.take(message)
        return message


@cache
def shell() -> Any:
    """The IPython shell of this process; the process that forks notebooks' processes makes it, once a build."""
    return ZMQInteractiveShell.instance(compiler_class=XCachingCompiler, config=Config({"HistoryManager": {"enabled": False}}))


class _Client(PapermillNotebookClient):  # type: ignore[misc]
    """nbclient's client, with a shell in its own process for a kernel."""

    def execute(self, **_: Any) -> Any:
        """Run all cells up to the first that fails."""
        self.reset_execution_trackers()
        trace.start()
        self.session = shell().displayhook.session = shell().display_pub.session = _Session()
        self.papermill_execute_cells()
        return self.nb

    def execute_cell(self, cell: Any, index: int) -> None:
        """Run a cell; its outputs are what the shell sends meanwhile."""
        if cell.cell_type != "code" or not cell.source.strip():
            return
        cell.outputs, self.clear_before_next_output = [], False
        cell.execution_count = shell().execution_count
        self.session.take = lambda message: self.process_message(message, cell, index)
        printed, warned = _Stream("stdout", self.session, 1), _Stream("stderr", self.session, 2)
        with redirect_stdout(printed), redirect_stderr(warned):
            result = shell().run_cell(cell.source, store_history=True)
            printed.flush()
            warned.flush()
        if error := result.error_before_exec or result.error_in_exec:
            raise CellExecutionError.from_cell_and_msg(cell, {"ename": type(error).__name__, "evalue": str(error), "traceback": []})


class _Here(Engine):  # type: ignore[misc]
    """papermill's engine on this client."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **_: Any) -> None:
        """Run the cells of a notebook that papermill has given its parameters."""
        _Client(nb_man, kernel_name=kernel_name, log=logger).execute()


papermill_engines.register("here", _Here)


def execute(job: dict[str, Any]) -> dict[str, Any]:
    """Run the notebook of a job through papermill; returns what it cost and, if it failed, where."""
    pandas.set_option("display.max_columns", 20)  # what pandas itself sets where it is imported in a kernel
    sys.modules.pop("analysis.artifact.publishing.execute", None)  # no notebook depends on it
    page = Path(job["page"])
    page.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    failure = None
    try:
        done = papermill.execute_notebook(
            job["notebook"],
            str(page),
            parameters=job["parameters"],
            progress_bar=False,
            kernel_name="python3",
            language="python",
            cwd=job["cwd"],
            request_save_on_cell_execute=False,
            engine_name="here",
        )
        trace.save(job["trace"])
    except papermill.PapermillExecutionError as error:
        failure = {"cell": error.exec_count, "error": f"{error.ename}: {error.evalue}", "source": error.source}
    else:
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
