"""How is each claim checked, and what is the answer expected to be?"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, RootModel, model_validator

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.studies.checkable import MODULES

Verdict = Literal[
    "recomputed",
    "consistent",
    "differs",
    "disputed",
    "wrong arithmetic",
    "cited (verified)",
    "cited (not verified)",
    "not reproducible",
    "not yet run",
]
VERDICTS: tuple[str, ...] = Verdict.__args__  # type: ignore[attr-defined]
Scalar = bool | int | float | str
Value = Scalar | list[Scalar]

Relation = Literal["equal", "within", "at most", "at least", "less than", "more than"]
UNCHECKED = ("cited (verified)", "cited (not verified)", "not reproducible", "not yet run")


class Source(Strict):
    """Where the value got comes from: a cell of a results CSV (`table`), or a `@checkable` function with its arguments.

    A list in `where` (several rows) or in `column` (several columns of one row) gives a list of cells, in the order of the list.
    `reason` names the column of the same row that says why: the note of the claim is then read there and not typed.
    """

    table: str | None = None
    where: dict[str, Value] = Field(default_factory=dict)
    column: str | list[str] | None = None
    reason: str | None = None
    function: str | None = None
    args: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_of_two(self) -> Source:
        if (self.table is None) == (self.function is None):
            raise ValueError("expected either `table` (with `column`) or `function`")
        if self.table is not None and self.column is None:
            raise ValueError("`table` needs the `column` to read")
        if self.table is not None and not re.fullmatch(r"\w+/\w[\w.-]*", self.table):
            raise ValueError("`table` is notebook/table")
        if self.function is not None and self.function.partition(":")[0] not in MODULES:
            raise ValueError(f"`function` is analysis.module:name, a function marked @checkable in one of {', '.join(MODULES)}")
        if self.function is not None and (self.where or self.column or self.reason):
            raise ValueError("`where`, `column` and `reason` belong to `table`")
        if sum(isinstance(value, list) for value in (*self.where.values(), self.column)) > 1:
            raise ValueError("one list at most, in `where` or in `column`")
        return self


class Comparison(Strict):
    """A value got, against the value printed: how close counts as equal, and the value expected of us.

    `relation` says how the value got must stand to the printed one for the claim to hold; `within` takes the two ends of a printed range.
    `criterion` takes the place of `printed` where the document prints no number: a threshold or a worked example of ours, with the reason
    in `note`. It is never shown as printed.
    """

    check: Source | None = None
    printed: Value | None = None
    criterion: Value | None = None
    relation: Relation = "equal"
    tolerance: float | None = None
    relative: float | None = None
    expect: Value | None = None
    note: str = ""

    @property
    def reference(self) -> Value | None:
        """The value that the value got is held against."""
        return self.printed if self.printed is not None else self.criterion

    @model_validator(mode="after")
    def _bounds(self) -> Comparison:
        for name, bound in (("tolerance", self.tolerance), ("relative", self.relative)):
            if bound is not None and not (bound >= 0 and math.isfinite(bound)):
                raise ValueError(f"`{name}` must be zero or positive")
        if self.printed is not None and self.criterion is not None:
            raise ValueError("either `printed` or `criterion`")
        if self.criterion is not None and not self.note.strip():
            raise ValueError("a `criterion` of ours needs a `note` that says why")
        if self.relation == "within" and not (isinstance(self.reference, list) and len(self.reference) == 2):
            raise ValueError("`within` needs the two ends of a range")
        return self


class Check(Comparison):
    """One claim's check and the verdict expected."""

    verdict: Verdict

    @model_validator(mode="after")
    def _complete(self) -> Check:
        if self.check is None:
            if self.verdict not in UNCHECKED:
                raise ValueError(f"verdict {self.verdict!r} needs a `check`")
            if not self.note.strip():
                raise ValueError(f"verdict {self.verdict!r} needs a `note` that says why, where, or what it waits for")
            if self.expect is not None:
                raise ValueError("`expect` needs a `check`")
        else:
            if self.expect is None or self.reference is None:
                raise ValueError("a `check` needs `printed` (or `criterion`) and `expect`")
            if self.verdict in ("cited (not verified)", "not yet run"):
                raise ValueError(f"verdict {self.verdict!r} cannot have a `check`")
        if self.check is not None and self.check.reason is not None and self.note:
            raise ValueError("the note is read from the column `reason`; none is typed beside it")
        if self.verdict == "cited (verified)" and not any(mark in self.note for mark in ("http", "doi", "arXiv", "github")):
            raise ValueError("`cited (verified)` needs the address in `note`")
        return self


class CheckFile(RootModel[dict[str, Check]]):
    """A file of `data/claims/checks/`: claim identifier -> check."""


def read_checks(folder: str | Path) -> dict[str, tuple[Check, Path]]:
    """Read every `*.yaml` of a folder.

    Returns:
        claim identifier -> (check, the file it stands in).
    """
    found: dict[str, tuple[Check, Path]] = {}
    for path in sorted(Path(folder).glob("*.yaml")):
        for claim_id, check in read_yaml(path, CheckFile).root.items():
            if claim_id in found:
                raise InputError(f"claim is already checked in {found[claim_id][1].name}", path=path, key=claim_id)
            found[claim_id] = (check, path)
    if not found:
        raise InputError("no checks here; expected *.yaml", path=folder)
    return found
