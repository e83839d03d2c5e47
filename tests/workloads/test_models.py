"""Models: parameter counts against published ones, names, configurations of Hugging Face, arithmetic against the papers' formulas."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.paths import DATA, ROOT
from analysis.studies.workloads.counted import forward_flop_per_token, training_flop
from analysis.tables import read_csv
from analysis.workloads import checkpoints, models
from tests.golden import answer, kept

PRINTED_TO_TWO_DIGITS = {"megatron-1.7b", "megatron-3.6b", "gpt3-1.3b"}


@pytest.mark.parametrize("name", [name for name, model in models.all_models().items() if model.published_parameters])
def test_parameters_equal_the_papers_count(name: str) -> None:
    """Each source's own count; 3 percent where it prints two digits only (the SC'21 1.7B and 3.6B cases)."""
    model = models.load(name)
    assert model.parameters == pytest.approx(model.published_parameters, rel=0.03 if name in PRINTED_TO_TWO_DIGITS else 0.008)


PUBLISHED = read_csv(DATA / "published" / "model_parameters.csv", required=["model", "checkpoint", "parameters"])


@pytest.mark.parametrize("row", list(PUBLISHED.itertuples()), ids=lambda row: row.checkpoint)
def test_parameters_are_those_of_the_published_checkpoint(row: Any) -> None:
    """At least forty public checkpoints, each within 0.1 % (data/published/model_parameters.csv has the sources)."""
    assert models.load(row.model).parameters == pytest.approx(row.parameters, rel=1e-3)
    assert len(PUBLISHED) >= 40


def test_mixtral_active_parameters() -> None:
    """Jiang et al. 2024, abstract: 47B parameters, 13B active."""
    assert models.load("mixtral-8x7b").active_parameters == pytest.approx(12.9e9, rel=0.01)


@given(
    st.sampled_from([name for name in models.all_models() if name.startswith("megatron-")]),
    st.integers(min_value=1, max_value=4096),
    st.integers(min_value=128, max_value=8192),
)
def test_training_flop_is_megatrons_formula(name: str, batch: int, sequence: int) -> None:
    """Korthikanti et al. 2022, appendix A: 72 B s l h^2 (1 + s / 6h + V / 12 l h)."""
    m = models.load(name)
    formula = 72 * batch * sequence * m.layers * m.hidden**2 * (1 + sequence / (6 * m.hidden) + m.vocabulary / (12 * m.layers * m.hidden))
    assert training_flop(m, batch, sequence) == pytest.approx(formula, rel=1e-12)


def test_kv_cache_of_a_token() -> None:
    """32 layers x 2 x 4096 x 2 bytes = 512 KiB (Kwon et al. 2023 give 800 KB for OPT-13B: 40 x 2 x 5120 x 2); DeepSeek-V3 keeps
    (512 + 64) values a layer (arXiv:2412.19437, section 2.1.1: 70 KB); Jamba has 4 attention layers of 32 (arXiv:2403.19887, table 1:
    4 GB for 256k tokens in 16 bits); half of gpt-oss's layers see 128 tokens."""
    assert models.load("llama-2-7b").kv_bytes_per_token(2) == 512 * 1024
    assert models.load("opt-13b").kv_bytes_per_token(2) == 800 * 1024
    assert models.load("deepseek-v3").kv_bytes_per_token(2) == 61 * 576 * 2
    assert models.load("jamba-v0.1").kv_bytes_per_token(2) * 262_144 == 4 * 2**30
    oss = models.load("gpt-oss-120b")
    assert oss.kv_bytes_per_token(2, windows=False) == oss.kv_bytes_per_token(2) / 2 == 18 * 2 * 8 * 64 * 2
    assert models.load("mamba2-2.7b").kv_bytes_per_token(2) == 0


def test_kv_heads_are_not_cut() -> None:
    """Grouped heads are shared out, one head at least on each GPU; a latent cache is whole on each (vLLM, MLA without data parallelism)."""
    llama, deepseek = models.load("llama-3-70b"), models.load("deepseek-v3")
    assert [llama.kv_bytes_per_token(1, gpus) for gpus in (1, 2, 8, 16)] == [163_840, 81_920, 20_480, 20_480]
    assert deepseek.kv_bytes_per_token(1, 8) == deepseek.kv_bytes_per_token(1)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("LLAMA3.1_70B", "llama-3.1-70b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"),
        ("nvidia/Llama-3.3-70B-Instruct-FP8", "llama-3.1-70b"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "llama-3.1-8b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "deepseek-r1-distill-qwen-32b"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b-2507"),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4", "nemotron-3-super"),
        ("GPT-3 175B", "gpt3-175b"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
    ],
)
def test_names_that_a_model_goes_by(asked: str, name: str) -> None:
    """Vendor prefixes, endings that change nothing of the network, distillates of the same network."""
    assert models.load(asked).name == name


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("Qwen/Qwen2.5-32B", 131_072), ("Qwen/Qwen2.5-32B-Instruct-AWQ", 32_768), ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", 131_072),
        ("Qwen/QwQ-32B", 40_960), ("Qwen/Qwen3-8B", 40_960), ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", 131_072),
    ],
)  # fmt: skip
def test_checkpoints_of_one_network_have_their_own_context(name: str, context: int) -> None:
    """`max_position_embeddings` of each checkpoint's config.json (QwenLM/Qwen3 issues 663 and 679, QwenLM/QwQ issue 26)."""
    found = models.load(name)
    assert (found.context, models.beyond(name, context)) == (context, "") and f"takes {context:,}" in models.beyond(name, context + 1)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "int4"), ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "int8"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "int8"), ("Qwen/Qwen3-32B-FP8", "fp8"),
        ("nvidia/Llama-3.1-8B-Instruct-NVFP4", "nvfp4"), ("meta-llama/Llama-3.1-8B-Instruct", ""), ("no/such-AWQ", ""),
    ],
)  # fmt: skip
def test_the_type_that_a_checkpoints_name_says(name: str, kind: str) -> None:
    """Words of names on Hugging Face; what no kernel of ours reads is refused."""
    assert models.type_in_name(name) == kind
    for llama in (
        "unsloth/Llama-3.2-1B-Instruct-bnb-4bit",
        "Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf",
        "llama3.1:8b-instruct-q4_K_M",
        "Llama-3.1-8B-Q8_0",
    ):
        with pytest.raises(InputError, match="GGUF"):
            models.type_in_name(llama)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openai/whisper-large-v3", "an encoder and a decoder"), ("google/flan-t5-xl", "an encoder and a decoder"),
        ("black-forest-labs/FLUX.1-dev", "a diffusion model"), ("stabilityai/stable-diffusion-xl-base-1.0", "a diffusion model"),
        ("BAAI/bge-large-en-v1.5", "an encoder;"), ("bert-larg", "nearest: bert-large"), ("intfloat/e5-mistral-7b-instruct", "mistral-7b"),
    ],
)  # fmt: skip
def test_a_name_of_another_kind_is_refused_by_its_kind(name: str, words: str) -> None:
    """Whisper, T5: encoder and decoder (their papers); FLUX, Stable Diffusion: diffusion; a near name of a known model is still named."""
    with pytest.raises(InputError, match=words):
        models.load(name)


def test_no_name_is_of_two_models() -> None:
    """A name finds one entry."""
    known = defaultdict(set)
    for model in models.all_models().values():
        for name in (model.name, *model.aliases):
            known[models.plain(name)].add(model.name)
    assert {name: found for name, found in known.items() if len(found) > 1} == {}


def test_there_is_one_description_of_a_model() -> None:
    """No second class with the sizes of a network (VIDUR's and other tools' own files have theirs, under their own keys)."""
    sizes = [{"hidden", "hidden_size"}, {"layers"}, {"vocabulary", "vocab"}, {"heads", "attention_heads"}]
    found = set()
    for path in (ROOT / "analysis").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                fields = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
                found |= {node.name} if sum(bool(fields & names) for names in sizes) >= 3 else set()
    assert found == {"Model"}


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    """One line, with names that are spelled alike."""
    with pytest.raises(InputError, match="nearest: llama-2-7b"):
        models.load("llama-2-7bb")
    with pytest.raises(InputError, match="no such file"):
        models.load("/nowhere/config.json")


def test_a_description_of_release_1_is_read() -> None:
    """`train` took a model written out flat, GPT-2 where it says nothing; Radford et al. 2019: 124M."""
    old = models.Model.model_validate({"layers": 12, "hidden": 768, "heads": 12, "vocab": 50257, "max_sequence": 1024})
    assert old.parameters == models.load("gpt2").parameters == 124_439_808
    mixture = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn_hidden": 14336, "gated": True, "experts": 8}
    mixture |= {"experts_per_token": 2, "biases": "none", "positions": "rotary", "norm": "rms", "tied_embeddings": False}
    assert (
        models.Model.model_validate({**mixture, "vocab": 32000, "max_sequence": 32768}).parameters == models.load("mixtral-8x7b").parameters
    )


# --- configurations ---


def _written(folder: Path, content: Any) -> Path:
    path = folder / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}


def test_a_configuration_is_read_by_its_path(tmp_path: Path) -> None:
    """The file, its folder, and the same through `load`: Llama 3 8B has 8,030,261,248 parameters
    (total_size 16,060,522,496 of its model.safetensors.index.json)."""
    path = _written(tmp_path, LLAMA)
    assert models.load(str(path)).parameters == models.load(str(tmp_path)).parameters == 8_030_261_248
    path.write_text(json.dumps({**LLAMA, "tie_word_embeddings": True}))
    assert models.load(str(path)).parameters == 8_030_261_248 - 4096 * 128256


@pytest.mark.parametrize(
    ("quantization", "attention", "dense", "experts"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block", "fp8_block", "fp8_block"),
        ({"quant_method": "awq", "bits": 4}, "int4", "int4", "int4"),
        # as AMD's (amd/Llama-3.3-70B-Instruct-MXFP4-Preview, amd/DeepSeek-R1-INT4-FP8), torchao's and Hugging Face's tools write it
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}, "exclude": ["lm_head"]},
         "mxfp4", "mxfp4", "mxfp4"),
        ({"quant_method": "quark", "global_quant_config": {"weight": [{"dtype": "fp8_e4m3"}, {"dtype": "int4"}]}}, "int4", "int4", "int4"),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}, "int4", "int4", "int4"),
        ({"quant_method": "quanto", "weights": "float8"}, "fp8", "fp8", "fp8"),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}, "bf16", "bf16", "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.*.self_attn*"]}, "bf16", "nvfp4", "nvfp4"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"}}},
             "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]},
            "bf16", "bf16", "int4",
        ),
    ],
)  # fmt: skip
def test_types_are_the_checkpoints(tmp_path: Path, quantization: dict[str, Any], attention: str, dense: str, experts: str) -> None:
    """`quantization_config` as DeepSeek-V3, AWQ, gpt-oss, NVIDIA's and Moonshot's checkpoints write it."""
    mixture = {"model_type": "deepseek_v3", "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512}
    mixture |= {"n_shared_experts": 1, "first_k_dense_replace": 1}
    found = models.load(str(_written(tmp_path, {**LLAMA, **mixture, "quantization_config": quantization})))
    assert found.types == models.WeightTypes(attention=attention, dense=dense, experts=experts)  # type: ignore[arg-type]
    assert (found.weight_bytes < 2 * found.parameters) == bool({attention, dense, experts} - {"bf16"})


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "kimi_linear", "linear_attn_config": {"use_full_rank_gate": True}}, "a full-rank output gate"),
        ({"model_type": "gemma4", "hidden_size_per_layer_input": 256}, "per-layer embeddings"),
        ({"model_type": "minimax_m3_vl"}, "block-sparse attention"),
        ({"model_type": "lfm2"}, "short convolutions"),
        ({"model_type": "rwkv7"}, "RWKV"),
        ({"num_local_experts": 8}, "num_local_experts"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "bitsandbytes"),
        ({"model_type": "mystery", "hidden_act": "silu", "rms_norm_eps": 1e-6, "num_loops": 3}, "num_loops"),
        ({"model_type": "mystery", "hidden_act": "gelu"}, "not a gated feed-forward"),
        ({"is_encoder_decoder": True}, "an encoder and a decoder"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M*X"}, "X"),
    ],
)
def test_a_kind_of_layer_that_is_not_modelled_is_named(tmp_path: Path, config: dict[str, Any], kind: str) -> None:
    """Refused, not counted as something else."""
    with pytest.raises(InputError, match=kind):
        models.load(str(_written(tmp_path, {**LLAMA, **config})))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"hidden_size": "big"}, "hidden_size"),
        ({"hidden_size": -1}, "hidden_size"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"num_key_value_heads": 7}, "num_attention_heads"),
        ({"vocab_size": None}, "vocab_size"),
        ({"vocab_size": 0}, "vocabulary"),
        ({"model_type": "mpt", "n_heads": 32, "expansion_ratio": "wide"}, "expansion_ratio"),
        (
            {"model_type": "deepseek_v3", "n_routed_experts": 8, "moe_intermediate_size": 4, "first_k_dense_replace": 40},
            "more layers of a kind than the 32 blocks",
        ),
        ({"quantization_config": {"quant_method": "vptq"}}, "quantization_config"),
        ({"rope_scaling": {"type": "linear", "factor": "long"}}, "rope_scaling"),
        ({"rope_scaling": "yarn"}, "rope_scaling: expected a mapping, got 'yarn'"),
        ({"quantization_config": "awq"}, "quantization_config: expected a mapping"),
        ({"quantization_config": [{"quant_method": "awq"}]}, "quantization_config: expected a mapping"),
        ({"layer_types": ["full_attention"] * 3}, "layer_types: names 3 of 32 layers"),
        ({"layer_types": ["full_attention", "slidng_attention"] * 16}, "not modelled: slidng_attention of layer_types"),
        ({"layer_types": ["full_attention", "linear_attention"] * 16}, "not modelled: linear_attention of layer_types"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings: expected true or false, got the text 'false'"),  # was read as yes
        ({"attention_bias": "no"}, "attention_bias: expected true or false"),
        ({"vocab_size": "many"}, ": vocab_size: expected a count"),
        ({"intermediate_size": None}, "intermediate_size: is missing"),
        ({"model_type": "qwen3", "intermediate_size": None}, "intermediate_size: is missing"),
        ({"model_type": "mistral", "intermediate_size": None}, "intermediate_size: is missing"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(tmp_path: Path, change: dict[str, Any], key: str) -> None:
    """File and key."""
    with pytest.raises(InputError, match=key) as told:
        models.load(str(_written(tmp_path, {**LLAMA, **change})))
    assert "config.json" in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("context", "scaling", "longest"),
    [
        (32768, {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),  # Qwen2.5's README
        (40960, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),  # Qwen3's
        (163840, {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}, 163840),  # DeepSeek-V3's config.json
        (4096, {"type": "linear", "factor": 8.0}, 32768),  # LongChat's
        (4096, {"type": "dynamic", "factor": 2.0}, 8192),
        (131072, {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 131072),  # Llama 3.1's
        (131072, {"rope_type": "longrope"}, 131072),
        (4096, None, 4096),
    ],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_scaled_rotary_positions_multiply_the_context(
    tmp_path: Path, context: int, scaling: dict[str, Any] | None, longest: int, key: str
) -> None:
    """As vLLM derives the longest model length."""
    path = _written(tmp_path, {**LLAMA, "max_position_embeddings": context, key: scaling})
    assert models.load(str(path)).context == longest


def test_python_s_infinity_is_read(tmp_path: Path) -> None:
    """Mamba 2's configurations hold `Infinity`, which Python writes and JSON has not."""
    text = json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]})
    assert "Infinity" in text
    assert models.load(str(_written(tmp_path, text))).parameters == 8_030_261_248


def test_the_language_part_of_a_vision_model(tmp_path: Path) -> None:
    """`text_config`, with what only the outer part says."""
    inner = {key: value for key, value in LLAMA.items() if key != "model_type"} | {"model_type": "llama"}
    found = models.load(str(_written(tmp_path, {"model_type": "llava", "text_config": inner, "vision_config": {"hidden_size": 1}})))
    assert found.parameters == 8_030_261_248


LING = {"model_type": "bailing_moe", "vocab_size": 157184, "head_dim": 128, "num_experts": 256, "num_shared_experts": 1}
LING |= {"num_experts_per_tok": 8, "use_qk_norm": True, "moe_router_enable_expert_bias": True}
SMALL = {"hidden_size": 2048, "num_attention_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2, "moe_intermediate_size": 1408}
SMALL |= {"num_experts_per_tok": 6, "first_k_dense_replace": 1}
LATENT = {"q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "moe_intermediate_size")
FAMILIES = {
    # each with its parameters as the safetensors of the checkpoint hold them, and the values of a token's cache
    "inclusionAI/Ling-mini-2.0": (
        {**LING, **dict(zip(SIZES, (2048, 20, 16, 4, 5120, 512), strict=True)), "first_k_dense_replace": 1},
        16_255_643_392,
        20 * 2 * 4 * 128,
    ),
    "inclusionAI/Ling-1T": (
        {**LING, **dict(zip(SIZES, (8192, 80, 64, 8, 18432, 2048), strict=True)), "first_k_dense_replace": 4},
        999_705_328_640,
        80 * 2 * 8 * 128,
    ),
    "deepseek-ai/deepseek-moe-16b-base": (
        {**SMALL, "model_type": "deepseek", "num_hidden_layers": 28, "intermediate_size": 10944, "vocab_size": 102400},
        16_375_728_128,
        28 * 2 * 16 * 128,
    ),
    "moonshotai/Moonlight-16B-A3B": (
        {**SMALL, **LATENT, "model_type": "deepseek_v3", "num_hidden_layers": 27, "intermediate_size": 11264, "vocab_size": 163840},
        15_960_111_936,
        27 * 576,
    ),
    "state-spaces/mamba-2.8b": (
        {"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "ssm_cfg": {}, "rms_norm": True, "pad_vocab_size_multiple": 8},
        2_768_345_600,
        0,
    ),
    # counted by the classes of transformers 5.24.0 themselves, with the sizes of these checkpoints or of the class
    "upstage/Solar-Open-100B": (
        {**SMALL, **dict(zip(SIZES, (4096, 48, 64, 8, 10240, 1280), strict=True)), "model_type": "solar_open", "vocab_size": 196608,
         "head_dim": 128, "n_routed_experts": 128, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 0},
        102_651_793_408,
        48 * 2 * 8 * 128,
    ),
    "skt/A.X-K1": (
        {**SMALL, **LATENT, **dict(zip(SIZES, (7168, 61, 64, 64, 18432, 2048), strict=True)), "model_type": "axk1", "vocab_size": 163840,
         "q_lora_rank": 1536, "n_routed_experts": 192, "n_shared_experts": 1, "num_experts_per_tok": 8},
        518_983_052_288,
        61 * 576,
    ),
    "class of exaone_moe": (
        {**dict(zip(SIZES, (4096, 32, 32, 32, 16384, 1024), strict=True)), "model_type": "exaone_moe", "vocab_size": 102400,
         "num_experts": 64, "num_experts_per_tok": 8, "num_shared_experts": 1, "first_k_dense_replace": 1},
        28_550_639_616,
        32 * 2 * 32 * 128,
    ),
    "class of hyperclovax": (
        {**LLAMA, "model_type": "hyperclovax", "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000,
         "use_post_norm": True},
        6_738_677_760,
        32 * 2 * 32 * 128,
    ),
}  # fmt: skip


@pytest.mark.parametrize("checkpoint", FAMILIES)
def test_families_that_no_entry_shows(tmp_path: Path, checkpoint: str) -> None:
    """Published counts within 0.001 %; values of a token's cache exactly."""
    config, parameters, kv_values = FAMILIES[checkpoint]
    found = models.load(str(_written(tmp_path, config)))
    assert found.parameters == pytest.approx(parameters, rel=1e-5)
    assert found.kv_bytes_per_token(2) == 2 * kv_values


def _pattern(layers: int, every: int, first: int = 0) -> list[str]:
    """Layer types with one of full attention in each so many."""
    return ["full_attention" if i % every == first else "sliding_attention" for i in range(layers)]


GEMMA4 = {"model_type": "gemma4_text", "vocab_size": 262144, "max_position_embeddings": 262144, "attention_k_eq_v": True, "head_dim": 256}
GEMMA4 |= {"global_head_dim": 512, "sliding_window": 1024, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0}
GEMMA4_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "num_global_key_value_heads")
OTHER_WINDOWS = {
    # as these checkpoints' config.json say them
    "google/gemma-4-31B-it": {
        "model_type": "gemma4",
        "text_config": GEMMA4 | dict(zip(GEMMA4_SIZES, (5376, 60, 32, 16, 4), strict=True))
        | {"intermediate_size": 21504, "layer_types": _pattern(60, 6, 5), "enable_moe_block": False, "num_experts": None},
    },
    "google/gemma-4-26B-A4B": {
        "model_type": "gemma4",
        "text_config": GEMMA4 | dict(zip(GEMMA4_SIZES, (2816, 30, 16, 8, 2), strict=True))
        | {"intermediate_size": 2112, "layer_types": _pattern(30, 6, 5), "enable_moe_block": True, "num_experts": 128}
        | {"top_k_experts": 8, "moe_intermediate_size": 704},
    },
    "XiaomiMiMo/MiMo-V2-Flash": {
        "model_type": "mimo_v2_flash", "num_hidden_layers": 48, "hidden_size": 4096, "num_attention_heads": 64, "num_key_value_heads": 4,
        "head_dim": 192, "v_head_dim": 128, "intermediate_size": 16384, "vocab_size": 152576, "max_position_embeddings": 262144,
        "sliding_window": 128, "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
        "hybrid_layer_pattern": [0, *[int(i % 6 != 5) for i in range(1, 47)], 0], "moe_layer_freq": [0] + [1] * 47,
        "add_swa_attention_sink_bias": True, "moe_intermediate_size": 2048, "n_routed_experts": 256, "num_experts_per_tok": 8,
    },
    "stepfun-ai/Step-3.5-Flash": {
        "model_type": "step3p5", "hidden_size": 4096, "num_hidden_layers": 45, "vocab_size": 128896, "max_position_embeddings": 262144,
        "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128, "intermediate_size": 11264, "sliding_window": 512,
        "layer_types": _pattern(48, 4), "attention_other_setting": {"num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128},
        "moe_layers_enum": ",".join(str(i) for i in range(3, 45)), "moe_num_experts": 288, "moe_top_k": 8, "moe_intermediate_size": 1280,
        "share_expert_dim": 1280, "num_nextn_predict_layers": 3,
    },
    "moonshotai/Kimi-Linear-48B-A3B-Instruct": {
        "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27, "vocab_size": 163840, "num_attention_heads": 32,
        "num_key_value_heads": 32, "intermediate_size": 9216, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "v_head_dim": 128, "head_dim": 72, "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1,
        "moe_intermediate_size": 1024, "first_k_dense_replace": 1, "model_max_length": 1048576,
        "linear_attn_config": {"kda_layers": [i for i in range(1, 27) if i % 4], "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
                               "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4},
    },
}  # fmt: skip


@pytest.mark.parametrize("checkpoint", OTHER_WINDOWS)
def test_a_configuration_says_what_the_entry_of_its_checkpoint_says(tmp_path: Path, checkpoint: str) -> None:
    """Layers with a window of other widths and Kimi delta attention: sizes, and with them counts, as the published ones are (above)."""
    found, entry = models.load(str(_written(tmp_path, OTHER_WINDOWS[checkpoint]))), models.load(checkpoint)
    kinds = [
        [
            (count, kind.heads, kind.kv_heads, kind.head_size, kind.window, kind.shared_kv, kind.latent)
            for count, kind in model.attention_kinds
        ]
        for model in (found, entry)
    ]
    assert kinds[0] == kinds[1] and (found.linear, found.context) == (entry.linear, entry.context)
    assert (found.parameters, found.active_parameters) == (entry.parameters, entry.active_parameters)
    assert found.kv_bytes_per_token(2) == entry.kv_bytes_per_token(2)


def test_types_of_a_mixture_whose_experts_are_not_below_its_feed_forward(tmp_path: Path) -> None:
    """nvidia/Gemma-4-26B-A4B-NVFP4: attention, router and the plain feed-forward of each layer are listed, the experts are not."""
    kept = [f"model.language_model.layers.{i}.{part}*" for i in range(30) for part in ("self_attn", "router", "mlp")]
    quantized = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", *kept]}
    path = _written(tmp_path, {**OTHER_WINDOWS["google/gemma-4-26B-A4B"], "quantization_config": quantized})
    assert models.load(str(path)).types == models.WeightTypes(attention="bf16", dense="bf16", experts="nvfp4")


@pytest.mark.parametrize("name", sorted({*checkpoints.families(), *checkpoints.refused()}))
def test_no_family_breaks_on_an_empty_configuration(tmp_path: Path, name: str) -> None:
    """One line for whatever is missing."""
    with pytest.raises(InputError):
        models.load(str(_written(tmp_path, {"model_type": name})))


def test_weights_of_layers_without_softmax_by_hand() -> None:
    """The layers' own modules in transformers: Mamba (130M: 768 wide, inner 1,536, state 16, rank 48), Mamba 2 (130M: 24 heads of 64, one
    group of 128), Qwen3-Next's gated delta rule (2,048 wide, 16 key and 32 value heads of 128). A convolution has four taps."""
    mamba = models.LinearAttention(kind="mamba", layers=1, key_heads=1, key_size=16, value_heads=1, value_size=1536, rank=48)
    assert mamba.matrices(768) == 768 * 3072 + 1536 * (48 + 2 * 16) + 48 * 1536 + 1536 * 768
    assert mamba.vectors(768) == 1536 * 4 + 1536 + 1536 + 1536 * 16 + 1536  # taps, their bias, step's bias, A, D
    both = mamba.model_copy(update={"biases": True, "norms": True})
    assert both.vectors(768) - mamba.vectors(768) == (48 + 2 * 16) + (2 * 1536 + 768)
    second = models.LinearAttention(kind="mamba2", layers=1, key_heads=1, key_size=128, value_heads=24, value_size=64)
    assert second.matrices(768) == 768 * (2 * 1536 + 2 * 128 + 24) + 1536 * 768
    assert second.vectors(768) == (1536 + 256) * 5 + 3 * 24 + 1536  # taps and bias; step's bias, A, D; norm
    assert second.model_copy(update={"biases": True}).vectors(768) - second.vectors(768) == 2 * 1536 + 2 * 128 + 24 + 768
    delta = models.LinearAttention(kind="gated_delta", layers=1, key_heads=16, key_size=128, value_heads=32, value_size=128)
    assert delta.matrices(2048) == 2048 * (2 * 2048 + 2 * 4096) + 4096 * 2048
    assert delta.vectors(2048) == 2048 * 2 * 32 + (2 * 2048 + 4096) * 4 + 2 * 32 + 128  # gates, taps, A and step's bias, norm
    assert (mamba.state_values, second.state_values, delta.state_values) == (1536 * 16, 1536 * 128, 4096 * 128)


def test_weights_and_cache_are_those_of_published_checkpoints() -> None:
    """Bytes of the safetensors files (their index's total_size): Llama 3.1 8B and 70B, Qwen3-32B, Mixtral 8x7B, DeepSeek-V3 in FP8 blocks
    with 671 of its 685 thousand million parameters outside of the block for multi-token prediction; gpt-oss-120b in MXFP4."""
    sizes = {"llama-3.1-8b": 16_060_522_496, "llama-3.1-70b": 141_107_412_992, "qwen3-32b": 65_524_246_528, "mixtral-8x7b": 93_405_585_408}
    for name, size in sizes.items():
        assert models.load(name).weight_bytes == pytest.approx(size, rel=1e-6), name
    assert models.load("deepseek-v3").weight_bytes == pytest.approx(671.03e9 * 1.003, rel=0.003)
    assert models.load("gpt-oss-120b").weight_bytes == pytest.approx(65.2e9, rel=0.02)
    # 2 x layers x KV heads x head size x 2 bytes; DeepSeek's 61 x 576 x 2
    cache = {"llama-3.1-8b": 2 * 32 * 8 * 128 * 2, "qwen3-32b": 2 * 64 * 8 * 128 * 2, "deepseek-v3": 61 * 576 * 2}
    for name, size in cache.items():
        assert models.load(name).kv_bytes_per_token(2) == size, name


def test_a_quantisation_beside_the_configuration_is_read(tmp_path: Path) -> None:
    """NVIDIA's checkpoints say their types in hf_quant_config.json (nvidia/Llama-3.1-8B-Instruct-FP8), not in config.json."""
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 128256,
        "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
    }  # fmt: skip
    for name in ("plain", "quantised"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    quantised = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "quantised" / "hf_quant_config.json").write_text(json.dumps(quantised))
    plain, beside = (models.load(str(tmp_path / name / "config.json")) for name in ("plain", "quantised"))
    assert (plain.types.dense, beside.types.dense, beside.types.attention) == ("bf16", "fp8", "fp8")
    assert plain.weight_bytes == pytest.approx(16.06e9, rel=1e-3) and beside.weight_bytes == pytest.approx(9.08e9, rel=2e-3)


def test_windowed_layers_of_other_widths_have_their_own_weights_and_cache() -> None:
    """Gemma 4 31B: 50 layers of 16 KV heads of 256, 10 of 4 of 512; a token's cache in 16 bits is 50 x 16 KiB + 10 x 8 KiB."""
    gemma = models.load("google/gemma-4-31B-it")
    assert gemma.kv_bytes_per_token(2) == 50 * 2 * 16 * 256 * 2 + 10 * 2 * 4 * 512 * 2 == 901_120
    assert gemma.kv_bytes_per_token(2, 8) == 50 * 2 * 2 * 256 * 2 + 10 * 2 * 1 * 512 * 2
    assert gemma.kv_bytes_per_token(2, windows=False) == 10 * 2 * 4 * 512 * 2
    step = models.load("step-3.5-flash")
    assert [(count, kind.heads, kind.window) for count, kind in step.attention_kinds] == [(12, 64, 0), (33, 96, 512)]
    with pytest.raises(InputError, match="sliding windows of other widths"):
        models.alike(gemma, "x")


def test_small_checkpoints_to_the_last_weight(tmp_path: Path) -> None:
    """state-spaces/mamba2-130m has 128,989,632 weights, baidu/ERNIE-4.5-0.3B 360,748,032; their modules add up to them."""
    mamba = {"model_type": "mamba2", "hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50288, "state_size": 128, "num_heads": 24}
    mamba |= {"head_dim": 64, "expand": 2, "n_groups": 1, "conv_kernel": 4, "use_bias": False, "tie_word_embeddings": True}
    layer = 768 * (2 * 1536 + 2 * 128 + 24) + (1536 + 256) * 5 + 3 * 24 + 1536 + 1536 * 768 + 768
    assert 50288 * 768 + 24 * layer + 768 == 128_989_632
    ernie = {"model_type": "ernie4_5", "hidden_size": 1024, "num_hidden_layers": 18, "num_attention_heads": 16, "num_key_value_heads": 2}
    ernie |= {"head_dim": 128, "intermediate_size": 3072, "vocab_size": 103424, "use_bias": False}
    block = 2 * 1024 * 2048 + 2 * 1024 * 256 + 3 * 1024 * 3072 + 2 * 1024
    assert 103424 * 1024 + 18 * block + 1024 == 360_748_032
    biases = {"mamba": 24 * (2 * 1536 + 2 * 128 + 24 + 768), "ernie": 18 * (2048 + 2 * 256 + 1024 + 2 * 3072 + 1024)}
    for name, config, count in (("mamba", mamba, 128_989_632), ("ernie", ernie, 360_748_032)):
        for bias in (False, True):
            folder = tmp_path / f"{name}-{bias}"
            folder.mkdir()
            assert models.load(str(_written(folder, {**config, "use_bias": bias}))).parameters == count + bias * biases[name]


def test_layers_of_two_kinds_are_counted(tmp_path: Path) -> None:
    """Qwen3-Next: every fourth layer has softmax attention (gated, 256 a head), the others the gated delta rule; 512 experts."""
    config = {"model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2}
    config |= {"vocab_size": 151936, "intermediate_size": 5120, "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512}
    config |= {"shared_expert_intermediate_size": 512, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "decoder_sparse_step": 1}
    config |= {"linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4}
    found = models.load(str(_written(tmp_path, config)))
    assert (found.attention_layers, found.linear_layers, found.expert_layers) == (12, 36, 48)
    attention = 2048 * 2 * 4096 + 2 * 2048 * 512 + 4096 * 2048 + 2 * 256
    delta = 2048 * 12288 + 4096 * 2048 + 2048 * 64 + 8192 * 4 + 64 + 128
    experts = 2048 * 512 + 513 * 3 * 2048 * 512 + 2048
    whole = 2 * 151936 * 2048 + 2048 + 12 * attention + 36 * delta + 48 * (experts + 2 * 2048)
    assert found.parameters == whole
    assert whole == pytest.approx(79.7e9, rel=2e-3)  # its card: 80 thousand million, the block for multi-token prediction apart
    assert found.kv_bytes_per_token(2) == 12 * 2 * 2 * 256 * 2


def test_a_sparse_indexer_by_hand() -> None:
    """DeepSeek-V3.2 (inference/model.py, Indexer): 64 heads of 128 from the compressed queries of 1,536, keys and weights from the 7,168
    wide input, and a layer norm; besides them the norms of the compressed queries and keys."""
    latent = models.Latent(query_rank=1536, kv_rank=512, nope_size=128, rope_size=64, value_size=128)
    known = models.load("deepseek-v3")
    assert known.attention is not None
    plain = known.model_copy(update={"attention": known.attention.model_copy(update={"latent": latent})})
    sparse = latent.model_copy(update={"index_top_k": 2048, "index_heads": 64, "index_size": 128})
    indexed = known.model_copy(update={"attention": known.attention.model_copy(update={"latent": sparse})})
    assert plain.attention_vectors == 1536 + 512
    assert indexed.attention_vectors - plain.attention_vectors == 1536 * 64 * 128 + 7168 * (128 + 64) + 2 * 128
    assert (plain.index_bytes_per_token, indexed.index_bytes_per_token) == (0, 61 * 128)


@pytest.mark.parametrize(
    ("pattern", "attention"),
    [
        ("model.layers.*.self_attn.*", "bf16"),
        ("*self_attn*", "bf16"),
        ("re:.*self_attn.*", "bf16"),
        ("self_attn", "bf16"),
        ("layers.*.self_attn.q_proj", "bf16"),
        ("lm_head", "fp8"),
        ("re:.*lm_head", "fp8"),
        ("model.layers.*.mlp.gate", "fp8"),
    ],
)
def test_modules_that_are_not_quantised(tmp_path: Path, pattern: str, attention: str) -> None:
    """Names, wildcards and `re:` as quantization_config of public FP8 checkpoints has them."""
    config = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 128256, "num_attention_heads": 32}
    config |= {"num_key_value_heads": 8, "intermediate_size": 14336, "torch_dtype": "bfloat16"}
    kept = {"quant_method": "fp8", "modules_to_not_convert": [pattern]}
    found = models.load(str(_written(tmp_path, {**config, "quantization_config": kept})))
    assert (found.types.attention, found.types.dense) == (attention, "fp8")


def test_a_copy_counts_anew_what_it_changes() -> None:
    """Counts are kept once worked out; a copy with other sizes has its own, and equality, hash and description do not see them."""
    first = models.load("llama-3.1-8b")
    plain = first.model_copy()
    assert first.parameters == 8_030_261_248 and plain == first and hash(plain) == hash(first)
    doubled = first.model_copy(update={"layers": 64})
    assert doubled.matrices["dense"] == 2 * first.matrices["dense"] and doubled.parameters > 1.8 * first.parameters
    assert set(first.model_dump()) == set(type(first).model_fields)


def test_arithmetic_of_a_token_by_hand() -> None:
    """Forward and backward, 6 a weight and 12 a head, width and token seen, half of the sequence (PaLM, appendix B, causal): Llama 3 8B at
    8,192; a window of half the layers sees no more than it reaches; latent attention has (192 + 128) / 2 a head (DeepSeek-V3)."""
    llama, deepseek = models.load("llama-3-8b"), models.load("deepseek-v3")
    weights = 32 * (2 * 4096 * (4096 + 1024) + 3 * 4096 * 14336) + 4096 * 128256
    assert llama.flop_per_token(8192) == pytest.approx(6 * weights + 12 * 32 * 32 * 128 * 4096, rel=1e-4)  # norms apart
    assert llama.attention is not None
    near = llama.model_copy(update={"attention": llama.attention.model_copy(update={"window": 1024, "window_layers": 16})})
    assert llama.flop_per_token(8192) - near.flop_per_token(8192) == pytest.approx(12 * 16 * 32 * 128 * (4096 - 1024), rel=1e-9)
    assert near.flop_per_token(1024) == llama.flop_per_token(1024)
    grown = deepseek.flop_per_token(8192) - deepseek.flop_per_token(4096)
    assert grown == pytest.approx(12 * 61 * 128 * (128 + 64 + 128) / 2 * 2048, rel=1e-9)


def test_bytes_of_a_weight_are_those_of_its_format() -> None:
    """OCP Microscaling v1.0: a scale of 8 bits for 32 values; NVFP4: one for 16 (NVIDIA's documentation); INT4: 16 bits for 64."""
    bits = {"fp32": 32, "bf16": 16, "fp8": 8, "fp8_block": 8, "int8": 8, "mxfp8": 8 + 8 / 32, "mxfp4": 4 + 8 / 32, "nvfp4": 4 + 8 / 16}
    assert {**{kind: size / 8 for kind, size in bits.items()}, "int4": (4 + 16 / 64) / 8} == models.WEIGHT_BYTES


COUNTS = {
    "hidden_size": 708,
    "n_embd": 708,
    "d_model": 708,
    "num_hidden_layers": 23,
    "n_layer": 23,
    "n_layers": 23,
    "num_attention_heads": 12,
    "n_head": 12,
    "n_heads": 12,
    "num_heads": 12,
    "vocab_size": 1009,
    "max_position_embeddings": 8191,
}
"""What every configuration needs; each other key below has a prime of its own, so that a fact shows which key it came from."""
GIVEN = {
    "num_key_value_heads": 3,
    "num_kv_heads": 4,
    "multi_query_group_num": 2,
    "head_dim": 61,
    "intermediate_size": 1013,
    "moe_intermediate_size": 211,
    "n_routed_experts": 17,
    "num_experts": 19,
    "num_local_experts": 13,
    "moe_num_experts": 29,
    "num_experts_per_tok": 5,
    "moe_k": 7,
    "moe_topk": [3, 3],
    "n_shared_experts": 2,
    "num_shared_experts": 3,
    "num_shared_expert": [2],
    "shared_expert_intermediate_size": 311,
    "shared_intermediate_size": 313,
    "first_k_dense_replace": 2,
    "num_dense_layers": 4,
    "num_nextn_predict_layers": 2,
    "sliding_window": 127,
    "sliding_window_pattern": 5,
    "max_window_layers": 11,
    "decoder_sparse_step": 3,
    "mlp_only_layers": [2, 8],
    "full_attention_interval": 5,
    "q_lora_rank": 37,
    "kv_lora_rank": 41,
    "qk_nope_head_dim": 43,
    "qk_rope_head_dim": 47,
    "v_head_dim": 53,
    "index_topk": 59,
    "index_n_heads": 7,
    "index_head_dim": 67,
    "ffn_hidden_size": 1019,
    "n_inner": 1021,
    "window_size": 71,
    "expansion_ratio": 2.5,
    "ffn_config": {"moe_num_experts": 23, "moe_top_k": 3, "ffn_hidden_size": 73},
    "attn_config": {"kv_n_heads": 6, "attn_type": "grouped_query_attention", "rope": True, "qk_ln": True},
    "linear_num_key_heads": 5,
    "linear_key_head_dim": 79,
    "linear_num_value_heads": 10,
    "linear_value_head_dim": 83,
    "linear_conv_kernel_dim": 3,
    "mamba_expand": 3,
    "mamba_d_state": 89,
    "state_size": 97,
    "mamba_d_conv": 5,
    "mamba_dt_rank": 101,
    "mamba_n_groups": 4,
    "mamba_d_head": 118,
    "mamba_n_heads": 18,
    "attn_layer_period": 7,
    "attn_layer_offset": 3,
    "expert_layer_period": 3,
    "expert_layer_offset": 2,
    "attn_layer_indices": [1, 5, 9],
    "moe_layers": [1, 3, 5, 7],
    "attention_chunk_size": 103,
    "no_rope_layers": [1, 1, 0] * 8,
    "intermediate_size_mlp": 1031,
    "moe_latent_size": 107,
    "hybrid_override_pattern": "MM*-EM*-EEM",
    "pad_vocab_size_multiple": 16,
    "topk_method": "noaux_tc",
}
FLAGS = (
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
    "use_bias",
    "qkv_bias",
    "use_sliding_window",
    "attn_output_gate",
    "bias",
    "multi_query",
    "parallel_attn",
    "new_decoder_architecture",
    "alibi",
    "no_bias",
    "learned_pos_emb",
    "use_parallel_residual",
    "enable_bias",
    "layer_norm_elementwise_affine",
    "multi_query_attention",
    "add_bias_linear",
    "add_qkv_bias",
    "rmsnorm",
    "use_qk_norm",
    "use_routing_bias",
    "mamba_proj_bias",
    "use_qkv_bias",
    "attention_out_bias",
    "lm_head_bias",
    "moe_router_enable_expert_bias",
)
STOPS = {
    "qwen3_next": ("head_dim",),
    "qwen3": ("head_dim",),
    "gpt_neo": (),
    "glm4_moe": ("kv_lora_rank", "head_dim"),
    "ernie4_5_moe": (),
    "deepseek_v3": ("kv_lora_rank", "index_topk"),
    "opt": (),
    "bailing_moe": ("kv_lora_rank",),
    "granitemoehybrid": ("num_local_experts",),
    "minicpm": ("num_experts",),
    "olmo3": (),
    "hunyuan": ("moe_topk", "num_shared_expert"),
    "jamba": ("mamba_dt_rank",),
    "llama4": ("moe_layers", "no_rope_layers"),
    "nemotron_h": ("moe_latent_size", "num_nextn_predict_layers"),
    "bamba": ("mamba_d_head", "attn_layer_indices"),
    "mamba2": ("state_size",),
    "falcon": ("num_kv_heads", "ffn_hidden_size"),
    "llama": ("num_local_experts",),
}
"""Keys that are left out of a family's last two configurations, where another path through it is of interest."""


def _questions(kind: str) -> dict[str, dict[str, Any]]:
    base = {**COUNTS, "model_type": kind}
    left = {key: value for key, value in GIVEN.items() if key not in STOPS.get(kind, ("num_local_experts", "kv_lora_rank"))}
    kinds = {"layer_types": (["sliding_attention", "full_attention", "linear_attention", "mamba", "chunked_attention", "attention"] * 4)}
    return {
        "least": base,
        "least with a width": {**base, "intermediate_size": 2837},
        "all": {**base, **GIVEN, **dict.fromkeys(FLAGS, True)},
        "without flags": {**base, **left, **dict.fromkeys(FLAGS, False)},
        "layers by kind": {**base, **left, **dict.fromkeys(FLAGS, True), **kinds, "mlp_layer_types": ["dense", "sparse", "moe"] * 8},
    }


def test_every_family_reads_its_keys() -> None:
    """The facts of each family's configurations, from keys with primes of their own: which key, which default, which layers
    (the classes of `transformers` and the checkpoints' remote code: tests/golden/families.json)."""
    read = lambda raw: checkpoints.families()[raw["model_type"]](checkpoints.Config(raw, Path("config.json")))  # noqa: E731
    kept(
        "families",
        {
            kind: {case: answer(lambda raw=raw: read(raw)) for case, raw in _questions(kind).items()}  # type: ignore[misc]
            for kind in sorted(checkpoints.families())
        },
    )


def test_every_kind_of_network_is_counted() -> None:
    """All that follows from a description, of one model of each kind: each attention, mixture, norm and embedding (the formulas that
    the docstrings of `models.Model` state; parameters agree with the publishers' in the tests above)."""
    names = "llama-3.1-8b gpt2 bloom-176b mixtral-8x7b deepseek-v3 deepseek-v3.2 gpt-oss-20b jamba-v0.1 mamba2-2.7b qwen3-next-80b-a3b"
    names += " gemma-3-27b gemma-4-31b nemotron-3-super step-3.5-flash falcon-7b bert-large kimi-linear-48b-a3b"
    of = (
        "parameters active_parameters body_parameters multiplied_parameters weight_bytes small_parameters matrices attention_vectors "
        "expert_parameters shared_parameters norm_parameters index_bytes_per_token attention_layers "
        "linear_layers expert_layers dense_layers blocks attention_width kv_width ffn_width ffn_matrices experts_per_token expert_count "
        "learned_positions window window_layers heads kv_heads head_size attention_kinds"
    )
    found: dict[str, Any] = {}
    for name in names.split():
        model = answer(lambda name=name: models.load(name).name)  # type: ignore[misc]
        if str(model).startswith("InputError"):
            continue
        m = models.load(name)
        found[name] = {key: answer(lambda key=key, m=m: getattr(m, key)) for key in of.split()} | {  # type: ignore[misc]
            "cache": [m.kv_bytes_per_token(2), m.kv_bytes_per_token(1, 4), m.kv_bytes_per_token(2, 2, windows=False)],
            "growing": [m.growing_bytes_per_token(2), m.growing_bytes_per_token(1, 4)],
            "flop": [forward_flop_per_token(m, 1009), m.flop_per_token(1009), m.flop_per_token(40009), training_flop(m, 3, 1009)],
            "trained": {
                key: getattr(m.with_mtp(), key) for key in ("parameters", "dense_layers", "expert_layers", "attention_layers", "blocks")
            },
            "facts": answer(lambda m=m: models.facts(m)),  # type: ignore[misc]
            "alike": answer(lambda m=m: models.alike(m, "it").name),  # type: ignore[misc]
            "biases": m.model_copy(update={"ffn_biases": True, "output_bias": True}).parameters,
        }
        if m.attention:
            found[name]["traits"] = [
                m.model_copy(update={"attention": m.attention.model_copy(update={key: value})}).parameters
                for key, value in {"biases": "output", "norm": "all", "sinks": True, "output_gate": True, "shared_kv": True}.items()
            ]
    assert len(found) >= 12
    kept("models", found)


QUANTISED: list[dict[str, Any]] = [
    *({"quant_method": name} for name in ("fp8", "fbgemm_fp8", "mxfp4", "gptq", "awq", "hqq", "bitsandbytes", "vptq", "quark", "")),
    *({"quant_method": "gptq", "bits": bits} for bits in (2, 3, 4, 8)),
    *({"bits": bits} for bits in (3, 4, 8)),
    {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["model.layers.16.mlp"]},
    {"quant_method": "fp8", "ignored_layers": ["model.layers.17.self_attn.o_proj"]},
    {"quant_method": "fp8", "ignored_layers": ["model.layers.18.self_attn.o_proj"]},
    {"quant_method": "fp8", "ignored_layers": ["model.layers.15.self_attn.o_proj"]},
    {"quant_method": "fp8", "exclude": ["language_model.model.layers.16.mlp"], "ignore": "lm_head"},
    *({"quant_algo": name} for name in ("FP8", "nvfp4", "W4A16_AWQ", "W4A8_AWQ", "W8A8_SQ_PER_CHANNEL", "INT8", "FP8_PB_WO", "MXFP8")),
    *({"quant_algo": name} for name in ("W4A16_NVFP4", "FP8_PER_CHANNEL_PER_TOKEN", "W3A3", "MIXED_PRECISION")),
    {
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {"l.0.self_attn.o_proj": {"quant_algo": "FP8"}, "l.0.mlp.down_proj": {"quant_algo": "NVFP4"}},
    },
    {
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {"l.0.mlp.down_proj": {"quant_algo": "FP8"}, "l.1.mlp.down_proj": {"quant_algo": "NVFP4"}},
    },
    {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"l.0.mlp.down_proj": {"quant_algo": "ODD"}}},
    {"quant_method": "bitsandbytes", "load_in_4bit": True},
    {"quant_method": "bitsandbytes", "load_in_8bit": True},
    *(
        {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": {"num_bits": bits, "type": kind, "group_size": size}}},
        }
        for bits, kind, size in ((4, "int", 64), (8, "int", None), (8, "float", None), (4, "float", 16), (4, "float", 32), (2, "int", 8))
    ),
    {
        "quant_method": "compressed-tensors",
        "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float", "block_structure": [8, 8]}}},
    },
    {"quant_method": "compressed-tensors", "config_groups": ["g"]},
]


def test_every_quantisation_has_its_types() -> None:
    """Types of a dense model of 32 layers and of a mixture (layers 16 and 17 are tried), by the methods' own configuration files."""
    mixture = {"model_type": "deepseek_v3", "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512}
    mixture |= {"n_shared_experts": 1, "first_k_dense_replace": 1}
    found = {}
    for model, extra in (("dense", {}), ("mixture", mixture)):
        for how in QUANTISED:
            described = answer(
                lambda extra=extra, how=how: checkpoints.describe({**LLAMA, **extra, "quantization_config": how}, "m/config.json")  # type: ignore[misc]
            )
            whole = described if isinstance(described, str) else [described.get("types"), described.get("fp8")]
            found[f"{model} {json.dumps(how)}"] = whole
    for beside in ({"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}, {"quant_algo": "FP8"}, {"quantization": []}):
        found[f"beside {json.dumps(beside)}"] = checkpoints.describe({**LLAMA, "torch_dtype": "float32"}, "m/config.json", beside).types
    kept("quantisations", found)


ODD_CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "layers as letters": {"layers_block_type": "x" * 10_001},
    "most layers": {"num_hidden_layers": 10_000},
    "one layer more": {"num_hidden_layers": 10_001},
    "no layers": {"num_hidden_layers": 0},
    "one": {"num_hidden_layers": 1},
    "a float": {"hidden_size": 4096.0},
    "half": {"hidden_size": 4096.5},
    "long name": {"_name_or_path": "someone/" + "n" * 99 + "xyz"},
    "yes": {"hidden_size": True},
    "most": {"vocab_size": checkpoints.MOST_COUNT},
    "more": {"vocab_size": checkpoints.MOST_COUNT + 1},
    "no kv heads": {"num_key_value_heads": 0},
    "no division": {"hidden_size": 4097},
    "division by hand": {"hidden_size": 4097, "head_dim": 128},
    "no width": {"intermediate_size": 0},
    "factor 1": {"rope_scaling": {"type": "linear", "factor": 1}},
    "factor below 1": {"rope_scaling": {"type": "linear", "factor": 0.99}},
    "factor 1e6": {"rope_scaling": {"type": "linear", "factor": 1e6}},
    "factor above 1e6": {"rope_scaling": {"type": "linear", "factor": 1000001}},
    "factor yes": {"rope_scaling": {"type": "linear", "factor": True}},
    "factor of any kind": {"rope_scaling": {"type": "dynamic", "factor": 3.5}, "max_position_embeddings": 1001},
    "window as long": {"model_type": "mistral", "sliding_window": 8192},
    "window shorter": {"model_type": "mistral", "sliding_window": 8191},
    "one expert": {"model_type": "mixtral", "num_local_experts": 1, "num_experts_per_tok": 1},
    "two experts": {"model_type": "mixtral", "num_local_experts": 2},
    "experts nowhere": {"model_type": "qwen3_moe", "num_experts": 4, "moe_intermediate_size": 64, "mlp_layer_types": ["dense"] * 32},
    "step beyond": {"model_type": "qwen3_moe", "num_experts": 4, "moe_intermediate_size": 64, "decoder_sparse_step": 33},
    "gemma3 pattern": {"model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 0},
    "gemma3": {"model_type": "gemma3_text", "rope_scaling": {"type": "linear", "factor": 8.0}},
    "mpt 1000": {"model_type": "mpt", "n_heads": 32, "expansion_ratio": 1000},
    "mpt 1001": {"model_type": "mpt", "n_heads": 32, "expansion_ratio": 1001},
    "mpt 0": {"model_type": "mpt", "n_heads": 32, "expansion_ratio": 0},
    "mpt multiquery": {"model_type": "mpt", "n_heads": 32, "attn_config": {"attn_type": "multiquery_attention", "alibi": True}},
    "neo": {"model_type": "gpt_neo", "num_heads": 32, "attention_layers": ["global", "local"] * 5},
    "opt projected": {"model_type": "opt", "word_embed_proj_dim": 512},
    "opt": {"model_type": "opt", "word_embed_proj_dim": 4096},
    "deepseek every second": {"model_type": "deepseek_v3", "moe_layer_freq": 2},
    "deepseek listed": {
        "model_type": "deepseek_v3",
        "moe_layer_freq": [1, 2],
        "kv_lora_rank": 8,
        "qk_nope_head_dim": 4,
        "qk_rope_head_dim": 2,
        "v_head_dim": 4,
    },
    "lightning": {"model_type": "minimax_m2", "attn_type_list": [1, 0]},
    "per head": {"model_type": "minimax_m2", "attn_type_list": [1, 1], "qk_norm_type": "per_head"},
    "jamba no period": {"model_type": "jamba", "attn_layer_period": 0},
    "jamba no experts": {"model_type": "jamba", "expert_layer_offset": 9, "num_experts": 16},
    "jamba": {"model_type": "jamba", "num_experts": 16, "num_experts_per_tok": 2},
    "mamba ssm 2": {"ssm_cfg": {"layer": "Mamba2"}, "model_type": "", "d_model": 4096},
    "mamba with attention": {"model_type": "mamba2", "attn_layer_idx": [1]},
    "falcon mamba": {"model_type": "falcon_mamba", "intermediate_size": 8009, "time_step_rank": "auto", "hidden_size": 4097},
    "mamba head 0": {"model_type": "mamba2", "head_dim": 0, "num_heads": 0},
    "mamba heads": {"model_type": "mamba2", "num_heads": 7},
    "bamba text": {"model_type": "bamba", "attn_layer_indices": "1"},
    "baichuan 5119": {"model_type": "baichuan", "hidden_size": 5088},
    "baichuan 5120": {"model_type": "baichuan", "hidden_size": 5120},
    "llama4": {"model_type": "llama4_text", "interleave_moe_layer_step": 2, "no_rope_layer_interval": 5},
    "exaone": {"model_type": "exaone4", "sliding_window": 512, "sliding_window_pattern": "LLG"},
    "ernie late": {"model_type": "ernie4_5_moe", "moe_layer_end_index": 30},
    "ernie to the end": {"model_type": "ernie4_5_moe", "moe_layer_end_index": 31, "moe_num_experts": 4, "moe_intermediate_size": 64},
    "ernie every second": {"model_type": "ernie4_5_moe", "moe_layer_interval": 2},
    "hunyuan differs": {"model_type": "hunyuan", "moe_topk": [1, 2]},
    "persimmon": {"model_type": "persimmon"},
    "nemotron without attention": {"model_type": "nemotron_h", "hybrid_override_pattern": "M-"},
    "blocks": {"block_configs": [1]},
    "heads by layer": {"num_key_value_heads_per_layer": [1]},
    "unknown": {"model_type": "mystery", "hidden_act": "silu", "rms_norm_eps": 1e-6, "bias": True},
    "unknown and strange": {
        "model_type": "mystery",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "a1": 1,
        "a2": 2,
        "a3": 3,
        "a4": 1,
        "a5": 1,
        "a6": 1,
        "a7": 1,
    },
    "unknown layers": {"model_type": "mystery", "hidden_act": "swish", "rms_norm_eps": 1e-6, "layer_types": ["full_attention", "odd"]},
    "thrice inside": {"model_type": "a", "text_config": {"llm_config": {"lm_config": {**LLAMA, "num_hidden_layers": 7}}}},
    "vision": {
        "model_type": "llava",
        "num_hidden_layers": None,
        "torch_dtype": "float32",
        "text_config": {"model_type": "mistral", "vocab_size": 7},
    },
    "outer": {"text_config": {"hidden_size": 1}, "tie_word_embeddings": True},
    "encoder": {"is_encoder_decoder": True},
    "not quite": {"is_encoder_decoder": 1},
}


def test_configurations_at_the_edges() -> None:
    """Each limit's last value that is taken and first that is not, defaults of the classes, and what is refused with which words."""
    kept(
        "configurations",
        {name: answer(lambda raw=raw: checkpoints.describe({**LLAMA, **raw}, "c/config.json")) for name, raw in ODD_CONFIGURATIONS.items()},
    )  # type: ignore[misc]
