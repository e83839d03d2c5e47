"""What is a trained model made of? Layers by kind, with their widths: attention, feed-forward, mixture of experts, state space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pydantic import Field

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.workloads import transformers
from analysis.workloads.contexts import plain


class Latent(Strict):
    """Multi-head latent attention: ranks of the compressed queries and keys-values, widths of a head (counts)."""

    query_rank: int
    kv_rank: int
    rope: int
    nope: int
    value: int


class Experts(Strict):
    """A mixture of experts: experts, experts a token, width of each, width of the shared one, width they work in (0: the model's)."""

    count: int
    per_token: int
    width: int
    shared: int = 0
    latent: int = 0


class StateSpace(Strict):
    """A Mamba-2 layer: heads, width of a head, state, groups (counts)."""

    heads: int
    head_size: int
    state: int
    groups: int


class Shape(Strict):
    """A decoder.

    Args:
        hidden, vocabulary, heads, kv_heads, head_size: widths and counts.
        attention_layers, dense_layers, expert_layers, state_space_layers: how many of each kind.
        dense_width: of a dense feed-forward layer; gated: three matrices in place of two.
        window: tokens that half of the attention layers see (0: all).
        blocks: what a pipeline deals out to its stages (count).
        extra_heads: output layers besides the first (multi-token prediction, each with a block of its own, counted in the layers).
        learned_positions: rows of a position embedding; tied: output layer and embedding are one.
        norms: norms a block; biases: on the linear layers.
    """

    hidden: int
    vocabulary: int
    heads: int
    kv_heads: int
    head_size: int
    attention_layers: int
    dense_layers: int = 0
    expert_layers: int = 0
    state_space_layers: int = 0
    dense_width: int = 0
    gated: bool = True
    window: int = 0
    blocks: int
    extra_heads: int = 0
    learned_positions: int = 0
    tied: bool = False
    biases: bool = False
    latent: Latent | None = None
    experts: Experts | None = None
    state_space: StateSpace | None = None
    address: str = ""

    @property
    def attention_parameters(self) -> int:
        """Of one attention layer (count)."""
        h = self.hidden
        if self.latent:
            m = self.latent
            down = h * (m.query_rank + m.kv_rank + m.rope)
            up = self.heads * (m.query_rank * (m.nope + m.rope) + m.kv_rank * (m.nope + m.value))
            return down + up + self.heads * m.value * h
        return h * self.head_size * (2 * self.heads + 2 * self.kv_heads)

    @property
    def expert_parameters(self) -> int:
        """Of one routed expert (count)."""
        if not self.experts:
            return 0
        return (3 if self.gated else 2) * (self.experts.latent or self.hidden) * self.experts.width

    @property
    def shared_parameters(self) -> int:
        """Of what every token uses in a layer of experts: shared expert, router, projections into the latent width (count)."""
        if not self.experts:
            return 0
        e = self.experts
        return (3 if self.gated else 2) * self.hidden * e.shared + self.hidden * e.count + 2 * self.hidden * e.latent

    @property
    def state_space_parameters(self) -> int:
        """Of one Mamba-2 layer (count)."""
        if not self.state_space:
            return 0
        m = self.state_space
        inner = m.heads * m.head_size
        return self.hidden * (2 * inner + 2 * m.groups * m.state + m.heads) + inner * self.hidden

    @property
    def dense_parameters(self) -> int:
        """All but routed experts, embedding and output layer (count)."""
        feed_forward = (3 if self.gated else 2) * self.hidden * self.dense_width
        return (
            self.attention_layers * self.attention_parameters
            + self.dense_layers * feed_forward
            + self.expert_layers * self.shared_parameters
            + self.state_space_layers * self.state_space_parameters
            + 2 * self.blocks * self.hidden
        )

    @property
    def routed_parameters(self) -> int:
        """Of all routed experts (count)."""
        return self.expert_layers * (self.experts.count if self.experts else 0) * self.expert_parameters

    @property
    def parameters(self) -> int:
        """All (count)."""
        ends = self.hidden * self.vocabulary * (1 if self.tied else 2) + self.hidden * self.learned_positions
        return self.dense_parameters + self.routed_parameters + ends

    @property
    def active_parameters(self) -> int:
        """That one token multiplies with, the output layer included (count)."""
        routed = self.expert_layers * (self.experts.per_token if self.experts else 0) * self.expert_parameters
        return self.dense_parameters + routed + self.hidden * self.vocabulary * (1 + self.extra_heads)

    def flop_per_token(self, sequence: float) -> float:
        """Model arithmetic of a token's forward and backward pass, the causal half of the attention matrix counted (FLOP)."""
        width = self.heads * ((self.latent.nope + self.latent.rope + self.latent.value) / 2 if self.latent else self.head_size)
        seen = sequence / 2 if not self.window else (sequence / 2 + min(self.window, sequence / 2)) / 2
        return 6.0 * self.active_parameters + 12.0 * self.attention_layers * width * seen


class TrainedModel(Shape):
    """An entry of `data/workloads/trained_models.yaml`."""

    names: tuple[str, ...] = ()


class ModelFile(Strict):
    """`data/workloads/trained_models.yaml`."""

    models: dict[str, TrainedModel] = Field(default_factory=dict)


def from_transformer(model: transformers.Transformer) -> Shape:
    """The same model as `analysis.training` describes it."""
    mixture = model.experts > 1
    return Shape(
        hidden=model.hidden,
        vocabulary=model.vocab,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_size=model.head_dim,
        attention_layers=model.layers,
        dense_layers=0 if mixture else model.layers,
        expert_layers=model.layers if mixture else 0,
        dense_width=model.ffn_hidden,
        gated=model.gated,
        blocks=model.layers,
        learned_positions=model.max_sequence if model.positions == "learned" else 0,
        tied=model.tied_embeddings,
        biases=model.biases == "all",
        experts=Experts(count=model.experts, per_token=model.experts_per_token, width=model.ffn_hidden) if mixture else None,
    )


@dataclass(frozen=True)
class Named:
    """A shape and the name under which it was found."""

    name: str
    shape: Shape


@cache
def _own() -> dict[str, Named]:
    found: dict[str, Named] = {}
    for name, model in read_yaml(DATA / "workloads" / "trained_models.yaml", ModelFile).models.items():
        for each in (name, *model.names):
            found[plain(each)] = Named(name, model)
    return found


@cache
def load(name: str) -> Named:
    """A model by name, from this file or from the older `transformers.yaml`.

    Raises:
        InputError: no such model.
    """
    own = name.strip().rsplit("/", 1)[-1]  # without the owner, as on huggingface.co
    short = plain(own)
    for candidate in (plain(name), short, short.removeprefix("metallama"), short.removeprefix("meta")):
        if candidate in _own():
            return _own()[candidate]
    try:
        older = transformers.load(own)
    except InputError:
        raise InputError(f"no model {name!r} in trained_models.yaml or transformers.yaml", key="model") from None
    return Named(older.name, from_transformer(older))
