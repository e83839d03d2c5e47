"""ResNet (v1.5: the stride on the 3x3 convolution) as a JAX program: forward with running statistics, and a training step.

Images are NHWC, kernels HWIO. Batch statistics are over the whole batch that the program sees, also when it is split over devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from analysis.studies.workloads.zoo.transformer import matmul, spread
from analysis.studies.workloads.zoo.transformer_steps import cross_entropy

Array = Any
STAGES: dict[int, tuple[tuple[int, int, int, int], bool]] = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    152: ((3, 8, 36, 3), True),
    200: ((3, 24, 36, 3), True),
}


@dataclass(frozen=True)
class Convolution:
    """One convolution and the batch norm behind it.

    Args:
        name: path such as ``stage1.block0.conv2``.
        kernel: height and width (count); inputs, outputs: channels (count); stride: (count).
    """

    name: str
    kernel: int
    inputs: int
    outputs: int
    stride: int


def blocks(depth: int) -> list[list[Convolution]]:
    """The residual blocks of a ResNet; a block's last entry is named ``shortcut`` where it projects.

    Source: He et al. 2016, https://arxiv.org/abs/1512.03385, table 1; v1.5 of the stride.
    """
    counts, bottleneck = STAGES[depth]
    found: list[list[Convolution]] = []
    channels = 64
    for stage, count in enumerate(counts):
        width = 64 * 2**stage
        outputs = 4 * width if bottleneck else width
        for index in range(count):
            stride = 2 if stage > 0 and index == 0 else 1
            name = f"stage{stage + 1}.block{index}"
            if bottleneck:
                kernels = [(1, channels, width, 1), (3, width, width, stride), (1, width, outputs, 1)]
            else:
                kernels = [(3, channels, width, stride), (3, width, outputs, 1)]
            part = [Convolution(f"{name}.conv{i + 1}", *kernel) for i, kernel in enumerate(kernels)]
            if stride != 1 or channels != outputs:
                part.append(Convolution(f"{name}.shortcut", 1, channels, outputs, stride))
            found.append(part)
            channels = outputs
    return found


STEM = Convolution("stem", 7, 3, 64, 2)


def convolutions(depth: int) -> list[Convolution]:
    """Every convolution with its batch norm, in order of execution."""
    return [STEM, *(conv for block in blocks(depth) for conv in block)]


def parameter_shapes(depth: int, classes: int = 1000) -> dict[str, tuple[int, ...]]:
    """Trained tensors by name: kernels, batch-norm scales and shifts, and the classifier."""
    shapes: dict[str, tuple[int, ...]] = {}
    for conv in convolutions(depth):
        shapes[conv.name] = (conv.kernel, conv.kernel, conv.inputs, conv.outputs)
        shapes[f"{conv.name}.scale"] = shapes[f"{conv.name}.shift"] = (conv.outputs,)
    features = convolutions(depth)[-1].outputs
    return {**shapes, "classifier": (features, classes), "classifier.bias": (classes,)}


def statistics_shapes(depth: int) -> dict[str, tuple[int, ...]]:
    """Running mean and variance of every batch norm."""
    return {f"{conv.name}.{part}": (conv.outputs,) for conv in convolutions(depth) for part in ("mean", "variance")}


def convolve(x: Array, kernel: Array, stride: int) -> Array:
    """Convolution with zero padding that keeps the size at stride 1."""
    pad = kernel.shape[0] // 2
    return lax.conv_general_dilated(
        x, kernel.astype(x.dtype), (stride, stride), [(pad, pad), (pad, pad)], dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def batch_norm(x: Array, name: str, weights: Any, statistics: Any, new: dict[str, Array] | None) -> Array:
    """(x - mean) / sqrt(variance + 1e-5) * scale + shift, in fp32; with `new`, statistics of the batch, put there with momentum 0.9."""
    wide = x.astype(jnp.float32)
    if new is None:
        mean, variance = statistics[f"{name}.mean"], statistics[f"{name}.variance"]
    else:
        count = x.size // x.shape[3]
        mean = lax.reduce_sum(wide, (0, 1, 2)) / count
        variance = lax.reduce_sum(wide * wide, (0, 1, 2)) / count - mean * mean
        for part, value in (("mean", mean), ("variance", variance)):
            new[f"{name}.{part}"] = statistics[f"{name}.{part}"] * 0.9 + lax.stop_gradient(value) * 0.1
    factor = lax.rsqrt(variance + 1e-5) * weights[f"{name}.scale"]
    return ((wide - spread(mean, wide)) * spread(factor, wide) + spread(weights[f"{name}.shift"], wide)).astype(x.dtype)


def forward(depth: int, dtype: Any, training: bool, weights: Any, statistics: Any, images: Array) -> tuple[Array, Any]:
    """Logits (batch, classes) and the running statistics, new where training.

    Args:
        images: (batch, height, width, 3).
    """
    new: dict[str, Array] | None = {} if training else None

    def apply(x: Array, conv: Convolution) -> Array:
        return batch_norm(convolve(x, weights[conv.name], conv.stride), conv.name, weights, statistics, new)

    x = lax.max(apply(images.astype(dtype), STEM), jnp.asarray(0, dtype))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)])
    for block in blocks(depth):
        shortcut = apply(x, block[-1]) if block[-1].name.endswith("shortcut") else x
        main = [conv for conv in block if not conv.name.endswith("shortcut")]
        for conv in main[:-1]:
            x = lax.max(apply(x, conv), jnp.asarray(0, dtype))
        x = lax.max(apply(x, main[-1]) + shortcut, jnp.asarray(0, dtype))
    pooled = lax.reduce_sum(x.astype(jnp.float32), (1, 2)) / (x.shape[1] * x.shape[2])
    scores = matmul(pooled.astype(dtype), weights["classifier"])
    return scores + spread(weights["classifier.bias"], scores), statistics if new is None else new


def train_step(
    depth: int, dtype: Any, weights: Any, statistics: Any, momentum: Any, images: Array, labels: Array
) -> tuple[Any, Any, Any, Array]:
    """Loss, gradients and SGD with momentum 0.9 and weight decay 1e-4: new weights, statistics, momentum, and the loss."""

    def loss(w: Any) -> tuple[Array, Any]:
        scores, new = forward(depth, dtype, True, w, statistics, images)
        return cross_entropy(scores, labels), new

    (value, new), gradients = jax.value_and_grad(loss, has_aux=True)(weights)
    velocity = jax.tree.map(lambda m, g, w: m * 0.9 + g.astype(m.dtype) + w * 1e-4, momentum, gradients, weights)
    return jax.tree.map(lambda w, v: w - v * 0.1, weights, velocity), new, velocity, value
