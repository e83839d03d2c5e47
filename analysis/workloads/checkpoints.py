"""What does a Hugging Face `config.json` say about a model? Its description as `models.Model`, or which kind of layer is not modelled.

Most model types are rows of `data/workloads/configurations.yaml`. Keys are those of the configuration classes in `transformers` and of
the remote code that some checkpoints bring; what a configuration leaves out has its class's default. Types come from
`quantization_config`, or from a `hf_quant_config.json` in the same folder. Of vision-language models the language part is described.
Blocks for multi-token prediction are counted apart, as the published counts do.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from analysis.configs import MOST_COUNT, Strict, read_yaml
from analysis.documents import is_file, read_json
from analysis.errors import InputError, shown
from analysis.paths import DATA
from analysis.workloads.models import Model, all_models, plain

PATH = DATA / "workloads" / "configurations.yaml"
LARGEST_CONFIG_BYTES = 8 << 20
MOST_LAYERS = 10_000
LONGEST_PATTERN = 300  # characters of a pattern of modules that are not quantised
MOST_PATTERNS = 20_000

Facts = dict[str, Any]


class Config:
    """The keys of a configuration, each read with its bounds."""

    def __init__(self, raw: dict[str, Any], path: Path) -> None:
        self.raw, self.path = raw, path

    def get(self, *keys: str, default: Any = None) -> Any:
        """The first of the keys that is given and not null."""
        return next((self.raw[key] for key in keys if self.raw.get(key) is not None), default)

    def count(self, *keys: str, default: int | None = None) -> int:
        """A whole number."""
        value = self.get(*keys, default=default)
        if value is None:
            raise InputError(f"is missing: a {self.kind!r} configuration needs it", path=self.path, key=keys[0])
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_COUNT:
            given = next((key for key in keys if self.raw.get(key) is not None), keys[0])
            raise InputError(f"expected a count, got {shown(repr(value), 80)}", path=self.path, key=given)
        return value

    def flag(self, *keys: str, default: bool = False) -> bool:
        """A yes or no."""
        value = self.get(*keys, default=default)
        if isinstance(value, str) and value.lower() in ("true", "false", "yes", "no"):
            raise InputError(f"expected true or false, got the text {value!r}", path=self.path, key=keys[0])
        return bool(value)

    def part(self, key: str) -> Config:
        """A mapping inside; empty where there is none."""
        inner = self.raw.get(key) or {}
        if not isinstance(inner, dict):
            raise InputError(f"expected a mapping, got {shown(repr(inner), 80)}", path=self.path, key=key)
        return Config(inner, self.path)

    def names(self, *keys: str) -> list[str]:
        """A list of words, or a text's letters; empty where there is none."""
        value = self.get(*keys, default=[])
        if not isinstance(value, (list, str)) or len(value) > MOST_LAYERS:
            raise InputError(f"expected a list of at most {MOST_LAYERS:,}", path=self.path, key=keys[0])
        return [str(one) for one in value]

    @property
    def kind(self) -> str:
        """The model type."""
        return str(self.raw.get("model_type") or "")

    @property
    def layers(self) -> int:
        """Blocks (count)."""
        listed = len(self.names("layers_block_type")) if self.kind == "nemotron_h" else 0
        found = self.count("num_hidden_layers", "n_layer", "n_layers", "num_layers", default=listed or None)
        if not 0 < found <= MOST_LAYERS:
            raise InputError(f"expected 1 to {MOST_LAYERS:,} layers, got {found:,}", path=self.path, key="num_hidden_layers")
        return found

    @property
    def hidden(self) -> int:
        """Width (elements)."""
        return self.count("hidden_size", "n_embd", "d_model", "n_embed", "dim")

    def refuse(self, kind: str) -> InputError:
        """Why the model cannot be described."""
        return InputError(f"layers of this kind are not modelled: {kind}", path=self.path, key=self.kind or "model_type")


WIDTHS = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "ffn_hidden")


def _decoder(c: Config, tied: bool = False, attention: Facts | None = None, **traits: Any) -> Facts:
    """A decoder of the usual keys; `attention` and other traits are what its family adds."""
    hidden, heads = c.hidden, c.count("num_attention_heads", "n_head", "n_heads")
    head = c.get("head_dim", "kv_channels", "attention_head_dim", "attention_head_size")
    own: Facts = {"heads": heads, "kv_heads": c.count("num_key_value_heads", "num_kv_heads", "n_head_kv", default=heads) or heads}
    if 0 < len(c.names("layer_types")) < c.layers:
        raise InputError(f"names {len(c.names('layer_types'))} of {c.layers} layers", path=c.path, key="layer_types")
    if not heads or heads % own["kv_heads"]:
        raise InputError(f"{heads} heads over {own['kv_heads']} of keys and values", path=c.path, key="num_attention_heads")
    if head is not None:
        own["head_size"] = c.count("head_dim", "kv_channels", "attention_head_dim", "attention_head_size")
    elif heads and hidden % heads and "head_size" not in (attention or {}):
        raise InputError(f"{hidden} does not divide by {heads} heads, and there is no head_dim", path=c.path, key="hidden_size")
    return {
        "hidden": hidden,
        "layers": c.layers,
        "vocabulary": c.count(*("padded_vocab_size", "vocab_size") if c.get("padded_vocab_size") else ("vocab_size",)),
        "context": _context(c),
        "dense_width": c.count(*WIDTHS, default=4 * hidden) or 4 * hidden,
        "tied": c.flag("tie_word_embeddings", default=tied),
        "attention": {**own, **(attention or {})},
        **traits,
    }


# --- parts ---


def _context(c: Config) -> int | None:
    """Longest sequence (tokens), None where it is not stated; scaled rotary positions multiply it.

    As vLLM derives it (`_get_and_verify_max_len`, vllm/config/model.py): x factor, of YaRN over original_max_position_embeddings; LongRoPE
    and Llama 3's scaling say the longer context in max_position_embeddings already, as Gemma 3 does.
    """
    names = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "n_ctx", "max_sequence_length", "model_max_length")
    stated = c.count(*names, default=0)
    scaling = c.part("rope_scaling") if c.part("rope_scaling").raw else c.part("rope_parameters")
    kind, factor = str(scaling.get("rope_type", "type", default="")), scaling.get("factor", default=1.0)
    if kind not in ("linear", "dynamic", "yarn", "deepseek_yarn") or c.kind.startswith("gemma3"):
        return stated or None
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 1 <= factor <= 1e6:
        raise InputError(f"factor {shown(repr(factor), 40)}: expected a number from 1", path=c.path, key="rope_scaling")
    if kind.endswith("yarn"):
        stated = scaling.count("original_max_position_embeddings", default=stated)
    return min(MOST_COUNT, int(stated * factor)) or None


NEAR = ("sliding_attention", "chunked_attention", "sliding", "local")
RECURRENT = ("linear_attention", "mamba", "mamba2", "hybrid", "moe", "mlp")
"""Words of `layer_types` for blocks of near attention, and for those that only families with recurrent blocks read."""


def _window(c: Config, layers: int | None = None) -> Facts:
    """Sliding windows: by `layer_types`, else on so many layers (all by default)."""
    if not c.get("sliding_window"):
        return {}
    size = c.count("sliding_window")
    kinds = c.names("layer_types")
    if kinds:
        layers = sum(kind in NEAR for kind in kinds[: c.layers])
    elif layers is None:
        layers = c.layers
    context = c.count("max_position_embeddings", default=0)
    return {"window": size, "window_layers": layers} if layers and not (context and size >= context) else {}


def _latent(c: Config) -> Facts:
    """Multi-head latent attention, with a sparse indexer where there is one."""
    sizes = {
        "query_rank": c.count("q_lora_rank", default=0),
        "kv_rank": c.count("kv_lora_rank"),
        "nope_size": c.count("qk_nope_head_dim"),
        "rope_size": c.count("qk_rope_head_dim"),
        "value_size": c.count("v_head_dim"),
    }
    if c.get("index_topk"):
        sizes |= {"index_top_k": c.count("index_topk"), "index_heads": c.count("index_n_heads"), "index_size": c.count("index_head_dim")}
    heads = c.count("num_attention_heads")
    return {"heads": heads, "kv_heads": heads, "head_size": sizes["value_size"], "latent": sizes}


def _experts(c: Config, **traits: Any) -> Facts:
    """Experts by the usual keys: those of DeepSeek, Qwen, Mixtral; without them nothing."""
    count = c.count("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts", "moe_num_primary_experts", default=0)
    if count <= 1:
        return {}
    width = c.count("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    kinds = c.names("mlp_layer_types")
    listed = {"layers": sum(kind in ("sparse", "moe") for kind in kinds[: c.layers])} if kinds else {}
    if kinds and not listed["layers"]:
        return {}
    shared = c.count("shared_expert_intermediate_size", "shared_intermediate_size", "moe_shared_expert_intermediate_size", default=0)
    if not shared:
        shared = width * c.count("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts", default=0)
    return {
        "experts": {
            "count": count,
            "per_token": c.count(
                "num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk", "moe_top_k", "num_selects", default=1
            ),
            "width": width,
            "shared": shared,
            "dense_layers": c.count("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", default=0),
            **listed,
            **traits,
        }
    }


def _mtp(c: Config) -> Facts:
    return {"mtp_modules": c.count("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", default=0)}


def _scan(c: Config, layers: int, **traits: Any) -> Facts:
    """A selective scan (Mamba)."""
    inner = c.count("mamba_expand", "expand", default=2) * c.hidden
    if c.get("intermediate_size") and c.kind in ("mamba", "falcon_mamba"):
        inner = c.count("intermediate_size")
    rank = c.get("mamba_dt_rank", "time_step_rank")
    return {
        "kind": "mamba",
        "layers": layers,
        "key_heads": 1,
        "key_size": c.count("mamba_d_state", "state_size", default=16),
        "value_heads": 1,
        "value_size": inner,
        "convolution": c.count("mamba_d_conv", "conv_kernel", default=4),
        "rank": rank if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank <= MOST_COUNT else -(-c.hidden // 16),
        **traits,
    }


def _duality(c: Config, layers: int, **traits: Any) -> Facts:
    """State-space duality (Mamba 2)."""
    head = c.get("mamba_head_dim", "mamba_d_head", "head_dim" if c.kind == "mamba2" else "mamba_headdim")
    heads = c.get("mamba_num_heads", "mamba_n_heads", "num_heads" if c.kind == "mamba2" else "n_mamba_heads")
    inner = c.count("mamba_d_ssm", default=0) or c.count("mamba_expand", "expand", default=2) * c.hidden
    if not isinstance(head, int) or isinstance(head, bool) or head <= 0:
        head = max(1, inner // heads) if isinstance(heads, int) and heads > 0 else 64
    if not isinstance(heads, int) or isinstance(heads, bool) or heads <= 0:
        heads = inner // head
    return {
        "kind": "mamba2",
        "layers": layers,
        "key_heads": c.count("mamba_n_groups", "n_groups", "mamba_ngroups", default=1),
        "key_size": c.count("mamba_d_state", "ssm_state_size", "state_size", default=128),
        "value_heads": heads,
        "value_size": head,
        "convolution": c.count("mamba_d_conv", "conv_kernel", default=4),
        "biases": c.flag("mamba_proj_bias", "use_bias" if c.kind == "mamba2" else "mamba_use_bias"),
        **traits,
    }


def _delta(c: Config, layers: int) -> Facts:
    """Gated delta rule."""
    return {
        "kind": "gated_delta",
        "layers": layers,
        "key_heads": c.count("linear_num_key_heads", default=16),
        "key_size": c.count("linear_key_head_dim", default=128),
        "value_heads": c.count("linear_num_value_heads", default=32),
        "value_size": c.count("linear_value_head_dim", default=128),
        "convolution": c.count("linear_conv_kernel_dim", default=4),
    }


def _of_types(c: Config, kind: str) -> int:
    """Layers of a kind by `layer_types`."""
    return sum(one == kind for one in c.names("layer_types", "layers_block_type")[: c.layers])


# --- families that a row of the table describes ---


class Family(Strict):
    """What a model type adds to a decoder of the usual keys; the head of `PATH` says what each key means."""

    types: str = ""
    like: str = ""
    tied: bool = False
    biases: str | dict[str, str] | None = None
    norm: str | dict[str, str] | None = None
    kv_heads: dict[str, int | str] | None = None
    head_size: int = 0
    width: int = 0
    window: str | dict[str, int] = ""
    sinks: bool = False
    traits: dict[str, Any] = Field(default_factory=dict)
    experts: dict[str, bool | dict[str, bool]] | None = None
    sparse: bool = False
    latent: bool = False
    mtp: bool = False
    refuse: dict[str, str] = Field(default_factory=dict)
    defaults: dict[str, int] = Field(default_factory=dict)

    def facts(self, c: Config) -> Facts:
        """The facts of a configuration."""
        if self.defaults:
            c = Config({**self.defaults, **{key: value for key, value in c.raw.items() if value is not None}}, c.path)
        for key, words in self.refuse.items():
            if _holds(c, key):
                raise c.refuse(words)
        attention: Facts = {"biases": None if self.biases is None else _choice(c, self.biases, "none"), "norm": _choice(c, self.norm)}
        attention |= {"sinks": self.sinks or None, "head_size": c.count("head_dim", default=self.head_size) if self.head_size else None}
        heads = _choice(c, self.kv_heads)
        attention["kv_heads"] = c.count(heads) if isinstance(heads, str) else heads
        attention = {key: value for key, value in attention.items() if value is not None} | self._windows(c)
        if self.latent and c.get("kv_lora_rank"):
            attention = _latent(c)
        traits = {name: _choice(c, value) for name, value in self.traits.items()}
        found = _decoder(c, self.tied, attention, **{name: value for name, value in traits.items() if value is not None})
        if self.width:
            found["dense_width"] = self.width * c.hidden
        if self.experts is not None:
            experts = _experts(c, **{name: _choice(c, value) for name, value in self.experts.items()})
            found |= _sparse_layers(c, experts) if self.sparse else experts
        if traits.get("gated") is not False and not self.width and "experts" not in found and c.get(*WIDTHS) is None:
            c.count("intermediate_size")  # four hidden sizes are usual of feed-forwards without a gate alone
        return found | (_mtp(c) if self.mtp else {})

    def _windows(self, c: Config) -> Facts:
        if isinstance(self.window, dict):
            every = self.window.get("every", 0)
            if "pattern" in self.window:
                keys = ("sliding_window_pattern", "_sliding_window_pattern")
                pattern = c.get(*keys)
                every = len(pattern) if isinstance(pattern, str) else c.count(*keys, default=self.window["pattern"])
            return _window(c, c.layers - c.layers // every if every else 0)
        if self.window == "late":
            return _window(c, max(0, c.layers - c.count("max_window_layers", default=c.layers))) if c.flag("use_sliding_window") else {}
        return _window(c, -(-c.layers // 2) if self.window == "half" else None) if self.window else {}


def _holds(c: Config, condition: str) -> bool:
    """Whether a configuration meets a condition: `key`, `key=yes` (unless it is false), `key=word` or `key>count` (of a list: no), several
    joined by &."""
    for part in condition.split("&"):
        name, _, least = part.partition(">")
        name, _, word = name.partition("=")
        if least:
            held = not isinstance(c.get(name), list) and c.count(name, default=0) > int(least)
        else:
            held = c.flag(name, default=bool(word)) if word in ("", "yes") else c.get(name) == word
        if not held:
            return False
    return True


def _choice(c: Config, choice: Any, otherwise: Any = None) -> Any:
    """A value, or of a choice that of the first condition that holds; else `otherwise` (no, where the values are yes)."""
    if not isinstance(choice, dict):
        return choice
    for condition, value in choice.items():
        if condition == "otherwise" or _holds(c, condition):
            return value
    return False if any(value is True for value in choice.values()) else otherwise


class FamilyFile(Strict):
    """`data/workloads/configurations.yaml`.

    Args:
        families: rows by their first type; refused: kinds of layers that are not modelled, and the types that have them;
        language_parts: keys under which vision-language configurations keep the language part; inner: what it may leave out, by type;
        usual_keys: pattern of the keys of any configuration that say nothing of a layer's kind, or that `_generic` reads;
        algorithms: quant_algo -> type of the weights; samples: modules inside a layer by which a pattern is tried, by part.
    """

    families: dict[str, Family]
    refused: dict[str, str]
    language_parts: tuple[str, ...]
    inner: dict[str, dict[str, int]]
    usual_keys: str
    algorithms: dict[str, str]
    samples: dict[str, tuple[str, ...]]

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, raw: Any) -> Any:
        rows = raw["families"]
        for name, row in rows.items():
            rows[name] = {**rows[row["like"]], "types": "", **row} if "like" in row else row
        return raw


@cache
def _table() -> FamilyFile:
    return read_yaml(PATH, FamilyFile)


@cache
def families() -> dict[str, Callable[[Config], Facts]]:
    """Model type -> how its configuration is read."""
    return {kind: row.facts for name, row in _table().families.items() for kind in (name, *row.types.split())} | IRREGULAR


@cache
def refused() -> dict[str, str]:
    """Model types with a kind of layer that no predictor here has -> that kind."""
    return {kind: words for words, kinds in _table().refused.items() for kind in kinds.split()}


# --- families that take code ---


def _biases(c: Config) -> str:
    return "all" if c.flag("attention_bias") else "none"


def _qwen1(c: Config) -> Facts:
    found = _decoder(c, attention={"biases": "qkv"})
    return found | {"dense_width": found["dense_width"] // 2}  # its two halves, gate and up, are counted together


def _sparse_layers(c: Config, experts: Facts) -> Facts:
    """Where `decoder_sparse_step` and `mlp_only_layers` put experts."""
    if not experts:
        return {}
    step, plain = max(1, c.count("decoder_sparse_step", default=1)), {str(one) for one in c.names("mlp_only_layers")}
    layers = sum((i + 1) % step == 0 and str(i) not in plain for i in range(c.layers))
    return {"experts": {**experts["experts"], "layers": layers, "dense_layers": 0}} if layers else {}


def _qwen3_next(c: Config) -> Facts:
    every = max(1, c.count("full_attention_interval", default=4))
    linear = _of_types(c, "linear_attention") if c.names("layer_types") else c.layers - c.layers // every
    attention = {"norm": "head", "output_gate": c.flag("attn_output_gate", default=True), "biases": _biases(c)}
    if c.get("head_dim") is None:
        attention["head_size"] = 256
    facts = _decoder(c, attention=attention) | _sparse_layers(c, _experts(c, shared_gate=True)) | _mtp(c)
    return facts | ({"linear": _delta(c, linear)} if linear else {})


def _falcon(c: Config) -> Facts:
    heads = c.count("num_attention_heads", "n_head")
    grouped = c.flag("new_decoder_architecture") or c.get("n_head_kv") is not None
    kv = c.count("num_kv_heads", "n_head_kv", default=heads) if grouped else 1 if c.flag("multi_query", default=True) else heads
    parallel = c.flag("parallel_attn", default=True)
    shared = parallel and (not grouped or c.count("num_ln_in_parallel_attn", default=2) == 1)
    bias = c.flag("bias")
    hidden = c.hidden
    traits = {"norm": "layer", "norms": 1 if shared else 2, "parallel_block": parallel, "gated": False, "ffn_biases": bias}
    traits |= {"positions": "alibi" if c.flag("alibi") else "rotary", "dense_width": c.count("ffn_hidden_size", default=4 * hidden)}
    # its checkpoints store embedding and output layer apart
    return _decoder(c, attention={"kv_heads": kv, "biases": "all" if bias else "none"}) | traits


def _mpt(c: Config) -> Facts:
    inner, plain = c.part("attn_config"), c.flag("no_bias", default=True)
    heads = c.count("n_heads")
    kv = {"multiquery_attention": 1, "grouped_query_attention": inner.count("kv_n_heads", default=heads)}
    attention = {"kv_heads": kv.get(str(inner.get("attn_type")), heads), "biases": "none" if plain else "all"}
    if inner.flag("qk_ln"):
        attention["norm"] = "all"
    positions = "alibi" if inner.flag("alibi") else "rotary" if inner.flag("rope") else "learned"
    if not c.flag("learned_pos_emb", default=True) and positions == "learned":
        positions = "none"
    traits = {"norm": "layer_scale" if plain else "layer", "gated": False, "ffn_biases": not plain, "positions": positions}
    ratio = c.get("expansion_ratio", default=4)
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 < ratio <= 1000:
        raise InputError(f"expected a number up to 1,000, got {shown(repr(ratio), 80)}", path=c.path, key="expansion_ratio")
    width = int(ratio * c.hidden)
    return _decoder(c, tied=True, attention=attention, **traits) | {"dense_width": width}


GPT: Facts = {"norm": "layer", "gated": False, "ffn_biases": True}


def _gpt_neo(c: Config) -> Facts:
    kinds = c.names("attention_layers")
    local = sum(kind == "local" for kind in kinds) if kinds else c.layers // 2
    window = {"window": c.count("window_size", default=256), "window_layers": local} if local else {}
    c = Config({**c.raw, "num_attention_heads": c.count("num_heads", "num_attention_heads")}, c.path)
    return _decoder(c, tied=True, attention={"biases": "output", **window}, positions="learned", **GPT)


def _opt(c: Config) -> Facts:
    if c.count("word_embed_proj_dim", default=c.hidden) != c.hidden:
        raise c.refuse("embeddings of another width than the blocks, with projections")
    biases = c.flag("enable_bias", default=True)
    norm = "layer" if c.flag("layer_norm_elementwise_affine", default=True) else "layer_plain"
    traits = {**GPT, "norm": norm, "ffn_biases": biases, "positions": "learned"}
    return _decoder(c, tied=True, attention={"biases": "all" if biases else "none"}, **traits)


def _minimax_m2(c: Config) -> Facts:
    kinds = c.names("attn_type_list")
    if any(kind in ("0", "2") for kind in kinds):
        raise c.refuse("lightning attention")
    norm = "none" if not c.flag("use_qk_norm", default=True) else "head" if c.get("qk_norm_type") == "per_head" else "all"
    return _decoder(c, attention={"norm": norm}) | _experts(c, router_biases=c.flag("use_routing_bias", default=True), router="fp32")


def _granite_moe(c: Config) -> Facts:
    found = _decoder(c, attention={"biases": _biases(c)})
    shared = c.count("shared_intermediate_size", default=0)
    experts = _experts(c) if c.count("num_local_experts", default=0) > 1 else {}
    if experts:
        experts["experts"] |= {"width": c.count("intermediate_size"), "shared": shared if c.kind != "granitemoe" else 0}
    elif shared:
        found["dense_width"] = shared
    kinds = c.names("layer_types", "layers_block_type")
    mamba = sum(kind in ("mamba", "linear_attention") for kind in kinds[: c.layers]) if c.kind == "granitemoehybrid" else 0
    linear = {"linear": _duality(c, mamba)} if mamba else {}
    return found | experts | linear


def _nemotron_h(c: Config) -> Facts:
    letters = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
    kinds = [letters.get(kind, kind) for kind in c.names("hybrid_override_pattern", "layers_block_type", "layer_types") if kind != "|"]
    unknown = sorted(set(kinds) - set("M*-E"))
    if unknown or not kinds:
        raise c.refuse(f"{', '.join(unknown) or 'no hybrid_override_pattern'}")
    found = _decoder(c, attention={"biases": _biases(c), "layers": kinds.count("*")}, gated=False, norms=1)
    if not kinds.count("*"):
        found["attention"] = None
    found |= {"layers": len(kinds), "dense": kinds.count("-"), "ffn_biases": c.flag("mlp_bias")} | _mtp(c)
    if kinds.count("E"):
        found |= _experts(c, layers=kinds.count("E"), latent=c.count("moe_latent_size", default=0), router_biases=True)
    return found | ({"linear": _duality(c, kinds.count("M"))} if kinds.count("M") else {})


def _jamba(c: Config) -> Facts:
    period, offset = c.count("attn_layer_period", default=8), c.count("attn_layer_offset", default=4)
    every, first = c.count("expert_layer_period", default=2), c.count("expert_layer_offset", default=1)
    if not period or not every:
        raise InputError("expected a period of at least 1", path=c.path, key="attn_layer_period")
    attention = sum(i % period == offset for i in range(c.layers))
    moe = sum(i % every == first for i in range(c.layers))
    found = _decoder(c, attention={"layers": attention})
    experts = _experts(c, layers=moe) if moe else {}
    linear = {"linear": _scan(c, c.layers - attention, norms=True, biases=c.flag("mamba_proj_bias"))}
    return found | experts | linear


def _ssm(c: Config) -> Facts:
    """A model of scans alone: Mamba, Falcon Mamba, Mamba 2."""
    inner = c.part("ssm_cfg")
    if str(inner.get("layer", default="")) == "Mamba2":
        c = Config({**c.raw, "model_type": "mamba2"}, c.path)
    if c.kind == "mamba2":
        linear = _duality(c, c.layers, biases=c.flag("use_bias"))
    else:
        linear = _scan(c, c.layers, biases=c.flag("use_bias"))
    unit = c.count("pad_vocab_size_multiple", default=1) or 1
    vocabulary = -(-c.count("vocab_size") // unit) * unit
    tied = c.flag("tie_word_embeddings", "tie_embeddings", default=c.kind == "mamba" or "ssm_cfg" in c.raw)
    if c.get("attn_layer_idx"):
        raise c.refuse("attention among the scans")
    facts = {"hidden": c.hidden, "layers": c.layers, "vocabulary": vocabulary, "norms": 1, "dense": 0, "positions": "none", "tied": tied}
    return {**facts, "linear": linear}


def _bamba(c: Config) -> Facts:
    indices = c.get("attn_layer_indices", default=[])
    if not isinstance(indices, list):
        raise InputError("expected a list", path=c.path, key="attn_layer_indices")
    attention = len(indices) or _of_types(c, "attention")
    found = _decoder(c, attention={"layers": attention, "biases": _biases(c)})
    if not attention:
        found["attention"] = None
    return found | {"linear": _duality(c, c.layers - attention)}


def _falcon_h1(c: Config) -> Facts:
    """Attention and Mamba 2 run side by side in each block."""
    found = _decoder(c, attention={"layers": c.layers, "biases": _biases(c)})
    linear = _duality(c, c.layers, biases=c.flag("mamba_proj_bias", "projectors_bias"))
    return found | {"linear": linear, "ffn_biases": c.flag("mlp_bias")}


def _dbrx(c: Config) -> Facts:
    attention, ffn = c.part("attn_config"), c.part("ffn_config")
    kv = {"kv_heads": attention.count("kv_n_heads", default=8)}
    experts = {
        "count": ffn.count("moe_num_experts", default=4),
        "per_token": ffn.count("moe_top_k", default=1),
        "width": ffn.count("ffn_hidden_size", default=3584),
    }
    return _decoder(c, attention=kv, norm="layer_scale") | {"experts": experts}


def _llama4(c: Config) -> Facts:
    chunk = c.count("attention_chunk_size", default=8192)
    kinds, rope = c.names("layer_types"), c.names("no_rope_layers")
    if kinds:
        local = sum(kind == "chunked_attention" for kind in kinds[: c.layers])
    elif rope:
        local = sum(one == "1" for one in rope[: c.layers])
    else:
        every = c.count("no_rope_layer_interval", default=4)
        local = c.layers - c.layers // every if every else 0
    step = c.count("interleave_moe_layer_step", default=1) or 1
    listed = c.names("moe_layers")
    moe = len(listed) if listed else sum((i + 1) % step == 0 for i in range(c.layers))
    width = c.count("intermediate_size", default=8192)
    experts = {
        "count": c.count("num_local_experts", default=16),
        "per_token": c.count("num_experts_per_tok", default=1),
        "width": width,
        "shared": width,
        "layers": moe,
    }
    window = {"window": chunk, "window_layers": local} if local else {}
    facts = _decoder(c, attention={"biases": _biases(c), **window}) | {"dense_width": c.count("intermediate_size_mlp", default=16384)}
    return facts | {"experts": experts}


def _ernie_moe(c: Config) -> Facts:
    found = families()["ernie4_5"](c)
    last = c.count("moe_layer_end_index", default=c.layers - 1)
    if last < c.layers - 1 or c.count("moe_layer_interval", default=1) != 1:
        raise c.refuse("experts in some of the later layers only")
    return found | _experts(c, router_biases=True)


def _hunyuan_moe(c: Config) -> Facts:
    per_token, shared = c.get("moe_topk", default=1), c.get("num_shared_expert", default=1)
    for value in (per_token, shared):
        if isinstance(value, list) and len({str(one) for one in value}) > 1:
            raise c.refuse("layers with different numbers of experts")
    first = lambda value: value[0] if isinstance(value, list) and value else value  # noqa: E731
    c = Config({**c.raw, "moe_topk": first(per_token), "moe_intermediate_size": first(c.get("moe_intermediate_size"))}, c.path)
    experts = _experts(c)
    if experts:
        experts["experts"]["shared"] = c.count("intermediate_size")
    return families()["hunyuan_v1_dense"](c) | experts


def _gemma4(c: Config) -> Facts:
    """Layers without a window have heads of another size, and with `attention_k_eq_v` fewer, with keys and values projected at once."""
    if c.count("hidden_size_per_layer_input", default=256) or c.count("num_kv_shared_layers", default=0):
        raise c.refuse("per-layer embeddings, keys and values shared between layers")
    shared, kv, size = c.flag("attention_k_eq_v"), c.count("num_key_value_heads"), c.count("head_dim", default=256)
    near = _window(c)
    if near:
        near |= {"window_kv_heads": kv, "window_head_size": size}
    wide = {"kv_heads": c.count("num_global_key_value_heads", default=kv) if shared else kv, "shared_kv": shared}
    wide["head_size"] = c.count("global_head_dim", default=512)
    found = _decoder(c, tied=True, attention={"norm": "head", **wide, **near}, norms=4)
    if not c.flag("enable_moe_block"):
        return found
    # the plain feed-forward runs next to the experts, as a shared expert does
    each = {"per_token": c.count("top_k_experts"), "shared": found["dense_width"], "layers": c.layers}
    return found | _experts(c, **each)


def _ones(c: Config, key: str) -> int | None:
    """Layers that a list of 0 and 1 names; None without a list."""
    listed = c.get(key)
    return sum(one == "1" for one in c.names(key)[: c.layers]) if isinstance(listed, list) else None


def _mimo_v2(c: Config) -> Facts:
    """Heads of another size for keys than for values: their mean has the weights and the cache of both."""
    size = c.count("head_dim") + c.count("v_head_dim", default=c.count("head_dim"))
    local = _ones(c, "hybrid_layer_pattern")
    near = _window(c, local) if local else {}
    if near:
        other = c.count("swa_head_dim", default=c.count("head_dim"))
        other += c.count("swa_v_head_dim", default=c.count("v_head_dim", default=other))
        near |= {"window_heads": c.count("swa_num_attention_heads", default=0), "window_head_size": other // 2}
        near["window_kv_heads"] = c.count("swa_num_key_value_heads", default=0)
    sinks = c.flag("add_swa_attention_sink_bias", "add_full_attention_sink_bias")
    biases = "qkv" if c.flag("attention_bias") else "none"
    moe = _ones(c, "moe_layer_freq")
    experts = _experts(c, router_biases=True, **({} if moe is None else {"layers": moe})) if moe != 0 else {}
    return _decoder(c, attention={"head_size": size // 2, "sinks": sinks, "biases": biases, **near}) | {**experts, **_mtp(c)}


def _step(c: Config) -> Facts:
    """Layers with a window may have other heads (`attention_other_setting`); `moe_layers_enum` names the layers with experts."""
    c = Config({"num_key_value_heads": c.get("num_attention_groups"), **c.raw}, c.path)
    near, other = _window(c), c.part("attention_other_setting")
    if near and other.raw:
        near |= {"window_heads": other.count("num_attention_heads"), "window_head_size": other.count("head_dim", default=0)}
        near["window_kv_heads"] = other.count("num_attention_groups", "num_key_value_heads", default=0)
    listed = c.get("moe_layers_enum")
    names = {one.strip() for one in listed.split(",")} if isinstance(listed, str) else set(c.names("moe_layers_enum"))
    layers = {"layers": sum(str(i) in names for i in range(c.layers)), "dense_layers": 0} if names else {}
    experts = _experts(c, shared=c.count("share_expert_dim", "share_expert_dims", default=0), router="fp32", **layers)
    if experts:
        experts["experts"]["router_biases"] = c.flag("use_moe_router_bias", default=True)
    return _decoder(c, attention={"norm": "head", **near}) | experts | _mtp(c)


def _kimi_linear(c: Config) -> Facts:
    """Kimi delta attention on some layers, latent attention without rotary positions on the others."""
    linear = c.part("linear_attn_config")
    if c.names("layer_types"):  # as transformers writes it
        names = {"num_heads": "linear_num_heads", "head_dim": "linear_head_dim", "short_conv_kernel_size": "linear_conv_kernel_dim"}
        listed = [i for i, kind in enumerate(c.names("layer_types")[: c.layers]) if kind == "linear_attention"]
        linear = Config({"kda_layers": listed, **{name: c.get(key) for name, key in names.items()}}, c.path)
    if c.get("attn_res_block_size") or c.flag("mla_use_output_gate") or linear.flag("use_full_rank_gate"):
        raise c.refuse("attention residuals, gated latent attention, a full-rank output gate")
    delta = len(linear.names("kda_layers"))
    heads, size = linear.count("num_heads"), linear.count("head_dim")
    found = _decoder(c, attention={**_latent(c), "layers": c.layers - delta}, positions="none") | _experts(c, router_biases=True) | _mtp(c)
    if not delta:
        return found
    sizes = {"key_heads": heads, "key_size": size, "value_heads": heads, "value_size": size, "rank": size}
    taps = linear.count("short_conv_kernel_size", default=4)
    return found | {"linear": {"kind": "gated_delta", "layers": delta, "convolution": taps, **sizes}}


IRREGULAR: dict[str, Callable[[Config], Facts]] = {
    "qwen": _qwen1,
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"), _qwen3_next),
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), _falcon),
    "mpt": _mpt,
    "gpt_neo": _gpt_neo,
    "opt": _opt,
    "nemotron_h": _nemotron_h,
    "jamba": _jamba,
    "bamba": _bamba,
    "falcon_h1": _falcon_h1,
    **dict.fromkeys(("minimax_m2", "mixtral_minimax"), _minimax_m2),
    **dict.fromkeys(("granitemoe", "granitemoeshared", "granitemoehybrid", "granitemoe_swa"), _granite_moe),
    **dict.fromkeys(("mamba", "falcon_mamba", "mamba2", "mamba_ssm"), _ssm),
    "dbrx": _dbrx,
    "ernie4_5_moe": _ernie_moe,
    "mimo_v2_flash": _mimo_v2,
    "kimi_linear": _kimi_linear,
    **dict.fromkeys(("llama4", "llama4_text"), _llama4),
    **dict.fromkeys(("hunyuan_v1_moe", "hunyuan"), _hunyuan_moe),
    **dict.fromkeys(("gemma4", "gemma4_text"), _gemma4),
    **dict.fromkeys(("step3p5", "step3p7"), _step),
}
"""Model type -> how its configuration is read, where no row of the table can say it."""


def _generic(c: Config) -> Facts:
    """A family that is not known, where every key is one of the usual dense decoder with a gate."""
    strange = [key for key, value in c.raw.items() if value and not re.fullmatch(_table().usual_keys, key)]
    if c.get("hidden_act") not in ("silu", "swish") or not c.get("rms_norm_eps") or not c.get("intermediate_size"):
        strange.append("not a gated feed-forward and RMS norms")
    if strange:
        words = ", ".join(shown(one, 60) for one in strange[:6])
        raise c.refuse(f"{shown(c.kind, 60) or 'no model_type'} is not a known type ({words})")
    return families()["internlm2" if c.flag("bias") else "granite"](c)


# --- types ---


def _quantised(c: Config, beside: dict[str, Any]) -> tuple[str | dict[str, str], Sequence[str]]:
    """Type of the quantised weights, or of each module by name, and patterns of modules that are not."""
    q = Config(beside, c.path) if beside else c.part("quantization_config")
    if not q.raw:
        dtype = str(c.get("dtype", "torch_dtype", default="bfloat16"))
        return ("fp32" if dtype.endswith("float32") else "bf16"), []
    method = str(q.get("quant_method", default="")).lower()
    kept: list[str] = []
    for key in ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules", "exclude", "llm_int8_skip_modules"):
        value = q.get(key, default=[])
        kept += [str(one)[:LONGEST_PATTERN] for one in value[:MOST_PATTERNS]] if isinstance(value, list) else []
    algorithm = str(q.get("quant_algo", default="")).upper()
    if method in ("fp8", "fbgemm_fp8"):
        return ("fp8_block" if q.get("weight_block_size") else "fp8"), kept
    if method == "mxfp4":  # of such checkpoints the experts alone
        return "mxfp4", [*kept, "self_attn", "mlp.down_proj", "shared_experts", "shared_expert"]
    if algorithm:
        known = _table().algorithms
        if algorithm in known:
            return known[algorithm], kept
        listed = q.get("quantized_layers")
        if algorithm == "MIXED_PRECISION" and isinstance(listed, dict):
            of = {str(name): str(one.get("quant_algo")) for name, one in listed.items() if isinstance(one, dict)}
            if set(of.values()) <= set(known):
                return {name: known[kind] for name, kind in of.items()}, kept
    bits = {"2": "", "3": "", "4": "int4", "8": "int8"}
    if not method and not algorithm and bits.get(str(q.get("bits"))):  # MLX
        return bits[str(q.get("bits"))], kept
    if method in ("gptq", "awq", "auto-round", "auto_round", "hqq", "gptq_marlin") and bits.get(str(q.get("bits", "w_bit", default=4))):
        return bits[str(q.get("bits", "w_bit", default=4))], kept
    if method == "bitsandbytes" and q.flag("load_in_4bit", "_load_in_4bit"):
        # 4-bit floats with a table (NF4, FP4), which other kernels widen than those of int4
        raise InputError("4-bit weights of bitsandbytes are not covered; AWQ and GPTQ are", path=c.path, key="quantization_config")
    if method == "bitsandbytes":
        return "int8", kept
    spelled = {
        "quark": q.part("global_quant_config").get("weight"),  # a list where weights are quantised twice: stored as the last says
        "torchao": q.get("quant_type"),
        "quanto": q.get("weights"),
        "eetq": "int8",
    }.get(method)
    if named := re.findall(r"int4|int8|fp4|fp8|float8", str(spelled).lower()[:LONGEST_PATTERN]):
        width = named[-1 if method == "quark" else 0]
        return {"fp4": "mxfp4", "float8": "fp8"}.get(width, width), kept
    if method in ("compressed-tensors", "modelopt"):
        groups = q.get("config_groups", default={})
        first: Any = next(iter(groups.values()), {}) if isinstance(groups, dict) else {}
        weights = Config(first if isinstance(first, dict) else {}, c.path).part("weights")
        width = (str(weights.get("num_bits")), str(weights.get("type")))
        size = weights.get("group_size")
        found = {("4", "int"): "int4", ("8", "int"): "int8", ("8", "float"): "fp8", ("4", "float"): "nvfp4" if size != 32 else "mxfp4"}.get(
            width
        )
        if found:
            return ("fp8_block" if found == "fp8" and weights.get("block_structure") else found), kept
    raise InputError(f"weights of a type that is not known: {shown(method or algorithm, 60)!r}", path=c.path, key="quantization_config")


def _kept(patterns: Sequence[str], module: str, layer: int) -> bool:
    """Whether a pattern names a module of a layer: a regular one (`re:`), one with stars, or the beginning or a part of a name."""
    full = f"model.layers.{layer}.{module}"
    for pattern in patterns:
        text = pattern.replace("language_model.", "")
        if text.startswith("re:"):
            # a pattern's text is not run: only its words are looked for
            words = [re.sub(r"\\", "", word) for word in re.split(r"\.\*|\[[^\]]*\]|[()^$?+|]", text[3:]) if re.sub(r"[\\.]", "", word)]
            if words and all(word.strip(".") in full for word in words):
                return True
        elif "*" in text:
            if fnmatch.fnmatchcase(full, text) or fnmatch.fnmatchcase(full, f"*{text}"):
                return True
        elif full == text or full.startswith(text + ".") or f".{text}." in f".{full}.":
            return True
    return False


def _types(c: Config, beside: dict[str, Any], facts: Facts) -> dict[str, str]:
    """Types of the parts of `models.WeightTypes`, tried on modules of layers in the middle."""
    kind, kept = _quantised(c, beside)
    if isinstance(kind, dict):
        found = dict.fromkeys(_table().samples, "bf16")
        for part, modules in _table().samples.items():
            types = {one for name, one in kind.items() if any(name.endswith(module) for module in modules)}
            if len(types) > 1:
                raise InputError(
                    f"{part} of several types ({', '.join(sorted(types))}) is not modelled", path=c.path, key="quantization_config"
                )
            found[part] = next(iter(types), "bf16")
        return found
    found = dict.fromkeys(_table().samples, kind)
    if kind in ("bf16", "fp32"):
        return found
    middle, mixture = facts["layers"] // 2, bool(facts.get("experts"))
    for part, modules in _table().samples.items():
        # Gemma 4's plain feed-forward runs next to its experts, which are not below it
        shared = mixture and not c.kind.startswith("gemma4")
        tried = [module for module in modules if part != "dense" or ("shared" in module) == shared]
        if part == "experts" and c.kind.startswith("gemma4"):
            tried = ["experts.down_proj"]
        if any(_kept(kept, module, layer) for module in tried for layer in (middle, middle + 1)):
            found[part] = "bf16"
    return found


# --- a file ---


def _language(raw: dict[str, Any], path: Path) -> Config:
    """The language part of a configuration."""
    outer = raw
    for _ in range(3):
        inner = next((raw[key] for key in _table().language_parts if isinstance(raw.get(key), dict) and raw[key]), None)
        if inner is None or (str(raw.get("model_type")) in families() and "num_hidden_layers" in raw):
            break
        wanted: Facts = {key: raw[key] for key in ("tie_word_embeddings", "quantization_config", "torch_dtype", "dtype") if key in raw}
        kind = str(inner.get("model_type") or raw.get("model_type") or "")
        raw = {**_table().inner.get(kind, {}), **wanted, **{key: one for key, one in inner.items() if one is not None}, "model_type": kind}
    if outer.get("is_encoder_decoder") is True:
        raise InputError(
            "layers of this kind are not modelled: an encoder and a decoder", path=path, key=str(raw.get("model_type") or "model_type")
        )
    return Config(raw, path)


def describe(raw: Any, path: str | Path, beside: Any = None) -> Model:
    """A model from what its `config.json` holds.

    Args:
        beside: content of a `hf_quant_config.json`.
    """
    path = Path(path)
    if not isinstance(raw, dict):
        raise InputError("expected the mapping of a config.json", path=path)
    c = _language(raw, path)
    kind = c.kind
    if not kind and "ssm_cfg" in raw:
        kind = "mamba_ssm"
    if kind in refused():
        raise c.refuse(refused()[kind])
    if c.get("block_configs") or isinstance(c.get("num_key_value_heads_per_layer", "num_query_heads"), list):
        raise c.refuse("blocks of different widths")
    facts = families().get(kind, _generic)(c) | {"multimodal": any(isinstance(raw.get(key), dict) for key in _table().language_parts)}
    known = {"full_attention", "attention", *NEAR, *(RECURRENT if facts.get("linear") else ())}
    if unread := sorted(set(c.names("layer_types")) - known):
        raise c.refuse(f"{', '.join(shown(word, 60) for word in unread[:6])} of layer_types")
    quantised = beside.get("quantization", beside) if isinstance(beside, dict) else {}
    facts["types"] = _types(c, quantised if isinstance(quantised, dict) else {}, facts)
    name = str(raw.get("_name_or_path") or "").strip().rsplit("/", 1)[-1] or path.absolute().parent.name or path.stem
    if facts["types"]["dense"] == "fp8_block" or facts["types"]["experts"] == "fp8_block":
        facts["fp8"] = "block"
    try:
        return Model.model_validate({"name": shown(name, 100), "network": shown(name, 100), "source": str(path), **facts})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(step) for step in first["loc"]) or None
        raise InputError(first["msg"].removeprefix("Value error, "), path=path, key=key) from None


@lru_cache(maxsize=64)
def _read(path: str, changed: tuple[int, int]) -> Model:
    quantised = Path(path).with_name("hf_quant_config.json")
    beside = read_json(quantised, LARGEST_CONFIG_BYTES, python=True) if is_file(quantised) else None
    return describe(read_json(path, LARGEST_CONFIG_BYTES, python=True), path, beside)


def is_config(text: str) -> bool:
    """Whether a text that names no model is meant as a path: of a `.json`, or of a folder with a `config.json`."""
    return text.endswith(".json") or text.startswith((".", "/", "~")) or (bool(text) and is_file(Path(text) / "config.json"))


@lru_cache(1024)
def nearest(name: str, most: int = 4) -> str:
    """End of a refusal: the known names most like a name, or the kind of layer that its words name."""
    known = {plain(one): model.name for model in all_models().values() for one in (model.name, *model.aliases)}
    words = [each for word in re.split(r"[^a-z0-9.]+", name[:200].lower()) for each in (word, word.rstrip("0123456789."))]
    kind = next((refused()[each] for each in words if each in refused() and not any(one.startswith(each) for one in known)), "")
    if kind:
        return f": layers of this kind are not modelled: {kind}; `hlo predict` times a program as ONNX or StableHLO"
    alike = difflib.get_close_matches(plain(name[:200].rsplit("/", 1)[-1]), list(known), n=4 * most, cutoff=0.5)
    names = list(dict.fromkeys(known[one] for one in alike))[:most]
    return f"; nearest: {', '.join(names)}" if names else ""


def read_config(path: str | Path) -> Model:
    """The model of a `config.json`, or of a folder that has one."""
    file = Path(path).expanduser()
    file = file if not is_file(file / "config.json") else file / "config.json"
    if not is_file(file):
        raise InputError("no such file; expected the config.json of a model", path=file, key="model")
    stat = file.stat()
    return _read(str(file), (stat.st_mtime_ns, stat.st_size))
