"""Which kernels does a whole network launch? Operator lists of the measured transformers, from their published architectures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

Activation = Literal["relu", "gelu", "gelu_new"]


@dataclass(frozen=True)
class Transformer:
    """A transformer as PyTorch runs it operator by operator, without fused attention.

    Args:
        layers, hidden, heads, head_size, feed_forward, vocabulary: (count).
        activation: of the feed-forward part; gelu_new is eight element-wise kernels.
        joint_projection: query, key and value in one product (GPT-2) or three.
        language_head: whether inference ends in the product with the vocabulary.
        decoder_layers: layers of a decoder with cross-attention, 0 without one.
        experts, expert_capacity: experts of every other layer's feed-forward part and tokens (a sequence) that each of them works
            through, 0 without.
        scaled_queries: whether the queries are scaled (OPT) or the scores.
        attention_dropout: whether training drops attention weights.
    """

    layers: int
    hidden: int
    heads: int
    head_size: int
    feed_forward: int
    vocabulary: int
    activation: Activation
    joint_projection: bool
    language_head: bool
    source: str
    decoder_layers: int = 0
    experts: int = 0
    expert_capacity: int = 0
    scaled_queries: bool = False
    attention_dropout: bool = True


NETWORKS = {
    "bert_large": Transformer(24, 1024, 16, 64, 4096, 30522, "gelu", False, False, "Devlin et al. 2019, section 3"),
    "gpt2_large": Transformer(36, 1280, 20, 64, 5120, 50257, "gelu_new", True, True, "Radford et al. 2019, table 2"),
    "gpt3_xl": Transformer(
        24,
        3072,
        24,
        128,
        12288,
        50257,
        "gelu_new",
        True,
        True,
        "Brown et al. 2020, table 2.1, read as 24 heads of 128 (it prints a width of 2,048 beside them)",
    ),
    "gpt3_27": Transformer(32, 2560, 32, 80, 10240, 50257, "gelu_new", True, True, "Brown et al. 2020, table 2.1"),
    "opt_13": Transformer(
        24, 2048, 32, 64, 8192, 50272, "relu", False, True, "Zhang et al. 2022, table 1", scaled_queries=True, attention_dropout=False
    ),
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


def _attention(ops: _List, n: Transformer, batch: int, queries: int, keys: int, count: float, training: bool, joint: bool) -> None:
    tokens, width = batch * queries, n.heads * n.head_size
    if joint:
        ops.linear(tokens, n.hidden, 3 * width, count, training)
    else:
        ops.linear(tokens, n.hidden, width, count, training)
        ops.linear(batch * keys, n.hidden, width, 2 * count, training)
    ops.bmm(batch * n.heads, queries, n.head_size, keys, count, training)
    if n.scaled_queries:
        ops.vector("mulu", tokens, width, count * (2 if training else 1))
    else:
        ops.vector("divu", batch * n.heads * queries, keys, count * (2 if training else 1))
    ops.vector("add", batch * n.heads * queries, keys, count)  # the mask
    ops.vector("softmax", batch * n.heads * queries, keys, count)
    if training:  # gradients of softmax and mask, and dropout with its gradient: two tensors in, one out, but for dropout itself
        ops.vector("mul", batch * n.heads * queries, keys, 2 * count)
        if n.attention_dropout:
            ops.vector("mulu", batch * n.heads * queries, keys, count)
            ops.vector("mul", batch * n.heads * queries, keys, count)
    ops.bmm(batch * n.heads, queries, keys, n.head_size, count, training)
    ops.linear(tokens, width, n.hidden, count, training)


def _norm_and_residual(ops: _List, rows: int, columns: int, count: float, training: bool) -> None:
    ops.vector("ln", rows, columns, count * (2 if training else 1))
    ops.vector("add", rows, columns, count * (2 if training else 1))


def _feed_forward(ops: _List, n: Transformer, rows: int, count: float, training: bool) -> None:
    ops.linear(rows, n.hidden, n.feed_forward, count, training)
    if n.activation == "gelu_new":
        for op, times in (("powu", 1), ("mulu", 3), ("add", 1), ("tanh", 1), ("addu", 1), ("mul", 1)):
            ops.vector(op, rows, n.feed_forward, times * count)
        ops.vector("mul", rows, n.feed_forward, 7 * count * training)
    else:
        ops.vector(n.activation, rows, n.feed_forward, count)
        ops.vector("mul", rows, n.feed_forward, count * training)
    ops.linear(rows, n.feed_forward, n.hidden, count, training)


def operators(network: Transformer, batch: int, sequence: int, training: bool) -> pd.DataFrame:
    """Kernels of one forward pass or, in training, of a forward and a backward pass without the optimizer.

    A product's gradient is two products; an element-wise kernel's is one of the same shape with two inputs (none for an addition and for a
    multiplication by a constant that is counted twice); a layer norm's is counted as another layer norm.

    Returns:
        columns op, B, M, N, K, H as NeuSight's tables have them, and count, how often the kernel runs.
    """
    n, ops, tokens = network, _List(), batch * sequence
    sparse = n.layers // 2 if n.experts else 0
    _attention(ops, n, batch, sequence, sequence, n.layers, training, n.joint_projection)
    _norm_and_residual(ops, tokens, n.hidden, 2 * n.layers, training)
    _feed_forward(ops, n, tokens, n.layers - sparse, training)
    if n.decoder_layers:
        sparse_decoder = n.decoder_layers // 2 if n.experts else 0
        _attention(ops, n, batch, sequence, sequence, 2 * n.decoder_layers, training, False)
        _norm_and_residual(ops, tokens, n.hidden, 3 * n.decoder_layers, training)
        _feed_forward(ops, n, tokens, n.decoder_layers - sparse_decoder, training)
        sparse += sparse_decoder
    if sparse:
        _feed_forward(ops, n, batch * n.expert_capacity, sparse * n.experts, training)
    ops.vector("ln", tokens, n.hidden, 2 if training else 1)
    if n.language_head or training:
        ops.linear(tokens, n.hidden, n.vocabulary, 1, training)
    return ops.frame()
