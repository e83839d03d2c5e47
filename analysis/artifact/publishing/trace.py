"""What a notebook really used: the modules of this package that it imported and the files it opened."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from analysis.paths import DATA, ROOT

_opened: set[str] = set()
_listed: set[str] = set()
_on = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _on:
        return
    if event == "open":
        path, mode = arguments[0], arguments[1]
        if isinstance(path, (str, os.PathLike)) and (mode is None or not set("wax+") & set(str(mode))):
            _opened.add(os.path.abspath(os.fspath(path)) if not isinstance(path, bytes) else "")
    elif event in ("os.listdir", "os.scandir"):
        path = arguments[0]
        if isinstance(path, (str, os.PathLike)):
            _listed.add(os.path.abspath(os.fspath(path)))


def start() -> None:
    """Begin to note every file opened for reading and every folder listed in this process."""
    global _on
    if not _on:
        sys.addaudithook(_hook)
    _on = True


def _ours(path: str) -> bool:
    """Whether a path is an input of the build: in the repository and neither made by it nor part of the environment."""
    if path == str(DATA / "columns.yaml"):  # words that the pages take from it, and no result
        return False
    inside = [ROOT / "analysis", ROOT / "data", ROOT / "bib", ROOT / "notebooks"]
    if not any(path.startswith(f"{folder}{os.sep}") or path == str(folder) for folder in inside):
        return False
    return "__pycache__" not in path and "/." not in path.removeprefix(str(ROOT))


def listing(folder: str | Path) -> str:
    """Digest of the names in a folder, so that a file added to it counts as a change."""
    names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "__pycache__")))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def save(path: str | Path) -> None:
    """Write what was used so far as JSON: `modules`, `files` and `folders`, relative to the repository."""
    global _on
    _on = False
    modules = {
        module.__file__
        for name, module in list(sys.modules.items())
        if name.split(".")[0] == "analysis" and getattr(module, "__file__", None)
    }
    relative = lambda names: sorted(os.path.relpath(name, ROOT) for name in names)  # noqa: E731
    files = {name for name in _opened if _ours(name) and os.path.isfile(name) and not name.endswith(".py")}
    folders = {name for name in _listed if _ours(name) and os.path.isdir(name) and f"{os.sep}analysis" not in name.removeprefix(str(ROOT))}
    content = {"modules": relative(modules), "files": relative(files), "folders": relative(folders)}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")
