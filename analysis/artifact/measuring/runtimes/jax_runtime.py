"""Operators and whole models in JAX: each compiled as a program of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from analysis.artifact.measuring.graphs import Graph
from analysis.artifact.measuring.operators import MeasuredOperator
from analysis.artifact.measuring.runtimes.fill import values
from analysis.artifact.measuring.timing import CALLS

ARRAYS = {"fp32": jnp.float32, "bf16": jnp.bfloat16}


Running = tuple[jax.Array, jax.Array, jax.Array]
"""State of the blocked softmax: running maximum, running sum, running mix of values."""


def largest_block(length: int, limit: int = 256) -> int:
    """The largest divisor of a length that does not exceed the limit."""
    return max(block for block in range(1, min(length, limit) + 1) if length % block == 0)


def naive_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """softmax(Q K^T / sqrt(d)) V with all scores in memory; arrays are batch x heads x tokens x head size."""
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (1 / math.sqrt(q.shape[-1]))
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)


def blocked_attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """The same result block by block with a running maximum and sum, so that only one block of scores exists at a time.

    For key blocks j: m' = max(m, max S_j), l' = l e^(m-m') + sum e^(S_j-m'), o' = o e^(m-m') + e^(S_j-m') V_j; the result is o / l.

    Args:
        q, k, v: batch x heads x tokens x head size.
    Source: Dao et al. 2022, FlashAttention, Algorithm 1, with queries as the outer loop.
    """
    batch, heads, queries, width = q.shape
    keys = k.shape[2]
    rows, columns = largest_block(queries), largest_block(keys)
    q_blocks = jnp.moveaxis(q.reshape(batch, heads, queries // rows, rows, width), 2, 0)
    k_blocks = jnp.moveaxis(k.reshape(batch, heads, keys // columns, columns, width), 2, 0)
    v_blocks = jnp.moveaxis(v.reshape(batch, heads, keys // columns, columns, width), 2, 0)
    scale = 1 / math.sqrt(width)

    def one(block: jax.Array) -> jax.Array:
        def step(state: Running, pair: tuple[jax.Array, jax.Array]) -> tuple[Running, None]:
            largest, total, mixed = state
            scores = jnp.einsum("bhqd,bhkd->bhqk", block, pair[0]).astype(jnp.float32) * scale
            new = jnp.maximum(largest, scores.max(-1))
            weights = jnp.exp(scores - new[..., None])
            decay = jnp.exp(largest - new)
            part = jnp.einsum("bhqk,bhkd->bhqd", weights.astype(block.dtype), pair[1]).astype(jnp.float32)
            return (new, total * decay + weights.sum(-1), mixed * decay[..., None] + part), None

        shape = (batch, heads, rows)
        start = (jnp.full(shape, -jnp.inf), jnp.zeros(shape), jnp.zeros((*shape, width)))
        (_, total, mixed), _ = jax.lax.scan(step, start, (k_blocks, v_blocks))
        return (mixed / total[..., None]).astype(q.dtype)

    return jnp.moveaxis(jax.lax.map(one, q_blocks), 0, 2).reshape(q.shape)


def function(operator: MeasuredOperator) -> Callable[..., jax.Array]:
    """The operator as a JAX function of its activations and weights; leading dimensions may be anything."""
    kind, variant = operator.kind, operator.variant
    if kind == "gemm":
        return lambda x, w, b=None: jnp.matmul(x, w) + (0 if b is None else b)
    if kind == "bmm":
        if variant == "transposed":
            return lambda x, y: jnp.einsum("...mk,...nk->...mn", x, y)
        return lambda x, y: jnp.matmul(x, y)
    if kind == "conv2d":
        padding, stride, groups = operator["window"] // 2, operator["stride"], operator["groups"]
        return lambda x, w, b: (
            jax.lax.conv_general_dilated(
                x, w, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
            )
            + b
        )
    if kind == "pool" and variant == "mean":
        return lambda x: x.mean((1, 2))
    if kind == "pool":
        window, stride, padding = operator["window"], operator["stride"], operator["window"] // 2
        return lambda x: jax.lax.reduce_window(
            x,
            -jnp.inf,
            jax.lax.max,
            (1, window, window, 1),
            (1, stride, stride, 1),
            [(0, 0), (padding, padding), (padding, padding), (0, 0)],
        )
    if kind == "softmax" and variant == "causal":
        mask = np.tril(np.ones(operator.size[1:], bool))
        return lambda x: jax.nn.softmax(jnp.where(mask, x, -jnp.inf), axis=-1)
    if kind == "softmax":
        return lambda x: jax.nn.softmax(x, axis=-1)
    if kind == "layernorm":

        def layernorm(x: jax.Array, scale: jax.Array, shift: jax.Array) -> jax.Array:
            centred = x - x.mean(-1, keepdims=True)
            return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * scale + shift

        return layernorm
    if kind == "rmsnorm":
        return lambda x, scale: x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * scale
    if kind == "rope":

        def rope(x: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
            first, second = jnp.split(x, 2, axis=-1)
            return x * cos + jnp.concatenate([-second, first], axis=-1) * sin

        return rope
    if kind == "transpose":
        tokens, heads, width = operator.size
        if variant == "split_heads":
            return lambda x: jnp.swapaxes(x.reshape(tokens, heads, width), 0, 1)
        return lambda x: jnp.swapaxes(x, 0, 1).reshape(tokens, heads * width)
    if kind == "attention":
        return naive_attention if variant == "naive" else blocked_attention
    functions: dict[str, Callable[..., jax.Array]] = {
        "add": lambda x, y: x + y,
        "mul": lambda x, y: x * y,
        "relu": lambda x: jnp.maximum(x, 0),
        "scale": lambda x: x * 0.125,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "silu": jax.nn.silu,
    }
    return functions[variant]


def model_function(graph: Graph) -> Callable[[jax.Array, list[list[jax.Array]]], jax.Array]:
    """The whole graph as one JAX function of its input and of each node's weights."""
    steps = [(node, function(node.operator)) for node in graph.nodes]

    def model(x: jax.Array, weights: list[list[jax.Array]]) -> jax.Array:
        known = {"input": x}
        for (node, apply), mine in zip(steps, weights, strict=True):
            known[node.name] = apply(*(known[name] for name in node.inputs), *mine)
        return known[graph.nodes[-1].name]

    return model


def _calls(compiled: Callable[..., Any], *arguments: Any) -> CALLS:
    def run(calls: int) -> None:
        for _ in range(calls):
            jax.block_until_ready(compiled(*arguments))

    return run


class JaxRuntime:
    """One data type, fp32 or bf16, in JAX on the CPU; every call is waited for."""

    FAILURES = (jax.errors.JaxRuntimeError,)

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        if dtype == "fp32":
            jax.config.update("jax_default_matmul_precision", "highest")

    def facts(self) -> dict[str, str]:
        """What JAX runs on."""
        return {"platform": "cpu", "accelerator": ""}

    def _arrays(self, shapes: tuple[tuple[int, ...], ...], start: int = 0) -> list[jax.Array]:
        kind = ARRAYS[self.dtype]
        return [jnp.asarray(values(shape, start + index)).astype(kind) for index, shape in enumerate(shapes)]

    def prepare(self, operator: MeasuredOperator) -> CALLS:
        """Calls of the compiled operator on fixed values."""
        return _calls(jax.jit(function(operator)), *self._arrays((*operator.inputs(), *operator.parameters())))

    def prepare_model(self, graph: Graph) -> CALLS:
        """Calls of the whole graph compiled as one program."""
        weights = [self._arrays(node.operator.parameters(), 1) for node in graph.nodes]
        return _calls(jax.jit(model_function(graph)), self._arrays((graph.input_shape,))[0], weights)
