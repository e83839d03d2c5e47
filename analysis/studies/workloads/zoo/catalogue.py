"""The zoo: named workloads that are lowered to StableHLO from shapes alone, on one CPU, with no weight allocated.

>>> from analysis.studies.workloads.zoo import catalogue as zoo
>>> zoo.text(zoo.lower("gemm", m=8, n=8, k=8)).count("stablehlo.dot_general")
1
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from analysis.errors import InputError
from analysis.studies.workloads.zoo import programs as zoo_programs
from analysis.studies.workloads.zoo.programs import Program

Form = Literal["text", "bytecode", "portable"]


@dataclass(frozen=True)
class Entry:
    """A workload of the zoo.

    Args:
        options: their defaults; a caller may give others of the same type.
    """

    name: str
    title: str
    build: Callable[..., Program]
    options: Mapping[str, Any]


def _transformer(**given: Any) -> dict[str, Any]:
    base = {
        "model": "llama-2-7b",
        "step": "forward",
        "batch": 1,
        "sequence": 4096,
        "dtype": "bf16",
        "weight_dtype": "bf16",
        "blocks": "scan",
    }
    return {**base, "recompute": "none", "embedding": "gather", "split": "none", "devices": 8, "layers": 0, "shard": 1, **given}


@cache
def entries() -> dict[str, Entry]:
    """Every workload of the zoo by name."""
    found: list[Entry] = []
    for split, title in (
        ("none", "one device"),
        ("column", "columns over 8 devices"),
        ("row", "summed dimension over 8 devices, result on all"),
        ("scatter", "summed dimension over 8 devices, result split"),
        ("grid", "2 x 4 grid of devices"),
    ):
        options = {"m": 4096, "n": 4096, "k": 4096, "dtype": "bf16", "split": split, "devices": 8}
        found.append(Entry("gemm" if split == "none" else f"gemm_{split}", f"matrix product, {title}", zoo_programs.gemm, options))
    for depth in zoo_programs.zoo_resnet.STAGES:
        for step, batch in (("forward", 1), ("train", 32)):
            options = {
                "depth": depth,
                "step": step,
                "batch": batch,
                "image": 224,
                "dtype": "bf16" if step == "train" else "f32",
                "devices": 1,
            }
            found.append(Entry(f"resnet{depth}_{step}", f"ResNet-{depth} {step}", zoo_programs.resnet, options))
    for model, name in (("llama-2-7b", "llama2_7b"), ("llama-2-13b", "llama2_13b")):
        for step in ("layer", "forward", "prefill", "decode"):
            sequence = 2048 if step == "layer" else 4096
            found.append(
                Entry(
                    f"{name}_{step}", f"{model} {step}", zoo_programs.transformer, _transformer(model=model, step=step, sequence=sequence)
                )
            )
        for blocks in ("scan", "unrolled"):
            options = _transformer(model=model, step="train", weight_dtype="f32", blocks=blocks)
            found.append(Entry(f"{name}_train_{blocks}", f"{model} training step, blocks {blocks}", zoo_programs.transformer, options))
    bert = _transformer(model="bert-base", sequence=128, dtype="f32", weight_dtype="f32", blocks="unrolled")
    found.append(Entry("bert_base_forward", "BERT-base forward, with the output layer over the vocabulary", zoo_programs.transformer, bert))
    found.append(Entry("bert_base_train", "BERT-base training step", zoo_programs.transformer, {**bert, "step": "train", "dtype": "bf16"}))
    mixture = _transformer(model="mixtral-8x7b", step="layer", sequence=2048)
    found.append(Entry("moe_block", "Mixtral-8x7B block: attention and 8 experts, 2 of them a token", zoo_programs.transformer, mixture))
    unet = {"batch": 2, "image": 64, "channels": 320, "heads": 8, "words": 77, "dtype": "f16"}
    found.append(Entry("unet_block", "Stable Diffusion U-Net block at 64 x 64", zoo_programs.unet_block, unet))
    generic = _transformer(step="train", weight_dtype="f32")
    found.append(Entry("transformer", "any shape of data/workloads/models.yaml", zoo_programs.transformer, generic))
    return {entry.name: entry for entry in found}


def options_of(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a workload with those given in place of the defaults; strings are read in the default's type."""
    if name not in entries():
        raise InputError(f"no workload {name!r}; expected one of {', '.join(entries())}", key="name")
    options = dict(entries()[name].options)
    for key, value in given.items():
        if key not in options:
            raise InputError(f"{name} has no option {key!r}; expected one of {', '.join(options)}", key=key)
        kind = type(options[key])
        try:
            options[key] = kind(value)
        except ValueError:
            raise InputError(f"expected {kind.__name__}, got {value!r}", key=key) from None
    return options


def program(name: str, **given: Any) -> Program:
    """The program of a workload with the options given."""
    options = options_of(name, given)
    return entries()[name].build(**options)


def lower(name: str, **given: Any) -> Any:
    """Lower a workload for the CPU, whatever devices there are: a `jax.stages.Lowered`."""
    return lower_program(program(name, **given))


def lower_program(program: Program) -> Any:
    """Lower a program; with a mesh its arguments and results carry their split (Shardy)."""
    if not program.mesh:
        jitted = jax.jit(program.function)
    else:
        mesh = AbstractMesh(tuple(program.mesh.values()), tuple(program.mesh))

        def placed(tree: Any) -> Any:
            return jax.tree.map(lambda spec: NamedSharding(mesh, spec), tree, is_leaf=lambda node: isinstance(node, PartitionSpec))

        sides: dict[str, Any] = {"in_shardings": placed(program.in_specs)}
        if program.out_specs is not None:
            sides["out_shardings"] = placed(program.out_specs)
        jitted = jax.jit(program.function, **sides)
    return jitted.trace(*program.arguments).lower(lowering_platforms=("cpu",))


def text(lowered: Any) -> str:
    """MLIR text of a lowered program."""
    return str(lowered.as_text())


def serialise(lowered: Any, form: Form) -> bytes:
    """A lowered program as bytes: MLIR text, MLIR bytecode, or a portable (VHLO) artifact of this release's StableHLO version.

    The split over devices (Shardy attributes) is kept in all three.
    """
    if form == "text":
        return text(lowered).encode()
    module = lowered.compiler_ir("stablehlo")
    if form == "bytecode":
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
        return buffer.getvalue()
    from jaxlib.mlir.dialects import stablehlo

    return bytes(stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version(), allow_other_dialects=True))
