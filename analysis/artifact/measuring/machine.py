"""What the machine is and what ran on it: all that two measurements must share to be compared."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "jax", "jaxlib", "onnxruntime", "numba")
CPU = Path("/sys/devices/system/cpu")


def _text(path: Path, otherwise: str = "not readable") -> str:
    try:
        return path.read_text().strip() or otherwise
    except OSError:
        return otherwise


def _cpuinfo() -> dict[str, str]:
    lines = _text(Path("/proc/cpuinfo"), "").split("\n\n")[0].splitlines()
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _caches() -> dict[str, str]:
    found = {}
    for index in sorted((CPU / "cpu0" / "cache").glob("index*")):
        kind = {"Data": "d", "Instruction": "i"}.get(_text(index / "type"), "")
        found[f"L{_text(index / 'level')}{kind}"] = _text(index / "size")
    return found


def _openblas() -> str:
    import numpy  # noqa: F401  (loads the library that is looked up)
    from threadpoolctl import threadpool_info

    found = [f"{pool['version']} {pool['architecture']}" for pool in threadpool_info() if pool["internal_api"] == "openblas"]
    return found[0] if found else "none"


def machine() -> dict[str, Any]:
    """Facts of this machine that do not change while it measures: CPU, caches, frequency governor, memory, system, versions."""
    info = _cpuinfo()
    flags = set(info.get("flags", "").split())
    return {
        "cpu": info.get("model name", platform.processor()),
        "family_model_stepping": "/".join(info.get(key, "?") for key in ("cpu family", "model", "stepping")),
        "logical_cores": os.cpu_count(),
        "caches": _caches(),
        "vector_extensions": sorted(flag for flag in flags if flag.startswith(("avx512", "avx2", "amx", "fma"))),
        "virtual_machine": "hypervisor" in flags,
        "governor": _text(CPU / "cpu0" / "cpufreq" / "scaling_governor"),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "versions": {"python": platform.python_version(), "openblas": _openblas(), **{name: metadata.version(name) for name in PACKAGES}},
    }


def moment() -> dict[str, Any]:
    """What does change: the time (UTC) and the load average (runnable processes over 1, 5 and 15 minutes)."""
    return {"time": datetime.now(UTC).isoformat(timespec="seconds"), "load_average": [round(load, 2) for load in os.getloadavg()]}
