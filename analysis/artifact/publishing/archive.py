"""One file for a deposit: the sources of a commit, the results and the book that they gave, the PDFs, the lock files and their provenance.

The same commit and results give the same bytes: names are sorted, times are those of the commit, owners are left out.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import subprocess
import tarfile
from pathlib import Path

from analysis.errors import InputError
from analysis.paths import BUILD, RESULTS, ROOT

PDFS = ("article.pdf", "artifact.pdf", "book.pdf")


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise InputError("an archive names the commit it was made from: expected a git checkout", path=ROOT) from None


def files() -> dict[str, Path]:
    """What goes in, by its name in the archive."""
    if changed := _git("status", "--porcelain", "--untracked-files=no").split("\n")[0].strip():
        raise InputError(f"not committed: {changed}; an archive holds the sources of one commit", path=ROOT)
    if not (BUILD / "html" / "index.html").exists():
        raise InputError("no book has been built: run make book", path=BUILD / "html")
    found = {f"source/{name}": ROOT / name for name in _git("ls-files", "-z").split("\0") if name and (ROOT / name).is_file()}
    for folder, within in ((RESULTS, "results"), (BUILD / "html", "book")):
        found |= {f"{within}/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}
    return found | {name: BUILD / name for name in PDFS if (BUILD / name).exists()}


def write() -> tuple[Path, int]:
    """Write the archive; returns its path and how many files it holds."""
    found = dict(sorted(files().items()))
    commit, seconds = _git("log", "-1", "--format=%H %ct").split()
    provenance = {
        "commit": commit,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "lock": "source/requirements.txt",
        "sha256": {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()},
    }
    target = BUILD / "archive.tar.gz"
    partial = target.with_suffix(".partial")
    with partial.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, path in (("PROVENANCE.json", None), *found.items()):
            content = path.read_bytes() if path else json.dumps(provenance, indent=1).encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(content), int(seconds)
            archive.addfile(entry, io.BytesIO(content))
    partial.replace(target)
    return target, len(found) + 1
