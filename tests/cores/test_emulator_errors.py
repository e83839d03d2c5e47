"""What is wrong with a program or a trace is reported in one line, and nothing half-written is left."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from cores.elf_files import write_elf
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.__main__ import main
from analysis.cores.riscv.decode import decode, extension
from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import epochs, load, trace_program
from analysis.errors import InputError
from analysis.studies.cores.programs import program_path
from analysis.studies.cores.trace_files import read_trace, write_trace

ILLEGAL, EBREAK, ECALL = 0xFFFFFFFF, 0x00100073, 0x00000073
ADDI_X1 = 0x00100093  # addi x1, x0, 1
LOAD_FROM_ZERO = 0x00003083  # ld x1, 0(x0)
JUMP_TO_ZERO = 0x00000067  # jalr x0, 0(x0)
CYCLE_WRITE = 0xC0009073  # csrrw x0, cycle, x1
TEXT_ADDRESS = 0x00000297  # auipc x5, 0
STORE, ADD_IN_MEMORY = 0x0002B023, 0x0002B02F  # sd x0, 0(x5); amoadd.d x0, x0, (x5)
LOAD_RESERVED = 0x1002B02F  # lr.d x0, (x5)
EXIT = 0x05D00893  # addi x17, x0, 93


def assert_told(path: Path, *parts: str) -> None:
    with pytest.raises(InputError) as caught:
        for _ in epochs(load(read_elf(path)), limit=1000):
            pass
    text = str(caught.value)
    assert text.startswith(str(path)) and "\n" not in text
    for part in parts:
        assert part in text


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        (ILLEGAL, ("illegal instruction 0xffffffff", "PC 0x10004", "after 1 instructions")),
        (0, ("illegal instruction 0x0000",)),
        (EBREAK, ("breakpoint", "PC 0x10004")),
        (LOAD_FROM_ZERO, ("access to 0x0", "PC 0x10004")),
        (JUMP_TO_ZERO, ("jump outside", "PC 0x0")),
        (CYCLE_WRITE, ("control register", "PC 0x10004")),
    ],
)
def test_a_bad_instruction_is_told_with_its_pc(word: int, parts: tuple[str, ...], tmp_path: Path) -> None:
    assert_told(write_elf(tmp_path / "bad.elf", [ADDI_X1, word]), *parts)


@pytest.mark.parametrize("word", [STORE, ADD_IN_MEMORY])
def test_a_store_into_the_text_is_told_with_its_pc(word: int, tmp_path: Path) -> None:
    """Linux maps a segment without PF_W so that a store into it ends the program with SIGSEGV."""
    assert_told(
        write_elf(tmp_path / "bad.elf", [TEXT_ADDRESS, LOAD_RESERVED, word]), "store to 0x10000, which may only be read", "PC 0x10008"
    )


def exit_code(path: Path, words: list[int]) -> int | None:
    machine = load(read_elf(write_elf(path, [*words, EXIT, ECALL])))
    for _ in epochs(machine, limit=100):
        pass
    return machine.exit_code


def test_text_may_be_written_after_mprotect(tmp_path: Path) -> None:
    protect = [0x00010537, 0x00100593, 0x00700613, 0x0E200893, ECALL]  # lui a0, 0x10; li a1, 1; li a2, 7; li a7, 226
    assert exit_code(tmp_path / "a.elf", [*protect, TEXT_ADDRESS, STORE]) == 0


def test_a_system_call_does_not_write_into_the_text(tmp_path: Path) -> None:
    clock = [0x000105B7, 0x07100893, ECALL]  # lui a1, 0x10; li a7, 113 (clock_gettime)
    assert exit_code(tmp_path / "a.elf", clock) == -14 & 255  # EFAULT


def test_bad_executables_are_told(tmp_path: Path) -> None:
    good = program_path("dense").read_bytes()
    cases = {
        "missing": (None, "cannot read the program"),
        "text": (b"hello", "not an ELF file"),
        "header": (good[:40], "truncated ELF file"),
        "tail": (good[: len(good) // 4], "truncated ELF file"),
        "x86": (good[:18] + b"\x3e\x00" + good[20:], "another machine: 64-bit x86-64"),
        "rv32": (good[:4] + b"\x01" + good[5:], "another machine: 32-bit RISC-V"),
        "object": (good[:16] + b"\x01\x00" + good[18:], "not an executable"),
        "interp": (good[:64] + b"\x03" + good[65:], "dynamically linked"),
    }
    for name, (content, message) in cases.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        assert_told(path, message)


def test_a_program_larger_than_memory_is_told(tmp_path: Path) -> None:
    assert_told(write_elf(tmp_path / "huge.elf", [ADDI_X1], data_bytes=1 << 45), "expected at most 2147483648 bytes")


def test_the_command_passes_output_on_and_writes_all_or_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "trace.npz"
    assert main(["core", "trace", str(program_path("hashjoin")), "--out", str(out)]) == 0
    printed = capfd.readouterr()
    assert printed.out == "93886562d21a9ea4\n"  # data/cores/programs/expected.csv
    assert "exit code 0" in printed.err
    trace = read_trace(out)
    assert f"{len(trace)} instructions" in printed.err
    whole, _ = trace_program(program_path("hashjoin"))
    assert np.array_equal(whole.pc, trace.pc) and np.array_equal(whole.address, trace.address)
    assert np.array_equal(whole.sources, trace.sources) and np.array_equal(whole.taken, trace.taken)

    second_seed = ["core", "trace", str(program_path("hashjoin")), "--out", str(out), "--argument", "2", "--limit", "50000000"]
    assert main(second_seed) == 0
    assert capfd.readouterr().out == "9f6b86c656adff82\n"

    bad = write_elf(tmp_path / "bad.elf", [ADDI_X1, ILLEGAL])
    assert main(["core", "trace", str(bad), "--out", str(tmp_path / "never.npz")]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert main(["core", "trace", str(bad), "--out", str(tmp_path / "no" / "such.npz")]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.elf", "trace.npz"]


def test_damaged_traces_are_told(tmp_path: Path) -> None:
    trace = trace_program(program_path("dense"), 1000)[0]
    path = tmp_path / "trace.npz"
    write_trace(trace, path)
    data = path.read_bytes()
    broken = tmp_path / "broken.npz"
    for content in (data[: len(data) // 2], data[:-10], b"", b"PK\x03\x04", data[:3000] + bytes(100) + data[3100:]):
        broken.write_bytes(content)
        with pytest.raises(InputError, match=r"broken\.npz: not a complete .npz trace"):
            read_trace(broken)
    with pytest.raises(InputError, match="no such trace"):
        read_trace(tmp_path / "missing.npz")
    np.savez(broken, pc=np.zeros(3))
    with pytest.raises(InputError, match="address: not a trace"):
        read_trace(broken)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), min_size=1, max_size=6), st.integers(200, 4000))
def test_a_damaged_executable_ends_or_is_told(changes: list[tuple[int, int]], size: int) -> None:
    """Law: whatever the bytes of its headers and first instructions are, a program runs, or one line says why not."""
    data = bytearray(program_path("dense").read_bytes())
    for place, value in changes:
        data[place] = value
    with tempfile.NamedTemporaryFile(suffix=".elf") as file:
        file.write(data[: max(size, 64)] if size < 1000 else data)
        file.flush()
        try:
            for _ in epochs(load(read_elf(file.name)), limit=20_000):
                pass
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        (0x0D0072D7, "V (vectors)"), (0x02056007, "V (vectors)"), (0x00051507, "Zfh"), (0x04B57553, "Zfh"), (0x40250553, "Zfh"),
        (0x0AB51533, "Zbc"), (0x0EB55533, "Zicond"),
    ],
)  # fmt: skip
def test_an_extension_that_is_not_emulated_is_named(word: int, name: str) -> None:
    """vsetvli, vle32.v, flh, fadd.h, fcvt.s.h, clmul and czero.eqz as GNU as encodes them."""
    assert decode(word, 0x10000) is None
    assert extension(word).startswith(name)


def test_what_no_extension_has_is_not_given_to_one() -> None:
    assert [extension(word) for word in (0xFFFFFFFF, 0x00000000, 0x0000000B, 0x02000033 | 0x7F << 25)] == ["", "", "", ""]
