"""What drafts tokens ahead of a served model? A block of its own, a head trained beside it (EAGLE), or a smaller model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from analysis.errors import InputError
from analysis.workloads.models import Model

MOST_DRAFTED = 8
"""Tokens drafted in a step."""
ACCEPTANCE = (0.5, 0.75, 0.9)
"""Chance that a drafted token is right where none is given, and its range: 0.85 to 0.9 of DeepSeek-V3's second tokens (arXiv 2412.19437,
section 5.4.3), fewer of later ones and of other texts."""
EAGLE3_VOCABULARY = 32_000
"""Tokens that an EAGLE-3 head drafts from (draft_vocab_size of yuhuili/EAGLE3-LLaMA3.1-Instruct-8B)."""


@dataclass(frozen=True)
class Draft:
    """What runs once for each drafted token.

    Args:
        kind: mtp, eagle, eagle3 or model.
        model: a block with an output layer, or a whole model; blocks: such blocks held (count).
        joined: vectors of the served model's width that the block's first product makes into one (count); 0: it has no such product.
        own_vocabulary: output layer and embedding are not the served model's.
    """

    kind: str
    model: Model
    gemm: str
    attention: str
    experts: str
    joined: int = 0
    blocks: int = 1
    own_vocabulary: bool = False


def draft(kind: str, model: Model, own: tuple[str, str, str], load: Callable[[str], tuple[Model, tuple[str, str, str]]]) -> Draft:
    """What drafts for a model: mtp, eagle, eagle3, or a model by name or path.

    Source: DeepSeek-V3 (arXiv 2412.19437, section 2.2); EAGLE (arXiv 2401.15077: one block behind a product of 2 h with h);
    EAGLE-3 (arXiv 2503.01840: vectors of three layers, a vocabulary of its own).
    """
    if kind == "mtp":
        if not model.mtp_modules:
            raise InputError(f"{model.name} has no blocks for multi-token prediction; draft takes eagle, eagle3 or a model", key="draft")
        return Draft(kind, _block(model, model.experts is not None), *own, joined=2, blocks=model.mtp_modules)
    if kind in ("eagle", "eagle3"):
        head = _block(model, False)
        if kind == "eagle3":
            head = head.model_copy(update={"vocabulary": min(head.vocabulary, EAGLE3_VOCABULARY), "tied": True})
        return Draft(kind, head, "bf16", "bf16", "bf16", joined=2 if kind == "eagle" else 3, own_vocabulary=kind == "eagle3")
    found, types = load(kind)
    if found.experts is not None:
        raise InputError(f"{found.name} has experts: draft models with experts are not covered", key="draft")
    if abs(found.vocabulary - model.vocabulary) > 0.01 * model.vocabulary:
        message = f"{found.name} has {found.vocabulary:,} tokens and {model.name} {model.vocabulary:,}: a draft model needs the same"
        raise InputError(message, key="draft")
    return Draft("model", found, *types, own_vocabulary=True)


def _block(model: Model, experts: bool) -> Model:
    """One block of a model with its output layer, with experts or with a plain feed-forward as wide as what a token takes."""
    e, a = model.experts, model.attention
    assert a is not None
    one = {"layers": 1, "window": 0, "window_layers": 0}
    facts: dict[str, Any] = {"layers": 1, "linear": None, "mtp_modules": 0, "pipeline_blocks": 0, "attention": a.model_copy(update=one)}
    facts |= {"experts": None, "dense": 0 if experts else 1}
    if e is not None:
        facts["experts"] = e.model_copy(update={"layers": 1, "dense_layers": 0}) if experts else None
        facts["dense_width"] = model.dense_width or e.per_token * e.width + e.shared
    return model.model_copy(update=facts)


def in_words(found: Draft, drafted: int) -> str:
    """What drafts, as a sentence of `assumed`."""
    what = {
        "mtp": "a block for multi-token prediction",
        "eagle": "an EAGLE head, taken as one block of the model with its output layer",
        "eagle3": f"an EAGLE-3 head, taken as one block of the model with an output layer of {found.model.vocabulary:,} tokens",
        "model": found.model.name,
    }[found.kind]
    many = "a token" if drafted == 1 else f"{drafted} tokens one after another"
    doubt = "in half to twice the time of its kernels" + ("" if found.kind == "mtp" else ", no measured run has such drafts")
    return f"each step drafts {many} by {what} in {found.gemm} ({doubt}) and checks them at once"
