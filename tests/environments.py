"""Build a part of the book in five strange places and compare it byte for byte: `python -m tests.environments`. Exits 1 where one differs.

Each place gets a copy of this checkout, with its compiled code, and runs the notebooks that cost least (tier quick), from nothing.
`--pages` builds all pages as well, from the results that lie in `data/results`.
With `--out FILE` a run goes on where it stopped: places that have a row are not built again, and the digests of the plain one lie beside.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.faults import ROOT, Skipped, build, environment, given_away, results

BUILT = ("_build/quick/results", "_build/html")
ELSEWHERE = {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"}
ONE_CORE = ("taskset", "-c", "0")
STRANGE: dict[str, tuple[str, dict[str, str], tuple[str, ...], bool]] = {
    "plain": ("plain", {}, (), False),
    "path with spaces and letters beyond ASCII": ("größe 日本", {}, (), False),
    "home that cannot be written into": ("plain", {"HOME": "/proc"}, (), False),  # not by root either
    "another user, without a home": ("plain", {"HOME": "/nonexistent"}, (), True),
    "another locale and time zone": ("plain", ELSEWHERE, (), False),
    "one core": ("plain", {}, ONE_CORE, False),
    "all five at once": ("größe 日本", {**ELSEWHERE, "HOME": "/proc"}, ONE_CORE, True),
}
"""Name: folder, variables, command in front, whether as another user."""


def checkout(place: Path) -> Path:
    """A copy of what git knows of this checkout, with the code that was compiled."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    for cache in (ROOT / "analysis").rglob("__pycache__"):
        shutil.copytree(cache, place / cache.relative_to(ROOT))
    return place


def cheapest(number: int) -> list[str]:
    """The notebooks that took least processor time at tier quick."""
    with (ROOT / "notebooks" / "costs.csv").open(newline="", encoding="utf-8") as stream:
        costs = {row["notebook"]: float(row["cpu_s"]) for row in csv.DictReader(stream) if row["tier"] == "quick"}
    return sorted(costs, key=lambda name: costs[name])[:number]


def built(name: str, notebooks: list[str], pages: bool) -> dict[str, str]:
    """Digests of all that a build in a place writes; pages under `_build/html`.

    Raises:
        Skipped: this machine or user cannot make the place.
        AssertionError: the build fails; what it said last.
    """
    folder, variables, before, other = STRANGE[name]
    with tempfile.TemporaryDirectory(prefix="environments-") as temporary:
        place = checkout(Path(temporary) / folder)
        if pages:
            shutil.copytree(ROOT / "data" / "results", place / "data" / "results")
        if before and shutil.which(before[0]) is None:
            raise Skipped(f"needs {before[0]}")
        options: dict[str, Any] = {**(given_away(place) if other else {}), "env": environment(place, **variables), "before": before}
        only = [word for each in notebooks for word in ("--only", each)]
        commands = [["build", "--tier", "quick", *only], *([["book", "--pages-only"]] if pages else [])]
        for command in commands:
            ended = build(place, *command, patience_s=3000, **options)
            assert ended.status == 0, f"{command[0]}: {ended.said}"
        found = {
            f"{below}/{path}": digest for below in ("_build/quick/results", "_build/html") for path, digest in results(place, below).items()
        }
    return found


def compared(name: str, notebooks: list[str], expected: dict[str, str], pages: bool) -> tuple[dict[str, str], dict[str, str]]:
    """One row of the table, and the digests."""
    began = _spent_s()
    row = {"environment": name, "notebooks": str(len(notebooks)), "files": "", "pages": "", "different": "", "which": "", "cpu_s": ""}
    try:
        found = built(name, notebooks, pages)
    except Skipped as reason:
        return {**row, "which": f"skipped: {reason}"}, {}
    shown = {path for path in found if path.startswith("_build/html")}
    own = ("_build/html/",) * pages + tuple(f"_build/quick/results/{notebook}/" for notebook in notebooks)
    same = {path: digest for path, digest in expected.items() if path in found or path.startswith(own)}
    different = sorted(path for path in found.keys() | same.keys() if expected and found.get(path) != same.get(path))
    counts = {"files": len(found) - len(shown), "pages": len(shown), "different": len(different), "cpu_s": round(_spent_s() - began)}
    return {**row, **{key: str(value) for key, value in counts.items()}, "which": "; ".join(different)[:300]}, found


def _spent_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str]) -> int:
    """Build everywhere, print the table, and write it as CSV where asked; 1 when a byte differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.environments", description=__doc__)
    parser.add_argument("--notebooks", type=int, default=10, help="how many")
    parser.add_argument("--pages", action="store_true", help="build all pages, too")
    parser.add_argument("--only", default="", help="environments whose name holds this (and the plain one)")
    parser.add_argument("--out", type=Path, help="CSV file for the table")
    chosen = parser.parse_args(arguments)
    notebooks = cheapest(chosen.notebooks)
    print(" ".join(notebooks), flush=True)
    rows: list[dict[str, str]] = []
    expected: dict[str, str] = {}
    beside = chosen.out.with_suffix(".digests.json") if chosen.out else None
    if beside and beside.is_file():
        expected = json.loads(beside.read_text(encoding="utf-8"))
        with chosen.out.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    for name in STRANGE:
        if (name != "plain" and chosen.only not in name) or name in [row["environment"] for row in rows]:
            continue
        row, found = compared(name, notebooks, expected, chosen.pages)
        rows.append(row)
        expected = expected or found
        if beside:
            beside.write_text(json.dumps(expected), encoding="utf-8")
        print(" | ".join(row.values()), flush=True)
        if chosen.out:
            with chosen.out.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, list(row), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    return int(any(row["different"] not in ("", "0") for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
