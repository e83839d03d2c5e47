"""How long does a batch take, from the data sheets alone?

For each linear operator of a layer with weights W (bytes), n tokens and F FLOP a token, on t devices (tensor parallel):

    time(n) = max(n x F / (t x compute share x peak), (W + n x activations) / (t x memory share x bandwidth))

A mixture of experts reads those that n tokens reach, E (1 - (1 - k/E)^n) of E with k a token if they choose evenly and apart. Prompt
attention costs 4 x layers x width FLOP a query-key pair; decode attention reads the cached keys and values. Each layer has two ring
all-reduces of n x hidden values among t devices. Activations are 16-bit. Every batch takes a fixed time more (launches, scheduling,
sampling). With full shares of the peaks and no fixed time this is a lower bound, which no server reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.errors import InputError
from analysis.hardware import systems
from analysis.hardware.devices import Device
from analysis.hardware.roofline import DeviceTime, Rates, time_on_device
from analysis.serving.kv_cache import RESERVED_BYTES, cache_bytes
from analysis.serving.requests import Floats
from analysis.serving.steps import StepTime, tabulate
from analysis.workloads.models import Model

ACTIVATION_BYTES = 2.0


@dataclass(frozen=True)
class Roofline:
    """What a roofline step time assumes.

    Attributes:
        tensor_parallel: devices that share each layer.
        kv_bytes_per_value: of a key or value in the cache; 16-bit where engines are not told otherwise, whatever the weights' type.
        compute_share, memory_share, link_share: reached share of the peaks; 1 is the data sheet.
        fixed_s: seconds of every batch.
        link_latency_s: seconds of one step of a ring.
    """

    model: Model
    device: Device
    tensor_parallel: int = 1
    dtype: str = "fp16"
    bytes_per_value: float = 2.0
    kv_bytes_per_value: float = 2.0
    compute_share: float = 1.0
    memory_share: float = 1.0
    link_share: float = 1.0
    fixed_s: float = 0.0
    link_latency_s: float = 0.0

    @property
    def rates(self) -> Rates[float]:
        """Both reached rates of all devices."""
        return Rates(self.flop_per_s, self.memory_bytes_per_s)

    @property
    def flop_per_s(self) -> float:
        """Reached arithmetic of all devices (FLOP/s)."""
        return self.tensor_parallel * self.compute_share * self.device.peak_flop_per_s(self.dtype)

    @property
    def memory_bytes_per_s(self) -> float:
        """Reached memory bandwidth of all devices (bytes/s)."""
        return self.tensor_parallel * self.memory_share * self.device.memory_bandwidth_bytes_per_s

    @property
    def kv_bytes_per_token(self) -> float:
        """KV cache of one token on all devices (bytes); beyond one key head a device, each device keeps a copy."""
        return self.tensor_parallel * self.model.kv_bytes_per_token(self.kv_bytes_per_value, self.tensor_parallel)

    @property
    def link_bytes_per_s(self) -> float:
        """Bandwidth of one device to its peers, one way, where a ring through all of them is narrowest (bytes/s)."""
        return systems.of_device(self.device).group(self.tensor_parallel).bandwidth_bytes_per_s


@dataclass(frozen=True)
class LinearOperator:
    """One linear operator of the model: `count` times weights of inputs x outputs; `experts` of which `chosen` serve a token."""

    name: str
    count: int
    inputs: int
    outputs: int
    experts: int = 1
    chosen: int = 1


def operators(model: Model) -> list[LinearOperator]:
    """The linear operators of a forward pass, the output layer apart."""
    qkv = model.attention_width + 2 * model.kv_width
    wide = (model.ffn_matrices - 1) * model.ffn_width
    mixture = {"experts": model.expert_count, "chosen": model.experts_per_token}
    return [
        LinearOperator("query, key, value", model.layers, model.hidden, qkv),
        LinearOperator("attention output", model.layers, model.attention_width, model.hidden),
        LinearOperator("feed-forward in", model.layers, model.hidden, wide, **mixture),
        LinearOperator("feed-forward out", model.layers, model.ffn_width, model.hidden, **mixture),
    ]


def experts_reached(tokens: Floats, experts: int, chosen: int) -> Floats:
    """Experts that some token chooses, expected, if tokens choose evenly and apart: E (1 - (1 - k/E)^n); shape of `tokens`."""
    return np.asarray(experts * (1.0 - (1.0 - chosen / experts) ** np.asarray(tokens, dtype=np.float64)))


def operator_s(setting: Roofline, operator: LinearOperator, tokens: Floats) -> DeviceTime[Floats]:
    """Time of an operator for so many tokens (s); shapes of `tokens`."""
    weights = operator.inputs * operator.outputs
    flop = 2.0 * operator.count * tokens * operator.chosen * weights
    reached = experts_reached(tokens, operator.experts, operator.chosen)
    moved = reached * weights * setting.bytes_per_value
    moved = moved + tokens * operator.chosen * (operator.inputs + operator.outputs) * ACTIVATION_BYTES
    return time_on_device(flop, operator.count * moved, setting.rates)


def all_reduce_s(setting: Roofline, tokens: Floats) -> Floats:
    """Seconds of a batch's ring all-reduces, shape of `tokens`.

    2 x layers x (2 (t - 1) / t x n x hidden x bytes / link + 2 (t - 1) x latency)
    """
    devices = setting.tensor_parallel
    if devices == 1:
        return np.zeros_like(tokens)
    message = tokens * setting.model.hidden * ACTIVATION_BYTES
    link = setting.link_share * setting.link_bytes_per_s
    one = 2.0 * (devices - 1) / devices * message / link + 2.0 * (devices - 1) * setting.link_latency_s
    return np.asarray(2.0 * setting.model.layers * one * (tokens > 0))


def tokens_s(setting: Roofline, tokens: Floats) -> Floats:
    """Seconds of everything but attention and the fixed time; shape of `tokens`."""
    tokens = np.asarray(tokens, dtype=np.float64)
    total = all_reduce_s(setting, tokens)
    for operator in operators(setting.model):
        total = total + operator_s(setting, operator, tokens).latency_s
    return np.asarray(total)


def output_layer_s(setting: Roofline) -> float:
    """Seconds of the output layer, which reads its weights once a batch: few tokens of a batch need it."""
    return setting.model.hidden * setting.model.vocabulary * setting.bytes_per_value / setting.memory_bytes_per_s


def roofline(setting: Roofline, most_tokens: int = 8192) -> StepTime:
    """The step time of a model on a device.

    Args:
        most_tokens: tokens that the table goes up to; beyond, its last slope.
    """
    model = setting.model
    return StepTime(
        token_s=tabulate(lambda tokens: tokens_s(setting, tokens), most_tokens),
        fixed_s=setting.fixed_s + output_layer_s(setting),
        pair_s=4.0 * model.layers * model.attention_width / setting.flop_per_s,
        kv_s=setting.kv_bytes_per_token / setting.memory_bytes_per_s,
    )


def kv_blocks(setting: Roofline, block_size: int = 16, memory_share: float = 0.9) -> int:
    """KV blocks that fit beside the weights, of all devices together."""
    memory, weights = setting.tensor_parallel * setting.device.usable_bytes, setting.model.parameters * setting.bytes_per_value
    size = cache_bytes(memory, weights, memory_share, setting.tensor_parallel * RESERVED_BYTES)
    blocks = int(size // (block_size * setting.kv_bytes_per_token))
    if blocks < 1:
        raise InputError(
            f"{setting.model.name} does not fit {setting.tensor_parallel} x {setting.device.name}: "
            f"{weights / 1e9:.1f} GB of weights in {memory_share:.0%} of {memory / 1e9:.1f} GB",
            key="tensor_parallel",
        )
    return blocks
