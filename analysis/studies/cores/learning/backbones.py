"""Other backbones in the place of the LSTM, behind the same input projection and in front of the same heads: CNN, SSM, transformer."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from analysis.studies.cores.learning.lstm import LstmShape, Parameters, encode, head_shapes, parameter_shapes

KINDS = ("lstm", "bilstm", "cnn", "ssm", "transformer")
CNN_TAPS = 5
ATTENTION_HEADS = 4

Shapes = dict[str, tuple[int, ...]]


def _projection(width: int, inputs: int) -> Shapes:
    return {"input_proj.weight": (width, inputs), "input_proj.bias": (width,)}


def cnn_shapes(width: int, layers: int, inputs: int = 13) -> Shapes:
    """Residual convolutions of five taps, dilated by 1, 2, 4, ... so that the last ones see the whole window."""
    shapes = _projection(width, inputs)
    for k in range(layers):
        shapes |= {f"cnn.weight_l{k}": (CNN_TAPS, width, width), f"cnn.bias_l{k}": (width,)}
    return shapes | head_shapes(width)


def encode_cnn(parameters: Parameters, windows: jax.Array) -> jax.Array:
    """x + relu(conv(x)), layer by layer; shape (batch, length, width)."""
    x = windows @ parameters["input_proj.weight"].T + parameters["input_proj.bias"]
    length, layer = x.shape[1], 0
    while f"cnn.weight_l{layer}" in parameters:
        weight, reach = parameters[f"cnn.weight_l{layer}"], (CNN_TAPS // 2) * 2**layer
        padded = jnp.pad(x, ((0, 0), (reach, reach), (0, 0)))
        taps = [padded[:, k * 2**layer : k * 2**layer + length] @ weight[k] for k in range(CNN_TAPS)]
        x = x + jax.nn.relu(sum(taps) + parameters[f"cnn.bias_l{layer}"])
        layer += 1
    return x


def ssm_shapes(width: int, layers: int, inputs: int = 13) -> Shapes:
    """Diagonal linear state spaces with a gated output and a residual path."""
    shapes = _projection(width, inputs)
    for k in range(layers):
        shapes |= {
            f"ssm.decay_l{k}": (width,),
            f"ssm.input_l{k}": (width, width),
            f"ssm.gate_l{k}": (width, width),
            f"ssm.output_l{k}": (width, width),
        }
    return shapes | head_shapes(width)


def encode_ssm(parameters: Parameters, windows: jax.Array) -> jax.Array:
    """s_t = a s_(t-1) + sqrt(1 - a^2) B x_t with a in (0, 1) a channel; x + W (s * sigmoid(G x)); shape (batch, length, width).

    The decays start spread so that their memory reaches from one to about 250 instructions.
    """
    x = windows @ parameters["input_proj.weight"].T + parameters["input_proj.bias"]
    layer = 0
    while f"ssm.decay_l{layer}" in parameters:
        spread = jnp.linspace(0.0, 5.5, parameters[f"ssm.decay_l{layer}"].shape[0])
        decay = jax.nn.sigmoid(parameters[f"ssm.decay_l{layer}"] + spread)
        driven = jnp.sqrt(1 - decay**2) * (x @ parameters[f"ssm.input_l{layer}"].T)
        spread_decay = jnp.broadcast_to(decay, driven.shape)
        _, state = jax.lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (spread_decay, driven), axis=1)
        gate = jax.nn.sigmoid(x @ parameters[f"ssm.gate_l{layer}"].T)
        x = x + (state * gate) @ parameters[f"ssm.output_l{layer}"].T
        layer += 1
    return x


def transformer_shapes(width: int, layers: int, inputs: int = 13, length: int = 256) -> Shapes:
    """Pre-normalised attention over the window with learned positions; the two inner layers are twice as wide."""
    shapes = _projection(width, inputs) | {"position": (length, width)}
    for k in range(layers):
        shapes |= {
            f"att.qkv_l{k}": (3 * width, width),
            f"att.out_l{k}": (width, width),
            f"mlp.in_l{k}": (2 * width, width),
            f"mlp.in_bias_l{k}": (2 * width,),
            f"mlp.out_l{k}": (width, 2 * width),
            f"mlp.out_bias_l{k}": (width,),
        }
    return shapes | head_shapes(width)


def _normalised(x: jax.Array) -> jax.Array:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def encode_transformer(parameters: Parameters, windows: jax.Array) -> jax.Array:
    """Attention and a two-layer perceptron, each on a residual path; shape (batch, length, width)."""
    x = windows @ parameters["input_proj.weight"].T + parameters["input_proj.bias"] + parameters["position"]
    batch, length, width = x.shape
    split = (batch, length, 3, ATTENTION_HEADS, width // ATTENTION_HEADS)
    layer = 0
    while f"att.qkv_l{layer}" in parameters:
        q, k, v = jnp.moveaxis((_normalised(x) @ parameters[f"att.qkv_l{layer}"].T).reshape(split), 2, 0)
        weights = jax.nn.softmax(jnp.einsum("blhd,bmhd->bhlm", q, k) / math.sqrt(split[-1]), axis=-1)
        mixed = jnp.einsum("bhlm,bmhd->blhd", weights, v).reshape(batch, length, width)
        x = x + mixed @ parameters[f"att.out_l{layer}"].T
        inner = jax.nn.relu(_normalised(x) @ parameters[f"mlp.in_l{layer}"].T + parameters[f"mlp.in_bias_l{layer}"])
        x = x + inner @ parameters[f"mlp.out_l{layer}"].T + parameters[f"mlp.out_bias_l{layer}"]
        layer += 1
    return _normalised(x)


def shapes_of(kind: str, width: int, layers: int, length: int = 256) -> Shapes:
    """Parameters of a backbone of `KINDS` with its heads.

    Args:
        kind: lstm, bilstm, cnn, ssm or transformer.
        width: hidden size (a direction, for the LSTM).
        layers: stacked layers.
        length: of the window (the transformer's positions).
    """
    if kind in ("lstm", "bilstm"):
        return parameter_shapes(LstmShape(hidden=width, layers=layers, bidirectional=kind == "bilstm"))
    if kind == "transformer":
        return transformer_shapes(width, layers, length=length)
    return {"cnn": cnn_shapes, "ssm": ssm_shapes}[kind](width, layers)


def encode_any(parameters: Parameters, windows: jax.Array, dropout: float = 0.0, key: jax.Array | None = None) -> jax.Array:
    """Run the backbone whose parameters these are; dropout is between the layers of an LSTM, as in the paper."""
    if "position" in parameters:
        return encode_transformer(parameters, windows)
    if "cnn.weight_l0" in parameters:
        return encode_cnn(parameters, windows)
    if "ssm.decay_l0" in parameters:
        return encode_ssm(parameters, windows)
    return encode(parameters, windows, dropout, key)
