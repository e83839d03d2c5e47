"""The best mapping of each product in the mapping game, searched to the end.

`python -m analysis.artifact.explorers.records.best_mappings` writes them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from analysis.paths import DATA
from analysis.tables import read_csv, write_csv

PATH = DATA / "frozen" / "mapping_game" / "best.csv"


@cache
def best() -> dict[str, dict[str, Any]]:
    """By product and words of the buffer: energy (J), by level too, and cycles of the mapping that no other beats in energy x delay."""
    found = {}
    for row in read_csv(PATH).to_dict("records"):
        levels = {name: float(row[f"{name.lower()}_j"]) for name in ("DRAM", "buffer", "register", "mac")}
        found[f"{row['layer']} {int(row['buffer_words'])}"] = {
            "energy_j": float(row["energy_j"]),
            "cycles": int(row["cycles"]),
            "levels": levels,
        }
    return found


def searched(layer: str, words: int) -> dict[str, Any]:
    """One row of the file, by `analysis.accelerators.mapper`."""
    from analysis.accelerators.mapper.best_mapping import best_mapping
    from analysis.artifact.explorers.mapping_game import design, problem

    one = best_mapping(problem(layer), design(words), "edp")
    if not one.proven:
        raise ArithmeticError(f"{layer}, {words} words: no proof")
    levels = {f"{name.lower()}_j": energy for name, energy in one.evaluation.energy_by_level().items()}
    found = {"layer": layer, "buffer_words": words, "energy_j": one.evaluation.energy_j, "cycles": one.evaluation.cycles, **levels}
    loops = "; ".join(f"{place}: " + " ".join(f"{loop.dimension}{loop.bound}" for loop in loops) for place, loops in one.mapping.loops)
    return {**found, "mapping": loops, "mappings_evaluated": one.statistics["mappings_evaluated"]}


if __name__ == "__main__":
    import pandas as pd

    from analysis.artifact.explorers.mapping_game import BUFFERS, LAYERS

    PATH.parent.mkdir(parents=True, exist_ok=True)
    write_csv(pd.DataFrame([searched(layer, words) for layer in LAYERS for words in BUFFERS]), PATH)
