"""Whole passes of a transformer as JAX programs: forward, training step, prefill and decode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from analysis.studies.workloads.zoo import transformer as zt
from analysis.workloads.models import Model

Array = Any
Recompute = Literal["none", "full"]


def forward(
    shape: Model, scan: bool, recompute: Recompute, dtype: Any, one_hot: bool, feed: Callable[..., Array], weights: Any, tokens: Array
) -> Array:
    """Logits (batch, sequence, vocab) of tokens (batch, sequence).

    Args:
        scan: blocks in a loop over stacked weights, or one after the other.
        recompute: full recomputes each block in the backward pass in place of keeping its activations.
    """
    sequence = tokens.shape[1]
    turn = zt.rotation(lax.iota(jnp.int32, sequence), shape.head_size) if shape.positions == "rotary" else None
    bias = zt.causal_bias(sequence, sequence, shape.heads if shape.positions == "alibi" else None) if shape.causal else None
    x = zt.embed(shape, weights, tokens, dtype, one_hot)

    def run(x: Array, block: Any) -> Array:
        return zt.block(shape, block, x, turn, bias, feed)[0]

    if recompute == "full":
        run = jax.checkpoint(run)
    if scan:
        x, _ = lax.scan(lambda x, block: (run(x, block), None), x, weights["blocks"])
    else:
        for block in weights["blocks"]:
            x = run(x, block)
    return zt.logits(shape, weights, x)


def cross_entropy(scores: Array, labels: Array) -> Array:
    """Mean of log(sum(exp(scores))) - score of the label, in fp32.

    Args:
        scores: (batch, sequence, vocab) or (batch, classes); labels: integers, one axis less.
    """
    wide = scores.astype(jnp.float32)
    last = wide.ndim - 1
    top = lax.stop_gradient(lax.reduce_max(wide, (last,)))
    spread = lax.broadcast_in_dim(top, wide.shape, tuple(range(last)))
    log_sum = lax.log(lax.reduce_sum(lax.exp(wide - spread), (last,))) + top
    hit = lax.broadcast_in_dim(labels, wide.shape, tuple(range(last))) == lax.broadcasted_iota(labels.dtype, wide.shape, last)
    picked = lax.reduce_sum(lax.select(hit, wide, lax.full_like(wide, 0.0)), (last,))
    return lax.reduce_sum(log_sum - picked, tuple(range(last))) / labels.size


def adam(weight: Array, gradient: Array, first: Array, second: Array, rate: float = 1e-4, decay: float = 0.1) -> tuple[Array, Array, Array]:
    """AdamW update of one tensor, in fp32, with moments in their own type (bias correction folded into the rate).

    Source: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101, algorithm 2.
    """
    wide = gradient.astype(jnp.float32)
    first_new = first.astype(jnp.float32) * 0.9 + wide * 0.1
    second_new = second.astype(jnp.float32) * 0.95 + wide * wide * 0.05
    old = weight.astype(jnp.float32)
    new = old - rate * (first_new / (lax.sqrt(second_new) + 1e-8) + decay * old)
    return new.astype(weight.dtype), first_new.astype(first.dtype), second_new.astype(second.dtype)


def train_step(
    run: Callable[..., Array], weights: Any, first: Any, second: Any, tokens: Array, labels: Array
) -> tuple[Any, Any, Any, Array]:
    """Loss, gradients and AdamW: the new weights and moments, and the loss.

    Args:
        weights, first, second: trees of tensors; tokens, labels: (batch, sequence).
    """
    loss, gradients = jax.value_and_grad(lambda w: cross_entropy(run(w, tokens), labels))(weights)
    return *_update(weights, gradients, first, second), loss


def sharded_train_step(
    run: Callable[..., Array], weights: Any, owned: Any, first: Any, second: Any, tokens: Array, labels: Array
) -> tuple[Any, Any, Any, Array]:
    """What one of several devices runs that share weights and moments: loss and gradients of its own batch on gathered weights, and AdamW
    on the rows that it owns. Gathering the weights and summing the gradients are not in it.

    Args:
        weights: gathered, in the type of the arithmetic; owned, first, second: this device's rows, in the type they are kept in.
        tokens, labels: of this device, (batch, sequence).
    """
    loss, gradients = jax.value_and_grad(lambda w: cross_entropy(run(w, tokens), labels))(weights)
    mine = jax.tree.map(lambda gradient, kept: lax.slice(gradient, (0,) * gradient.ndim, kept.shape), gradients, owned)
    return *_update(owned, mine, first, second), loss


def _update(weights: Any, gradients: Any, first: Any, second: Any) -> list[Any]:
    leaves, tree = jax.tree.flatten(weights)
    sides = (jax.tree.leaves(part) for part in (gradients, first, second))
    updated = [adam(*parts) for parts in zip(leaves, *sides, strict=True)]
    return [jax.tree.unflatten(tree, list(column)) for column in zip(*updated, strict=True)]


def prefill(shape: Model, dtype: Any, feed: Callable[..., Array], weights: Any, tokens: Array) -> tuple[Array, Array]:
    """Logits of the last token (batch, vocab) and the key-value cache (layers, 2, batch, sequence, kv_heads, d), blocks in a scan."""
    sequence = tokens.shape[1]
    turn = zt.rotation(lax.iota(jnp.int32, sequence), shape.head_size) if shape.positions == "rotary" else None
    bias = zt.causal_bias(sequence, sequence, shape.heads if shape.positions == "alibi" else None)

    def step(x: Array, block: Any) -> tuple[Array, Array]:
        x, (key, value) = zt.block(shape, block, x, turn, bias, feed)
        return x, lax.concatenate([lax.expand_dims(key, (0,)), lax.expand_dims(value, (0,))], 0)

    x, cache = lax.scan(step, zt.embed(shape, weights, tokens, dtype), weights["blocks"])
    return zt.logits(shape, weights, x[:, -1]), cache


def decode(
    shape: Model, dtype: Any, feed: Callable[..., Array], weights: Any, cache: Array, token: Array, position: Array
) -> tuple[Array, Array]:
    """Logits (batch, vocab) of the next token and the cache with one more entry; attends to the whole cache, masked.

    Args:
        cache: (layers, 2, batch, context, kv_heads, d); token: (batch, 1); position: () where the new entry goes.
    """
    context = cache.shape[3]
    places = lax.broadcast_in_dim(position, (1,), ())
    turn = zt.rotation(places, shape.head_size) if shape.positions == "rotary" else None
    reach = lax.broadcasted_iota(jnp.int32, (1, context), 1) <= lax.broadcast_in_dim(position, (1, context), ())
    bias = lax.select(reach, lax.full((1, context), 0.0, jnp.float32), lax.full((1, context), -1e30, jnp.float32))

    def step(x: Array, layer: tuple[Any, Array]) -> tuple[Array, Array]:
        block, kept = layer
        normed = zt.norm(shape.norm, x, block["attention_norm"], block.get("attention_norm_shift"))
        query, key, value = zt.project(shape, block, normed, turn)
        new = lax.concatenate([lax.expand_dims(key, (0,)), lax.expand_dims(value, (0,))], 0)
        kept = lax.dynamic_update_slice_in_dim(kept, new, position, 2)
        mixed = zt.attention(query, kept[0], kept[1], bias)
        x = x + zt._biased(zt.matmul(mixed, block["output"]), block, "output_bias")
        normed = zt.norm(shape.norm, x, block["ffn_norm"], block.get("ffn_norm_shift"))
        return x + feed(shape, block, normed), kept

    x, cache = lax.scan(step, zt.embed(shape, weights, token, dtype), (weights["blocks"], cache))
    return zt.logits(shape, weights, x[:, 0]), cache


def forward_of(
    shape: Model, scan: bool, recompute: Recompute, dtype: Any, one_hot: bool, feed: Callable[..., Array]
) -> Callable[..., Array]:
    """`forward` with its settings filled in: a function of (weights, tokens)."""
    return partial(forward, shape, scan, recompute, dtype, one_hot, feed)
