"""Layers read from YAML: a map of `N, C, M, P, Q, R, S, stride`, or another kind of product."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from analysis.accelerators.loopnest.problem import Problem, batched_matmul, matmul, problem_of
from analysis.configs import Strict, read_yaml
from analysis.errors import InputError

Steps = int | tuple[int, int]

KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "convolution": (("C", "M", "P", "Q"), ("N", "R", "S", "stride", "dilation")),
    "depthwise": (("C", "P", "Q", "R", "S"), ("N", "stride", "dilation")),
    "matmul": (("M", "N", "K"), ()),
    "batched_matmul": (("B", "M", "N", "K"), ()),
}
"""What a kind of layer has to say, and what it may say."""


class Layer(Strict):
    """One layer. `kind` says which dimensions it has; a convolution's stride and dilation are one number, or a pair for (P, Q)."""

    name: str = ""
    kind: Literal["convolution", "depthwise", "matmul", "batched_matmul"] = "convolution"
    B: int | None = Field(default=None, ge=1)
    N: int | None = Field(default=None, ge=1)
    C: int | None = Field(default=None, ge=1)
    M: int | None = Field(default=None, ge=1)
    P: int | None = Field(default=None, ge=1)
    Q: int | None = Field(default=None, ge=1)
    R: int | None = Field(default=None, ge=1)
    S: int | None = Field(default=None, ge=1)
    K: int | None = Field(default=None, ge=1)
    stride: Steps | None = None
    dilation: Steps | None = None

    @model_validator(mode="after")
    def _dimensions_of_the_kind(self) -> Layer:
        needed, allowed = KEYS[self.kind]
        given = self.model_dump(exclude={"name", "kind"}, exclude_none=True)
        if missing := [key for key in needed if key not in given]:
            raise ValueError(f"a {self.kind} needs {', '.join(needed)}; missing: {', '.join(missing)}")
        if extra := [key for key in given if key not in (*needed, *allowed)]:
            raise ValueError(f"a {self.kind} has no {', '.join(extra)}")
        for key in ("stride", "dilation"):
            value = getattr(self, key)
            steps = value if isinstance(value, tuple) else (value,)
            if value is not None and min(steps) < 1:
                raise ValueError(f"{key} must be at least 1")
        return self

    def problem(self) -> Problem:
        """The loop nest of this layer."""
        size = {d: getattr(self, d) or 1 for d in "BNCMPQRSK"}
        if self.kind == "matmul":
            return matmul(m=size["M"], n=size["N"], k=size["K"], name=self.name or "matmul")
        if self.kind == "batched_matmul":
            return batched_matmul(b=size["B"], m=size["M"], n=size["N"], k=size["K"])
        return problem_of(self.kind, size, self.stride or 1, self.dilation or 1, self.name)


def read_layer(path: str | Path) -> Problem:
    """Read a layer."""
    layer = read_yaml(path, Layer)
    try:
        return layer.problem()
    except InputError as error:
        raise error.of(path) from None
