"""What do the YAML files of `train` and `train search` say? Each as rows of `predict training`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from analysis import units
from analysis.configs import Asked
from analysis.training.machines import machine_of
from analysis.training.search import Choices
from analysis.workloads import models


class Plan(Asked):
    """A parallel plan; what is left out is the program's default, or one.

    Args:
        tensor_parallel, pipeline_parallel, data_parallel, context_parallel: ways (GPUs); their product is the number of GPUs.
        expert_parallel: ways in which experts are spread (GPUs).
        virtual_pipeline: model chunks that each pipeline stage holds (count); 1 is plain 1F1B.
        recompute: none, selective (attention scores) or full (whole blocks).
        zero: 0 none; 1 optimizer state, 2 and gradients, 3 and weights sharded over the data-parallel group.
    """

    tensor_parallel: int = Field(default=1, ge=1)
    pipeline_parallel: int = Field(default=1, ge=1)
    data_parallel: int = Field(default=1, ge=1)
    context_parallel: int = Field(default=1, ge=1)
    expert_parallel: int = Field(default=1, ge=1)
    virtual_pipeline: int = Field(default=1, ge=1)
    micro_batch: int = Field(default=1, ge=1)
    global_batch: int = Field(ge=1)
    sequence_length: int = Field(ge=1)
    recompute: Literal["none", "selective", "full"] = "none"
    zero: int = Field(default=0, ge=0, le=3)

    @property
    def gpus(self) -> int:
        """Devices used: tensor x pipeline x data x context."""
        return self.tensor_parallel * self.pipeline_parallel * self.data_parallel * self.context_parallel


class Training(Asked):
    """A training run: `python -m analysis train CONFIG.yaml` reads this.

    Args:
        model: a name that `predict training` knows, or a shape written out.
        system: a machine or device that `predict training` knows.
        plan: the layout; program, precision: as in `predict training`; empty: what it assumes.
    """

    model: str | models.Model
    system: str
    plan: Plan
    program: str = ""
    precision: str = ""

    @model_validator(mode="after")
    def _known(self) -> Training:
        _check_names(self.model, self.system)
        return self


def _check_names(model: str | models.Model, system: str) -> None:
    machine_of(system)
    if isinstance(model, str):
        models.load(model)


class Cluster(Choices):
    """What to search: `python -m analysis train search CLUSTER.yaml` reads this, and values to try.

    Args:
        model, system, program, precision: as of `Training`; gpus: devices to use, all of them (count).
        global_batch: sequences; sequence_length: tokens of each.
        memory: of a device; empty: the device's own.
    """

    model: str | models.Model
    system: str
    gpus: int = Field(ge=1)
    global_batch: int = Field(ge=1)
    sequence_length: int = Field(ge=1)
    program: str = ""
    precision: str = ""
    memory: str = ""

    @model_validator(mode="after")
    def _known(self) -> Cluster:
        _check_names(self.model, self.system)
        if self.memory:
            units.parse(self.memory, "bytes")
        return self


def _common(asked: Training | Cluster) -> dict[str, object]:
    model = asked.model
    cells: dict[str, object] = {"system": asked.system, "program": asked.program, "precision": asked.precision}
    if isinstance(model, str):
        cells["model"] = model
    else:
        cells |= {name: getattr(model, key) for name, key in WRITTEN.items()}
        cells |= {"experts": model.expert_count, "top_k": model.experts_per_token} if model.experts else {}
    return cells


def row_of(training: Training) -> dict[str, str]:
    """The columns of `predict training` that a configuration fills; what it leaves out stays out, so that both assume the same."""
    cells = {**_common(training), "gpus": training.plan.gpus, **training.plan.model_dump(exclude_unset=True)}
    return {name: str(value) for name, value in cells.items()}


def search_of(cluster: Cluster) -> tuple[dict[str, str], int, Choices, float]:
    """What `search.search` takes: the row that all plans share, GPUs, what to try, and memory of a device (bytes; 0: its own)."""
    cells = {**_common(cluster), "global_batch": cluster.global_batch, "sequence_length": cluster.sequence_length}
    row = {name: str(value) for name, value in cells.items()}
    return row, cluster.gpus, cluster, units.parse(cluster.memory, "bytes") if cluster.memory else 0.0


WRITTEN = {
    "hidden_size": "hidden", "attention_heads": "heads", "layers": "layers", "vocabulary": "vocabulary", "ffn": "ffn_width",
    "gated": "gated", "kv_heads": "kv_heads", "head_size": "head_size", "tied": "tied",
}  # fmt: skip
"""Column of `predict training` -> key of a model that is written out."""
