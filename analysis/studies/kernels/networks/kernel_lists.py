"""Which kernels does a whole network launch? Operator lists of the measured transformers, from their published architectures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from analysis.studies.workloads.counted import gpt
from analysis.workloads import models
from analysis.workloads.models import Model

Activation = Literal["relu", "gelu", "gelu_new"]


@dataclass(frozen=True)
class Network:
    """A transformer as PyTorch runs it operator by operator, without fused attention.

    Args:
        model: its sizes.
        activation: of the feed-forward part; gelu_new is eight element-wise kernels.
        joint_projection: query, key and value in one product (GPT-2) or three.
        language_head: whether inference ends in the product with the vocabulary.
        scaled_queries: whether the queries are scaled (OPT) or the scores.
        attention_dropout: whether training drops attention weights.
    """

    model: Model
    activation: Activation
    joint_projection: bool
    language_head: bool
    scaled_queries: bool = False
    attention_dropout: bool = True


NETWORKS = {
    "bert_large": Network(models.load("bert-large"), "gelu", False, False),
    "gpt2_large": Network(models.load("gpt2-large"), "gelu_new", True, True),
    # Brown et al. 2020, table 2.1, read as 24 heads of 128 (it prints a width of 2,048 beside them)
    "gpt3_xl": Network(gpt(3072, 24, 24, 50257, 2048), "gelu_new", True, True),
    "gpt3_27": Network(models.load("gpt3-2.7b"), "gelu_new", True, True),
    "opt_13": Network(models.load("opt-1.3b"), "relu", False, True, scaled_queries=True, attention_dropout=False),
}


class _List:
    """Operators as they are added, with how often each runs."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, float, float, float, float, float]] = []

    def linear(self, tokens: float, inputs: float, outputs: float, count: float, training: bool) -> None:
        self.rows.append(("linear", 1, tokens, inputs, outputs, 1, count))
        if training:  # gradient of the input, gradient of the weight
            self.rows.append(("linear", 1, tokens, outputs, inputs, 1, count))
            self.rows.append(("linear", 1, outputs, tokens, inputs, 1, count))

    def bmm(self, batch: float, m: float, n: float, k: float, count: float, training: bool) -> None:
        self.rows.append(("bmm", batch, m, n, k, 1, count))
        if training:
            self.rows.append(("bmm", batch, m, k, n, 1, count))
            self.rows.append(("bmm", batch, n, m, k, 1, count))

    def vector(self, op: str, rows: float, columns: float, count: float) -> None:
        if count:
            self.rows.append((op, rows, 1, 1, 1, columns, count))

    def frame(self) -> pd.DataFrame:
        frame = pd.DataFrame(self.rows, columns=["op", "B", "M", "N", "K", "H", "count"])
        return frame.groupby(["op", "B", "M", "N", "K", "H"])["count"].sum().reset_index()


def _attention(ops: _List, n: Network, batch: int, sequence: int, count: float, training: bool) -> None:
    tokens, width, hidden = batch * sequence, n.model.attention_width, n.model.hidden
    heads, size = n.model.heads, n.model.head_size
    if n.joint_projection:
        ops.linear(tokens, hidden, 3 * width, count, training)
    else:
        ops.linear(tokens, hidden, width, count, training)
        ops.linear(tokens, hidden, width, 2 * count, training)
    ops.bmm(batch * heads, sequence, size, sequence, count, training)
    if n.scaled_queries:
        ops.vector("mulu", tokens, width, count * (2 if training else 1))
    else:
        ops.vector("divu", batch * heads * sequence, sequence, count * (2 if training else 1))
    ops.vector("add", batch * heads * sequence, sequence, count)  # the mask
    ops.vector("softmax", batch * heads * sequence, sequence, count)
    if training:  # gradients of softmax and mask, and dropout with its gradient: two tensors in, one out, but for dropout itself
        ops.vector("mul", batch * heads * sequence, sequence, 2 * count)
        if n.attention_dropout:
            ops.vector("mulu", batch * heads * sequence, sequence, count)
            ops.vector("mul", batch * heads * sequence, sequence, count)
    ops.bmm(batch * heads, sequence, sequence, size, count, training)
    ops.linear(tokens, width, hidden, count, training)


def _norm_and_residual(ops: _List, rows: int, columns: int, count: float, training: bool) -> None:
    ops.vector("ln", rows, columns, count * (2 if training else 1))
    ops.vector("add", rows, columns, count * (2 if training else 1))


def _feed_forward(ops: _List, n: Network, rows: int, count: float, training: bool) -> None:
    hidden, wide = n.model.hidden, n.model.dense_width
    ops.linear(rows, hidden, wide, count, training)
    if n.activation == "gelu_new":
        for op, times in (("powu", 1), ("mulu", 3), ("add", 1), ("tanh", 1), ("addu", 1), ("mul", 1)):
            ops.vector(op, rows, wide, times * count)
        ops.vector("mul", rows, wide, 7 * count * training)
    else:
        ops.vector(n.activation, rows, wide, count)
        ops.vector("mul", rows, wide, count * training)
    ops.linear(rows, wide, hidden, count, training)


def operators(network: Network, batch: int, sequence: int, training: bool) -> pd.DataFrame:
    """Kernels of one forward pass or, in training, of a forward and a backward pass without the optimizer.

    A product's gradient is two products; an element-wise kernel's is one of the same shape with two inputs (none for an addition and for a
    multiplication by a constant that is counted twice); a layer norm's is counted as another layer norm.

    Returns:
        columns op, B, M, N, K, H as NeuSight's tables have them, and count, how often the kernel runs.
    """
    n, m, ops, tokens = network, network.model, _List(), batch * sequence
    _attention(ops, n, batch, sequence, m.layers, training)
    _norm_and_residual(ops, tokens, m.hidden, 2 * m.layers, training)
    _feed_forward(ops, n, tokens, m.layers, training)
    ops.vector("ln", tokens, m.hidden, 2 if training else 1)
    if n.language_head or training:
        ops.linear(tokens, m.hidden, m.vocabulary, 1, training)
    return ops.frame()
