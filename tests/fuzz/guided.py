"""Feed a reader what reaches new lines of it: `python -m tests.fuzz.guided "PyTorch file" --seconds 300`, where atheris is installed.

The damage of `make fuzz` is random. This one is guided: atheris (libFuzzer) notices which branches of this project's code a file reaches
and keeps the files that reach more. Faults are those of `tests.fuzz.run`, of which the first ends the run. Atheris is no part of the
environment (`pip install atheris==3.0.0`); a row a reader is kept in the table named by `--out`.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random

COLUMNS = ("reader", "cases", "accepted", "refused", "faults", "kept", "cpu_s", "longest_s", "peak_mib", "tool", "seed", "date")


def main() -> int:
    """Feed one reader for some time; 1 after a fault, 2 where atheris is not installed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("reader")
    parser.add_argument("--seconds", type=float, default=300, help="of processor time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="CSV of counts; the reader's row is renewed")
    chosen = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print("error: atheris is not installed: pip install atheris==3.0.0", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["analysis"]):
        from tests.fuzz.readers import readers

        every = readers()
        if chosen.reader not in every:
            print("error: no such reader; there are: " + ", ".join(every), file=sys.stderr)
            return 2
        _warm(every[chosen.reader])
    from tests.fuzz.mutations import LARGEST, mutated
    from tests.fuzz.run import FAULTS, Bench

    reader = every[chosen.reader]
    others = [content for each in every.values() for content in each.bases if len(content) < 100_000]
    folder = Path(tempfile.mkdtemp(prefix="guided-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, base in enumerate(reader.bases):
        (corpus / str(number)).write_bytes(base)
    (folder / "bench").mkdir()
    bench = Bench(reader, (folder / "bench").resolve())
    counts = dict.fromkeys(("accepted", "refused", "faults"), 0)
    began, longest, told = time.process_time(), 0.0, time.process_time()

    def write() -> None:
        row = {
            "reader": chosen.reader, "cases": sum(counts.values()), **counts, "kept": len(list(corpus.iterdir())),
            "cpu_s": round(time.process_time() - began, 1), "longest_s": round(longest, 3), "peak_mib": bench.peak >> 20,
            "tool": "atheris 3.0.0", "seed": chosen.seed, "date": datetime.now(UTC).date().isoformat(),
        }  # fmt: skip
        rows = []
        if chosen.out and chosen.out.is_file():
            with chosen.out.open(newline="", encoding="utf-8") as stream:
                rows = [old for old in csv.DictReader(stream) if old["reader"] != chosen.reader]
        if chosen.out:
            with chosen.out.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(sorted([*rows, row], key=lambda each: str(each["reader"])))
        print(row, flush=True)

    def feed(content: bytes) -> None:
        nonlocal longest, told
        kind, what, took = bench.feed(content)
        longest = max(longest, took)
        counts["faults" if kind in FAULTS else kind] += 1
        if kind in FAULTS:
            write()
            raise RuntimeError(f"{chosen.reader}: {kind}: {what}")
        if time.process_time() - told > 10:
            told = time.process_time()
            write()

    def change(content: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        made = mutated(content, random, others) if random.random() < 0.5 else atheris.Mutate(content, min(most, LARGEST))
        return made[:most]

    # libFuzzer ends its process itself, so the table is written on the way
    options = [f"-max_total_time={int(chosen.seconds)}", f"-seed={chosen.seed}", f"-max_len={LARGEST}", "-rss_limit_mb=0", "-timeout=0"]
    kept = Path(__file__).resolve().parents[2] / "_build" / "fuzz"
    kept.mkdir(parents=True, exist_ok=True)
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={kept}/guided-", str(corpus)], feed, custom_mutator=change)
    atheris.Fuzz()
    return 0


def _warm(reader: object) -> None:
    """Read the valid files once: what is imported late is instrumented, too."""
    with tempfile.TemporaryDirectory(prefix="guided-") as temporary:
        for part in ("in", "out"):
            Path(temporary, part).mkdir()
        path = Path(temporary, "in", reader.file)  # type: ignore[attr-defined]
        for base in reader.bases:  # type: ignore[attr-defined]
            path.write_bytes(base)
            try:
                reader.read(path)  # type: ignore[attr-defined]
            except ValueError:
                continue


if __name__ == "__main__":
    sys.exit(main())
