"""How long does a published training step take, by fidelity? Roofline of single operators, roofline of fused kernels, and with shares.

Stated on 2026-11-21 before any step was scored:

roofline: sum over operators of max(operations / peak, unfused bytes / bandwidth), data-sheet peaks, no communication.
fused: sum over kernels (`study_fusion`) of the same, products at the matrix peak of their arithmetic, the rest at the vector peak (a TPU's
    vector unit is not bound by arithmetic here, for want of a figure), data-sheet peaks.
shares: as fused, with each peak times what the device reaches on single operators (`device_rates`), and the communication apart.

Communication: transformers that share weights gather them in the type of the arithmetic, forward and backward, and sum the gradients;
others all-reduce the gradients. It overlaps with the arithmetic: a step takes the longer of the two. Each collective takes what
`networks.collective_time` says (until 2026-11-25 an earlier model; no step's time changed, all being longer than their collectives).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from analysis.hardware import devices, systems
from analysis.hardware.roofline import Rates, time_on_device
from analysis.networks.collective_time import collective_s
from analysis.predict.program.device_rates import Share, share_of
from analysis.predict.program.study_fusion import Kernel
from analysis.studies.workloads.zoo import resnet as zoo_resnet
from analysis.studies.workloads.zoo.programs import shape_of
from analysis.studies.workloads.zoo.published_steps import Step
from analysis.workloads.graph import Module

Fidelity = Literal["roofline", "fused", "shares"]
SYSTEMS = {
    "V100-SXM2-16GB": "DGX-V100",
    "V100-SXM2-32GB": "DGX-V100",
    "A100-SXM4-40GB": "DGX-A100",
    "A100-SXM4-80GB": "DGX-A100",
    "H100-SXM5-80GB": "HGX-H100",
    "H200-SXM5-141GB": "HGX-H200",
    "B200-SXM-180GB": "HGX-B200",
    "TPU-v3": "TPU-v3-pod",
    "TPU-v5p": "TPU-v5p-pod",
    "TPU-v6e": "TPU-v6e-pod",
}


@dataclass(frozen=True)
class Estimate:
    """Time of a step.

    Args:
        time_s: of the step; compute_s: without communication; communication_s: of the collectives alone.
        by_kind_s: compute time by kind of kernel.
    """

    time_s: float
    compute_s: float
    communication_s: float
    by_kind_s: dict[str, float]


def chip(device: str) -> tuple[str, float]:
    """The device of `data/hardware` and how much of it: a TPU-v3 core is half a chip."""
    return (device.removesuffix(" core"), 0.5) if device.endswith(" core") else (device, 1.0)


def rates(device: str, arithmetic: str, with_shares: bool) -> tuple[Rates[float], Rates[float]]:
    """Rates of a device for products in a data type and for the rest, times its measured shares if asked for.

    Args:
        device: see `chip`; arithmetic: bf16, f16, f32 or tf32.
    """
    name, part = chip(device)
    found = devices.load(name)
    dtype = {"f32": "fp32", "f16": "fp16"}.get(arithmetic, arithmetic)
    if arithmetic == "f16" and found.kind == "tpu":
        dtype = "bf16"
    share = share_of(name) if with_shares else Share(matrix=1, fp32_matrix=1, memory=1)
    vector = found.vector_flop_per_s("fp32") if found.kind == "gpu" else math.inf
    bandwidth = part * found.memory_bandwidth_bytes_per_s * share.memory
    return Rates(part * found.peak_flop_per_s(dtype) * share.of(arithmetic), bandwidth), Rates(part * vector, bandwidth)


def communication_s(step: Step) -> float:
    """Time of a step's collectives alone (s), by the rule above."""
    if step.devices < 2:
        return 0.0
    name, _ = chip(step.device)
    system = systems.load(SYSTEMS[name])
    chips = max(1, step.devices // 2) if step.device.endswith("core") else step.devices
    width = 4 if step.arithmetic in ("f32", "tf32") else 2
    if step.workload == "transformer":
        size = float(shape_of(step.options["model"]).parameters * width)
        return 1.5 * collective_s("all_reduce", size, chips, system)  # a gather or a scatter is half an all-reduce: two and one of them
    depth = int(step.workload.removeprefix("resnet").split("_")[0])
    size = float(sum(math.prod(shape) for shape in zoo_resnet.parameter_shapes(depth).values()) * width)
    return collective_s("all_reduce", size, chips, system)


def estimate(step: Step, module: Module, parts: list[Kernel], fidelity: Fidelity) -> Estimate:
    """Time of a published step at a fidelity."""
    products, others = rates(step.device, step.arithmetic, fidelity == "shares")
    by_kind: dict[str, float] = {}
    work: list[tuple[str, float, float]]
    if fidelity == "roofline":
        work = [(operator.op_class, operator.flops, operator.bytes) for operator in module.operators]
    else:
        work = [(kernel.kind, kernel.flop, kernel.bytes) for kernel in parts]
    for kind, flop, moved in work:
        time = time_on_device(flop, moved, products if kind in ("matmul", "convolution") else others)
        by_kind[kind] = by_kind.get(kind, 0.0) + time.latency_s
    compute = math.fsum(by_kind.values())
    communicating = communication_s(step) if fidelity == "shares" else 0.0
    return Estimate(max(compute, communicating), compute, communicating, by_kind)
