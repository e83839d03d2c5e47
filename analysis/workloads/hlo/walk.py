"""From a module of operations to plain records of the operator graph. (Child process; see `bindings`.)"""

from __future__ import annotations

import itertools
import math
from typing import Any

from analysis.workloads.graph import Tensor
from analysis.workloads.hlo.bindings import Unread, attribute, attributes, ir
from analysis.workloads.hlo.cost import ATTRIBUTES, Cost, Region, moved, of_which, simple_cost
from analysis.workloads.hlo.loops import Constants
from analysis.workloads.hlo.settle import ALIKE, RESHAPED, SUBTRACTED, SWAPPED, Made, NeedsPasses, Steps, is_zero, made_by, rule
from analysis.workloads.hlo.structure import END, HANDLERS, LARGEST_GRAPH, NoProgram, TooLarge, callee_of
from analysis.workloads.hlo.types import integers, mesh_sizes, tensor
from analysis.workloads.hlo.work import Mesh, cost_of

_STRUCTURE = {"func", "sdy", "stablehlo", "mhlo", "chlo", "builtin", "vhlo"}
_KEEPS_TYPE = of_which("same_type")
_ONLY_CHLO = {"acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "mulhi", "ragged_dot", "scan", "sinh", "topk"}
_NO_CONVENTION = {"batch_norm_training", "batch_norm_inference", "batch_norm_grad"}  # XLA counts their bytes alone
_FIRST_CONSTANT = 1 << 40  # places of constants before `Walker._place_constants` knows them
_SETTLED = {None, END, *(HANDLERS[name] for name in ("call", "optimization_barrier", "mesh"))}
_REGIONS = {"reduce", "reduce_window", "scatter", "select_and_scatter", "map", "sort", "all_reduce", "reduce_scatter"}


class Walker:
    """Records of one program; `record` is what the caller reads."""

    def __init__(self, module: Any, settles: bool = False) -> None:
        self.module = module
        self.settles = settles
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
        # A value's kind is its type and what XLA's steps see of its maker; each list holds one entry a kind.
        self.kinds: dict[tuple[int, Made | None], int] = {}
        self.makers: list[Made | None] = []
        self.type_of_kind: list[int] = []
        self.is_static: list[bool] = []
        self.is_splat: list[bool] = []
        self.constants_of: list[tuple[int, dict[int, tuple[int, bool]]]] = []
        self.open: list[dict[int, tuple[int, bool]]] = []
        self.work_of: dict[str, int] = {}
        self.works: list[dict[str, Any]] = []
        self.costs: list[tuple[float, float]] = []
        self.operator_work: list[int] = []
        self.operator_scope: list[int] = []
        self.operator_operands: list[list[int]] = []
        self.scopes: list[tuple[str, int, int, bool]] = []
        self.made: dict[int, tuple[int, int]] = {}  # value -> (what made it, kind)
        self.members: dict[Any, list[int]] = {}
        self.calls: list[str] = []
        self.inlined = 0
        self.reshapes: dict[tuple[int, int], tuple[int, int]] = {}  # types taken and made -> work and kind
        self.manager: Any = None  # runs XLA's steps on single operators
        self.constant_places = itertools.count(_FIRST_CONSTANT)
        self.reshaped: dict[int, tuple[int, int]] = {}  # reshape -> what made its operand, and of which kind
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
        if self.settles and any(len(function.regions[0].blocks) > 1 for function in self.functions.values()):
            raise NeedsPasses
        function = self.functions[entry]
        body = function.regions[0].blocks[0]
        if self.settles and not len(body.arguments):  # a program of constants is folded in the order of XLA's steps
            raise NeedsPasses
        if len(function.regions[0].blocks) > 1:
            raise NoProgram(f"@{entry} has several blocks: branches between blocks are not StableHLO")
        for place, argument in enumerate(body.arguments):
            self.bind(argument, -1 - place)
        self.arguments = [self.type_of(argument.type) for argument in body.arguments]
        self.scopes.append(("main", -1, 1, True))
        self.calls.append(entry)
        ended = self.body(body, 0, 1)
        self.results = [self.type_of(value.type) for value in ended]
        self.result_operators = [self.source(value) for value in ended]
        if self.settles:
            self._place_constants()

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
        self.made[hash(value)] = source, self.kind_of(value.type)

    def body(self, block: Any, scope: int, trips: int) -> list[Any]:
        """Record the operators of a function's block, whose constants are its own."""
        constants: dict[int, tuple[int, bool]] = {}
        self.constants_of.append((len(self.operator_work), constants))
        self.open.append(constants)
        ended = self.block(block, scope, trips)
        self.open.pop()
        return ended

    def block(self, block: Any, scope: int, trips: int) -> list[Any]:
        """Record the operators of a block; the values that it ends with."""
        made, plans, types, is_static, is_splat = self.made, self.plans, self.types, self.is_static, self.is_splat
        add_work, add_scope, add_operands = self.operator_work.append, self.operator_scope.append, self.operator_operands.append
        place = len(self.operator_work)
        made_by = made.__getitem__
        key: Any  # what tells operators of a name apart: kinds of what they take, types that they make, the attributes that count
        for view in block.operations:
            operation = view.operation
            full = operation.name
            try:
                handler, known, keeps_type, wanted, applies, alike = plans[full]
            except KeyError:
                handler, known, keeps_type, wanted, applies, alike = plans[full] = self._plan(full)
            if handler is not None:
                operands = [*operation.operands]
                if handler is END:
                    self.table(full.replace("mhlo", "stablehlo"), operands, scope)
                    return operands
                handler(self, operation, full.partition(".")[2], operands, [*operation.results], scope, trips)
                place = len(self.operator_work)
                continue
            values = operation.operands
            count = len(values)
            try:
                if count == 2:  # by index, which is faster than to iterate
                    (first, kind), (second, second_kind) = made_by(hash(values[0])), made_by(hash(values[1]))
                    sources, key = [first, second], (kind, second_kind)
                elif count == 1:
                    first, kind = made_by(hash(values[0]))
                    sources, key = [first], (kind,)
                else:
                    taken = [*map(made_by, map(hash, values))]
                    sources, key = [source for source, _ in taken], tuple([kind for _, kind in taken])
            except KeyError:
                taken = [made.get(hash(value)) or (-1, self.kind_of(value.type)) for value in values]
                sources, key = [source for source, _ in taken], tuple([kind for _, kind in taken])
            kinds = key
            try:
                result = operation.result
            except ValueError:  # none, or several
                result = None
                key = (kinds, *[self.type_of(value.type) for value in operation.results])
            else:
                if not (keeps_type and is_static[kinds[0]]):  # else the types taken tell the type made
                    output = types.get(hash(result.type))
                    key = (*kinds, self.type_of(result.type) if output is None else output)
            if wanted is not None and not (count == 1 and is_splat[kinds[0]] and full == "stablehlo.broadcast_in_dim"):
                try:
                    key = (key, *map(hash, map(operation.attributes.get, wanted)))
                except TypeError:
                    key = (key, *[hash(attribute(operation, each)) for each in wanted])
            applied: tuple[Region, ...] = ()
            if applies:
                applied = tuple([self._region(region) for region in operation.regions])
                key = (key, applied)
            if alike:
                key = (key, sources[-1] == sources[-2])
            found = known.get(key)
            if found is None:
                found = known[key] = self._settled(operation, full, kinds, key, applied, alike and sources[-1] == sources[-2])
            work, kind, change = found
            if change is not None:
                if type(change) is int:
                    made[hash(result)] = self._constant(change, not count), change
                    continue
                if change is not SWAPPED:
                    made[hash(result)] = self._changed(change, sources, kinds, kind, scope)
                    place = len(self.operator_work)
                    continue
                sources.reverse()
            add_work(work)
            add_scope(scope)
            add_operands(sources)
            if result is not None:
                made[hash(result)] = place, kind
            else:
                for value in operation.results:
                    self.bind(value, place)
            place += 1
        if place > LARGEST_GRAPH:
            raise TooLarge(f"has more than {LARGEST_GRAPH:,} operators once its calls are taken apart")
        return []

    def _plan(self, full: str) -> tuple[Any, dict[Any, Any], bool, tuple[str, ...] | None, bool, bool]:
        """How operators of a name are read: who takes them apart, those known, whether their result has their operands' type, attributes
        that count, whether they apply a function, whether equal operands matter."""
        dialect, _, name = full.partition(".")
        handler, wanted, applies, alike = None, None, False, False
        if dialect in _STRUCTURE:
            handler, wanted, applies = HANDLERS.get(name), ATTRIBUTES.get(name), name in _REGIONS
            alike = self.settles and name in ALIKE
        elif dialect == "check":
            handler = HANDLERS["mesh"]
        if self.settles and (handler not in _SETTLED or dialect not in ("stablehlo", "func", "builtin")):
            raise NeedsPasses
        return handler, {}, dialect in _STRUCTURE and name in _KEEPS_TYPE, wanted, applies, alike

    def _settled(self, operation: Any, full: str, kinds: tuple[int, ...], key: Any, applied: tuple[Region, ...], alike: bool) -> Any:
        """Work of an operator, the kind of its only result, and what XLA's import steps change about it (see `settle.rule`)."""
        outputs = [self.type_of(value.type) for value in operation.results]
        name = full.partition(".")[2]
        value = attribute(operation, "value") if name == "constant" else None
        change = None
        if self.settles:
            if not outputs or isinstance(value, Unread):
                raise NeedsPasses
            try:
                change = self.constant_kind(value) if name == "constant" else rule(self, operation, name, kinds, outputs[0], alike)
            except (ir.MLIRError, RuntimeError, TypeError, ValueError):  # what the bindings cannot say of an operator alone
                raise NeedsPasses from None
        if change is None and name == "subtract" and is_zero(self.makers[kinds[1]]):
            change = SUBTRACTED
        if isinstance(change, (int, Steps)) or change is RESHAPED:
            return 0, outputs[0], change
        work = self._work(operation, applied)
        maker = made_by(name, value, self._shapes(kinds), [self.makers[kind] for kind in kinds]) if change is not SUBTRACTED else None
        return work, self._kind(outputs[0], maker) if len(outputs) == 1 else 0, change

    def work_and_kind(self, operation: Any, kinds: tuple[int, ...]) -> tuple[int, int]:
        """Work and kind of an operator that XLA's steps made of another."""
        name = operation.name.partition(".")[2]
        applied = tuple([self._region(region) for region in operation.regions]) if name in _REGIONS else ()
        maker = made_by(name, None, self._shapes(kinds), [self.makers[kind] for kind in kinds])
        return self._work(operation, applied), self._kind(self.type_of(operation.result.type), maker)

    def _shapes(self, kinds: tuple[int, ...]) -> list[Tensor]:
        return [self.shapes[self.type_of_kind[kind]] for kind in kinds]

    def constant_kind(self, value: Any) -> int:
        """Kind of the constants of a value."""
        return self._kind(self.type_of(value.type), made_by("constant", value, [], []))

    def kind_of(self, kind: Any) -> int:
        """Kind of a value of which only the type is known."""
        return self._kind(self.type_of(kind), None)

    def _kind(self, output: int, maker: Made | None) -> int:
        kind = self.kinds.get((output, maker))
        if kind is None:
            kind = self.kinds[output, maker] = len(self.makers)
            self.makers.append(maker)
            self.type_of_kind.append(output)
            shape = self.shapes[output]
            self.is_splat.append(self.settles and maker is not None and bool(maker.text))
            self.is_static.append(not shape.is_dynamic and shape.dtype[0] in "bfiu")
        return kind

    def _changed(self, change: Any, sources: list[int], kinds: tuple[int, ...], output: int, scope: int) -> tuple[int, int]:
        """Record what XLA's steps put in an operator's place; what stands for its result."""
        if change is RESHAPED:
            return self._reshaped(sources[0], kinds[0], output, scope)
        if change is SUBTRACTED:
            self.spared.append(sources[1])
            return sources[0], self._kind(self.type_of_kind[kinds[0]], None)
        found = {("operand", place): (source, kind) for place, (source, kind) in enumerate(zip(sources, kinds, strict=True))}
        for place, (work, kind, operands) in enumerate(change.steps):
            found["step", place] = len(self.operator_work), kind
            self.operator_work.append(work)
            self.operator_scope.append(scope)
            self.operator_operands.append(
                [self._constant(each[1], False) if each[0] == "constant" else found[each][0] for each in operands]
            )
        return found[change.result]

    def _reshaped(self, source: int, kind: int, output: int, scope: int) -> tuple[int, int]:
        """Record a reshape, which XLA's steps join with the one that made its operand."""
        source, kind = self.reshaped.get(source, (source, kind))
        if self.type_of_kind[kind] == output:
            return source, kind
        types = self.type_of_kind[kind], output
        if types not in self.reshapes:
            cost = simple_cost("reshape", [self.shapes[types[0]]], [self.shapes[output]], ())
            assert cost is not None
            work = self._record({"name": "stablehlo.reshape"}, [types[0]], [output], cost, None)
            self.reshapes[types] = work, self._kind(output, Made("reshape"))
        work, made = self.reshapes[types]
        place = len(self.operator_work)
        self.operator_work.append(work)
        self.operator_scope.append(scope)
        self.operator_operands.append([source])
        self.reshaped[place] = source, kind
        return place, made

    def _constant(self, kind: int, written: bool) -> int:
        """Place of a constant of the function that is being read; XLA's steps put them first, and `_place_constants` numbers them."""
        constants = self.open[-1]
        if kind not in constants:
            constants[kind] = next(self.constant_places), written
        return constants[kind][0]

    def _place_constants(self) -> None:
        """Put constants that are read first in their function (those that XLA's steps made, then those written); drop unread reshapes."""
        read = {*itertools.chain.from_iterable(self.operator_operands), *self.result_operators, *self.spared}
        dropped = self.reshaped.keys() - read
        place_of = {-1 - place: -1 - place for place in range(1 + len(self.arguments))}
        works: list[int] = []
        operands: list[list[int]] = []
        before = 0
        for start, constants in [*self.constants_of, (len(self.operator_work), {})]:
            kept = [*range(before, start)] if not dropped else [place for place in range(before, start) if place not in dropped]
            place_of |= zip(kept, range(len(works), len(works) + len(kept)), strict=True)
            works += [self.operator_work[place] for place in kept] if dropped else self.operator_work[before:start]
            operands += [self.operator_operands[place] for place in kept] if dropped else self.operator_operands[before:start]
            made = [(kind, place) for kind, (place, written) in reversed(constants.items()) if not written]
            for kind, place in [*made, *((kind, place) for kind, (place, written) in constants.items() if written)]:
                if place in read:
                    place_of[place] = len(works)
                    works.append(self._constant_work(kind))
                    operands.append([])
            before = start
        places = place_of.__getitem__
        self.operator_work, self.operator_operands = works, [[*map(places, sources)] for sources in operands]
        self.operator_scope = [0] * len(works)
        self.result_operators = [*map(places, self.result_operators)]
        self.spared = [*map(places, self.spared)]

    def _constant_work(self, kind: int) -> int:
        output = self.type_of_kind[kind]
        value, tensor = self.makers[kind].value, self.shapes[output]  # type: ignore[union-attr]
        cost = cost_of({"value": value}, "constant", [], [tensor], (), {}, self.mesh)
        assert cost is not None
        return self._record({"name": "stablehlo.constant"}, [], [output], cost, None)

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
        return self._record(record, inputs, outputs, cost, unknown)

    def _record(self, record: dict[str, Any], inputs: list[int], outputs: list[int], cost: Cost, unknown: str | None) -> int:
        """Place of a work among `works`, where it is put if there is none like it."""
        record |= {
            "inputs": inputs, "outputs": outputs, "class": cost.op_class, "flops": cost.flops, "bytes": cost.bytes,
            "transcendentals": cost.transcendentals, "unknown": unknown,
        }  # fmt: skip
        place = self.work_of.setdefault(repr(record), len(self.works))
        if place == len(self.works):
            self.works.append(record)
            self.costs.append((cost.flops, cost.bytes))
        return place

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
            cost = simple_cost(name, inputs, outputs, applied) if name not in ATTRIBUTES or name == "constant" else None
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
        cost = Cost(record["class"], 0, record["bytes"])
        work = self._record({"name": record["name"]}, inputs, outputs, cost, record["unknown"])
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
