"""Read a StableHLO program (MLIR text, bytecode or portable artifact) or an ONNX file into an operator graph.

The parsers are jaxlib's and onnx's. They run in a process of their own with limits on time and memory, because a malformed file can bring
them down.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from analysis.documents import is_file
from analysis.errors import InputError
from analysis.paths import HOME
from analysis.workloads.graph import Attention, Collective, Convolution, Matmul, Module, Operator, OperatorWork, Scope, Tensor

ATTRIBUTES = {"matmul": Matmul, "convolution": Convolution, "attention": Attention, "collective": Collective}
SECONDS = 60
MEMORY_BYTES = 3 << 29
# Of the reading process. The parser asks for very many small pieces of memory: keeping them at hand, in large pages, saves a tenth.
ENVIRONMENT = {
    "GLIBC_TUNABLES": f"glibc.malloc.top_pad={64 << 20}:glibc.malloc.tcache_count=65000:glibc.malloc.hugetlb=1",
    "PYTHONPATH": str(HOME),
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def read(
    path: str | Path,
    *,
    entry: str | None = None,
    part: int = 0,
    seconds: int = SECONDS,
    memory_bytes: int = MEMORY_BYTES,
    sizes: Mapping[str, int] | None = None,
) -> Module:
    """The operator graph of a program.

    Args:
        path: text, bytecode or portable artifact (VHLO), or ONNX by its ending, packed with gzip or not.
        entry: function to begin with; without it @main, or the only function that no other calls.
        part: which program of a text that lines `// -----` split, counted from 1; 0: the text is one program.
        seconds: processor time that reading may take (s); three times that and 20 s by the clock.
        sizes: of the dimensions that an ONNX file leaves open, by name, or INPUT.AXIS where they have none (elements).
    """
    path = Path(path)
    if not is_file(path):
        raise InputError("no such file", path=path)
    foreign = {"--entry": entry, "--part": part} if is_onnx(path) else {"--dim": sizes}
    for key, value in foreign.items():
        if value:
            raise InputError(f"is for {'StableHLO' if is_onnx(path) else 'ONNX files'}, and this is not one", path=path, key=key)
    return graph(_record(path, entry, part, seconds, memory_bytes, dict(sizes or {})), path.name)


def is_onnx(path: str | Path) -> bool:
    """Whether a file is read as ONNX: by its ending."""
    return str(path).lower().endswith((".onnx", ".onnx.gz"))


def _record(path: Path, entry: str | None, part: int, seconds: int, memory_bytes: int, sizes: dict[str, int]) -> dict[str, Any]:
    package = "onnx" if is_onnx(path) else "jaxlib"
    if find_spec(package) is None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    arguments = (path.absolute(), entry or "", part, memory_bytes, seconds, json.dumps(sizes))
    command = [sys.executable, "-m", "analysis.workloads.own_process", *map(str, arguments)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=3 * seconds + 20,
            env={**os.environ, **ENVIRONMENT},
            cwd=HOME,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"not read within {3 * seconds + 20} s", path=path) from None
    if done.returncode:
        raise InputError(_why(done.returncode, done.stderr.decode(errors="replace"), seconds, memory_bytes), path=path)
    try:
        record = json.loads(done.stdout)
    except ValueError:
        raise InputError("the parser gave no answer", path=path) from None
    if "error" in record:
        raise InputError(record["error"], path=path, line=record["line"] or None)
    return dict(record)


def _why(code: int, stderr: str, seconds: int, memory_bytes: int) -> str:
    if code == -signal.SIGXCPU:
        return f"not read within {seconds} s of processor time"
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    short = "bad_alloc" in stderr or "out of memory" in stderr.lower() or "MemoryError" in stderr or "Cannot allocate" in stderr
    if short or code == -signal.SIGKILL:
        return f"needs more than {memory_bytes / 2**30:.1f} GiB of memory to read"
    if code < 0:
        return f"brings the parser down ({signal.Signals(-code).name}{': ' + lines[0][:160] if lines else ''})"
    return f"cannot be read: {lines[-1][:200] if lines else f'exit status {code}'}"


def graph(record: dict[str, Any], name: str) -> Module:
    """The operator graph of a record (see `walk.Walker.record`)."""
    tensors = [Tensor(tuple(shape), dtype, size) for shape, dtype, size in record["tensors"]]
    works = [_work(each, tensors) for each in record["works"]]
    scopes = tuple(Scope(*each) for each in record["scopes"])
    operators = tuple(
        Operator(place, works[work], tuple(operands), scope, scopes[scope].trips)
        for place, (work, scope, operands) in enumerate(
            zip(record["operator_work"], record["operator_scope"], record["operator_operands"], strict=True)
        )
    )
    unknown = Counter[str]()
    for operator, work in zip(operators, record["operator_work"], strict=True):
        if what := record["works"][work]["unknown"]:
            unknown[what] += operator.trips
    return Module(
        name=record["name"] or name,
        operators=operators,
        scopes=scopes,
        arguments=tuple(tensors[each] for each in record["arguments"]),
        results=tuple(tensors[each] for each in record["results"]),
        result_operators=tuple(record["result_operators"]),
        partitions=record["partitions"],
        replicas=record["replicas"],
        unknown=dict(sorted(unknown.items())),
        notes=tuple(record["notes"]),
    )


def _work(record: dict[str, Any], tensors: list[Tensor]) -> OperatorWork:
    inputs, outputs = (tuple(tensors[each] for each in record[name]) for name in ("inputs", "outputs"))
    costs = (record[name] for name in ("flops", "bytes", "transcendentals"))
    attributes: dict[str, Any] = {name: kind(*map(_frozen, record[name])) for name, kind in ATTRIBUTES.items() if name in record}
    attributes["called"] = record.get("called")
    return OperatorWork(record["name"], record["class"], inputs, outputs, *costs, **attributes)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(each) for each in value) if isinstance(value, list) else value
