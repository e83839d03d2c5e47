"""The basic-block study in full: settings chosen inside the fitted blocks, then held-out blocks and unseen instructions on every core."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.paths import DATA
from analysis.studies import attempts as log
from analysis.studies.cores.blocks import ports as basic_block_ports
from analysis.studies.cores.blocks import trial as basic_block_trial
from analysis.studies.cores.blocks.data import Blocks, cores, load, traits
from analysis.studies.freezing import origin
from analysis.tables import read_csv, write_csv

SEEDS = (0, 1, 2)
SELECTED_ON = ("SKL", "ZEN")
"""Settings are chosen on these cores; any other core of the table is only ever predicted."""
GRAPH = "graph net"
"""A network over the instructions of a block, compared with and retired: its scores stay as frozen."""


@dataclass(frozen=True)
class Study:
    """Results of the study.

    Attributes:
        settings: the chosen ones.
        scores: one row a core, split, method and seed.
        points: predicted and measured cycles of the held-out blocks of the first seed.
        writes: errors of other tools by memory writes in a block.
        attempts: rows for the log.
    """

    settings: basic_block_ports.PortSettings
    scores: pd.DataFrame
    points: pd.DataFrame
    writes: pd.DataFrame
    attempts: pd.DataFrame


def described(settings: basic_block_ports.PortSettings) -> str:
    """Settings in a line."""
    return ", ".join(f"{name} {value}" for name, value in vars(settings).items())


def points(blocks: Blocks, settings: basic_block_ports.PortSettings) -> pd.DataFrame:
    """Held-out blocks of the first split, measured and by three methods."""
    split = basic_block_trial.block_split(blocks, SEEDS[0])
    columns = {"arch": blocks.arch, "measured_cycles": blocks.cycles[split.held_out]}
    for method in ("additive", "ports"):
        columns[f"{method}_cycles"] = basic_block_trial.predict(blocks, split, method, settings)
    for tool in ("pred_IACA", "pred_llvm-mca"):
        columns[f"{tool.removeprefix('pred_').replace('-', '_').lower()}_cycles"] = (
            blocks.tools[tool][split.held_out] if tool in blocks.tools else np.full(len(split.held_out), np.nan)
        )
    return pd.DataFrame(columns)


def by_memory_writes(blocks: Blocks) -> pd.DataFrame:
    """Errors of the other tools by how many instructions of a block write memory, which is where llvm-mca and the machine part."""
    writes = blocks.counts @ np.array(["writes memory" in traits(name) for name in blocks.instructions], dtype=float)
    rows = []
    for tool, predicted in blocks.tools.items():
        for count in (0, 1, 2, 3):
            chosen = (writes == count) if count < 3 else (writes >= count)
            errors = 100 * np.abs(predicted[chosen] / blocks.cycles[chosen] - 1)
            rows.append(
                {
                    "arch": blocks.arch,
                    "tool": tool.removeprefix("pred_"),
                    "memory_writes": str(count) if count < 3 else "3 or more",
                    "blocks": int(chosen.sum()),
                    "median_error": float(np.median(errors)) if len(errors) else np.nan,
                    "mape": float(errors.mean()) if len(errors) else np.nan,
                }
            )
    return pd.DataFrame(rows)


def attempts(selection: pd.DataFrame, chosen: basic_block_ports.PortSettings, scores: pd.DataFrame) -> pd.DataFrame:
    """Rows for the log: every setting of the port model, and every other method once."""
    means = selection.groupby("variant")["mape"].mean()
    first = scores[(scores["split"] == "blocks") & (scores["seed"] == SEEDS[0]) & scores["arch"].isin(SELECTED_ON)]
    by_method = first.groupby("method", sort=False)["mape"]
    tested = {
        method: {
            "tested_on": "blocks held out",
            "test_metric": "MAPE (%), mean over SKL and ZEN",
            "test_value": mean,
            "test_max": worst,
        }
        for (method, mean), worst in zip(by_method.mean().items(), by_method.max(), strict=True)
    }
    best = int(means.to_numpy().argmin())
    tries: list[dict[str, object]] = [
        {
            "configuration": "ports: " + described(settings),
            "selection_metric": "MAPE (%) on a fifth of the fitted blocks, mean over SKL and ZEN",
            "selection_value": float(means[number]),
        }
        for number, settings in enumerate(basic_block_trial.grid())
    ]
    tries[best] |= {**tested["ports"], "chosen": True, "note": f"tested with {chosen.members} members; test_max is the worse core"}
    others = [*(method for method in basic_block_trial.METHODS if method != "ports"), GRAPH]
    tries += [{"configuration": method, **tested[method], "note": "test_max is the worse core"} for method in others]
    return log.rows(tries, room="operators", experiment="basic_blocks", fitted_on="four fifths of the blocks of SKL and ZEN")


def study(seeds: tuple[int, ...] = SEEDS) -> Study:
    """Everything, from the dataset.

    Args:
        seeds: of the splits; selection looks only into the fitted blocks of the first.
    Raises:
        DatasetMissing: PMEvo's table is not on this machine.
    """
    every = {arch: load(arch) for arch in cores()}
    settings, selection = basic_block_trial.select([every[arch] for arch in SELECTED_ON if arch in every])
    frozen = read_csv(DATA / "frozen" / "basic_blocks" / "scores.csv")
    compared = [basic_block_trial.compare(blocks, settings, seeds) for blocks in every.values()]
    scores = pd.concat([*compared, frozen[frozen["method"] == GRAPH]], ignore_index=True)
    drawn = pd.concat([points(blocks, settings) for blocks in every.values()], ignore_index=True)
    writes = pd.concat([by_memory_writes(blocks) for blocks in every.values()], ignore_index=True)
    return Study(settings, scores, drawn, writes, attempts(selection, settings, scores))


def write(found: Study, folder: Path) -> None:
    """Keep what the pages show."""
    write_csv(found.scores, folder / "scores.csv")
    write_csv(found.points, folder / "points.csv")
    write_csv(found.writes, folder / "writes.csv")
    write_csv(pd.DataFrame([vars(found.settings) | {"sharp": found.settings.sharp[1]}]), folder / "settings.csv")
    write_csv(origin(["pmevo/insn_multiset_cycles"]), folder / "origin.csv")
