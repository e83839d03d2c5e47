"""Timeloop's own problem, mapping and constraints; and the inputs of a command, ours or Timeloop's, file by file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from analysis.accelerators.loopnest.architecture import Architecture, Rule, read_architecture
from analysis.accelerators.loopnest.layer import read_layer
from analysis.accelerators.loopnest.mapping import Loop, Mapping, read_mapping
from analysis.accelerators.loopnest.problem import Problem, Tensor
from analysis.accelerators.timeloop.architecture import read_design
from analysis.accelerators.timeloop.loops import Directive, in_order, read_directive
from analysis.accelerators.timeloop.yaml_tree import File, Tree, is_native, sections
from analysis.errors import InputError

Axes = dict[str, tuple[str | None, str | None]]
# The one shape that Timeloop knows by name.
CNN_LAYER: dict[str, tuple[tuple[tuple[str, str], ...], ...]] = {
    "Weights": ((("C", ""),), (("K", ""),), (("R", ""),), (("S", ""),)),
    "Inputs": ((("N", ""),), (("C", ""),), (("R", "Wdilation"), ("P", "Wstride")), (("S", "Hdilation"), ("Q", "Hstride"))),
    "Outputs": ((("N", ""),), (("K", ""),), (("Q", ""),), (("P", ""),)),
}
Projection = tuple[tuple[tuple[str, str], ...], ...]


def _projection(file: File, value: object, key: str, where: Tree) -> Projection:
    """Ranks as sums of (dimension, name of its coefficient or nothing)."""
    if isinstance(value, list) and value and all(isinstance(rank, str) for rank in value):
        return tuple(((str(rank), ""),) for rank in value)
    ranks = []
    for rank in value if isinstance(value, list) else [None]:
        terms = []
        for term in rank if isinstance(rank, list) else [None]:
            if not isinstance(term, list) or not 1 <= len(term) <= 2 or not all(isinstance(name, str) for name in term):
                raise file.error("expected ranks such as [ [R, Wdilation], [P, Wstride] ]", key, where)
            terms.append((term[0], term[1] if len(term) == 2 else ""))
        ranks.append(tuple(terms))
    return tuple(ranks)


OF_THE_INPUT = ("H", "W", "Hpad", "Wpad")
"""Height, width and padding of a convolution, which the front end writes beside its dimensions; no data space projects through them."""


def read_problem(path: str | Path) -> Problem:
    """Read Timeloop's `problem`: a shape (dimensions, data spaces, coefficients) and an instance (their values)."""
    file = File(path)
    top = sections(file)
    if "problem" not in top:
        raise file.error("has no section problem", "problem", top)
    root = file.tree(top["problem"], "problem", top)
    instance = file.tree(root.get("instance", Tree()), "problem.instance", root)
    at, where = instance, "problem.instance"
    if "instance" not in root:
        at, where = root, "problem"
    else:
        file.only(root, {"version", "shape", "instance", "name"}, "problem")
    projections: dict[str, Projection] = {}
    written: dict[str, bool] = {}
    defaults: dict[str, int] = {}
    shape = root.get("shape")
    if isinstance(shape, str):
        if shape.replace("-", "_") != "cnn_layer":
            raise file.error(f"no shape of that name is known: write it out (got {shape!r})", "problem.shape", root)
        dimensions: tuple[str, ...] = ("R", "S", "P", "Q", "C", "K", "N")
        projections, written = dict(CNN_LAYER), {name: name == "Outputs" for name in CNN_LAYER}
        defaults = dict.fromkeys(("Wstride", "Hstride", "Wdilation", "Hdilation"), 1)
        name = shape
    else:
        tree = file.tree(shape, "problem.shape", root)
        file.only(tree, {"name", "dimensions", "coefficients", "data_spaces", "version"}, "problem.shape")
        name = str(tree.get("name", "problem"))
        dimensions = file.words(tree.get("dimensions"), "problem.shape.dimensions", tree)
        for index, one in enumerate(file.entries(tree.get("coefficients") or [], "problem.shape.coefficients", tree)):
            key = f"problem.shape.coefficients.{index}"
            file.only(one, {"name", "default"}, key)
            defaults[str(one.get("name"))] = file.whole(one.get("default"), f"{key}.default", one)
        for index, one in enumerate(file.entries(tree.get("data_spaces"), "problem.shape.data_spaces", tree)):
            key = f"problem.shape.data_spaces.{index}"
            file.only(one, {"name", "projection", "read_write"}, key)
            tensor = str(one.get("name"))
            projections[tensor] = _projection(file, one.get("projection"), f"{key}.projection", one)
            written[tensor] = one.get("read_write") is True
    bounds = []
    for dimension in dimensions:
        if dimension not in at:
            raise file.error("a dimension of the shape has no size", f"{where}.{dimension}", at)
        bounds.append((dimension, file.whole(at[dimension], f"{where}.{dimension}", at)))
    for key in at:
        if key in ("densities", "data_densities", "commonDensities"):
            if at[key] and any(value != 1 for value in (at[key].values() if isinstance(at[key], Tree) else [at[key]])):
                raise file.error("only dense data spaces are modelled", f"{where}.{key}", at)
        elif key not in (*dimensions, *defaults, *OF_THE_INPUT) and not (at is root and key in ("version", "shape", "name")):
            raise file.error("neither a dimension nor a coefficient of the shape", f"{where}.{key}", at)
    coefficients = {key: file.whole(at.get(key, default), f"{where}.{key}", at) for key, default in defaults.items()}
    tensors = []
    for tensor, ranks in projections.items():
        for rank in ranks:
            for dimension, coefficient in rank:
                if dimension not in dimensions or (coefficient and coefficient not in coefficients):
                    missing = coefficient if dimension in dimensions else dimension
                    raise file.error(
                        f"projects through {missing}, which the shape does not define", f"problem.shape.{tensor}", root, "shape"
                    )
        tensors.append(Tensor(tensor, tuple(tuple((d, coefficients.get(c, 1)) for d, c in rank) for rank in ranks), written[tensor]))
    try:
        return Problem(name, tuple(bounds), tuple(tensors))
    except InputError as error:
        raise file.error(error.message, f"problem.shape.{error.key}", root, "shape") from None


def _axes(architecture: Architecture) -> Axes:
    """Spatial targets of a design in our own format: the level above, its axes by name along X and Y, or one axis for either."""
    found: Axes = {}
    for level in architecture.levels:
        names = [axis.name for axis in level.fanout]
        along_y = [name for name in names if name.startswith("spatial_Y")]
        along_x = [name for name in names if name not in along_y]
        if names:
            found[level.name] = (along_x[0] if along_x else None, along_y[0] if along_y else None)
    return found


def _place(directive: Directive, axes: Axes, problem: Problem) -> list[tuple[str, str | None]]:
    """For a spatial directive, the axis of each dimension, innermost first."""
    if directive.target not in axes:
        raise directive.file.error(
            f"nothing fans out below {directive.target}; spatial targets: {', '.join(axes) or 'none'}",
            f"{directive.key}.target",
            directive.where,
        )
    x, y = axes[directive.target]
    order = in_order(directive, problem)
    # Timeloop's default: every dimension along X.
    split = len(order) if directive.split is None else directive.split
    return [(dimension, x if position < split else y) for position, dimension in enumerate(order)]


def _kept(directives: list[Directive], architecture: Architecture, problem: Problem, parallel: Iterable[str] = ()) -> Architecture:
    """The design with each level keeping what the directives say; a level without a word about a tensor keeps it."""
    tensors = [tensor.name for tensor in problem.tensors]
    keeps = {level.name: set(level.keeps) for level in architecture.levels}
    for one in directives:
        if one.kind != "stored" or (one.target.startswith("inter_") and one.target not in keeps):
            continue
        if one.target not in keeps:
            raise one.file.error(f"no such level; there are: {', '.join(keeps)}", f"{one.key}.target", one.where)
        if one.keep_only or one.target in parallel:
            keeps[one.target] = set(one.keep)
        else:
            keeps[one.target] = (keeps[one.target] | set(one.keep)) - set(one.bypass)
    levels = tuple(replace(level, keeps=tuple(t for t in tensors if t in keeps[level.name])) for level in architecture.levels)
    for one in directives:
        if missing := [tensor for tensor in tensors if one.target == levels[0].name and tensor not in levels[0].keeps]:
            raise one.file.error(
                f"the outermost level must keep every data space; {missing[0]} is bypassed", f"{one.key}.bypass", one.where
            )
    return replace(architecture, levels=levels)


def _rules(directives: list[Directive], architecture: Architecture, axes: Axes, problem: Problem) -> Architecture:
    """The design with constraints turned into rules of its places."""
    rules = {place: vars(rule).copy() for place, rule in architecture.rules}
    storing = {level.name for level in architecture.levels if level.keeps}

    def add(place: str, field: str, more: tuple) -> None:  # type: ignore[type-arg]
        rule = rules.setdefault(place, vars(Rule()).copy())
        rule[field] = tuple(dict.fromkeys(rule[field] + more))

    def factor(directive: Directive, place: str, dimension: str, relation: str, number: int) -> None:
        number = number or problem.sizes[dimension]
        if relation == "<=":
            add(place, "most", ((dimension, number),))
        elif number == 1:
            add(place, "factor_one", (dimension,))
        else:
            earlier = dict(rules.get(place, vars(Rule()))["factors"]).get(dimension, number)
            if earlier != number:
                raise directive.file.error(f"{dimension} must be {earlier} and {number}", f"{directive.key}.factors", directive.where)
            add(place, "factors", ((dimension, number),))

    for one in directives:
        if one.kind == "temporal":
            only_ones = all(relation == "=" and number == 1 for _, relation, number in one.factors)
            if one.target not in storing and only_ones and (one.target.startswith("inter_") or one.target in architecture.places):
                continue
            if one.target not in storing:
                raise one.file.error(f"no level that stores; there are: {', '.join(sorted(storing))}", f"{one.key}.target", one.where)
            for dimension, relation, number in one.factors:
                factor(one, one.target, dimension, relation, number)
            add(one.target, "order", one.permutation)
        elif one.kind == "spatial":
            x, y = axes.get(one.target, (None, None))
            placed = _place(one, axes, problem)
            split_said = one.split is not None
            if split_said and len(one.permutation) < (one.split or 0) < len(problem.bounds):
                raise one.file.error("a split beyond the permutation leaves dimensions open", f"{one.key}.split", one.where)
            for dimension, axis in placed:
                given = {d: (relation, number) for d, relation, number in one.factors}.get(dimension)
                for place in (x, y):
                    if place and split_said and place != axis:
                        add(place, "factor_one", (dimension,))
                if given is None:
                    continue
                ends = [axis] if split_said else [place for place in (x, y) if place]
                if not split_said and len(ends) > 1 and given != ("=", 1):
                    raise one.file.error(f"{dimension} may run along X or Y: give split", f"{one.key}.factors", one.where)
                for place in ends:
                    if place:
                        factor(one, place, dimension, *given)
                    elif given != ("=", 1) and (given[0] == "=" and problem.sizes[dimension] > 1):
                        raise one.file.error(f"{dimension} has no lanes along this direction", f"{one.key}.factors", one.where)
    return replace(architecture, rules=tuple((place, Rule(**rule)) for place, rule in rules.items()))


def _listed(file: File, problem: Problem, names: Iterable[str]) -> list[Directive]:
    """Directives of the sections named, each a list or `targets: list`."""
    top, found = sections(file), []
    for name in names:
        section = top.get(name)
        if section is None:
            continue
        if isinstance(section, Tree):
            file.only(section, {"targets", "version"}, name)
            section, name = section.get("targets"), f"{name}.targets"
        for index, one in enumerate(file.entries(section or [], name, top)):
            found.append(read_directive(file, one, problem, f"{name}.{index}"))
    return found


CONSTRAINTS = ("architecture_constraints", "mapspace_constraints", "constraints")


def read_timeloop_mapping(path: str | Path, architecture: Architecture, axes: Axes, problem: Problem) -> tuple[Architecture, Mapping]:
    """Read Timeloop's `mapping`: a list of directives by target. Permutations are innermost first; missing factors are 1, a factor of
    0 is the whole dimension; dimensions before `split` run along X, the others along Y (all along X when it is missing).
    """
    file = File(path)
    if "mapping" not in sections(file):
        raise file.error("has no section mapping", "mapping", sections(file))
    directives = _listed(file, problem, ("mapping",))
    loops: dict[str, list[Loop]] = {}
    seen: set[tuple[str, str]] = set()
    levels = {level.name for level in architecture.levels}
    for one in directives:
        if one.kind == "stored":
            continue
        if (one.target, one.kind) in seen:
            raise file.error(f"a second {one.kind} directive for {one.target}", one.key, one.where)
        seen.add((one.target, one.kind))
        factors = {d: number or problem.sizes[d] for d, relation, number in one.factors}
        if any(relation != "=" for _, relation, _ in one.factors):
            raise file.error("a mapping gives every factor exactly", f"{one.key}.factors", one.where)
        if one.kind == "temporal":
            if one.target not in levels and any(number > 1 for number in factors.values()):
                raise file.error(f"no such level; there are: {', '.join(sorted(levels))}", f"{one.key}.target", one.where)
            placed: list[tuple[str, str | None]] = [(d, one.target) for d in in_order(one, problem)]
        else:
            if one.target not in axes and all(number == 1 for number in factors.values()):
                continue
            placed = _place(one, axes, problem)
        for dimension, place in reversed(placed):
            bound = factors.get(dimension, 1)
            if bound == 1:
                continue
            if place is None:
                raise file.error(f"{dimension} = {bound} has no lanes along this direction; see split", f"{one.key}.factors", one.where)
            loops.setdefault(place, []).append(Loop(dimension, bound))
    kept = _kept(directives, architecture, problem)
    return kept, Mapping(tuple((place, tuple(loops[place])) for place in architecture.places if place in loops))


def _read(
    arch: str | Path, layer: str | Path, ert: str | Path | None, constraints: Iterable[str | Path]
) -> tuple[Problem, Architecture, Axes, list[Directive]]:
    problem = read_problem(layer) if is_native(layer) else read_layer(layer)
    directives: list[Directive] = []
    parallel: set[str] = set()
    native = is_native(arch)
    if native:
        file = File(arch)
        design = read_design(file, File(ert) if ert else None)
        axes, parallel = design.axes, design.parallel
        tensors = tuple(tensor.name for tensor in problem.tensors)
        levels = tuple(
            level if level.name in design.junctions else replace(level, keeps=() if level.name in parallel else tensors)
            for level in design.architecture.levels
        )
        architecture = replace(design.architecture, levels=levels)
        for tree, key, target, kind in design.constraints:
            directives.append(read_directive(file, tree, problem, key, target=target, kind=kind))
        directives += _listed(file, problem, CONSTRAINTS)
    else:
        if ert:
            raise InputError("a table of energies belongs to a design in Timeloop's own format", path=ert)
        architecture = read_architecture(arch)
        axes = _axes(architecture)
    for path in constraints:
        directives += _listed(File(path), problem, CONSTRAINTS)
    if native or directives:
        architecture = _kept(directives, architecture, problem, parallel)
    return problem, architecture, axes, directives


def read_mapped(
    arch: str | Path, layer: str | Path, mapping: str | Path, *, ert: str | Path | None = None
) -> tuple[Problem, Architecture, Mapping]:
    """Read a layer, a design and a mapping, each in our format or in Timeloop's own, told apart by their top-level keys.

    What a level of Timeloop's own design keeps is said by the mapping, and where that is silent by the constraints in the file of the
    design; without a word it keeps all, as in Timeloop's model.
    """
    problem, architecture, axes, _ = _read(arch, layer, ert, ())
    if is_native(mapping):
        return problem, *read_timeloop_mapping(mapping, architecture, axes, problem)
    return problem, architecture, read_mapping(mapping, architecture)


def read_constrained(
    arch: str | Path, layer: str | Path, *, ert: str | Path | None = None, constraints: Iterable[str | Path] = ()
) -> tuple[Problem, Architecture]:
    """Read a layer, and a design with what its mappings must respect, each in our format or in Timeloop's own.

    A level of Timeloop's own design keeps what no constraint bypasses. (Timeloop's mapper also tries to bypass it.)
    """
    problem, architecture, axes, directives = _read(arch, layer, ert, constraints)
    return problem, _rules(directives, architecture, axes, problem)
