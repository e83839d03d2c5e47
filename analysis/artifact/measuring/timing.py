"""How long one call takes, how far repeats spread, what the CPU can do at most, and what machine it is."""

from __future__ import annotations

import math
import os
import platform
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from analysis.artifact.measuring.operators import Call

SHORTEST_S, FEWEST, MOST = 3e-4, 5, 200
"""A sample's least time, which keeps the clock's resolution out of the result, and how many samples are taken."""
PRODUCT, TRIAD = 1536, 1 << 24
"""Side of the square product, and elements of each array of the triad: 64 MiB of fp32, more than the caches."""
AMOUNT = {"product": 2.0 * PRODUCT**3, "triad": 12.0 * TRIAD, "copy": 8.0 * TRIAD}
"""FLOP of the product; bytes of the triad and of a copy as STREAM (McCalpin) counts them: what is read and written, no line read first."""


def summarise(samples_s: Sequence[float], calls: int = 1) -> dict[str, float]:
    """Median, median absolute deviation, percentiles (linear), minimum and spread, (90th - 10th percentile) / median, of samples (s)."""
    p10, median, p90 = np.percentile(samples_s, [10, 50, 90])
    found = {"median_s": median, "mad_s": np.median(np.abs(np.asarray(samples_s) - median)), "p10_s": p10, "p90_s": p90}
    found |= {"minimum_s": min(samples_s), "spread": (p90 - p10) / median}
    return {key: float(value) for key, value in found.items()} | {"samples": len(samples_s), "calls": calls}


def measure(run: Call, budget_s: float, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Time calls until a budget (s) is spent: the first compiles, a tenth of the budget warms, then samples of one or more calls each."""

    def sample(calls: int) -> float:
        started = clock()
        for _ in range(calls):
            run()
        return max((clock() - started) / calls, 1e-9)

    run()
    single, warm_until = sample(1), clock() + 0.1 * budget_s
    while clock() < warm_until:
        single = min(single, sample(math.ceil(SHORTEST_S / single)))
    calls = math.ceil(SHORTEST_S / single)
    samples: list[float] = []
    end = clock() + budget_s
    while len(samples) < MOST and (len(samples) < FEWEST or clock() < end):
        samples.append(sample(calls))
    return summarise(samples, calls)


def control(repeats: int = 5) -> dict[str, float]:
    """Seconds of two fixed kernels on one thread, in the first cache and beyond the second: when they change, the machine changed."""
    small, source = np.linspace(0.5, 1.5, 2048, dtype=np.float32), np.ones(2 << 20, np.float32)
    result, target = np.empty_like(small), np.ones_like(source)
    kernels = {"arithmetic": lambda: [np.exp(small, out=result) for _ in range(40)], "copy": lambda: np.copyto(target, source)}
    found: dict[str, list[float]] = {name: [] for name in kernels}
    for _ in range(repeats):
        for name, kernel in kernels.items():
            started = time.perf_counter()
            kernel()
            found[name].append(time.perf_counter() - started)
    return {f"control_{name}_s": float(np.median(each)) for name, each in found.items()}


def peak(what: str) -> Call:
    """A call of a kernel of `AMOUNT`; threads are set by the process's environment."""
    if what == "product":
        left = np.full((PRODUCT, PRODUCT), 0.5, np.float32)
        result = np.empty_like(left)
        return lambda: np.matmul(left, left, out=result)
    a, b, c = (np.full(TRIAD, value, np.float32) for value in (0.0, 1.0, 2.0))
    if what == "copy":
        return lambda: np.copyto(a, b)
    from numba import njit, prange

    @njit(parallel=True)
    def triad(a: Any, b: Any, c: Any, scale: Any) -> None:
        for i in prange(len(a)):
            a[i] = b[i] + scale * c[i]

    return lambda: triad(a, b, c, np.float32(0.5))


def _text(path: Path) -> str:
    return path.read_text().strip() if path.is_file() else "not readable"


def machine() -> dict[str, Any]:
    """What does not change while this machine measures: CPU, caches, governor, memory, system, versions."""
    cpu = Path("/sys/devices/system/cpu/cpu0")
    info: dict[str, str] = dict(re.findall(r"^(.*?)\s*: (.*)$", _text(Path("/proc/cpuinfo")).split("\n\n")[0], re.M))
    flags, caches = set(info.get("flags", "").split()), sorted((cpu / "cache").glob("index*"))
    return {
        "cpu": info.get("model name", platform.processor()),
        "family_model_stepping": "/".join(info.get(key, "?") for key in ("cpu family", "model", "stepping")),
        "logical_cores": os.cpu_count(),
        "caches": {f"L{_text(each / 'level')} {_text(each / 'type')}": _text(each / "size") for each in caches},
        "vector_extensions": sorted(flag for flag in flags if flag.startswith(("avx512", "avx2", "amx", "fma"))),
        "virtual_machine": "hypervisor" in flags,
        "governor": _text(cpu / "cpufreq" / "scaling_governor"),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in ("numpy", "jax", "jaxlib", "numba")}},
    }


def moment() -> dict[str, Any]:
    """What does change: the time (UTC) and the load average (runnable processes over 1, 5 and 15 minutes)."""
    return {"time": datetime.now(UTC).isoformat(timespec="seconds"), "load_average": [round(load, 2) for load in os.getloadavg()]}
