"""What is a language model made of? One description of each network, and what follows from it: parameters, arithmetic, key-value cache.

>>> from analysis.workloads import models
>>> llama = models.load("llama-2-7b")
>>> llama.parameters, llama.kv_bytes_per_token(2)
(6738415616, 524288)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA

PATH = DATA / "workloads" / "models.yaml"

WEIGHT_BYTES = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "mxfp8": 1 + 1 / 32,
    "int8": 1.0,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "int4": 0.5 + 1 / 32,
}
"""Bytes of a weight with its scales: NVFP4 has an 8-bit scale for 16 weights, MXFP4 and MXFP8 one for 32, INT4 a 16-bit one for 64."""

WeightType = Literal["fp32", "bf16", "fp8", "fp8_block", "mxfp8", "int8", "nvfp4", "mxfp4", "int4"]


class Latent(Strict):
    """Multi-head latent attention.

    Args:
        query_rank, kv_rank: ranks of the compressed queries (0: not compressed) and of keys and values (elements).
        nope_size, rope_size, value_size: widths of a head's unrotated and rotated part of queries and keys, and of its values (elements).
        index_top_k, index_heads, index_size: of a sparse indexer in front of it: tokens that it chooses, its heads and their width.
    """

    query_rank: int = 0
    kv_rank: int = Field(gt=0)
    nope_size: int
    rope_size: int
    value_size: int = Field(gt=0)
    index_top_k: int = 0
    index_heads: int = 0
    index_size: int = 0


class Attention(Strict):
    """Softmax attention.

    Args:
        heads, kv_heads: heads of queries, and of keys and values (counts): equal is multi-head, fewer grouped, 1 multi-query.
        head_size: width of a head (elements).
        layers: that have it (count); 0: all that have no linear attention.
        window, window_layers: sliding window (tokens) and how many of the layers have it; window_heads, window_kv_heads, window_head_size:
            of these layers (0: as of the others). shared_kv: the others project keys and values at once.
        biases: of the projections.
        norm: queries and keys are normalised: each head by itself, or all heads of a token together, whichever GPUs hold them.
        output_gate: the output is multiplied by a gate, projected with the queries; sinks: a learned logit for each head.
    """

    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_size: int = Field(gt=0)
    layers: int = 0
    window: int = 0
    window_layers: int = 0
    window_heads: int = 0
    window_kv_heads: int = 0
    window_head_size: int = 0
    shared_kv: bool = False
    biases: Literal["none", "qkv", "output", "all"] = "none"
    norm: Literal["none", "head", "all"] = "none"
    output_gate: bool = False
    sinks: bool = False
    latent: Latent | None = None

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        latent = raw.get("latent")
        size = latent.get("value_size") if isinstance(latent, dict) else None
        return {"kv_heads": raw.get("heads"), **({"head_size": size} if size else {}), **raw}

    @model_validator(mode="after")
    def _divides(self) -> Attention:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        return self


SCAN_CHUNK = {"mamba2": 128, "gated_delta": 64}
"""Tokens of a chunk, within which kinds of linear attention multiply in parallel: chunk_size of Nemotron 3 and of Megatron's Mamba mixer;
the kernels of github.com/fla-org/flash-linear-attention."""


class LinearAttention(Strict):
    """Layers whose state does not grow with the context.

    Args:
        kind: mamba (selective scan), mamba2 (state-space duality) or gated_delta (gated delta rule).
        layers: that have it (count).
        key_heads, key_size: of keys and queries; for Mamba 2 its groups and its state (count, elements).
        value_heads, value_size: of values; for Mamba 2 its heads and their width. Mamba has one value head of its inner width.
        convolution: taps of the short convolution (count); rank: of Mamba's step size; of the gated delta rule's decay of each key element
            and of its output gate, as Kimi's has them (elements; 0: a decay for each head, a gate projected at once).
        biases: on the in- and output projections; norms: Mamba's step size, keys and queries are normalised (Jamba).
    """

    kind: Literal["mamba", "mamba2", "gated_delta"]
    layers: int = Field(gt=0)
    key_heads: int = Field(gt=0)
    key_size: int = Field(gt=0)
    value_heads: int = Field(gt=0)
    value_size: int = Field(gt=0)
    convolution: int = 4
    rank: int = 0
    biases: bool = False
    norms: bool = False

    @property
    def keys(self) -> int:
        """Width of all keys (elements)."""
        return self.key_heads * self.key_size

    @property
    def values(self) -> int:
        """Width of all values (elements)."""
        return self.value_heads * self.value_size

    def matrices(self, hidden: int) -> int:
        """Weights of a layer's large products (count); of the gated delta rule without the two columns a head of its gates."""
        if self.kind == "mamba":
            return hidden * 3 * self.values + self.values * (2 * self.rank + 2 * self.key_size)
        if self.kind == "gated_delta" and self.rank:
            return hidden * (2 * self.values + 2 * self.keys) + self.rank * (2 * hidden + self.keys + self.values)
        steps = self.value_heads if self.kind == "mamba2" else 0
        return hidden * (2 * self.values + 2 * self.keys + steps) + self.values * hidden

    def vectors(self, hidden: int) -> int:
        """All else of a layer: convolution, gates, decay, norms, biases (count)."""
        if self.kind == "mamba":
            inner = self.values
            norms = self.rank + 2 * self.key_size if self.norms else 0
            return inner * (self.convolution + 1) + inner * (2 + self.key_size) + norms + (2 * inner + hidden if self.biases else 0)
        if self.kind == "mamba2":
            width = self.values + 2 * self.keys
            biases = self.values + width + self.value_heads + hidden if self.biases else 0
            return width * (self.convolution + 1) + 3 * self.value_heads + self.values + biases
        gates = self.value_heads * hidden * (1 if self.rank else 2) + (self.keys if self.rank else 0)
        return gates + (2 * self.keys + self.values) * self.convolution + 2 * self.value_heads + self.value_size

    @property
    def state_values(self) -> int:
        """Values that a sequence's state holds in a layer, the convolution's last inputs apart (count)."""
        return self.values * self.key_size


class Experts(Strict):
    """A mixture of experts.

    Args:
        count, per_token: experts, and how many a token takes (counts).
        width: of each; shared: of the shared ones together; latent: width they work in (elements; 0: the model's).
        layers: that have them (count); 0: all but `dense_layers`, the first layers, which have a plain feed-forward.
        router: type in which engines multiply with the router; router_biases: a bias an expert, in the router or for the choice alone.
        shared_gate: a learned gate on the shared expert.
    """

    count: int = Field(gt=0)
    per_token: int = Field(gt=0)
    width: int = Field(gt=0)
    shared: int = 0
    latent: int = 0
    layers: int = 0
    dense_layers: int = 0
    router: Literal["bf16", "fp32"] = "bf16"
    router_biases: bool = False
    shared_gate: bool = False

    @model_validator(mode="after")
    def _fewer_than_all(self) -> Experts:
        if self.per_token > self.count:
            raise ValueError(f"per_token {self.per_token} is above count {self.count}")
        return self


class WeightTypes(Strict):
    """Types of a checkpoint's weights: of attention (and linear attention), plain feed-forwards, routed experts; the rest has 16 bits."""

    attention: WeightType = "bf16"
    dense: WeightType = "bf16"
    experts: WeightType = "bf16"


OLD_KEYS = {
    "vocab": "vocabulary",
    "max_sequence": "context",
    "tied_embeddings": "tied",
    "ffn_hidden": "dense_width",
    "head_dim": "head_size",
}
"""Keys of a model written out in a `train` configuration of release 1 -> today's; they go on being read."""


def _today(raw: dict[str, Any]) -> dict[str, Any]:
    """A description in release 1's form (flat, GPT-2 where it says nothing) in today's."""
    if "vocab" in raw:
        gpt2 = {"biases": "all", "norm": "layer", "positions": "learned", "tied_embeddings": True, "gated": False}
        wide = {"ffn_hidden": 4 * raw["hidden"]} if isinstance(raw.get("hidden"), int) else {}
        raw = {**gpt2, **wide, **({"norms": 1} if raw.get("parallel_block") else {}), **raw}
    new = {OLD_KEYS.get(key, key): value for key, value in raw.items()}
    flat = {key: new.pop(key) for key in ("heads", "kv_heads", "head_size") if key in new}
    if flat and new.get("attention") is None:
        new["attention"] = flat
    if new.get("biases") in ("all", "qkv", "none"):
        biases = new.pop("biases")
        if isinstance(new.get("attention"), dict):
            new["attention"] = {"biases": biases, **new["attention"]}
        new["ffn_biases"] = biases == "all"
        if biases == "none" and new.get("norm") == "layer":
            new["norm"] = "layer_scale"
    if isinstance(new.get("experts"), int):
        count = new.pop("experts")
        chosen = new.pop("experts_per_token", 1)
        if count > 1:
            new["experts"] = {"count": count, "per_token": chosen, "width": new.pop("dense_width", 0)}
    return new


class Model(Strict):
    """A language model.

    Args:
        name, aliases, source: names, and where the sizes stand.
        network: name of the entry whose network this is; other checkpoints of it have other contexts or types.
        family: label under which published serving measurements of it are kept.
        hidden, layers, vocabulary: width (elements), blocks and tokens (counts).
        context: tokens of the longest request; rows of a learned position embedding.
        dense: blocks with a plain feed-forward (count); None: all without experts. dense_width: its width; gated: three matrices, not two.
        ffn_biases, output_bias: on the feed-forwards, on the output layer. tied: it is the input embedding.
        norm: RMS norm (a scale), layer norm (scale and shift; scale alone; neither). norms: of a block (count). embedding_norm: one behind
            the embedding.
        positions: learned (parameters), rotary, alibi or none.
        parallel_block: attention and feed-forward run side by side. causal: a token attends to earlier ones only.
        multimodal: it is the language model of one that takes images, audio or video as well.
        mtp_modules: blocks for multi-token prediction (count), not in `parameters`.
        pipeline_blocks: what a pipeline deals out to its stages (count) where that is not the layers; 0: the layers.
        fp8: scales of its FP8 checkpoint, one a tensor or one for each block of 128 x 128 weights; types: of this checkpoint.
        published_parameters: the source's own count.
    """

    name: str = ""
    aliases: tuple[str, ...] = ()
    source: str = ""
    network: str = ""
    family: str = ""
    hidden: int = Field(gt=0)
    layers: int = Field(gt=0)
    vocabulary: int = Field(gt=0)
    context: int | None = Field(default=None, gt=0)
    attention: Attention | None = None
    linear: LinearAttention | None = None
    experts: Experts | None = None
    dense: int | None = Field(default=None, ge=0)
    dense_width: int = Field(default=0, ge=0)
    gated: bool = True
    ffn_biases: bool = False
    output_bias: bool = False
    tied: bool = False
    norm: Literal["rms", "layer", "layer_scale", "layer_plain"] = "rms"
    norms: int = Field(default=2, ge=0)
    embedding_norm: bool = False
    positions: Literal["learned", "rotary", "alibi", "none"] = "rotary"
    parallel_block: bool = False
    causal: bool = True
    multimodal: bool = False
    mtp_modules: int = Field(default=0, ge=0)
    pipeline_blocks: int = Field(default=0, ge=0)
    fp8: Literal["tensor", "block"] = "tensor"
    types: WeightTypes = WeightTypes()
    published_parameters: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        new = _today(raw)
        attention, hidden = new.get("attention"), new.get("hidden")
        if isinstance(attention, dict) and "head_size" not in attention and not attention.get("latent"):
            heads = attention.get("heads")
            if isinstance(heads, int) and heads > 0 and isinstance(hidden, int):
                if hidden % heads:
                    raise ValueError(f"hidden {hidden} is not a multiple of heads {heads}; give head_size")
                new["attention"] = {**attention, "head_size": hidden // heads}
        if isinstance(new.get("published_parameters"), str):
            new["published_parameters"] = float(new["published_parameters"])
        return new

    @model_validator(mode="after")
    def _complete(self) -> Model:
        if self.attention is None and self.linear is None:
            raise ValueError("neither attention nor linear attention")
        if self.dense_layers and not self.dense_width:
            raise ValueError("dense_width is missing: there are blocks with a plain feed-forward")
        if min(self.attention_layers, self.expert_layers, self.dense_layers) < 0:
            raise ValueError(f"more layers of a kind than the {self.layers} blocks")
        if self.positions == "learned" and not self.context:
            raise ValueError("context is missing: the position embedding has so many rows")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """The same with some facts changed; what was counted from the old ones is forgotten."""
        copied = super().model_copy(update=update, **({"deep": True} if deep else {}))
        for name in ("matrices", "small_parameters"):
            copied.__dict__.pop(name, None)
        return copied

    # --- layers by kind ---

    @property
    def attention_layers(self) -> int:
        """Blocks with softmax attention."""
        if self.attention is None:
            return 0
        return self.attention.layers or self.layers - self.linear_layers

    @property
    def linear_layers(self) -> int:
        """Blocks with linear attention."""
        return self.linear.layers if self.linear else 0

    @property
    def expert_layers(self) -> int:
        """Blocks with a mixture of experts."""
        return (self.experts.layers or self.layers - self.experts.dense_layers) if self.experts else 0

    @property
    def dense_layers(self) -> int:
        """Blocks with a plain feed-forward."""
        return self.layers - self.expert_layers if self.dense is None else self.dense

    @property
    def blocks(self) -> int:
        """What a pipeline deals out to its stages (count)."""
        return self.pipeline_blocks or self.layers

    # --- widths ---

    @property
    def heads(self) -> int:
        """Query heads (count); 0 without softmax attention."""
        return self.attention.heads if self.attention else 0

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values (count)."""
        return self.attention.kv_heads if self.attention else 0

    @property
    def head_size(self) -> int:
        """Width of a head (elements)."""
        return self.attention.head_size if self.attention else 0

    @property
    def latent(self) -> Latent | None:
        """Latent attention, where the model has it."""
        return self.attention.latent if self.attention else None

    @property
    def window(self) -> int:
        """Sliding window of `window_layers` (tokens); 0 without."""
        return self.attention.window if self.attention else 0

    @property
    def window_layers(self) -> int:
        """Attention layers with a sliding window."""
        return self.attention.window_layers if self.attention else 0

    @property
    def attention_width(self) -> int:
        """Width of all query heads together (elements)."""
        return self.heads * self.head_size

    @property
    def kv_width(self) -> int:
        """Width of all key heads together (elements; values: the same)."""
        return self.kv_heads * self.head_size

    @property
    def ffn_width(self) -> int:
        """Width of a feed-forward, of each expert for mixtures (elements)."""
        return self.experts.width if self.experts else self.dense_width

    @property
    def ffn_matrices(self) -> int:
        """Matrices of one feed-forward: 3 with a gate, 2 without."""
        return 3 if self.gated else 2

    @property
    def expert_count(self) -> int:
        """Routed experts of a layer; 1 for a dense model."""
        return self.experts.count if self.experts else 1

    @property
    def experts_per_token(self) -> int:
        """Routed experts that a token takes; 1 for a dense model."""
        return self.experts.per_token if self.experts else 1

    @property
    def learned_positions(self) -> int:
        """Rows of a learned position embedding."""
        return (self.context or 0) if self.positions == "learned" else 0

    # --- parameters ---

    @property
    def attention_kinds(self) -> tuple[tuple[int, Attention], ...]:
        """Softmax attention by kind: how many layers (count), and their sizes; those with a sliding window apart."""
        a, n = self.attention, self.attention_layers
        if a is None:
            return ()
        own = {"heads": a.window_heads, "kv_heads": a.window_kv_heads, "head_size": a.window_head_size}
        near = a.model_copy(update={**{key: size for key, size in own.items() if size}, "shared_kv": False}) if any(own.values()) else a
        kinds = ((n - a.window_layers, a.model_copy(update={"window": 0}) if a.window else a), (a.window_layers, near))
        return tuple((count, kind) for count, kind in kinds if count)

    def _attention_weights(self, a: Attention) -> int:
        h = self.hidden
        if a.latent is None:
            return h * a.head_size * (a.heads * (3 if a.output_gate else 2) + (1 if a.shared_kv else 2) * a.kv_heads)
        m = a.latent
        queries = a.heads * (m.nope_size + m.rope_size)
        down = h * (m.query_rank + m.kv_rank + m.rope_size) + (m.query_rank or h) * queries
        return down + m.kv_rank * a.heads * (m.nope_size + m.value_size) + a.heads * m.value_size * h

    @property
    def expert_parameters(self) -> int:
        """Weights of one routed expert's products (count); 0 without experts."""
        return self.ffn_matrices * (self.experts.latent or self.hidden) * self.experts.width if self.experts else 0

    @property
    def shared_parameters(self) -> int:
        """Weights that every token multiplies in a layer of experts: shared expert, router, projections into the latent width (count)."""
        e = self.experts
        return self.hidden * (self.ffn_matrices * e.shared + e.count + 2 * e.latent) if e else 0

    @cached_property
    def matrices(self) -> dict[str, int]:
        """Weights of the large products by part (counts): attention, experts (routed), dense (other feed-forwards), vocabulary."""
        linear = self.linear.layers * self.linear.matrices(self.hidden) if self.linear else 0
        return {
            "attention": sum(count * self._attention_weights(kind) for count, kind in self.attention_kinds) + linear,
            "experts": self.expert_layers * self.expert_count * self.expert_parameters,
            "dense": self.dense_layers * self.ffn_matrices * self.hidden * self.dense_width + self.expert_layers * self.shared_parameters,
            "vocabulary": self.hidden * self.vocabulary * (1 if self.tied else 2),
        }

    @property
    def routed_parameters(self) -> int:
        """Weights of all routed experts' products (count)."""
        return self.matrices["experts"]

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm (count)."""
        return {"rms": 1, "layer": 2, "layer_scale": 1, "layer_plain": 0}[self.norm] * self.hidden

    def ffn_bias_parameters(self, width: int) -> int:
        """Biases of one feed-forward of that width (count)."""
        return (self.ffn_matrices - 1) * width + self.hidden if self.ffn_biases else 0

    @property
    def attention_vectors(self) -> int:
        """Biases, norms and sinks of one layer's softmax attention, and its sparse indexer (count)."""
        a = self.attention
        if a is None:
            return 0
        width, kv = a.heads * a.head_size, a.kv_heads * a.head_size
        qkv, output = width * (2 if a.output_gate else 1) + 2 * kv, self.hidden
        found = {"none": 0, "qkv": qkv, "output": output, "all": qkv + output}[a.biases]
        found += {"none": 0, "head": 2 * a.head_size, "all": width + kv}[a.norm] + (a.heads if a.sinks else 0)
        if a.latent is not None:
            m = a.latent
            found = m.query_rank + m.kv_rank
            if m.index_heads:
                found += (m.query_rank or self.hidden) * m.index_heads * m.index_size
                found += self.hidden * (m.index_size + m.index_heads) + 2 * m.index_size
        return found

    @cached_property
    def small_parameters(self) -> int:
        """All that is not in `matrices` nor a position embedding: norms, biases, convolutions, gates, sparse indexer (count)."""
        e = self.experts
        norms = (self.layers * self.norms + 1 + self.embedding_norm) * self.norm_parameters
        found = norms + self.attention_layers * self.attention_vectors
        found += self.dense_layers * self.ffn_bias_parameters(self.dense_width)
        if e:
            biases = e.count * self.ffn_bias_parameters(e.width) + (e.count if e.router_biases else 0)
            found += self.expert_layers * (biases + (self.hidden if e.shared_gate else 0))
        if self.linear:
            found += self.linear.layers * self.linear.vectors(self.hidden)
        return found + (self.vocabulary if self.output_bias else 0)

    @property
    def parameters(self) -> int:
        """All parameters, blocks for multi-token prediction apart (count)."""
        return sum(self.matrices.values()) + self.hidden * self.learned_positions + self.small_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters without the routed experts that a token does not take (count)."""
        e = self.experts
        if e is None:
            return self.parameters
        each = self.expert_parameters + self.ffn_bias_parameters(e.width)
        return self.parameters - self.expert_layers * (e.count - e.per_token) * each

    @property
    def body_parameters(self) -> int:
        """Weights that every token multiplies with between embedding and output layer, and two norms a block (count)."""
        found = self.matrices
        return found["attention"] + found["dense"] + 2 * self.blocks * self.hidden

    @property
    def multiplied_parameters(self) -> int:
        """Weights that one token multiplies with: the body, the experts it takes, the output layers (count)."""
        chosen = self.expert_layers * self.experts_per_token * self.expert_parameters
        return self.body_parameters + chosen + self.hidden * self.vocabulary * (1 + self.mtp_modules)

    @property
    def weight_bytes(self) -> float:
        """Weights in the checkpoint's own types, what is in no large product in 16 bits (bytes)."""
        found, types = self.matrices, self.types
        e = self.experts
        kept = self.expert_layers * self.hidden * (e.count + 2 * e.latent) if e else 0  # routers stay in 16 bits
        quantised = found["attention"] * WEIGHT_BYTES[types.attention] + found["experts"] * WEIGHT_BYTES[types.experts]
        quantised += (found["dense"] - kept) * WEIGHT_BYTES[types.dense]
        width = WEIGHT_BYTES["fp32"] if types.dense == "fp32" else WEIGHT_BYTES["bf16"]
        return quantised + width * (self.parameters - found["attention"] - found["experts"] - found["dense"] + kept)

    def kv_bytes_per_token(self, bytes_per_value: float, tensor_parallel: int = 1, windows: bool = True) -> float:
        """Key-value cache of a token on a GPU (bytes): 2 x layers x KV heads x head size x bytes; of latent attention the compressed form.

        Args:
            tensor_parallel: GPUs that share the heads (count); a head is whole, a latent cache is on each.
            windows: count the layers with a sliding window, which hold a fixed number of tokens.
        """
        if self.latent is not None:
            return self.attention_layers * (self.latent.kv_rank + self.latent.rope_size) * bytes_per_value
        kinds = [(count, kind) for count, kind in self.attention_kinds if windows or not kind.window]
        heads = [max(1, kind.kv_heads / tensor_parallel) if tensor_parallel > 1 else kind.kv_heads for _, kind in kinds]
        return sum(count * 2 * n * kind.head_size * bytes_per_value for (count, kind), n in zip(kinds, heads, strict=True))

    def growing_bytes_per_token(self, bytes_per_value: float, tensor_parallel: int = 1) -> float:
        """Cache on one GPU that each further token of a long request takes (bytes): layers with a window left out, for they hold a fixed
        number of tokens (all counted where all have one), the keys of a sparse indexer with it."""
        windows = self.window_layers == self.attention_layers
        return self.kv_bytes_per_token(bytes_per_value, tensor_parallel, windows) + self.index_bytes_per_token

    @property
    def index_bytes_per_token(self) -> int:
        """Cache of one token's keys of a sparse indexer, in 8 bits (bytes)."""
        return self.attention_layers * self.latent.index_size if self.latent else 0

    def with_mtp(self) -> Model:
        """The model with its blocks for multi-token prediction among its layers, as it is trained; each has an output layer of its own."""
        if not self.mtp_modules:
            return self
        n, e = self.mtp_modules, self.experts
        counts: dict[str, Any] = {"dense": self.dense_layers + (0 if e else n), "pipeline_blocks": self.blocks}
        if e:
            counts["experts"] = e.model_copy(update={"layers": self.expert_layers + n})
        if self.attention:
            counts["attention"] = self.attention.model_copy(update={"layers": self.attention_layers + n})
        return self.model_copy(update=counts)

    # --- arithmetic ---

    def flop_per_token(self, sequence: float) -> float:
        """Model arithmetic of a token's forward and backward pass, the causal half of the attention matrix counted (FLOP)."""
        latent, near = self.latent, self.window_layers / self.attention_layers if self.window else 0.0
        size = (latent.nope_size + latent.rope_size + latent.value_size) / 2 if latent else self.head_size
        seen = (1 - near) * (sequence / 2) + near * min(self.window, sequence / 2)
        return 6.0 * self.multiplied_parameters + 12.0 * self.attention_layers * self.heads * size * seen


class ModelFile(Strict):
    """`data/workloads/models.yaml`.

    Args:
        endings: of checkpoints' names that change nothing of the network, longest first.
        weight_types: word of a checkpoint's name -> type of its weights.
    """

    models: dict[str, Model]
    endings: tuple[str, ...]
    weight_types: dict[str, WeightType]

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, raw: Any) -> Any:
        """Entries with their names; one that is `like` another has its facts where it gives none of its own."""
        if not isinstance(raw, dict) or not isinstance(raw.get("models"), dict):
            return raw
        whole: dict[str, Any] = {}
        for name, body in raw["models"].items():
            if not isinstance(body, dict):
                whole[name] = body
                continue
            own = dict(body)
            base: dict[str, Any] = {}
            if "like" in own:
                other = own.pop("like")
                if other not in whole:
                    raise ValueError(f"{name} is like {other!r}, which does not stand above it")
                base = {key: value for key, value in whole[other].items() if key not in ("aliases", "published_parameters")}
            whole[name] = {"network": name, **base, **own, "name": name}
        return {**raw, "models": whole}


@cache
def _file() -> ModelFile:
    return read_yaml(PATH, ModelFile)


def all_models() -> dict[str, Model]:
    """Every model of `data/workloads/models.yaml`, by name."""
    return _file().models


def plain(name: str) -> str:
    """A name without case, and of its marks the dots alone."""
    return "".join(letter for letter in name.lower() if letter.isalnum() or letter == ".")


@cache
def _by_any_name() -> dict[str, Model]:
    named = [(spelling, model) for model in all_models().values() for name in (model.name, *model.aliases) for spelling in _spellings(name)]
    found = dict(reversed(named))
    for spelling, model in named:
        for short in _shortened(spelling):
            found.setdefault(short, model)
    return found


def _spellings(name: str) -> Iterator[str]:
    """A name as it may stand in the table: whole, and without its owner."""
    own = name.strip().rsplit("/", 1)[-1]
    yield plain(name)
    yield plain(own)
    yield plain(own).removeprefix("meta")


def type_in_name(name: str) -> str:
    """Type of the weights that a checkpoint's name states; empty where it states none: 16 bits, or the model's own."""
    if _named(name.strip()) is None:  # the path of a configuration, which says its types itself
        return ""
    words = re.split(r"[^a-z0-9]+", name.lower().rsplit("/", 1)[-1])
    if "gguf" in words or any(re.fullmatch("i?q[2-8]", word) for word in words) or ("bnb" in words and "4bit" in words):
        raise InputError(f"weights as {name!r} has them (GGUF, or 4 bits of bitsandbytes) are not covered: give a precision", key="model")
    found = [_file().weight_types[word] for word in words if word in _file().weight_types]
    return next((kind for kind in ("int8", "int4") if kind in found), found[0] if found else "")  # GPTQ-Int8 has 8, W4AFP8 4


def _shortened(spelling: str) -> Iterator[str]:
    """A plain name with one ending after another taken off."""
    spelling = re.sub(r"(i?q[2-8](k[msl]?|x?xs|s|m|nl|[01])\.?)?(gguf)?$", "", spelling)  # of llama.cpp, such as Q4_K_M
    yield spelling
    while ending := next((end for end in _file().endings if spelling.endswith(end) and spelling != end), ""):
        spelling = spelling.removesuffix(ending).rstrip(".")
        yield spelling


@lru_cache(maxsize=4096)
def _named(name: str) -> Model | None:
    known = _by_any_name()
    spellings = list(_spellings(name))
    return next((known[each] for each in [*spellings, *(short for one in spellings for short in _shortened(one))] if each in known), None)


def load(name: str) -> Model:
    """A model by name, alias or checkpoint's name (with or without owner, -Instruct, -FP8 and the like), or the path of a `config.json`."""
    text = str(name).strip()
    found = _named(text)
    if found is not None:
        return found
    from analysis.workloads import checkpoints

    if checkpoints.is_config(text):
        return checkpoints.read_config(text)
    raise InputError(
        f"unknown model {text!r}{checkpoints.nearest(text)} (`models` lists all; the path of a config.json is read too)",
        path=text if checkpoints.is_file(Path(text)) else None,
        key="model",
    )


def facts(model: Model) -> dict[str, Any]:
    """What `models NAME --json` prints: sizes, and the cache of a token in 16 bits (an encoder has none)."""
    described = model.model_dump(exclude_defaults=True, exclude={"published_parameters", "network", "family", "fp8", "pipeline_blocks"})
    return {
        "name": model.name,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "weight_bytes": round(model.weight_bytes),
        "kv_bytes_per_token": model.kv_bytes_per_token(2) if model.causal else 0.0,
        "kv_bytes_per_token_beyond_window": model.kv_bytes_per_token(2, windows=False) if model.causal else 0.0,
        "indexer_bytes_per_token": model.index_bytes_per_token,
        "state_bytes_per_sequence": 4 * model.linear_layers * model.linear.state_values if model.linear else 0,
        "weight_types": model.types.model_dump(),
        **{key: value for key, value in described.items() if key not in ("name", "types")},
    }


# --- sequences that are too long ---


def longest(name: str) -> int | None:
    """Tokens of the longest sequence that a model takes; None where the model or its limit is not known."""
    try:
        return load(name).context
    except InputError:
        return None


def beyond(name: str, tokens: int) -> str:
    """Why a sequence of so many tokens is longer than the model takes; empty where it is not, or no limit is known."""
    most = longest(name)
    if most is None or tokens <= most:
        return ""
    return f"a sequence of {tokens:,} tokens: {name} takes {most:,} (max_position_embeddings of its configuration)"


def text_alone(model: Model) -> list[str]:
    """What is assumed of a model that takes more than text."""
    return ["text alone: images, audio and their encoders count neither in time nor in memory"] if model.multimodal else []


def check_length(name: str, tokens: int, key: str) -> None:
    """Refuse a request longer than the model takes."""
    if reason := beyond(name, tokens):
        raise InputError(reason, key=key)


# --- views of a model ---


def alike(model: Model, what: str) -> Model:
    """The model, where all its blocks are alike: softmax attention, then a feed-forward or a mixture of experts."""
    e = model.experts
    kinds = {
        "latent attention": model.latent is not None,
        "sliding windows of other widths": len({(kind.heads, kind.kv_heads, kind.head_size) for _, kind in model.attention_kinds}) > 1,
        "linear attention": model.linear is not None,
        "blocks without attention": model.attention_layers != model.layers,
        "dense blocks beside experts": e is not None and model.expert_layers != model.layers,
        "shared experts": e is not None and bool(e.shared or e.latent),
        "blocks without a feed-forward": e is None and model.dense_layers != model.layers,
    }
    if other := [kind for kind, has in kinds.items() if has]:
        raise InputError(f"{what} takes models whose blocks are all alike; {model.name} has {', '.join(other)}", key="model")
    return model
