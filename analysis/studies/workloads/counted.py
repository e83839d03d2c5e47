"""Megatron's GPT by its sizes, and the arithmetic of a model's passes as its papers count it."""

from __future__ import annotations

from analysis.workloads.models import Model


def gpt(hidden: int, heads: int, layers: int, vocabulary: int, context: int, name: str = "") -> Model:
    """A GPT as Megatron trains it, from its sizes alone."""
    attention = {"heads": heads, "biases": "all"}
    sizes = {"hidden": hidden, "layers": layers, "vocabulary": vocabulary, "context": context, "dense_width": 4 * hidden}
    traits = {"gated": False, "norm": "layer", "positions": "learned", "tied": True, "ffn_biases": True}
    return Model.model_validate({"name": name, "network": name, "attention": attention, **sizes, **traits})


def forward_flop_per_token(model: Model, context: float) -> float:
    """Matrix arithmetic of one token's forward pass (FLOP), two per multiply-add: 2 x weights it multiplies + 4 x layers x A x context.

    Args:
        context: tokens that it attends to (count): the sequence length s without a causal mask that is exploited,
            (s + 1) / 2 on average with one.
    """
    found = model.matrices
    chosen = model.expert_layers * model.experts_per_token * model.expert_parameters
    linear = 2.0 * (found["attention"] + found["dense"] + chosen + model.hidden * model.vocabulary)
    return linear + 4.0 * model.attention_layers * model.attention_width * context


def training_flop(model: Model, sequences: int, sequence_length: int) -> float:
    """Model arithmetic of one training step (FLOP): three forward passes, full attention matrix counted.

    For GPT this is 72 B s l h^2 (1 + s / 6h + V / 12 l h), the count with which Megatron states its figures.

    Source: Korthikanti et al. 2022, appendix A; Narayanan et al. 2021, equation 3 (with a fourth pass for recomputation).
    """
    return 3.0 * sequences * sequence_length * forward_flop_per_token(model, sequence_length)
