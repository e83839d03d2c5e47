"""Records runs.csv: a sweep of tasks that only wait, on local dask clusters of 1, 2, 4 and 8 workers, with and without a worker killed half way.

Tasks that wait leave out what cores and their load add, so that what is left is the cluster's own: `PYTHONPATH=. python data/recorded/cluster/record.py`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pandas as pd
from distributed import Client, LocalCluster

from analysis.sweeps import gather
from analysis.tables import write_csv

TASKS, TASK_S, REPEATS = 96, 0.25, 3


def wait(number: int, seconds: float) -> int:
    """The square of a number, after a while."""
    time.sleep(seconds)
    return number * number


def run(workers: int, kill: bool) -> float:
    """Seconds of one sweep."""
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        gather(client, partial(wait, seconds=0.01), list(range(2 * workers)), 3)
        pids = list(client.run(os.getpid).values())
        timer = threading.Timer(TASKS * TASK_S / workers / 2, lambda: os.kill(pids[0], signal.SIGKILL))
        began = time.monotonic()
        if kill:
            timer.start()
        answers = gather(client, partial(wait, seconds=TASK_S), list(range(TASKS)), 3)
        seconds = time.monotonic() - began
        assert answers == [number * number for number in range(TASKS)]
        return seconds


if __name__ == "__main__":
    rows = [
        {
            "workers": workers,
            "killed": int(kill),
            "repeat": repeat,
            "tasks": TASKS,
            "task_s": TASK_S,
            "wall_s": round(run(workers, kill), 3),
        }
        for workers in (1, 2, 4, 8)
        for kill in (False, True)
        for repeat in range(REPEATS)
        if not kill or workers > 1
    ]
    write_csv(pd.DataFrame(rows), Path(__file__).parent / "runs.csv")
