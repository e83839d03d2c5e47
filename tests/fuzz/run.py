"""Feed damaged files to every reader: `make fuzz`. Prints one row a reader; exits 1 after a fault.

A fault is any exception but an `InputError` of one printable line, more than 20 CPU-seconds, more than 2 GiB, or a file that appears or
changes beside the one given. What brought it is kept in `_build/fuzz/`, to become a regression test.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from analysis.errors import InputError
from tests.fuzz.mutations import mutated
from tests.fuzz.readers import ROOT, readers

LONGEST_S = 20.0
MOST_KIB = 2 << 20


class Hang(BaseException):
    """A reader took more than its processor time."""


def _alarm(*_: object) -> None:
    raise Hang


def fault_of(read: Callable[[Path], Any], content: bytes, folder: Path) -> str:
    """What goes wrong when a reader meets a content: empty, or the fault in a few lines.

    Args:
        read: the reader.
        content: of the file that it is given.
        folder: empty, for the file alone.
    """
    path = folder / "input.yaml"
    path.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # of the whole process: other tests may have filled it
    old = signal.signal(signal.SIGVTALRM, _alarm)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_S)
    try:
        read(path)
    except InputError as error:
        if not str(error).isprintable() or len(str(error)) > 2500:
            return f"an error of {len(str(error))} characters, printable: {str(error).isprintable()}"
    except Hang:
        return f"hangs: more than {LONGEST_S:g} CPU-seconds"
    except BaseException as error:
        return "".join(traceback.format_exception(error)[-3:]).strip()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)
    if sorted(folder.iterdir()) != [path] or path.read_bytes() != content:
        return "writes beside the file that it reads"
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if after - before > MOST_KIB or before <= MOST_KIB < after:
        return "has taken more than 2 GiB of memory"
    return ""


def main() -> int:
    """Run for some minutes; returns the exit status."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=60)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--reader", help="this one alone")
    chosen = options.parse_args()
    every = {name: pair for name, pair in readers().items() if chosen.reader in (None, name)}
    others = [content for bases, _ in every.values() for content in bases]
    kept = ROOT / "_build" / "fuzz"
    end, random = time.monotonic() + 60 * chosen.minutes, Random(chosen.seed)
    counts, faults = dict.fromkeys(every, 0), dict.fromkeys(every, 0)
    print(f"seed {chosen.seed}", flush=True)
    seen: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            for name, (bases, read) in every.items():
                for _ in range(50):
                    content = mutated(random.choice(bases), random, others)
                    fault = fault_of(read, content, Path(folder))
                    counts[name] += 1
                    if not fault:
                        continue
                    faults[name] += 1
                    last = fault.splitlines()[-1]
                    if f"{name}: {fault}" not in seen:
                        seen.add(f"{name}: {fault}")
                        kept.mkdir(parents=True, exist_ok=True)
                        where = kept / f"{name.replace(' ', '_')}.{hashlib.sha256(content).hexdigest()[:12]}"
                        where.write_bytes(content)
                        print(f"{name}: {last}\n  {where.relative_to(ROOT)}\n{fault}", flush=True)
    for name in every:
        print(f"{name:<20} {counts[name]:>9} cases {faults[name]:>6} faults")
    print(f"{'all':<20} {sum(counts.values()):>9} cases {sum(faults.values()):>6} faults")
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main())
