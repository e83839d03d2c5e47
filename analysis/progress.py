"""How far long work is, on standard error: a bar on a terminal; elsewhere a line after ten seconds, then after twice as long each time."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

WIDTH = 36


class Progress:
    """Called by a search with how much is done and in all; a thread of its own writes, so that no stage of the search is silent.

    Args:
        every_s: seconds to the first line where there is no terminal; the wait doubles with each.
        stream: where to write; standard error when left out.
    """

    def __init__(self, every_s: float = 10.0, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.terminal = self.stream.isatty()
        self.every_s = 0.5 if self.terminal else every_s
        self.done, self.total, self.stage = 0, 0, "preparing"
        self.started = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __call__(self, done: int, total: int, stage: str = "configurations expanded") -> None:
        """Note the state."""
        self.done, self.total, self.stage = done, total, stage

    def text(self) -> str:
        """The state in one line."""
        seconds = f"{time.monotonic() - self.started:.0f} s"
        if not self.total:
            return f"{seconds}: {self.stage}"
        counted = f"{self.done:,} of {self.total:,} {self.stage}"
        if self.terminal:
            full = WIDTH * self.done // self.total
            return f"[{'#' * full}{'-' * (WIDTH - full)}] {seconds}, {counted}"
        return f"{seconds}: {counted}"

    def _run(self) -> None:
        wait_s = self.every_s
        while not self._stop.wait(wait_s):
            wait_s *= 1 if self.terminal else 2
            self.stream.write(f"\r{self.text()}\x1b[K" if self.terminal else f"{self.text()}\n")
            self.stream.flush()

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        if self.terminal:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
