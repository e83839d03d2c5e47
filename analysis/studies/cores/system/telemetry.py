"""What leaves the user's machine: sums over epochs by model and signature, only with consent, through OpenTelemetry.

A record has a model's name and version, an epoch's signature and a prediction; nothing says whose program ran, when or where. A signature
is pseudonymous, not anonymous: who has the same program can compute it. Groups of few epochs are therefore kept back.
Source: NeuroScalar, section 4.5.3; OpenTelemetry metrics specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.resources import Resource

from analysis.errors import InputError

METER = "cores"
EPOCHS, CYCLES = "cores.epochs", "cores.predicted_cycles"
_SIGNATURE = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Record:
    """One inference.

    Attributes:
        model, version: which model.
        signature: SHA-256 of the epoch's PCs, hexadecimal.
        predicted_cycles: for the epoch.
    """

    model: str
    version: int
    signature: str
    predicted_cycles: float

    def __post_init__(self) -> None:
        if not _SIGNATURE.fullmatch(self.signature):
            raise InputError("expected 64 hexadecimal digits", key="signature")
        if not 0 <= self.predicted_cycles < float("inf"):
            raise InputError(f"expected cycles, got {self.predicted_cycles}", key="predicted_cycles")


@dataclass(frozen=True)
class Aggregate:
    """What is reported of the epochs of one model and signature.

    Attributes:
        model, version, signature: the group.
        epochs: in it (count).
        predicted_cycles: their sum (cycles).
    """

    model: str
    version: int
    signature: str
    epochs: int
    predicted_cycles: float


def aggregate(records: Iterable[Record], minimum_epochs: int = 1) -> list[Aggregate]:
    """Sum the records by model, version and signature, sorted; groups of fewer than `minimum_epochs` are left out."""
    groups: dict[tuple[str, int, str], list[float]] = {}
    for record in records:
        groups.setdefault((record.model, record.version, record.signature), []).append(record.predicted_cycles)
    return [Aggregate(*key, len(values), sum(values)) for key, values in sorted(groups.items()) if len(values) >= minimum_epochs]


def export(aggregates: Iterable[Aggregate], reader: MetricReader, consent: bool) -> int:
    """Hand the aggregates to an OpenTelemetry reader (in memory, console, OTLP ...); returns how many groups were sent.

    Two counters, cores.epochs and cores.predicted_cycles, with the attributes model, model.version and epoch.signature. The SDK's
    default resource, which names host and process, is replaced by one that names the service alone.

    Args:
        reader: where they go; closing it is the caller's.
        consent: whether the user has opted in; without, nothing is created and nothing sent.
    """
    if not consent:
        return 0
    provider = MeterProvider([reader], resource=Resource({"service.name": METER}), shutdown_on_exit=False)
    meter = provider.get_meter(METER)
    epochs = meter.create_counter(EPOCHS, unit="{epoch}", description="epochs inferred")
    cycles = meter.create_counter(CYCLES, unit="{cycle}", description="predicted cycles of these epochs")
    sent = 0
    for group in aggregates:
        attributes: dict[str, str | int] = {"model": group.model, "model.version": group.version, "epoch.signature": group.signature}
        epochs.add(group.epochs, attributes)
        cycles.add(group.predicted_cycles, attributes)
        sent += 1
    provider.force_flush()
    return sent
