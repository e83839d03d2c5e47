"""Which schedulers are there? The one list of names: a new scheduler gets a line here, a file in this folder and a branch in `dispatch`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from analysis.errors import InputError


@dataclass(frozen=True)
class Kind:
    """What the rest of the subpackage must know of a scheduler.

    Attributes:
        reserves: it reserves the longest request's cache for each.
        preempts: it can take cache back from a running request, by recomputing or swapping; only these share prefixes.
    """

    code: int
    title: str
    reserves: bool = False
    preempts: bool = False


SCHEDULERS = {
    "vllm": Kind(2, "vLLM", preempts=True),
    "sarathi": Kind(3, "Sarathi", preempts=True),
    "orca": Kind(1, "Orca", reserves=True),
    "faster_transformer": Kind(0, "FasterTransformer", reserves=True),
    "lightllm": Kind(4, "LightLLM"),
    "vllm_v1": Kind(5, "vLLM v1", preempts=True),
}
PREEMPTING = tuple(name for name, kind in SCHEDULERS.items() if kind.preempts)


def kind_of(scheduler: str) -> Kind:
    """The scheduler of a name."""
    if scheduler not in SCHEDULERS:
        raise InputError(f"expected one of {', '.join(SCHEDULERS)}, got {scheduler}", key="scheduler")
    return SCHEDULERS[scheduler]


def one_of(names: Mapping[str, object]) -> AfterValidator:
    """A check of a configuration's text: it is one of some names."""

    def check(name: str) -> str:
        if name not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return name

    return AfterValidator(check)


Scheduler = Annotated[str, one_of(SCHEDULERS)]
"""A name that a configuration may give."""
