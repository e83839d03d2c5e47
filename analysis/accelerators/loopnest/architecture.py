"""An accelerator as storage levels, the fan-out between them, and what a mapping may not do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError

PICOJOULE = 1e-12


@dataclass(frozen=True)
class Axis:
    """One direction of fan-out: `size` children side by side. Its name is how mappings and constraints call it."""

    name: str
    size: int


@dataclass(frozen=True)
class Level:
    """One storage level, and the fan-out from each of its instances to the next level inward.

    Args:
        keeps: tensors it stores; the others pass through it. Empty for a junction that only fans out.
        capacity_words: words that fit in one instance; None: unbounded.
        read_bandwidth, write_bandwidth, shared_bandwidth: words per cycle and instance; None: unlimited.
        block_words: words that one access moves.
        read_energy_j, write_energy_j, update_energy_j: for one access.
        fanout: directions of fan-out below this level, outermost first.
        leak_energy_j: of one instance in one cycle, while it is on; gate: level whose instances in use switch on those of this one that
            belong to them; empty: an instance that nothing uses is off.
    """

    name: str
    keeps: tuple[str, ...] = ()
    instances: int = 1
    capacity_words: int | None = None
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None
    shared_bandwidth: float | None = None
    block_words: int = 1
    read_energy_j: float = 0.0
    write_energy_j: float = 0.0
    update_energy_j: float = 0.0
    fanout: tuple[Axis, ...] = ()
    leak_energy_j: float = 0.0
    gate: str = ""


@dataclass(frozen=True)
class Rule:
    """What a mapping must respect at one place (a storage level or an axis).

    Args:
        factor_one: dimensions without a loop here.
        factors: dimensions with exactly this bound here.
        innermost: dimensions whose loops, if any, come last here, in any order (a storage level only).
        order: dimensions whose loops come last here in this order, innermost first (a storage level only).
        most: dimensions with at most this bound here.
    """

    factor_one: tuple[str, ...] = ()
    factors: tuple[tuple[str, int], ...] = ()
    innermost: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    most: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Architecture:
    """Storage levels, outermost first, above an array of multiply-accumulate units.

    Args:
        rules: what mappings must respect, by place.
    """

    name: str
    levels: tuple[Level, ...]
    mac_count: int
    mac_energy_j: float
    cycle_s: float = 1e-9
    rules: tuple[tuple[str, Rule], ...] = ()

    @cached_property
    def places(self) -> tuple[str, ...]:
        """Where loops can be, outermost first: each level (temporal), then the axes of its fan-out (spatial)."""
        names: list[str] = []
        for level in self.levels:
            names += [level.name, *(axis.name for axis in level.fanout)]
        return tuple(names)

    @cached_property
    def rule_at(self) -> dict[str, Rule]:
        """Rule by the place it binds."""
        return dict(self.rules)

    @cached_property
    def leakage(self) -> tuple[tuple[float, int], ...]:
        """For each level, joules a cycle that it leaks for each instance in use of a level, and the index of that level."""
        found = []
        for index, level in enumerate(self.levels):
            gate = self.level_index(level.gate) if level.gate else index
            shared = level.instances / max(1, self.levels[gate].instances)
            found.append((level.leak_energy_j * shared, gate) if shared > 1 else (level.leak_energy_j, index))
        return tuple(found)

    def level_index(self, name: str) -> int:
        """Index of a level by name, outermost first; raises `InputError` for an unknown one."""
        for index, level in enumerate(self.levels):
            if level.name == name:
                return index
        raise InputError(f"no such level; there are: {', '.join(level.name for level in self.levels)}", key=name)


Stored = Literal["Weights", "Inputs", "Outputs"]
Dimension = Literal["N", "C", "M", "P", "Q", "R", "S", "B"]
"""Names of `problem.KINDS`."""


class _Mac(Strict):
    count: int = Field(ge=1)
    mesh: tuple[int, int] | None = None
    word_bits: int = Field(default=8, ge=1)
    accumulator_bits: int | None = Field(default=None, ge=1)
    energy_pj: float = Field(ge=0)


class _Energy(Strict):
    read: float = Field(ge=0)
    write: float = Field(ge=0)
    update: float | None = Field(default=None, ge=0)


class _Level(Strict):
    name: str
    instances: int = Field(default=1, ge=1)
    depth: int | None = Field(default=None, ge=1)
    width_bits: int = Field(ge=1)
    word_bits: int = Field(ge=1)
    keeps: list[Stored]
    read_bandwidth: float | None = Field(default=None, gt=0)
    write_bandwidth: float | None = Field(default=None, gt=0)
    shared_bandwidth: float | None = Field(default=None, gt=0)
    energy_pj: _Energy
    source: str = ""


class _Axis(Strict):
    size: int = Field(ge=1)
    between: tuple[str, str]


class _Rule(Strict):
    factor_one: tuple[Dimension, ...] = ()
    factors: dict[Dimension, int] = Field(default_factory=dict)
    permutation_innermost: Dimension | tuple[Dimension, ...] = ()
    bypass: tuple[Stored, ...] = ()


class _Design(Strict):
    name: str = ""
    source: str = ""
    cycle_ns: float = Field(default=1.0, gt=0)
    mac: _Mac
    levels: list[_Level] = Field(min_length=1)
    spatial: dict[str, _Axis] = Field(default_factory=dict)
    constraints: dict[str, _Rule] = Field(default_factory=dict)


def _chain(design: _Design, path: Path) -> list[str]:
    """Names of the levels and junctions in order: a junction named only in `between` comes right after what it hangs from."""
    order = [level.name for level in design.levels]
    for name, axis in design.spatial.items():
        above, below = axis.between
        if above not in order:
            raise InputError(f"unknown level {above} in between", path=path, key=f"spatial.{name}")
        if below not in order and below != "mac":
            order.insert(order.index(above) + 1, below)
    for name, axis in design.spatial.items():
        above, below = axis.between
        follows = order[order.index(above) + 1] if order.index(above) + 1 < len(order) else "mac"
        if follows != below:
            raise InputError(f"{below} does not come right after {above}", path=path, key=f"spatial.{name}")
    return order


def read_architecture(path: str | Path) -> Architecture:
    """Read a design in the format of `data/recorded/timeloop/architecture.yaml`.

    One access moves `width_bits / word_bits` words; capacity is `depth` times as many.
    An axis is called `spatial_NAME` in mappings and constraints.
    """
    path = Path(path)
    design = read_yaml(path, _Design)
    order = _chain(design, path)
    if len(set(order)) != len(order):
        raise InputError("two levels have one name", path=path, key="levels")
    described = {level.name: level for level in design.levels}
    fanout: dict[str, list[Axis]] = {name: [] for name in order}
    for name, axis in design.spatial.items():
        fanout[axis.between[0]].append(Axis(f"spatial_{name}", axis.size))
    levels: list[Level] = []
    children = 1
    for name in order:
        given = described.get(name)
        if given is None:
            levels.append(Level(name=name, instances=children, fanout=tuple(fanout[name])))
        else:
            if given.instances != children:
                raise InputError(
                    f"has {given.instances} instances, but the fan-out above it makes {children}", path=path, key=f"levels.{name}"
                )
            if given.width_bits % given.word_bits:
                raise InputError(
                    f"{given.width_bits} bits are no whole number of {given.word_bits}-bit words", path=path, key=f"levels.{name}"
                )
            update = given.energy_pj.write if given.energy_pj.update is None else given.energy_pj.update
            bypassed = design.constraints[name].bypass if name in design.constraints else ()
            levels.append(
                Level(
                    name=name,
                    keeps=tuple(tensor for tensor in given.keeps if tensor not in bypassed),
                    instances=given.instances,
                    capacity_words=None if given.depth is None else given.depth * (given.width_bits // given.word_bits),
                    read_bandwidth=given.read_bandwidth,
                    write_bandwidth=given.write_bandwidth,
                    shared_bandwidth=given.shared_bandwidth,
                    block_words=given.width_bits // given.word_bits,
                    read_energy_j=given.energy_pj.read * PICOJOULE,
                    write_energy_j=given.energy_pj.write * PICOJOULE,
                    update_energy_j=update * PICOJOULE,
                    fanout=tuple(fanout[name]),
                )
            )
        for direction in fanout[name]:
            children *= direction.size
    if children != design.mac.count:
        raise InputError(f"{design.mac.count} units, but the fan-out reaches {children}", path=path, key="mac.count")
    architecture = Architecture(
        name=design.name or path.stem,
        levels=tuple(levels),
        mac_count=design.mac.count,
        mac_energy_j=design.mac.energy_pj * PICOJOULE,
        cycle_s=design.cycle_ns * 1e-9,
        rules=tuple(
            (
                place,
                Rule(
                    factor_one=tuple(rule.factor_one),
                    factors=tuple(rule.factors.items()),
                    innermost=(rule.permutation_innermost,)
                    if isinstance(rule.permutation_innermost, str)
                    else tuple(rule.permutation_innermost),
                ),
            )
            for place, rule in design.constraints.items()
        ),
    )
    for place in design.constraints:
        if place not in architecture.places:
            raise InputError(f"no such place; there are: {', '.join(architecture.places)}", path=path, key=f"constraints.{place}")
    return architecture
