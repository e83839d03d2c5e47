"""Quantities written with their unit, such as ``"312 TFLOP/s"`` or ``"80 GiB"``, read into SI base units.

Two mistakes found in published models are guarded by the tests of this module: a tera that is 1e13, and a GB/s that is 2^30 bytes.
Decimal prefixes (k, M, G, T, P, E) are powers of 1000 and binary prefixes (Ki, Mi, Gi, Ti, Pi, Ei) powers of 1024, never mixed.
"""

import re

SI_PREFIXES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1.0}
SI_PREFIXES |= {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY_PREFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}

# unit symbol -> (dimension, factor to the base unit of that dimension, takes prefixes below one, takes binary prefixes)
_SYMBOLS = {
    "FLOP/s": ("flop/s", 1.0, False, False),
    "OP/s": ("flop/s", 1.0, False, False),
    "FLOP": ("flop", 1.0, False, False),
    "B/s": ("bytes/s", 1.0, False, True),
    "bit/s": ("bytes/s", 0.125, False, False),
    "B": ("bytes", 1.0, False, True),
    "bit": ("bytes", 0.125, False, True),
    "Hz": ("hz", 1.0, False, False),
    "W": ("w", 1.0, True, False),
    "J": ("j", 1.0, True, False),
    "s": ("s", 1.0, True, False),
    "min": ("s", 60.0, False, False),
    "h": ("s", 3600.0, False, False),
}
DIMENSIONS = frozenset(dimension for dimension, *_ in _SYMBOLS.values())
_UNPREFIXED = {"min", "h"}
_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)\s*$")

LONGEST = 1000  # characters of a number with its unit


def unit_factor(unit: str) -> tuple[str, float]:
    """Dimension and factor to base units of a unit such as ``"GiB"``: value in base units = number x factor.

    Args:
        unit: prefix and symbol, case-sensitive (``GB/s``, ``TFLOP/s``, ``us``, ``Gbit/s``).
    Returns:
        (dimension, factor); the dimension is one of `DIMENSIONS`, its base unit FLOP/s, FLOP, bytes/s, bytes, Hz, W, J or s.
    """
    for symbol, (dimension, base, small, binary) in _SYMBOLS.items():
        if not unit.endswith(symbol):
            continue
        prefix = unit[: len(unit) - len(symbol)]
        if prefix == "":
            return dimension, base
        if symbol in _UNPREFIXED:
            continue
        if binary and prefix in BINARY_PREFIXES:
            return dimension, base * BINARY_PREFIXES[prefix]
        if prefix in SI_PREFIXES and (small or SI_PREFIXES[prefix] > 1):
            return dimension, base * SI_PREFIXES[prefix]
    raise ValueError(f"unknown unit {unit!r}; expected for example GB/s, GiB, TFLOP/s, Gbit/s, GHz, W or us")


def parse(text: str, dimension: str) -> float:
    """Reads a number with its unit: value = number x prefix x base.

    Args:
        text: such as ``"312 TFLOP/s"``; the space is optional.
        dimension: the expected one of `DIMENSIONS`, or ``"1"`` for a plain number.
    """
    match = _NUMBER.match(text) if len(text) <= LONGEST else None  # the expression takes the square of its length
    if not match:
        raise ValueError(f"{text!r} is not a number with a unit")
    number, unit = float(match[1]), match[2]
    if dimension == "1":
        if unit:
            raise ValueError(f"{text!r} has a unit where a plain number is expected")
        return number
    if dimension not in DIMENSIONS:
        raise ValueError(f"unknown dimension {dimension!r}")
    if not unit:
        raise ValueError(f"{text!r} has no unit; expected one of {dimension}")
    found, factor = unit_factor(unit)
    if found != dimension:
        raise ValueError(f"{text!r} is in {found}, expected {dimension}")
    return number * factor
