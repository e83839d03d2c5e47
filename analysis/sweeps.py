"""How do we run the same function on many settings, on this machine or on a cluster?

    rows = sweep(simulate_one, settings)                                   # processes on this machine
    rows = sweep(simulate_one, settings, scheduler="tcp://head:8786")      # a dask cluster that is already running

A worker that dies takes no result with it: what it held or was running is run again elsewhere. Answers come in the order of the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from analysis.errors import InputError

Setting = TypeVar("Setting")
Answer = TypeVar("Answer")


def sweep(
    function: Callable[[Setting], Answer],
    settings: Iterable[Setting],
    scheduler: str | None = None,
    workers: int | None = None,
    retries: int = 3,
    wait_s: float = 10.0,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Answer]:
    """Answers of a pure function for all settings, in their order.

    Args:
        function: importable by name on every worker (not a lambda); its answer depends on the setting alone.
        scheduler: address of a dask scheduler; None or empty: processes of this machine, ended afterwards.
        workers: processes on this machine; 0 runs all in this process; None: one a core. Not with `scheduler`.
        retries: how often a setting is run again when its function fails; a worker's death is retried apart from that.
        progress: in this process, called before each setting with how many are done.
    """
    todo = list(settings)
    if not scheduler and (workers == 0 or len(todo) < 2):
        answers: list[Answer] = []
        for setting in todo:
            progress(len(answers))
            answers.append(function(setting))
        return answers
    import dask
    from distributed import Client, LocalCluster

    # On a flaky machine several workers may die under one setting; only that many deaths blame the setting.
    with dask.config.set({"distributed.scheduler.allowed-failures": 10}):
        if not scheduler:
            with (
                LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster) as client,
            ):
                return list(client.gather(client.map(function, todo, pure=False, retries=retries)))
        try:
            client = Client(scheduler, timeout=wait_s)
        except (OSError, ValueError) as error:
            raise InputError(f"no dask scheduler answers at {scheduler}: {error}", key="scheduler") from None
        with client:
            return list(client.gather(client.map(function, todo, pure=False, retries=retries)))
