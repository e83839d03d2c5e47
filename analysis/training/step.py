"""How do the parts make a step? A few shares, fitted on measured runs, and the schedule of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from analysis.case_rows import alike
from analysis.configs import read_yaml
from analysis.paths import DATA
from analysis.training.cases import Case, Cases
from analysis.training.kernels import OLDER, beyond_flash_2
from analysis.training.shares import SharesFile
from analysis.training.work import Parts, stages

Floats = NDArray[np.float64]

SHARES = read_yaml(DATA / "workloads" / "training_shares.yaml", SharesFile).shares

POWER = 1 / 3
"""Time of products and attention goes as the power limit over the data sheet's to the minus this: power goes as the clock's cube, for the
voltage falls with it."""

NAMES = tuple(SHARES)
PRIOR = np.array([share.prior for share in SHARES.values()])


class Plans:
    """What the schedule needs of each case, in arrays: the columns that `of` names."""

    def __init__(self, **columns: NDArray[Any]) -> None:
        vars(self).update(columns)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> NDArray[Any]:
            """A column."""

    @classmethod
    def of(cls, cases: Sequence[Case]) -> Plans:
        """From the cases."""
        of = Cases.of(cases)
        program, device, recipe, machine = of.defaults, of.device, of.recipe, of.machine
        ampere = device.architecture.isin(*OLDER)
        selective, mixture = of.recompute == "selective", of.shape.experts.there
        core, full = selective & (program.selective == "core"), (of.recompute == "full") * 1.0
        moe, core_attn = (recipe.each(lambda found, what=what: float(what in found.again)) for what in ("moe", "core_attn"))
        fullest, beside_head = _deal(of)
        return cls(
            old=of.written_out,
            kernels=program.kernels.text(),
            flash_1=program.attention == "flash_1",
            flash_2=program.attention.isin("flash_1", "flash_2") * device.each(beyond_flash_2),
            microbatches=of.microbatches,
            pipeline=of.pipeline * 1.0,
            virtual=of.virtual * 1.0,
            full=full,
            products_again=_products_again(of),
            memory_again=full + np.where(core, 0.5 * of.written_out, selective * 1.0),  # half of attention's bytes are its core's
            nodes=np.maximum(1.0, of.gpus / machine.domain),
            rowwise=(of.precision == "fp8") & (of.fp8_recipe == "rowwise"),
            vendor=device.vendor.text(),
            ampere=ampere,
            power=machine.each(lambda found: found.power**-POWER),
            blocks=of.shape.blocks / of.pipeline,
            fullest=fullest,
            beside_head=beside_head,
            ends_as_layers=ends_as_layers(of),
            tensor=of.tensor * 1.0,
            tensor_overlap=program.tensor_overlap,
            reduce_overlap=program.reduce_overlap,
            collect_overlap=program.collect_overlap,
            graphs=np.where(mixture, recipe.graphs.text(), "none"),
            overlap=recipe.overlap & ((of.pipeline == 1) | (of.virtual > 1)),
            # blocks of a dense model are captured in CUDA graphs, as in NVIDIA's recipes, where the host would be too slow
            captured=((machine.host > 1) | (device.architecture == "blackwell")) & (program.kernels == "fused") & ~mixture,
            experts_again=moe,
            attention_again=np.maximum(np.maximum(full, core_attn), selective & ~(program.selective == "half")),
            host=machine.host,
            sharded=(of.zero >= 1) & (of.data * of.context > 1),
            low=of.precision.each({"bf16": 16, "fp8": 8, "mxfp8": 8, "nvfp4": 4}.__getitem__),
        )


def _deal(of: Cases) -> tuple[Floats, Floats]:
    """Blocks of the fullest stage, and of the one with the output layer, over those of a stage if all had as many."""
    held, head = stages(of)
    codes, first = alike(held, head)
    found = []
    for row in first:
        dealt, last, even = held[row], int(head[row]), float(of.shape.blocks[row] / of.pipeline[row])
        others = [blocks for stage, blocks in enumerate(dealt) if stage != last]
        found.append((max(others, default=even) / even, dealt[last] / even))
    fullest, beside = np.array(found, np.float64).reshape(-1, 2)[codes].T
    return fullest, beside


def _products_again(of: Cases) -> Floats:
    """Share of a block's dense products that recomputation repeats (1): every second one, those of keys, of attention's output and of the
    ungated half; or gate and up; or all, in some programs but the last, whose output no gradient needs.

    Source: github.com/pytorch/torchtitan, _apply_op_sac (query, key, value, output, gate, up, down in order); github.com/AI-Hypercomputer/
    maxtext, save_dot_except_mlpwi; docs.jax.dev, jax.checkpoint (dead code is eliminated).
    """
    shape, program = of.shape, of.defaults
    dense = (shape.attention_layers > 0) & (shape.dense_layers > 0) & ~shape.experts.there
    query, key, ffn = shape.heads * shape.head_size, shape.kv_heads * shape.head_size, shape.dense_width
    gates = np.where(shape.gated, 2, 1)
    whole = np.where(dense, 2 * query + 2 * key + (gates + 1) * ffn, 1.0)
    every_second = np.where(dense & shape.gated, (key + query + ffn) / whole, 0.5)
    gate_and_up = np.where(dense, gates * ffn / whole, 0.5)
    needed = np.where(dense & ~program.repeats_last, 1 - ffn / whole, 1.0)
    repeated = np.select([program.selective == "gates", program.selective == "half"], [gate_and_up, every_second], 0.0)
    return np.select([of.recompute == "full", of.recompute == "selective"], [needed, repeated], 0.0)


def ends_as_layers(of: Any) -> Any:
    """Whether the output layer counts as a pipeline layer: where the blocks alone do not divide (126 or 94 over 8)."""
    shape = of.shape
    own = np.where(shape.linear_layers == 0, shape.attention_layers, shape.blocks)
    return (of.pipeline > 1) & ((own % (of.pipeline * of.virtual) != 0) | (shape.mtp_modules > 0))


BREAKDOWN = ("products", "attention", "memory_bound", "recompute", "output_layer", "host", "communication", "bubble", "reduce", "optimizer")


def step(parts: Parts, plans: Plans, shares: Floats) -> dict[str, Floats]:
    """Seconds of a step and what they are made of; `total` is their sum.

    stage = (device^4 + host^4)^(1/4); total = (m busiest + (p - 1) / v stage + reduce + update) slow: m microbatches pass the busiest of p
    stages, filling and draining adds the other stages' passes over v chunks; gradients and optimizer follow.

    Args:
        parts: see `work` (s); plans: see above; shares: in the order of `NAMES`.

    Source: Narayanan et al. 2021, section 2.2 (pipeline); the mean and the shares are this project's.
    """
    s = dict(zip(NAMES, shares, strict=True))
    eager, compiled = plans.kernels == "eager", plans.kernels == "compiled"
    stream = np.select([plans.old, eager, compiled], [s["stream_old"], s["stream_eager"], s["stream_compiled"]], s["stream"])
    of_pass = np.select([plans.old, eager, compiled], [s["host_old_s"], s["host_eager_s"], s["host_compiled_s"]], s["host_s"])
    slower_host = np.where(plans.host > 1, 1 + s["grace"] * (plans.host - 1), plans.host)  # a graph's launch is the driver's work alone
    host = of_pass * np.where(plans.captured, s["graphed_dense"], slower_host) * (1 + s["host_spread"] * np.log2(plans.tensor))
    host *= np.where(eager & (plans.pipeline > 1) & (plans.nodes > 1), s["pipelined_host"] * plans.tensor**0.5, 1.0)
    tensor = np.where(plans.tensor_overlap, s["tensor"], s["tensor_serial"])
    untimed = ~np.isin(plans.vendor, ("NVIDIA", "Google"))  # products at the peak (analysis/training/kernels.py)
    slower = plans.power * np.where(plans.ampere, s["product_ampere"], 1.0) * np.where(untimed, s["product_amd"], 1.0)
    eight = s["product_8"] * np.where(plans.rowwise, s["rowwise"], 1.0) * np.where(untimed, s["product_amd_8"], 1.0)
    rates = (slower * s["product_16"], slower * eight, slower * s["product_4"])
    grouped = s["grouped"] * np.select([plans.low == 16, plans.low == 8], [rates[0], rates[1]], rates[2])
    products = rates[0] * parts.gemm + rates[1] * parts.gemm8 + rates[2] * parts.gemm4 + grouped * parts.grouped
    products_back = rates[0] * parts.gemm_back + rates[1] * parts.gemm8_back + rates[2] * parts.gemm4_back + grouped * parts.grouped_back
    older = np.where(plans.flash_1, s["flash_1"], 1.0) * np.where(plans.flash_2 > 0, s["flash_2"] * plans.flash_2, 1.0)
    older *= np.where(plans.ampere, s["attention_ampere"], 1.0)
    kind = plans.power * np.select([plans.old, plans.vendor == "Google"], [rates[0], 1.0], s["attention"] * older)
    attention, attention_back = kind * parts.attention, kind * parts.attention_back
    memory, memory_back = stream * parts.stream, stream * parts.stream_back
    expert = s["expert"] * np.where(plans.overlap, s["expert_overlap"], 1.0)
    exchange = tensor * parts.tensor + expert * parts.expert
    exchange_back = tensor * parts.tensor_back + expert * parts.expert_back + s["context"] * parts.context
    again = plans.products_again * products + plans.attention_again * attention + plans.memory_again * memory + plans.full * exchange
    again += plans.experts_again * (grouped * parts.grouped + stream * parts.expert_stream + expert * parts.expert)
    compute = products + products_back + attention + attention_back + memory + memory_back
    # weights gathered for the next block while this one computes: what does not hide, and a share of what does
    busy_forward, busy_back = products + attention + memory, products_back + attention_back + memory_back + again
    hidden = np.minimum(parts.gather, busy_forward) + np.minimum(parts.gather_back, busy_back)
    exposed = parts.gather + parts.gather_back - hidden + s["gather"] * hidden
    send = np.where(plans.old, s["send"], 0.3 * s["send"]) * parts.send
    communication = exchange + exchange_back + exposed + parts.ends + send
    captured = np.select([plans.graphs == "none", plans.graphs == "partial"], [1.0, s["graphed"]], 0.0)
    routed = np.where(plans.graphs == "full", 0.0, s["routing"] * captured * parts.routed + s["expert_host"] * parts.local_experts)
    launched = host * ((parts.layers * captured + routed) * (2 + (plans.products_again > 0)) + plans.experts_again * routed)
    device_s = compute + again + communication
    stage = (device_s**4 + launched**4) ** 0.25
    head = rates[0] * parts.head + s["loss"] * parts.head_stream
    p, v, m = plans.pipeline, plans.virtual, plans.microbatches
    last = stage * plans.beside_head + np.where(plans.ends_as_layers, np.maximum(0.0, head - stage / plans.blocks), head)
    busiest = np.maximum(stage * plans.fullest, last)
    fill = np.where(p > 1, ((p - 1) * stage) / v, 0.0)
    slow = np.maximum(1.0, s["imbalance"]) ** np.log2(np.maximum(plans.nodes, 1.0)) ** 0.5
    reduce = _left(parts.reduce, busy_back, s["reduce"], plans.reduce_overlap, plans)
    reduce = reduce + _left(parts.collect, busy_forward, s["reduce"], plans.collect_overlap, plans)
    update = stream * parts.update
    own = np.where((eager | compiled) & plans.sharded, s["between_block_s"] * plans.blocks, 0.0)
    between = np.where(plans.host > 0, np.where(plans.old, 0.0, s["between_s"]) + own, 0.0)
    total = (m * busiest + fill + reduce + update) * slow + between
    return {
        "products": m * (products + products_back) * slow,
        "attention": m * (attention + attention_back) * slow,
        "memory_bound": m * (memory + memory_back) * slow,
        "recompute": m * again * slow,
        "output_layer": m * (busiest - stage) * slow,
        "host": m * (stage - device_s) * slow,
        "communication": m * communication * slow,
        "bubble": fill * slow,
        "reduce": reduce * slow,
        "optimizer": update * slow + between,
        "total": total,
    }


def _left(collective: Floats, busy: Floats, share: float, overlap: NDArray[np.bool_], plans: Plans) -> Floats:
    """What is exposed of a collective that may run beside the passes of a stage: what does not hide, and a share of what does.

    Gradients of the last chunk's microbatch hide behind its own pass. In an interleaved schedule those of the other chunks are complete
    while up to p microbatches pass the chunks that follow, and weights are gathered likewise before the forward passes
    (github.com/NVIDIA/Megatron-LM, megatron/core/pipeline_parallel/schedules.py: grad_sync_func and param_sync_func of each chunk).
    """
    v, group = plans.virtual, np.where(plans.virtual > 1, np.minimum(plans.microbatches, plans.pipeline), 1.0)
    hidden = np.where(overlap, (np.minimum(collective, busy) + (v - 1) * np.minimum(collective, group * busy)) / v, 0.0)
    return np.asarray(collective - hidden + share * hidden)
