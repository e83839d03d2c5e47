"""One specified number: its value in SI base units, where it comes from, and how far sources disagree."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, model_validator

from analysis import units
from analysis.configs import AlsoWritten, Strict


class Quantity(Strict):
    """A number of a specification.

    Args:
        value: in SI base units (FLOP/s, bytes, bytes/s, Hz, W, s) or a count.
        source: key into the `sources` of `data/hardware/sources.yaml`.
        low, high: smallest and largest value that a source states, in the same unit; equal to `value` where sources agree.
        note: why they disagree, or which variant is meant.
    """

    value: float
    source: str
    low: float
    high: float
    note: str = ""

    @model_validator(mode="after")
    def _ordered(self) -> Quantity:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"expected low <= value <= high, got {self.low:g}, {self.value:g}, {self.high:g}")
        if self.low < 0:
            raise ValueError("must not be negative")
        return self

    @property
    def relative_range(self) -> float:
        """(high - low) / value; 0 where the sources agree."""
        return (self.high - self.low) / self.value if self.value else 0.0


_NUMBER = {"type": ["string", "number"]}
AS_WRITTEN = AlsoWritten(
    _NUMBER,
    {
        "type": "object",
        "properties": {"value": _NUMBER, "low": _NUMBER, "high": _NUMBER, "source": {"type": "string"}, "note": {"type": "string"}},
        "required": ["value"],
        "additionalProperties": False,
    },
)
"""A quantity in a file: `80 GB`, where the device names the source of all its numbers, or with a source of its own."""


def _reader(dimension: str) -> Any:
    def read(raw: Any) -> Any:
        if isinstance(raw, Quantity):
            return raw
        if not isinstance(raw, dict):
            raise ValueError(f"expected {{value: ..., source: ...}}, got {raw!r}")
        parsed = dict(raw)
        for key in ("value", "low", "high"):
            if key in raw:
                parsed[key] = raw[key] if dimension == "1" and isinstance(raw[key], (int, float)) else units.parse(str(raw[key]), dimension)
        if "value" in parsed:
            parsed.setdefault("low", parsed["value"])
            parsed.setdefault("high", parsed["value"])
        return parsed

    return BeforeValidator(read)


FlopRate = Annotated[Quantity, _reader("flop/s"), AS_WRITTEN]
Bytes = Annotated[Quantity, _reader("bytes"), AS_WRITTEN]
ByteRate = Annotated[Quantity, _reader("bytes/s"), AS_WRITTEN]
Frequency = Annotated[Quantity, _reader("hz"), AS_WRITTEN]
Power = Annotated[Quantity, _reader("w"), AS_WRITTEN]
Count = Annotated[Quantity, _reader("1"), AS_WRITTEN]


PLAIN_KEYS = {
    "aliases", "vendor", "kind", "architecture", "memory_type", "generation", "name", "title", "device", "topology", "size", "host", "dies",
}  # fmt: skip
"""Keys of devices, links, systems and network levels that hold no quantity."""


def _with_source(raw: Any, source: str | None) -> Any:
    if isinstance(raw, list):
        return [_with_source(item, source) for item in raw]
    if isinstance(raw, dict):
        if "value" in raw:
            return raw if "source" in raw or source is None else {**raw, "source": source}
        return {key: item if key in PLAIN_KEYS else _with_source(item, source) for key, item in raw.items()}
    if isinstance(raw, (str, int, float)) and not isinstance(raw, bool) and source is not None:
        return {"value": raw, "source": source}
    return raw


class Bodies(Strict):
    """A file of bodies by name in its sections; the key is a body's `name`, and its `source` is that of the quantities that name none.

    The short form ``key: 80 GB`` stands for ``key: {value: 80 GB, source: <the body's source>}``, at any depth; a long form with a `value`
    keeps its own source. A body without a source has `OWN_SOURCE`.
    """

    OWN_SOURCE: ClassVar[str | None] = None

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, raw: Any) -> Any:
        for section in cls.model_fields:
            if isinstance(raw, dict) and isinstance(raw.get(section), dict):
                raw = {**raw, section: {name: cls._body(name, body) for name, body in raw[section].items()}}
        return raw

    @classmethod
    def _body(cls, name: str, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        fields = {key: item for key, item in body.items() if key != "source"}
        return {"name": name, **_with_source(fields, body.get("source", cls.OWN_SOURCE))}
