"""Read one program and print its operator graph as JSON, in a process of its own: nothing here can hurt `hlo.reader`, which starts it."""

from __future__ import annotations

import gc
import json
import resource
import sys
from typing import Any, BinaryIO

from analysis.errors import InputError
from analysis.packed import unpacked


def main() -> None:
    """Arguments: file, entry function (empty: the program's own), part, memory limit (bytes), CPU limit (s), sizes (JSON)."""
    path, entry = sys.argv[1], sys.argv[2]
    part, memory, seconds = (int(each) for each in sys.argv[3:6])
    _parser(path)  # its libraries are mapped before the limits hold
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))  # a signal at the first, the end at the second
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.disable()  # it lives for one file, and the collector would look through every record again and again
    sys.stdout.write(answer(path, entry or None, part, memory, json.loads(sys.argv[6])))


def answer(path: str, entry: str | None, part: int, memory: int, sizes: dict[str, int]) -> str:
    """The record of a program in a file (see `hlo.child.read`, `onnx.graph.read`) as JSON."""
    try:
        return json.dumps(record(path, entry, part, sizes), separators=(",", ":"))
    except (MemoryError, SystemError) as error:
        if isinstance(error, SystemError) and _peak_bytes() < memory // 2:
            raise  # an extension that finds no memory may return without saying why; where there was plenty, it is another fault
    return json.dumps({"error": f"needs more than {memory / 2**30:.1f} GiB of memory to read", "line": 0})


def record(path: str, entry: str | None, part: int, sizes: dict[str, int]) -> dict[str, Any]:
    """The record of a program in a file: of its graph, or ``{"error": message, "line": number}``."""
    parser = _parser(path)
    try:
        stream: BinaryIO = unpacked(path) or open(path, "rb")  # noqa: SIM115  closed below
    except InputError as error:
        return {"error": error.message, "line": 0}
    with stream:
        return dict(parser.read(stream, sizes) if parser.__name__.endswith(".graph") else parser.read(stream.read(), entry, part))


def _parser(path: str) -> Any:
    """The module that reads a file of this ending."""
    if path.lower().endswith((".onnx", ".onnx.gz")):
        from analysis.workloads.onnx import graph

        return graph
    from analysis.workloads.hlo import bindings, child

    bindings.plain_operations()
    return child


def _peak_bytes() -> int:
    with open("/proc/self/status") as stream:
        return next((int(line.split()[1]) << 10 for line in stream if line.startswith("VmPeak")), sys.maxsize)


if __name__ == "__main__":
    main()
