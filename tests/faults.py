"""Break a build from outside and see what is lost: `make faults`. One row a fault; exits 1 where something was.

Each fault meets a copy of the code with two small notebooks. A first build's results must be whole afterwards (the old ones or the new
ones, no half), what is said must be one line, and the next build must give the same bytes as a build that nothing disturbed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import small_checkout

from tests.publishing.notebook_files import write

ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65534
SMALL = ("4k", "12k", "64k")
MOMENTS_S = (0.5, 3.0, 6.0)


class Skipped(Exception):
    """A fault that this machine or user cannot make; says why."""


@dataclass(frozen=True)
class Ended:
    """How a disturbed build ended: its exit status and what it said last."""

    status: int
    said: str


def tree(place: Path) -> Path:
    """A copy of the code with two small notebooks, of which one reads the other."""
    small_checkout(place)
    table = 'run.table(pd.DataFrame({"x": [value] * 2000}), "t", title="T", columns={"x": "a value (1)"})\nprint(run.out)'
    write(place / "notebooks", "alpha", "value = 1.5", table)
    write(place / "notebooks", "beta", 'value = float(run.read("alpha", "t").x[0]) * 2', table)
    return place


def environment(place: Path, **extra: str) -> dict[str, str]:
    """Of a build there: nothing of this process but its path."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "PYTHONPATH": str(place), "HOME": str(place), "NO_COLOR": "1", **extra}


def begin(place: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a build, or the command that the arguments are."""
    options.setdefault("env", environment(place))
    command = [*options.pop("before", []), sys.executable, "-m", "analysis", *(arguments or ["build"])]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def build(place: Path, *arguments: str, patience_s: float = 600, **options: Any) -> Ended:
    """Build, or run the command that the arguments are, and wait."""
    process = begin(place, *arguments, **options)
    said = process.communicate(timeout=patience_s)[0].strip().splitlines()
    return Ended(process.returncode, said[-1] if said else "")


def results(place: Path, below: str = "data/results") -> dict[str, str]:
    """Digest of every file of the results, or of another folder, hidden ones (of an interrupted run) left out."""
    folder = place / below
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.relative_to(folder).parts[0].startswith("."))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@contextmanager
def mounted(where: Path, *options: str) -> Iterator[None]:
    """A file system over a folder, as root."""
    if os.geteuid() != 0:
        raise Skipped("needs root, to mount")
    made = subprocess.run(["mount", *options, str(where)], capture_output=True, text=True)
    if made.returncode:
        raise Skipped(f"mount: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(where)], check=True)


def killed(place: Path, after_s: float) -> Ended:
    """Kill -9 the build some seconds after it began."""
    process = begin(place)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(1)
    return Ended(process.returncode, "")


def full(place: Path, size: str, folder: str) -> Ended:
    """The folder lies on a disk of some size."""
    where = place / folder
    where.mkdir(parents=True, exist_ok=True)
    with mounted(where, "-t", "tmpfs", "-o", f"size={size}", "tmpfs"):
        return build(place)


def read_only(place: Path) -> Ended:
    """The whole tree can be read and not written."""
    with mounted(place, "--bind", str(place)):
        if subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], capture_output=True).returncode:
            raise Skipped("mount: cannot remount")
        return build(place)


def twice(place: Path) -> Ended:
    """Two builds at once."""
    both = [begin(place), begin(place)]
    said = [process.communicate()[0].strip().splitlines()[-1] for process in both]
    return Ended(max(process.returncode for process in both), said[1])


def other_times(place: Path, when: float) -> Ended:
    """Every file is of another time, as after a change of the clock."""
    for path in place.rglob("*"):
        os.utime(path, (when, when), follow_symlinks=False)
    return build(place)


def given_away(place: Path) -> dict[str, Any]:
    """Give a tree to another user; what starts a process as that user."""
    if os.geteuid() != 0:
        raise Skipped("needs root, to become another user")
    for path in [place, *place.parents]:
        if path != Path("/tmp") and str(path).startswith(tempfile.gettempdir()):
            path.chmod(0o755)
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(place)], check=True)
    try:
        subprocess.run([sys.executable, "-c", ""], user=NOBODY, group=NOBODY, check=True)
    except (PermissionError, subprocess.CalledProcessError):
        raise Skipped("the environment cannot be read by another user") from None
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def other_user(place: Path) -> Ended:
    """Another user's tree, built by that user, without a home."""
    return build(place, **given_away(place), env=environment(place, HOME="/nonexistent"))


FAULTS: list[tuple[str, str, Callable[[Path], Ended]]] = [
    *((f"killed after {s:g} s", "plain", lambda place, s=s: killed(place, s)) for s in MOMENTS_S),
    *((f"{size} of disk for the results", "plain", lambda place, size=size: full(place, size, "data/results")) for size in SMALL),
    ("64k of disk for _build", "plain", lambda place: full(place, "64k", "_build")),
    ("read-only tree", "plain", read_only),
    ("two builds at once", "plain", twice),
    ("files of 1999", "plain", lambda place: other_times(place, 915_148_800.0)),
    ("files of 2036", "plain", lambda place: other_times(place, 2_082_758_400.0)),
    ("path with spaces and letters beyond ASCII", "größe 日本", build),
    ("home that is not there", "plain", lambda place: build(place, env=environment(place, HOME="/nonexistent/home"))),
    ("another user, without a home", "plain", other_user),
    (
        "another locale and time zone",
        "plain",
        lambda place: build(place, env=environment(place, LC_ALL="tr_TR.UTF-8", LANG="tr_TR.UTF-8", TZ="Asia/Kathmandu")),
    ),
    ("one core", "plain", lambda place: build(place, before=["taskset", "-c", "0"] if shutil.which("taskset") else [])),
]
"""What is done, in a folder of which name, and how."""


def tried(name: str, folder: str, fault: Callable[[Path], Ended], expected: dict[str, str]) -> dict[str, str]:
    """One row of the table: what happened, and whether anything was lost.

    Args:
        name, folder, fault: an entry of `FAULTS`.
        expected: digests of the results of an undisturbed build.
    """
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        place = tree(Path(temporary) / folder)
        try:
            ended = fault(place)
        except Skipped as reason:
            return {"fault": name, "status": "", "said": f"skipped: {reason}", "lost": "", "same_after": ""}
        left = results(place)
        wrong = [path for path, digest in left.items() if expected.get(path) != digest]
        again = build(place)
        same = again.status == 0 and results(place) == expected
        return {
            "fault": name,
            "status": str(ended.status),
            "said": ended.said.replace(str(place), "TREE")[:200],
            "lost": "; ".join(wrong) or "nothing",
            "same_after": "yes" if same else f"no: {again.said[:120]}",
        }


def main(arguments: list[str]) -> int:
    """Try all, print the table, and write it as CSV where asked; 1 when something was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--out", type=Path, help="CSV file for the table; the faults that are in it are not tried again")
    parser.add_argument("--only", default="", help="faults whose name holds this")
    chosen = parser.parse_args(arguments)
    rows = []
    if chosen.out and chosen.out.is_file():
        with chosen.out.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    done = {row["fault"] for row in rows}
    ahead = [each for each in FAULTS if chosen.only in each[0] and each[0] not in done]
    if not ahead:
        print(f"nothing left to try of {len(FAULTS)} faults")
        return _status(rows)
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        place = tree(Path(temporary) / "plain")
        first = build(place)
        if first.status:
            print(f"error: the undisturbed build fails: {first.said}", file=sys.stderr)
            return 2
        expected = results(place)
    order = [name for name, _, _ in FAULTS]
    for name, folder, fault in ahead:
        rows.append(tried(name, folder, fault, expected))
        print(" | ".join(rows[-1].values()), flush=True)
        if chosen.out:
            rows.sort(key=lambda row: order.index(row["fault"]))
            with chosen.out.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    return _status(rows)


def _status(rows: list[dict[str, str]]) -> int:
    return int(any(row["lost"] not in ("", "nothing") or row["same_after"].startswith("no") for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
