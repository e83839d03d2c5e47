"""What must devices exchange when a workload of the zoo is split? Derived by hand from the shapes, to hold against the partitioner.

Bytes are of the whole tensor that the collective makes or reduces: the result of an all-gather, the operand of an all-reduce. A gradient
has the type of the arithmetic, because a weight is converted before it is used and the reduction stands before the conversion back.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from analysis.errors import InputError
from analysis.studies.workloads.zoo.resnet import convolutions, parameter_shapes
from analysis.studies.workloads.zoo.transformer import layer_shapes
from analysis.workloads.models import Model

F32 = 4


@dataclass(frozen=True)
class Volume:
    """Collectives of one cause.

    Args:
        count: how many; bytes: of all of them together.
    """

    kind: str
    count: int
    bytes: int
    why: str


def gemm(m: int, n: int, k: int, width: int, split: str, rows: int, columns: int) -> list[Volume]:
    """A (m, k) times B (k, n), of `width` bytes a number.

    column: A is whole, so nothing moves. row and scatter: each device holds a partial C, summed: m n width (a result that stays split
    needs a reduce-scatter; the partitioner writes an all-reduce and a slice, and leaves it to a later pass to join them). grid: A's row of
    blocks is gathered over the columns of devices, (m / rows) k, and B's column over the rows, k (n / columns).

    Args:
        split: as for the zoo's gemm; rows, columns: of the grid of devices.
    """
    if split in ("none", "column"):
        return []
    if split in ("row", "scatter"):
        return [Volume("all-reduce", 1, m * n * width, "partial sums of C")]
    gathered = m // rows * k + k * n // columns
    return [Volume("all-gather", 2, gathered * width, "rows of A and columns of B")]


def resnet_train(depth: int, width: int) -> list[Volume]:
    """Data-parallel training step of a ResNet with batch statistics over all devices.

    Each batch norm reduces five fp32 vectors of its channels: mean and mean of squares, and backwards the gradients of shift, of scale
    and of the mean. Gradients of kernels and classifier have the type of the arithmetic.
    """
    channels = [conv.outputs for conv in convolutions(depth)]
    shapes = parameter_shapes(depth)
    kernels = [prod(shape) for name, shape in shapes.items() if not name.endswith((".scale", ".shift"))]
    return [
        Volume("all-reduce", 5 * len(channels), 5 * sum(channels) * F32, "batch norms"),
        Volume("all-reduce", len(kernels), sum(kernels) * width, "gradients of kernels and classifier"),
        Volume("all-reduce", 1, F32, "loss"),
    ]


def transformer_train(shape: Model, batch: int, sequence: int, width: int, split: str) -> list[Volume]:
    """Training step of a dense transformer without biases, untied, blocks unrolled.

    data: the gradient of every matrix in the type of the arithmetic, of every norm in fp32. fsdp: the same (a later pass turns each into a
    reduce-scatter), and every matrix gathered once (forward and backward share it where nothing is recomputed). tensor: activations of
    batch x sequence x hidden: forward two a block (attention, feed-forward), backward one for each matrix that reads the block's input
    (query, key, value, up and gate: the partial sums are reduced one by one, where Megatron adds first and reduces twice), one for the
    output layer; and three fp32 numbers a token for the softmax over a split vocabulary (maximum, sum, the label's score).

    Args:
        batch: sequences of all devices; sequence: tokens; width: bytes a number of the arithmetic.
    """
    if shape.expert_count > 1 or shape.tied or (shape.attention and shape.attention.biases != "none") or shape.positions != "rotary":
        raise InputError(f"derived for dense, untied transformers with rotary positions and no biases, not for {shape.name}", key="model")
    block = layer_shapes(shape)
    matrices = [prod(dims) for dims in block.values() if len(dims) > 1]
    norms = 2 * shape.layers + 1
    ends = 2 * shape.vocabulary * shape.hidden
    weights = Volume("all-reduce", shape.layers * len(matrices) + 2, (shape.layers * sum(matrices) + ends) * width, "gradients of matrices")
    scales = Volume("all-reduce", norms, norms * shape.hidden * F32, "gradients of norms")
    loss = Volume("all-reduce", 1, F32, "loss")
    if split == "data":
        return [weights, scales, loss]
    if split == "fsdp":
        return [Volume("all-gather", weights.count, weights.bytes, "matrices"), weights, scales, loss]
    if split != "tensor":
        raise InputError(f"expected one of data, fsdp, tensor, got {split!r}", key="split")
    each = batch * sequence * shape.hidden * width
    readers = 5 if shape.gated else 4
    return [
        Volume("all-reduce", 2 * shape.layers, 2 * shape.layers * each, "activations forward"),
        Volume("all-reduce", readers * shape.layers + 1, (readers * shape.layers + 1) * each, "activations backward"),
        Volume("all-reduce", 3, 3 * batch * sequence * F32, "softmax over a split vocabulary"),
    ]


def block_forward(shape: Model, batch: int, sequence: int, width: int) -> list[Volume]:
    """One block forward, split over its weights: the sums behind attention and feed-forward, 2 batch x sequence x hidden."""
    return [Volume("all-reduce", 2, 2 * batch * sequence * shape.hidden * width, "activations forward")]
