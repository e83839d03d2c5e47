"""Whole models as graphs of the operators that are also measured alone: ResNet-50, BERT-base, one Llama-2-7B layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from analysis.artifact.measuring.operators import MeasuredOperator


@dataclass(frozen=True)
class Node:
    """One operator in a graph; its result has its name."""

    name: str
    operator: MeasuredOperator
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Graph:
    """A model of fixed shape: `input` has the name "input", the result is that of the last node."""

    name: str
    input_shape: tuple[int, ...]
    nodes: tuple[Node, ...]

    def flop(self) -> int:
        """Arithmetic of all nodes (FLOP)."""
        return sum(node.operator.flop() for node in self.nodes)

    def parameters(self) -> int:
        """Weights (count); the tables of rotary positions are not weights."""
        return sum(math.prod(shape) for node in self.nodes if node.operator.kind != "rope" for shape in node.operator.parameters())


@dataclass
class _Builder:
    nodes: list[Node] = field(default_factory=list)

    def add(self, name: str, kind: str, size: tuple[int, ...], *inputs: str, variant: str = "") -> str:
        self.nodes.append(Node(name, MeasuredOperator(kind, size, variant), inputs))
        return name


def resnet50(side: int = 224, batch: int = 1) -> Graph:
    """ResNet-50 v1.5 for inference: batch norms folded into the convolutions, stride on the 3x3 convolution.

    Args:
        side: height and width of the image, a multiple of 32.
    Source: He et al. 2016, Table 1; torchvision's resnet50 for the place of the stride.
    """
    build = _Builder()

    def convolve(name: str, source: str, size: int, channels: int, filters: int, window: int, stride: int) -> str:
        return build.add(name, "conv2d", (batch, size, size, channels, filters, window, stride, 1), source, variant="bias")

    def relu(name: str, source: str, size: int, channels: int) -> str:
        return build.add(name, "elementwise", (batch * size * size * channels,), source, variant="relu")

    half = side // 2
    x = relu("conv1.relu", convolve("conv1", "input", side, 3, 64, 7, 2), half, 64)
    x = build.add("pool1", "pool", (batch, half, half, 64, 3, 2), x, variant="max")
    size, channels = half // 2, 64
    for stage, (blocks, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512)), start=2):
        for block in range(blocks):
            name = f"c{stage}.{block + 1}"
            stride = 2 if block == 0 and stage > 2 else 1
            out = size // stride
            y = relu(f"{name}.a.relu", convolve(f"{name}.a", x, size, channels, width, 1, 1), size, width)
            y = relu(f"{name}.b.relu", convolve(f"{name}.b", y, size, width, width, 3, stride), out, width)
            y = convolve(f"{name}.c", y, out, width, 4 * width, 1, 1)
            skip = convolve(f"{name}.skip", x, size, channels, 4 * width, 1, stride) if block == 0 else x
            y = build.add(f"{name}.add", "elementwise", (batch * out * out * 4 * width,), y, skip, variant="add")
            x = relu(f"{name}.relu", y, out, 4 * width)
            size, channels = out, 4 * width
    x = build.add("pool5", "pool", (batch, size, size, channels, size, size), x, variant="mean")
    build.add("fc", "gemm", (batch, 1000, channels), x, variant="bias")
    return Graph(f"resnet50 side={side} batch={batch}", (batch, side, side, 3), tuple(build.nodes))


def _attention(build: _Builder, name: str, q: str, k: str, v: str, tokens: int, heads: int, width: int, causal: bool) -> str:
    scores = build.add(f"{name}.scores", "bmm", (heads, tokens, tokens, width), q, k, variant="transposed")
    scaled = build.add(f"{name}.scale", "elementwise", (heads * tokens * tokens,), scores, variant="scale")
    weights = build.add(f"{name}.softmax", "softmax", (heads, tokens, tokens), scaled, variant="causal" if causal else "")
    mixed = build.add(f"{name}.mix", "bmm", (heads, tokens, width, tokens), weights, v)
    return build.add(f"{name}.merge", "transpose", (tokens, heads, width), mixed, variant="merge_heads")


def bert_base(tokens: int = 128, layers: int = 12) -> Graph:
    """The encoder of BERT-base, batch 1, from embeddings to the last hidden states.

    Source: Devlin et al. 2019, section 3: 12 layers, hidden size 768, 12 heads, inner size 3072.
    """
    hidden, heads, inner = 768, 12, 3072
    build = _Builder()
    x = "input"
    for index in range(layers):
        layer = f"layer{index}"

        def dense(name: str, source: str, columns: int, rows: int, layer: str = layer) -> str:
            return build.add(f"{layer}.{name}", "gemm", (tokens, columns, rows), source, variant="bias")

        def residual(name: str, source: str, skip: str, layer: str = layer) -> str:
            summed = build.add(f"{layer}.{name}.add", "elementwise", (tokens * hidden,), source, skip, variant="add")
            return build.add(f"{layer}.{name}.norm", "layernorm", (tokens, hidden), summed)

        q, k, v = (
            build.add(
                f"{layer}.{name}.split",
                "transpose",
                (tokens, heads, hidden // heads),
                dense(name, x, hidden, hidden),
                variant="split_heads",
            )
            for name in "qkv"
        )
        mixed = _attention(build, layer, q, k, v, tokens, heads, hidden // heads, causal=False)
        x = residual("attention", dense("out", mixed, hidden, hidden), x)
        wide = build.add(f"{layer}.gelu", "elementwise", (tokens * inner,), dense("up", x, inner, hidden), variant="gelu")
        x = residual("ffn", dense("down", wide, hidden, inner), x)
    return Graph(f"bert_base tokens={tokens}" + ("" if layers == 12 else f" layers={layers}"), (tokens, hidden), tuple(build.nodes))


def llama_layer(tokens: int = 128, hidden: int = 4096, heads: int = 32, inner: int = 11008) -> Graph:
    """One decoder layer of Llama-2-7B reading a prompt, batch 1.

    Source: Touvron et al. 2023, Table 1; config.json of Llama-2-7B: hidden 4096, 32 heads, inner 11008.
    """
    build = _Builder()
    width = hidden // heads

    def dense(name: str, source: str, columns: int, rows: int) -> str:
        return build.add(name, "gemm", (tokens, columns, rows), source)

    normed = build.add("norm1", "rmsnorm", (tokens, hidden), "input")
    q, k, v = (
        build.add(f"{name}.split", "transpose", (tokens, heads, width), dense(name, normed, hidden, hidden), variant="split_heads")
        for name in "qkv"
    )
    q, k = (build.add(f"{name}.rope", "rope", (tokens, heads, width), source) for name, source in (("q", q), ("k", k)))
    mixed = _attention(build, "attention", q, k, v, tokens, heads, width, causal=True)
    x = build.add("attention.add", "elementwise", (tokens * hidden,), dense("out", mixed, hidden, hidden), "input", variant="add")
    normed = build.add("norm2", "rmsnorm", (tokens, hidden), x)
    gate = build.add("silu", "elementwise", (tokens * inner,), dense("gate", normed, inner, hidden), variant="silu")
    gated = build.add("gated", "elementwise", (tokens * inner,), gate, dense("up", normed, inner, hidden), variant="mul")
    build.add("ffn.add", "elementwise", (tokens * hidden,), dense("down", gated, hidden, inner), x, variant="add")
    return Graph(f"llama2_7b_layer tokens={tokens}", (tokens, hidden), tuple(build.nodes))


BUILDERS: dict[str, Callable[..., Graph]] = {"resnet50": resnet50, "bert_base": bert_base, "llama_layer": llama_layer}
"""Models by name, as a plan names them."""
