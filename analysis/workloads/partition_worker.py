"""The one place that calls XLA's private compiler: run as a program of its own by `analysis.workloads.partition`.

``python -m analysis.workloads.partition_worker IN OUT DEVICES`` compiles a StableHLO module for that many CPU devices, none of which does
any work, with XLA told to write the module down right after its partitioner, and converts what was written back to StableHLO.

The environment must already hold ``XLA_FLAGS`` from `flags`: XLA reads it once, when jaxlib is loaded.
"""

from __future__ import annotations

import sys
from pathlib import Path

PASS = "spmd-partitioning"


def flags(devices: int, dump: Path) -> str:
    """XLA flags: that many CPU devices, no code generation effort, and the module around the partitioner written into `dump`."""
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
    """StableHLO text of one device's module.

    Args:
        source: StableHLO text or bytecode, split by Shardy or GSPMD attributes.
        devices: how many it is split over.
        dump: folder named in the flags.
    """
    from jax._src import compiler, xla_bridge
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir

    backend = xla_bridge.get_backend("cpu")
    with mlir.make_ir_context():
        module = ir.Module.parse(source)
        options = compiler.get_compile_options(num_replicas=1, num_partitions=devices)
        placed = xla_client.DeviceList(tuple(backend.devices()[:devices]))
        backend.compile_and_load(module, placed, options, [])
    found = sorted(dump.glob(f"*.after_{PASS}*.hlo.pb"))
    if len(found) != 1:
        raise SystemExit(f"expected one module after the partitioner, found {len(found)}")
    bytecode = xla_client._xla.mlir.hlo_to_stablehlo(first_field(found[0].read_bytes()))
    with mlir.make_ir_context():
        return str(ir.Module.parse(bytecode).operation.get_asm())


def first_field(message: bytes) -> bytes:
    """The first field of a protocol-buffer message, which for XLA's HloProto is the module.

    Raises:
        ValueError: the message does not begin with field 1 as bytes.
    """
    if message[:1] != b"\x0a":
        raise ValueError("expected a message that begins with its module")
    size, shift, at = 0, 0, 1
    while True:
        size |= (message[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if message[at - 1] < 0x80:
            return message[at : at + size]


if __name__ == "__main__":
    name, out, count = sys.argv[1:]
    folder = Path(out).parent
    text = partition(Path(name).read_bytes(), int(count), folder)
    Path(out).write_text(text)
