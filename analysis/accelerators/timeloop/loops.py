"""Timeloop's directives: factors, permutation, split, keep and bypass of one target, in a mapping or in constraints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from analysis.accelerators.loopnest.problem import Problem
from analysis.accelerators.timeloop.yaml_tree import File, Tree, known_names

KEYS = {"target", "name", "type", "factors", "permutation", "split", "keep", "bypass", "keep_only"}
STORED = {"datatype", "bypass", "bypassing", "dataspace"}


@dataclass(frozen=True)
class Directive:
    """What is said of one target.

    Args:
        factors: dimension, `=` or `<=`, number; 0 stands for the whole dimension.
        split: how many of these, counted with those of bound 1, run along X; None: not said.
        keep, bypass: tensors; `keep_only` bypasses all others.
    """

    target: str
    kind: str
    factors: tuple[tuple[str, str, int], ...]
    permutation: tuple[str, ...]
    split: int | None
    keep: tuple[str, ...]
    bypass: tuple[str, ...]
    keep_only: bool
    file: File
    key: str
    where: Tree


LONGEST_NAMES = 1000  # characters of a list of factors


def _factors(file: File, value: Any, problem: Problem, key: str, within: Tree) -> tuple[tuple[str, str, int], ...]:
    """`R=3 S=1`, `R3 S1`, `R=3,S=1`, or a list of such."""
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    if len(text) > LONGEST_NAMES:  # the expressions below take the square of its length
        raise file.error(f"expected factors such as `R=3 S=1`, not {len(text):,} characters", key, within)
    left = re.sub(r"([A-Za-z]+)\s*(<=|=)?\s*(\d+)(?![\d,]*\d)", "", text)
    if re.sub(r"[\s,]", "", left):
        raise file.error(f"expected factors such as `R=3 S=1`; imperfect factors are not modelled (got {text!r})", key, within)
    found: dict[str, tuple[str, str, int]] = {}
    for dimension, relation, number in re.findall(r"([A-Za-z]+)\s*(<=|=)?\s*(\d+)", text):
        if dimension not in problem.sizes:
            raise file.error(f"unknown dimension {dimension}; the layer has {', '.join(problem.sizes)}", key, within)
        if dimension in found:
            raise file.error(f"{dimension} is given twice", key, within)
        found[dimension] = (dimension, relation or "=", int(number))
    return tuple(found.values())


def _permutation(file: File, value: Any, problem: Problem, key: str, within: Tree) -> tuple[str, ...]:
    """Names of dimensions, innermost first: a list, or letters in a row."""
    if isinstance(value, list):
        names = [str(item) for item in value]
    else:
        text = str(value or "")
        names = re.split(r"[\s,]+", text.strip()) if "," in text else list(re.sub(r"\s", "", text))
    for name in names:
        if name not in problem.sizes:
            raise file.error(f"unknown dimension {name}; the layer has {', '.join(problem.sizes)}", key, within)
    if len(set(names)) != len(names):
        raise file.error("a dimension is given twice", key, within)
    return tuple(names)


def read_directive(file: File, tree: Tree, problem: Problem, key: str, *, target: str = "", kind: str = "") -> Directive:
    """One directive."""
    for name in tree:
        if name in known_names().empty:
            if tree[name] not in (None, [], ""):
                raise file.error("not modelled", f"{key}.{name}", tree)
        elif name not in KEYS:
            raise file.error("not supported, or unknown", f"{key}.{name}", tree)
    target = target or str(tree.get("target", tree.get("name", "")))
    if not target:
        raise file.error("a directive needs a target", f"{key}.target", tree)
    given = kind or str(tree.get("type", ""))
    kind = "stored" if given in STORED else given
    if kind not in ("temporal", "spatial", "stored"):
        raise file.error(f"expected temporal, spatial, bypass or datatype (got {given!r})", f"{key}.type", tree)
    misplaced = {"stored": ("factors", "permutation", "split"), "temporal": ("split", "keep", "bypass"), "spatial": ("keep", "bypass")}
    for name in misplaced[kind]:
        if tree.get(name):
            raise file.error(f"does not belong to a directive of type {given}", f"{key}.{name}", tree)
    tensors = [tensor.name for tensor in problem.tensors]
    keep_only = "keep_only" in tree
    keep = file.words(tree.get("keep_only" if keep_only else "keep"), f"{key}.keep", tree)
    bypass = file.words(tree.get("bypass"), f"{key}.bypass", tree)
    for name, listed in (("keep", keep), ("bypass", bypass)):
        for tensor in listed:
            if tensor not in tensors:
                raise file.error(f"unknown data space {tensor}; the layer has {', '.join(tensors)}", f"{key}.{name}", tree)
    if both := set(keep) & set(bypass):
        raise file.error(f"{sorted(both)[0]} is both kept and bypassed", f"{key}.bypass", tree)
    split = tree.get("split")
    return Directive(
        target=target,
        kind=kind,
        factors=_factors(file, tree.get("factors"), problem, f"{key}.factors", tree),
        permutation=_permutation(file, tree.get("permutation"), problem, f"{key}.permutation", tree),
        split=None if split is None else file.whole(split, f"{key}.split", tree, least=0),
        keep=keep,
        bypass=bypass,
        keep_only=keep_only,
        file=file,
        key=key,
        where=tree,
    )


def in_order(directive: Directive, problem: Problem) -> tuple[str, ...]:
    """All dimensions, innermost first: as permuted, then the others as the layer lists them."""
    return directive.permutation + tuple(d for d, _ in problem.bounds if d not in directive.permutation)
