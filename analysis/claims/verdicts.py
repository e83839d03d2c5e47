"""Does the value got agree with the value printed, and by how much not?"""

from __future__ import annotations

import math
from typing import Any

from analysis.claims.check_files import Check

MATCH = ("reproduced", "cited (verified)")
MISMATCH = ("differs", "wrong arithmetic", "not reproducible")


def _numeric(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _allowed(reference: float, tolerance: float | None, relative: float | None) -> float:
    return max(tolerance or 0.0, (relative or 0.0) * abs(reference), 1e-12 * max(1.0, abs(reference)))


EXPECTED_DIGITS = 1e-6  # `expect` is written to about eight digits


def as_expected(got: Any, check: Check) -> bool:
    """Whether `got` is the value that the check file expects, within the check's tolerance (at least one part in a million)."""
    return agrees(got, check.expect, check.model_copy(update={"relative": max(check.relative or 0.0, EXPECTED_DIGITS)}))


def agrees(got: Any, reference: Any, check: Check, relation: str = "equal") -> bool:
    """Whether `got` stands in `relation` to `reference`, within max(tolerance, relative * abs(reference)).

    Lists agree when they have one length and agree item by item; texts when they are equal.
    """
    if isinstance(reference, list) or isinstance(got, list):
        if not (isinstance(reference, list) and isinstance(got, list)) or len(got) != len(reference):
            return False
        return all(agrees(one, other, check, relation) for one, other in zip(got, reference, strict=True))
    if not (_numeric(got) and _numeric(reference)):
        return str(got) == str(reference)
    if math.isnan(got):
        return False
    slack = _allowed(reference, check.tolerance, check.relative)
    if relation == "at most":
        return got <= reference + slack
    if relation == "at least":
        return got >= reference - slack
    if relation == "less than":
        return got < reference
    if relation == "more than":
        return got > reference
    return abs(got - reference) <= slack


def verdict_of(got: Any, check: Check) -> str:
    """The verdict that follows from the value got: the expected one if it fits, else the plain one of its side."""
    held = agrees(got, check.printed, check, check.relation)
    side = MATCH if held else MISMATCH
    return check.verdict if check.verdict in side else side[0]


def difference(got: Any, printed: Any) -> str:
    """By how much the value got differs from the printed one, in words: absolute and in percent of the printed one."""
    if not (_numeric(got) and _numeric(printed)):
        return ""
    gap = got - printed
    if abs(gap) <= 1e-12 * max(1.0, abs(printed)):
        return "0"
    return f"{gap:+.4g}" if printed == 0 else f"{gap:+.4g} ({100 * gap / printed:+.1f} %)"
