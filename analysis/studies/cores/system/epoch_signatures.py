"""Which epochs ran the same code: signatures of epochs, and how much of a workload a sample of them covers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.cores.riscv.trace import Trace


@dataclass(frozen=True)
class EpochSignature:
    """What is reported of one epoch.

    Attributes:
        number: from 0 in the order of execution.
        instructions: in it (the last one may be short).
        sequence: SHA-256 of the sequence of its PCs (64-bit, little endian), hexadecimal: the paper's signature.
        footprint: SHA-256 of the set of its PCs, ascending: the same for epochs that run the same code in another order.
    """

    number: int
    instructions: int
    sequence: str
    footprint: str


@dataclass(frozen=True)
class Coverage:
    """How well a sample of epochs covers all epochs.

    Attributes:
        epochs, sampled: number of epochs, and of those in the sample.
        distinct: different signatures among all epochs.
        seen: share of all epochs whose signature is in the sample.
        good_turing: the same share estimated from the sample alone, 1 - (signatures seen once) / (epochs sampled).
    """

    epochs: int
    sampled: int
    distinct: int
    seen: float
    good_turing: float


def sequence_signature(trace: Trace) -> str:
    """SHA-256 of the PCs in order, as 64-bit little-endian integers (NeuroScalar, sections 4.1.1 and 4.5.3)."""
    return hashlib.sha256(trace.pc.astype("<u8").tobytes()).hexdigest()


def footprint_signature(trace: Trace) -> str:
    """SHA-256 of the distinct PCs in ascending order, as 64-bit little-endian integers."""
    return hashlib.sha256(np.sort(trace.code.pc[np.unique(trace.index)]).astype("<u8").tobytes()).hexdigest()


def epoch_signatures(epochs: Iterable[Trace]) -> list[EpochSignature]:
    """Signatures of consecutive epochs, as `emulator.epochs` gives them."""
    return [EpochSignature(number, len(part), sequence_signature(part), footprint_signature(part)) for number, part in enumerate(epochs)]


def coverage(signatures: Sequence[str], sampled: Sequence[int]) -> Coverage:
    """Coverage of a workload by some of its epochs.

    Args:
        sampled: numbers of the epochs in the sample, at least one.
    Source: I. J. Good, Biometrika 40 (1953), for the estimate.
    """
    counts = Counter(signatures[number] for number in sampled)
    once = sum(count == 1 for count in counts.values())
    seen = sum(signature in counts for signature in signatures) / len(signatures)
    return Coverage(len(signatures), len(sampled), len(set(signatures)), seen, 1 - once / len(sampled))
