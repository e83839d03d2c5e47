"""What does a program compute? The operator graph that every predictor reads."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

OperatorClass = Literal[
    "matmul",
    "convolution",
    "elementwise",
    "transcendental",
    "reduction",
    "scan",
    "data movement",
    "collective",
    "random",
    "sort",
    "fft",
    "linear algebra",
    "constant",
    "control",
    "custom call",
    "unknown",
]


def element_bits(dtype: str) -> int:
    """Bits of an element in memory: booleans take a byte, four-bit numbers are packed, a quantised type is its storage type.

    Args:
        dtype: as MLIR writes it: ``f32``, ``i1``, ``complex<f32>``, ``f8E4M3FN``, ``!quant.uniform<i8:f32, 0.5>``.
    """
    if dtype.startswith("complex<"):
        return 2 * element_bits(dtype[8:-1])
    if "quant." in dtype:
        storage = re.search(r"<\s*([iu]+\d+)", dtype)
        return element_bits(storage.group(1)) if storage else 8
    if dtype == "i1":
        return 8
    if dtype == "index":
        return 64
    size = re.match(r"(?:bf|tf|f|i|ui|si)(\d+)", dtype)
    return int(size.group(1)) if size else 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor's type.

    Args:
        shape: dimensions (elements); a dimension that is not known before the run is `None`.
        dtype: element type as StableHLO writes it, such as ``f32``, ``bf16``, ``i1``, ``f8E4M3FN``; ``token`` for a token.
        bytes: size in memory (bytes), the dimensions that are not known taken as 1; four-bit elements are packed, booleans take a byte.
    """

    shape: tuple[int | None, ...]
    dtype: str
    bytes: int

    @property
    def elements(self) -> int:
        """Number of elements, the dimensions that are not known taken as 1."""
        return math.prod(1 if size is None else size for size in self.shape)

    @property
    def is_dynamic(self) -> bool:
        """Whether a dimension is not known before the run."""
        return None in self.shape


@dataclass(frozen=True, slots=True)
class Matmul:
    """A batched product of an (m, k) and a (k, n) matrix; 2 * batch * m * n * k operations.

    Args:
        batch, m, n, k: products of the batching, left free, right free and contracted dimensions (elements).
        weight_bits: of the right matrix where it is kept in fewer than it is multiplied in; 0: in as many.
    """

    batch: int
    m: int
    n: int
    k: int
    weight_bits: int = 0


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution of any number of spatial dimensions, each tuple one entry a dimension.

    Args:
        batch: images of the input (count).
        in_features, out_features: channels of the whole operator (count).
        input, kernel, output: spatial sizes (elements).
        stride, dilation: of the window.
        padding: (low, high), negative where the input is cropped.
        feature_groups, batch_groups: groups of channels, groups of the batch (count).
        positions: pairs of an output and a kernel element that meet an element of the input, product over the dimensions (count).
    """

    batch: int
    in_features: int
    out_features: int
    input: tuple[int, ...]
    kernel: tuple[int, ...]
    output: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    feature_groups: int
    batch_groups: int
    positions: int

    @property
    def as_matmul(self) -> Matmul:
        """The product an im2col lowering runs: one for each group, output positions by kernel elements by channels."""
        groups = self.feature_groups * self.batch_groups
        rows = self.batch // self.batch_groups * math.prod(self.output)
        return Matmul(groups, rows, self.out_features // groups, self.in_features // self.feature_groups * math.prod(self.kernel))


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax(QK')V as one kernel, whose scores never reach memory; sizes are counts.

    Args:
        query_tokens, kv_tokens: of a sequence; causal: whether a query sees no later key.
    """

    batch: int
    query_heads: int
    kv_heads: int
    head_size: int
    query_tokens: int
    kv_tokens: int
    causal: bool = False

    @property
    def pairs(self) -> float:
        """Pairs of a query and a key that it sees, of one head (count)."""
        hidden = (self.query_tokens - 1) / 2 if self.causal else 0.0
        return self.query_tokens * max(0.0, self.kv_tokens - hidden)

    @property
    def as_matmul(self) -> Matmul:
        """Both products as one."""
        return Matmul(self.batch * self.query_heads, self.query_tokens, self.kv_tokens, 2 * self.head_size)


@dataclass(frozen=True, slots=True)
class Collective:
    """What devices exchange.

    Args:
        kind: ``all-reduce``, ``all-gather``, ``reduce-scatter``, ``all-to-all``, ``collective-permute``, ``collective-broadcast``,
            ``send`` or ``recv``.
        input_bytes, output_bytes: what each device gives and gets (bytes); an all-gather's output is the whole, a reduce-scatter's input.
        groups: devices that exchange among themselves; empty: all of them. For a permutation: pairs of (source, target).
    """

    kind: str
    input_bytes: int
    output_bytes: int
    groups: tuple[tuple[int, ...], ...]

    @property
    def group_size(self) -> int | None:
        """Devices of the largest group; `None` where the program does not say."""
        return max((len(group) for group in self.groups), default=None)


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """One operator on given shapes: what it is and what one run of it costs. Operators that are alike share one.

    Args:
        name: with the dialect, such as ``stablehlo.dot_general``.
        inputs, outputs: tensors read and made.
        flops: operations other than transcendental ones, by XLA's conventions (count).
        bytes: read and written when nothing is fused, by XLA's conventions (bytes).
        transcendentals: exponentials, logarithms, roots, and so on (count).
        matmul, convolution, attention, collective: attributes, for an operator of that class.
        called: name of what a custom call or composite calls.
    """

    name: str
    op_class: OperatorClass
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    flops: float
    bytes: float
    transcendentals: float = 0
    matmul: Matmul | None = None
    convolution: Convolution | None = None
    attention: Attention | None = None
    collective: Collective | None = None
    called: str | None = None

    @property
    def dtype(self) -> str:
        """Element type that the arithmetic runs in: of the first input, or of the output if there is none."""
        tensors = self.inputs or self.outputs
        return tensors[0].dtype if tensors else "f32"

    @property
    def output_bytes(self) -> int:
        """What it writes (bytes)."""
        return sum(tensor.bytes for tensor in self.outputs)

    @property
    def input_bytes(self) -> int:
        """Size of what it is given (bytes)."""
        return sum(tensor.bytes for tensor in self.inputs)


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator at its place in the program.

    Args:
        id: its place in `Module.operators`.
        work: what it is and costs, once.
        operands: for each input, the id of the operator that made it; -1 - i for argument i of the module.
        scope: index into `Module.scopes`.
        trips: how often it runs: product of the trip counts of the loops around it.
    """

    id: int
    work: OperatorWork
    operands: tuple[int, ...]
    scope: int
    trips: int

    @property
    def name(self) -> str:
        """Name with the dialect."""
        return self.work.name

    @property
    def op_class(self) -> OperatorClass:
        """Class of the operator."""
        return self.work.op_class

    @property
    def flops(self) -> float:
        """Operations of all its runs (count)."""
        return self.work.flops * self.trips

    @property
    def bytes(self) -> float:
        """Bytes of all its runs when nothing is fused."""
        return self.work.bytes * self.trips

    @property
    def transcendentals(self) -> float:
        """Transcendental operations of all its runs (count)."""
        return self.work.transcendentals * self.trips


@dataclass(frozen=True, slots=True)
class Scope:
    """A body of operators that run together: the program itself, or the inside of a loop. Calls are taken apart into their caller's scope.

    Args:
        kind: ``main``, ``loop`` or ``condition`` (what a loop tests before each trip) or ``branch`` (the dearest of a case).
        parent: index of the scope around it, -1 for the program.
        trips: how often it runs in all.
        trips_known: whether the trip count of the loop was found; where not, it is counted once.
    """

    kind: Literal["main", "loop", "condition", "branch"]
    parent: int
    trips: int
    trips_known: bool = True


@dataclass(frozen=True)
class Module:
    """A program as a graph of operators, in the order in which they are written.

    Args:
        operators: calls inlined, the body of a loop once, of a case the branch with the most operations.
        arguments, results: tensors taken and given back.
        partitions, replicas: devices of the program (count).
        unknown: operators whose cost is not known: name (with what it calls) and how often they run; no operations in the sums.
        notes: what was assumed, one sentence each.
    """

    name: str
    operators: tuple[Operator, ...]
    scopes: tuple[Scope, ...]
    arguments: tuple[Tensor, ...] = ()
    results: tuple[Tensor, ...] = ()
    result_operators: tuple[int, ...] = ()
    partitions: int = 1
    replicas: int = 1
    unknown: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def flops(self) -> float:
        """Operations, loops counted as often as they run (count)."""
        return math.fsum(operator.flops for operator in self.operators)

    @property
    def bytes(self) -> float:
        """Bytes read and written when nothing is fused."""
        return math.fsum(operator.bytes for operator in self.operators)

    @property
    def transcendentals(self) -> float:
        """Transcendental operations (count)."""
        return math.fsum(operator.transcendentals for operator in self.operators)

    @property
    def collectives(self) -> Iterator[Operator]:
        """Operators that exchange data between devices."""
        return (operator for operator in self.operators if operator.work.collective is not None)

    @property
    def devices(self) -> int:
        """Devices that the program runs on: partitions times replicas, or as many as its exchanges name."""
        named = (device for operator in self.collectives for group in operator.work.collective.groups for device in group)  # type: ignore[union-attr]
        return max(self.partitions * self.replicas, 1 + max(named, default=0))

    @property
    def edges(self) -> Iterator[tuple[int, int]]:
        """(producer, consumer) for every input that another operator made."""
        return ((source, operator.id) for operator in self.operators for source in operator.operands if source >= 0)
