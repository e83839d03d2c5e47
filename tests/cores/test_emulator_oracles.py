"""Outputs equal qemu's (recorded, and live where qemu is installed); PCs and addresses equal unicorn's in lock-step."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cores.lockstep import walk

from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import epochs, load, trace_program
from analysis.cores.riscv.trace import OpClass
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.cores.programs import SOURCES, build, compiler_command, program_names, program_path
from analysis.tables import read_csv

EXPECTED = read_csv(SOURCES / "expected.csv", required=["program", "seed", "output", "exit_code"], dtype={"output": str})
GEM5 = DATA / "recorded" / "gem5"
LOCKSTEP_INSTRUCTIONS = 100_000


def _run(path: Path, *arguments: str) -> tuple[str, int | None, int]:
    machine = load(read_elf(path), arguments)
    for _ in epochs(machine, 1 << 22, limit=100_000_000):
        pass
    return machine.kernel.written[1].decode(), machine.exit_code, machine.retired


@pytest.mark.parametrize("program", program_names())
def test_output_and_exit_code_equal_those_qemu_printed(program: str) -> None:
    rows = EXPECTED[EXPECTED.program == program]
    assert len(rows) == 2
    for row in rows.itertuples():
        output, exit_code, instructions = _run(program_path(program), str(row.seed))
        assert (output, exit_code) == (f"{row.output}\n", row.exit_code)
        assert instructions > 2_000_000


def test_output_equals_qemu_on_a_new_seed() -> None:
    qemu = shutil.which("qemu-riscv64")
    if qemu is None:
        pytest.skip("qemu-riscv64 is not installed: apt-get install qemu-user")
    for program in ("compression", "sparse", "fourier", "json"):
        done = subprocess.run([qemu, str(program_path(program)), "271828"], capture_output=True, text=True, check=False)
        assert _run(program_path(program), "271828")[:2] == (done.stdout, done.returncode)


@pytest.mark.parametrize("program", program_names())
def test_every_pc_and_address_equals_unicorns(program: str) -> None:
    machine = load(read_elf(program_path(program)))
    pcs, addresses = walk(machine, LOCKSTEP_INSTRUCTIONS)
    trace = next(epochs(machine, LOCKSTEP_INSTRUCTIONS))
    assert len(trace) == len(pcs) == LOCKSTEP_INSTRUCTIONS
    assert np.array_equal(trace.pc, pcs)
    assert np.array_equal(trace.address, addresses)
    assert np.array_equal(trace.address != 0, trace.size > 0)
    control = (trace.opclass >= OpClass.BRANCH) & (trace.opclass <= OpClass.RETURN)
    assert not trace.taken[~control].any()


@pytest.mark.parametrize("compiler", ["zig", "gcc"])
def test_rebuilding_gives_the_same_outputs(compiler: str, tmp_path: Path) -> None:
    try:
        compiler_command(compiler)
    except InputError as error:
        pytest.skip(str(error))
    for program in ("dense", "regex"):
        row = EXPECTED[(EXPECTED.program == program) & (EXPECTED.seed == 1)].iloc[0]
        assert _run(build(program, tmp_path, compiler))[0] == f"{row.output}\n"


@pytest.mark.parametrize("program", ["json", "matmul", "sort"])
def test_the_first_instructions_are_those_gem5_retired(program: str) -> None:
    """data/recorded/gem5: the first 100,000 retired on 8w; gem5's order within a cycle is not program order, so counts are compared."""
    recorded = read_csv(GEM5 / f"retire_{program}_8w.csv.gz").pc.map(lambda text: int(text, 16))
    trace, _ = trace_program(GEM5 / f"{program}.elf", len(recorded))
    ours = pd.Series(trace.pc).value_counts()
    theirs = recorded.value_counts()
    # Retirement may stand in the middle of a few instructions: the two sets differ by what is in flight, at most a reorder buffer.
    assert ours.sub(theirs, fill_value=0).abs().sum() <= 192
