"""What is computed: a loop nest over named dimensions and the tensors it touches, each an affine projection of the loop indices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from analysis.errors import InputError

LARGEST = 2**53  # multiply-accumulates, or words of a tensor


@dataclass(frozen=True)
class Tensor:
    """One operand. Rank r of its index is `sum(coefficient * index[dimension])` over `ranks[r]`.

    Args:
        name: as the tool prints it (Weights, Inputs, Outputs).
        ranks: for each rank, pairs of (dimension, coefficient >= 1).
    """

    name: str
    ranks: tuple[tuple[tuple[str, int], ...], ...]
    read_write: bool = False

    @cached_property
    def dimensions(self) -> frozenset[str]:
        """Every dimension that indexes this tensor."""
        return frozenset(dimension for rank in self.ranks for dimension, _ in rank)

    def extents(self, tile: dict[str, int]) -> tuple[int, ...]:
        """Size of the bounding box that a tile of the iteration space touches: `1 + sum(c * (tile - 1))` for each rank."""
        return tuple(1 + sum(c * (tile[d] - 1) for d, c in rank) for rank in self.ranks)

    def size(self, tile: dict[str, int]) -> int:
        """Words in that bounding box."""
        return prod(self.extents(tile))

    def project(self, point: dict[str, int]) -> tuple[int, ...]:
        """Index into the tensor of one point (or displacement) of the iteration space; missing dimensions count as 0."""
        return tuple(sum(c * point.get(d, 0) for d, c in rank) for rank in self.ranks)


@dataclass(frozen=True)
class Problem:
    """A perfectly nested loop over `bounds`, with one multiply-accumulate in its body.

    Args:
        bounds: dimension to trip count, all >= 1.
        tensors: operands; exactly one is read_write.
    """

    name: str
    bounds: tuple[tuple[str, int], ...]
    tensors: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        for dimension, bound in self.bounds:
            if bound < 1:
                raise InputError(f"expected a trip count of at least 1 (got {bound})", key=dimension)
        known = {dimension for dimension, _ in self.bounds}
        for tensor in self.tensors:
            for rank in tensor.ranks:
                for dimension, coefficient in rank:
                    if dimension not in known:
                        raise InputError(f"projects onto unknown dimension {dimension}; known: {', '.join(sorted(known))}", key=tensor.name)
                    if coefficient < 1:
                        raise InputError(f"coefficient of {dimension} must be at least 1 (got {coefficient})", key=tensor.name)
        if sum(t.read_write for t in self.tensors) != 1:
            raise InputError("exactly one tensor is accumulated into (read_write)", key=self.name)
        if max(self.macs, *(tensor.size(self.sizes) for tensor in self.tensors)) > LARGEST:
            raise InputError("expected at most 2^53 multiply-accumulates, and words in a tensor: beyond these counts are not exact")

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Trip count by dimension."""
        return dict(self.bounds)

    @property
    def macs(self) -> int:
        """Multiply-accumulates: the product of all trip counts."""
        return prod(bound for _, bound in self.bounds)


KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "convolution": ("NCMPQRS", {"Weights": "C M R S", "Inputs": "N C RP SQ", "Outputs": "N M Q P"}),
    "depthwise": ("NCPQRS", {"Weights": "C R S", "Inputs": "N C RP SQ", "Outputs": "N C Q P"}),
    "batched_matmul": ("BMPC", {"Weights": "B C M", "Inputs": "B P C", "Outputs": "B P M"}),
}
"""Dimensions of each kind of layer with Timeloop's names, and for each tensor the dimensions of its ranks; of a rank with two the first is
multiplied by the dilation, the second by the stride. A depthwise convolution has one filter for each channel: C indexes the output."""


def problem_of(
    kind: str, sizes: dict[str, int], stride: int | tuple[int, int] = 1, dilation: int | tuple[int, int] = 1, name: str = ""
) -> Problem:
    """The loop nest of a layer.

    Args:
        kind: a key of `KINDS`; sizes: trip counts by dimension.
        stride, dilation: one number, or a pair for (P, R) and (Q, S).
    """
    dimensions, tensors = KINDS[kind]
    pairs = [(value, value) if isinstance(value, int) else value for value in (stride, dilation)]
    steps = dict(zip("PQRS", (*pairs[0], *pairs[1]), strict=True))

    def ranks(text: str) -> tuple[tuple[tuple[str, int], ...], ...]:
        return tuple(tuple((d, steps[d] if len(rank) > 1 else 1) for d in rank) for rank in text.split())

    made = tuple(Tensor(tensor, ranks(text), read_write=tensor == "Outputs") for tensor, text in tensors.items())
    return Problem(name or kind, tuple((d, sizes[d]) for d in dimensions), made)


def convolution(
    *,
    c: int,
    m: int,
    p: int,
    q: int,
    r: int = 1,
    s: int = 1,
    n: int = 1,
    stride: int | tuple[int, int] = 1,
    dilation: int | tuple[int, int] = 1,
    name: str = "",
) -> Problem:
    """A convolution with Timeloop's dimension names: `Out[n,m,q,p] += W[c,m,r,s] * In[n,c,stride*p+dilation*r,stride*q+dilation*s]`.

    Args:
        p, q: output width and height; r, s: filter width and height (r slides along p, s along q).
        stride, dilation: one number, or a pair for (p, r) and (q, s).
    """
    return problem_of("convolution", {"N": n, "C": c, "M": m, "P": p, "Q": q, "R": r, "S": s}, stride, dilation, name)


def matmul(*, m: int, n: int, k: int, name: str = "matmul") -> Problem:
    """A GEMM in convolution's names, so that convolution designs can run it: output rows on P, output columns on M, the sum on C.

    Args:
        m: rows of the activation and of the result; n: columns of the weight and of the result; k: the summed dimension.
    """
    return convolution(c=k, m=n, p=m, q=1, name=name)


def batched_matmul(*, b: int, m: int, n: int, k: int) -> Problem:
    """Attention's GEMM: `Out[b,m,n] += Left[b,m,k] * Right[b,k,n]`; b is batch times heads, and the right operand is no shared weight.

    The operands keep the names Inputs (left) and Weights (right) so that an architecture's `keeps` lists apply.
    """
    return problem_of("batched_matmul", {"B": b, "M": n, "P": m, "C": k})
