"""From a module of operations to plain records of the operator graph. (Child process; see `bindings`.)"""

from __future__ import annotations

import math
from typing import Any

from analysis.workloads.graph import Tensor
from analysis.workloads.hlo.bindings import attribute, attributes, ir
from analysis.workloads.hlo.cost import Cost, Region, moved, simple_cost
from analysis.workloads.hlo.loops import Constants
from analysis.workloads.hlo.structure import END, HANDLERS, LARGEST_GRAPH, NoProgram, TooLarge, callee_of
from analysis.workloads.hlo.types import integers, mesh_sizes, tensor
from analysis.workloads.hlo.work import Mesh, cost_of

_STRUCTURE = {"func", "sdy", "stablehlo", "mhlo", "chlo", "builtin", "vhlo"}
_ATTRIBUTES = {
    "constant": ("value",),
    "dot_general": ("dot_dimension_numbers",),
    "broadcast_in_dim": ("broadcast_dimensions",),
    "reduce_window": ("window_dimensions", "padding"),
    "select_and_scatter": ("window_dimensions",),
    "fft": ("fft_length",),
    "custom_call": ("call_target_name",),
    "convolution": (
        "dimension_numbers", "window_strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count", "batch_group_count",
    ),
    "all_reduce": ("replica_groups", "channel_handle", "use_global_device_ids"),
    "all_gather": ("replica_groups", "channel_handle", "use_global_device_ids"),
    "reduce_scatter": ("replica_groups", "channel_handle", "use_global_device_ids"),
    "all_to_all": ("replica_groups", "channel_handle"),
    "collective_broadcast": ("replica_groups", "channel_handle"),
    "collective_permute": ("source_target_pairs", "channel_handle"),
    "cross-replica-sum": ("replica_groups",),
}  # fmt: skip
_ATTRIBUTES["dynamic_conv"] = _ATTRIBUTES["convolution"]
_ONLY_CHLO = {"acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "mulhi", "ragged_dot", "scan", "sinh", "topk"}
_NO_CONVENTION = {"batch_norm_training", "batch_norm_inference", "batch_norm_grad"}  # XLA counts their bytes alone
_REGIONS = {"reduce", "reduce_window", "scatter", "select_and_scatter", "map", "sort", "all_reduce", "reduce_scatter"}


class Walker:
    """Records of one program; `record` is what the caller reads."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.functions: dict[str, Any] = {}
        meshes: dict[str, Any] = {}
        for operation in module.body.operations:
            inner = operation.operation
            if "sym_name" in inner.attributes:
                name = ir.StringAttr(inner.attributes["sym_name"]).value
                if inner.name == "func.func":
                    self.functions[name] = inner
                elif inner.name == "sdy.mesh":
                    meshes[name] = mesh_sizes(str(inner.attributes["mesh"]))
        self.plans: dict[str, Any] = {}
        self.regions: dict[Any, Region] = {}
        # Values, types and attributes are told apart by the hashes of their addresses (64 bits): comparing the objects takes longer.
        self.types: dict[int, int] = {}
        self.tensors: list[list[Any]] = []
        self.shapes: list[Tensor] = []
        self.work_of: dict[Any, int] = {}
        self.works: list[dict[str, Any]] = []
        self.costs: list[tuple[float, float]] = []
        self.operator_work: list[int] = []
        self.operator_scope: list[int] = []
        self.operator_operands: list[list[int]] = []
        self.scopes: list[tuple[str, int, int, bool]] = []
        self.made: dict[int, tuple[int, int]] = {}  # value -> (what made it, type)
        self.members: dict[Any, list[int]] = {}
        self.calls: list[str] = []
        self.inlined = 0
        self.spared: list[int] = []  # constants that an operation dropped here no longer reads
        self.constants = Constants(self.functions)
        self.notes: dict[str, None] = {}
        attributes = module.operation.attributes
        partitions = integers(attributes["mhlo.num_partitions"])[0] if "mhlo.num_partitions" in attributes else 0
        replicas = integers(attributes["mhlo.num_replicas"])[0] if "mhlo.num_replicas" in attributes else 1
        sizes = [math.prod(size for _, size in axes) for axes, _ in meshes.values()]
        self.mesh = Mesh(partitions or max([1, *sizes]), replicas, meshes)

    def entry(self, name: str | None) -> str:
        """Name of the function to begin with: `name`, or main, or the only one that no other calls."""
        bodies = [each for each, function in self.functions.items() if len(function.regions[0].blocks)]
        if name is not None:
            if name not in bodies:
                raise NoProgram(f"no function @{name} with a body; expected one of {_listed(bodies)}")
            return name
        if "main" in bodies:
            return "main"
        called = {callee for function in self.functions.values() for callee in _callees(function)}
        roots = [each for each in bodies if each not in called]
        if len(roots) == 1:
            return roots[0]
        if not bodies:
            raise NoProgram("holds no function with a body")
        raise NoProgram(f"has no @main, and {len(roots)} functions that no other calls: choose with --entry: {_listed(roots or bodies)}")

    @property
    def is_dynamic(self) -> bool:
        """Whether a tensor has a dimension that is not known before the run."""
        return any(shape.is_dynamic for shape in self.shapes)

    def walk(self, entry: str) -> None:
        """Record the program that begins with function `entry`."""
        function = self.functions[entry]
        body = function.regions[0].blocks[0]
        if len(function.regions[0].blocks) > 1:
            raise NoProgram(f"@{entry} has several blocks: branches between blocks are not StableHLO")
        for place, argument in enumerate(body.arguments):
            self.bind(argument, -1 - place)
        self.arguments = [self.type_of(argument.type) for argument in body.arguments]
        self.scopes.append(("main", -1, 1, True))
        self.calls.append(entry)
        ended = self.block(body, 0, 1)
        self.results = [self.type_of(value.type) for value in ended]
        self.result_operators = [self.source(value) for value in ended]

        read = {source for sources in self.operator_operands for source in sources} if self.spared else set()
        for place in {*self.spared} - read - {*self.result_operators}:
            self.works.append({**self.works[self.operator_work[place]], "bytes": 0})
            self.operator_work[place] = len(self.works) - 1

    def size_of(self, name: str, sizes: dict[str, int]) -> int:
        """Operations of a function with those of all that it calls, as often as it calls them."""
        if name in sizes or name not in self.functions:
            return sizes.get(name, 1)
        sizes[name] = 1
        count = 0

        def visit(inner: Any) -> Any:
            nonlocal count
            callee = callee_of(inner)
            count += self.size_of(callee, sizes) if callee else 1
            return ir.WalkResult.ADVANCE

        self.functions[name].walk(visit)
        sizes[name] = count
        return count

    def record(self) -> dict[str, Any]:
        """Everything as lists and numbers that JSON can carry."""
        return {
            "tensors": self.tensors,
            "works": self.works,
            "operator_work": self.operator_work,
            "operator_scope": self.operator_scope,
            "operator_operands": self.operator_operands,
            "scopes": self.scopes,
            "arguments": self.arguments,
            "results": self.results,
            "result_operators": self.result_operators,
            "partitions": self.mesh.partitions,
            "replicas": self.mesh.replicas,
            "notes": list(self.notes),
        }

    def type_of(self, kind: Any) -> int:
        """Place of a type in `tensors`."""
        identity = hash(kind)
        found = self.types.get(identity)
        if found is None:
            made = tensor(kind)
            found = self.types[identity] = len(self.tensors)
            self.tensors.append(made)
            self.shapes.append(Tensor(tuple(made[0]), made[1], made[2]))
        return found

    def source(self, value: Any) -> int:
        """Operator that made a value; -1 - i for argument i."""
        found = self.made.get(hash(value))
        return -1 if found is None else found[0]

    def bind(self, value: Any, source: int) -> None:
        """Say which operator made a value."""
        kind = value.type
        self.type_of(kind)
        self.made[hash(value)] = source, hash(kind)

    def block(self, block: Any, scope: int, trips: int) -> list[Any]:
        """Record the operators of a block; the values that it ends with."""
        made, plans = self.made, self.plans
        add_work, add_scope, add_operands = self.operator_work.append, self.operator_scope.append, self.operator_operands.append
        place = len(self.operator_work)
        made_by, record_of = made.__getitem__, self.work_of.get
        key: tuple[Any, ...]  # what tells works apart: the name, the types made and taken, the attributes that count
        for view in block.operations:
            operation = view.operation
            full = operation.name
            handler, wanted, applies = plans[full] if full in plans else self._plan(full)
            if handler is not None:
                operands = [*operation.operands]
                if handler is END:
                    self.table(full.replace("mhlo", "stablehlo"), operands, scope)
                    return operands
                name = full.partition(".")[2]
                if handler(self, operation, name, operands, [*operation.results], scope, trips) is not False:
                    place = len(self.operator_work)
                    continue
            values = operation.operands
            count = len(values)
            try:
                if count == 2:  # by index, which is faster than to iterate
                    taken = [made_by(hash(values[0])), made_by(hash(values[1]))]
                else:
                    taken = [made_by(hash(values[0]))] if count == 1 else [*map(made_by, map(hash, values))]
            except KeyError:
                taken = [made.get(hash(value), (-1, hash(value.type))) for value in values]
            results = operation.results
            single = len(results) == 1
            if single:
                result = results[0]
                output = hash(result.type)
                if count == 2:
                    (first, first_kind), (second, second_kind) = taken
                    sources, key = [first, second], (full, output, first_kind, second_kind)
                elif count == 1:
                    ((first, first_kind),) = taken
                    sources, key = [first], (full, output, first_kind)
                else:
                    sources, key = [source for source, _ in taken], (full, output, *[kind for _, kind in taken])
            else:
                sources = [source for source, _ in taken]
                key = (full, *[kind for _, kind in taken], None, *[hash(value.type) for value in results])
            if wanted is not None:
                try:
                    key = (key, *map(hash, map(operation.attributes.get, wanted)))
                except TypeError:
                    key = (key, *[hash(attribute(operation, each)) for each in wanted])
            applied: tuple[Region, ...] = ()
            if applies:
                applied = tuple([self._region(region) for region in operation.regions])
                key = (key, applied)
            work = record_of(key)
            if work is None:
                work = self.work_of[key] = self._work(operation, applied)
            add_work(work)
            add_scope(scope)
            add_operands(sources)
            if single:
                made[hash(result)] = place, output
            else:
                for value in results:
                    self.bind(value, place)
            place += 1
        if place > LARGEST_GRAPH:
            raise TooLarge(f"has more than {LARGEST_GRAPH:,} operators once its calls are taken apart")
        return []

    def _plan(self, full: str) -> tuple[Any, tuple[str, ...] | None, bool]:
        """How operators of a name are read: who takes them apart, attributes that count, whether they apply a function."""
        dialect, _, name = full.partition(".")
        if dialect in _STRUCTURE:
            plan = (HANDLERS.get(name), _ATTRIBUTES.get(name), name in _REGIONS)
        else:
            plan = (HANDLERS["mesh"] if dialect == "check" else None, None, False)
        self.plans[full] = plan
        return plan

    def _work(self, operation: Any, applied: tuple[Region, ...]) -> int:
        """Make the record of an operator on these shapes, with its cost."""
        dialect, _, name = operation.name.partition(".")
        if len(operation.regions) and dialect not in _STRUCTURE:
            self.notes.setdefault(f"what {operation.name} holds inside is not counted")
        inputs = [self.type_of(value.type) for value in operation.operands]
        outputs = [self.type_of(value.type) for value in operation.results]
        tensors_in, tensors_out = [self.shapes[each] for each in inputs], [self.shapes[each] for each in outputs]
        if dialect == "mhlo":
            dialect = "chlo" if name in _ONLY_CHLO else "stablehlo"
        record: dict[str, Any] = {"name": f"{dialect}.{name}"}
        cost = None
        unknown = None
        if dialect in _STRUCTURE:
            try:
                cost = cost_of(attributes(operation, name), name, tensors_in, tensors_out, applied, record, self.mesh)
            except (IndexError, KeyError, ValueError, TypeError):
                unknown = record["name"]
        if cost is None:
            cost = Cost("custom call" if name == "custom_call" else "unknown", 0, moved(tensors_in, tensors_out))
            unknown = unknown or record["name"] + (f" @{record['called']}" if "called" in record else "")
        elif name in _NO_CONVENTION:
            unknown = record["name"]
        if any(each.is_dynamic for each in (*tensors_in, *tensors_out)) and cost.op_class != "constant":
            unknown = unknown or record["name"] + " (shape not known before the run)"
            cost = Cost(cost.op_class, 0, cost.bytes)
            record.pop("matmul", None)
            record.pop("convolution", None)
        record |= {
            "inputs": inputs, "outputs": outputs, "class": cost.op_class, "flops": cost.flops, "bytes": cost.bytes,
            "transcendentals": cost.transcendentals, "unknown": unknown,
        }  # fmt: skip
        self.works.append(record)
        self.costs.append((cost.flops, cost.bytes))
        return len(self.works) - 1

    def _region(self, region: Any) -> Region:
        """Operations of one run of a function that an operator applies to elements."""
        operations = [view.operation for block in region.blocks for view in block.operations]
        key = tuple([(operation.name, hash(operation.operands[0].type) if len(operation.operands) else None) for operation in operations])
        if key in self.regions:
            return self.regions[key]
        simple = not any(len(operation.regions) or operation.name == "func.call" for operation in operations)
        flops = transcendentals = 0.0
        for operation in operations:
            dialect, _, name = operation.name.partition(".")
            if name == "return":
                continue
            inputs = [self.shapes[self.type_of(value.type)] for value in operation.operands]
            outputs = [self.shapes[self.type_of(value.type)] for value in operation.results]
            if name == "call" and (callee := self.functions.get(callee_of(operation))) is not None and len(self.calls) < 100:
                self.calls.append("")
                inner = self._region(callee.regions[0])
                self.calls.pop()
                flops, transcendentals = flops + inner.flops, transcendentals + inner.transcendentals
                continue
            applied = tuple(self._region(each) for each in operation.regions)
            cost = simple_cost(name, inputs, outputs, applied) if name not in _ATTRIBUTES or name == "constant" else None
            if cost is not None and dialect in _STRUCTURE:
                flops, transcendentals = flops + cost.flops, transcendentals + cost.transcendentals
            elif name not in ("broadcast_in_dim", "tuple", "get_tuple_element"):
                self.notes.setdefault(f"{operation.name} inside a function that an operator applies is not counted")
        found = Region(flops, transcendentals)
        if simple:
            self.regions[key] = found
        return found

    def table(self, name: str, operands: list[Any], scope: int, size: float = 0) -> None:
        """What returns several values: XLA counts the eight bytes of each one's address."""
        if len(operands) > 1 or size:
            self.add(
                {"name": name, "class": "control", "bytes": (8.0 * len(operands) if len(operands) > 1 else 0) + size, "unknown": None},
                operands,
                [],
                scope,
            )

    def add(self, record: dict[str, Any], operands: list[Any], results: list[Any], scope: int) -> None:
        """One operation of a scope; equal ones share their work."""
        inputs, outputs = [self.type_of(value.type) for value in operands], [self.type_of(value.type) for value in results]
        key = (record["name"], record["unknown"], record["bytes"], *inputs, None, *outputs)
        work = self.work_of.get(key)
        if work is None:
            work = self.work_of[key] = len(self.works)
            self.works.append({**record, "inputs": inputs, "outputs": outputs, "flops": 0, "transcendentals": 0})
            self.costs.append((0, record["bytes"]))
        for value in results:
            self.bind(value, len(self.operator_work))
        self.operator_work.append(work)
        self.operator_scope.append(scope)
        self.operator_operands.append([self.source(value) for value in operands])


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _callees(function: Any) -> set[str]:
    found: set[str] = set()

    def visit(inner: Any) -> Any:
        callee = callee_of(inner)
        if callee:
            found.add(callee)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found
