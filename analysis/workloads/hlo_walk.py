"""From a module of operations to plain records of the operator graph: calls, loops and branches taken apart. (Child process; see `hlo_bindings`.)"""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir

from analysis.workloads.graph import Convolution, Tensor
from analysis.workloads.hlo_cost import (
    COLLECTIVE,
    Cost,
    Region,
    broadcast_bytes,
    convolution_flops,
    matmul_flops,
    moved,
    reduce_window_count,
    simple_cost,
)
from analysis.workloads.hlo_loops import Constants
from analysis.workloads.hlo_types import device_groups, dot_dimensions, groups_of_axes, integers, mesh_sizes, pairs, table, tensor
from analysis.workloads.hlo_work import convolution_of, matmul_of

LARGEST_GRAPH = 3_000_000
_STRUCTURE = {"func", "sdy", "stablehlo", "mhlo", "chlo", "builtin", "vhlo"}
_FREE_CALLS = re.compile(
    r"Sharding|SPMDFullToShardShape|SPMDShardToFullShape|annotate_device_placement|(local_)?xla\.sdy\..*|sdy\..*|LayoutConstraint|MoveToHost|MoveToDevice|Pin|Unpin"
)
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
_ONLY_CHLO = set("acos acosh asin asinh atan atanh cosh erf mulhi ragged_dot scan sinh topk".split())
_NO_CONVENTION = {"batch_norm_training", "batch_norm_inference", "batch_norm_grad"}  # XLA counts their bytes alone
_REGIONS = {"reduce", "reduce_window", "scatter", "select_and_scatter", "map", "sort", "all_reduce", "reduce_scatter"}


class TooLarge(ValueError):
    """Calls taken apart, the program has more operators than a graph can hold."""


class NoProgram(ValueError):
    """The module has no function to begin with, or several."""


class Walker:
    """Records of one program; `record` is what the caller reads.

    Args:
        module: parsed, and simplified if that could be done.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.functions: dict[str, Any] = {}
        self.meshes: dict[str, Any] = {}
        for operation in module.body.operations:
            inner = operation.operation
            if "sym_name" in inner.attributes:
                name = ir.StringAttr(inner.attributes["sym_name"]).value
                if inner.name == "func.func":
                    self.functions[name] = inner
                elif inner.name == "sdy.mesh":
                    self.meshes[name] = mesh_sizes(str(inner.attributes["mesh"]))
        self.types: dict[Any, int] = {}
        self.tensors: list[list[Any]] = []
        self.shapes: list[Tensor] = []
        self.work_of: dict[Any, int] = {}
        self.works: list[dict[str, Any]] = []
        self.costs: list[tuple[float, float]] = []
        self.operator_work: list[int] = []
        self.operator_scope: list[int] = []
        self.operator_operands: list[list[int]] = []
        self.scopes: list[tuple[str, int, int, bool]] = []
        self.producer: dict[Any, int] = {}
        self.members: dict[Any, list[int]] = {}
        self.calls: list[str] = []
        self.constants = Constants(self.functions)
        self.notes: dict[str, None] = {}
        attributes = module.operation.attributes
        self.partitions = integers(attributes["mhlo.num_partitions"])[0] if "mhlo.num_partitions" in attributes else 0
        self.replicas = integers(attributes["mhlo.num_replicas"])[0] if "mhlo.num_replicas" in attributes else 1
        if not self.partitions:
            sizes = [1]
            for axes, _ in self.meshes.values():
                size = 1
                for _, count in axes:
                    size *= count
                sizes.append(size)
            self.partitions = max(sizes)

    def entry(self, name: str | None) -> str:
        """Name of the function to begin with: `name`, or main, or the only one that no other calls.

        Raises:
            NoProgram: none, or several.
        """
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
        raise NoProgram(
            f"holds {len(roots)} functions that no other calls, and no @main: choose one with --entry: {_listed(roots or bodies)}"
        )

    def walk(self, entry: str) -> None:
        """Record the program that begins with function `entry`."""
        function = self.functions[entry]
        body = function.regions[0].blocks[0]
        if len(function.regions[0].blocks) > 1:
            raise NoProgram(f"@{entry} has several blocks: branches between blocks are not StableHLO")
        for place, argument in enumerate(body.arguments):
            self.producer[argument] = -1 - place
        self.arguments = [self._type(argument.type) for argument in body.arguments]
        self.scopes.append(("main", -1, 1, True))
        self.calls.append(entry)
        ended = self._block(body, 0, 1)
        self.results = [self._type(value.type) for value in ended]
        self.result_operators = [self.producer.get(value, -1) for value in ended]

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
            "partitions": self.partitions,
            "replicas": self.replicas,
            "notes": list(self.notes),
        }

    def _type(self, kind: Any) -> int:
        found = self.types.get(kind)
        if found is None:
            made = tensor(kind)
            found = self.types[kind] = len(self.tensors)
            self.tensors.append(made)
            self.shapes.append(Tensor(tuple(made[0]), made[1], made[2]))
        return found

    def _block(self, block: Any, scope: int, trips: int) -> list[Any]:
        """Record the operators of a block; the values that it ends with."""
        producer, types, work_of = self.producer, self.types, self.work_of
        operator_work, operator_scope, operator_operands = self.operator_work, self.operator_scope, self.operator_operands
        for view in block.operations:
            operation = view.operation
            full = operation.name
            dialect, _, name = full.partition(".")
            operands = list(operation.operands)
            if name == "return" and dialect in _STRUCTURE:
                if len(operands) > 1 and dialect != "sdy":
                    self._table(full.replace("mhlo", "stablehlo"), operands, scope)
                return operands
            results = list(operation.results)
            handler = _HANDLERS.get(name) if dialect in _STRUCTURE else None
            if handler is not None:
                handler(self, operation, name, operands, results, scope, trips)
                continue
            if name == "subtract" and self.minus(operation, name, operands, results, scope, trips):
                continue
            key: tuple[Any, ...] = (full, *[value.type for value in operands], None, *[value.type for value in results])
            wanted = _ATTRIBUTES.get(name)
            if wanted is not None:
                attributes = operation.attributes
                key = (key, *[attributes[each] if each in attributes else None for each in wanted])
            if name in _REGIONS and dialect in _STRUCTURE:
                applied = tuple(self._region(region) for region in operation.regions)
                key = (key, applied)
            else:
                applied = ()
            work = work_of.get(key)
            if work is None:
                if operation.regions and dialect not in _STRUCTURE:
                    self.notes.setdefault(f"what {full} holds inside is not counted")
                inputs = [types[value.type] if value.type in types else self._type(value.type) for value in operands]
                outputs = [types[value.type] if value.type in types else self._type(value.type) for value in results]
                work = work_of[key] = self._work(operation, dialect, name, inputs, outputs, applied)
            place = len(operator_work)
            operator_work.append(work)
            operator_scope.append(scope)
            operator_operands.append([producer.get(value, -1) for value in operands])
            for value in results:
                producer[value] = place
        if len(operator_work) > LARGEST_GRAPH:
            raise TooLarge(f"has more than {LARGEST_GRAPH:,} operators once its calls are taken apart")
        return []

    def _work(self, operation: Any, dialect: str, name: str, inputs: list[int], outputs: list[int], applied: tuple[Region, ...]) -> int:
        """Make the record of an operator on these shapes, with its cost."""
        tensors_in, tensors_out = [self.shapes[each] for each in inputs], [self.shapes[each] for each in outputs]
        if dialect == "mhlo":
            dialect = "chlo" if name in _ONLY_CHLO else "stablehlo"
        record: dict[str, Any] = {"name": f"{dialect}.{name}"}
        attributes = operation.attributes
        cost = None
        unknown = None
        if dialect in _STRUCTURE:
            try:
                cost = self._cost(attributes, name, tensors_in, tensors_out, applied, record)
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

    def _cost(
        self, attributes: Any, name: str, inputs: list[Tensor], outputs: list[Tensor], applied: tuple[Region, ...], record: dict[str, Any]
    ) -> Cost | None:
        everything = moved(inputs, outputs)
        if name in ("dot_general", "dot"):
            dimensions = dot_dimensions(attributes["dot_dimension_numbers"]) if name == "dot_general" else None
            matmul = matmul_of(inputs[0], inputs[1], dimensions)
            record["matmul"] = [matmul.batch, matmul.m, matmul.n, matmul.k]
            return Cost("matmul", matmul_flops(matmul), everything)
        if name in ("convolution", "dynamic_conv"):
            convolution = convolution_of(inputs, outputs[0], attributes)
            record["convolution"] = _convolution_record(convolution)
            return Cost("convolution", convolution_flops(convolution), everything)
        if name == "transpose":  # XLA lets the layout of the result say it
            return Cost("data movement")
        if name == "constant":  # of equal elements: imported as a broadcast of one
            value = attributes["value"] if "value" in attributes else None
            equal = isinstance(value, ir.DenseElementsAttr) and value.is_splat and outputs[0].elements > 1
            return Cost("constant", 0, outputs[0].bytes + outputs[0].bytes // max(1, outputs[0].elements) if equal else 0)
        if name == "broadcast_in_dim":
            return Cost("data movement", 0, broadcast_bytes(inputs[0], outputs[0], integers(attributes["broadcast_dimensions"])))
        if name == "reduce_window":
            window = integers(attributes["window_dimensions"])
            padding = pairs(attributes["padding"] if "padding" in attributes else None, len(window))
            runs = reduce_window_count(window, padding, outputs[0], len(outputs))
            return Cost("reduction", applied[0].flops * runs, everything, applied[0].transcendentals * runs)
        if name == "select_and_scatter":
            taps = 1
            for size in integers(attributes["window_dimensions"]):
                taps *= size
            source = inputs[1].elements
            flops = applied[0].flops * source * (taps - 1) + applied[1].flops * source
            return Cost(
                "reduction", flops, everything, applied[0].transcendentals * source * (taps - 1) + applied[1].transcendentals * source
            )
        if name == "fft":
            factors = 1
            for length in integers(attributes["fft_length"]):
                factors *= max(0, length.bit_length() - 1)
            return Cost("fft", 8 * factors * inputs[0].elements, everything)
        if name == "custom_call":
            record["called"] = ir.StringAttr(attributes["call_target_name"]).value
            return Cost("control") if _FREE_CALLS.fullmatch(record["called"]) else None
        if name in COLLECTIVE:
            groups = self._groups(attributes, name)
            record["collective"] = [COLLECTIVE[name], sum(each.bytes for each in inputs), sum(each.bytes for each in outputs), groups]
        return simple_cost(name, inputs, outputs, applied)

    def _groups(self, attributes: Any, name: str) -> list[list[int]]:
        if name == "collective_permute":
            rows = table(attributes["source_target_pairs"])
        elif "replica_groups" in attributes:
            attribute = attributes["replica_groups"]
            text = str(attribute)
            if "mesh_axes" in text:
                return self._mesh_groups(text)
            rows = table(attribute)
        else:
            rows = []
        channel = "channel_handle" in attributes and int((re.findall(r"handle = (\d+)", str(attributes["channel_handle"])) or [0])[0]) > 0
        if name in ("send", "recv"):
            return []
        if name in ("collective_permute", "all_to_all", "collective_broadcast"):
            mode = "partition" if channel else "replica"
        elif "use_global_device_ids" in attributes and "false" not in str(attributes["use_global_device_ids"]):
            mode = "device"
        else:
            mode = "replica and partition" if channel else "replica"
        if name == "collective_permute" and not rows:
            return []
        return device_groups(rows, mode, self.replicas, self.partitions)

    def _mesh_groups(self, text: str) -> list[list[int]]:
        symbol = re.search(r"mesh = @\"?([\w.$-]+)", text)
        if symbol:
            if symbol.group(1) not in self.meshes:
                raise ValueError(f"no mesh {symbol.group(1)}")
            axes, order = self.meshes[symbol.group(1)]
        else:
            axes, order = mesh_sizes(text.split("axes = [#")[0].split("mesh = ")[1])
        used = []
        listed = text.split("axes = [")[-1]
        for name, pre, size in re.findall(r'"?name = "?([\w.$-]+)"?(?:, sub_axis_info = \((\d+)\)(\d+))?>', listed) or [
            (name, "", "") for name in re.findall(r'"([^"]+)"', listed)
        ]:
            used.append((name, int(pre or 0), int(size or 0)))
        return groups_of_axes(axes, order, used)

    def _region(self, region: Any) -> Region:
        """Operations of one run of a function that an operator applies to elements."""
        flops = transcendentals = 0.0
        for block in region.blocks:
            for view in block.operations:
                operation = view.operation
                name = operation.name.partition(".")[2]
                if name == "return":
                    continue
                inputs = [self.shapes[self._type(value.type)] for value in operation.operands]
                outputs = [self.shapes[self._type(value.type)] for value in operation.results]
                if name == "call" and (callee := self.functions.get(_callee(operation))) is not None and len(self.calls) < 100:
                    self.calls.append("")
                    inner = self._region(callee.regions[0])
                    self.calls.pop()
                    flops, transcendentals = flops + inner.flops, transcendentals + inner.transcendentals
                    continue
                applied = tuple(self._region(each) for each in operation.regions)
                cost = simple_cost(name, inputs, outputs, applied) if name not in _ATTRIBUTES else None
                if cost is not None:
                    flops, transcendentals = flops + cost.flops, transcendentals + cost.transcendentals
                elif name not in ("broadcast_in_dim", "tuple", "get_tuple_element"):
                    self.notes.setdefault(f"{operation.name} inside a function that an operator applies is not counted")
        return Region(flops, transcendentals)

    def _inline(self, body: Any, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        for argument, value in zip(body.arguments, operands, strict=False):
            self.producer[argument] = self.producer.get(value, -1)
            self.constants.bound[argument] = value
        ended = self._block(body, scope, trips)
        for result, value in zip(results, ended, strict=False):
            self.producer[result] = self.producer.get(value, -1)

    def call(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        """A call, composite or asynchronous start: the function's operators in its place."""
        callee = _callee(operation)
        function = self.functions.get(callee)
        if function is None or not len(function.regions[0].blocks):
            self._opaque(operation, f"{operation.name} @{callee}", operands, results, scope)
            return
        if callee in self.calls or len(self.calls) > 500:
            raise NoProgram(f"@{callee} calls itself")
        if len(self.operator_work) > LARGEST_GRAPH:
            raise TooLarge(f"has more than {LARGEST_GRAPH:,} operators once its calls are taken apart")
        self.calls.append(callee)
        self._inline(function.regions[0].blocks[0], operands, results, scope, trips)
        self.calls.pop()

    def region(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        """A region that runs once: a manual computation (on one device's shard) or a named one."""
        if name == "manual_computation":
            self.notes.setdefault("inside a manual computation shapes are one device's, outside they are the whole program's")
        self._inline(operation.regions[0].blocks[0], operands, results, scope, trips)

    def loop(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        """A `while`: its condition and its body once, in scopes of their own."""
        test, body = operation.regions[0].blocks[0], operation.regions[1].blocks[0]
        following = body.operations[len(body.operations) - 1].operation.operands
        for place, value in enumerate(operands):
            still = place < len(body.arguments) and place < len(following) and following[place] == body.arguments[place]
            for block in (test, body):
                self.producer[block.arguments[place]] = self.producer.get(value, -1)
                self.constants.bound.pop(block.arguments[place], None)
                if still:
                    self.constants.bound[block.arguments[place]] = value
        count = self.constants.trips(operation)
        if count is None:
            where = re.search(r":(\d+):\d+", str(operation.location))
            line = f" at line {where.group(1)}" if where else ""
            self.notes.setdefault(f"a loop{line} runs as often as its data say: counted once")
        self._table("stablehlo.while", operands, scope)
        for kind, block, runs in (("condition", test, 1 if count is None else count + 1), ("loop", body, 1 if count is None else count)):
            self.scopes.append((kind, scope, trips * runs, count is not None))
            ended = self._block(block, len(self.scopes) - 1, trips * runs)
        for place, result in enumerate(results):
            self.producer[result] = self.producer.get(ended[place], -1) if place < len(ended) else -1

    def branches(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        """A `case` or `if`: the branch with the most operations (then bytes), as XLA takes the dearest."""
        best: tuple[Any, ...] | None = None
        start, first_scope = len(self.operator_work), len(self.scopes)
        for region in operation.regions:
            if not len(region.blocks):
                continue
            self.scopes.append(("branch", scope, trips, True))
            ended = self._block(region.blocks[0], len(self.scopes) - 1, trips)
            operators = [
                (work, operator_scope, sources)
                for work, operator_scope, sources in zip(
                    self.operator_work[start:], self.operator_scope[start:], self.operator_operands[start:], strict=True
                )
            ]
            runs = [self.scopes[operator_scope][2] for _, operator_scope, _ in operators]
            flops = sum(self.costs[work][0] * count for (work, _, _), count in zip(operators, runs, strict=True))
            size = sum(self.costs[work][1] * count for (work, _, _), count in zip(operators, runs, strict=True))
            sources = [self.producer.get(value, -1) for value in ended]
            if best is None or (flops, size) > best[0]:
                best = ((flops, size), operators, self.scopes[first_scope:], sources)
            del self.operator_work[start:], self.operator_scope[start:], self.operator_operands[start:], self.scopes[first_scope:]
        if best is None:
            return
        if len(operation.regions) > 1:
            self.notes.setdefault("of a case or if, the branch with the most operations is counted")
        for work, operator_scope, sources in best[1]:
            self.operator_work.append(work)
            self.operator_scope.append(operator_scope)
            self.operator_operands.append(sources)
        self.scopes.extend(best[2])
        for result, source in zip(results, best[3], strict=False):
            self.producer[result] = source

    def alias(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        """An operator that only names values: each result is an operand."""
        for place, result in enumerate(results):
            source = operands[min(place, len(operands) - 1)] if operands else None
            self.producer[result] = self.producer.get(source, -1) if source is not None else -1

    def barrier(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        """An optimization barrier: XLA counts it as a copy."""
        size = sum(self.shapes[self._type(value.type)].bytes for value in operands)
        self._table("stablehlo.optimization_barrier", operands, scope, size + (size if len(operands) == 1 else 8.0 * len(operands)))
        self.alias(operation, name, operands, results, scope, trips)

    def minus(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> bool:
        """Whether a subtraction takes away zeros, which XLA drops."""
        if isinstance(operands[1], ir.OpResult):
            source = operands[1].owner.operation
            if source.name.endswith(".constant"):
                value = source.attributes["value"]
                if (
                    isinstance(value, ir.DenseElementsAttr)
                    and value.is_splat
                    and str(value).split(":")[0] in ("dense<0.000000e+00> ", "dense<0> ")
                ):
                    self.alias(operation, name, operands, results, scope, trips)
                    return True
        return False

    def pack(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        """A tuple."""
        self.members[results[0]] = [self.producer.get(value, -1) for value in operands]
        self.producer[results[0]] = self.members[results[0]][0] if operands else -1

    def unpack(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        """A member of a tuple."""
        members, place = self.members.get(operands[0], []), integers(operation.attributes["index"])[0]
        self.producer[results[0]] = members[place] if place < len(members) else self.producer.get(operands[0], -1)

    def nothing(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int, trips: int) -> None:
        """A declaration."""

    def _table(self, name: str, operands: list[Any], scope: int, size: float = 0) -> None:
        """What hands over several values: XLA counts the eight bytes of each one's address."""
        if len(operands) > 1 or size:
            self._add(
                {"name": name, "class": "control", "bytes": (8.0 * len(operands) if len(operands) > 1 else 0) + size, "unknown": None},
                operands,
                [],
                scope,
            )

    def _opaque(self, operation: Any, name: str, operands: list[Any], results: list[Any], scope: int) -> None:
        kinds = [self.shapes[self._type(value.type)] for value in (*operands, *results)]
        self._add({"name": operation.name, "class": "unknown", "bytes": moved(kinds, []), "unknown": name}, operands, results, scope)

    def _add(self, record: dict[str, Any], operands: list[Any], results: list[Any], scope: int) -> None:
        inputs, outputs = [self._type(value.type) for value in operands], [self._type(value.type) for value in results]
        key = (record["name"], record["unknown"], record["bytes"], *inputs, None, *outputs)
        work = self.work_of.get(key)
        if work is None:
            work = self.work_of[key] = len(self.works)
            self.works.append({**record, "inputs": inputs, "outputs": outputs, "flops": 0, "transcendentals": 0})
            self.costs.append((0, record["bytes"]))
        for value in results:
            self.producer[value] = len(self.operator_work)
        self.operator_work.append(work)
        self.operator_scope.append(scope)
        self.operator_operands.append([self.producer.get(value, -1) for value in operands])


def _convolution_record(convolution: Convolution) -> dict[str, Any]:
    return {name: getattr(convolution, name) for name in Convolution.__dataclass_fields__}


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _callee(operation: Any) -> str:
    for key in ("callee", "decomposition", "called_computation"):
        if key in operation.attributes:
            return ir.FlatSymbolRefAttr(operation.attributes[key]).value
    return ""


def _callees(function: Any) -> set[str]:
    found: set[str] = set()

    def visit(inner: Any) -> Any:
        callee = _callee(inner)
        if callee:
            found.add(callee)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


_HANDLERS = {
    "call": Walker.call,
    "composite": Walker.call,
    "async_start": Walker.call,
    "async_done": Walker.alias,
    "while": Walker.loop,
    "case": Walker.branches,
    "if": Walker.branches,
    "manual_computation": Walker.region,
    "named_computation": Walker.region,
    "tuple": Walker.pack,
    "get_tuple_element": Walker.unpack,
    "optimization_barrier": Walker.barrier,
    "sharding_constraint": Walker.alias,
    "reshard": Walker.alias,
    "propagation_barrier": Walker.alias,
    "data_flow_edge": Walker.alias,
    "sharding_group": Walker.nothing,
    "after_all": Walker.alias,
    "create_token": Walker.alias,
    "mesh": Walker.nothing,
}
