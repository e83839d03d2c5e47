"""One size of a KV cache: every command that tells it tells the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import run_here

CALIBRATED = "steps: {model: llama-3.1-8b, device: h100, precision: bf16}"
ROOFLINE = "steps: {kind: roofline, model: llama-3.1-8b, device: h100, dtype: bf16}"


def test_commands_agree_on_the_kv_cache(tmp_path: Path) -> None:
    """Llama 3.1 8B in bf16 on an H100 of 80 GB: 16.06 GB of weights, 131,072 bytes a token (32 layers, 8 heads of 128, 2 bytes, twice)."""
    told = [json.loads(run_here("predict", "one", "--model", "llama-3.1-8b", "--device", "h100", "--precision", "bf16", "--json").stdout)]
    for name, steps in (("calibrated", CALIBRATED), ("roofline", ROOFLINE)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"requests: {{count: 3, prompt: {{low: 500}}, output: {{low: 10}}}}\n{steps}\n")
        told.append(json.loads(run_here("serve", "simulate", str(path), "--json").stdout))
    by_hand = (0.9 * 80 * 2**30 * 0.985 - 2 * 8.030e9 - 4 * 2**30) / 131_072
    assert [one["kv_cache_tokens"] for one in told] == pytest.approx([by_hand] * 3, rel=1e-3)
