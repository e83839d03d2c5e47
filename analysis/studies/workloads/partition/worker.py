"""The one place that calls XLA's private compiler: run as a program of its own by `analysis.studies.workloads.partition.partitioner`.

``python -m analysis.studies.workloads.partition.worker IN OUT DEVICES`` compiles a StableHLO module for that many CPU devices, none of
which does any work, with XLA told to write the module down right after its partitioner, and converts what was written back to StableHLO.
The rest of the compilation, which takes most of its time, is abandoned.

The environment must already hold ``XLA_FLAGS`` from `flags`: XLA reads it once, when jaxlib is loaded.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

PASS = "spmd-partitioning"


def flags(devices: int, dump: Path) -> str:
    """XLA flags: that many CPU devices, and the module around the partitioner written into `dump`."""
    return " ".join(
        (
            f"--xla_force_host_platform_device_count={devices}",
            f"--xla_dump_to={dump}",
            f"--xla_dump_hlo_pass_re={PASS}",
            "--xla_dump_hlo_as_proto",
            "--xla_backend_optimization_level=0",
        )
    )


def partition(source: bytes, devices: int, dump: Path) -> str:
    """StableHLO text of one device's module."""
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir

    backend = xla_bridge.get_backend("cpu")
    failure: list[BaseException] = []

    def compile_it() -> None:
        try:
            with mlir.make_ir_context():
                module = ir.Module.parse(source)
                options = compiler.get_compile_options(num_replicas=1, num_partitions=devices)
                placed = xla_client.DeviceList(tuple(backend.devices()[:devices]))
                backend.compile_and_load(module, placed, options, [])
        except BaseException as error:
            failure.append(error)

    worker = threading.Thread(target=compile_it, daemon=True)
    worker.start()
    while True:
        ended = not worker.is_alive()
        for path in sorted(dump.glob(f"*.after_{PASS}*.hlo.pb")):
            proto = first_field(path.read_bytes())
            if proto is not None:
                bytecode = xla_client._xla.mlir.hlo_to_stablehlo(proto)
                with mlir.make_ir_context():
                    return str(ir.Module.parse(bytecode).operation.get_asm())
        if ended:
            raise SystemExit(str(failure[0]).splitlines()[0] if failure else "the partitioner did not run")
        time.sleep(0.02)


def first_field(message: bytes) -> bytes | None:
    """The first field of a protocol-buffer message, which for XLA's HloProto is the module; None while the file is still being written."""
    if message[:1] not in (b"", b"\x0a"):
        raise ValueError("expected a message that begins with its module")
    size = shift = 0
    for at, byte in enumerate(message[1:11], 1):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            end = at + 1 + size
            return message[at + 1 : end] if len(message) >= end else None
    return None


if __name__ == "__main__":
    name, out, count = sys.argv[1:]
    text = partition(Path(name).read_bytes(), int(count), Path(out).parent)
    partial = Path(f"{out}.part")
    partial.write_text(text)
    partial.rename(out)
    sys.stdout.flush()
    os._exit(0)  # the compiler's thread is still at work and nobody waits for it
