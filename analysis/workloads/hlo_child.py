"""Read one program and print its operator graph as JSON: what `analysis.workloads.hlo` runs in a process of its own, so that nothing it does can hurt the caller."""

from __future__ import annotations

import json
import resource
import sys
from typing import Any


def read(content: bytes, entry: str | None) -> dict[str, Any]:
    """The record of one program (see `hlo_walk.Walker.record`), or ``{"error": message, "line": number}``."""
    from analysis.workloads import hlo_bindings as bindings
    from analysis.workloads.hlo_walk import NoProgram, TooLarge, Walker

    made = bindings.context()
    try:
        module = bindings.parse(content, made)
        walker = Walker(module)
        chosen = walker.entry(entry)
        bindings.publish(module, chosen, made)
        dynamic = bindings.is_dynamic(walker.functions[chosen])
        notes = []
        if dynamic and not bindings.refine(module, made):
            module = bindings.parse(content, made)
        if not bindings.simplify(module, made):
            module = bindings.parse(content, made)
            notes.append("the steps that XLA runs before its own import cannot be run on it: counted as it is written")
        walker = Walker(module)
        with made:
            walker.walk(chosen)
    except bindings.ParseFailed as error:
        return {"error": f"is not a StableHLO program: {error}", "line": error.line}
    except (NoProgram, TooLarge) as error:
        return {"error": str(error), "line": 0}
    except RecursionError:
        return {"error": "nests its regions too deep", "line": 0}
    record = walker.record()
    record["notes"] += notes
    record["name"] = bindings.module_name(module)
    record["entry"] = chosen
    return record


def main() -> None:
    """Arguments: file, entry function (empty: the program's own), memory limit (bytes), CPU limit (s)."""
    path, entry, memory, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(path, "rb") as stream:
        content = stream.read()
    try:
        record = read(content, entry or None)
    except MemoryError:
        record = {"error": "needs more memory than it may have", "line": 0}
    sys.stdout.write(json.dumps(record, separators=(",", ":")))


if __name__ == "__main__":
    main()
