"""What does a training program do by default? Sharding, recomputation, kernels, overlap and what it keeps, of each known program; and how a
published run of a mixture of experts is made where its row does not say: CUDA graphs, dispatcher, overlap, recomputation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from analysis.configs import Strict, read_yaml
from analysis.paths import DATA
from analysis.vocabulary import plain

Attention = Literal["written_out", "flash_1", "flash_2", "latest"]
Kernels = Literal["old", "eager", "compiled", "fused"]


@dataclass(frozen=True)
class Program:
    """A program's defaults.

    Attributes:
        zero: what is sharded over the data-parallel group: nothing, optimizer states, gradients too, weights too (0 to 3).
        selective: what selective recomputation repeats: the core of attention, or all kernels bound by memory with half of the products, or
            with attention and the products of gate and up.
        repeats_last: whether full recomputation repeats a block's last product, whose output no gradient needs.
        attention: the attention kernel; latest: the fastest that the kernel tables hold for the device.
        kernels: how memory-bound operators run: old (Megatron of 2021), eager (one kernel each), compiled or fused.
        fused_norms: whether norms and position embedding are single kernels all the same.
        sequence_parallel: norms and residuals are cut over the tensor-parallel group too.
        tensor_overlap: whether collectives of tensor parallelism run beside products.
        reduce_overlap: whether gradients are reduced during the backward pass; collect_overlap: whether updated weights are gathered beside
            the next forward pass.
        reduced_bytes: of a gradient on the network; held_bytes: of gradients in memory; bucket_bytes: of a message (0: a block's), and at
            least bucket_bytes_per_replica for each data-parallel replica.
        output_layer: on the last stage, or dealt to the stages with the blocks by its cost.
        loss_bytes: traffic of a logit in output layer and loss;
            logit_bytes: its memory at the peak.
        step_bytes: of a weight in copies and temporaries of the optimizer's step, sharded as its states are.
        gated: whether all its models have gated feed-forward layers.
        log: whose memory its log has: the fullest GPU's, or that of the first or last stage.
    """

    words: str
    zero: int = 1
    recompute: str = "none"
    selective: Literal["core", "half", "gates"] = "core"
    repeats_last: bool = True
    attention: Attention = "latest"
    kernels: Kernels = "fused"
    fused_norms: bool = True
    sequence_parallel: bool = True
    tensor_overlap: bool = True
    reduce_overlap: bool = True
    collect_overlap: bool = True
    reduced_bytes: float = 4.0
    held_bytes: float = 4.0
    bucket_bytes: float = 160e6
    bucket_bytes_per_replica: float = 0.0
    output_layer: Literal["last", "dealt"] = "last"
    loss_bytes: float = 26.0
    logit_bytes: float = 10.0
    step_bytes: float = 0.0
    gated: bool = False
    log: Literal["fullest", "first", "last"] = "fullest"


class ProgramFile(Strict):
    """`data/workloads/training_programs.yaml`: of each program what departs from the defaults above, and other spellings of its name."""

    programs: dict[str, dict[str, Any]]
    spellings: dict[str, str]


_FILE = read_yaml(DATA / "workloads" / "training_programs.yaml", ProgramFile)
PROGRAMS = {name: Program(**differs) for name, differs in _FILE.programs.items()}


def known(text: str) -> str | None:
    """The known program that a cell names; None where it names none."""
    name = plain(text)
    return {plain(own): own for own in PROGRAMS}.get(name) or _FILE.spellings.get(name)


# --- mixtures of experts ---


class Recipe(Strict):
    """Settings of a run; see `data/workloads/training_recipes.yaml`, whose words these are."""

    graphs: Literal["none", "partial", "full"] = "partial"
    dispatcher: Literal["alltoall", "flex"] = "flex"
    overlap: bool = False
    again: tuple[Literal["moe", "core_attn"], ...] = ()


class Entry(Recipe):
    """The recipe of a model on some devices, and, where it has several, at some expert parallelism."""

    model: str
    devices: tuple[str, ...]
    expert_parallel: int | None = None


class RecipeFile(Strict):
    """`data/workloads/training_recipes.yaml`."""

    address: str
    files: dict[str, str]
    recipes: tuple[Entry, ...]


UNKNOWN_RECIPE = Recipe()
"""What Megatron-Bridge recommends where no recipe is known: attention, router and preprocessing captured, a fused dispatcher
(docs.nvidia.com/nemo/megatron-bridge/latest/training/moe-optimization.html)."""


@cache
def _recipes() -> dict[tuple[str, str, int | None], Recipe]:
    entries = read_yaml(DATA / "workloads" / "training_recipes.yaml", RecipeFile).recipes
    return {(each.model, device, each.expert_parallel): each for each in entries for device in each.devices}


def recipe_of(model: str, device: str, expert: int) -> Recipe | None:
    """The published recipe of a model on a device (by its full name) at an expert parallelism (count); None where there is none."""
    known, place = _recipes(), (model, device.split("-")[0])
    return known.get((*place, expert)) or known.get((*place, None))
