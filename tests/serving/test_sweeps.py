"""Sweeps over processes and over a dask cluster."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.errors import InputError
from analysis.paths import EXAMPLES, ROOT
from analysis.sweeps import sweep
from analysis.tables import read_csv

SETTINGS = list(range(24))
FOLDER = Path(__file__).parent


def square(number: int) -> int:
    return number * number


def slow_square(number: int) -> int:
    time.sleep(0.15)
    return number * number


def fragile(number: int) -> int:
    if number == 3:
        raise ValueError("three is not served")
    return number


def killer(marker_and_number: tuple[str, int]) -> int:
    """The first to run setting 5 kills its own worker process, as the kernel does when memory is short."""
    marker, number = marker_and_number
    if number == 5:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return number * number
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.1)
    return number * number


def test_in_this_process() -> None:
    assert sweep(square, SETTINGS, workers=0) == [n * n for n in SETTINGS]
    assert sweep(square, []) == []


def test_nobody_at_the_address() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(InputError, match="no dask scheduler answers"):
        sweep(square, SETTINGS, scheduler=f"tcp://127.0.0.1:{port}", wait_s=0.5)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):  # type: ignore[no-untyped-def]
    """A dask scheduler and two workers, each a process of its own, on loopback."""
    folder = tmp_path_factory.mktemp("dask")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(FOLDER)])}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment, "cwd": folder}
    dask = [
        sys.executable,
        "-m",
        "distributed.cli.dask_scheduler",
        "--host",
        "127.0.0.1",
        "--no-dashboard",
        "--port",
        address.rsplit(":")[-1],
    ]
    worker = [
        sys.executable,
        "-m",
        "distributed.cli.dask_worker",
        address,
        "--nthreads",
        "1",
        "--no-dashboard",
        "--local-directory",
        str(folder),
    ]
    processes = [subprocess.Popen(dask, **quiet)]
    processes += [subprocess.Popen(worker, **quiet) for _ in range(2)]
    yield address
    for process in reversed(processes):
        process.terminate()
    for process in processes:
        process.wait(timeout=120)  # a loaded machine takes its time


def test_on_a_cluster_with_a_worker_killed_in_mid_sweep(cluster: str, tmp_path: Path) -> None:
    marker = str(tmp_path / "killed")
    answers = sweep(killer, [(marker, number) for number in SETTINGS], scheduler=cluster)
    assert Path(marker).exists()  # a worker was killed
    assert answers == [n * n for n in SETTINGS]


def test_cluster_goes_on_after_the_death(cluster: str) -> None:
    assert sweep(slow_square, SETTINGS[:6], scheduler=cluster) == [n * n for n in SETTINGS[:6]]


def test_own_error_is_passed_on(cluster: str) -> None:
    with pytest.raises(ValueError, match="three is not served"):
        sweep(fragile, SETTINGS[:6], scheduler=cluster, retries=1)


def test_commands_give_the_same_bytes_here_and_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    plan = tmp_path / "cluster.yaml"
    plan.write_text("model: llama-2-7b\nsystem: HGX-H100\ngpus: 8\nglobal_batch: 16\nsequence_length: 2048\n")
    rates = [str(EXAMPLES / "serve" / "simulate.yaml"), "--rate", "1", "--rate", "4"]
    for name, arguments in (("train", ["search", str(plan)]), ("serve", ["sweep", *rates])):
        for where, more in (("here", []), ("there", ["--scheduler", cluster])):
            assert main([name, *arguments, "--out", str(tmp_path / f"{name}_{where}.csv"), *more]) == 0
        here, there = ((tmp_path / f"{name}_{where}.csv").read_bytes() for where in ("here", "there"))
        assert here == there and here.count(b"\n") > 2
    table = read_csv(tmp_path / "serve_here.csv")
    assert table["rate_per_s"].tolist() == [1.0, 4.0] and table["makespan_s"].is_monotonic_decreasing
