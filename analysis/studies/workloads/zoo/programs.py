"""The zoo's programs: what runs, the shapes of its arguments, and how they are split over devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from analysis.errors import InputError
from analysis.studies.workloads.counted import gpt
from analysis.studies.workloads.zoo import blocks as zoo_blocks
from analysis.studies.workloads.zoo import resnet as zoo_resnet
from analysis.studies.workloads.zoo import transformer as zt
from analysis.studies.workloads.zoo import transformer_steps as steps
from analysis.workloads import models
from analysis.workloads.models import Attention, Model

_HESPAS = "https://github.com/imec-int/hespas/blob/c45bb55/docs/tutorials/ispass_2026_workshop.rst"


def _hespas(name: str, layers: int, hidden: int) -> Model:
    """Llama-3-like shape of the study: heads of 128 at 64 of width each, a gated layer 3.5 times as wide, 128,256 tokens.

    Source: the tutorial's MaxText configuration (100m) and the argument shapes of the .mlir files of imec-int/hespas_workloads,
    branch llama-3-8 (the others; layers of 1b, 2b and 3b from the length of the module, which is 113.5 thousand characters a layer).
    """
    attention = Attention(heads=hidden // 64, kv_heads=hidden // 64, head_size=128)
    sizes: dict[str, Any] = {"layers": layers, "hidden": hidden, "dense_width": hidden * 7 // 2, "vocabulary": 128256, "context": 4096}
    return Model(name=name, source=_HESPAS, attention=attention, **sizes)


SHAPES: dict[str, Model] = {
    "bert-base": gpt(768, 12, 12, 30522, 512, "bert-base").model_copy(
        update={"causal": False, "source": "https://arxiv.org/abs/1810.04805"}
    ),
    **{
        name: _hespas(name, layers, hidden)
        for name, layers, hidden in (
            ("hespas-llama3-100m", 7, 576),
            ("hespas-llama3-200m", 10, 832),
            ("hespas-llama3-500m", 16, 1280),
            ("hespas-llama3-1b", 22, 1792),
            ("hespas-llama3-2b", 28, 2240),
            ("hespas-llama3-3b", 32, 2624),
        )
    },
}


DTYPES = {"bf16": jnp.bfloat16, "f16": jnp.float16, "f32": jnp.float32}


@dataclass(frozen=True)
class Program:
    """A function, the shapes it is lowered for, and the split of arguments and results.

    Args:
        arguments: trees of `jax.ShapeDtypeStruct`.
        mesh: axis names and sizes; empty for one device.
        in_specs, out_specs: trees of `PartitionSpec` (a prefix of the tree is enough); used with a mesh. An `out_specs` of None leaves
            the results to the partitioner.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    mesh: Mapping[str, int] = field(default_factory=dict)
    in_specs: tuple[Any, ...] | None = None
    out_specs: Any = None


def dtype_of(name: str) -> Any:
    """The JAX type of a short name: bf16, f16 or f32."""
    if name not in DTYPES:
        raise InputError(f"expected one of {', '.join(DTYPES)}, got {name!r}", key="dtype")
    return DTYPES[name]


def shape_of(model: str) -> Model:
    """A transformer of `SHAPES` or of `data/workloads/models.yaml`."""
    return SHAPES[model] if model in SHAPES else models.alike(models.load(model), "a program of the zoo")


def _positive(**values: int) -> None:
    for key, value in values.items():
        if value < 1:
            raise InputError(f"expected at least 1, got {value}", key=key)


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"expected one of {', '.join(allowed)}, got {value!r}", key=key)


# --- matrix product -----------------------------------------------------------------------------------------------------


def gemm(m: int, n: int, k: int, dtype: str, split: str, devices: int) -> Program:
    """C (m, n) = A (m, k) B (k, n).

    Args:
        devices: how many share it (count), even for a grid.
        split: none; column: B and C by columns; row: A by columns and B by rows, the partial products summed on every device;
            scatter: the same, the sum left split by rows; grid: A, B and C on a grid of two rows of devices.
    """
    _one_of("split", split, ("none", "column", "row", "scatter", "grid"))
    _positive(m=m, n=n, k=k, devices=devices)
    kind = dtype_of(dtype)
    arguments = (jax.ShapeDtypeStruct((m, k), kind), jax.ShapeDtypeStruct((k, n), kind))

    def product(a: Any, b: Any) -> Any:
        return lax.dot_general(a, b, (((1,), (0,)), ((), ())))

    if split == "none":
        return Program(product, arguments)
    if split == "grid":
        if devices % 2:
            raise InputError(f"a grid needs an even number, got {devices}", key="devices")
        whole = P("y", "x")
        return Program(product, arguments, {"y": 2, "x": devices // 2}, (whole, whole), whole)
    specs = {
        "column": (P(), P(None, "x"), P(None, "x")),
        "row": (P(None, "x"), P("x", None), P()),
        "scatter": (P(None, "x"), P("x", None), P("x", None)),
    }[split]
    return Program(product, arguments, {"x": devices}, specs[:2], specs[2])


# --- convolutional networks ---------------------------------------------------------------------------------------------


def resnet(depth: int, step: str, batch: int, image: int, dtype: str, devices: int) -> Program:
    """ResNet forward (running statistics) or training step (SGD with momentum, fp32 weights), split over devices by batch."""
    _one_of("step", step, ("forward", "train"))
    _positive(batch=batch, image=image, devices=devices)
    if depth not in zoo_resnet.STAGES:
        raise InputError(f"expected one of {', '.join(map(str, zoo_resnet.STAGES))}, got {depth}", key="depth")
    kind = dtype_of(dtype)
    weights = zt.as_arguments(zoo_resnet.parameter_shapes(depth), jnp.float32)
    statistics = zt.as_arguments(zoo_resnet.statistics_shapes(depth), jnp.float32)
    images = jax.ShapeDtypeStruct((batch, image, image, 3), kind)
    labels = jax.ShapeDtypeStruct((batch,), jnp.int32)
    mesh = {"x": devices} if devices > 1 else {}
    if step == "forward":

        def run(w: Any, s: Any, x: Any) -> Any:
            return zoo_resnet.forward(depth, kind, False, w, s, x)[0]

        return Program(run, (weights, statistics, images), mesh, (P(), P(), P("x")), P("x"))
    train = partial(zoo_resnet.train_step, depth, kind)
    return Program(train, (weights, statistics, weights, images, labels), mesh, (P(), P(), P(), P("x"), P("x")), P())


# --- transformers -------------------------------------------------------------------------------------------------------

_COLUMNS = {"query", "key", "value", "up", "gate", "query_bias", "key_bias", "value_bias", "up_bias", "gate_bias", "head"}
_ROWS = {"output", "down"}


def _weight_specs(shapes: Any, split: str, devices: int) -> Any:
    """Split of each weight: tensor (columns of the first, rows of the second matrix of a pair), fsdp (rows of every matrix, or columns
    where the rows do not divide), else whole."""

    def of(path: Any, dims: tuple[int, ...]) -> P:
        keys = [str(part.key) for part in path if isinstance(part, jax.tree_util.DictKey)]
        name, stacked = keys[-1], "blocks" in keys and not any(isinstance(part, jax.tree_util.SequenceKey) for part in path)
        own = dims[1:] if stacked else dims
        lead = (None,) * (len(dims) - len(own))
        if split == "tensor" and name in _COLUMNS:
            return P(*lead, *(None,) * (len(own) - 1), "x")
        if split == "tensor" and name in _ROWS:
            return P(*lead, *(None,) * (len(own) - 2), "x", None)
        if split == "fsdp" and len(own) > 1:
            ends = ("x", None) if own[-2] % devices == 0 else (None, "x")
            return P(*lead, *(None,) * (len(own) - 2), *ends)
        return P()

    return jax.tree_util.tree_map_with_path(of, shapes, is_leaf=lambda node: isinstance(node, tuple))


def _rows(dims: tuple[int, ...], shard: int) -> tuple[int, ...]:
    """Shape of one of `shard` even parts: the first axis that divides is cut; one that nothing divides is rounded up along the longest."""
    for axis, size in enumerate(dims):
        if size % shard == 0:
            return (*dims[:axis], size // shard, *dims[axis + 1 :])
    axis = dims.index(max(dims))
    return (*dims[:axis], -(-dims[axis] // shard), *dims[axis + 1 :])


def _feed(shape: Model) -> Callable[..., Any]:
    return zoo_blocks.mixture if shape.expert_count > 1 else zt.feed_forward


def transformer(
    model: str,
    step: str,
    batch: int,
    sequence: int,
    dtype: str,
    weight_dtype: str,
    blocks: str,
    recompute: str,
    embedding: str,
    split: str,
    devices: int,
    layers: int,
    shard: int,
) -> Program:
    """A transformer of `data/workloads/models.yaml` or `shapes`.

    Args:
        step: layer (one block), forward, prefill, decode (one token, `sequence` the context), train (AdamW).
        batch: sequences of all devices together; sequence: tokens of each.
        dtype: of the arithmetic; weight_dtype: of weights and moments.
        blocks: scan or unrolled (forward and train).
        recompute: none or full (train).
        embedding: gather or one_hot.
        split: none, data (batch), fsdp (batch and weights), tensor (weights, within blocks).
        layers: 0 keeps the model's own number.
        shard: devices that share weights and moments (train, split none): the program of one of them, its batch, its rows of the update.
    """
    _one_of("step", step, ("layer", "forward", "prefill", "decode", "train"))
    _one_of("blocks", blocks, ("scan", "unrolled"))
    _one_of("recompute", recompute, ("none", "full"))
    _one_of("embedding", embedding, ("gather", "one_hot"))
    _one_of("split", split, ("none", "data", "fsdp", "tensor"))
    _positive(batch=batch, sequence=sequence, devices=devices, shard=shard)
    shape = shape_of(model)
    if layers:
        shape = shape.model_copy(update={"layers": layers})
    kind, stored = dtype_of(dtype), dtype_of(weight_dtype)
    feed = _feed(shape)
    mesh = {"x": devices} if split != "none" and devices > 1 else {}
    data = P("x") if split in ("data", "fsdp") else P()
    if step == "layer":
        shapes: Any = zt.layer_shapes(shape)
        x = jax.ShapeDtypeStruct((batch, sequence, shape.hidden), kind)

        def one(weights: Any, x: Any) -> Any:
            turn = zt.rotation(lax.iota(jnp.int32, sequence), shape.head_size) if shape.positions == "rotary" else None
            bias = zt.causal_bias(sequence, sequence, shape.heads if shape.positions == "alibi" else None) if shape.causal else None
            return zt.block(shape, weights, x, turn, bias, feed)[0]

        specs = (_weight_specs(shapes, split, devices), data)
        return Program(one, (zt.as_arguments(shapes, stored), x), mesh, specs, data)
    tokens = jax.ShapeDtypeStruct((batch, sequence), jnp.int32)
    scan = blocks == "scan" or step in ("prefill", "decode")
    shapes = zt.model_shapes(shape, scan)
    weights, specs = zt.as_arguments(shapes, stored), _weight_specs(shapes, split, devices)
    run = steps.forward_of(shape, scan, recompute, kind, embedding == "one_hot", feed)  # type: ignore[arg-type]
    if step == "forward":
        return Program(run, (weights, tokens), mesh, (specs, data), data)
    if step == "train" and shard > 1:
        if split != "none":
            raise InputError("a program of one device is not split again; expected split=none", key="shard")
        owned = zt.as_arguments(jax.tree.map(lambda dims: _rows(dims, shard), shapes, is_leaf=lambda node: isinstance(node, tuple)), stored)
        gathered = zt.as_arguments(shapes, kind)
        return Program(partial(steps.sharded_train_step, run), (gathered, owned, owned, owned, tokens, tokens))
    if step == "train":
        outputs = (specs, specs, specs, P())
        return Program(
            partial(steps.train_step, run), (weights, weights, weights, tokens, tokens), mesh, (specs, specs, specs, data, data), outputs
        )
    if step == "prefill":
        return Program(partial(steps.prefill, shape, kind, feed), (weights, tokens), mesh, (specs, data))
    cache = jax.ShapeDtypeStruct((shape.layers, 2, batch, sequence, shape.kv_heads, shape.head_size), kind)
    token, position = jax.ShapeDtypeStruct((batch, 1), jnp.int32), jax.ShapeDtypeStruct((), jnp.int32)
    held = {"tensor": P(None, None, None, None, "x"), "none": P()}.get(split, P(None, None, "x"))
    return Program(
        partial(steps.decode, shape, kind, feed), (weights, cache, token, position), mesh, (specs, held, data, P()), (data, held)
    )


def unet_block(batch: int, image: int, channels: int, heads: int, words: int, dtype: str) -> Program:
    """The highest-resolution block of a diffusion U-Net on a latent of `image` x `image`, text of 768 and time of 1,280 numbers."""
    _positive(batch=batch, image=image, channels=channels, heads=heads, words=words)
    if channels % 32 or channels % heads:
        raise InputError(f"expected a multiple of 32 and of heads {heads}, got {channels}", key="channels")
    kind = dtype_of(dtype)
    weights = zt.as_arguments(zoo_blocks.unet_shapes(channels, 768, 1280), kind)
    x, time, text = (jax.ShapeDtypeStruct(dims, kind) for dims in ((batch, image, image, channels), (batch, 1280), (batch, words, 768)))
    return Program(partial(zoo_blocks.unet_block, heads), (weights, x, time, text))
