"""What does a row of a table of training runs say, and what has to be assumed? Rows of any of the known forms become `Cases`.

A table is read by its columns: what a few cells say together (the machine, the model, the program) is worked out once for each different
text of theirs, and the plan, whose numbers differ from row to row, in arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_columns import Columns
from analysis.case_files import count, number
from analysis.case_rows import Rows, Shared, alike
from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.training.kernels import OLDER, beyond_flash_2
from analysis.training.machines import Machine, of_row
from analysis.training.programs import PROGRAMS, UNKNOWN_RECIPE, Attention, Program, Recipe, recipe_of
from analysis.training.programs import known as known_program
from analysis.vocabulary import plain
from analysis.workloads import models
from analysis.workloads.models import Model

Ints = NDArray[np.int64]


class ColumnFile(Strict):
    """`data/workloads/training_columns.yaml`: what each column says, other names, and the spellings of each choice, separated by spaces."""

    columns: dict[str, str]
    aliases: dict[str, str]
    spellings: dict[str, dict[bool | int | float | str, str]]


_FILE = read_yaml(DATA / "workloads" / "training_columns.yaml", ColumnFile)
COLUMNS, OTHER_NAMES = _FILE.columns, _FILE.aliases
"""Every column that a case may have, and what it says; column of a known table -> our name, where `vocabulary` does not have it."""
READS = Columns(names=tuple(COLUMNS), aliases=OTHER_NAMES, carried=("framework",), meanings=COLUMNS)
SPELLINGS: dict[str, dict[str, Any]] = {
    key: {word: meaning for meaning, words in meanings.items() for word in words.split()} for key, meanings in _FILE.spellings.items()
}
"""Column -> spelling, letters and digits alone -> what it means."""
EMPTY = ("", "na", "nan")
"""What stands in a cell that says nothing, letters alone (n/a)."""

SMALL = 3072
"""Hidden size up to which a gated model of own sizes is taken to tie output layer and embedding: Llama 3.2 1B and 3B, Qwen 2.5 to 3B do
(tie_word_embeddings in their config.json), larger ones do not."""

LONGEST_WRITTEN_OUT = 8192
"""Tokens of a sequence up to which an A100's program is taken to be the Megatron of 2021 to 2023: twice those of its longest published."""

MOST_LOCAL_EXPERTS = 64
"""Experts of a layer on one GPU in the measured runs (nemotron-3-super)."""


class _Run:
    """What follows from the facts of one run, or of each of many."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A field of `Case`."""

    @property
    def trained(self) -> Any:
        """Whether the weights are updated."""
        return self.kind == "pretrain"

    @property
    def written_out(self) -> Any:
        """Whether attention is a matrix product, a softmax and another product."""
        return self.defaults.attention == "written_out"

    @property
    def gathers_8_bits(self) -> Any:
        """Whether weights and activations are gathered in 8 bits: by torchao with one scale a tensor, which all know before they gather
        (github.com/pytorch/ao, float8/fsdp_utils.py, float8_tensor_parallel.py; on in benchmarks/float8/training)."""
        return (self.precision == "fp8") & (self.fp8_recipe == "tensorwise") & self.program.isin("fsdp", "fsdp_compiled")

    @property
    def shards(self) -> Any:
        """GPUs over which the weights that all but experts have are sharded, where `zero` shards something (count)."""
        replicas = self.data * self.context
        return np.minimum(np.where(self.zero_group, self.zero_group, replicas), replicas) * 1.0

    @property
    def expert_replicas(self) -> Any:
        """GPUs that hold the same routed experts (count)."""
        return np.maximum(1.0, self.data * self.context * self.tensor / self.expert)

    @property
    def microbatches(self) -> Any:
        """Microbatches that a pipeline runs in a step."""
        return self.global_batch / (self.data * self.micro_batch)

    @property
    def padded_vocabulary(self) -> Any:
        """Vocabulary as the programs pad it: a multiple of 128 times the tensor-parallel ways."""
        unit = 128 * self.tensor
        return np.ceil(self.shape.vocabulary / unit) * unit


@dataclass(frozen=True)
class Case(_Run):
    """One training run.

    Attributes:
        name, shape: the model; machine: see `Machine`; gpus: count.
        sequence, micro_batch, global_batch: tokens of a sequence; sequences (counts).
        tensor, pipeline, data, context, expert, virtual: the plan (GPUs; chunks a stage).
        zero: what is sharded over `zero_group` GPUs (0: over all that hold the same weights): see `COLUMNS`.
        precision: of the matrix products; recompute: none, selective or full; program: a name of `PROGRAMS`.
        defaults: what the program does, with what the row changes of it; fp8_recipe: tensorwise, rowwise or blockwise.
        kind: pretrain, lora (weights are not updated) or qlora (and held in 4 bits).
        weight_bytes, moments_bytes: of a weight that the optimizer updates, and of its states.
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
    weight_bytes: float = 4.0
    moments_bytes: float = 8.0
    recipe: Recipe = UNKNOWN_RECIPE
    assumed: tuple[str, ...] = field(default=())


NUMBERS = {item.name: item.type for item in fields(Case) if item.type in ("int", "float")}
"""Fields of a `Case` that are numbers, and of which type."""


class Cases(_Run, Sequence[Case]):
    """Many runs by column: each field of a `Case` is an array (numbers) or a `Shared` column."""

    def __init__(self, **columns: Any) -> None:
        vars(self).update({item.name: columns[item.name] for item in fields(Case)})

    @classmethod
    def of(cls, runs: Case | Sequence[Case]) -> Cases:
        """One run or many as columns."""
        if isinstance(runs, Cases):
            return runs
        cases = [runs] if isinstance(runs, Case) else runs
        every = {item.name: [getattr(case, item.name) for case in cases] for item in fields(Case)}
        return cls(**{name: np.array(v, np.float64) if name in NUMBERS else Shared.of(v) for name, v in every.items()})

    def __len__(self) -> int:
        return len(self.gpus)

    def __getitem__(self, index: Any) -> Any:
        row = {name: column[index] for name, column in vars(self).items()}
        return Case(**{name: {"int": int, "float": float}[NUMBERS[name]](v) if name in NUMBERS else v for name, v in row.items()})

    @property
    def device(self) -> Shared:
        """The device of each run, as `analysis.hardware` describes it."""
        return Shared.of([devices.load(machine.device) for machine in self.machine.distinct]).spread(self.machine.codes)

    def take(self, rows: Any) -> Cases:
        """Some of the runs, by their places or a mask."""
        return Cases(**{name: column.take(rows) if isinstance(column, Shared) else column[rows] for name, column in vars(self).items()})

    def replace(self, **columns: Any) -> Cases:
        """The same with some columns changed; text is that of every run."""
        new = {name: Shared([v], np.zeros(len(self), np.int64)) if isinstance(v, str) else v for name, v in columns.items()}
        return Cases(**{**vars(self), **new})

    def once(self, function: Callable[[Case], Any], *columns: Any) -> Any:
        """A function of a run that depends on these columns alone, worked out once where they are alike."""
        codes, first = alike(*columns)
        return Shared([function(self[row]) for row in first], codes).each(lambda value: value)


def choice(row: dict[str, str], key: str) -> Any:
    """What a cell chooses, by the `SPELLINGS` of its column; None where it is empty."""
    text, known = row.get(key, "").strip(), SPELLINGS[key]
    name = plain(text.removesuffix(".0"))  # a whole number in a column that a program wrote as decimals
    if name in known:
        return known[name]
    if name in EMPTY:
        return None
    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InputError(f"{key} {text!r} is not covered ({', '.join(known)}){hint}", key=key)


def _megatron_bridge_fsdp(rows: Rows) -> None:
    """Megatron-Bridge's column `fsdp`: 0 leaves sharding to the other columns; a count shards everything over so many GPUs."""
    column = rows.text("fsdp")
    over = column.each(lambda cell: cell.strip() if cell.strip().isdigit() and int(cell) > 3 else "")
    shards = [
        ("" if SPELLINGS["zero"].get(plain(cell)) == 0 else "3" if gpus else cell)
        for cell, gpus in zip(column.distinct, over.distinct, strict=True)
    ]
    rows.columns["fsdp"] = Shared(shards, column.codes)
    rows.columns["zero_group"] = rows.joined(rows.text("zero_group"), over)


def read(frame: pd.DataFrame) -> tuple[Cases, NDArray[np.int64], dict[int, InputError]]:
    """The rows of a table that can be read, their places in it, and why each of the others could not.

    What a row does not say is the program's default, or the usual machine's, and named in `assumed`.
    """
    rows = Rows(frame)
    if "fsdp" in rows.columns:
        _megatron_bridge_fsdp(rows)
    rows.rename({label: called for label in rows.called if (called := READS.read_as(label))})
    (gpus,) = rows.numbers(["gpus"])
    rows.refuse(gpus == 0, "gpus is missing")
    machine = rows.each(_machine, ["gpus", *MACHINE_CELLS])
    (sequence,) = rows.numbers(["sequence_length"])
    rows.refuse(sequence == 0, "sequence_length is missing")
    named = rows.each(_model, ["model", *SIZES, "gated", "tied", "vocabulary", "program"], sequence)
    name, shape = named.each(lambda pair: pair and pair[0]), named.each(lambda pair: pair and pair[1])
    setting = rows.each(partial(_setting, rows.called), SETTING_CELLS, sequence, machine, shape)
    if rows.refused.all():
        return Cases.of([]), np.empty(0, np.int64), rows.errors
    said = _parts(setting)
    plan = _plan(rows, gpus, name, shape, said)
    _check_shares(rows, shape, said, plan)
    recipe = rows.each(_recipe, [], name, shape, machine, said["defaults"], said["given"], plan["expert"])
    said |= _parts(rows.each(_precision, ["fp8_recipe", "precision", "optimizer", "weight_precision"], machine, said["program"]))
    kept = np.flatnonzero(~rows.refused)
    if not kept.size:
        return Cases.of([]), kept, rows.errors
    columns = {"name": name, "shape": shape, "machine": machine, "gpus": gpus, "sequence": sequence, "recipe": recipe, **plan, **said}
    return Cases(**columns, assumed=rows.assumed()).take(kept), kept, rows.errors


def _parts(column: Shared) -> dict[str, Any]:
    """The columns of the facts in a column of dictionaries."""
    keys: dict[str, Any] = next((found for found in column.distinct if found), {})
    return {key: column.each(partial(_fact, key)) for key in keys}


def _fact(key: str, found: dict[str, Any] | None) -> Any:
    return found and found[key]


def case(raw: Mapping[str, str]) -> Case:
    """One row, read as `read` does."""
    cases, _, errors = read(pd.DataFrame([{key: str(value) for key, value in raw.items()}], dtype=object))
    if errors:
        raise errors[0]
    found: Case = cases[0]
    return found


MACHINE_CELLS = ("system", "device", "gpus_per_node", "network_gbit_per_s_per_gpu", "power_limit_w", "memory_gb")


def _machine(row: dict[str, str], assumed: list[str]) -> Machine:
    gpus, machine = count(row, "gpus"), of_row(row, assumed)
    if machine.tpu and (gpus or 0) > machine.domain:
        raise InputError(f"{gpus} chips: a pod of {machine.device} has {machine.domain}", key="gpus")
    return machine


SETTING_CELLS = (
    *("program", "zero", "zero_group", "context_parallel", "framework_version", "recompute", "kind", "async_tensor_parallel"),
    *("output_layer", "gradient_precision", "weight_precision", "bucket_mb"),
)


def _setting(
    columns: Collection[str], row: dict[str, str], sequence: float, machine: Machine, shape: Model, assumed: list[str]
) -> dict[str, Any]:
    """What the program does: its name, its defaults, what is sharded and recomputed; `given`: whether the row says what is recomputed."""
    zero, zero_group = choice(row, "zero"), count(row, "zero_group") or 0
    context = count(row, "context_parallel") or 1
    program = _program(row.get("program", "").strip(), columns, zero, context, int(sequence), machine, shape, assumed)
    defaults = _settings(PROGRAMS["maxtext" if machine.tpu else program], row)
    if version := row.get("framework_version", "").strip():
        attention = _attention_of_release(program, version, machine)
        defaults = replace(defaults, attention=attention or defaults.attention)
        kernel = {"latest": "attention by cuDNN", "flash_2": "FlashAttention 2"}.get(attention or "")
        used = f": {kernel}" if kernel else " not used: releases of one program differ by 5 to 40 %"
        assumed.append(f"framework_version {version}{used}")
    elif program in ("fsdp", "fsdp_compiled") and beyond_flash_2(devices.load(machine.device)):
        assumed.append(f"attention by FlashAttention 2, as in PyTorch before 2.{CUDNN_FROM}")
    if zero is None:
        zero = defaults.zero
        assumed.append(f"ZeRO {zero}")
    recompute = choice(row, "recompute")
    given = recompute is not None
    if not given:
        recompute = defaults.recompute
        assumed.append(f"recompute {recompute}")
    kind = choice(row, "kind") or "pretrain"
    named = {"program": program, "defaults": defaults, "recompute": recompute, "given": given, "kind": kind}
    return {**named, "zero": zero, "zero_group": zero_group}


CUDNN_FROM = 11
"""Release 2.x of PyTorch from which attention on Hopper and on Blackwell with HBM is cuDNN's (aten/src/ATen/native/transformers/cuda/
sdp_utils.cpp, check_prefer_cudnn_attention; the kernels of data/recorded/h200_own/step.json.gz); in 2.9 it was FlashAttention 2."""


def _attention_of_release(program: str, version: str, machine: Machine) -> Attention | None:
    """The attention kernel that a release of PyTorch takes; None where the program or the release is not known."""
    release = re.match(r"v?2\.(\d+)", version)
    if program not in ("fsdp", "fsdp_compiled") or release is None:
        return None
    return "latest" if beyond_flash_2(devices.load(machine.device)) and int(release[1]) >= CUDNN_FROM else "flash_2"


def _recipe(
    row: dict[str, str], name: str, shape: Model, machine: Machine, defaults: Program, given: bool, expert: int, assumed: list[str]
) -> Recipe:
    """The recipe of a mixture of experts; given: the row says what is recomputed."""
    if not shape.experts or defaults.attention == "written_out":
        return UNKNOWN_RECIPE
    known = recipe_of(name, machine.device, int(expert))
    recipe = (known or UNKNOWN_RECIPE).model_copy(update={"again": ()} if given else {})
    assumed.append(f"experts as in {'its recipe in' if known else 'recipes of'} Megatron-Bridge: CUDA graphs {recipe.graphs}")
    if (held := shape.experts.count // int(expert)) > MOST_LOCAL_EXPERTS:
        assumed.append(f"{held} experts on a GPU take host time in proportion: no measured run has more than {MOST_LOCAL_EXPERTS}")
    return recipe


def _settings(program: Program, row: dict[str, str]) -> Program:
    """A program with what a row changes of it; gradients of 16-bit weights are in 16 bits unless the row says otherwise."""
    gradient = choice(row, "gradient_precision") or (2.0 if choice(row, "weight_precision") == 2 else None)
    found: dict[str, Any] = {
        "tensor_overlap": choice(row, "async_tensor_parallel"),
        "output_layer": choice(row, "output_layer"),
        "reduced_bytes": gradient,
        "held_bytes": gradient,
        "bucket_bytes": None if (size := number(row, "bucket_mb")) is None else size * 1e6,
    }
    return replace(program, **{name: value for name, value in found.items() if value is not None})


def _program(
    text: str, columns: Collection[str], zero: int | None, context: int, sequence: int, machine: Machine, shape: Model, assumed: list[str]
) -> str:
    """The program that a row names, or the one that its other cells imply."""
    if machine.tpu:
        if shape.linear:
            raise InputError(f"no training model for state spaces on {machine.device}", key="model")
        if text and known_program(text) not in (None, "maxtext"):
            raise InputError(f"on {machine.device} the program maxtext is covered, not {text!r}", key="program")
        other = bool(text) and known_program(text) is None
        name = f"{text!r}: as maxtext" if other else "maxtext"
        assumed.append(f"program {name}, which offloads to the host what is counted on the chip here: memory is an upper bound")
        return "other" if other else "maxtext"
    if text:
        found = known_program(text)
        if found:
            return found
        assumed.append(f"program {text!r}: {PROGRAMS['other'].words}")
        return "other"
    if "Sharding Strategy" in columns:
        found = "llm_foundry"
    elif (zero or 0) >= 2:
        found = "fsdp"
    else:
        # attention written out holds a matrix of sequence x sequence: nobody runs it far beyond what those programs were published with;
        # gated layers and experts came to programs that had fused attention, which Volta has not
        architecture = devices.load(machine.device).architecture
        old = architecture in OLDER and context == 1 and sequence <= LONGEST_WRITTEN_OUT
        found = "megatron_2021" if old and (architecture != "ampere" or not (shape.gated or shape.experts)) else "megatron"
    assumed.append(f"program {found}: {PROGRAMS[found].words}")
    return found


MOST_CUT = 8
"""GPUs over which weights are cut where a row has no plan, and fewer sequences than GPUs."""
PLANS = ("tensor_parallel", "pipeline_parallel", "context_parallel", "data_parallel")


def _plan(rows: Rows, gpus: Ints, name: Shared, shape: Shared, said: dict[str, Any]) -> dict[str, Any]:
    """Degrees of parallelism and batches; refused where they do not divide the GPUs, the batch or the model."""
    program, zero = said["program"], said["zero"]
    tensor, pipeline, context, expert = (
        np.maximum(ways, 1) for ways in rows.numbers(["tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"])
    )
    (virtual,) = rows.numbers(["virtual_pipeline"], partial(count, least=0))
    virtual = np.maximum(virtual, 1)
    batch, micro = (column.astype(np.float64) for column in rows.numbers(["global_batch", "micro_batch"], number))
    filled = {key: rows.text(key).each(lambda cell: bool(cell.strip())) for key in (*PLANS, "virtual_pipeline")}
    rows.refuse(batch == 0, "global_batch is missing")
    whole = np.maximum(batch, 1)  # refused rows go on with numbers that divide
    share, tpu = gpus // whole.astype(np.int64), program == "maxtext"
    cut = ~np.any([filled[key] for key in PLANS], axis=0) & (batch < gpus) & (gpus % whole == 0) & (tpu | (share <= MOST_CUT))
    context, tensor = np.where(cut & tpu, share, context), np.where(cut & ~tpu, share, tensor)
    words = "{} cut over {} devices ({} parallelism), since there are fewer sequences than devices"
    kinds = {True: ("sequences", "context"), False: ("weights", "tensor")}
    rows.note(cut, lambda row: words.format(kinds[bool(tpu[row])][0], share[row], kinds[bool(tpu[row])][1]), share, tpu)
    rows.note((pipeline > 1) & ~filled["virtual_pipeline"], "one chunk of layers a stage (no interleaved schedule)")
    facts: dict[str, Any] = {"gpus": gpus, "tensor": tensor, "pipeline": pipeline, "context": context, "batch": batch}
    ways = "tensor {tensor} x pipeline {pipeline} x context {context}"
    rows.refuse(gpus % (tensor * pipeline * context) != 0, f"{{gpus}} GPUs do not divide by {ways}", **facts)
    data = np.maximum(gpus // (tensor * pipeline * context), 1)
    (given,) = rows.numbers(["data_parallel"])
    rows.refuse((given > 0) & (given != data), f"data_parallel {{given}} x {ways} is not {{gpus}} GPUs", given=given, **facts)
    rows.refuse(micro != np.floor(micro), "micro_batch {micro:g} must be a whole number", micro=micro)
    (accumulation,) = rows.numbers(["accumulation"])
    most = np.maximum(1, batch.astype(np.int64) // (data * np.maximum(accumulation, 1)))
    none, at_once = micro == 0, (zero == 3) & (accumulation == 0) & (pipeline == 1)
    micro = np.where(none, np.where((accumulation > 0) | at_once, most, 1.0), micro)
    rows.note(
        none, lambda row: f"micro_batch {micro[row]:.0f}{': the whole batch of a device at once' if at_once[row] else ''}", micro, at_once
    )
    counted, replicas = accumulation * data * micro, "data_parallel {data} x micro_batch {micro:g}"
    facts |= {"data": data, "micro": micro, "heads": shape.heads, "blocks": shape.blocks, "virtual": virtual, "expert": expert}
    rows.refuse(
        (accumulation > 0) & (counted != batch),
        f"accumulation {{accumulation}} x {replicas} is {{counted:g}}, not global_batch {{batch:g}}",
        "accumulation", accumulation=accumulation, counted=counted, **facts,
    )  # fmt: skip
    rows.refuse(micro * data > batch, "micro_batch {micro:g} x data_parallel {data} is more than global_batch {batch:g}", **facts)
    rows.refuse(
        batch % (data * micro) != 0,
        f"global_batch {{batch:g}} does not divide by {replicas}: {{count:g}} microbatches",
        "global_batch", count=batch / (data * micro), **facts,
    )  # fmt: skip
    rows.refuse(shape.heads % tensor != 0, "{heads:.0f} heads do not divide by tensor_parallel {tensor}", **facts)
    rows.refuse(pipeline > shape.blocks, "{pipeline} pipeline stages for {blocks:.0f} layers", **facts)
    rows.refuse(pipeline * virtual > shape.blocks, "{pipeline} pipeline stages of {virtual} chunks for {blocks:.0f} layers", **facts)
    mixed = shape.experts.there & (shape.experts.count % expert == 0)
    rows.refuse((expert > 1) & ~mixed, "expert_parallel {expert} does not divide the experts of {name}", name=name, **facts)
    stage = gpus // pipeline
    rows.refuse(stage % expert != 0, "expert_parallel {expert} does not divide the {stage} GPUs of a pipeline stage", stage=stage, **facts)
    degrees = {"tensor": tensor, "pipeline": pipeline, "data": data, "context": context, "expert": expert, "virtual": virtual}
    return {**degrees, "micro_batch": micro, "global_batch": batch}


def whole_stages(shape: Any, chunks: Any) -> Any:
    """Whether so many chunks of stages get whole layers each, embedding and output layer counted as layers or not."""
    own = (shape.blocks, np.where(shape.attention_layers > 0, shape.attention_layers, shape.blocks))
    return np.any([(layers + ends) % chunks == 0 for layers in own for ends in (0, 1, 2)], axis=0)


def _check_shares(rows: Rows, shape: Shared, said: dict[str, Any], plan: dict[str, Any]) -> None:
    """Refuse stages that do not get whole layers, chunks without stages, and a group of ZeRO that is no part of the replicas.

    Embedding and output layer may count as a layer each when layers are dealt to the stages (Llama 3: 126 + 2 over 16). Megatron's core
    asserts that layers divide (megatron/core/transformer/transformer_block.py, get_num_layers_to_build); others may deal them unevenly.
    """
    pipeline, virtual, replicas, blocks = plan["pipeline"], plan["virtual"], plan["data"] * plan["context"], shape.blocks
    defaults, zero_group = said["defaults"], said["zero_group"]
    facts = {**plan, "zero_group": zero_group, "blocks": blocks, "ends": blocks + 2}
    alone = "virtual_pipeline {virtual} without pipeline_parallel: it counts chunks of a stage"
    rows.refuse((virtual > 1) & (pipeline == 1), alone, "virtual_pipeline", **facts)
    rows.refuse(
        (pipeline > 1) & ~whole_stages(shape, pipeline * virtual) & ((virtual > 1) | defaults.kernels.isin("old", "fused")),
        "{blocks:.0f} layers, or {ends:.0f} with embedding and output layer, do not divide by pipeline_parallel {pipeline} x "
        "virtual_pipeline {virtual}",
        "pipeline_parallel", **facts,
    )  # fmt: skip
    rows.note(
        (blocks % pipeline != 0) & ~(defaults.output_layer == "dealt"),
        lambda row: f"{blocks[row]:.0f} layers over {pipeline[row]} stages: {blocks[row] / pipeline[row]:.3g} counted on each",
        blocks,
        pipeline,
    )
    of = "zero_group {zero_group:.0f} does not divide data_parallel {data} x context_parallel {context}"
    rows.refuse((zero_group > 0) & (replicas % np.maximum(zero_group, 1) != 0), of, "zero_group", **facts)


def _precision(row: dict[str, str], machine: Machine, program: str, assumed: list[str]) -> dict[str, Any]:
    """Number type of the products, the scales of 8 bits, and bytes of weights and states in the optimizer."""
    fp8_recipe = choice(row, "fp8_recipe")
    if fp8_recipe and choice(row, "precision") in (None, "bf16"):
        raise InputError(f"fp8_recipe {fp8_recipe} is for products in 8 bits; precision is 16 bits")
    precision = _number_type(row, machine, assumed)
    if precision == "fp8" and not machine.tpu and fp8_recipe in (None, "tensorwise"):
        gathered = ", gathered in 8 bits as in torchao's benchmarks" if program in ("fsdp", "fsdp_compiled") else ""
        assumed += [f"fp8_recipe tensorwise{gathered}"] if gathered or not fp8_recipe else []
    optimizer, weight = choice(row, "optimizer"), choice(row, "weight_precision") or 4.0
    moments = 8.0 if optimizer is None else optimizer
    states = moments if moments <= 2 else moments * weight / 4  # of a weight's own type, but for states in 8 bits
    return {"precision": precision, "fp8_recipe": fp8_recipe or "tensorwise", "weight_bytes": weight, "moments_bytes": states}


def _number_type(row: dict[str, str], machine: Machine, assumed: list[str]) -> str:
    device = devices.load(machine.device)
    if not {"bf16", "fp16"} & set(device.peak):
        raise InputError(f"{device.name} has no 16-bit arithmetic, which training needs: {', '.join(device.peak)}", key="device")
    text = plain(row.get("precision", ""))
    precision: str | None = choice(row, "precision")
    if precision is None:
        assumed.append("16-bit arithmetic")
        return "bf16"
    if device.kind == "tpu" and precision not in ("bf16", "fp8"):
        raise InputError(f"no training model for {text} on {device.name}: bf16 and fp8 are covered", key="precision")
    if text in ("bf16", "ampbf16") and "bf16" not in device.peak:
        raise InputError(f"{device.name} has no BF16")
    if precision == "fp8" and "fp8" not in device.peak:
        raise InputError(f"{device.name} has no FP8")
    if device.architecture not in {"mxfp8": ("blackwell", "cdna4"), "nvfp4": ("blackwell",)}.get(precision, (device.architecture,)):
        raise InputError(f"{device.name} has no {precision}")
    return precision


SIZES = ("hidden_size", "attention_heads", "layers", "ffn", "kv_heads", "head_size", "experts", "top_k")
"""Sizes of a model that a row may give (counts)."""
WRITTEN = {
    "hidden_size": "hidden", "attention_heads": "heads", "layers": "layers", "vocabulary": "vocabulary", "ffn": "ffn_width",
    "gated": "gated", "kv_heads": "kv_heads", "head_size": "head_size", "tied": "tied",
}  # fmt: skip
"""Column -> what it says of a model."""


def _model(row: dict[str, str], sequence: int, assumed: list[str]) -> tuple[str, Model]:
    """The network's name and its description, blocks for multi-token prediction among its layers."""
    name, shape = _network(row, int(sequence), assumed)
    if too_long := models.beyond(row.get("model", "").strip(), int(sequence)):
        assumed.append(f"more positions than the model has: {too_long}")
    assumed += models.text_alone(shape)
    return name, shape


def _network(row: dict[str, str], sequence: int, assumed: list[str]) -> tuple[str, Model]:
    name = row.get("model", "").strip()
    sizes = {key: count(row, key) for key in SIZES}
    gated, tied, vocabulary = choice(row, "gated"), choice(row, "tied"), count(row, "vocabulary")
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
    """A known model with the vocabulary of the row."""
    mixture = shape.experts
    own = {column: getattr(shape, key) for column, key in WRITTEN.items()} | {"layers": shape.blocks}
    own |= {"experts": mixture.count if mixture else 0, "top_k": mixture.per_token if mixture else 0}
    for key, value in {**sizes, "gated": gated, "tied": tied}.items():
        has = own[key]
        if value is not None and value != has and not (key == "layers" and value == shape.attention_layers):
            raise InputError(f"{key} {value} is not that of {shape.name} ({has}): leave model empty to use the sizes of the row", key=key)
    if plain(shape.name) not in plain(name):
        assumed.append(f"model {shape.name}")
    if vocabulary and vocabulary != shape.vocabulary:
        assumed.append(f"{shape.name} with {vocabulary:,} tokens of vocabulary in place of {shape.vocabulary:,}")
        shape = shape.model_copy(update={"vocabulary": vocabulary})
    return shape
