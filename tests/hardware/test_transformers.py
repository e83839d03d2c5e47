"""Shapes: our parameter counts against the papers' own, and the training arithmetic against their formulas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.workloads import transformers


@pytest.mark.parametrize("name", transformers.all_transformers())
def test_parameters_equal_the_papers_count(name: str) -> None:
    """Each paper's own count; 3 percent where it prints two digits only (the SC'21 1.7B and 3.6B cases)."""
    model = transformers.load(name)
    assert model.published_parameters
    printed_to_two_digits = name in {"megatron-1.7b", "megatron-3.6b", "gpt3-1.3b"}
    assert model.parameters == pytest.approx(model.published_parameters, rel=0.03 if printed_to_two_digits else 0.008)


def test_mixtral_active_parameters() -> None:
    """Jiang et al. 2024, abstract: 47B parameters, 13B active."""
    model = transformers.load("mixtral-8x7b")
    assert model.active_parameters == pytest.approx(12.9e9, rel=0.01)


@given(
    st.sampled_from([name for name in transformers.all_transformers() if name.startswith("megatron-")]),
    st.integers(min_value=1, max_value=4096),
    st.integers(min_value=128, max_value=8192),
)
def test_training_flop_is_megatrons_formula(name: str, batch: int, sequence: int) -> None:
    """Korthikanti et al. 2022, appendix A: 72 B s l h^2 (1 + s / 6h + V / 12 l h)."""
    m = transformers.load(name)
    formula = 72 * batch * sequence * m.layers * m.hidden**2 * (1 + sequence / (6 * m.hidden) + m.vocab / (12 * m.layers * m.hidden))
    assert m.training_flop(batch, sequence) == pytest.approx(formula, rel=1e-12)


def test_kv_cache_of_llama_2_7b() -> None:
    """32 layers x 2 x 4096 x 2 bytes = 512 KiB a token (Kwon et al. 2023 give 800 KB for OPT-13B: 40 x 2 x 5120 x 2)."""
    assert transformers.load("llama-2-7b").kv_bytes_per_token(2) == 512 * 1024
    assert transformers.load("opt-13b").kv_bytes_per_token(2) == 800 * 1024


def test_unknown_model_is_told() -> None:
    with pytest.raises(InputError, match="llama-2-7b"):
        transformers.load("llama-9")
