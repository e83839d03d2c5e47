"""Two blocks beyond plain transformers as JAX programs: a mixture of experts, and the residual and attention block of a diffusion U-Net."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from analysis.studies.workloads.zoo import transformer as zt
from analysis.studies.workloads.zoo.resnet import convolve
from analysis.workloads.models import Model

Array = Any


def expert_capacity(tokens: int, shape: Model, factor: float) -> int:
    """Places of each expert: ceil(factor x tokens x experts_per_token / experts)."""
    return math.ceil(factor * tokens * shape.experts_per_token / shape.expert_count)


def mixture(shape: Model, weights: Any, x: Array, factor: float = 1.25) -> Array:
    """Mixture of experts by dispatch and combine products with one-hot places; tokens over an expert's capacity are dropped.

    Args:
        x: (batch, sequence, hidden).
    Source: Lepikhin et al. 2021 (GShard), https://arxiv.org/abs/2006.16668, algorithm 1, for `experts_per_token` choices.
    """
    batch, sequence, hidden = x.shape
    tokens, experts = batch * sequence, shape.expert_count
    places = expert_capacity(tokens, shape, factor)
    flat = lax.reshape(x, (tokens, hidden))
    chances = zt.softmax(zt.matmul(flat, weights["router"]).astype(jnp.float32))
    left, used = chances, lax.full((experts,), 0.0, jnp.float32)
    dispatch = lax.full((tokens, experts, places), 0.0, x.dtype)
    combine = lax.full((tokens, experts, places), 0.0, x.dtype)
    column = lax.broadcasted_iota(jnp.int32, (tokens, experts), 1)
    for _ in range(shape.experts_per_token):
        best = lax.broadcast_in_dim(lax.argmax(left, 1, jnp.int32), (tokens, experts), (0,))
        chosen = (best == column).astype(jnp.float32)
        order = lax.cumsum(chosen, 0) - chosen + zt.spread(used, chosen)
        place = lax.reduce_sum(order * chosen, (1,)).astype(jnp.int32)
        size = (tokens, experts, places)
        seat = lax.broadcast_in_dim(place, size, (0,)) == lax.broadcasted_iota(jnp.int32, size, 2)
        taken = lax.broadcast_in_dim(chosen, size, (0, 1)) * seat.astype(jnp.float32)
        weight = lax.reduce_sum(chances * chosen, (1,))
        dispatch = dispatch + taken.astype(x.dtype)
        combine = combine + (taken * lax.broadcast_in_dim(weight, size, (0,))).astype(x.dtype)
        left, used = left * (1.0 - chosen), used + lax.reduce_sum(chosen, (0,))
    gathered = lax.dot_general(dispatch, flat, (((0,), (0,)), ((), ())))  # experts, places, hidden

    def each(inputs: Array, name: str) -> Array:
        return lax.dot_general(inputs, weights[name].astype(x.dtype), (((2,), (1,)), ((0,), (0,))))

    up = each(gathered, "up")
    if shape.gated:
        gate = each(gathered, "gate")
        up = gate * lax.logistic(gate) * up
    else:
        up = zt.gelu(up)
    mixed = lax.dot_general(combine, each(up, "down"), (((1, 2), (0, 1)), ((), ())))
    return lax.reshape(mixed, (batch, sequence, hidden))


def unet_shapes(channels: int, text: int, time: int) -> dict[str, tuple[int, ...]]:
    """Weights of one U-Net block.

    Args:
        channels: of the feature map; text: width of the text embedding; time: width of the time embedding (counts).
    """
    wide = 4 * channels
    shapes: dict[str, tuple[int, ...]] = {"time": (time, channels)}
    for name in ("norm1", "norm2", "norm3"):
        shapes |= {name: (channels,), f"{name}.shift": (channels,)}
    for name in ("conv1", "conv2"):
        shapes[name] = (3, 3, channels, channels)
    for name in ("in", "out", "self.query", "self.key", "self.value", "self.output", "cross.query", "cross.output"):
        shapes[name] = (channels, channels)
    shapes |= {"cross.key": (text, channels), "cross.value": (text, channels)}
    for name in ("self", "cross", "ffn"):
        shapes |= {f"{name}.norm": (channels,), f"{name}.norm.shift": (channels,)}
    return {**shapes, "ffn.up": (channels, wide), "ffn.gate": (channels, wide), "ffn.down": (wide, channels)}


def group_norm(x: Array, scale: Array, shift: Array, groups: int = 32) -> Array:
    """Group norm of (batch, height, width, channels), in fp32, result in the type of x."""
    batch, height, width, channels = x.shape
    wide = lax.reshape(x.astype(jnp.float32), (batch, height * width, groups, channels // groups))
    count = height * width * channels // groups

    def centre(values: Array) -> Array:
        return lax.broadcast_in_dim(lax.reduce_sum(values, (1, 3)) / count, values.shape, (0, 2))

    wide = wide - centre(wide)
    wide = lax.reshape(wide * lax.rsqrt(centre(wide * wide) + 1e-5), x.shape)
    return (wide * zt.spread(scale, wide) + zt.spread(shift, wide)).astype(x.dtype)


def unet_block(heads: int, weights: Any, x: Array, time: Array, text: Array) -> Array:
    """Residual block with a time embedding, then self-attention, attention to the text, and a gated feed-forward layer.

    Args:
        x: (batch, height, width, channels); time: (batch, width of the time embedding); text: (batch, words, width of the text embedding).
    Source: Rombach et al. 2022, https://arxiv.org/abs/2112.10752, appendix E.2 (the block of Stable Diffusion).
    """

    def silu(values: Array) -> Array:
        return values * lax.logistic(values)

    def branch(name: str, values: Array) -> Array:
        return zt.norm("layer", values, weights[f"{name}.norm"], weights[f"{name}.norm.shift"])

    batch, height, width, channels = x.shape
    inner = convolve(silu(group_norm(x, weights["norm1"], weights["norm1.shift"])), weights["conv1"], 1)
    inner = inner + lax.broadcast_in_dim(zt.matmul(silu(time), weights["time"]), inner.shape, (0, 3))
    x = x + convolve(silu(group_norm(inner, weights["norm2"], weights["norm2.shift"])), weights["conv2"], 1)
    flat = lax.reshape(group_norm(x, weights["norm3"], weights["norm3.shift"]), (batch, height * width, channels))
    flat = zt.matmul(flat, weights["in"])

    def attend(name: str, values: Array, source: Array) -> Array:
        def split(part: Array, key: str) -> Array:
            made = zt.matmul(part, weights[f"{name}.{key}"])
            return lax.reshape(made, (batch, made.shape[1], heads, channels // heads))

        mixed = zt.attention(split(values, "query"), split(source, "key"), split(source, "value"), None)
        return zt.matmul(mixed, weights[f"{name}.output"])

    normed = branch("self", flat)
    flat = flat + attend("self", normed, normed)
    flat = flat + attend("cross", branch("cross", flat), text)
    normed = branch("ffn", flat)
    up = zt.matmul(normed, weights["ffn.up"]) * zt.gelu(zt.matmul(normed, weights["ffn.gate"]))
    flat = flat + zt.matmul(up, weights["ffn.down"])
    return x + lax.reshape(zt.matmul(flat, weights["out"]), x.shape)
