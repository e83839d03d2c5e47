"""PMEvo's measured basic blocks: instruction counts, cycles, and what instructions have in common."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_columns import Columns
from analysis.errors import InputError
from analysis.studies import datasets

Floats = NDArray[np.float64]

REQUIRED = ["arch", "iseq", "cycles", "sum_singletons", "max_singletons"]
READS = Columns(names=tuple(REQUIRED), required=tuple(REQUIRED))
TOOLS = ("pred_IACA", "pred_llvm-mca", "pred_Ithemal")
SEPARATOR = " ; "
MOST_COUNTS = 20_000_000  # blocks times instructions of a table


@dataclass(frozen=True)
class Blocks:
    """Measured blocks of one core.

    Attributes:
        arch: name of the core.
        instructions: names of the instructions that occur.
        counts: how often each occurs in a block, shape (blocks, instructions).
        cycles: measured steady-state cycles an iteration.
        sum_alone: sum over the block of the cycles of each instruction measured by itself.
        max_alone: the largest of them.
        tools: other tools' cycles by column name, where there are any.
    """

    arch: str
    instructions: tuple[str, ...]
    counts: Floats
    cycles: Floats
    sum_alone: Floats
    max_alone: Floats
    tools: dict[str, Floats]


def _numbers(part: pd.DataFrame, column: str, path: Path | None) -> Floats:
    found = pd.to_numeric(part[column], errors="coerce")
    wrong = part.index[(found.isna() & part[column].notna()).to_numpy()]
    if len(wrong):
        raise InputError(f"expected a number, got {part.loc[wrong[0], column]!r}", path=path, line=int(wrong[0]) + 2, key=column)
    return found.to_numpy(dtype=float)


def from_table(frame: pd.DataFrame, arch: str, path: Path | None = None) -> Blocks:
    """The blocks of one core.

    Raises:
        InputError: no such core, a block of no instructions, or cycles that are not positive.
    """
    part = frame[frame["arch"] == arch]
    if part.empty:
        raise InputError(f"no such core; there are: {', '.join(sorted(map(str, frame['arch'].unique())))}", path=path, key=arch)
    sequences = [text.split(SEPARATOR) for text in part["iseq"].fillna("").astype(str)]
    for row, sequence in zip(part.index, sequences, strict=True):
        if not all(sequence):
            raise InputError("a block names an empty instruction", path=path, line=int(row) + 2, key="iseq")
    cycles = _numbers(part, "cycles", path)
    if not (cycles > 0).all():
        raise InputError("are not positive", path=path, line=int(part.index[int(np.argmin(cycles > 0))]) + 2, key="cycles")
    instructions = tuple(sorted({name for sequence in sequences for name in sequence}))
    index = {name: number for number, name in enumerate(instructions)}
    if len(sequences) * len(instructions) > MOST_COUNTS:
        few = f"{len(sequences):,} blocks of {len(instructions):,} instructions are more than {MOST_COUNTS:,} counts"
        raise InputError(few, path=path, key=arch)
    counts = np.zeros((len(sequences), len(instructions)))
    for row_number, sequence in enumerate(sequences):
        for name in sequence:
            counts[row_number, index[name]] += 1
    tools = {tool: _numbers(part, tool, path) for tool in TOOLS if tool in part and part[tool].notna().any()}
    return Blocks(
        arch,
        instructions,
        counts,
        cycles,
        _numbers(part, "sum_singletons", path),
        _numbers(part, "max_singletons", path),
        tools,
    )


def load(arch: str) -> Blocks:
    """Blocks of one core of the dataset."""
    path = datasets.find("pmevo/insn_multiset_cycles")
    frame = datasets.load("pmevo/insn_multiset_cycles")
    missing = [column for column in REQUIRED if column not in frame]
    if missing:
        raise InputError(f"missing column; expected {', '.join(REQUIRED)}", path=path, line=1, key=", ".join(missing))
    return from_table(frame, arch, path)


def cores() -> list[str]:
    """Names of the cores in the dataset, in its order."""
    return list(dict.fromkeys(datasets.load("pmevo/insn_multiset_cycles")["arch"]))


def alone(blocks: Blocks) -> Floats:
    """Cycles of each instruction by itself, from the sums: the table gives a sum a block, and there are more blocks than instructions.

    sum_alone = counts c, solved by least squares; exact where every instruction can be told apart. Rounded to 1e-9 cycles, so that equal
    times stay equal.
    """
    return np.asarray(np.round(np.linalg.lstsq(blocks.counts, blocks.sum_alone, rcond=None)[0], 9))


def traits(name: str) -> set[str]:
    """What an instruction shares with others: mnemonic, mnemonic without its width, operands, whether it reads or writes memory.

    Args:
        name: PMEvo's text: mnemonic, then operands, joined by underscores, each register or constant in double brackets; an underscore
            before the mnemonic, as PMEvo writes on ARM, is no part of it.
    """
    mnemonic, _, operands = name.lstrip("_").partition("_")
    first, _, rest = operands.partition(",")
    places = {"writes memory"} if re.search(r"MEM|\[", first) else set()
    if re.search(r"MEM|\[", rest):
        places.add("reads memory")
    touches = "memory" if places else "registers"
    kind = "vector" if re.search(r":[VFSDQ]:", operands) or mnemonic.startswith("V") else "scalar"
    stem = re.sub(r"(PD|PS|SD|SS|DQ|BW|WD|B|W|D|Q)$", "", mnemonic)
    width = re.search(r"(byte|xmmword|ymmword|qword|dword|word)_ptr", operands)
    found = {f"mnemonic {mnemonic}", f"stem {stem}", f"operands {operands}", f"mnemonic {mnemonic} {touches}", kind, f"{kind} {touches}"}
    found |= {f"{kind} {place}" for place in places} | places | {f"count {operands.count('((')}"}
    return found | ({f"width {width[1]}"} if width else set())


def trait_matrix(instructions: Sequence[str], known: Sequence[str] | None = None) -> tuple[Floats, list[str]]:
    """Traits as columns: those of more than one instruction, or the ones asked for.

    Args:
        known: traits wanted, in order.
    Returns:
        shape (instructions, traits), and the traits' names.
    """
    each = [traits(name) for name in instructions]
    if known is None:
        every = sorted(set().union(*each))
        known = [trait for trait in every if sum(trait in found for found in each) > 1]
    return np.array([[float(trait in found) for trait in known] for found in each]).reshape(len(each), len(known)), list(known)
