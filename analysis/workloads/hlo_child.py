"""Read one program and print its operator graph as JSON: `analysis.workloads.hlo` runs it as a process of its own, so that nothing here can hurt it."""

from __future__ import annotations

import gc
import json
import resource
import sys
from typing import Any


def read(content: bytes, entry: str | None) -> dict[str, Any]:
    """The record of one program (see `hlo_walk.Walker.record`), or ``{"error": message, "line": number}``."""
    from analysis.workloads import hlo_bindings as bindings
    from analysis.workloads.hlo_structure import NoProgram, TooLarge
    from analysis.workloads.hlo_walk import Walker

    made = bindings.context()
    try:
        module = bindings.parse(content, made)
        chosen = Walker(module).entry(entry)
        walker, notes = _walk(module, chosen, content, made)
        if walker.is_dynamic:
            module = bindings.parse(content, made)
            if bindings.refine(module, made):
                walker, notes = _walk(module, chosen, content, made)
    except bindings.ParseFailed as error:
        return {"error": f"is not a StableHLO program: {error}", "line": error.line}
    except (NoProgram, TooLarge) as error:
        return {"error": str(error), "line": 0}
    except RecursionError:
        return {"error": "nests its regions too deep", "line": 0}
    record = walker.record()
    record["notes"] += notes
    record["name"] = bindings.module_name(walker.module)
    record["entry"] = chosen
    return record


def _walk(module: Any, entry: str, content: bytes, made: Any) -> tuple[Any, list[str]]:
    from analysis.workloads import hlo_bindings as bindings
    from analysis.workloads.hlo_walk import Walker

    bindings.publish(module, entry, made)
    notes = []
    if not bindings.simplify(module, made):
        module = bindings.parse(content, made)
        notes.append("the steps that XLA runs before its own import cannot be run on it: counted as it is written")
    walker = Walker(module)
    with made:
        walker.walk(entry)
    return walker, notes


def main() -> None:
    """Arguments: file, entry function (empty: the program's own), memory limit (bytes), CPU limit (s)."""
    path, entry, memory, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()  # it lives for one file, and the collector would look through every record again and again
    with open(path, "rb") as stream:
        content = stream.read()
    try:
        record = read(content, entry or None)
    except MemoryError:
        record = {"error": "needs more memory than it may have", "line": 0}
    sys.stdout.write(json.dumps(record, separators=(",", ":")))


if __name__ == "__main__":
    main()
