"""The interactive page: offline, labelled, and its scores equal to Python's as the weights move."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from analysis.mtap import scoring
from analysis.mtap.explorer import explorer_html
from analysis.mtap.rubric import read_rubric, read_weights
from analysis.mtap.tables import assess_all, read_folder
from analysis.paths import DATA

MTAP = DATA / "mtap"
RUBRIC, WEIGHTS = read_rubric(MTAP / "rubric.yaml"), read_weights(MTAP / "weights.yaml")
PRINTED = {t: p.vector for t, p in scoring.read_printed(MTAP / "printed.yaml").tools.items()}
EVIDENCE = {t: a.vector for t, a in assess_all(read_folder(MTAP / "evidence"), RUBRIC).items()}
HTML = explorer_html({"printed": ("as printed", PRINTED), "evidence": ("by the evidence", EVIDENCE)}, RUBRIC, WEIGHTS)


def test_the_fragment_needs_nothing_from_outside() -> None:
    assert not re.search(r"https?://|\bsrc=|@import|\bfetch\(|XMLHttpRequest|<link", HTML)
    assert HTML.count("<script>") == HTML.count("</script>") == 1


@pytest.fixture(scope="module")
def page(chromium: Any) -> Iterator[Any]:
    page = chromium.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url))
    page.set_content(f"<!doctype html><html lang='en'><body>{HTML}</body></html>")
    yield page
    assert problems == []
    page.close()


def shown(page: Any) -> dict[str, dict[str, float]]:
    return page.eval_on_selector_all(
        "#mtap-explorer table",
        "tables => Object.fromEntries(tables.map(t => [t.dataset.scoring, Object.fromEntries("
        "[...t.querySelectorAll('tbody tr')].map(r => [r.dataset.tool, Number(r.dataset.score)]))]))",
    )


def expected(weights: list[float]) -> dict[str, dict[str, Any]]:
    share = [w / sum(weights) for w in weights]
    return {
        name: {tool: pytest.approx(sum(w * g for w, g in zip(share, vector, strict=True)), abs=1e-4) for tool, vector in vectors.items()}
        for name, vectors in (("printed", PRINTED), ("evidence", EVIDENCE))
    }


@pytest.mark.browser
@pytest.mark.parametrize("weights", [[40, 20, 20, 10, 10], [0, 0, 0, 0, 100], [10, 90, 35, 5, 60]])
def test_scores_follow_the_sliders(page: Any, weights: list[float]) -> None:
    for dimension, value in zip(("D1", "D2", "D3", "D4", "D5"), weights, strict=True):
        slider = page.get_by_role("slider", name=re.compile(f"^{dimension} "))  # found by its accessible label
        slider.evaluate("(s, v) => { s.value = v; s.dispatchEvent(new Event('input', {bubbles: true})); }", str(value))
    assert shown(page) == expected(weights)


@pytest.mark.browser
def test_buttons_set_the_printed_schemes_and_ties_share_a_rank(page: Any) -> None:
    page.get_by_role("button", name="uniform").click()
    assert shown(page) == expected([1, 1, 1, 1, 1])
    rows = page.eval_on_selector_all(
        "#mtap-explorer table[data-scoring=printed] tbody tr", "rows => rows.map(r => [r.dataset.tool, r.cells[0].textContent])"
    )
    assert dict(rows) == {"ASTRA-sim": "1", "Timeloop": "2.5", "VIDUR": "2.5", "NeuSight": "4", "nn-Meter": "5"}
    assert "ASTRA-sim > Timeloop = VIDUR > NeuSight > nn-Meter" in page.locator("#mtap-explorer [data-part=order]").inner_text()


@pytest.mark.browser
def test_sliders_work_from_the_keyboard(page: Any) -> None:
    page.get_by_role("button", name="base").click()
    before = shown(page)["printed"]["ASTRA-sim"]
    page.get_by_role("slider", name=re.compile("^D5 ")).focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert shown(page)["printed"]["ASTRA-sim"] > before
