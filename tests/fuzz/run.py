"""Feed damaged files to every reader: `make fuzz`. Prints one row a reader; exits 1 after a fault.

A fault is any exception but an `InputError` of one printable line, the end of the process, more than 20 CPU-seconds, more than 2 GiB, a
file opened for writing, made, moved or taken away anywhere but in the output folder, or anything run: a process, a library, code that no
file of this program or of a package holds. A process of its own feeds each reader, watched by an audit hook (PEP 578), and is begun again
after what brings it down. Case I of a reader is the same file for the same seed: `--reader NAME --seed S --first I --cases 1` repeats it.
What brought a fault is kept in `_build/fuzz/`, to become a regression test.
"""

from __future__ import annotations

import argparse
import csv
import gc
import hashlib
import mmap
import os
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from analysis.errors import InputError
from tests.fuzz.mutations import LARGEST, mutated
from tests.fuzz.readers import ROOT, Reader, commands, readers

LONGEST_S = 20.0
MOST_BYTES = 2 << 30
STARTED = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.fork", "os.forkpty", "pty.spawn")
REACHED = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto", "urllib.Request", "ctypes.dlopen", "webbrowser.open")
CHANGED = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate", "os.utime",
    "os.setxattr", "shutil.rmtree", "shutil.move", "shutil.copyfile",
)  # fmt: skip
TEMPORARY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # files in memory: a disk would take most of the time
OURS = tuple(str(Path(folder).resolve()) for folder in (ROOT, sys.prefix, sys.base_prefix, os.path.dirname(os.__file__)))


class Hang(BaseException):
    """A reader took more than its processor time."""


class Forbidden(BaseException):
    """A reader was about to do what data must never make it do."""


def _alarm(*_: object) -> None:
    raise Hang


_watched: dict[str, Any] = {}  # while a reader reads: where it may write, whether it may start processes, what it did


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched:
        return
    wrong = ""
    if event == "open":
        path, _, flags = arguments
        if isinstance(path, str | bytes) and isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
            wrong = "" if _inside(path) else f"outside: opens {os.fsdecode(path)!r} for writing"
    elif event in CHANGED:
        paths = [os.fsdecode(each) for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)]
        if event in ("os.remove", "os.rmdir") and isinstance(arguments[-1], int) and arguments[-1] >= 0:  # named within an open folder
            paths = [os.path.join(os.readlink(f"/proc/self/fd/{arguments[-1]}"), each) for each in paths]
        wrong = "" if all(_inside(each) for each in paths) else f"outside: {event} {paths}"
    elif (event in STARTED and not _watched["starts"]) or event in REACHED:
        wrong = f"runs: {event} {str(arguments)[:200]}"
    elif event == "exec" and hasattr(arguments[0], "co_filename"):
        name = arguments[0].co_filename
        if not name.startswith((*OURS, "<frozen", "<__array_function__", "<lambdifygenerated", "namedtuple_")) and name != "<string>":
            wrong = f"runs: code of {name}"
        if name == "<string>" and not _by_a_package(sys._getframe(1)):
            wrong = "runs: code of a string"
    if wrong:
        _watched["did"].append(wrong)
        raise Forbidden(wrong)


def _inside(path: Any) -> bool:
    if os.fsdecode(path) == os.devnull:
        return True
    return f"{os.path.realpath(os.fsdecode(path))}{os.sep}".startswith(_watched["out"] + os.sep)


def _by_a_package(frame: Any) -> bool:
    """Whether the code that runs a string is a package's that makes classes and functions that way: dataclasses, numba, pandas, attrs."""
    return "/analysis/" not in frame.f_code.co_filename or "site-packages" in frame.f_code.co_filename


_hooked = False


@contextmanager
def watched(out: Path, starts: bool) -> Iterator[list[str]]:
    """While this lasts, what a reader does to the machine is stopped and listed.

    Args:
        out: the only folder that it may write to.
        starts: whether it may start processes.
    """
    global _hooked
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked = True
    did: list[str] = []
    _watched.update(out=str(out), starts=starts, did=did)
    try:
        yield did
    finally:
        _watched.clear()


def outcome(reader: Reader, path: Path, out: Path) -> tuple[str, str]:
    """What a reader makes of a file.

    Args:
        reader: what reads it.
        path: the file.
        out: the only folder that it may write to.
    Returns:
        `accepted`, `refused` (with the error), or the kind of the fault (with a few lines of it), one of `FAULTS`.
    """
    found = "accepted", ""
    try:
        with watched(out, reader.starts) as did:
            reader.read(path)
    except InputError as error:
        found = "refused", str(error)
        if not str(error).isprintable() or len(str(error)) > 2500:
            found = "line", f"an error of {len(str(error))} characters, printable: {str(error).isprintable()}"
    except Hang:
        found = "hang", f"more than {LONGEST_S:g} CPU-seconds"
    except MemoryError as error:
        found = "memory", "".join(traceback.format_exception(error)[-3:]).strip()
    except BaseException as error:
        found = "traceback", "".join(traceback.format_exception(error)[-3:]).strip()
    if did:
        return ("outside" if did[0].startswith("outside") else "run"), "; ".join(did)
    return found


def _peak_bytes() -> int:
    return max(resource.getrusage(who).ru_maxrss << 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


class Bench:
    """Where one reader is fed: its input folder, its output folder, and limits on its time and memory, looked at from time to time.

    A system call can take longer than a reader: time and files are looked at every `OFTEN_S` of processor time, the memory, whose highest
    level the system keeps, likewise.
    """

    OFTEN_S = 0.25

    def __init__(self, reader: Reader, folder: Path) -> None:
        self.reader, self.out, self.path = reader, folder / "out", folder / "in" / reader.file
        self.path.parent.mkdir(exist_ok=True)
        self.out.mkdir(exist_ok=True)
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT)
        self.before, self.peak = _peak_bytes(), 0  # of the whole process: other tests may have filled it
        self.old = signal.signal(signal.SIGVTALRM, _alarm)
        self.seen_s = -1e9

    def feed(self, content: bytes) -> tuple[str, str, float]:
        """One file: what becomes of it (see `outcome`), and its processor time (s)."""
        os.ftruncate(self.file, 0)
        os.pwrite(self.file, content, 0)
        began = time.process_time()
        if self.seen_s < 0:
            self._allow(began)
        found, what = outcome(self.reader, self.path, self.out)
        now = time.process_time()
        if now - self.seen_s > self.OFTEN_S or found in FAULTS:
            self._allow(now)
            self.peak = _peak_bytes()
            if os.listdir(self.path.parent) != [self.reader.file] or os.pread(self.file, LARGEST + 1, 0) != content:
                found, what = "outside", "changes its input or what lies beside it"
            elif self.before <= MOST_BYTES < self.peak:
                found, what = "memory", "has taken more than 2 GiB of memory"
        return found, what, now - began

    def _allow(self, now: float) -> None:
        """The time of a case begins anew, for the cases up to the next look: less than `OFTEN_S` of it may be theirs."""
        self.seen_s = now
        signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)

    def close(self) -> None:
        """The limits end."""
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self.old)
        os.close(self.file)


FAULTS = ("traceback", "line", "death", "hang", "memory", "outside", "run")


@dataclass
class Count:
    """What became of the cases of one reader."""

    reader: str
    kind: str
    seed: int
    cases: int = 0
    accepted: int = 0
    refused: int = 0
    faults: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAULTS, 0))
    cpu_s: float = 0.0
    longest_s: float = 0.0
    peak_bytes: int = 0
    date: str = ""

    def row(self) -> dict[str, Any]:
        """For the table."""
        return {
            "reader": self.reader,
            "kind": self.kind,
            "cases": self.cases,
            "accepted": self.accepted,
            "refused": self.refused,
            **{f"{kind}s" if kind != "memory" else kind: count for kind, count in self.faults.items()},
            "cpu_s": round(self.cpu_s, 1),
            "longest_s": round(self.longest_s, 3),
            "peak_mib": round(self.peak_bytes / 2**20),
            "limit_cpu_s": LONGEST_S,
            "limit_mib": MOST_BYTES >> 20,
            "seed": self.seed,
            "date": self.date,
        }


def read_table(path: Path) -> dict[str, Count]:
    """Counts of earlier runs, by reader."""
    if not path.is_file():
        return {}
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return {
        row["reader"]: Count(
            row["reader"], row["kind"], int(row["seed"]), int(row["cases"]), int(row["accepted"]), int(row["refused"]),
            {kind: int(row[f"{kind}s" if kind != "memory" else kind]) for kind in FAULTS},
            float(row["cpu_s"]), float(row["longest_s"]), int(row["peak_mib"]) << 20, row["date"],
        )
        for row in rows
    }  # fmt: skip


def write_table(path: Path, counts: dict[str, Count]) -> None:
    """The counts as CSV, readers first, then commands."""
    rows = [count.row() for count in sorted(counts.values(), key=lambda count: (count.kind != "reader", count.reader))]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}")
    with partial.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(path)


def case(name: str, reader: Reader, seed: int, number: int, others: list[bytes]) -> bytes:
    """The content of one case."""
    random = Random(f"{seed}/{name}/{number}")
    return mutated(random.choice(reader.bases), random, others)


_NOTES = struct.Struct("<qqqddq")  # cases begun, accepted, refused, CPU seconds, longest, peak bytes
_HEAD = 1 << 10
_SPACE = 1 << 22


def _work(name: str, reader: Reader, seed: int, first: int, last: int, end_s: float, others: list[bytes], notes: mmap.mmap) -> None:
    """The worker: cases one after another, its counts and faults in shared memory, so that they outlive it."""
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm") as stream:
        now = int(stream.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_BYTES + (256 << 20), resource.RLIM_INFINITY))
    accepted = refused = 0
    longest = 0.0
    where = _HEAD
    began, limited = _spent_s(), -1e9
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=TEMPORARY) as temporary:
        bench = Bench(reader, Path(temporary).resolve())
        for number in range(first, last):
            own = time.process_time()
            if own - limited > 1:  # what hangs in compiled code is ended by the system
                limited, spent = own, _spent_s() - began
                if spent > end_s:
                    break
                resource.setrlimit(resource.RLIMIT_CPU, (int(own + LONGEST_S) + 4, resource.RLIM_INFINITY))
            _NOTES.pack_into(notes, 0, number + 1 - first, accepted, refused, spent, longest, bench.peak)
            kind, what, took = bench.feed(case(name, reader, seed, number, others))
            longest = max(longest, took)
            accepted += kind == "accepted"
            refused += kind == "refused"
            if kind in FAULTS:
                told = f"{number}\t{kind}\t{what}".encode(errors="replace")[:1500].replace(b"\0", b"?") + b"\0"
                if where + len(told) < _SPACE:
                    notes[where : where + len(told)] = told
                    where += len(told)
            _NOTES.pack_into(notes, 0, number + 1 - first, accepted, refused, spent, longest, bench.peak)
        _NOTES.pack_into(notes, 0, number + (spent <= end_s) - first, accepted, refused, _spent_s() - began, longest, _peak_bytes())
        bench.close()
        notes[_HEAD - 1] = 1  # has come to its end


def _spent_s() -> float:
    return sum(os.times()[:4])


def feed(
    count: Count, reader: Reader, cases: int, seconds: float, others: list[bytes], first: int | None = None
) -> list[tuple[int, str, str]]:
    """Feed a reader for some cases or CPU-seconds more, whichever ends first; adds to its counts.

    Args:
        count: of the reader so far.
        first: case to begin with; without it the one after the last.
    Returns:
        number, kind and text of each fault.
    """
    found: list[tuple[int, str, str]] = []
    start = count.cases if first is None else first
    last, left = start + cases, seconds
    while start < last and left > 0:
        notes = mmap.mmap(-1, _SPACE)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                _work(count.reader, reader, count.seed, start, last, left, others, notes)
                status = 0
            except BaseException as error:
                notes[_HEAD // 2 : _HEAD // 2 + 300] = repr(error).encode(errors="replace")[:300].ljust(300)
            finally:
                os._exit(status)
        seen, since = b"", time.monotonic()
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            now = notes[: _NOTES.size]
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > 15 * LONGEST_S:  # waits for something, uses no processor
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        done, accepted, refused, cpu_s, longest, peak = _NOTES.unpack_from(notes, 0)
        for told in bytes(notes[_HEAD:]).split(b"\0\0", 1)[0].split(b"\0"):
            if told:
                number, kind, what = told.decode(errors="replace").split("\t", 2)
                found.append((int(number), kind, what))
                count.faults[kind] += 1
        if not notes[_HEAD - 1]:
            code = os.waitstatus_to_exitcode(status)
            kind = "hang" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "death"
            said = bytes(notes[_HEAD // 2 : _HEAD - 1]).strip(b"\0 ").decode(errors="replace")
            found.append((start + done - 1, kind, f"exit status {code} {said}"))
            count.faults[kind] += 1
        count.cases += done
        count.accepted += accepted
        count.refused += refused
        count.cpu_s += cpu_s
        count.longest_s = max(count.longest_s, longest)
        count.peak_bytes = max(count.peak_bytes, peak)
        complete = bool(notes[_HEAD - 1])
        notes.close()
        if complete or not done:
            break
        start, left = start + done, left - cpu_s - 0.1
    count.date = datetime.now(UTC).date().isoformat()
    return found


def main() -> int:
    """Run for some minutes or cases; returns the exit status."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    options.add_argument("--minutes", type=float, default=60, help="of processor time, over all readers")
    options.add_argument("--cases", type=int, default=10**9, help="of each reader at most, those of earlier runs in the table with them")
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--reader", action="append", help="this one alone; may be given often")
    options.add_argument("--kind", choices=("reader", "command"), help="only readers, or only whole commands")
    options.add_argument("--first", type=int, help="case to begin with; default: after those in the table")
    options.add_argument("--out", type=Path, help="CSV of counts to write; rows of the same seed that are in it go on")
    chosen = options.parse_args()
    every = {"reader": readers(), "command": commands()}
    others = [content for content in (base for each in every["reader"].values() for base in each.bases) if len(content) < 100_000]
    kept = ROOT / "_build" / "fuzz"
    counts = read_table(chosen.out) if chosen.out else {}
    work = [
        (kind, name, reader)
        for kind, named in every.items()
        for name, reader in named.items()
        if (not chosen.reader or name in chosen.reader) and chosen.kind in (None, kind)
    ]
    if not work:
        print("error: no such reader; there are: " + ", ".join(name for named in every.values() for name in named), file=sys.stderr)
        return 2
    left = 60 * chosen.minutes
    print(f"seed {chosen.seed}", flush=True)
    seen: set[tuple[str, str]] = set()
    ran: dict[str, Count] = {}
    for kind, name, reader in work:  # each once without damage: what is imported late is imported here, where all is allowed
        with tempfile.TemporaryDirectory(prefix="fuzz-") as temporary:
            for part in ("in", "out"):
                Path(temporary, part).mkdir()
            path = Path(temporary, "in", reader.file)
            refused = []
            for base in reader.bases:
                path.write_bytes(base)
                try:
                    reader.read(path)
                except InputError as error:
                    refused.append(str(error))
            if len(refused) == len(reader.bases):  # damage would teach nothing
                print(f"error: {name} refuses its valid files: {refused[0]}", file=sys.stderr)
                return 2
        ran[name] = counts.get(name) or Count(name, kind, chosen.seed)
        if ran[name].seed != chosen.seed:
            ran[name] = Count(name, kind, chosen.seed)
    gc.collect()
    gc.freeze()
    open_ = list(work)
    while left > 0 and open_:
        share = max(2.0, min(30.0, left / len(open_)))
        for entry in list(open_):
            _, name, reader = entry
            count = ran[name]
            before, cpu_s = count.cases, count.cpu_s
            begin = None if chosen.first is None else chosen.first + count.cases
            faults = feed(count, reader, chosen.cases - count.cases, min(share, left), others, begin)
            left -= count.cpu_s - cpu_s
            for number, kind, what in faults:
                last = what.splitlines()[-1] if what else ""
                alike = re.sub(r"\d+|'.*|\".*", "", last)[:60]
                if (name, f"{kind} {alike}") in seen:
                    continue
                seen.add((name, f"{kind} {alike}"))
                content = case(name, reader, count.seed, number, others)
                kept.mkdir(parents=True, exist_ok=True)
                where = kept / f"{name.replace(' ', '_').replace('/', '_')}.{hashlib.sha256(content).hexdigest()[:12]}"
                where.write_bytes(content)
                print(f"{name}, case {number}: {kind}: {last}\n  {where.relative_to(ROOT)}\n{what}", flush=True)
            if chosen.out:
                counts[name] = count
                write_table(chosen.out, counts)
            if count.cases >= chosen.cases or count.cases == before or left <= 0:
                open_.remove(entry)
    for name, count in ran.items():
        rate = count.cases / count.cpu_s if count.cpu_s else 0.0
        wrong = sum(count.faults.values())
        print(
            f"{name:<34} {count.cases:>8} cases {count.accepted:>8} accepted {count.refused:>8} refused {wrong:>5} faults "
            f"{rate:>6.0f}/CPU-s, longest {count.longest_s:.2f} s, {count.peak_bytes >> 20} MiB"
        )
    print(f"{'all':<34} {sum(c.cases for c in ran.values()):>8} cases {sum(sum(c.faults.values()) for c in ran.values()):>6} faults")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
