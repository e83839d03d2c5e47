"""Which tool, claim or piece of evidence changed, when and why: read off the history of the data files.

`python -m tests.checks.changes` writes data/survey/changes.csv; the book shows that table and needs no history itself.
"""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pandas as pd

from analysis.errors import InputError
from analysis.paths import DATA, ROOT
from analysis.tables import write_csv

FOLDERS = {
    "tool": ("data/survey/tools",),
    "claim": ("data/claims/checks",),
    "evidence for a score": ("data/mtap/evidence", "data/mtap/wider", "data/mtap/others"),
}
COLUMNS = ["date", "kind", "what", "change", "why"]
LISTED = 12
"""So many names alike in one commit are all given; of more, the first few."""


def verdicts(text: str) -> dict[str, str]:
    """Verdict of each claim in a check file, without reading it as YAML (older ones need not be valid today)."""
    found, claim = {}, ""
    for line in text.splitlines():
        if name := re.match(r"([\w.\-]+):\s*$", line):
            claim = name[1]
        elif claim and (verdict := re.match(r"\s+verdict:\s*(.+?)\s*$", line)):
            found[claim] = verdict[1].strip("'\"")
    return found


def _changes(kind: str, status: str, path: str, before: str, after: str) -> list[tuple[str, str]]:
    if kind != "claim":
        text = after or before
        named = re.search(r"^tool:\s*(.+?)\s*$", text, re.MULTILINE)
        return [(named[1].strip("'\"") if named else Path(path).stem, {"A": "added", "D": "taken out"}.get(status, "changed"))]
    old, new = verdicts(before), verdicts(after)
    return [(claim, f"{old[claim]} -> {new[claim]}") for claim in new if claim in old and old[claim] != new[claim]]


def history(root: Path) -> pd.DataFrame:
    """One row for all that changed alike in one commit, oldest first.

    A claim changes when its verdict does; a tool or a piece of evidence when its file does. The reason is the commit's own line.

    Raises:
        InputError: there is no history to read (an unpacked archive, or a clone without its past).
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        if done.returncode and arguments[0] == "log":
            raise InputError("no history of the data files here: it needs a git clone", path=root)
        return "" if done.returncode else done.stdout

    rows = []
    for kind, folders in FOLDERS.items():
        log = git("log", "--reverse", "--no-renames", "--date=short", "--name-status", "--format=%x1e%h%x1f%ad%x1f%s", "--", *folders)
        for entry in log.split("\x1e")[1:]:
            head, *files = entry.strip().splitlines()
            commit, date, why = head.split("\x1f")
            alike: dict[str, list[str]] = defaultdict(list)
            for status, path in (line.split("\t") for line in files if line.endswith(".yaml") and "\t" in line):
                before = git("show", f"{commit}^:{path}") if status != "A" else ""
                after = git("show", f"{commit}:{path}") if status != "D" else ""
                for what, change in _changes(kind, status, path, before, after):
                    alike[change].append(what)
            for change, names in alike.items():
                what = ", ".join(names) if len(names) <= LISTED else f"{len(names)}, among them {', '.join(names[:3])}"
                rows.append(dict(zip(COLUMNS, (date, kind, what, change, why), strict=True)))
    return pd.DataFrame(rows, columns=COLUMNS).sort_values("date", kind="stable", ignore_index=True)


if __name__ == "__main__":
    write_csv(history(ROOT), DATA / "survey" / "changes.csv")
