"""What does a row of a table of training runs say, and what has to be assumed? Rows of any of the known forms become `Case`s."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import pandas as pd

from analysis.composition.case_files import count, number, read_rows
from analysis.composition.training import recipes, shapes
from analysis.composition.training.recipes import Recipe
from analysis.composition.training.shapes import Shape
from analysis.errors import InputError
from analysis.hardware import devices

Program = Literal["megatron_2021", "megatron", "fsdp"]
"""megatron_2021: attention written out, dropout, no overlap, 16-bit gradients; megatron: today's; fsdp: PyTorch's, sharded."""

OTHER_NAMES = {
    "Model": "model",
    "SeqLen (T)": "sequence_length",
    "# GPUs": "gpus",
    "GPU": "device",
    "MicroBatchSize": "micro_batch",
    "GlobalBatchSize": "global_batch",
    "Precision": "precision",
    "Sharding Strategy": "sharding",
    "Activation Checkpointing": "checkpointing",
    "GradAccum": "accumulation",
    "heads": "attention_heads",
    "hidden": "hidden_size",
    "num_layers": "layers",
    "microbatch": "micro_batch",
    "batch": "global_batch",
    "global_batch_size": "global_batch",
    "micro_batch_size": "micro_batch",
    "vocab": "vocabulary",
    "vocabulary_size": "vocabulary",
    "vocab_size": "vocabulary",
    "sequence": "sequence_length",
    "hardware": "device",
    "virtual_pipeline_parallel": "virtual_pipeline",
    "interleave": "virtual_pipeline",
    "tensor_model_parallel": "tensor_parallel",
    "pipeline_model_parallel": "pipeline_parallel",
}
"""Column of a known table -> our name."""

PRECISIONS = {
    "bf16": "bf16",
    "fp16": "bf16",
    "16": "bf16",
    "ampbf16": "bf16",
    "ampfp16": "bf16",
    "fp8": "fp8",
    "ampfp8": "fp8",
    "fp8cs": "fp8",
    "fp8ds": "fp8",
    "fp8mx": "mxfp8",
    "mxfp8": "mxfp8",
    "nvfp4": "nvfp4",
    "fp4": "nvfp4",
}


@dataclass(frozen=True)
class Machine:
    """Where it runs: device, GPUs that NVLink joins, network of one GPU out of that domain (bytes/s, one way), host work over x86's (1)."""

    device: str
    domain: int
    network_bytes_per_s: float
    host: float = 1.0


GRACE = 2.75
"""Host time of a linear layer's launch on a Grace CPU over that on a Xeon 8480C: 37.1 and 13.5 us
(github.com/NVIDIA/TransformerEngine/issues/2053)."""


MACHINES = {
    "a100": Machine("A100-SXM4-80GB", 8, 25e9),
    "a100_40gb": Machine("A100-SXM4-40GB", 8, 25e9),
    "h100": Machine("H100-SXM5-80GB", 8, 50e9),
    "h200": Machine("H200-SXM5-141GB", 8, 50e9),
    "b200": Machine("B200-SXM-180GB", 8, 50e9),
    "b300": Machine("B300-SXM-270GB", 8, 100e9),
    "gb200": Machine("GB200-186GB", 72, 50e9, GRACE),
    "gb300": Machine("GB300-279GB", 72, 100e9, GRACE),
    "gh200": Machine("GH200-96GB", 4, 50e9, GRACE),
    "v100": Machine("V100-SXM3-32GB", 16, 6.25e9),
}
"""Domain and network as the vendors build them: DGX A100 (HDR), DGX H100 and B200 (NDR), GB200 NVL72 (NDR), B300 and GB300 (XDR)."""

LONGEST_WRITTEN_OUT = 8192
"""Tokens of a sequence up to which an A100's program is taken to be the Megatron of 2021 to 2023: twice those of its longest published."""

MOST_LOCAL_EXPERTS = 64
"""Experts of a layer on one GPU in the measured runs (nemotron-3-super)."""

UNNAMED = Machine("A100-SXM4-80GB", 8, 12.5e9)
"""A table that names no device: eight A100 of 80 GB a node and 800 Gbit/s between nodes (vTrain's own configuration files, node_size and
inter_node_bandwidth: github.com/VIA-Research/vTrain, config/validation)."""


@dataclass(frozen=True)
class Case:
    """One training run.

    Attributes:
        name, shape: the model; machine: see `Machine`; gpus: count.
        sequence, micro_batch, global_batch: tokens of a sequence; sequences (counts).
        tensor, pipeline, data, context, expert, virtual: the plan (GPUs; chunks a stage).
        sharded: weights sharded over the data-parallel group (fsdp); regather: gathered again in the backward pass.
        precision: of the matrix products; recompute: none, selective or full; program: see `Program`.
        accumulation: microbatches a step where the table prints it (0: from the batch).
        trained: share of the weights that are updated (LoRA: 0).
        recipe: of a mixture of experts: what its table does not say.
        assumed: words for what the row does not say.
    """

    name: str
    shape: Shape
    machine: Machine
    gpus: int
    sequence: int
    micro_batch: float
    global_batch: float
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    context: int = 1
    expert: int = 1
    virtual: int = 1
    sharded: bool = False
    regather: bool = True
    precision: str = "bf16"
    recompute: str = ""
    program: Program = "megatron"
    accumulation: int = 0
    trained: bool = True
    recipe: Recipe = recipes.UNKNOWN
    assumed: tuple[str, ...] = field(default=())

    @property
    def microbatches(self) -> float:
        """Microbatches that a pipeline runs in a step; a last one that is not full counts by its share."""
        if self.accumulation:
            return self.accumulation
        return max(1.0, self.global_batch / (self.data * self.micro_batch))

    @property
    def padded_vocabulary(self) -> int:
        """Vocabulary as the programs pad it: a multiple of 128 times the tensor-parallel ways."""
        unit = 128 * self.tensor
        return math.ceil(self.shape.vocabulary / unit) * unit


def machine_of(text: str) -> Machine:
    """The machine that a cell names: DGX-GB200, h100_80gb, A100-SXM4-80GB.

    Raises:
        InputError: no such device.
    """
    plain = text.lower().replace(" ", "_").replace("-", "_")
    for prefix in ("dgx_", "hgx_", "nvidia_", "8x_", "8x"):
        plain = plain.removeprefix(prefix)
    base = plain
    for suffix in ("_gpu", "_nvl72", "_sxm", "_80gb", "_sxm5", "_sxm4"):
        base = base.removesuffix(suffix)
    if base in MACHINES:
        return MACHINES[base]
    if plain in MACHINES:
        return MACHINES[plain]
    device = devices.load(text)
    for machine in MACHINES.values():
        if machine.device == device.name:
            return machine
    if device.kind != "gpu" or device.vendor != "NVIDIA":
        raise InputError(f"no training model for {device.name}: NVIDIA GPUs from Volta on are covered")
    return Machine(device.name, 8, 50e9 if device.architecture in ("hopper", "blackwell") else 25e9)


def case(raw: dict[str, str]) -> Case:
    """A row, read.

    Args:
        raw: column -> text; columns of any of the known tables.
    Raises:
        InputError: what is missing or cannot be.
    """
    row: dict[str, str] = {}
    for key, value in raw.items():
        row.setdefault(OTHER_NAMES.get(key.strip(), key.strip()), str(value))
    assumed: list[str] = []
    where = (row.get("system") or row.get("device") or "").strip()
    gpus = count(row, "gpus")
    if gpus is None:
        raise InputError("gpus is missing")
    if where:
        machine = machine_of(where)
    else:
        machine = UNNAMED
        assumed.append("eight A100 of 80 GB a node, 800 Gbit/s between nodes")
    device = devices.load(machine.device)
    if where and machine not in MACHINES.values():
        assumed.append(f"eight GPUs a node, {8e-9 * machine.network_bytes_per_s:.0f} Gbit/s of network for each")
    sequence = count(row, "sequence_length")
    if sequence is None:
        raise InputError("sequence_length is missing")
    named = _model(row, sequence, assumed)
    sharding = row.get("sharding", "").strip().upper()
    tensor, pipeline = count(row, "tensor_parallel") or 1, count(row, "pipeline_parallel") or 1
    context, expert = count(row, "context_parallel") or 1, count(row, "expert_parallel") or 1
    flag = row.get("fsdp", "").strip().lower()
    fsdp = float(flag in ("t", "true", "y", "yes")) if flag in ("t", "true", "y", "yes", "f", "false", "no") else number(row, "fsdp")
    sharded = bool(fsdp) or sharding in ("FULL_SHARD", "SHARD_GRAD_OP")
    # attention written out holds a matrix of sequence x sequence: nobody runs it far beyond what those programs were published with;
    # gated layers, experts and sharded weights came to programs that had fused attention, which Volta has not
    old = device.architecture in ("volta", "ampere") and not sharding and context == 1 and sequence <= LONGEST_WRITTEN_OUT
    old = old and (device.architecture == "volta" or not (sharded or named.shape.gated or named.shape.experts))
    virtual = count(row, "virtual_pipeline", 0) or 1
    if pipeline > 1 and not row.get("virtual_pipeline", "").strip():
        assumed.append("one chunk of layers a stage (no interleaved schedule)")
    if gpus % (tensor * pipeline * context):
        raise InputError(f"{gpus} GPUs do not divide by tensor {tensor} x pipeline {pipeline} x context {context}")
    data = gpus // (tensor * pipeline * context)
    given = count(row, "data_parallel")
    if given is not None and given != data:
        raise InputError(f"data_parallel {given} x tensor {tensor} x pipeline {pipeline} x context {context} is not {gpus} GPUs")
    batch = number(row, "global_batch")
    micro = number(row, "micro_batch")
    if not batch:
        raise InputError("global_batch is missing")
    if micro and micro != int(micro):
        raise InputError(f"micro_batch {micro:g} must be a whole number")
    if not micro:
        micro = 1.0
        assumed.append("micro_batch 1")
    accumulation = count(row, "accumulation") or 0
    if not accumulation and micro * data > batch * 1.0001:
        raise InputError(f"micro_batch {micro:g} x data_parallel {data} is more than global_batch {batch:g}")
    text = row.get("precision", "").strip()
    plain = "".join(letter for letter in text.lower() if letter.isalnum())
    if not text:
        assumed.append("16-bit arithmetic")
    elif plain not in PRECISIONS:
        raise InputError(f"precision {text!r} is not covered (bf16, fp16, fp8, mxfp8, nvfp4)")
    precision = PRECISIONS.get(plain, "bf16")
    if plain in ("bf16", "ampbf16") and "bf16" not in device.peak:
        raise InputError(f"{device.name} has no BF16")
    if precision in ("fp8",) and "fp8" not in device.peak:
        raise InputError(f"{device.name} has no FP8")
    if precision in ("mxfp8", "nvfp4") and device.architecture != "blackwell":
        raise InputError(f"{device.name} has no {precision}")
    shape = named.shape
    if shape.heads % tensor:
        raise InputError(f"{shape.heads} heads do not divide by tensor_parallel {tensor}")
    if pipeline > shape.blocks:
        raise InputError(f"{pipeline} pipeline stages for {shape.blocks} layers")
    if pipeline * virtual > shape.blocks:
        raise InputError(f"{pipeline} pipeline stages of {virtual} chunks for {shape.blocks} layers")
    if expert > 1 and (not shape.experts or shape.experts.count % expert):
        raise InputError(f"expert_parallel {expert} does not divide the experts of {named.name}")
    if gpus // pipeline % expert:
        raise InputError(f"expert_parallel {expert} does not divide the {gpus // pipeline} GPUs of a pipeline stage")
    recompute = _recompute(row, assumed, old)
    kind = row.get("kind", "").strip().lower()
    program: Program = "megatron_2021" if old else "fsdp" if sharding else "megatron"
    if old:
        assumed.append("Megatron of 2021 to 2023: attention written out, dropout, no overlap, optimizer not sharded")
    elif program == "megatron":
        assumed.append("sequence parallelism, fused attention, sharded optimizer")
    recipe = recipes.UNKNOWN
    if shape.experts and program == "megatron":
        known = recipes.find(named.name, machine.device, expert)
        recipe = (known or recipe) if not recompute else (known or recipe).model_copy(update={"again": ()})
        assumed.append(f"experts as in {'its recipe in' if known else 'recipes of'} Megatron-Bridge: CUDA graphs {recipe.graphs}")
        if (held := shape.experts.count // expert) > MOST_LOCAL_EXPERTS:
            assumed.append(f"{held} experts on a GPU take host time in proportion: no measured run has more than {MOST_LOCAL_EXPERTS}")
    return Case(
        name=named.name,
        shape=shape,
        machine=machine,
        gpus=gpus,
        sequence=sequence,
        micro_batch=micro,
        global_batch=batch,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        context=context,
        expert=expert,
        virtual=virtual,
        sharded=sharded,
        regather=sharding != "SHARD_GRAD_OP",
        precision=precision,
        recompute=recompute,
        program=program,
        accumulation=accumulation,
        trained=kind != "lora",
        recipe=recipe,
        assumed=tuple(assumed),
    )


def _model(row: dict[str, str], sequence: int, assumed: list[str]) -> shapes.Named:
    name = row.get("model", "").strip()
    if name:
        try:
            named = shapes.load(name)
        except InputError:
            if not row.get("hidden_size", "").strip():
                raise
        else:
            return named
    hidden, heads, layers = count(row, "hidden_size"), count(row, "attention_heads"), count(row, "layers")
    if not (hidden and heads and layers):
        raise InputError("neither a model nor hidden_size, attention_heads and layers")
    if hidden % heads:
        raise InputError(f"hidden_size {hidden} does not divide by attention_heads {heads}")
    vocabulary = count(row, "vocabulary")
    if not vocabulary:
        vocabulary = 51200
        assumed.append("vocabulary 51,200 and a feed-forward layer four times as wide (GPT)")
    return shapes.Named(name or f"gpt-{hidden}x{layers}", shapes.gpt(hidden, heads, layers, vocabulary, sequence))


def _recompute(row: dict[str, str], assumed: list[str], old: bool) -> str:
    text = row.get("recompute", row.get("checkpointing", "")).strip().lower()
    if text in ("true", "full"):
        return "full"
    if text in ("false", "none", "no"):
        return "none"
    if text in ("selective", "seqsel"):
        return "selective"
    if text:
        raise InputError(f"recompute {text!r} is not covered (none, selective, full)")
    return ""


def settled(item: Case, recompute: str, why: str) -> Case:
    """The case with the recomputation that was decided for it."""
    return replace(item, recompute=recompute, assumed=(*item.assumed, why))


def read(frame: pd.DataFrame) -> tuple[list[Case | None], list[str]]:
    """Every row of a table (cells as text), and why those that could not be read could not."""
    return read_rows(frame, case)
