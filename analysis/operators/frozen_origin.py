"""Where frozen results come from: the state of the code, the inputs, the machine and the day."""

from __future__ import annotations

import datetime
import hashlib
import platform
import subprocess
from collections.abc import Sequence

import pandas as pd

from analysis import datasets
from analysis.paths import ROOT


def origin(inputs: Sequence[str]) -> pd.DataFrame:
    """Commit, digests of the inputs, machine, Python and date, as rows of `what` and `value`.

    Args:
        inputs: dataset tables, as for `datasets.find`.
    """
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    rows = {"commit": commit or "unknown", "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    rows |= {"machine": f"{platform.machine()} {platform.system()}", "python": platform.python_version()}
    rows |= {f"sha256 of {name}": hashlib.sha256(datasets.find(name).read_bytes()).hexdigest() for name in inputs}
    return pd.DataFrame({"what": list(rows), "value": list(rows.values())})
