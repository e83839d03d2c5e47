"""Time of one training step and what it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from analysis.hardware.systems import System
from analysis.studies.training.fixed_efficiency.block import Kernel, Stream, block_kernels, embedding_kernels, head_kernels
from analysis.studies.training.fixed_efficiency.communication import Group, all_gather_s, all_reduce_s, group, send_s
from analysis.studies.training.fixed_efficiency.kernel_time import Efficiencies, KernelTime, efficiencies_of, kernel_time, total
from analysis.studies.training.fixed_efficiency.memory import Memory, memory, stage_parameters
from analysis.studies.training.fixed_efficiency.plan import Plan, Software, padded_vocab
from analysis.training.work import OPTIMIZER_BYTES
from analysis.workloads.models import Model

NOTHING = KernelTime()


@dataclass(frozen=True)
class Phase:
    """One pass over something: kernels, recomputed kernels, and exposed collectives (s)."""

    kernels: KernelTime = NOTHING
    recomputed: KernelTime = NOTHING
    tensor_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Sum (s)."""
        return self.kernels.total_s + self.recomputed.total_s + self.tensor_s

    def __add__(self, other: Phase) -> Phase:
        return Phase(self.kernels + other.kernels, self.recomputed + other.recomputed, self.tensor_s + other.tensor_s)

    def times(self, factor: float) -> Phase:
        """Every part times a factor."""
        return Phase(self.kernels.times(factor), self.recomputed.times(factor), self.tensor_s * factor)


@dataclass(frozen=True)
class StepTime:
    """Time of a step on the busiest pipeline stage (s); the parts sum to `total_s`.

    Attributes:
        matrix, memory, launch: kernels of the model's own passes; recompute: kernels run again.
        tensor, pipeline, data: collectives that no computation hides.
        bubble: waiting for the pipeline to fill and drain.
        optimizer: the weight update.
    """

    matrix: float
    memory: float
    launch: float
    recompute: float
    tensor: float
    pipeline: float
    bubble: float
    data: float
    optimizer: float

    @property
    def total_s(self) -> float:
        """The step (s)."""
        return sum(vars(self).values())

    def as_dict(self) -> dict[str, float]:
        """Every part and the total (s)."""
        return vars(self) | {"total": self.total_s}


@dataclass(frozen=True)
class StepPrediction:
    """A predicted training step.

    Attributes:
        time: the step and its parts; memory: the fullest GPU.
        mfu: arithmetic of the model, without recomputation, the whole attention matrix counted, over step x GPUs x dense peak (1).
    """

    time: StepTime
    memory: Memory
    mfu: float


def _tensor_group(system: System, plan: Plan, efficiencies: Efficiencies) -> Group:
    return group(system, plan.tensor_parallel, 1, efficiencies.network)


@lru_cache(maxsize=4096)
def block_phases(model: Model, plan: Plan, software: Software, system: System, efficiencies: Efficiencies) -> tuple[Phase, Phase]:
    """One block and one microbatch, (forward, backward), recomputation within backward.

    Args:
        model, plan, software, system, efficiencies: see their classes; only the parts of `plan` that a block sees matter.
    """
    device = system.load_device()
    kernels = block_kernels(model, plan, software)

    def timed(items: tuple[Kernel, ...]) -> KernelTime:
        return total(items, device, software.dtype, efficiencies)

    members = _tensor_group(system, plan, efficiencies)
    boundary = 2.0 * plan.tokens * model.hidden
    tensor = 4 * all_gather_s(system, members, boundary) if plan.sequence_parallel else 2 * all_reduce_s(system, members, boundary)
    forward = timed(kernels.forward)
    weights = timed(kernels.weight_gradients)
    backward = timed(kernels.backward) + weights
    exposed = max(0.0, tensor - 0.5 * weights.total_s) if software.overlap_tensor else tensor
    again, again_tensor = KernelTime(), 0.0
    if plan.recompute == "selective":
        again = timed(kernels.core)
    elif plan.recompute == "full":
        again, again_tensor = forward, tensor
    regather = 0.0
    if plan.sequence_parallel and not software.overlap_tensor:
        regather = 2 * all_gather_s(system, members, boundary)  # the split input of each matrix, gathered once more
    return (
        Phase(kernels=forward, tensor_s=tensor),
        Phase(kernels=backward, recomputed=again, tensor_s=exposed + again_tensor + regather),
    )


def _view(plan: Plan) -> Plan:
    """The plan with what a block does not see set to one, so that plans share cached blocks."""
    unseen = {"pipeline_parallel": 1, "interleave": 1, "data_parallel": 1, "zero": 0, "ends_as_layers": False}
    return plan.model_copy(update={**unseen, "global_batch": plan.microbatch})


@lru_cache(maxsize=4096)
def _ends(model: Model, plan: Plan, software: Software, system: System, efficiencies: Efficiencies) -> tuple[Phase, Phase, Phase, Phase]:
    device = system.load_device()
    members = _tensor_group(system, plan, efficiencies)
    reduce = all_reduce_s(system, members, 2.0 * plan.tokens * model.hidden)
    phases = []
    for kernels, tensor in zip(
        (*embedding_kernels(model, plan), *head_kernels(model, plan, software)), (reduce, 0.0, 0.0, reduce), strict=True
    ):
        phases.append(Phase(kernels=total(kernels, device, software.dtype, efficiencies), tensor_s=tensor))
    return phases[0], phases[1], phases[2], phases[3]


def stage_phases(model: Model, plan: Plan, software: Software, system: System, efficiencies: Efficiencies) -> list[tuple[Phase, Phase]]:
    """One microbatch on each distinct pipeline stage, (forward, backward): first, middle (if there are any) and last."""
    view = _view(plan)
    forward, backward = block_phases(model, view, software, system, efficiencies)
    p = plan.pipeline_parallel
    first_f, first_b, last_f, last_b = _ends(model, view, software, system, efficiencies)

    def body(stage: int) -> tuple[Phase, Phase]:
        layers = plan.stage_layers(model.layers, stage)
        return forward.times(layers), backward.times(layers)

    first, last = body(0), body(p - 1)
    if p == 1:
        return [(first[0] + first_f + last_f, first[1] + first_b + last_b)]
    ends = [(first[0] + first_f, first[1] + first_b), (last[0] + last_f, last[1] + last_b)]
    return ends if p == 2 else [ends[0], body(1), ends[1]]


def predict(model: Model, plan: Plan, software: Software, system: System, efficiencies: Efficiencies | None = None) -> StepPrediction:
    """Time and memory of one training step.

    The busiest stage works through m microbatches; filling and draining adds the other stages' passes, divided by the interleave v:
    step = m t_max + (sum of stages - t_max) / v + sends + exposed gradient reduction + optimizer.

    Args:
        model, plan, software, system: see their classes; efficiencies: default: the device's committed ones.

    Source: Narayanan et al. 2021, section 2.2 (bubble), 3 (communication); Korthikanti et al. 2022 (sequence parallelism, recomputation).
    """
    efficiencies = efficiencies or efficiencies_of(system.device)
    device = system.load_device()
    stages = stage_phases(model, plan, software, system, efficiencies)
    p, v, m = plan.pipeline_parallel, plan.interleave, plan.microbatches
    sums = [forward.total_s + backward.total_s for forward, backward in stages]
    busiest = max(range(len(stages)), key=lambda index: sums[index])
    counts = [1.0] if p == 1 else [1.0, 1.0] if p == 2 else [1.0, p - 2.0, 1.0]
    fill = (sum(count * time for count, time in zip(counts, sums, strict=True)) - sums[busiest]) / v
    forward, backward = stages[busiest]
    work = (forward + backward).times(m)
    send = _sends_s(model, plan, software, system, efficiencies)
    pipeline = 0.0 if software.overlap_pipeline else m * v * 2 * send
    bubble = fill + (2 * (p - 1) * send if p > 1 else 0.0)
    data = _data_s(model, plan, software, system, efficiencies, forward.total_s, backward.total_s)
    update = stage_parameters(model, plan, 0) / (plan.data_parallel if plan.zero >= 1 else 1) * OPTIMIZER_BYTES
    optimizer = kernel_time(Stream("optimizer", update, 8), device, software.dtype, efficiencies).total_s
    time = StepTime(
        matrix=work.kernels.matrix_s,
        memory=work.kernels.memory_s,
        launch=work.kernels.launch_s,
        recompute=work.recomputed.total_s,
        tensor=work.tensor_s,
        pipeline=pipeline,
        bubble=bubble,
        data=data,
        optimizer=optimizer,
    )
    flop = model.training_flop(plan.global_batch, plan.sequence_length)
    mfu = flop / (time.total_s * plan.gpus * device.peak_flop_per_s(software.dtype))
    return StepPrediction(time=time, memory=memory(model, plan, software), mfu=mfu)


def _sends_s(model: Model, plan: Plan, software: Software, system: System, efficiencies: Efficiencies) -> float:
    """Passing one microbatch's boundary to the next stage (s)."""
    if plan.pipeline_parallel == 1:
        return 0.0
    boundary = 2.0 * plan.tokens * model.hidden
    t = plan.tensor_parallel
    if plan.sequence_parallel:
        return send_s(system, plan.gpus, boundary / t, efficiencies.network)
    if software.scatter_gather and t > 1:
        gathered = all_gather_s(system, _tensor_group(system, plan, efficiencies), boundary)
        return send_s(system, plan.gpus, boundary / t, efficiencies.network) + gathered
    return send_s(system, plan.gpus, boundary, efficiencies.network)


def _data_s(
    model: Model, plan: Plan, software: Software, system: System, efficiencies: Efficiencies, forward_s: float, backward_s: float
) -> float:
    """Exposed time of data parallelism (s): gradients once a step; with ZeRO 3 also weights, in every pass of every microbatch."""
    if plan.data_parallel == 1:
        return _tied_embedding_s(model, plan, software, system, efficiencies)
    everyone, parameters = group(system, plan.data_parallel, plan.tensor_parallel, efficiencies.network), stage_parameters(model, plan, 0)

    def moved(collective: Callable[[System, Group, float], float], size_bytes: int) -> float:
        """A collective of all parameters (s)."""
        return collective(system, everyone, size_bytes * parameters)

    if plan.zero == 3:
        gather, scatter = moved(all_gather_s, 2), moved(all_gather_s, software.gradient_bytes)
        exposed_forward = max(0.0, gather - forward_s) if software.overlap_data else gather
        exposed_backward = max(0.0, gather + scatter - backward_s) if software.overlap_data else gather + scatter
        return plan.microbatches * (exposed_forward + exposed_backward)
    if plan.zero == 0:
        first, second = moved(all_reduce_s, software.gradient_bytes), 0.0
    else:
        first, second = moved(all_gather_s, software.gradient_bytes), moved(all_gather_s, 2)
    if software.overlap_data:
        first, second = max(0.0, first - backward_s), max(0.0, second - forward_s)
    return first + second + _tied_embedding_s(model, plan, software, system, efficiencies)


def _tied_embedding_s(model: Model, plan: Plan, software: Software, system: System, efficiencies: Efficiencies) -> float:
    """First and last stage agree on the gradient of a tied embedding (s)."""
    if plan.pipeline_parallel == 1 or not model.tied:
        return 0.0
    ends = group(system, 2, max(1, plan.gpus // plan.pipeline_parallel), efficiencies.network)
    return all_reduce_s(system, ends, software.gradient_bytes * model.hidden * padded_vocab(model, plan) / plan.tensor_parallel)
