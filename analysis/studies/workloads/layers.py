"""What does a network compute, layer by layer, and which layer feeds which?

A layer list is a CSV in `data/workloads/`, one layer a row, with the seven loop bounds of a convolution (batch N, input channels C,
output channels M, output height P and width Q, window R x S). A matrix product has its rows on P, its columns on M and the summed
dimension on C. `inputs` names the layers whose results are read, so that traffic between layers can be counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from analysis.configs import Count
from analysis.documents import is_file
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.written_tables import Row, read_rows


def _names(cell: Any) -> Any:
    return tuple(part.strip() for part in cell.split(";") if part.strip()) if isinstance(cell, str) else cell


class Layer(Row):
    """One layer.

    Args:
        name: unique in its network.
        shape: name shared by layers of the same dimensions, as in the recorded runs.
        kind: convolution, matmul, elementwise or pool; the last two have no multiply-accumulates.
        instances: independent copies, such as attention heads (count).
        n, c, m, p, q, r, s: loop bounds (count).
        stride, padding: of the window (elements).
        operand: what the second operand is: weights, activations (attention), or none.
        inputs: names of the layers read; names that no layer has (input, l1.k_cache) come from outside.
    """

    name: str = Field(alias="layer")
    shape: str
    kind: Literal["convolution", "matmul", "elementwise", "pool"]
    instances: Count
    n: Count = Field(alias="N")
    c: Count = Field(alias="C")
    m: Count = Field(alias="M")
    p: Count = Field(alias="P")
    q: Count = Field(alias="Q")
    r: Count = Field(alias="R")
    s: Count = Field(alias="S")
    stride: Count
    padding: int = Field(ge=0)
    operand: Literal["weights", "activations", "none"]
    inputs: Annotated[tuple[str, ...], BeforeValidator(_names)]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all instances."""
        if self.operand == "none":
            return 0
        return self.instances * self.n * self.m * self.p * self.q * self.c * self.r * self.s

    @property
    def product(self) -> tuple[int, int, int]:
        """M, N, K of one instance as a matrix product: N P Q rows, M columns, C R S summed."""
        return self.n * self.p * self.q, self.m, self.c * self.r * self.s

    @property
    def padded_input(self) -> tuple[int, int]:
        """Input height and width with padding (elements)."""
        if self.kind == "matmul":
            return self.p, self.q
        return self.p * self.stride + 2 * self.padding, self.q * self.stride + 2 * self.padding

    @property
    def input_words(self) -> int:
        """Words of the first operand, padding left out: C channels of (P stride) x (Q stride) (words)."""
        if self.kind in ("elementwise", "pool"):
            return self.output_words * self.stride**2
        return self.instances * self.n * self.c * self.p * self.q * self.stride**2

    @property
    def operand_words(self) -> int:
        """Words of the second operand: weights once, or an activation for each instance (words)."""
        return 0 if self.operand == "none" else self.instances * self.m * self.c * self.r * self.s

    @property
    def weight_words(self) -> int:
        """Words of the weights (words)."""
        return self.operand_words if self.operand == "weights" else 0

    @property
    def output_words(self) -> int:
        """Words of the result (words)."""
        return self.instances * self.n * self.m * self.p * self.q


def networks() -> list[str]:
    """Names of the layer lists there are."""
    return sorted(path.stem for path in (DATA / "workloads").glob("*.csv"))


def read_layers(name: str | Path) -> tuple[Layer, ...]:
    """A layer list, in the order of execution.

    Args:
        name: a name from `networks`, or the path of a CSV with the same columns.
    """
    path = Path(name) if str(name).endswith(".csv") else DATA / "workloads" / f"{name}.csv"
    if not is_file(path):
        raise InputError(f"no such layer list; expected one of {', '.join(networks())}", path=path)
    layers = read_rows(path, Layer, unique=("layer",))
    later = {layer.name for layer in layers}
    for line, layer in enumerate(layers, start=2):
        for source in layer.inputs:
            if source in later:
                raise InputError(f"reads {source!r}, which does not come earlier", path=path, line=line, key="inputs")
        later.discard(layer.name)
    return layers
