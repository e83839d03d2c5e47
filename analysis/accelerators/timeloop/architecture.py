"""Timeloop's own description of a design (version 0.2 to 0.4), and energy tables, into storage levels."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from analysis.accelerators.loopnest.architecture import PICOJOULE, Architecture, Axis, Level
from analysis.accelerators.timeloop.yaml_tree import File, Tree, known_names, sections, split_name

BUFFERS = ("DRAM", "SRAM", "regfile", "smartbuffer", "storage", "buffet")
COMPUTE = ("mac", "compute")


@dataclass
class Component:
    """One storage or compute component with all the attributes that reach it.

    Args:
        mesh: instances along X and Y.
        symbols: what its attributes may be reckoned from.
        before: fan-outs right above it (version 0.4), each with a name and its size along X and Y.
        parallel: it stands beside others, so that it keeps only what it names.
    """

    name: str
    attributes: Tree
    symbols: dict[str, Any]
    key: str
    is_compute: bool
    is_dram: bool
    is_dummy: bool
    mesh: tuple[int, int]
    before: list[tuple[str, int, int]] = field(default_factory=list)
    parallel: bool = False


@dataclass
class Design:
    """A design as Timeloop's files give it, before it is known which tensors a level keeps.

    Args:
        architecture: levels that keep nothing yet.
        axes: for each spatial target, the level below which it fans out and the names of its axes along X and Y.
        constraints: directives that stand inside the architecture: tree, key, target, kind.
        parallel: levels that keep only what they are told to.
        junctions: levels that only fan out.
    """

    architecture: Architecture
    axes: dict[str, tuple[str | None, str | None]]
    constraints: list[tuple[Tree, str, str, str]]
    parallel: set[str]
    junctions: set[str]


def _is(kind: str, classes: tuple[str, ...]) -> bool:
    return any(name in kind for name in classes)


def energy_table(file: File) -> dict[str, dict[str, float]]:
    """Energy by component and action in pJ; the costliest where an action is listed for several arguments."""
    root = file.tree(file.root, "top level")
    table = file.tree(root.get("ERT", root if "tables" in root else None), "ERT", root)
    tables = table.get("tables")
    found: dict[str, dict[str, float]] = {}

    def note(component: str, action: str, entry: Any, key: str) -> None:
        for item in entry if isinstance(entry, list) else [entry]:
            one = file.tree(item, key, table)
            energy = file.number(one.get("energy"), f"{key}.energy", one)
            actions = found.setdefault(split_name(_last(component))[0], {})
            actions[action] = max(energy, actions.get(action, 0.0))

    if isinstance(tables, Tree):
        for component, actions in tables.items():
            for action, entry in file.tree(actions, f"ERT.tables.{component}", tables).items():
                note(component, action, entry, f"ERT.tables.{component}.{action}")
    else:
        for index, listed in enumerate(file.entries(tables, "ERT.tables", table)):
            for entry in file.entries(listed.get("actions"), f"ERT.tables.{index}.actions", listed):
                note(str(listed.get("name", "")), str(entry.get("name", "")), entry, f"ERT.tables.{index}.actions")
    return found


def _last(component: str) -> str:
    """The last part of `system.PE[0..167].mac`; the dots of a range do not part names."""
    return component.replace("..", "\0").rsplit(".", 1)[-1].replace("\0", "..")


class _Reader:
    """Walks the tree of one file and gathers components in order, outermost first."""

    def __init__(self, file: File, top: Tree) -> None:
        self.file, self.components, self.symbols = file, list[Component](), dict[str, Any](top.get("variables") or {})
        self.constraints: list[tuple[Tree, str, str, str]] = []
        self.mesh, self.waiting = (1, 1), list[tuple[str, int, int]]()

    def take(self, tree: Tree, key: str, symbols: dict[str, Any], count: int | None, *, parallel: bool = False) -> None:
        """One component; `count` of version 0.3 is how many the tree above makes of it, None in version 0.4."""
        file = self.file
        name, range_size = split_name(str(tree.get("name", "")))
        kind = " ".join(str(tree[k]) for k in ("class", "subclass") if k in tree)
        if not name or not kind:
            raise file.error("a component needs a name and a class", f"{key}.{'class' if name else 'name'}", tree)
        if kind.split(" ")[0] == "nothing":
            return
        if not _is(kind, BUFFERS) and not _is(kind, COMPUTE):
            raise file.error(f"class {kind} is not modelled; storage has one of {', '.join(BUFFERS)} in its class", f"{key}.class", tree)
        attributes = file.tree(tree.get("attributes", Tree()), f"{key}.attributes", tree)
        allowed = known_names()
        for attribute, value in attributes.items():
            where = f"{key}.attributes.{attribute}"
            # Nothing said, or a container's attribute repeated, as in the files that Timeloop's front end writes.
            if value in (None, [], {}) or attribute in symbols:
                continue
            if attribute in allowed.neutral:
                if value not in allowed.neutral[attribute]:
                    raise file.error(f"{attribute} = {value!r} is not modelled", where, attributes)
            elif attribute not in {*allowed.used, *allowed.word, *allowed.depth, *allowed.width, *allowed.estimation}:
                raise file.error("not supported, or unknown", where, attributes)
        known = {**symbols, **attributes}
        mesh = self.mesh
        if count is not None:
            mesh = self._mesh(attributes, known, count * range_size, f"{key}.attributes")
        is_compute = not _is(kind, BUFFERS)
        self.components.append(
            Component(
                name, attributes, known, key, is_compute, "DRAM" in kind, "dummy" in kind, mesh, before=self.waiting, parallel=parallel
            )
        )
        self.waiting = []

    def _mesh(self, attributes: Tree, symbols: dict[str, Any], count: int, key: str) -> tuple[int, int]:
        def given(name: str) -> int | None:
            return None if attributes.get(name) is None else self.file.whole(attributes[name], f"{key}.{name}", attributes, symbols)

        # The range of the name gives the instances, unless they are said.
        instances = given("instances") or count
        along_x, along_y = given("meshX"), given("meshY")
        along_x = along_x or (instances // along_y if along_y else instances)
        along_y = along_y or instances // along_x
        if along_x * along_y != instances:
            raise self.file.error(
                f"meshX x meshY is {along_x} x {along_y}, but there are {instances} instances", f"{key}.meshX", attributes
            )
        return along_x, along_y

    def subtree(self, tree: Tree, key: str, symbols: dict[str, Any], count: int) -> None:
        """Version 0.2 and 0.3: `local` components, then one `subtree`."""
        file = self.file
        below = file.entries(tree.get("subtree"), f"{key}.subtree", tree)
        if len(below) != 1:
            raise file.error(f"expected one subtree, as Timeloop does (got {len(below)})", f"{key}.subtree", tree)
        node = below[0]
        key = f"{key}.subtree.0"
        file.only(node, {"name", "attributes", "local", "subtree", "required_actions", "enabled"}, key)
        count *= split_name(str(node.get("name", "")))[1]
        symbols = {**symbols, **file.tree(node.get("attributes") or Tree(), f"{key}.attributes", node)}
        for index, component in enumerate(file.entries(node.get("local") or [], f"{key}.local", node)):
            file.only(component, {"name", "class", "subclass", "attributes", "required_actions", "enabled"}, f"{key}.local.{index}")
            if component.get("enabled") is not False:
                self.take(component, f"{key}.local.{index}", symbols, count)
        if node.get("subtree"):
            self.subtree(node, key, symbols, count)

    def nodes(self, tree: Tree, key: str, symbols: dict[str, Any], *, parallel: bool = False) -> None:
        """Version 0.4: containers, components and branches in order; a container's attributes hold for all after it."""
        file = self.file
        for index, node in enumerate(file.entries(tree.get("nodes"), f"{key}.nodes", tree)):
            here = f"{key}.nodes.{index}"
            if node.tag in ("Hierarchical", "Parallel"):
                file.only(node, {"nodes", "name"}, here)
                self.nodes(node, here, symbols, parallel=parallel or node.tag == "Parallel")
                continue
            if node.tag not in ("Container", "Component"):
                shown = f"!{node.tag}" if node.tag else "without a tag"
                raise file.error(f"a node {shown} is not modelled; expected !Container, !Component, !Hierarchical or !Parallel", here, node)
            allowed = {"name", "attributes", "spatial", "constraints", "required_actions", "enabled"}
            file.only(node, allowed | ({"class", "subclass"} if node.tag == "Component" else set()), here)
            if node.get("enabled") is False:
                continue
            name = split_name(str(node.get("name", "")))[0]
            spatial = file.tree(node.get("spatial") or Tree(), f"{here}.spatial", node)
            file.only(spatial, {"meshX", "meshY"}, f"{here}.spatial")
            along_x, along_y = (file.whole(spatial.get(a, 1), f"{here}.spatial.{a}", spatial, symbols) for a in ("meshX", "meshY"))
            if along_x * along_y > 1:
                if parallel:
                    raise file.error("no fan-out inside a !Parallel", f"{here}.spatial", node)
                self.waiting.append((name, along_x, along_y))
                self.mesh = self.mesh[0] * along_x, self.mesh[1] * along_y
            self._keep_constraints(node, here, name, fans_out=along_x * along_y > 1)
            if node.tag == "Container":
                symbols.update(file.tree(node.get("attributes") or Tree(), f"{here}.attributes", node))
            else:
                self.take(node, here, symbols, None, parallel=parallel)

    def _keep_constraints(self, node: Tree, key: str, name: str, *, fans_out: bool) -> None:
        given = self.file.tree(node.get("constraints") or Tree(), f"{key}.constraints", node)
        self.file.only(given, {"temporal", "spatial", "dataspace"}, f"{key}.constraints")
        for kind, tree in given.items():
            if not tree:
                continue
            where = f"{key}.constraints.{kind}"
            if node.tag == "Container" and kind != "spatial":
                raise self.file.error("a container stores nothing; expected spatial", where, given)
            if kind == "spatial" and not fans_out:
                raise self.file.error("there is no fan-out here", where, given)
            target = f"inter_{name}_spatial" if kind == "spatial" else name
            self.constraints.append((self.file.tree(tree, where, given), where, target, kind))


def _first(attributes: Tree, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if attributes.get(name) is not None), None)


def _level(file: File, part: Component, energies: dict[str, dict[str, float]]) -> Level:
    """Capacity, bandwidths and energies of one storage component."""
    attributes, key = part.attributes, f"{part.key}.attributes"

    def number(name: str) -> float | None:
        return None if attributes.get(name) is None else file.number(attributes[name], f"{key}.{name}", attributes, part.symbols)

    def whole(names: tuple[str, ...]) -> int | None:
        name = _first(attributes, names)
        return None if name is None else file.whole(attributes[name], f"{key}.{name}", attributes, part.symbols)

    word = whole(known_names().word)
    if word is None:
        # Timeloop's own default.
        word = 16
    width, block, cluster = whole(known_names().width), whole(("block_size", "n_words")), whole(("cluster_size",))
    if width is not None:
        by = word * (block or 1) * (cluster or 1)
        if width % by:
            where = f"{key}.{_first(attributes, known_names().width)}"
            raise file.error(f"{width} bits are no whole number of {by}-bit blocks", where, attributes)
        if block is None:
            block = width // by
        elif cluster is None:
            cluster = width // by
    block, cluster = block or 1, cluster or 1
    depth, entries, kilobytes = whole(known_names().depth), whole(("entries",)), number("sizeKB")
    size: float | None = entries
    if size is None:
        size = depth * block if depth is not None else None if kilobytes is None else kilobytes * 1024 * 8 / word
    buffering = number("multiple_buffering") or 1.0
    if size is None and not part.is_dram:
        raise file.error("a storage level needs depth, entries or sizeKB", key, attributes)
    half = number("bandwidth")
    half = None if half is None else half / 2

    own = {action: energy for action, energy in energies.get(part.name, {}).items() if action != "leak"}
    said = number("vector_access_energy")
    if own:
        most = max(own.values())
        read, write, update = (
            next((own[a] for a in known_names().actions[what] if a in own), most) for what in ("read", "write", "update")
        )
    elif said is not None or part.is_dummy:
        read = write = update = (said or 0.0) * cluster
    else:
        raise file.error("has no energy: give an energy reference table (--ert) or vector_access_energy", part.name, attributes, None)
    price = PICOJOULE / cluster
    return Level(
        name=part.name,
        instances=part.mesh[0] * part.mesh[1],
        capacity_words=None if part.is_dram or size is None else int(size / buffering),
        read_bandwidth=number("read_bandwidth") or half,
        write_bandwidth=number("write_bandwidth") or half,
        shared_bandwidth=number("shared_bandwidth"),
        block_words=block,
        read_energy_j=read * price,
        write_energy_j=write * price,
        update_energy_j=update * price,
        leak_energy_j=energies.get(part.name, {}).get("leak", 0.0) * PICOJOULE,
        gate=str(attributes.get("power_gated_at") or ""),
    )


def _mac_energy(file: File, part: Component, energies: dict[str, dict[str, float]]) -> float:
    own = {action: energy for action, energy in energies.get(part.name, {}).items() if action != "leak"}
    if own:
        return next((own[a] for a in known_names().actions["compute"] if a in own), max(own.values())) * PICOJOULE
    if "energy_per_op" in part.attributes:
        return (
            file.number(part.attributes["energy_per_op"], f"{part.key}.attributes.energy_per_op", part.attributes, part.symbols) * PICOJOULE
        )
    raise file.error("has no energy: give an energy reference table (--ert) or energy_per_op", part.name, part.attributes)


def read_design(file: File, ert: File | None = None) -> Design:
    """Read a design; which tensors its levels keep is said by a mapping or by constraints.

    Fan-out between two levels is the ratio of their meshes along X and Y. A container that fans out (version 0.4) is a target named
    `inter_NAME_spatial`, as in the files that Timeloop writes. Axes are called spatial_X and spatial_Y, followed by the level they
    hang from when there are several of a direction.

    Source: Timeloop's parser (topology.cpp, buffer.cpp) and its front end's conversion of version 0.4.
    """
    top = sections(file)
    if "architecture" not in top:
        raise file.error("has no section architecture", "architecture", top)
    root = file.tree(top["architecture"], "architecture", top)
    version = str(root.get("version", ""))
    if version not in ("0.2", "0.3", "0.4"):
        raise file.error(f"expected version 0.2, 0.3 or 0.4 (got {version or 'none'})", "architecture.version", root)
    reader = _Reader(file, top)
    if "nodes" in root:
        file.only(root, {"version", "nodes"}, "architecture")
        reader.nodes(root, "architecture", dict(reader.symbols))
    else:
        file.only(root, {"version", "subtree"}, "architecture")
        reader.subtree(root, "architecture", dict(reader.symbols), 1)
    energies = energy_table(ert) if ert else energy_table(file) if "ERT" in top else {}

    storage = [part for part in reader.components if not part.is_compute]
    compute = [part for part in reader.components if part.is_compute]
    if not storage or len(compute) != 1:
        raise file.error(f"expected storage and one compute component (got {len(storage)} and {len(compute)})", "architecture", top)
    levels: list[Level] = []
    fans: list[list[int]] = []
    targets: dict[str, int] = {}
    containers: dict[str, int] = {}  # version 0.4 lets a directive name the container itself

    def fan(name: str, along_x: int, along_y: int, instances: int, spatial_name: str) -> None:
        """Fan-out below the last level; a junction first when that one fans out already."""
        if fans[-1] != [1, 1]:
            levels.append(Level(name=name, instances=instances))
            fans.append([1, 1])
        fans[-1] = [along_x, along_y]
        targets[spatial_name] = targets[levels[-1].name] = len(levels) - 1

    previous = (1, 1)
    for part in [*storage, *compute]:
        if part.before and not levels:
            raise file.error("no fan-out above the outermost level", f"{part.key}.spatial")
        for name, along_x, along_y in part.before:
            fan(f"inter_{name}_spatial", along_x, along_y, previous[0] * previous[1], f"inter_{name}_spatial")
            containers[name] = targets[f"inter_{name}_spatial"]
            previous = previous[0] * along_x, previous[1] * along_y
        if levels and part.mesh != previous:
            if part.mesh[0] % previous[0] or part.mesh[1] % previous[1]:
                raise file.error(
                    f"a mesh of {part.mesh[0]} x {part.mesh[1]} is no whole multiple of the {previous[0]} x {previous[1]} above it",
                    f"{part.key}.attributes.meshX",
                    part.attributes,
                )
            fan(levels[-1].name, part.mesh[0] // previous[0], part.mesh[1] // previous[1], 0, levels[-1].name)
        previous = part.mesh
        if not part.is_compute:
            if part.name in (level.name for level in levels):
                raise file.error("two levels have one name", f"{part.key}.name", part.attributes)
            levels.append(_level(file, part, energies))
            fans.append([1, 1])
    if levels[0].instances != 1:
        raise file.error("the outermost level must be one instance", storage[0].name, storage[0].attributes)
    several = [sum(mesh[side] > 1 for mesh in fans) > 1 for side in (0, 1)]
    names: dict[int, tuple[str | None, str | None]] = {}
    for index, mesh in enumerate(fans):
        here = [f"spatial_{'XY'[side]}" + (f"_{levels[index].name}" if several[side] else "") for side in (0, 1)]
        x, y = (here[side] if mesh[side] > 1 else None for side in (0, 1))
        names[index] = (x, y)
        fanout = tuple(Axis(name, mesh[side]) for side, name in enumerate((x, y)) if name)
        levels[index] = replace(levels[index], fanout=fanout)
    cycle = next((p.symbols["global_cycle_seconds"] for p in storage if p.symbols.get("global_cycle_seconds")), 1e-9)
    return Design(
        architecture=Architecture(
            name=file.path.stem,
            levels=tuple(levels),
            mac_count=previous[0] * previous[1],
            mac_energy_j=_mac_energy(file, compute[0], energies),
            cycle_s=file.number(cycle, "global_cycle_seconds", None, storage[0].symbols),
        ),
        axes={target: names[index] for target, index in {**containers, **targets}.items()},
        constraints=reader.constraints,
        parallel={part.name for part in storage if part.parallel},
        junctions={level.name for level in levels} - {part.name for part in storage},
    )
