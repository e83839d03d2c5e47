"""What does a checkpoint's configuration say about a model that is served?"""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import model_validator

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA

PATH = DATA / "workloads" / "served_models.yaml"


class Attention(Strict):
    """Attention of a layer; `grouped` (multi-head, grouped-query) or `latent` (multi-head latent).

    Args:
        window, window_layers: sliding window (tokens) and how many layers have it.
        norm: queries and keys are normalised, each head by itself or all heads of a token together, whichever GPUs hold them.
        query_rank, kv_rank, nope_size, rope_size, value_size: of latent attention (elements).
        index_top_k, index_heads, index_size: of a sparse indexer in front of latent attention.
    """

    kind: Literal["grouped", "latent"]
    heads: int
    kv_heads: int = 1
    head_size: int = 0
    output_gate: bool = False
    norm: Literal["none", "head", "all"] = "none"
    window: int = 0
    window_layers: int = 0
    query_rank: int = 0
    kv_rank: int = 0
    nope_size: int = 0
    rope_size: int = 0
    value_size: int = 0
    index_top_k: int = 0
    index_heads: int = 0
    index_size: int = 0


class LinearAttention(Strict):
    """Gated delta rule: layers that have it in place of attention, heads and sizes."""

    layers: int
    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    convolution: int


class Experts(Strict):
    """Mixture of experts: `dense_layers` first layers have a plain feed-forward instead; `router`: type of its product."""

    count: int
    top_k: int
    intermediate: int
    shared_intermediate: int = 0
    dense_layers: int = 0
    router: Literal["bf16", "fp32"] = "bf16"


class ServedModel(Strict):
    """Sizes of one model, in elements; `source` is its config.json.

    Args:
        fp8: scales of its published FP8 checkpoint: one a tensor, or one for each block of 128 x 128 weights.
    """

    names: tuple[str, ...]
    family: str
    source: str
    fp8: Literal["tensor", "block"] = "tensor"
    hidden: int
    layers: int
    vocabulary: int
    attention: Attention
    linear_attention: LinearAttention | None = None
    experts: Experts | None = None
    intermediate: int = 0

    @model_validator(mode="after")
    def _complete(self) -> ServedModel:
        dense = self.layers if self.experts is None else self.experts.dense_layers
        if dense and not self.intermediate:
            raise ValueError("`intermediate` is missing: there are dense layers")
        return self

    @property
    def attention_layers(self) -> int:
        """Layers with softmax attention."""
        return self.layers - (self.linear_attention.layers if self.linear_attention else 0)

    def parameters(self) -> dict[str, float]:
        """Weights by part: attention, experts (routed), dense (other feed-forward), vocabulary."""
        a, h = self.attention, self.hidden
        if a.kind == "grouped":
            one = h * a.head_size * (a.heads * (3 if a.output_gate else 2) + 2 * a.kv_heads)
        else:
            one = h * (a.query_rank + a.kv_rank + a.rope_size) + a.query_rank * a.heads * (a.nope_size + a.rope_size)
            one += a.kv_rank * a.heads * (a.nope_size + a.value_size) + a.heads * a.value_size * h
        attention = float(one * self.attention_layers)
        if self.linear_attention:
            x = self.linear_attention
            attention += x.layers * h * (2 * x.key_heads * x.key_size + 3 * x.value_heads * x.value_size)
        e = self.experts
        routed = 3.0 * h * e.intermediate * e.count * (self.layers - e.dense_layers) if e else 0.0
        dense = 3.0 * h * self.intermediate * (e.dense_layers if e else self.layers)
        if e:
            dense += (self.layers - e.dense_layers) * h * (3.0 * e.shared_intermediate + e.count)
        return {"attention": attention, "experts": routed, "dense": dense, "vocabulary": 2.0 * h * self.vocabulary}

    @property
    def active_parameters(self) -> float:
        """Weights that one token is multiplied by: of routed experts the chosen ones, of the vocabulary the head alone."""
        found = self.parameters()
        chosen = self.experts.top_k / self.experts.count if self.experts else 0.0
        return found["attention"] + found["dense"] + chosen * found["experts"] + 0.5 * found["vocabulary"]

    def kv_bytes_per_token(self, element_bytes: float, tensor_parallel: int) -> float:
        """KV cache of one token on one GPU (bytes); window layers are left out: they hold a fixed number of tokens."""
        a = self.attention
        if a.kind == "latent":
            return self.attention_layers * ((a.kv_rank + a.rope_size) * element_bytes + a.index_size)
        heads = max(1.0, a.kv_heads / tensor_parallel)
        return (self.attention_layers - a.window_layers) * 2.0 * heads * a.head_size * element_bytes


class _File(Strict):
    models: dict[str, ServedModel]


@cache
def models() -> dict[str, ServedModel]:
    """Every model of `data/workloads/served_models.yaml`, by its short name."""
    return read_yaml(PATH, _File).models


@cache
def _by_name() -> dict[str, str]:
    return {name.lower(): key for key, model in models().items() for name in (key, *model.names, *(n.split("/")[-1] for n in model.names))}


def find(name: str) -> ServedModel:
    """A model by its short name or a checkpoint's.

    Raises:
        InputError: a model whose configuration is not among the committed ones.
    """
    key = _by_name().get(str(name).strip().lower())
    if key is None:
        raise InputError(f"unknown model {name!r}; known: {', '.join(models())}", key="model")
    return models()[key]
