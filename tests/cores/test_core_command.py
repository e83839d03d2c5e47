"""`python -m analysis core ...`: bad input is one line and status 2, and nothing is written; the cases are those a user can make."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from analysis.__main__ import main
from analysis.cores.riscv.emulator import trace_program
from analysis.cores.riscv.trace import file_columns
from analysis.cores.timing.designs import DESIGNS, TABLE_4, load_design
from analysis.errors import InputError
from analysis.studies.cores.learning.model_files import TRUNK
from analysis.studies.cores.learning.program_features import NAMES
from analysis.studies.cores.programs import program_path
from analysis.studies.cores.trace_files import read_trace, write_trace

PROGRAM = program_path("dense")


def assert_refused(capfd: pytest.CaptureFixture[str], folder: Path, said: str, *arguments: str | Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    capfd.readouterr()
    assert main(["core", *map(str, arguments)]) == 2
    printed = capfd.readouterr()
    assert printed.out == "" and said in printed.err
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


BIG_ENDIAN = b"\x02\x01" + bytes(9) + b"\x00\x02\x00\xf3"  # data, version, padding, type and machine of the header


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda good: None, "cannot read the program: No such file"),
        (lambda good: b"", "not an ELF file"),
        (lambda good: b"#!/bin/sh\n", "not an ELF file"),
        (lambda good: good[:63], "truncated ELF file: 63 bytes"),
        (lambda good: good[:64], "its program headers are not all there"),
        (lambda good: good[:5] + BIG_ENDIAN + good[20:], "another machine"),
        (lambda good: good[:4] + b"\x01" + good[5:], "another machine: 32-bit RISC-V"),
        (lambda good: good[:18] + b"\x3e\x00" + good[20:], "another machine: 64-bit x86-64"),
        (lambda good: good[:24] + bytes(8) + good[32:], "entry 0x0 lies in no executable segment"),
        (lambda good: good[:32] + b"\xff" * 8 + good[40:], "its program headers are not all there"),
        (lambda good: good[:64] + b"\x03" + good[65:], "dynamically linked"),
    ],
)
@pytest.mark.parametrize("command", ["trace", "simulate"])
def test_bad_programs(
    command: str, content: Callable[[bytes], bytes | None], said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.elf"
    data = content(PROGRAM.read_bytes())
    if data is not None:
        program.write_bytes(data)
    rest = ["--design", "8w"] if command == "simulate" else []
    assert_refused(capfd, tmp_path, f"{program}: ", command, program, "--out", tmp_path / "out", *rest)
    assert_refused(capfd, tmp_path, said, command, program, "--out", tmp_path / "out", *rest)


@pytest.mark.parametrize(
    "command", [["trace"], ["simulate", "--design", "8w"], ["rank"], ["seal", "--key", "key"], ["unseal", "--key", "key"]]
)
def test_bad_outputs_are_told_before_any_work(command: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No folder, a folder or a device of that name, a file in place of the folder, a name too long, and the input itself."""
    source, key = tmp_path / "source", tmp_path / "key"
    source.write_bytes(PROGRAM.read_bytes())
    key.write_text("00" * 32)
    name, *rest = [str(key) if word == "key" else word for word in command]
    (tmp_path / "folder").mkdir()
    cases = {
        tmp_path / "no" / "such": "no such folder to write into",
        tmp_path / "folder": "something other than a file has that name",
        Path("/dev/null"): "something other than a file has that name",
        source / "below": "no such folder to write into",
        tmp_path / ("x" * 300): "File name too long",
        source: "uses this file for something else",
    }
    for out, said in cases.items():
        assert_refused(capfd, tmp_path, said, name, source, *rest, "--out", out)
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("limit", ["0", "-1", "1.5", "many"])
def test_limits_below_one(limit: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for command in (["trace"], ["simulate", "--design", "8w"]):
        assert main(["core", *command, str(PROGRAM), "--out", str(tmp_path / "out"), "--limit", limit]) == 2
        assert "Invalid value for '--limit'" in capfd.readouterr().err and not list(tmp_path.iterdir())


def test_arguments_larger_than_the_stack(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ("trace", PROGRAM, "--out", tmp_path / "out", "--argument", "x" * (1 << 21))
    assert_refused(capfd, tmp_path, "expected at most 2097152", *arguments)


CACHE = "{{size_bytes: {}, ways: 8, tag_cycles: {}, data_cycles: 20, response_cycles: 20, mshrs: 20}}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: expected a mapping"),
        ("- 8\n", ":1: expected a mapping"),
        ("name: [\n", "not valid YAML"),
        ("name: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
        ("width: 4\n", "name: required key is missing"),
        ("name: x\nwidht: 4\n", ":2: widht: unknown key"),
        ("name: x\nwidth: 4\nwidth: 8\n", ":3: width: given twice"),
        ("name: x\nwidth: -1\n", ":2: width: "),
        ("name: x\nwidth: 0\n", ":2: width: "),
        ("name: x\nwidth: 1000000\n", ":2: width: "),
        ("name: x\nwidth: 2.5\n", ":2: width: "),
        ("name: x\nint_registers: 1000000000000\n", ":2: int_registers: "),
        ("name: x\nclock_hz: 1\n", ":2: clock_hz: "),
        ("name: x\nclock_hz: .inf\n", ":2: clock_hz: "),
        (f"name: x\nl2: {CACHE.format(0, 20)}\n", "l2.size_bytes: "),
        (f"name: x\nl2: {CACHE.format(64, 20)}\n", "l2: expected a power of two sets, got 0.125"),
        (f"name: x\nl2: {CACHE.format(1 << 32, 20)}\n", "expected at most 1048576 lines together"),
        (f"name: x\nl2: {CACHE.format(1 << 21, 10**12)}\n", "l2.tag_cycles: "),
        ("name: x\nline_bytes: 48\n", ":2: line_bytes: expected a power of two"),
        ("name: x\nfetch_buffer_bytes: 128\n", "fetch_buffer_bytes: expected at most a cache line of 64"),
        ("name: x\nmemory: {burst_ps: -5}\n", "memory.burst_ps: "),
        ("name: x\nmemory: {bus_period_ps: 0}\n", "memory.bus_period_ps: "),
        ("name: x\nmemory: {banks: 3}\n", "memory.banks: expected a power of two"),
        ("name: x\nmemory: {refresh_interval_ps: 200000}\n", ":2: memory: expected a refresh_interval_ps of 0 or above"),
        ("name: x\nunits: {int_alu: {count: 1, latency_cycles: {integer: 1}}}\n", ":2: units: unknown operation class 'integer'"),
        ("name: x\nunits: {int_alu: {count: 1, latency_cycles: {}}}\n", "expected one kind of unit that executes int_alu, got 0"),
        ("name: x\nunits: {int_alu: {count: 1, latency_cycles: {int_alu: 1, int_mult: 3}}}\n", "executes int_mult, got 2"),
    ],
)
def test_bad_designs(text: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    design = tmp_path / "design.yaml"
    design.write_text(text)
    assert_refused(capfd, tmp_path, said, "simulate", PROGRAM, "--design", design, "--out", tmp_path / "out.csv")


def test_designs_that_are_not_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for design in ("9w", "", "../designs/8w", "no.yaml", str(tmp_path)):
        said = "cannot be read" if design == "no.yaml" else "no such design; known: 4w+mem, 6w+ls, 8w, lsq, rob"
        assert_refused(capfd, tmp_path, said, "simulate", PROGRAM, "--design", design, "--out", tmp_path / "out.csv")
    assert sorted(TABLE_4) == sorted(path.stem for path in DESIGNS.glob("*.yaml"))
    assert all(load_design(name).name == name for name in TABLE_4)


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    trace, _ = trace_program(PROGRAM, 500)
    return {**file_columns(trace), "end_pc": np.array(trace.end_pc, np.uint64)}


def save_arrays(path: Path, arrays: dict[str, np.ndarray], method: int = zipfile.ZIP_STORED) -> None:
    """As numpy.savez, with any compression."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, array in arrays.items():
            stream = BytesIO()
            np.save(stream, array)
            archive.writestr(f"{name}.npy", stream.getvalue())


CHANGES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], str]] = {
    "pc": (lambda a: a.astype(np.int64), "expected 500 entries of uint64"),
    "address": (lambda a: a[:-1], "expected 500 entries of uint64, got (499,)"),
    "taken": (lambda a: np.array([{}] * 500, object), "taken.npy: says that it holds more than is there"),
    "opclass": (lambda a: np.full_like(a, 24), "opclass: instruction 0: 24 is not one of its values"),
    "source1": (lambda a: np.where(np.arange(500) == 7, 64, a).astype(np.uint8), "source1: instruction 7: 64"),
    "destination": (lambda a: np.full_like(a, 254), "destination: instruction 0: 254"),
    "size": (lambda a: np.full_like(a, 3), "size: instruction 0: 3"),
    "length": (lambda a: np.zeros_like(a), "length: instruction 0: 0"),
    "end_pc": (lambda a: np.array(np.inf), "end_pc: expected one uint64"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_made_up_traces(name: str, arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    change, said = CHANGES[name]
    save_arrays(path, {**arrays, name: change(arrays[name])})
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    save_arrays(path, {key: value for key, value in arrays.items() if key != name})
    with pytest.raises(InputError, match=f"{name}: not a trace"):
        read_trace(path)
    save_arrays(path, {**arrays, "more": np.array([{}], object)})  # what nobody asks for is not opened
    assert len(read_trace(path)) == 500


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_flipped_byte_in_a_trace_is_told_or_changes_nothing(method: int, arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    save_arrays(path, arrays, method)
    good, whole = path.read_bytes(), read_trace(path)
    told = 0
    for place in np.random.default_rng(method).integers(0, len(good), 150).tolist():
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1 :])
        try:
            trace = read_trace(path)
        except InputError as error:
            told += 1
            assert "\n" not in str(error) and str(error).startswith(str(path))
        else:
            assert np.array_equal(trace.pc, whole.pc) and np.array_equal(trace.address, whole.address)
    assert told > 75
    for length in (0, 1, 4, 30, len(good) // 2, len(good) - 22, len(good) - 1):
        path.write_bytes(good[:length])
        with pytest.raises(InputError, match="not a complete"):
            read_trace(path)


def test_a_header_that_claims_more_than_there_is(arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    header = BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<u8", "fortran_order": False, "shape": (1 << 50,)})
    save_arrays(path, {name: array for name, array in arrays.items() if name != "pc"})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("pc.npy", header.getvalue())
    with pytest.raises(InputError, match="holds more than is there"):
        read_trace(path)
    with zipfile.ZipFile(path, "w") as archive:
        for name in arrays:
            archive.writestr(f"{name}.npy", b"no array")
    with pytest.raises(InputError, match=r"not a complete \.npz trace"):
        read_trace(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ({}, "expected a model of kind"),
        ({"kind": "NeuroScalar"}, "expected a model of kind"),
        ({"kind": TRUNK}, "features: missing from the model's text"),
        ({"kind": TRUNK, "features": "nonsense"}, "features: missing from the model's text, or not JSON"),
        ({"kind": TRUNK, "features": "[]"}, "was trained on other features"),
        ({"kind": TRUNK, "features": json.dumps(NAMES)}, "designs: missing from the model's text"),
        ({"kind": TRUNK, "features": json.dumps(NAMES), "designs": "5"}, "designs: expected a list of names"),
        ({"kind": TRUNK, "features": json.dumps(NAMES), "designs": '["8w"]'}, "expected an array of shape"),
    ],
)
def test_bad_models(text: dict[str, str], said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model, trace = tmp_path / "model.safetensors", tmp_path / "trace.npz"
    write_trace(trace_program(PROGRAM, 500)[0], trace)
    model.write_bytes(save({"one": np.ones(3, np.float32)}, metadata=text))
    assert_refused(capfd, tmp_path, said, "rank", trace, "--model", model)
    model.write_bytes(model.read_bytes()[:-1])
    assert_refused(capfd, tmp_path, "not a complete safetensors file", "rank", trace, "--model", model)
    model.write_bytes(save({"one": np.full(3, np.nan, np.float32)}, metadata=text))
    assert_refused(capfd, tmp_path, "one: expected finite numbers", "rank", trace, "--model", model)
    assert_refused(capfd, tmp_path, "theirs: no such model; known: ", "rank", trace, "--model", "theirs")
