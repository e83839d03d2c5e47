"""The collector's FIFO: the printed size, conservation, monotony; signatures and coverage; sealed traces."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.cores.riscv.elf import read_elf
from analysis.cores.riscv.emulator import epochs, load, trace_program
from analysis.cores.riscv.trace import EPOCH_INSTRUCTIONS, file_columns
from analysis.errors import InputError
from analysis.studies.cores.programs import program_path
from analysis.studies.cores.system.collector import Collector, collect, read_epoch, retired_per_cycle, write_epoch
from analysis.studies.cores.system.epoch_signatures import coverage, epoch_signatures, footprint_signature, sequence_signature
from analysis.studies.cores.system.sealed import CHUNK, SealedWriter, read_key, seal, unseal, unseal_file, write_key
from analysis.studies.cores.trace_files import RECORD, read_trace, write_trace

retirement = st.lists(st.integers(0, 8), min_size=1, max_size=300)


def test_twelve_kilobytes_hold_one_instruction_an_entry() -> None:
    """Section 4.1.2 prints 512 entries of 5 instructions in 12 KB and 2.5 MB an epoch: 25 bytes an instruction."""
    assert EPOCH_INSTRUCTIONS * 25 == 2_500_000
    assert Collector(512, 5, 25).fifo_bytes == 64_000
    assert Collector(512, 1, 24).fifo_bytes == 12 * 1024


@settings(max_examples=200, deadline=None)
@given(retirement, st.integers(1, 6), st.integers(1, 20), st.floats(1, 300), st.data())
def test_every_instruction_of_the_traced_process_is_collected_once(
    retired: list[int], per_entry: int, entries: int, drain: float, data: st.DataObject
) -> None:
    traced = np.array(data.draw(st.lists(st.booleans(), min_size=len(retired), max_size=len(retired))))
    cycles = np.array(retired)
    result = collect(Collector(entries, per_entry, 20, drain), cycles, traced)
    assert result.instructions == cycles[traced].sum()
    assert result.entries_written * per_entry >= result.instructions
    assert result.cycles == len(cycles) + result.stall_cycles
    # A bigger FIFO or a faster drain never stalls more.
    assert collect(Collector(entries + 5, per_entry, 20, drain), cycles, traced).stall_cycles <= result.stall_cycles
    assert collect(Collector(entries, per_entry, 20, 2 * drain), cycles, traced).stall_cycles <= result.stall_cycles


def test_a_full_width_stream_runs_at_the_drain_rate() -> None:
    """8 instructions of 25 bytes a cycle are 200 bytes: 64 bytes a cycle take 3.125 times as long, in the long run."""
    result = collect(Collector(512, 1, 25, 64), np.full(100_000, 8))
    assert result.slowdown == pytest.approx(200 / 64, rel=0.01)
    assert result.peak_entries == 512
    assert collect(Collector(512, 5, 25, 200), np.full(100_000, 8)).stall_cycles == 0
    assert collect(Collector(512, 1, 25, 64), np.full(100, 2)).stall_cycles == 0


def test_bad_collectors_are_told() -> None:
    with pytest.raises(InputError, match="entries: expected a positive number"):
        Collector(entries=0)
    with pytest.raises(InputError, match="expected 0 to 8"):
        collect(Collector(), np.array([9]))
    with pytest.raises(InputError, match="expected 2 cycles, got 1"):
        collect(Collector(), np.array([1, 1]), np.array([True]))


def test_retired_per_cycle_counts() -> None:
    assert retired_per_cycle(np.array([7, 7, 8, 10])).tolist() == [2, 1, 0, 1]


def test_signature_is_sha256_of_the_pcs() -> None:
    parts = list(epochs(load(read_elf(program_path("dense"))), EPOCH_INSTRUCTIONS, 350_000))
    assert [len(part) for part in parts] == [100_000, 100_000, 100_000, 50_000]
    told = epoch_signatures(parts)
    pcs = b"".join(int(pc).to_bytes(8, "little") for pc in parts[0].pc)
    assert told[0].sequence == hashlib.sha256(pcs).hexdigest()
    reordered = parts[0].slice(0, 50_000)
    assert sequence_signature(reordered) != told[0].sequence
    assert footprint_signature(reordered) == hashlib.sha256(np.unique(reordered.pc).tobytes()).hexdigest()


def test_coverage_counts_and_estimates() -> None:
    """By hand: a a b c, sampled 0 and 2: 3 of 4 epochs seen; a and b each once, so Good's estimate is 0."""
    result = coverage(["a", "a", "b", "c"], [0, 2])
    assert (result.distinct, result.seen, result.good_turing) == (3, 0.75, 0.0)
    assert coverage(["a"] * 10, [1, 5]).good_turing == 1.0


def test_a_sealed_trace_opens_with_its_key_only(tmp_path: Path) -> None:
    trace = trace_program(program_path("chase"), 100_000)[0]
    plain, sealed, key_file, other = (tmp_path / name for name in ("plain.npz", "sealed", "key", "other"))
    write_trace(trace, plain)
    assert plain.stat().st_size > 2 << 20  # several chunks
    write_key(key_file)
    write_key(other)
    key = read_key(key_file)
    seal(plain, sealed, key)
    unseal_file(sealed, tmp_path / "again.npz", key)
    assert (tmp_path / "again.npz").read_bytes() == plain.read_bytes()
    assert np.array_equal(read_trace(sealed, unseal(sealed, key)).pc, trace.pc)
    data = sealed.read_bytes()
    assert trace.pc[:64].tobytes() not in data
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    chunk = CHUNK + 16
    for name, content in {"short": data[:-1], "boundary": data[: 22 + chunk], "changed": bytes(flipped)}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="wrong key, or the sealed trace is truncated or changed"):
            unseal(tmp_path / name, key)
    with pytest.raises(InputError, match="wrong key"):
        unseal(sealed, read_key(other))
    with pytest.raises(InputError, match="not a sealed trace"):
        unseal(plain, key)
    with pytest.raises(InputError, match="not a key"):
        read_key(plain)
    with pytest.raises(InputError, match="cannot write the key"):
        write_key(key_file)


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_what_is_written_in_pieces_is_sealed_as_one(size: int, tmp_path: Path) -> None:
    content = np.random.default_rng(size).bytes(size)
    with SealedWriter(tmp_path / "sealed", bytes(32)) as writer:
        for first in range(0, size, 999):
            writer.write(content[first : first + 999])
    assert unseal(tmp_path / "sealed", bytes(32)).getvalue() == content


def test_the_collector_encrypts_before_anything_reaches_memory(tmp_path: Path) -> None:
    """Read back, an epoch is what was executed; no record of an instruction is in the file, nor in what is written so far."""
    trace = trace_program(program_path("chase"), 5003)[0]  # the last entry is not full
    write_epoch(trace, tmp_path / "epoch", bytes(32))
    again = read_epoch(tmp_path / "epoch", bytes(32))
    assert again.end_pc == trace.end_pc
    before, after = file_columns(trace), file_columns(again)
    assert list(before) == list(RECORD.names or ()) and all(np.array_equal(before[name], after[name]) for name in before)
    written = (tmp_path / "epoch").read_bytes()
    assert len(written) == pytest.approx(len(trace) * RECORD.itemsize, rel=0.01)
    assert not any(trace.pc[k : k + 1].tobytes() in written for k in range(0, len(trace), 50))
    with pytest.raises(RuntimeError), SealedWriter(tmp_path / "half", bytes(32)) as writer:
        writer.write(bytes(2 * CHUNK))
        writer.file.flush()
        assert bytes(64) not in writer.temporary.read_bytes()
        raise RuntimeError
    assert not (tmp_path / "half").exists() and not writer.temporary.exists()
    with pytest.raises(InputError, match="wrong key"):
        read_epoch(tmp_path / "epoch", bytes(31) + b"1")
