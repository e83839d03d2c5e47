"""Shapes that the zoo adds to `data/workloads/transformers.yaml`."""

from __future__ import annotations

from typing import Any

from analysis.workloads.transformers import Transformer

_HESPAS = "https://github.com/imec-int/hespas/blob/c45bb55/docs/tutorials/ispass_2026_workshop.rst"


def _hespas(name: str, layers: int, hidden: int) -> Transformer:
    """Llama-3-like shape of the study: heads of 128 at 64 of width each, a gated layer 3.5 times as wide, 128,256 tokens.

    Source: the tutorial's MaxText configuration (100m) and the argument shapes of the .mlir files of imec-int/hespas_workloads,
    branch llama-3-8 (the others; layers of 1b, 2b and 3b from the length of the module, which is 113.5 thousand characters a layer).
    """
    fields: dict[str, Any] = {"layers": layers, "hidden": hidden, "heads": hidden // 64, "head_dim": 128, "ffn_hidden": hidden * 7 // 2}
    return Transformer(
        name=name, source=_HESPAS, gated=True, biases="none", norm="rms", positions="rotary", tied_embeddings=False, vocab=128256,
        max_sequence=4096, **fields,
    )  # fmt: skip


SHAPES: dict[str, Transformer] = {
    "bert-base": Transformer.model_validate(
        {
            "name": "bert-base",
            "source": "https://arxiv.org/abs/1810.04805",
            "layers": 12,
            "hidden": 768,
            "heads": 12,
            "vocab": 30522,
            "max_sequence": 512,
            "causal": False,
            "published_parameters": 110e6,
        }
    ),
    **{
        name: _hespas(name, layers, hidden)
        for name, layers, hidden in (
            ("hespas-llama3-100m", 7, 576),
            ("hespas-llama3-200m", 10, 832),
            ("hespas-llama3-500m", 16, 1280),
            ("hespas-llama3-1b", 22, 1792),
            ("hespas-llama3-2b", 28, 2240),
            ("hespas-llama3-3b", 32, 2624),
        )
    },
}
