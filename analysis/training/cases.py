"""What does a row of a table of training runs say, and what has to be assumed? Rows of any of the known forms become `Case`s."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

import pandas as pd

from analysis.case_columns import Columns
from analysis.case_files import count, number, read_rows
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.training import recipes
from analysis.training.machines import Machine, of_row
from analysis.training.programs import PROGRAMS, Program
from analysis.training.programs import known as known_program
from analysis.training.recipes import Recipe
from analysis.workloads import models
from analysis.workloads.models import Model

OTHER_NAMES = {
    "Model": "model",
    "SeqLen (T)": "sequence_length",
    "# GPUs": "gpus",
    "GPU": "device",
    "MicroBatchSize": "micro_batch",
    "GlobalBatchSize": "global_batch",
    "Precision": "precision",
    "Sharding Strategy": "zero",
    "sharding": "zero",
    "fsdp": "zero",
    "Activation Checkpointing": "recompute",
    "checkpointing": "recompute",
    "GradAccum": "accumulation",
    "heads": "attention_heads",
    "hidden": "hidden_size",
    "num_attention_heads": "attention_heads",
    "num_hidden_layers": "layers",
    "ffn_hidden": "ffn",
    "ffn_hidden_size": "ffn",
    "intermediate_size": "ffn",
    "num_key_value_heads": "kv_heads",
    "num_query_groups": "kv_heads",
    "head_dim": "head_size",
    "kv_channels": "head_size",
    "num_experts": "experts",
    "num_local_experts": "experts",
    "experts_per_token": "top_k",
    "num_experts_per_tok": "top_k",
    "tied_embeddings": "tied",
    "tie_word_embeddings": "tied",
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
    "seq_length": "sequence_length",
    "virtual_pipeline_parallel": "virtual_pipeline",
    "interleave": "virtual_pipeline",
    "tensor_model_parallel": "tensor_parallel",
    "pipeline_model_parallel": "pipeline_parallel",
}
"""Column of a known table -> our name."""

COLUMNS = {
    "model": "a known model, or any name beside the sizes",
    "hidden_size": "width of the model",
    "attention_heads": "count",
    "layers": "count",
    "ffn": "width of the feed-forward layer, of each expert for mixtures; empty: four times hidden_size",
    "gated": "three feed-forward matrices in place of two (yes, no)",
    "kv_heads": "heads of keys and values; empty: attention_heads",
    "head_size": "width of a head; empty: hidden_size / attention_heads",
    "experts": "experts of a layer",
    "top_k": "experts that a token goes to",
    "tied": "output layer and embedding are one (yes, no)",
    "vocabulary": "tokens",
    "device": "GPU; empty: A100-SXM4-80GB",
    "system": "the same, as a machine: DGX-H100",
    "gpus": "count",
    "power_limit_w": "of a GPU; empty: the data sheet's",
    "memory_gb": "of a GPU, as vendors print it; empty: the data sheet's",
    "gpus_per_node": "GPUs that reach each other without the network; empty: the device's usual machine",
    "network_gbit_per_s_per_gpu": "network of one GPU; empty: the device's usual machine",
    "program": "a name of `PROGRAMS`, such as megatron, nemo, fsdp, fsdp_compiled, nanotron; any other text is 'other'",
    "framework_version": "of the program; not used, and named in `assumed`",
    "kind": "pretrain, sft, lora or qlora; empty: pretrain",
    "sequence_length": "tokens",
    "global_batch": "sequences of a step",
    "micro_batch": "sequences that a GPU works on at once",
    "accumulation": "microbatches of a step; empty: from the batch",
    "tensor_parallel": "GPUs",
    "pipeline_parallel": "GPUs",
    "virtual_pipeline": "chunks of layers on a stage",
    "data_parallel": "GPUs; empty: what remains",
    "context_parallel": "GPUs",
    "expert_parallel": "GPUs",
    "zero": "0 nothing, 1 optimizer states, 2 gradients too, 3 weights too are sharded; empty: the program's default",
    "zero_group": "GPUs over which they are sharded; empty: the data-parallel group",
    "precision": "of the matrix products: bf16, fp16, fp8, mxfp8, nvfp4",
    "fp8_recipe": "scales of fp8: tensorwise (delayed or current), rowwise or blockwise; empty: tensorwise",
    "async_tensor_parallel": "collectives of tensor parallelism beside products (yes, no); empty: the program's default",
    "bucket_mb": "message of the gradients' reduction; empty: the program's default",
    "output_layer": "last (on the last stage) or dealt (to the stages by its cost); empty: the program's default",
    "optimizer": "adamw, adamw_8bit, momentum or sgd; empty: adamw",
    "gradient_precision": "of the gradients that are held and reduced: fp32 or bf16; empty: the program's default",
    "recompute": "none, selective, full; empty: the program's default",
}
"""Every column that a case may have, and what it says; `OTHER_NAMES` are read too."""
READS = Columns(names=tuple(COLUMNS), aliases=OTHER_NAMES, carried=("framework",), meanings=COLUMNS)


def _spelled(meanings: Mapping[Any, str]) -> dict[str, Any]:
    return {word: meaning for meaning, words in meanings.items() for word in words.split()}


ZERO = _spelled(
    {
        0: "0 zero0 noshard ddp none no false f",
        1: "1 zero1 distributedoptimizer",
        2: "2 zero2 shardgradop",
        3: "3 zero3 fullshard fullysharded full fsdp fsdp2 true t yes y",
    }
)
"""Spelling, letters and digits alone -> what is sharded."""
KINDS = _spelled(
    {"pretrain": "pretrain pretraining train training full sft finetune finetuning fullfinetuning", "lora": "lora", "qlora": "qlora"}
)
RECIPES = _spelled({"tensorwise": "tensorwise delayed current perturbtensor", "rowwise": "rowwise", "blockwise": "blockwise"})
OPTIMIZERS = _spelled({8.0: "adamw adam", 2.0: "adamw8bit adam8bit", 4.0: "momentum muon lion", 0.0: "sgd"})
"""Optimizer -> bytes of its states a weight."""
GRADIENTS = _spelled({4.0: "fp32 float32", 2.0: "bf16 fp16 16bit"})
HEADS = _spelled({"last": "last", "dealt": "dealt"})
RECOMPUTE = _spelled({"none": "none no false 0", "selective": "selective seqsel", "full": "full true yes 1"})
YES_NO = _spelled({True: "yes true 1 t y", False: "no false 0 f n"})
EMPTY = ("", "na", "nan")
"""What stands in a cell that says nothing, letters alone (n/a)."""

SMALL = 3072
"""Hidden size up to which a gated model of own sizes is taken to tie output layer and embedding: Llama 3.2 1B and 3B, Qwen 2.5 to 3B do
(tie_word_embeddings in their config.json), larger ones do not."""

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


LONGEST_WRITTEN_OUT = 8192
"""Tokens of a sequence up to which an A100's program is taken to be the Megatron of 2021 to 2023: twice those of its longest published."""

MOST_LOCAL_EXPERTS = 64
"""Experts of a layer on one GPU in the measured runs (nemotron-3-super)."""


@dataclass(frozen=True)
class Case:
    """One training run.

    Attributes:
        name, shape: the model; machine: see `Machine`; gpus: count.
        sequence, micro_batch, global_batch: tokens of a sequence; sequences (counts).
        tensor, pipeline, data, context, expert, virtual: the plan (GPUs; chunks a stage).
        zero: what is sharded over `zero_group` GPUs (0: over all that hold the same weights): see `COLUMNS`.
        precision: of the matrix products; recompute: none, selective or full; program: a name of `PROGRAMS`.
        defaults: what the program does, with what the row changes of it; fp8_recipe: tensorwise, rowwise or blockwise.
        kind: pretrain, lora (weights are not updated) or qlora (and held in 4 bits); moments_bytes: optimizer states of a weight.
        recipe: of a mixture of experts: what its table does not say.
        assumed: words for what the row does not say.
    """

    name: str
    shape: Model
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
    zero: int = 1
    zero_group: int = 0
    precision: str = "bf16"
    recompute: str = "none"
    program: str = "megatron"
    defaults: Program = PROGRAMS["megatron"]
    fp8_recipe: str = "tensorwise"
    kind: str = "pretrain"
    moments_bytes: float = 8.0
    recipe: Recipe = recipes.UNKNOWN
    assumed: tuple[str, ...] = field(default=())

    @property
    def trained(self) -> bool:
        """Whether the weights are updated."""
        return self.kind == "pretrain"

    @property
    def written_out(self) -> bool:
        """Whether attention is a matrix product, a softmax and another product."""
        return self.defaults.attention == "written_out"

    @property
    def captured(self) -> bool:
        """Whether blocks of a dense model are captured in CUDA graphs, as NVIDIA's recipes do where the host would be too slow."""
        slow = self.machine.host > 1 or devices.load(self.machine.device).architecture == "blackwell"
        return slow and self.defaults.kernels == "fused" and not self.shape.experts

    @property
    def shards(self) -> float:
        """GPUs over which the weights that all but experts have are sharded, where `zero` shards something (count)."""
        return float(min(self.zero_group or self.data * self.context, self.data * self.context))

    @property
    def expert_replicas(self) -> float:
        """GPUs that hold the same routed experts (count)."""
        return max(1.0, self.data * self.context * self.tensor / self.expert)

    @property
    def microbatches(self) -> float:
        """Microbatches that a pipeline runs in a step."""
        return self.global_batch / (self.data * self.micro_batch)

    @property
    def padded_vocabulary(self) -> int:
        """Vocabulary as the programs pad it: a multiple of 128 times the tensor-parallel ways."""
        unit = 128 * self.tensor
        return math.ceil(self.shape.vocabulary / unit) * unit


def plain(text: str) -> str:
    """Letters and digits, in lower case."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


def choice(row: dict[str, str], key: str, known: Mapping[str, Any]) -> Any:
    """What a cell chooses from a list of spellings; None where it is empty.

    Raises:
        InputError: it is in none of them; the nearest is named.
    """
    text = row.get(key, "").strip()
    name = plain(text)
    if name in known:
        return known[name]
    if name in EMPTY:
        return None
    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InputError(f"{key} {text!r} is not covered ({', '.join(known)}){hint}", key=key)


def case(raw: dict[str, str]) -> Case:
    """A row, read: what it does not say is the program's default, or the usual machine's, and named in `assumed`.

    Args:
        raw: column -> text; `COLUMNS` and `OTHER_NAMES`.
    Raises:
        InputError: what is missing or cannot be.
    """
    row = {key.strip(): str(value) for key, value in raw.items()}
    if ZERO.get(plain(row.get("fsdp", ""))) == 0:  # says that weights are not sharded, not that nothing is
        row["fsdp"] = ""
    if (over := row.get("fsdp", "").strip()).isdigit() and int(over) > 3:  # Megatron-Bridge: GPUs over which all is sharded
        row |= {"fsdp": "3", "zero_group": row.get("zero_group", "").strip() or over}
    for key, value in list(row.items()):
        name = OTHER_NAMES.get(key, key)
        if not row.get(name, "").strip():
            row[name] = value
    assumed: list[str] = []
    gpus = count(row, "gpus")
    if gpus is None:
        raise InputError("gpus is missing")
    machine = of_row(row, assumed)
    if machine.tpu and gpus > machine.domain:
        raise InputError(f"{gpus} chips: a pod of {machine.device} has {machine.domain}", key="gpus")
    sequence = count(row, "sequence_length")
    if sequence is None:
        raise InputError("sequence_length is missing")
    text = row.get("program", "").strip()
    name, shape = _model(row, sequence, assumed)
    if shape.learned_positions and sequence > shape.learned_positions:
        assumed.append(f"learned positions for {sequence} tokens in place of {shape.learned_positions}")
    zero, zero_group = choice(row, "zero", ZERO), count(row, "zero_group") or 0
    context = count(row, "context_parallel") or 1
    program = _program(text, raw, zero, context, sequence, machine, shape, assumed)
    defaults = _settings(PROGRAMS[program], row)
    if version := row.get("framework_version", "").strip():
        assumed.append(f"framework_version {version} not used: releases of one program differ by 5 to 40 %")
    if zero is None:
        zero = defaults.zero
        assumed.append(f"ZeRO {zero}")
    recompute = choice(row, "recompute", RECOMPUTE)
    said = recompute is not None
    if not said:
        recompute = defaults.recompute
        assumed.append(f"recompute {recompute}")
    kind = choice(row, "kind", KINDS) or "pretrain"
    plan = _plan(row, gpus, name, shape, program, zero, assumed)
    _check_shares(shape, plan, zero_group, defaults, assumed)
    recipe, expert = recipes.UNKNOWN, plan["expert"]
    if shape.experts and defaults.attention != "written_out":
        known = recipes.find(name, machine.device, expert)
        recipe = (known or recipe) if not said else (known or recipe).model_copy(update={"again": ()})
        assumed.append(f"experts as in {'its recipe in' if known else 'recipes of'} Megatron-Bridge: CUDA graphs {recipe.graphs}")
        if (held := shape.experts.count // expert) > MOST_LOCAL_EXPERTS:
            assumed.append(f"{held} experts on a GPU take host time in proportion: no measured run has more than {MOST_LOCAL_EXPERTS}")
    fp8_recipe = choice(row, "fp8_recipe", RECIPES)
    if fp8_recipe and choice(row, "precision", PRECISIONS) in (None, "bf16"):
        raise InputError(f"fp8_recipe {fp8_recipe} is for products in 8 bits; precision is 16 bits")
    return Case(
        name=name,
        shape=shape,
        machine=machine,
        gpus=gpus,
        sequence=sequence,
        zero=zero,
        zero_group=zero_group,
        precision=_precision(row, machine, assumed),
        recompute=recompute,
        program=program,
        defaults=defaults,
        fp8_recipe=fp8_recipe or "tensorwise",
        kind=kind,
        moments_bytes=8.0 if (moments := choice(row, "optimizer", OPTIMIZERS)) is None else moments,
        recipe=recipe,
        assumed=tuple(assumed),
        **plan,
    )


def _settings(program: Program, row: dict[str, str]) -> Program:
    """A program with what a row changes of it."""
    found: dict[str, Any] = {
        "tensor_overlap": choice(row, "async_tensor_parallel", YES_NO),
        "output_layer": choice(row, "output_layer", HEADS),
        "reduced_bytes": choice(row, "gradient_precision", GRADIENTS),
        "held_bytes": choice(row, "gradient_precision", GRADIENTS),
        "bucket_bytes": None if (size := number(row, "bucket_mb")) is None else size * 1e6,
    }
    return replace(program, **{name: value for name, value in found.items() if value is not None})


def _program(
    text: str, raw: dict[str, str], zero: int | None, context: int, sequence: int, machine: Machine, shape: Model, assumed: list[str]
) -> str:
    """The program that a row names, or the one that its other cells imply."""
    if machine.tpu:
        if shape.linear:
            raise InputError(f"no training model for state spaces on {machine.device}", key="model")
        if text and known_program(text) != "maxtext":
            raise InputError(f"on {machine.device} the program maxtext is covered, not {text!r}", key="program")
        assumed.append("program maxtext, which offloads to the host what is counted on the chip here: memory is an upper bound")
        return "maxtext"
    if text:
        found = known_program(text)
        if found:
            return found
        assumed.append(f"program {text!r}: {PROGRAMS['other'].words}")
        return "other"
    if "Sharding Strategy" in raw:
        found = "llm_foundry"
    elif devices.load(machine.device).kind == "tpu":
        found = "maxtext"
    elif (zero or 0) >= 2:
        found = "fsdp"
    else:
        # attention written out holds a matrix of sequence x sequence: nobody runs it far beyond what those programs were published with;
        # gated layers, experts and sharded weights came to programs that had fused attention, which Volta has not
        architecture = devices.load(machine.device).architecture
        old = architecture in ("volta", "ampere") and context == 1 and sequence <= LONGEST_WRITTEN_OUT
        newer = (zero or 0) >= 2 or shape.gated or shape.experts
        found = "megatron_2021" if old and (architecture == "volta" or not newer) else "megatron"
    assumed.append(f"program {found}: {PROGRAMS[found].words}")
    return found


PLANS = ("tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel")


def _plan(row: dict[str, str], gpus: int, name: str, shape: Model, program: str, zero: int, assumed: list[str]) -> dict[str, Any]:
    """Degrees of parallelism and batches.

    Raises:
        InputError: they do not divide the GPUs, the batch or the model.
    """
    tensor, pipeline = count(row, "tensor_parallel") or 1, count(row, "pipeline_parallel") or 1
    context, expert = count(row, "context_parallel") or 1, count(row, "expert_parallel") or 1
    virtual = count(row, "virtual_pipeline", 0) or 1
    batch, micro = number(row, "global_batch"), number(row, "micro_batch")
    if not batch:
        raise InputError("global_batch is missing")
    if program == "maxtext" and not any(row.get(key, "").strip() for key in PLANS) and batch < gpus and gpus % batch == 0:
        context = gpus // int(batch)
        assumed.append(f"sequences cut over {context} devices (context parallelism), since there are fewer of them than devices")
    if pipeline > 1 and not row.get("virtual_pipeline", "").strip():
        assumed.append("one chunk of layers a stage (no interleaved schedule)")
    if gpus % (tensor * pipeline * context):
        raise InputError(f"{gpus} GPUs do not divide by tensor {tensor} x pipeline {pipeline} x context {context}")
    data = gpus // (tensor * pipeline * context)
    given = count(row, "data_parallel")
    if given is not None and given != data:
        raise InputError(f"data_parallel {given} x tensor {tensor} x pipeline {pipeline} x context {context} is not {gpus} GPUs")
    if micro and micro != int(micro):
        raise InputError(f"micro_batch {micro:g} must be a whole number")
    accumulation = count(row, "accumulation") or 0
    if not micro:
        micro = float(max(1, int(batch) // (data * (accumulation or 1)))) if accumulation or zero == 3 else 1.0
        whole = ": the whole batch of a device at once" if zero == 3 and not accumulation else ""
        assumed.append(f"micro_batch {micro:.0f}{whole}")
    if accumulation and accumulation * data * micro != batch:
        said = f"accumulation {accumulation} x data_parallel {data} x micro_batch {micro:g} is {accumulation * data * micro:g}"
        raise InputError(f"{said}, not global_batch {batch:g}", key="accumulation")
    if micro * data > batch:
        raise InputError(f"micro_batch {micro:g} x data_parallel {data} is more than global_batch {batch:g}")
    if batch % (data * micro):
        each = f"data_parallel {data} x micro_batch {micro:g}: {batch / (data * micro):g} microbatches"
        raise InputError(f"global_batch {batch:g} does not divide by {each}", key="global_batch")
    if shape.heads % tensor:
        raise InputError(f"{shape.heads} heads do not divide by tensor_parallel {tensor}")
    if pipeline > shape.blocks:
        raise InputError(f"{pipeline} pipeline stages for {shape.blocks} layers")
    if pipeline * virtual > shape.blocks:
        raise InputError(f"{pipeline} pipeline stages of {virtual} chunks for {shape.blocks} layers")
    if expert > 1 and (not shape.experts or shape.experts.count % expert):
        raise InputError(f"expert_parallel {expert} does not divide the experts of {name}")
    if gpus // pipeline % expert:
        raise InputError(f"expert_parallel {expert} does not divide the {gpus // pipeline} GPUs of a pipeline stage")
    degrees = {"tensor": tensor, "pipeline": pipeline, "data": data, "context": context, "expert": expert, "virtual": virtual}
    return {**degrees, "micro_batch": micro, "global_batch": batch}


def whole_stages(shape: Model, chunks: int) -> bool:
    """Whether so many chunks of stages get whole layers each, embedding and output layer counted as layers or not."""
    return any((own + ends) % chunks == 0 for own in (shape.blocks, shape.attention_layers or shape.blocks) for ends in (0, 1, 2))


def _check_shares(shape: Model, plan: dict[str, Any], zero_group: int, defaults: Program, assumed: list[str]) -> None:
    """Refuse stages that do not get whole layers, chunks without stages, and a group of ZeRO that is no part of the replicas.

    Embedding and output layer may count as a layer each when layers are dealt to the stages (Llama 3: 126 + 2 over 16). Megatron's core
    asserts that layers divide (megatron/core/transformer/transformer_block.py, get_num_layers_to_build); others may deal them unevenly.
    """
    pipeline, virtual, replicas = plan["pipeline"], plan["virtual"], plan["data"] * plan["context"]
    if virtual > 1 and pipeline == 1:
        raise InputError(f"virtual_pipeline {virtual} without pipeline_parallel: it counts chunks of a stage", key="virtual_pipeline")
    if pipeline > 1 and not whole_stages(shape, pipeline * virtual) and (virtual > 1 or defaults.kernels in ("old", "fused")):
        counted = f"{shape.blocks} layers, or {shape.blocks + 2} with embedding and output layer, do not divide by"
        raise InputError(f"{counted} pipeline_parallel {pipeline} x virtual_pipeline {virtual}", key="pipeline_parallel")
    if shape.blocks % pipeline and defaults.output_layer != "dealt":
        assumed.append(f"{shape.blocks} layers over {pipeline} stages: {shape.blocks / pipeline:.3g} counted on each")
    if zero_group and replicas % zero_group:
        of = f"data_parallel {plan['data']} x context_parallel {plan['context']}"
        raise InputError(f"zero_group {zero_group} does not divide {of}", key="zero_group")


def _precision(row: dict[str, str], machine: Machine, assumed: list[str]) -> str:
    device = devices.load(machine.device)
    if not {"bf16", "fp16"} & set(device.peak):
        raise InputError(f"{device.name} has no 16-bit arithmetic, which training needs: {', '.join(device.peak)}", key="device")
    text = plain(row.get("precision", ""))
    precision: str | None = choice(row, "precision", PRECISIONS)
    if precision is None:
        assumed.append("16-bit arithmetic")
        return "bf16"
    if device.kind == "tpu" and precision not in ("bf16", "fp8"):
        raise InputError(f"no training model for {text} on {device.name}: bf16 and fp8 are covered", key="precision")
    if text in ("bf16", "ampbf16") and "bf16" not in device.peak:
        raise InputError(f"{device.name} has no BF16")
    if precision == "fp8" and "fp8" not in device.peak:
        raise InputError(f"{device.name} has no FP8")
    if precision in ("mxfp8", "nvfp4") and device.architecture != "blackwell":
        raise InputError(f"{device.name} has no {precision}")
    return precision


SIZES = ("hidden_size", "attention_heads", "layers", "ffn", "kv_heads", "head_size", "experts", "top_k")
"""Sizes of a model that a row may give (counts)."""


def _model(row: dict[str, str], sequence: int, assumed: list[str]) -> tuple[str, Model]:
    """The network's name and its description, blocks for multi-token prediction among its layers."""
    name = row.get("model", "").strip()
    sizes = {key: count(row, key) for key in SIZES}
    gated, tied, vocabulary = choice(row, "gated", YES_NO), choice(row, "tied", YES_NO), count(row, "vocabulary")
    if name:
        try:
            known = models.load(name)
        except InputError:
            if not sizes["hidden_size"]:
                raise
        else:
            if known.linear and known.linear.kind != "mamba2":
                kind = "Mamba layers" if known.linear.kind == "mamba" else "layers of the gated delta rule"
                assumed.append(f"{kind} timed as those of Mamba 2")
            return known.network, _as_said(known.with_mtp(), sizes, gated, tied, vocabulary, name, assumed)
    hidden, heads, layers, ffn = (sizes[key] for key in ("hidden_size", "attention_heads", "layers", "ffn"))
    if not (hidden and heads and layers):
        raise InputError("neither a known model nor hidden_size, attention_heads and layers", key="model")
    if hidden % heads and not sizes["head_size"]:
        raise InputError(f"hidden_size {hidden} does not divide by attention_heads {heads}: give head_size", key="head_size")
    kv = sizes["kv_heads"] or heads
    if heads % kv:
        raise InputError(f"attention_heads {heads} does not divide by kv_heads {kv}", key="kv_heads")
    experts, top_k = sizes["experts"] or 0, sizes["top_k"]
    if top_k and not experts:
        raise InputError("top_k without experts", key="experts")
    if experts and not (top_k and ffn and top_k <= experts):
        raise InputError("experts need top_k, at most their number, and ffn, the width of each", key="top_k")
    if gated is None:
        llama = PROGRAMS[known_program(row.get("program", "")) or "other"].gated
        gated = bool(experts or llama or sizes["kv_heads"] or (ffn and ffn != 4 * hidden))
        assumed.append(f"{'gated' if gated else 'no gated'} feed-forward layers")
    if tied is None:
        tied = not gated or hidden <= SMALL
        assumed.append(f"output layer and embedding {'are one' if tied else 'are apart'}")
    if not vocabulary:
        vocabulary = 51200
        assumed.append("vocabulary 51,200")
    if not ffn:
        ffn = 4 * hidden
        assumed.append("a feed-forward layer four times as wide as the model")
    attention = {"heads": heads, "kv_heads": kv, "head_size": sizes["head_size"] or hidden // heads, "biases": "none" if gated else "all"}
    widths = {"experts": {"count": experts, "per_token": top_k, "width": ffn}} if experts else {"dense_width": ffn}
    older = {} if gated else {"positions": "learned", "context": sequence, "norm": "layer", "ffn_biases": True}
    own = {"hidden": hidden, "layers": layers, "vocabulary": vocabulary, "gated": gated, "tied": tied, "attention": attention}
    shape = Model.model_validate({**own, **widths, **older})
    return name or f"gpt-{hidden}x{layers}", shape


def _as_said(
    shape: Model,
    sizes: dict[str, int | None],
    gated: bool | None,
    tied: bool | None,
    vocabulary: int | None,
    name: str,
    assumed: list[str],
) -> Model:
    """A known model with the vocabulary of the row.

    Raises:
        InputError: another size of the row is not the model's.
    """
    mixture = shape.experts
    own = {
        "hidden_size": shape.hidden, "attention_heads": shape.heads, "layers": shape.blocks, "kv_heads": shape.kv_heads,
        "head_size": shape.head_size, "ffn": shape.dense_width if not mixture else mixture.width,
        "experts": mixture.count if mixture else 0, "top_k": mixture.per_token if mixture else 0,
    }  # fmt: skip
    for key, value in {**sizes, "gated": gated, "tied": tied}.items():
        has = {**own, "gated": shape.gated, "tied": shape.tied}[key]
        if value is not None and value != has and not (key == "layers" and value == shape.attention_layers):
            raise InputError(f"{key} {value} is not that of {shape.name} ({has}): leave model empty to use the sizes of the row", key=key)
    if plain(shape.name) not in plain(name):
        assumed.append(f"model {shape.name}")
    if vocabulary and vocabulary != shape.vocabulary:
        assumed.append(f"{shape.name} with {vocabulary:,} tokens of vocabulary in place of {shape.vocabulary:,}")
        shape = shape.model_copy(update={"vocabulary": vocabulary})
    return shape


def read(frame: pd.DataFrame) -> tuple[list[Case | None], list[str]]:
    """Every row of a table (cells as text), and why those that could not be read could not."""
    return read_rows(frame, case)
