"""What counts as a device here: a runtime, a number of threads and a data type on one machine."""

from __future__ import annotations

import os
from dataclasses import dataclass

from analysis.errors import InputError

RUNTIMES = {"jax": ("fp32", "bf16"), "onnxruntime": ("fp32",), "numpy": ("fp32",)}
"""CPU runtimes and the data types that each is measured in."""


@dataclass(frozen=True)
class MeasuredDevice:
    """A runtime pinned to some cores in one data type.

    Args:
        threads: threads it may use; as many cores are given to it.
        dtype: of activations and weights.
    """

    runtime: str
    threads: int
    dtype: str

    @property
    def name(self) -> str:
        """Such as ``jax-1t-fp32``."""
        return f"{self.runtime}-{self.threads}t-{self.dtype}"

    def environment(self, cores: tuple[int, ...]) -> dict[str, str]:
        """Environment that holds every thread pool of its process to the threads given.

        JAX sizes its pool by the cores that the process may use when it starts, which pinning has cut down; the variables keep OpenBLAS,
        OpenMP and numba to the same number.
        """
        count = str(self.threads)
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NPROC"), count)
        own = {**threads, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
        if self.threads == 1:
            own["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        return own


def parse(name: str) -> MeasuredDevice:
    """A device by its name."""
    expected = "expected jax-1t-fp32, jax-2t-bf16, onnxruntime-1t-fp32, numpy-2t-fp32 or the like"
    parts = name.split("-")
    if (
        len(parts) == 3
        and parts[2] in RUNTIMES.get(parts[0], ())
        and parts[1].endswith("t")
        and parts[1][:-1].isdigit()
        and int(parts[1][:-1])
    ):
        return MeasuredDevice(parts[0], int(parts[1][:-1]), parts[2])
    raise InputError(f"no device {name!r}; {expected}", key="--devices")


def available_cores() -> tuple[int, ...]:
    """Cores that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def choose_cores(devices: list[MeasuredDevice], cores: tuple[int, ...] | None = None) -> tuple[int, ...]:
    """The cores to measure on: as many as the widest device has threads; the last ones, since core 0 serves most interrupts."""
    usable = available_cores()
    if cores is not None and not set(cores) <= set(usable):
        raise InputError(f"cores {', '.join(map(str, cores))}: this process may use {', '.join(map(str, usable))}", key="--cores")
    usable = cores or usable
    widest = max(device.threads for device in devices)
    if widest > len(usable):
        raise InputError(f"{widest} threads need {widest} cores; there are {len(usable)}", key="--devices")
    return usable[-widest:]


def default_devices() -> list[MeasuredDevice]:
    """Every CPU runtime with one thread, and with two where there are two cores."""
    counts = [count for count in (1, 2) if count <= len(available_cores())]
    found = [MeasuredDevice(runtime, count, dtype) for count in counts for runtime, dtypes in RUNTIMES.items() for dtype in dtypes]
    return [device for device in found if device.dtype == "fp32" or device.threads == 1]
