"""What is known about a tool: one YAML a tool, every item with its source, `unknown` where nobody knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from analysis.configs import AlsoWritten, Strict
from analysis.documents import is_file
from analysis.paths import ROOT

SOURCE_FORMS = "https://..., doi:..., document: <section>, run: <machine, date, command>, or a file under data/"
Value = TypeVar("Value")


def _known(value: Any) -> Any:
    if value is None:
        raise ValueError("expected a value, or the word unknown")
    return None if value == "unknown" else value


class Sourced(Strict):
    """Anything that must say where it comes from."""

    source: str
    note: str = ""

    @field_validator("source")
    @classmethod
    def _is_an_address(cls, source: str) -> str:
        text = source.strip()
        if re.match(r"https?://[\w.-]+\.\w+", text) or re.match(r"doi:10\.\d{4,}/\S+", text):
            return text
        if re.match(r"(document|run): \S.{4,}", text):
            return text
        if text.startswith("data/") and ".." not in text:
            path = text.split("#")[0].split(" ")[0]
            if is_file(ROOT / path):
                return text
            raise ValueError(f"no such file: {path}")
        raise ValueError(f"expected a source: {SOURCE_FORMS}")


class Item(Sourced, Generic[Value]):
    """One piece of evidence.

    `value` may be `unknown`; then `source` says where one looked. `range` gives the best and the worst value found,
    where sources or cases differ; `kind` says how the value was come by.
    """

    value: Annotated[Value | None, BeforeValidator(_known), AlsoWritten({"const": "unknown"})]
    range: tuple[float, float] | None = None
    kind: Literal["measured", "cited", "inspected", "stated", "derived"] = "cited"

    @model_validator(mode="after")
    def _range_holds_the_value(self) -> Item[Value]:
        if self.range is not None:
            low, high = self.range
            if low > high:
                raise ValueError(f"the range [{low}, {high}] runs backwards")
            if isinstance(self.value, (int, float)) and not low <= self.value <= high:
                raise ValueError(f"value {self.value} lies outside its range [{low}, {high}]")
        return self


Flag = Item[Annotated[bool, Field(strict=True)]]
Percent = Item[Annotated[float, Field(strict=True, ge=0, le=10000)]]
Ratio = Item[Annotated[float, Field(strict=True, ge=0)]]
Correlation = Item[Annotated[float, Field(strict=True, ge=-1, le=1)]]
Minutes = Item[Annotated[float, Field(strict=True, gt=0)]]
Count = Item[Annotated[int, Field(strict=True, ge=0)]]


class ScalingPoint(Sourced):
    """The error at one size, batch or device count."""

    setting: str
    error_percent: Annotated[float, Field(strict=True, ge=0, le=10000)]


class Fidelity(Strict):
    """D1, prediction fidelity."""

    works: Flag = Field(description="gives a valid prediction on the evaluation platform")
    error_metric: Item[Literal["mape", "geomean", "bound", "rmse", "hit_rate", "correlation", "other"]] | None = Field(
        None, description="what the reported figure is; only mape, geomean and bound can be held against a MAPE threshold"
    )
    error_percent: Percent | None = Field(None, description="mean over all cases that the authors print (percent)")
    independent_error_percent: Percent | None = Field(None, description="the same, measured by somebody else (percent)")
    independent_validation: Flag | None = Field(None, description="checked against hardware by somebody other than the authors")
    spearman: Correlation | None = Field(None, description="rank accuracy: Spearman correlation of predicted and measured (1)")
    max_error_percent: Percent | None = Field(None, description="largest error, beside the mean (percent)")
    scaling: tuple[ScalingPoint, ...] = Field((), description="error by size, batch or device count (percent)")
    limited_workloads: Flag | None = Field(None, description="validated on few workloads only")


class Composition(Strict):
    """D2, compositional fidelity."""

    composes: Flag | None = Field(None, description="builds a larger prediction from predictions of its parts")
    scope_documented: Flag | None = Field(None, description="says what it covers and what not")
    validated: Flag | None = Field(None, description="the composed prediction was compared with the measured whole")
    gamma_kernel_to_model: Ratio | None = Field(None, description="composition gap from kernels to a model (1)")
    gamma_model_to_system: Ratio | None = Field(None, description="composition gap from one device to many (1)")
    gap_kernel_error: Ratio | None = Field(None, description="attribution: share of gamma from kernel error (1)")
    gap_inter_kernel_overhead: Ratio | None = Field(None, description="attribution: share from what lies between kernels (1)")
    gap_communication_error: Ratio | None = Field(None, description="attribution: share from communication (1)")


class Generalization(Strict):
    """D3, generalization robustness."""

    workload_transfer: Flag | None = Field(None, description="validated on kinds of workload it was not made from")
    hardware_transfer: Flag | None = Field(None, description="validated on devices it was not made from")
    single_workload_or_hardware: Flag | None = Field(None, description="validated on one kind of workload or one device only")
    fails_outside_training: Flag | None = Field(None, description="fails on workloads outside its training set")
    temporal_stability: Item[Literal["stable", "needs_pins", "broken"]] | None = Field(
        None, description="works on today's software stack: as it is, with old versions pinned, or not at all"
    )


class Practices(Strict):
    """The five reproducibility practices of the earlier draft's table 5."""

    container_image: Flag | None = None
    python_version_documented: Flag | None = None
    reference_outputs: Flag | None = None
    portable_model_format: Flag | None = None
    dependencies_pinned: Flag | None = None


class Deployment(Strict):
    """D4, deployment viability."""

    minutes_to_first_prediction: Minutes | None = Field(None, description="from clone to first valid output (min)")
    container: Item[Literal["yes", "partial", "no"]] | None = Field(None, description="container image or recipe by the authors")
    ci_tested: Flag | None = Field(None, description="continuous integration builds it and runs it")
    source_patches: Count | None = Field(None, description="changes to the tool's own files before it ran (count)")
    manual_steps: Count | None = Field(None, description="other steps that its instructions do not say (count)")
    complete_failure: Flag | None = Field(None, description="never built or never ran")
    documentation: Item[Literal["enough", "partial", "none"]] | None = Field(None, description="usable without asking the authors")
    practices: Practices = Practices()


class Extensibility(Strict):
    """D5, extensibility."""

    new_hardware: Item[Literal["config", "profile", "retrain", "code", "none"]] | None = Field(None, description="what a new device needs")
    new_workload: Item[Literal["standard", "custom", "code", "none"]] | None = Field(
        None, description="what a workload that it has not seen needs: a standard format, its own format, or code"
    )
    interface: Item[Literal["api", "config", "both"]] | None = Field(None, description="how it is driven")
    open_source: Flag | None = Field(None, description="source code is public")


class Failure(Sourced):
    """One failure seen, by the taxonomy F1 build, F2 run time, F3 silent inaccuracy, F4 outside its scope."""

    failure: Literal["F1", "F2", "F3", "F4"]
    what: str
    resolved: bool = Field(description="a small fix cured it")
    disagreement_percent: Annotated[float, Field(strict=True, ge=0)] | None = Field(
        None, description="F3: distance from a known baseline (percent)"
    )

    @model_validator(mode="after")
    def _f3_needs_a_distance(self) -> Failure:
        if self.failure != "F3" and self.disagreement_percent is not None:
            raise ValueError("disagreement_percent belongs to F3 alone")
        return self


class Evidence(Strict):
    """All that is known about one tool."""

    tool: Annotated[str, Field(min_length=1)]
    version: str
    domain: str
    methodology: Literal["analytical", "simulation", "trace-driven", "ML-augmented", "hybrid"]
    evaluated: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    platform: str
    D1: Fidelity
    D2: Composition
    D3: Generalization
    D4: Deployment
    D5: Extensibility
    failures: tuple[Failure, ...] = ()


DIMENSIONS = ("D1", "D2", "D3", "D4", "D5")


def items(evidence: Evidence) -> Iterator[tuple[str, str, Item[Any] | None]]:
    """Every item of the protocol as (dimension, name, item or None where the file does not give it)."""
    for dimension in DIMENSIONS:
        block = getattr(evidence, dimension)
        for name in type(block).model_fields:
            value = getattr(block, name)
            if isinstance(value, Practices):
                for practice in Practices.model_fields:
                    yield dimension, f"practices.{practice}", getattr(value, practice)
            elif value is None or isinstance(value, Item):
                yield dimension, name, value


def facts(evidence: Evidence, dimension: str, instead: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the rubric may ask of one dimension: item name -> value, None where unknown.

    Args:
        instead: values to put in the place of those in the file (the ends of ranges).

    Three facts are derived: `error_percent` counts only where the reported figure is an error (a hit rate or a correlation is
    not); `best_known_error_percent` is what others measured or, failing that, what the authors report; `gamma` is the larger of
    the two gaps that are known.
    """
    known = {name: None if item is None else item.value for d, name, item in items(evidence) if d == dimension} | dict(instead or {})
    if dimension == "D1" and known.get("error_metric") not in ("mape", "geomean", "bound"):
        known["error_percent"] = None
    if dimension == "D1":
        others = known["independent_error_percent"]
        known["best_known_error_percent"] = known["error_percent"] if others is None else others
    if dimension == "D2":
        gaps = [g for g in (known["gamma_kernel_to_model"], known["gamma_model_to_system"]) if g is not None]
        known["gamma"] = max(gaps) if gaps else None
    return known


def evidence_files(folder: Path) -> list[Path]:
    """The evidence files of a folder, by name."""
    return sorted(folder.glob("*.yaml"))


def unknown_again(node: Any) -> Any:
    """A dump of evidence in the form of its file: `unknown` where an item has no value."""
    if isinstance(node, Mapping):
        filled = {key: unknown_again(value) for key, value in node.items()}
        is_item = "source" in filled and not {"failure", "setting"} & set(filled)
        return {"value": "unknown", **filled} if is_item else filled
    return [unknown_again(item) for item in node] if isinstance(node, list | tuple) else node
