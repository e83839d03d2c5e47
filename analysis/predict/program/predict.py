"""How long does a program take on a device? One question, several fidelities, one answer with its parts.

| fidelity | what it is |
|---|---|
| roofline | every operator alone: max(operations / peak of its type, unfused bytes / bandwidth) |
| fused | the same over kernels, by the rule that `study_fusion` states |
| efficiency | as fused, each peak times what the device reaches on single operators (`device_rates`: no training step in them) |
| kernels | as efficiency, matrix products and fused attention as `kernels predict` answers them on the GPU (`measured_kernels`) |
| systolic | as fused on a TPU, products and convolutions by the cycles of its arrays, the rest by those of its vector unit |

Where none is asked for, a GPU is answered by `kernels` and any other device by `fused`.
Unless a system is given, communication between devices is not timed, and that is said.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Literal, get_args

from analysis.errors import InputError
from analysis.hardware import devices, systems
from analysis.hardware.devices import Device
from analysis.hardware.roofline import Rates, time_on_device
from analysis.hardware.systems import System
from analysis.networks import collective_time
from analysis.predict.program.device_rates import Rate, Share, has_share, matrix_rate, share_of, vector_rate
from analysis.predict.program.device_work import as_run
from analysis.predict.program.measured_kernels import ProductTime, has_tables, product_times
from analysis.predict.program.study_fusion import kernels
from analysis.predict.program.systolic_device import ARRAYS, ASSUMED, NO_WORK, VectorWork, arrays_of, product_s, vector_s
from analysis.workloads.graph import Attention, Collective, Matmul, Module, Operator, Tensor

Fidelity = Literal["roofline", "fused", "efficiency", "kernels", "systolic"]
FIDELITIES: tuple[str, ...] = get_args(Fidelity)
PRODUCTS = ("matmul", "convolution")
UNTIMED = ("scan", "fft", "sort", "linear algebra", "custom call", "unknown")
COLLECTIVE_KINDS = {
    "all-reduce": "all_reduce",
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "collective-broadcast": "broadcast",
}
"""Of StableHLO, and what NCCL calls them; permutations, sends and receives are sends."""
TYPICAL_LAUNCH_S = 4e-6  # for the note alone; no answer holds it unless it is asked for
SLOWEST_LAUNCH_S = 9e-6
"""For the upper end of the interval: of twelve programs that we timed on an H200 (data/recorded/h200_own/programs.csv), small convolutional
networks took up to 8.8 us a kernel beyond the device's time."""
MEASURED: dict[str, tuple[float, float]] = {
    "roofline": (0.083, 1.0),
    "fused": (0.961, 2.113),
    "efficiency": (0.732, 1.716),
    "kernels": (0.915, 1.815),
    "systolic": (0.961, 2.113),
}
"""5th and 95th percentile of measured over predicted time of 79 published training steps of 17 machines (data/frozen/hlo_published);
roofline: at least what was predicted, since a program of few operators fuses nothing; the cycles of arrays as fused. kernels: above, of 56
steps on GPUs, every source weighing the same (`by_kernel_tables.csv` there); below, the tables' own 90 % interval, since a program may be
one kernel; and at least the products' own interval. Programs unlike a training step were not timed."""


@dataclass
class ClassTime:
    """What one class of operators or kernels costs.

    Args:
        seconds: time (s), of it bound by arithmetic: compute_s, by memory: memory_s.
        flop: operations, transcendental ones counted as one (FLOP); bytes: moved (bytes); runs: (count).
    """

    seconds: float = 0.0
    compute_s: float = 0.0
    memory_s: float = 0.0
    flop: float = 0.0
    bytes: float = 0.0
    runs: int = 0

    @property
    def bound(self) -> str:
        """What takes most of the time."""
        return "compute" if self.compute_s >= self.memory_s else "memory"


@dataclass(frozen=True)
class ProgramPrediction:
    """Time of a program on a device.

    Args:
        device, fidelity: asked for.
        seconds: compute_s + communication_s + launch_s (s): nothing overlaps.
        compute_s: of the operators (s); communication_s: of the collectives on the system given (s).
        by_class: time by class.
        unsupported: what has no time in the sum, and how often it runs.
        unknown: operators whose operations are not known; their bytes are in the sum.
        lower_s, upper_s: 90 % interval (s), see `MEASURED`; without an upper end where the sum is a lower bound.
        lower_bound: whether the sum lacks something that the program does: what is unknown or unsupported.
        notes: what was assumed.
        launch_s: of the kernels' launches, where a time for one was given (s); launches: of kernels (count).
        peak_s: of the matrix products at the data sheet's peak (s), below which the interval does not reach; 0 where peaks are measured.
        open_s: how far below and above the sum the products' own intervals reach (s).
    """

    device: str
    fidelity: str
    seconds: float
    compute_s: float
    communication_s: float
    by_class: dict[str, ClassTime]
    unsupported: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    launch_s: float = 0.0
    launches: int = 0
    peak_s: float = 0.0
    open_s: tuple[float, float] = (0.0, 0.0)

    @property
    def lower_bound(self) -> bool:
        """Whether a part of the program has no time in the sum."""
        return bool(self.unknown or self.unsupported)

    @property
    def lower_s(self) -> float:
        """Lower end of the interval (s), at least the products' time at the data sheet's peak."""
        return max(min(self.seconds * MEASURED[self.fidelity][0], self.seconds - self.open_s[0]), min(self.peak_s, self.seconds))

    @property
    def upper_s(self) -> float | None:
        """Upper end of the interval (s), launches that are not in the sum included; `None` where the sum is a lower bound."""
        waiting = 0.0 if self.launch_s else self.launches * SLOWEST_LAUNCH_S
        return None if self.lower_bound else max(self.seconds * MEASURED[self.fidelity][1], self.seconds + self.open_s[1]) + waiting


@dataclass(frozen=True)
class _Unit:
    """What is timed as one: an operator, or a kernel; `product` where it is a product or convolution that is simulated, `vector` else."""

    kind: str
    flop: float
    bytes: float
    runs: int
    dtype: str
    product: Matmul | Attention | None = None
    vector: VectorWork = NO_WORK

    @property
    def matmul(self) -> Matmul | None:
        """Its product; of an attention both as one."""
        return self.product.as_matmul if isinstance(self.product, Attention) else self.product


def _of_products(units: Sequence[_Unit], tables: Sequence[ProductTime], plain_f32: bool) -> list[str]:
    """Notes on the products of an answer by kernel tables; `plain_f32`: whether 32-bit products run in 32 bits, on a GPU."""
    answered = sum(unit.runs for unit, time in zip(units, tables, strict=True) if time.source)
    every = sum(unit.runs for unit in units if unit.kind in PRODUCTS)
    bases = sorted({time.source.partition("; ")[0].partition(", ")[0] for time in tables if time.source})
    whose = sorted({time.source.partition("; ")[2] for time in tables} - {""})
    by = {"measured gpu": "the device's kernel tables", "unmeasured gpu": "kernel tables of other GPUs", "data sheet": "the data sheet"}
    by["fp32 kernels"] = "the models of fp32 kernels"
    words = " and ".join(by.get(basis, basis) for basis in bases) or by["measured gpu"]
    said = [f"{answered} of {every} products by {words}, the rest by shares of its peaks", *(f"products: {text}" for text in whose)]
    if not answered and plain_f32 and any(unit.product is not None and unit.dtype == "f32" for unit in units):
        said.append("no kernel model has 32-bit products: --f32 bf16 asks for a program that runs in 16 bits")
    return said + [f"no kernel model: {status}" for status in sorted({time.status for time in tables if time.status})[:3]]


def predict(
    module: Module,
    device: Device,
    fidelity: str = "roofline",
    *,
    system: System | None = None,
    f32_in: str = "fp32",
    on_chip: Callable[[Tensor], bool] | None = None,
    launch_s: float | None = None,
    timed: Mapping[str, Sequence[ProductTime]] = MappingProxyType({}),
) -> ProgramPrediction:
    """Time of a program on a device.

    Args:
        f32_in: type that f32 products run in: fp32, tf32 or bf16.
        on_chip: tensors that are never written to memory (`study_fusion`).
        launch_s: time that each kernel takes before it computes (s); None: not in the sum, and a note says what it would be.
    """
    if fidelity not in FIDELITIES:
        raise InputError(f"no fidelity {fidelity!r}; expected one of {', '.join(FIDELITIES)}", key="fidelity")
    if fidelity == "systolic":
        arrays_of(device)
    measured = device.kind == "cpu"  # its peaks are what programs reached
    share = Share(matrix=1, fp32_matrix=1, memory=1)
    if fidelity in ("efficiency", "kernels") and not measured:
        share = share_of(device.name)
    bandwidth = device.memory_bandwidth_bytes_per_s * share.memory
    units = _units(module, None if fidelity == "roofline" else on_chip, fused=fidelity != "roofline")
    by_class: dict[str, ClassTime] = {}
    unsupported: dict[str, int] = {}
    notes = dict.fromkeys(module.notes)
    if fidelity == "systolic" and vector_s(device, NO_WORK) is None:
        notes.setdefault(f"{device.name}: what its arrays do not do takes the time of its bytes; no vector unit with a clock is published")
    if fidelity == "systolic" and device.name in ASSUMED:
        notes.setdefault(ASSUMED[device.name])
    peak_s = below = above = 0.0
    tables: Sequence[ProductTime] = [ProductTime()] * len(units)
    if fidelity == "kernels":
        tables = timed[device.name] if device.name in timed else product_times(_products(units, f32_in), [device.name])[device.name]
        notes |= dict.fromkeys(_of_products(units, tables, device.kind == "gpu" and f32_in == "fp32"))
    rates = cache(lambda product, dtype: matrix_rate(device, dtype, f32_in) if product else vector_rate(device, dtype))
    for unit, table in zip(units, tables, strict=True):
        product = unit.kind in PRODUCTS
        rate = rates(product, unit.dtype)
        if rate is None and unit.flop:
            name = f"{unit.kind} in {unit.dtype}"
            unsupported[name] = unsupported.get(name, 0) + unit.runs
            continue
        if rate is not None and rate.instead and product:
            notes.setdefault(f"{unit.dtype} products at the {rate.runs_in} rate: {device.name} has no other for them")
        compute = _compute_s(unit, rate, share, device, fidelity) if rate is not None else 0.0
        if rate is not None and unit.kind == "matmul" and not measured:  # a convolution may take fewer operations (Winograd)
            peak_s += unit.flop / rate.flop_per_s
        found = by_class.setdefault(unit.kind, ClassTime())
        memory = unit.bytes / bandwidth
        whole, bound_by_compute = max(compute, memory), compute >= memory
        if table.source:
            whole = unit.runs * table.seconds
            # such errors are the device's, or the engine's, and do not average out
            below, above = below + whole - unit.runs * table.lower_s, above + unit.runs * table.upper_s - whole
        found.seconds += whole
        found.compute_s += whole if bound_by_compute else 0.0
        found.memory_s += 0.0 if bound_by_compute else whole
        found.flop, found.bytes, found.runs = found.flop + unit.flop, found.bytes + unit.bytes, found.runs + unit.runs
    if fidelity in ("efficiency", "kernels") and share.carried:
        notes.setdefault(f"carried over from other devices: share of {', '.join(share.carried)}")
    if fidelity in ("efficiency", "kernels") and measured:
        notes.setdefault("the peaks of this device are measured ones: no share is taken of them")
    communication = _communication(module, system, unsupported)
    launches = sum(unit.runs for unit in units if unit.kind not in ("constant", "control"))
    launching = launches * launch_s if launch_s is not None else 0.0
    if launch_s is None:
        notes.setdefault(
            f"launches are not in the sum: {launches} of {'operators' if fidelity == 'roofline' else 'kernels'}, "
            f"{launches * TYPICAL_LAUNCH_S:.3g} s at 4 us each where the host does not run ahead (--launch-us adds them)"
        )
    seconds = math.fsum(each.seconds for each in by_class.values())
    if any(unit.kind in UNTIMED for unit in units):
        notes.setdefault(f"{', '.join(sorted({unit.kind for unit in units} & set(UNTIMED)))}: counted as `device_work` says, not measured")
    ordered = dict(sorted(by_class.items(), key=lambda item: -item[1].seconds))
    total = seconds + communication + launching
    return ProgramPrediction(
        device.name, fidelity, total, seconds, communication, ordered, unsupported, dict(module.unknown), tuple(notes), launching, launches,
        peak_s, (below, above),
    )  # fmt: skip


def predictions(
    module: Module, device: str, fidelity: str, system: str | None = None, f32_in: str = "fp32", launch_s: float | None = None
) -> list[ProgramPrediction]:
    """Predictions for one or all devices at one or all fidelities.

    Args:
        device: name or alias, or ``all``: those whose kind has shares of the peak.
        fidelity: see `predict`, or ``all``: those that cover the device; empty: `usual`.
    """
    if f32_in not in ("fp32", "tf32", "bf16"):
        raise InputError(f"expected fp32, tf32 or bf16, got {f32_in!r}", key="f32")
    machine = systems.load(system) if system else None
    chosen = [each for each in devices.all_devices().values() if has_share(each.name)] if device == "all" else [devices.load(device)]
    wanted = [
        (each, name)
        for each in chosen
        for name in ([name for name in FIDELITIES if _covers(each, name)] if fidelity == "all" else [fidelity or usual(each)])
    ]
    by_kernels = [each.name for each, name in wanted if name == "kernels"]
    timed = product_times(_products(_units(module, None, fused=True), f32_in), by_kernels) if len(by_kernels) > 1 else {}
    return [predict(module, each, name, system=machine, f32_in=f32_in, launch_s=launch_s, timed=timed) for each, name in wanted]


def _products(units: Sequence[_Unit], f32_in: str) -> list[tuple[Matmul | Attention | None, str]]:
    return [(unit.product if unit.kind == "matmul" else None, f32_in if unit.dtype == "f32" else unit.dtype) for unit in units]


def usual(device: Device) -> str:
    """The default fidelity: kernels on a GPU, fused on other devices."""
    return "kernels" if device.kind == "gpu" else "fused"


def _covers(device: Device, fidelity: str) -> bool:
    """Whether `all` asks a fidelity for a device: arrays on TPUs, kernel tables on GPUs whose like was timed."""
    if fidelity == "kernels":
        return has_tables(device.name)
    return fidelity != "systolic" or device.name in ARRAYS


def _compute_s(unit: _Unit, rate: Rate, share: Share, device: Device, fidelity: str) -> float:
    if unit.kind not in PRODUCTS:
        on_unit = vector_s(device, unit.vector) if fidelity == "systolic" else None
        return unit.flop / rate.flop_per_s if on_unit is None else on_unit
    if fidelity == "systolic" and unit.matmul is not None:
        return unit.runs * product_s(device, unit.matmul, rate.flop_per_s)
    return unit.flop / (rate.flop_per_s * share.of(rate.runs_in))


def _communication(module: Module, system: System | None, unsupported: dict[str, int]) -> float:
    times = []
    count = module.devices
    for operator in module.collectives:
        collective = operator.work.collective
        assert collective is not None
        if system is None:
            name = f"{collective.kind}: no system given"
            unsupported[name] = unsupported.get(name, 0) + operator.trips
        else:
            times.append(operator.trips * collective_s(collective, system, count))
    return math.fsum(times)


def layout(groups: Sequence[Sequence[int]], devices: int) -> tuple[int, int]:
    """Members and stride of the widest group: devices 0, 8, 16, 24 are 4 members that lie 8 apart.

    Args:
        groups: as the collective names them; empty: all devices.
    """
    places = [sorted(group) for group in groups if len(group) > 1]
    found = [(len(each), max(1, (each[-1] - each[0]) // (len(each) - 1))) for each in places]
    return max(found, default=(1, 1)) if groups else (max(1, devices), 1)


def collective_s(collective: Collective, system: System, devices: int) -> float:
    """Time of one run (s).

    An all-gather is counted by what it leaves, a reduce-scatter by what it takes; a permutation, send or receive moves its bytes once over
    the slowest level that a pair crosses.
    """
    kind = COLLECTIVE_KINDS.get(collective.kind, "send_recv")
    size = collective.input_bytes if kind in ("all_reduce", "all_to_all") else max(collective.input_bytes, collective.output_bytes)
    if kind == "send_recv":
        node = system.devices_per_node
        inside = all(pair[0] // node == pair[1] // node for pair in collective.groups if len(pair) == 2)
        return collective_time.collective_s(kind, size, 2, system, 1 if inside else node)
    members, stride = layout(collective.groups, devices)
    return collective_time.collective_s(kind, size, members, system, stride)


def _product_of(operator: Operator) -> Matmul | Attention | None:
    convolution = operator.work.convolution
    return operator.work.matmul or operator.work.attention or (convolution.as_matmul if convolution is not None else None)


_KEPT: list[tuple[weakref.ref[Module], Callable[[Tensor], bool] | None, bool, list[_Unit]]] = []


def _units(module: Module, on_chip: Callable[[Tensor], bool] | None, *, fused: bool) -> list[_Unit]:
    """The units that are timed; cached for the last few programs, since one program is predicted for one device after the other."""
    for kept, hidden, as_kernels, units in _KEPT:
        if kept() is module and hidden is on_chip and as_kernels == fused:
            return units
    run, passes = as_run(module)
    units = _kernels(run, passes, on_chip) if fused else _operators(run)
    _KEPT.insert(0, (weakref.ref(module), on_chip, fused, units))
    del _KEPT[16:]
    return units


def _operators(module: Module) -> list[_Unit]:
    skipped = ("control", "collective")  # addresses, and what `collective_time` times
    return [
        _Unit(each.op_class, each.flops + each.transcendentals, each.bytes, each.trips, each.work.dtype, _product_of(each))
        for each in module.operators
        if each.op_class not in skipped
    ]


def _kernels(module: Module, passes: list[float], on_chip: Callable[[Tensor], bool] | None) -> list[_Unit]:
    # kernels come in the order of their first operators, and these are kernels of their own
    products = iter([_product_of(each) for each in module.operators if each.op_class in PRODUCTS])
    often = iter([count for each, count in zip(module.operators, passes, strict=True) if each.op_class in UNTIMED])
    units = []
    for kernel in kernels(module, on_chip):
        product = next(products) if kernel.kind in PRODUCTS else None
        moved = kernel.bytes * (next(often) if kernel.kind in UNTIMED else 1.0)
        if kernel.kind != "collective":
            units.append(_Unit(kernel.kind, kernel.flop, moved, kernel.trips, kernel.dtype, product, kernel.vector))
    return units


def operator_times(module: Module, prediction: ProgramPrediction) -> list[float]:
    """Time of one run of each operator (s): its roofline on the device, scaled so that the runs add up to the prediction's `compute_s`."""
    device = devices.load(prediction.device)
    times = []
    for operator in module.operators:
        work = operator.work
        if work.op_class in ("control", "collective"):
            times.append(0.0)
            continue
        rate = matrix_rate(device, work.dtype) if work.op_class in PRODUCTS else vector_rate(device, work.dtype)
        rates = Rates(rate.flop_per_s if rate is not None else math.inf, device.memory_bandwidth_bytes_per_s)
        times.append(time_on_device(work.flops + work.transcendentals, work.bytes, rates).latency_s)
    total = math.fsum(time * operator.trips for time, operator in zip(times, module.operators, strict=True))
    return [time * prediction.compute_s / total for time in times] if total else times
