"""Talking to a device's process: start, ask, stop; a failure is one clear line."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from analysis.artifact.measuring.devices import MeasuredDevice
from analysis.errors import InputError
from analysis.paths import HOME


class Session:
    """A running worker of one device.

    Args:
        device: what to measure; cores: those the widest device of the campaign may use; this one takes the last of them.
        command: how to start the worker; the tests replace it.
    """

    def __init__(
        self,
        device: MeasuredDevice,
        cores: tuple[int, ...],
        command: Sequence[str] = (sys.executable, "-m", "analysis.artifact.measuring.worker"),
    ) -> None:
        self.device = device
        self.cores = cores[-device.threads :]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the session)
        self._process = subprocess.Popen(
            [*command, device.name, ",".join(map(str, self.cores))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=HOME,
            env={**os.environ, **device.environment(self.cores)},
        )
        self.facts: dict[str, str] = self._answer("starting")["ready"]

    def ask(self, request: dict[str, Any], what: str) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the missing answer tells
        return self._answer(what)

    def _answer(self, what: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        try:
            return json.loads(line)
        except ValueError:
            self.close()
            self._errors.seek(0)
            written = self._errors.read().decode(errors="replace").strip().splitlines()
            reason = written[-1] if written else f"exit status {self._process.returncode}, nothing written"
            raise InputError(f"the measuring process stopped at {what}: {reason}", key=self.device.name) from None

    def close(self) -> None:
        """End the worker: it stops at the end of its input, or is killed after ten seconds."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
