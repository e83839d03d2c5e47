"""Share of small changes to the code that the tests notice, as last measured (`python -m tests.mutation`); at least 85 % wanted."""

from __future__ import annotations

from functools import partial

from analysis.bench.report import Benchmark
from analysis.paths import DATA
from analysis.tables import read_csv


def benchmarks() -> list[Benchmark]:
    """One rate a subpackage; those not measured are left out."""
    table = read_csv(DATA / "evaluation" / "mutation.csv", keep_default_na=False, dtype=object)
    return [
        Benchmark(
            name=str(row["room"]),
            run=partial(float, 100 * int(row["killed_after"]) / (int(row["mutants"]) - int(row["equivalent"]))),
            unit="% of mutants",
            target=85,
            direction="min",
            note=f"{row['killed_after']} of {row['mutants']}, of which {row['equivalent']} change no answer",
        )
        for row in table[table["mutants"] != ""].to_dict("records")
    ]
