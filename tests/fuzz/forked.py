"""Read StableHLO or ONNX in a fork of this process, which has the parser loaded: as `hlo.reader` does, but sooner."""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from analysis.errors import InputError

SECONDS = 20
MEMORY_BYTES = 2 << 30


def record(path: Path) -> dict[str, Any]:
    """The record of the program in a file (see `analysis.workloads.own_process`).

    Raises:
        InputError: in the cases and words of `analysis.workloads.hlo.reader`.
    """
    from analysis.workloads import own_process
    from analysis.workloads.hlo import reader

    with open(os.memfd_create("answer"), "w+b") as answer, open(os.memfd_create("wrong"), "w+b") as wrong:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.alarm(10 * SECONDS)
                os.dup2(wrong.fileno(), 2)
                held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()  # of the tests that ran before
                resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY_BYTES, held + MEMORY_BYTES))
                resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
                gc.disable()
                try:
                    found = own_process.record(str(path), None, 0, {})
                except MemoryError:
                    found = {"error": "needs more memory", "line": 0}
                answer.write(json.dumps(found).encode())
                answer.flush()
                status = 0
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                sys.stderr.flush()
            finally:
                os._exit(status)
        _, ended = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(ended)
        answer.seek(0)
        wrong.seek(0)
        said = wrong.read().decode(errors="replace")
        if code > 0:
            raise AssertionError(f"the child process fails: {said[-500:]}")
        if code:
            raise InputError(reader._why(code, said, SECONDS, MEMORY_BYTES), path=path)
        found = json.loads(answer.read())
    if "error" in found:
        raise InputError(found["error"], path=path, line=found["line"] or None)
    return dict(found)
