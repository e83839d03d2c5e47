"""The programs of our own: which there are, and how their executables are built from the sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from analysis.documents import is_file
from analysis.errors import InputError
from analysis.paths import DATA

SOURCES = DATA / "cores" / "programs"
"""C sources, and the executables that `build` makes of them."""

GCC = "riscv64-linux-gnu-gcc"

# Without contraction both compilers round the same way; fused multiply-adds are written out in the sources.
_COMMON = ["-O2", "-ffreestanding", "-fno-builtin", "-ffp-contract=off", "-fno-math-errno", "-fomit-frame-pointer", "-nostdlib", "-static"]
_COMMON += ["-fno-asynchronous-unwind-tables", "-mabi=lp64d", "-Wl,--build-id=none", "-Wl,-s"]
_FLAGS = {
    "zig": ["-target", "riscv64-freestanding-none", "-mcpu=generic_rv64+m+f+d", "-fno-sanitize=all", "-g0", "-Wl,--image-base=0x10000"],
    "gcc": ["-march=rv64imfd_zicsr", "-fno-tree-loop-distribute-patterns"],
}


def program_names() -> list[str]:
    """Names of the programs, sorted."""
    return sorted(path.stem for path in SOURCES.glob("*.c"))


def program_path(name: str) -> Path:
    """The executable of a program of ours."""
    path = SOURCES / f"{name}.elf"
    if not is_file(path):
        raise InputError(f"no such program; there are: {', '.join(program_names())}", key=name)
    return path


def compiler_command(compiler: str) -> list[str]:
    """Command line of a compiler, flags included."""
    if compiler == "zig":
        import importlib.util

        if importlib.util.find_spec("ziglang") is None:
            raise InputError("not installed: pip install ziglang (it is in requirements-dev.txt)", key="zig")
        return [sys.executable, "-m", "ziglang", "cc", *_FLAGS["zig"], *_COMMON]
    if shutil.which(GCC) is None:
        raise InputError("not installed: apt-get install gcc-riscv64-linux-gnu", key=GCC)
    return [GCC, *_FLAGS["gcc"], *_COMMON]


def build(name: str, out: Path, compiler: str = "zig") -> Path:
    """Compile a program into `out`; returns the executable."""
    source, target = SOURCES / f"{name}.c", out / f"{name}.elf"
    done = subprocess.run([*compiler_command(compiler), "-o", str(target), str(source)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"{compiler} refuses it: {done.stderr.strip().splitlines()[0] if done.stderr else 'no message'}", path=source)
    target.chmod(0o755)
    return target
