"""What is measured: one operator with its dimensions, its arithmetic and its compulsory traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "bmm": ("batch", "m", "n", "k"),
    "conv2d": ("batch", "height", "width", "channels", "filters", "window", "stride", "groups"),
    "pool": ("batch", "height", "width", "channels", "window", "stride"),
    "softmax": ("batch", "rows", "columns"),
    "layernorm": ("rows", "columns"),
    "rmsnorm": ("rows", "columns"),
    "elementwise": ("elements",),
    "rope": ("tokens", "heads", "head_size"),
    "transpose": ("tokens", "heads", "head_size"),
    "attention": ("batch", "heads", "queries", "keys", "head_size"),
}
"""Names of the dimensions of each kind of operator, in the order of `MeasuredOperator.size`."""

VARIANTS: dict[str, tuple[str, ...]] = {
    "gemm": ("", "bias"),
    "bmm": ("", "transposed"),
    "conv2d": ("bias",),
    "pool": ("max", "mean"),
    "softmax": ("", "causal"),
    "layernorm": ("",),
    "rmsnorm": ("",),
    "elementwise": ("add", "mul", "relu", "gelu", "silu", "scale"),
    "rope": ("",),
    "transpose": ("split_heads", "merge_heads"),
    "attention": ("naive", "fused"),
}
"""Variants of each kind: a second operand that is transposed, a bias, which function, how attention is computed."""

OPERATIONS_PER_ELEMENT = {
    "add": 1,
    "mul": 1,
    "relu": 1,
    "scale": 1,
    "gelu": 5,
    "silu": 4,
    "softmax": 5,
    "layernorm": 7,
    "rmsnorm": 4,
    "rope": 3,
}
"""Nominal arithmetic of the functions that are not products; an exponential, error function or division counts as one."""

ALL_DIMENSIONS = tuple(dict.fromkeys(name for names in DIMENSIONS.values() for name in names))


class Unsupported(Exception):
    """The runtime, data type or device has no such operator; the message says why: a gap in the table, not a failure."""


@dataclass(frozen=True)
class MeasuredOperator:
    """One operator of fixed shape.

    Args:
        kind: a key of `DIMENSIONS`.
        size: its dimensions (count), in that order.
    """

    kind: str
    size: tuple[int, ...]
    variant: str = ""

    def __post_init__(self) -> None:
        if self.kind not in DIMENSIONS:
            raise ValueError(f"no operator {self.kind!r}; expected one of {', '.join(DIMENSIONS)}")
        if len(self.size) != len(DIMENSIONS[self.kind]) or min(self.size) < 1:
            raise ValueError(f"{self.kind}: expected {', '.join(DIMENSIONS[self.kind])}, each at least 1; got {self.size}")
        if self.variant not in VARIANTS[self.kind]:
            raise ValueError(f"{self.kind}: no variant {self.variant!r}; expected one of {', '.join(map(repr, VARIANTS[self.kind]))}")

    def __getitem__(self, name: str) -> int:
        return self.size[DIMENSIONS[self.kind].index(name)]

    @property
    def name(self) -> str:
        """Kind, variant and dimensions, such as ``gemm[bias] m=128 n=768 k=768``: unique."""
        variant = f"[{self.variant}]" if self.variant else ""
        return f"{self.kind}{variant} " + " ".join(f"{key}={value}" for key, value in zip(DIMENSIONS[self.kind], self.size, strict=True))

    def inputs(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the activations it reads; images are batch x height x width x channels."""
        s = self.size
        if self.kind == "gemm":
            return ((s[0], s[2]),)
        if self.kind == "bmm":
            batch, m, n, k = s
            return (batch, m, k), ((batch, n, k) if self.variant == "transposed" else (batch, k, n))
        if self.kind in ("conv2d", "pool"):
            return (s[:4],)
        if self.kind == "elementwise":
            return ((s[0],), (s[0],)) if self.variant in ("add", "mul") else ((s[0],),)
        if self.kind == "rope" or (self.kind == "transpose" and self.variant == "merge_heads"):
            return ((s[1], s[0], s[2]),)
        if self.kind == "transpose":
            return ((s[0], s[1] * s[2]),)
        if self.kind == "attention":
            batch, heads, queries, keys, width = s
            return (batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, width)
        return (s,)

    def parameters(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of its weights: constants of a model, known before it runs."""
        s = self.size
        if self.kind == "gemm":
            return ((s[2], s[1]), (s[1],)) if self.variant == "bias" else ((s[2], s[1]),)
        if self.kind == "conv2d":
            window, filters = self["window"], self["filters"]
            return (window, window, self["channels"] // self["groups"], filters), (filters,)
        if self.kind == "layernorm":
            return (s[1],), (s[1],)
        if self.kind == "rmsnorm":
            return ((s[1],),)
        if self.kind == "rope":
            return (s[0], s[2]), (s[0], s[2])
        return ()

    def output(self) -> tuple[int, ...]:
        """Shape of its result."""
        s = self.size
        if self.kind == "gemm":
            return s[:2]
        if self.kind == "bmm":
            return s[:3]
        if self.kind == "conv2d" or (self.kind == "pool" and self.variant == "max"):
            padding = self["window"] // 2
            height, width = ((self[side] + 2 * padding - self["window"]) // self["stride"] + 1 for side in ("height", "width"))
            return s[0], height, width, self["filters"] if self.kind == "conv2d" else self["channels"]
        if self.kind == "pool":
            return s[0], s[3]
        if self.kind == "transpose":
            return (s[1], s[0], s[2]) if self.variant == "split_heads" else (s[0], s[1] * s[2])
        return self.inputs()[0]

    def flop(self) -> int:
        """Arithmetic (FLOP): 2 per multiply-accumulate; for other functions `OPERATIONS_PER_ELEMENT` times the result.

        gemm 2mnk; bmm 2bmnk; convolution 2 x outputs x window^2 x channels/groups; attention 4bhqkd + 5bhqk (two products and a softmax).
        """
        outputs = math.prod(self.output())
        if self.kind in ("gemm", "bmm"):
            return 2 * outputs * self["k"]
        if self.kind == "conv2d":
            return 2 * outputs * self["window"] ** 2 * (self["channels"] // self["groups"])
        if self.kind == "pool":
            return math.prod(self.size[:4]) if self.variant == "mean" else outputs * self["window"] ** 2
        if self.kind == "attention":
            scores = math.prod(self.size[:4])
            return scores * (4 * self["head_size"] + OPERATIONS_PER_ELEMENT["softmax"])
        return outputs * OPERATIONS_PER_ELEMENT.get(self.variant if self.kind == "elementwise" else self.kind, 0)

    def elements(self) -> int:
        """Compulsory traffic (elements): each input, weight and result once. Naive attention moves its scores on top of this."""
        return sum(math.prod(shape) for shape in (*self.inputs(), *self.parameters(), self.output()))
