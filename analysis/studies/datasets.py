"""Other people's measured data: found where the user has it, never shipped here.

`$ANALYSIS_DATASETS` comes first, then `data/datasets/`, which `make data` fills (an installed
`howfast data fetch` fills the user's data folder).
"""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from analysis.errors import DatasetMissing
from analysis.paths import DATASETS
from analysis.tables import read_csv

# What `make data` does not bring, and what to do instead.
NOT_FETCHED = {
    "panel/collectives": "`make data` does not bring it: some of its sources state no licence. "
    "Set ANALYSIS_DATASETS to a folder with your own panel/collectives.csv (columns machine, device, gpus, nodes, "
    "network_gbit_per_s_per_gpu, collective, size_bytes, time_us)",
}


def folders() -> list[Path]:
    """Folders searched for datasets, first match wins."""
    named = os.environ.get("ANALYSIS_DATASETS")
    return [Path(named)] if named else [DATASETS]


def find(name: str) -> Path:
    """Path of one file of a dataset.

    Args:
        name: `<dataset>/<file>`, with or without `.csv` or `.csv.gz`: "neusight/bmm_nvidia".
    """
    for folder in folders():
        for suffix in ("", ".csv.gz", ".csv"):
            path = folder / f"{name}{suffix}"
            if path.is_file():
                return path
    cure = NOT_FETCHED.get(name, "run `make data` (needs the network), or set ANALYSIS_DATASETS to a folder that has it")
    raise DatasetMissing(f"dataset {name} is not here: {cure}")


def available(name: str) -> bool:
    """Whether a dataset file is on this machine."""
    try:
        find(name)
    except DatasetMissing:
        return False
    return True


def load(name: str) -> pd.DataFrame:
    """Read one table of a dataset."""
    return read_csv(find(name))
