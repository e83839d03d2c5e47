"""What runs one operator of fixed shape, in JAX and in NumPy; its name says all: ``gemm[bias] m=128 n=768 k=768``."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Call = Callable[[], Any]


def parsed(name: str) -> tuple[str, dict[str, int]]:
    """Kind with its variant, such as gemm[bias], and dimensions (count)."""
    kind, *sizes = name.split()
    return kind, {key: int(value) for key, _, value in (word.partition("=") for word in sizes)}


def operands(name: str) -> list[tuple[int, ...]]:
    """Shapes of its inputs, then of its weights; images are batch x height x width x channels."""
    kind, sizes = parsed(name)
    size = tuple(sizes.values())
    if kind.startswith("gemm"):
        m, n, k = size
        return [(m, k), (k, n)] + [(n,)] * (kind == "gemm[bias]")
    if kind.startswith("bmm"):
        batch, m, n, k = size
        return [(batch, m, k), (batch, n, k) if kind == "bmm[transposed]" else (batch, k, n)]
    if kind == "conv2d[bias]":
        channels, filters, window, _, groups = size[3:]
        return [size[:4], (window, window, channels // groups, filters), (filters,)]
    if kind.startswith("attention"):
        batch, heads, queries, keys, width = size
        return [(batch, heads, queries, width), *[(batch, heads, keys, width)] * 2]
    if kind.endswith("norm"):
        return [size, *[size[1:]] * (2 if kind == "layernorm" else 1)]
    return [size] * (2 if kind in ("elementwise[add]", "elementwise[mul]") else 1)


@cache
def _pool() -> np.ndarray:
    return (np.random.default_rng(0).standard_normal(1 << 20) * 0.1).astype(np.float32)


def values(name: str) -> list[np.ndarray]:
    """The operands in fp32: normal values of deviation 0.1 from a fixed pool, shifted so that no two operands are equal."""
    return [np.resize(np.roll(_pool(), -8191 * place), shape) for place, shape in enumerate(operands(name))]


def _softmax(x: np.ndarray) -> np.ndarray:
    shifted = np.exp(x - x.max(-1, keepdims=True))
    shifted /= shifted.sum(-1, keepdims=True)
    return shifted


def _layernorm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(1e-5)) * scale + shift


IN_BOTH: dict[str, Callable[..., Any]] = {
    "gemm": lambda x, w: x @ w,
    "gemm[bias]": lambda x, w, b: x @ w + b,
    "bmm": lambda x, y: x @ y,
    "bmm[transposed]": lambda x, y: x @ y.swapaxes(-1, -2),
    "elementwise[add]": lambda x, y: x + y,
    "elementwise[mul]": lambda x, y: x * y,
}
IN_NUMPY: dict[str, Callable[..., np.ndarray]] = IN_BOTH | {
    "softmax": _softmax,
    "layernorm": _layernorm,
    "rmsnorm": lambda x, scale: x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(1e-5)) * scale,
    "elementwise[relu]": lambda x: np.maximum(x, np.float32(0)),
    "elementwise[silu]": lambda x: x / (1 + np.exp(-x)),
    "attention[naive]": lambda q, k, v: _softmax(q @ k.swapaxes(-1, -2) * np.float32(1 / math.sqrt(q.shape[-1]))) @ v,
}
"""What is natural in NumPy, whose products are OpenBLAS's."""


def blocked_attention(q: Any, k: Any, v: Any) -> Any:
    """softmax(Q K^T / sqrt(d)) V block by block, so that only one block of scores exists at a time; batch x heads x tokens x head size.

    For key blocks j: m' = max(m, max S_j), l' = l e^(m-m') + sum e^(S_j-m'), o' = o e^(m-m') + e^(S_j-m') V_j; the result is o / l.

    Source: Dao et al. 2022, FlashAttention, Algorithm 1, with queries as the outer loop.
    """
    import jax
    import jax.numpy as jnp

    def blocks(x: Any) -> Any:
        batch, heads, tokens, width = x.shape
        size = max(size for size in range(1, min(tokens, 256) + 1) if tokens % size == 0)
        return jnp.moveaxis(x.reshape(batch, heads, tokens // size, size, width), 2, 0)

    def one(block: Any) -> Any:
        def step(state: Any, pair: Any) -> Any:
            largest, total, mixed = state
            scores = jnp.einsum("bhqd,bhkd->bhqk", block, pair[0]).astype(jnp.float32) * (1 / math.sqrt(q.shape[-1]))
            new = jnp.maximum(largest, scores.max(-1))
            weights, decay = jnp.exp(scores - new[..., None]), jnp.exp(largest - new)
            part = jnp.einsum("bhqk,bhkd->bhqd", weights.astype(block.dtype), pair[1]).astype(jnp.float32)
            return (new, total * decay + weights.sum(-1), mixed * decay[..., None] + part), None

        start = (jnp.full(block.shape[:3], -jnp.inf), jnp.zeros(block.shape[:3]), jnp.zeros(block.shape))
        (_, total, mixed), _ = jax.lax.scan(step, start, (blocks(k), blocks(v)))
        return (mixed / total[..., None]).astype(q.dtype)

    return jnp.moveaxis(jax.lax.map(one, blocks(q)), 0, 2).reshape(q.shape)


def in_jax(name: str, dtype: str) -> Call:
    """Calls of the operator compiled as a program of its own and waited for, in fp32 or bf16."""
    import jax
    import jax.numpy as jnp

    kind, size = parsed(name)

    def convolve(x: Any, w: Any, b: Any) -> Any:
        steps, padding, layout = (size["stride"],) * 2, [(size["window"] // 2,) * 2] * 2, ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, w, steps, padding, dimension_numbers=layout, feature_group_count=size["groups"]) + b

    def layernorm(x: Any, scale: Any, shift: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-5) * scale + shift

    def naive(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (1 / math.sqrt(q.shape[-1]))
        return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)

    functions: dict[str, Callable[..., Any]] = IN_BOTH | {
        "conv2d[bias]": convolve,
        "softmax": lambda x: jax.nn.softmax(x, axis=-1),
        "layernorm": layernorm,
        "rmsnorm": lambda x, scale: x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * scale,
        "elementwise[relu]": lambda x: jnp.maximum(x, 0),
        "elementwise[gelu]": lambda x: jax.nn.gelu(x, approximate=False),
        "elementwise[silu]": jax.nn.silu,
        "attention[naive]": naive,
        "attention[fused]": blocked_attention,
    }
    jax.config.update("jax_default_matmul_precision", "highest" if dtype == "fp32" else None)
    arrays = [jnp.asarray(array).astype({"fp32": jnp.float32, "bf16": jnp.bfloat16}[dtype]) for array in values(name)]
    compiled = jax.jit(functions[kind])
    return lambda: jax.block_until_ready(compiled(*arrays))


def prepared(name: str, runtime: str, dtype: str) -> Call | None:
    """A call of the operator on fixed values, in jax or numpy; None: it is not natural there."""
    if runtime == "jax":
        return in_jax(name, dtype)
    evaluate, arrays = IN_NUMPY.get(parsed(name)[0]), values(name)
    return (lambda: evaluate(*arrays)) if evaluate else None
