"""How the event loop and the schedulers are compiled.

Only `engine.run` is compiled on its own and kept on disk; everything it calls is written with `@inlined` and becomes part of it.
Numba looks only at the file of the function it keeps, so `follow_sources` widens its view to all files the loop is made of.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba import njit

inlined = njit(error_model="numpy", forceinline=True)
SOURCES = ("compiled.py", "engine.py", "memory.py", "state.py", "steps.py", "schedulers/*.py")


def follow_sources(compiled: Any) -> None:
    """Let the copy on disk of a compiled function lapse when any of `SOURCES` changes.

    Args:
        compiled: a function under `njit(cache=True)` not yet called.
    """
    folder = Path(__file__).parent
    files = sorted(path for pattern in SOURCES for path in folder.glob(pattern))
    kept = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if kept is not None:
        kept._source_stamp = tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in files)
