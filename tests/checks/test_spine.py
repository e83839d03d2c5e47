"""The chapters that build on each other: each result is the next one's input, and the first follows from data sheets by hand."""

from __future__ import annotations

import json

import pytest

from analysis.paths import BOOK, RESULTS
from analysis.tables import read_csv

CHAPTERS = ("roofline", "kernel", "step", "collective", "training", "serving")
pytestmark = pytest.mark.skipif(not (RESULTS / "spine" / "numbers.json").exists(), reason="no results yet: make book")


def value(key: str) -> float:
    return float(json.loads((RESULTS / "spine" / "numbers.json").read_text(encoding="utf-8"))[key]["value"])


def test_the_bound_follows_from_data_sheets_by_hand() -> None:
    """70.55 billion parameters (Llama Team 2024, Table 3), 80 layers of 8 key heads of 128, H100: 3.35 TB/s and 989 TFLOP/s (NVIDIA)."""
    weights, cache = 2 * 70.55e9, 32 * 2048 * (2 * 80 * 8 * 128 * 2)
    assert value("bound") == pytest.approx(1e3 * (weights + cache) / 8 / 3.35e12, rel=1e-3)
    assert value("ridge") == pytest.approx(989.4 / 3.35, rel=1e-3)
    assert value("bound_arithmetic") < value("bound") < value("kernels_ms") < value("step_ms") < value("token_ms") < value("tpot_32")


def test_each_chapter_starts_from_the_one_before() -> None:
    """Eighty layers of predicted products are the serving predictor's products; the parts of a token's time add up to its answer."""
    products = read_csv(RESULTS / "spine" / "products.csv")
    assert value("products_ms") == pytest.approx(80 * products["predicted_us"].sum() / 1e3, rel=1e-9)
    assert value("products_ms") == pytest.approx(value("predictor_products"), rel=0.02)
    assert value("token_ms") == pytest.approx(value("step_ms") + value("communication_ms"), rel=1e-9)
    assert read_csv(RESULTS / "spine" / "parts.csv")["part_ms"].sum() == pytest.approx(value("tpot_32"), rel=0.02)


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_has_exercises_with_computed_folded_answers(name: str) -> None:
    text = (BOOK / f"{name}.md").read_text(encoding="utf-8")
    answers = text.split(":::{dropdown} Answer")[1:]
    assert 4 <= len(answers) <= 6 and sum("{num}`spine." in one.split("\n:::")[0] for one in answers) >= 1
    assert "{explorer}" in text and "{result-figure} spine/" in text and "**How we know.**" in text
    following = CHAPTERS[CHAPTERS.index(name) + 1 : CHAPTERS.index(name) + 2]
    assert all(f"({page}.md)" in text for page in following)
