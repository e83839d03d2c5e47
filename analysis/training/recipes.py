"""How is a published run of a mixture of experts made, where its row does not say? CUDA graphs, dispatcher, overlap, recomputation."""

from __future__ import annotations

from functools import cache
from typing import Literal

from analysis.configs import Strict, read_yaml
from analysis.paths import DATA


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


UNKNOWN = Recipe()
"""What Megatron-Bridge recommends where no recipe is known: attention, router and preprocessing captured, a fused dispatcher
(docs.nvidia.com/nemo/megatron-bridge/latest/training/moe-optimization.html)."""


@cache
def _known() -> dict[tuple[str, str, int | None], Recipe]:
    entries = read_yaml(DATA / "workloads" / "training_recipes.yaml", RecipeFile).recipes
    fields = set(Recipe.model_fields)
    return {(e.model, device, e.expert_parallel): Recipe(**e.model_dump(include=fields)) for e in entries for device in e.devices}


def find(model: str, device: str, expert: int) -> Recipe | None:
    """The published recipe of a model on a device (by its full name) at an expert parallelism (count); None where there is none."""
    known, place = _known(), (model, device.split("-")[0])
    return known.get((*place, expert)) or known.get((*place, None))
