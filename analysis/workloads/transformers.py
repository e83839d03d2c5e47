"""Shapes of published transformers, with what follows from a shape alone: parameters, arithmetic, and the key-value cache.

>>> from analysis.workloads import transformers
>>> llama = transformers.load("llama-2-7b")
>>> llama.parameters, llama.kv_bytes_per_token(bytes_per_value=2)
(6738415616, 524288)
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from pydantic import Field, model_validator

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA


class Transformer(Strict):
    """A decoder (or encoder) of identical blocks.

    Args:
        layers, hidden, heads: blocks, model width and attention heads (counts).
        kv_heads: heads of keys and values (count); fewer than `heads` is grouped-query attention, 1 multi-query.
        head_dim: width of a head (count).
        ffn_hidden: width of the feed-forward layer, of each expert for mixtures (count).
        gated: whether the feed-forward layer has a gate (SwiGLU: three matrices in place of two).
        experts, experts_per_token: 1 and 1 for a dense model (counts).
        vocab, max_sequence: vocabulary and longest trained sequence (tokens).
        tied_embeddings: whether the output layer uses the input embedding.
        biases: on all linear layers, on queries, keys and values alone, or none.
        norm: layer norm (scale and shift) or RMS norm (scale).
        positions: learned (parameters), rotary or alibi (none).
        parallel_block: attention and feed-forward share one norm and run side by side.
        causal: whether a token attends to earlier ones only.
        published_parameters: the source's own count.
        source: key into the `sources` of `data/workloads/transformers.yaml`.
    """

    name: str
    aliases: tuple[str, ...] = ()
    source: str = ""
    layers: int = Field(gt=0)
    hidden: int = Field(gt=0)
    heads: int = Field(gt=0)
    kv_heads: int = Field(gt=0)
    head_dim: int = Field(gt=0)
    ffn_hidden: int = Field(gt=0)
    gated: bool = False
    experts: int = Field(default=1, gt=0)
    experts_per_token: int = Field(default=1, gt=0)
    vocab: int = Field(gt=0)
    max_sequence: int = Field(gt=0)
    tied_embeddings: bool = True
    biases: Literal["all", "qkv", "none"] = "all"
    norm: Literal["layer", "rms"] = "layer"
    positions: Literal["learned", "rotary", "alibi"] = "learned"
    parallel_block: bool = False
    causal: bool = True
    published_parameters: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        filled = dict(raw)
        if isinstance(raw.get("published_parameters"), str):
            filled["published_parameters"] = float(raw["published_parameters"])
        if isinstance(raw.get("heads"), int):
            filled.setdefault("kv_heads", raw["heads"])
            if isinstance(raw.get("hidden"), int) and raw["heads"] > 0:
                if "head_dim" not in raw and raw["hidden"] % raw["heads"]:
                    raise ValueError(f"hidden {raw['hidden']} is not a multiple of heads {raw['heads']}; give head_dim")
                filled.setdefault("head_dim", raw["hidden"] // raw["heads"])
        if isinstance(raw.get("hidden"), int):
            filled.setdefault("ffn_hidden", 4 * raw["hidden"])
        return filled

    @model_validator(mode="after")
    def _consistent(self) -> Transformer:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if self.experts_per_token > self.experts:
            raise ValueError(f"experts_per_token {self.experts_per_token} is above experts {self.experts}")
        return self

    @property
    def attention_width(self) -> int:
        """Width of all query heads together: heads x head_dim."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Width of all key heads together (values: the same): kv_heads x head_dim."""
        return self.kv_heads * self.head_dim

    @property
    def ffn_matrices(self) -> int:
        """Matrices of one feed-forward layer: 3 with a gate, 2 without."""
        return 3 if self.gated else 2

    @property
    def attention_parameters(self) -> int:
        """Parameters of one block's attention: hidden x (2 attention_width + 2 kv_width), and biases."""
        weights = self.hidden * (2 * self.attention_width + 2 * self.kv_width)
        qkv = self.attention_width + 2 * self.kv_width
        return weights + {"all": qkv + self.hidden, "qkv": qkv, "none": 0}[self.biases]

    @property
    def expert_parameters(self) -> int:
        """Parameters of one feed-forward layer (of one expert): ffn_matrices x hidden x ffn_hidden, and biases."""
        weights = self.ffn_matrices * self.hidden * self.ffn_hidden
        return weights + (((self.ffn_matrices - 1) * self.ffn_hidden + self.hidden) if self.biases == "all" else 0)

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm: scale, and shift for layer norm."""
        return self.hidden * (2 if self.norm == "layer" and self.biases != "none" else 1)

    @property
    def block_parameters(self) -> int:
        """Parameters of one block, all experts and the router included."""
        router = self.hidden * self.experts if self.experts > 1 else 0
        norms = (1 if self.parallel_block else 2) * self.norm_parameters
        return self.attention_parameters + self.experts * self.expert_parameters + router + norms

    @property
    def embedding_parameters(self) -> int:
        """Parameters of token and learned position embeddings; the untied output layer is apart."""
        return self.hidden * (self.vocab + (self.max_sequence if self.positions == "learned" else 0))

    @property
    def output_parameters(self) -> int:
        """Parameters of the output layer that the embedding does not already hold."""
        return 0 if self.tied_embeddings else self.hidden * self.vocab

    @property
    def parameters(self) -> int:
        """All parameters: layers x block + embedding + output + final norm (count)."""
        return self.layers * self.block_parameters + self.embedding_parameters + self.output_parameters + self.norm_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses: those of `experts_per_token` experts a block in place of all (count)."""
        return self.parameters - self.layers * (self.experts - self.experts_per_token) * self.expert_parameters

    def forward_flop_per_token(self, context: float) -> float:
        """Matrix arithmetic of one token's forward pass (FLOP), two per multiply-add.

        2 x (layers x (hidden x (2 A + 2 K) + experts_per_token x matrices x hidden x ffn) + hidden x vocab) + 4 x layers x A x context

        Args:
            context: tokens that it attends to (count): the sequence length s without a causal mask that is exploited,
                (s + 1) / 2 on average with one.
        """
        projections = self.hidden * (2 * self.attention_width + 2 * self.kv_width)
        feed_forward = self.experts_per_token * self.ffn_matrices * self.hidden * self.ffn_hidden
        router = self.hidden * self.experts if self.experts > 1 else 0
        linear = 2.0 * (self.layers * (projections + feed_forward + router) + self.hidden * self.vocab)
        return linear + 4.0 * self.layers * self.attention_width * context

    def training_flop(self, sequences: int, sequence_length: int) -> float:
        """Model arithmetic of one training step (FLOP): three forward passes, full attention matrix counted.

        For GPT this is 72 B s l h^2 (1 + s / 6h + V / 12 l h), the count with which Megatron states its figures.

        Args:
            sequences: sequences in the global batch (count).
            sequence_length: tokens in each (count).
        Source: Korthikanti et al. 2022, appendix A; Narayanan et al. 2021, equation 3 (with a fourth pass for recomputation).
        """
        return 3.0 * sequences * sequence_length * self.forward_flop_per_token(sequence_length)

    def kv_bytes_per_token(self, bytes_per_value: float) -> float:
        """Key-value cache of one token (bytes): 2 x layers x kv_width x bytes_per_value."""
        return 2 * self.layers * self.kv_width * bytes_per_value


class Source(Strict):
    """Where a shape comes from."""

    title: str
    address: str


class TransformerFile(Strict):
    """`data/workloads/transformers.yaml`."""

    sources: dict[str, Source]
    models: dict[str, Transformer]

    @model_validator(mode="before")
    @classmethod
    def _names(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and isinstance(raw.get("models"), dict):
            models = {name: {"name": name, **body} if isinstance(body, dict) else body for name, body in raw["models"].items()}
            return {**raw, "models": models}
        return raw


@cache
def _file() -> TransformerFile:
    path = DATA / "workloads" / "transformers.yaml"
    content = read_yaml(path, TransformerFile)
    for name, model in content.models.items():
        if model.source not in content.sources:
            raise InputError(f"source {model.source!r} is not among the sources", path=path, key=f"models.{name}")
    return content


def all_transformers() -> dict[str, Transformer]:
    """Every shape of `data/workloads/transformers.yaml`, by name."""
    return _file().models


def sources() -> dict[str, Source]:
    """The documents that the shapes quote, by key."""
    return _file().sources


@cache
def _by_any_name() -> dict[str, Transformer]:
    return {_plain(name): model for model in all_transformers().values() for name in (model.name, *model.aliases)}


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def load(name: str) -> Transformer:
    """One shape by name or alias; case, spaces and hyphens do not matter."""
    model = _by_any_name().get(_plain(name))
    if model is None:
        raise InputError(f"no transformer {name!r}; expected one of {', '.join(all_transformers())}", key="model")
    return model
