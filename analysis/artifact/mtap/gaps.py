"""Where the printed rubric is silent or contradicts itself, found by trying every kind of evidence there can be.

Every item that a dimension's conditions ask for takes each value that matters: both truth values, every choice, and for
a number one point below, at, between and above all thresholds. Each combination is a cell; a cell that no level covers is a
hole, one that several cover an overlap (unless the lower level merely contains the higher, as "below 15 %" contains "below 5 %"),
a level that is never the highest is unreachable, a clause that another one implies is redundant.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from analysis.artifact.mtap.evidence import DIMENSIONS, Evidence
from analysis.artifact.mtap.rubric import GRADES, Component, Rubric, holds

BLOCKS: dict[str, Any] = {name: Evidence.model_fields[name].annotation for name in DIMENSIONS}
OWN = {"independent_error_percent", "manual_steps", "practices"}
"""Items of our evidence that the protocol's section 6.1 does not ask for."""
COUNTS = {"source_patches", "manual_steps"}
DERIVED = {"gamma": ("gamma_kernel_to_model", "gamma_model_to_system"), "error_percent": ("error_percent", "error_metric")}


@dataclass(frozen=True)
class Gap:
    """One defect of the rubric."""

    dimension: str
    kind: str
    where: str
    levels: str


@dataclass(frozen=True)
class Bin:
    """One value of an item that the rubric can tell from others: how it reads, and a point in it."""

    text: str
    value: Any
    ends: tuple[str, str] | None = None


def _choices(dimension: str, item: str) -> tuple[str, ...]:
    for candidate in (item, *DERIVED.get(item, ())):
        field = BLOCKS[dimension].model_fields.get(candidate)
        if field is None:
            continue
        for option in get_args(field.annotation):
            generic = getattr(option, "__pydantic_generic_metadata__", {}).get("args", ())
            if generic and get_args(generic[0]) and all(isinstance(c, str) for c in get_args(generic[0])):
                return get_args(generic[0])
    return ()


def bins(dimension: str, component: Component) -> dict[str, list[Bin]]:
    """For each item asked for, the values that the component can tell apart."""
    found: dict[str, list[Bin]] = {}
    for item in dict.fromkeys(str(leaf.item) for leaf in component.leaves()):
        tests = [leaf for leaf in component.leaves() if leaf.item == item]
        numbers = sorted({n for t in tests for n in (t.below, t.at_most, t.above, t.at_least) if n is not None})
        if numbers:
            steps = [Bin(f"{item} < {numbers[0]:g}", numbers[0] - 1e-6, ("", f"< {numbers[0]:g}"))]
            for low, high in zip(numbers, [*numbers[1:], None], strict=True):
                steps.append(Bin(f"{item} = {low:g}", low, (f">= {low:g}", f"<= {low:g}")))
                if high is not None and item in COUNTS and high - low == 1:
                    continue
                inside = low + 1.0 if high is None else (low + high) / 2
                steps.append(Bin(f"{item} > {low:g}", inside, (f"> {low:g}", "" if high is None else f"< {high:g}")))
            found[item] = steps
        elif any(isinstance(t.equals, bool) for t in tests):
            found[item] = [Bin(f"{item}: yes", True), Bin(f"{item}: no", False)]
        else:
            found[item] = [Bin(f"{item}: {choice}", choice) for choice in _choices(dimension, item)]
    return found


Box = tuple[frozenset[int], ...]


def merge(boxes: set[Box]) -> list[Box]:
    """Join boxes that differ in one item until none do: few sentences in place of many cells.

    Args:
        boxes: one set of bin numbers an item.
    """
    current = set(boxes)
    changed = True
    while changed:
        changed = False
        for a, b in itertools.combinations(sorted(current, key=lambda box: [sorted(s) for s in box]), 2):
            differ = [i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
            if len(differ) == 1:
                i = differ[0]
                current -= {a, b}
                current.add((*a[:i], a[i] | b[i], *a[i + 1 :]))
                changed = True
                break
    return sorted(current, key=lambda box: [sorted(s) for s in box])


def _describe(box: Box, values: Mapping[str, list[Bin]]) -> str:
    parts = []
    for chosen, (item, options) in zip(box, values.items(), strict=True):
        picked = sorted(chosen)
        if len(picked) == len(options):
            continue
        if options[0].ends is not None and picked == list(range(picked[0], picked[-1] + 1)) and len(picked) > 1:
            low, high = (options[picked[0]].ends or ("", ""))[0], (options[picked[-1]].ends or ("", ""))[1]
            parts.append(f"{item} " + " and ".join(end for end in (low, high) if end))
        else:
            first, *others = [options[i].text for i in picked]
            parts.append(" or ".join([first, *(text.removeprefix(f"{item}: ") for text in others)]))
    return "; ".join(parts) or "always"


def _overlaps(label: str, cells: list[tuple[Box, frozenset[int]]], values: Mapping[str, list[Bin]]) -> list[Gap]:
    gaps = []
    for high, low in itertools.combinations((3, 2, 1, 0), 2):
        both = {box for box, grades in cells if high in grades and low in grades}
        only = any(high in grades and low not in grades for _, grades in cells)
        text = f"{GRADES[high]} and {GRADES[low]}"
        if both and low == 0 and not only:
            gaps.append(Gap(label, "contradiction", f"whatever earns {GRADES[high]} earns {GRADES[low]} too", text))
        elif both and only:
            gaps += [Gap(label, "two levels at once", _describe(box, values), text) for box in merge(both)]
    return gaps


def component_gaps(dimension: str, name: str, component: Component) -> list[Gap]:
    """Holes, overlaps, unreachable levels, undefined grades and redundant clauses of one component."""
    values = bins(dimension, component)
    label = f"{dimension} {name}" if name.startswith("g_") and dimension == "D1" else dimension
    holes: set[Box] = set()
    cells: list[tuple[Box, frozenset[int]]] = []
    winners: set[int] = set()
    met: dict[int, list[tuple[bool, ...]]] = {i: [] for i, level in enumerate(component.levels) if level.when.some}
    for cell in itertools.product(*(range(len(options)) for options in values.values())):
        known = {item: options[i].value for (item, options), i in zip(values.items(), cell, strict=True)}
        true = [level for level in component.levels if holds(level.when, known)]
        box = tuple(frozenset({i}) for i in cell)
        cells.append((box, frozenset(level.grade for level in true)))
        if not true:
            holes.add(box)
        else:
            winners.add(max(level.grade for level in [level for level in true if level.first] or true))
        for i in met:
            met[i].append(tuple(bool(holds(clause, known)) for clause in component.levels[i].when.some or ()))
    gaps = [Gap(label, "no level", _describe(box, values), "-") for box in merge(holes)]
    gaps += _overlaps(label, cells, values)
    graded = {level.grade for level in component.levels}
    for grade in sorted(graded - winners):
        gaps.append(Gap(label, "unreachable", "whatever earns it earns a higher level too", GRADES[grade]))
    missing = [g for g in range(4) if g not in graded]
    if missing:
        gaps.append(Gap(label, "undefined", "no threshold is given for these grades", ", ".join(GRADES[g] for g in reversed(missing))))
    for i, rows in met.items():
        clauses = component.levels[i].when.some or ()
        for j, k in itertools.permutations(range(len(clauses)), 2):
            if all(row[k] for row in rows if row[j]) and any(row[j] for row in rows):
                text = f"clause {j + 1} of {len(clauses)} holds only where clause {k + 1} holds too"
                gaps.append(Gap(label, "redundant", text, GRADES[component.levels[i].grade]))
    return gaps


def unread_items(rubric: Rubric) -> list[Gap]:
    """Sub-measures that the protocol asks for (sections 6.1) but that no level reads."""
    gaps = []
    for name, dimension in rubric.dimensions.items():
        asked = {item for leaf in dimension.leaves() for item in (str(leaf.item), *DERIVED.get(str(leaf.item), ()))}
        for item in BLOCKS[name].model_fields:
            if item not in asked | OWN:
                gaps.append(Gap(name, "not read", f"{item}: asked for, no level reads it", "-"))
    return gaps


def rubric_gaps(rubric: Rubric) -> list[Gap]:
    """All gaps of a rubric, dimension by dimension."""
    gaps = [
        gap
        for name, dimension in rubric.dimensions.items()
        for part, component in dimension.components.items()
        for gap in component_gaps(name, part, component)
    ]
    return gaps + unread_items(rubric)
