"""How is long work frozen? In pieces that resume, with its provenance: one way for every study of the full tier.

    pieces = Freeze(folder)
    pieces.run({"seed_0": lambda: {"scores": frame}, ...})   # what is done is not done again
    write_csv(pieces.joined("scores"), frozen / "scores.csv")
    write_csv(origin(["neusight/bmm_nvidia"]), frozen / "origin.csv")

What was tried on the way goes into the log with `analysis.studies.attempts.record`.
"""

from __future__ import annotations

import datetime
import hashlib
import platform
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.paths import ROOT
from analysis.studies import datasets
from analysis.tables import read_csv, write_csv

Piece = Callable[[], Mapping[str, pd.DataFrame]]


@dataclass(frozen=True)
class Freeze:
    """Pieces of a long study, each a few tables in `folder`; an interrupted run goes on where it stopped.

    Attributes:
        folder: holds `<piece>.<table>.csv`, and `<piece>.done.csv` once all of a piece's tables are written.
    """

    folder: Path

    def done(self) -> list[str]:
        """Names of the finished pieces."""
        return sorted(path.name.removesuffix(".done.csv") for path in self.folder.glob("*.done.csv"))

    def run(self, pieces: Mapping[str, Piece], only: Collection[str] | None = None) -> None:
        """Run the pieces that are not finished; several processes can share the work."""
        for name, piece in pieces.items():
            if (only is not None and name not in only) or name in self.done():
                continue
            for table, frame in piece().items():
                if len(frame):
                    write_csv(frame, self.path(name, table))
            write_csv(pd.DataFrame({"piece": [name]}), self.path(name, "done"))

    def path(self, piece: str, table: str) -> Path:
        """File of a piece's table."""
        return self.folder / f"{piece}.{table}.csv"

    def read(self, piece: str, table: str) -> pd.DataFrame:
        """A piece's table; empty text stays text. Without rows where the piece had none."""
        path = self.path(piece, table)
        return read_csv(path, keep_default_na=False) if path.exists() else pd.DataFrame()

    def joined(self, table: str) -> pd.DataFrame:
        """A table of all pieces, one under the other, by name of the piece."""
        return pd.concat([read_csv(path) for path in sorted(self.folder.glob(f"*.{table}.csv"))], ignore_index=True)


def commit() -> str:
    """The commit that the work is done at; empty outside a repository."""
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def digests(files: Mapping[str, Path]) -> dict[str, str]:
    """SHA-256 of each file, by the name given."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def origin(inputs: Iterable[str]) -> pd.DataFrame:
    """Commit, digests of the inputs, machine, Python and date, as rows of `what` and `value`."""
    rows = {"commit": commit() or "unknown", "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    rows |= {"machine": f"{platform.machine()} {platform.system()}", "python": platform.python_version()}
    rows |= {f"sha256 of {name}": digest for name, digest in digests({name: datasets.find(name) for name in inputs}).items()}
    return pd.DataFrame({"what": list(rows), "value": list(rows.values())})
