"""What do the YAML files of `train` and `train search` say? Each as rows of `predict training`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from analysis import units
from analysis.configs import Asked
from analysis.training.cases import WRITTEN
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


class Run(Asked):
    """What is trained on what.

    Args:
        model: a name that `predict training` knows, or a shape written out.
        system: a machine or device that `predict training` knows.
        program, precision: as in `predict training`; empty: what it assumes.
    """

    model: str | models.Model
    system: str
    program: str = ""
    precision: str = ""

    @model_validator(mode="after")
    def _known(self) -> Self:
        machine_of(self.system)
        if isinstance(self.model, str):
            models.load(self.model)
        return self

    @property
    def cells(self) -> dict[str, object]:
        """Its columns of `predict training`."""
        model = self.model
        cells: dict[str, object] = {"system": self.system, "program": self.program, "precision": self.precision}
        if isinstance(model, str):
            return {**cells, "model": model}
        cells |= {name: getattr(model, key) for name, key in WRITTEN.items()}
        return cells | ({"experts": model.expert_count, "top_k": model.experts_per_token} if model.experts else {})


class Training(Run):
    """A training run and its layout: `python -m analysis train CONFIG.yaml` reads this.

    Args:
        model, system, program, precision: what is trained on what, as of `Run`: a name that `predict training` knows or a shape written
            out, a machine or device, and what it assumes where they are empty.
        plan: the layout.
    """

    plan: Plan


class Cluster(Run, Choices):
    """What to search: `python -m analysis train search CLUSTER.yaml` reads this, and values to try.

    Args:
        model, system, program, precision: what is trained on what, as of `Training`.
        gpus: devices to use, all of them (count); global_batch: sequences; sequence_length: tokens of each.
        memory: of a device; empty: the device's own.
    """

    gpus: int = Field(ge=1)
    global_batch: int = Field(ge=1)
    sequence_length: int = Field(ge=1)
    memory: str = ""

    @model_validator(mode="after")
    def _amount(self) -> Self:
        if self.memory:
            units.parse(self.memory, "bytes")
        return self


def row_of(training: Training) -> dict[str, str]:
    """The columns of `predict training` that a configuration fills; what it leaves out stays out, so that both assume the same."""
    cells = {**training.cells, "gpus": training.plan.gpus, **training.plan.model_dump(exclude_unset=True)}
    return {name: str(value) for name, value in cells.items()}


def search_of(cluster: Cluster) -> tuple[dict[str, str], int, Choices, float]:
    """What `search.search` takes: the row that all plans share, GPUs, what to try, and memory of a device (bytes; 0: its own)."""
    cells = {**cluster.cells, "global_batch": cluster.global_batch, "sequence_length": cluster.sequence_length}
    row = {name: str(value) for name, value in cells.items()}
    return row, cluster.gpus, cluster, units.parse(cluster.memory, "bytes") if cluster.memory else 0.0
