"""The forward pass of a transformer as a plain JAX program, for any model of `models.yaml` whose blocks are alike.

Only `jax.lax` primitives are used, so that tracing is quick and the lowered module holds one operation for each that is written here.
A matrix product of weights (h, n) with activations (batch, sequence, h) contracts h; attention is written out (scores, mask, softmax in
fp32, weighted values), as a compiler sees it without a fused attention kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from analysis.workloads.models import Model

Array = Any
Weights = dict[str, Any]


def layer_shapes(shape: Model) -> dict[str, tuple[int, ...]]:
    """Weights of one block by name.

    Args:
        shape: the transformer; with experts the feed-forward weights have the experts first.
    """
    hidden, ffn, attention = shape.hidden, shape.ffn_width, shape.attention
    assert attention is not None
    experts = (shape.expert_count,) if shape.expert_count > 1 else ()
    shapes: dict[str, tuple[int, ...]] = {
        "query": (hidden, shape.attention_width),
        "key": (hidden, shape.kv_width),
        "value": (hidden, shape.kv_width),
        "output": (shape.attention_width, hidden),
        "up": (*experts, hidden, ffn),
        "down": (*experts, ffn, hidden),
        "attention_norm": (hidden,),
    }
    if not shape.parallel_block:
        shapes["ffn_norm"] = (hidden,)
    if shape.gated:
        shapes["gate"] = (*experts, hidden, ffn)
    if experts:
        shapes["router"] = (hidden, shape.expert_count)
    if shape.norm == "layer":
        shapes |= {f"{name}_shift": (hidden,) for name in ("attention_norm", "ffn_norm") if name in shapes}
    if attention.biases != "none":
        shapes |= {"query_bias": (shape.attention_width,), "key_bias": (shape.kv_width,), "value_bias": (shape.kv_width,)}
    if shape.ffn_biases:
        shapes |= {"output_bias": (hidden,), "up_bias": (*experts, ffn), "down_bias": (*experts, hidden)}
        if shape.gated:
            shapes["gate_bias"] = (*experts, ffn)
    return shapes


def model_shapes(shape: Model, scan: bool) -> Weights:
    """Shapes of all weights: embedding, blocks (one dictionary each, or stacked along a first axis for a scan), final norm, output."""
    block = layer_shapes(shape)
    found: Weights = {"embedding": (shape.vocabulary, shape.hidden), "final_norm": (shape.hidden,)}
    if shape.norm == "layer":
        found["final_norm_shift"] = (shape.hidden,)
    if shape.positions == "learned":
        found["positions"] = (shape.context, shape.hidden)
    if not shape.tied:
        found["head"] = (shape.hidden, shape.vocabulary)
    found["blocks"] = {key: (shape.layers, *value) for key, value in block.items()} if scan else [dict(block) for _ in range(shape.layers)]
    return found


def as_arguments(shapes: Any, dtype: Any) -> Any:
    """Shapes as arguments without data."""
    return jax.tree.map(lambda dims: jax.ShapeDtypeStruct(dims, dtype), shapes, is_leaf=lambda node: isinstance(node, tuple))


def matmul(x: Array, weight: Array) -> Array:
    """Activations (..., k) times weights (k, n): (..., n)."""
    return lax.dot_general(x, weight.astype(x.dtype), (((x.ndim - 1,), (0,)), ((), ())))


def spread(vector: Array, like: Array) -> Array:
    """A vector (n,) repeated over all but the last axis of `like` (..., n), in its type."""
    return lax.broadcast_in_dim(vector.astype(like.dtype), like.shape, (like.ndim - 1,))


def mean_last(x: Array) -> Array:
    """Mean over the last axis, kept with size 1."""
    return lax.expand_dims(lax.reduce_sum(x, (x.ndim - 1,)) / x.shape[-1], (x.ndim - 1,))


def norm(kind: str, x: Array, scale: Array, shift: Array | None = None, epsilon: float = 1e-5) -> Array:
    """RMS norm or layer norm over the last axis, in fp32, result in the type of x.

    Args:
        kind: rms, or layer norm with or without a shift.
        x: (..., h).
        scale, shift: (h,).
    """
    wide = x.astype(jnp.float32)
    if kind.startswith("layer"):
        wide = wide - mean_last(wide)
    wide = wide * lax.rsqrt(mean_last(wide * wide) + epsilon)
    wide = wide * spread(scale, wide)
    return (wide if shift is None else wide + spread(shift, wide)).astype(x.dtype)


def rotation(positions: Array, head_dim: int, base: float = 10000.0) -> tuple[Array, Array]:
    """Cosine and sine of the rotary embedding: (sequence, head_dim / 2), fp32.

    Source: Su et al. 2021, https://arxiv.org/abs/2104.09864, equation 15.
    """
    half = head_dim // 2
    exponent = lax.iota(jnp.float32, half) * jnp.float32(-math.log(base) / half)
    size = (positions.shape[0], half)
    angle = lax.broadcast_in_dim(positions.astype(jnp.float32), size, (0,)) * lax.broadcast_in_dim(lax.exp(exponent), size, (1,))
    return lax.cos(angle), lax.sin(angle)


def rotate(x: Array, turn: tuple[Array, Array]) -> Array:
    """Rotary embedding of x (batch, sequence, heads, head_dim) by `rotation`, in fp32, result in the type of x."""
    half = x.shape[-1] // 2
    first, second = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
    cosine, sine = (lax.broadcast_in_dim(part, first.shape, (1, 3)) for part in turn)
    return lax.concatenate([first * cosine - second * sine, second * cosine + first * sine], 3).astype(x.dtype)


def attention(query: Array, key: Array, value: Array, bias: Array | None) -> Array:
    """Attention written out: softmax(q k^T / sqrt(d) + bias) v.

    Args:
        query: (batch, queries, heads, d); key, value: (batch, keys, kv_heads, d).
        bias: (queries, keys) or (heads, queries, keys) fp32, added to the scores; None for none.
    Returns:
        (batch, queries, heads x d).
    """
    batch, queries, heads, dim = query.shape
    keys, kv_heads = key.shape[1], key.shape[2]
    group = heads // kv_heads
    grouped = lax.reshape(query, (batch, queries, kv_heads, group, dim))
    scores = lax.dot_general(grouped, key, (((4,), (3,)), ((0, 2), (0, 2))))  # batch, kv_heads, queries, group, keys
    wide = scores.astype(jnp.float32) * (1.0 / math.sqrt(dim))
    if bias is not None and bias.ndim == 2:
        wide = wide + lax.broadcast_in_dim(bias, wide.shape, (2, 4))
    elif bias is not None:
        by_group = lax.reshape(bias, (kv_heads, group, queries, keys))
        wide = wide + lax.broadcast_in_dim(by_group, wide.shape, (1, 3, 2, 4))
    weights = softmax(wide).astype(query.dtype)
    mixed = lax.dot_general(weights, value, (((4,), (1,)), ((0, 1), (0, 2))))  # batch, kv_heads, queries, group, d
    return lax.reshape(lax.transpose(mixed, (0, 2, 1, 3, 4)), (batch, queries, heads * dim))


def softmax(x: Array) -> Array:
    """Softmax over the last axis, the maximum taken out first."""
    last = x.ndim - 1
    top = lax.stop_gradient(lax.expand_dims(lax.reduce_max(x, (last,)), (last,)))
    raised = lax.exp(x - top)
    return raised / lax.expand_dims(lax.reduce_sum(raised, (last,)), (last,))


def causal_bias(queries: int, keys: int, heads: int | None = None) -> Array:
    """0 where a query may look and a large negative number where not; with `heads`, ALiBi's slope for each head is added.

    Source: Press et al. 2022, https://arxiv.org/abs/2108.12409.
    """
    row = lax.broadcasted_iota(jnp.int32, (queries, keys), 0) + (keys - queries)
    column = lax.broadcasted_iota(jnp.int32, (queries, keys), 1)
    mask = lax.select(row >= column, lax.full((queries, keys), 0.0, jnp.float32), lax.full((queries, keys), -1e30, jnp.float32))
    if heads is None:
        return mask
    slope = lax.exp((lax.iota(jnp.float32, heads) + 1.0) * jnp.float32(-8.0 * math.log(2.0) / heads))
    size = (heads, queries, keys)
    distance = (column - row).astype(jnp.float32)
    return lax.broadcast_in_dim(slope, size, (0,)) * lax.broadcast_in_dim(distance, size, (1, 2)) + lax.broadcast_in_dim(mask, size, (1, 2))


def gelu(x: Array) -> Array:
    """GELU by its tanh form: x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    inner = (x + x * x * x * 0.044715) * math.sqrt(2.0 / math.pi)
    return x * 0.5 * (lax.tanh(inner) + 1.0)


def feed_forward(shape: Model, weights: Weights, x: Array) -> Array:
    """Dense feed-forward layer: down(act(gate x) * up x), or down(gelu(up x)) without a gate."""
    up = _biased(matmul(x, weights["up"]), weights, "up_bias")
    if shape.gated:
        gate = _biased(matmul(x, weights["gate"]), weights, "gate_bias")
        up = gate * lax.logistic(gate) * up
    else:
        up = gelu(up)
    return _biased(matmul(up, weights["down"]), weights, "down_bias")


def _biased(x: Array, weights: Weights, key: str) -> Array:
    return x + spread(weights[key], x) if key in weights else x


def project(shape: Model, weights: Weights, x: Array, turn: tuple[Array, Array] | None) -> tuple[Array, Array, Array]:
    """Query (batch, sequence, heads, d), key and value (batch, sequence, kv_heads, d), rotated where positions are rotary."""
    batch, sequence = x.shape[:2]
    query, key, value = (_biased(matmul(x, weights[name]), weights, f"{name}_bias") for name in ("query", "key", "value"))
    query = lax.reshape(query, (batch, sequence, shape.heads, shape.head_size))
    key, value = (lax.reshape(part, (batch, sequence, shape.kv_heads, shape.head_size)) for part in (key, value))
    if turn is not None:
        query, key = rotate(query, turn), rotate(key, turn)
    return query, key, value


def block(
    shape: Model,
    weights: Weights,
    x: Array,
    turn: tuple[Array, Array] | None,
    bias: Array | None,
    feed: Callable[[Model, Weights, Array], Array] = feed_forward,
) -> tuple[Array, tuple[Array, Array]]:
    """One block: x + attention(norm x), then + feed-forward(norm). Also returns the new keys and values.

    Args:
        x: (batch, sequence, hidden).
    """
    normed = norm(shape.norm, x, weights["attention_norm"], weights.get("attention_norm_shift"))
    query, key, value = project(shape, weights, normed, turn)
    mixed = _biased(matmul(attention(query, key, value, bias), weights["output"]), weights, "output_bias")
    if shape.parallel_block:
        return x + mixed + feed(shape, weights, normed), (key, value)
    x = x + mixed
    normed = norm(shape.norm, x, weights["ffn_norm"], weights.get("ffn_norm_shift"))
    return x + feed(shape, weights, normed), (key, value)


def embed(shape: Model, weights: Weights, tokens: Array, dtype: Any, one_hot: bool = False) -> Array:
    """Token embedding (batch, sequence, hidden): a gather, or a product with one-hot rows as some TPU programs do it."""
    table = weights["embedding"].astype(dtype)
    if one_hot:
        size = (*tokens.shape, shape.vocabulary)
        rows = (lax.broadcast_in_dim(tokens, size, (0, 1)) == lax.broadcasted_iota(tokens.dtype, size, 2)).astype(dtype)
        x = lax.dot_general(rows, table, (((2,), (0,)), ((), ())))
    else:
        numbers = lax.GatherDimensionNumbers(offset_dims=(2,), collapsed_slice_dims=(0,), start_index_map=(0,))
        x = lax.gather(table, lax.expand_dims(tokens, (2,)), numbers, (1, shape.hidden), mode=lax.GatherScatterMode.CLIP)
    if shape.positions == "learned":
        x = x + lax.broadcast_in_dim(weights["positions"][: tokens.shape[1]].astype(dtype), x.shape, (1, 2))
    return x


def logits(shape: Model, weights: Weights, x: Array) -> Array:
    """Final norm and output layer: (..., vocab) in the type of x."""
    x = norm(shape.norm, x, weights["final_norm"], weights.get("final_norm_shift"))
    if shape.tied:
        return lax.dot_general(x, weights["embedding"].astype(x.dtype), (((x.ndim - 1,), (1,)), ((), ())))
    return matmul(x, weights["head"])
