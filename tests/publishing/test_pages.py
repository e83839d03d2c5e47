"""The pages as a reader sees them, in Chromium, with the network blocked.

Needs Chromium (on Debian: apt-get install chromium); skips with that reason where there is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from analysis.artifact.publishing.pages import moved
from analysis.paths import BOOK

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


pytestmark = pytest.mark.browser


def test_every_chapter_works_without_the_network(built_book: Path, chromium: Browser) -> None:
    """Pages of notebooks are opened by `make check` (tests/checks/test_built.py)."""
    found = work_without_the_network(built_book, chromium, [path for path in _pages(built_book) if path.parent.name != "notebooks"])
    assert sum(one.drawn for one in found) and sum(one.maths for one in found) and sum(one.filtered for one in found)


def work_without_the_network(built_book: Path, chromium: Browser, opened: list[Path]) -> list[Seen]:
    """No request leaves the machine or fails, no console error; maths, figures and filters are there; on a phone nothing is cut."""
    context = chromium.new_context(offline=True, viewport={"width": 390, "height": 844})
    page = context.new_page()  # one for all: the browser compiles Plotly and MathJax once, not once a page
    seen: dict[str, Seen] = {}
    page.on("request", lambda asked: None if asked.url.startswith(("file:", "data:", "blob:")) else _say(seen, f"asks for {asked.url}"))
    page.on("requestfailed", lambda asked: None if asked.failure == _LEFT else _say(seen, f"failed {asked.url}: {asked.failure}"))
    page.on("console", lambda message: _say(seen, message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: _say(seen, str(error)))
    pages = [path for path in opened if not _REDIRECT.search(path.read_text(encoding="utf-8"))]
    assert len(pages) > 20
    for path in pages:
        seen[str(path.relative_to(built_book))] = one = Seen()
        _open(page, path, one)
    context.close()
    assert [f"{name}: {problem}" for name, one in seen.items() for problem in one.problems] == []
    return list(seen.values())


def test_the_front_page_leads_to_a_page(built_book: Path) -> None:
    """index.html and the old addresses of pages hold nothing but a redirection; a browser would navigate at once, so they are read here."""
    found = [(path, _REDIRECT.search(path.read_text(encoding="utf-8"))) for path in _pages(built_book)]
    targets = {str(path.relative_to(built_book)): match.group(1) for path, match in found if match}
    assert set(targets) == {"index.html", *(f"{old}.html" for old in moved(BOOK / "moved.yml"))}
    assert all((built_book / page).is_file() and page not in targets for page in targets.values())


@pytest.mark.parametrize(
    ("asked", "first"),
    [("cost per token", ""), ("vLLM", ""), ("KV cache", "serving_kv_cache"), ("quantisation", "kernel"), ("joules", "energy_per_token")],
)
def test_search_finds_chapters_first_and_knows_other_words(built_book: Path, chromium: Browser, asked: str, first: str) -> None:
    """The first six results are no notebooks, and one is the chapter wanted; other spellings and words find what the book calls it."""
    context = chromium.new_context(offline=True)
    page, problems = context.new_page(), list[str]()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"{(built_book / 'search.html').as_uri()}?q={asked.replace(' ', '+')}")
    page.wait_for_selector("#search-results li:nth-child(6)", timeout=120_000)
    found = page.eval_on_selector_all("#search-results li > a", "links => links.slice(0, 6).map(link => link.href.split('?')[0])")
    context.close()
    assert problems == [] and not [link for link in found if "/notebooks/" in link]
    assert any(first in link for link in found)


_REDIRECT = re.compile(r'<meta http-equiv="refresh" content="0; url=([^"]+)"', re.IGNORECASE)


def _pages(built_book: Path) -> list[Path]:
    left_out = ("genindex.html", "search.html")
    return sorted(path for path in built_book.rglob("*.html") if path.name not in left_out and "_static" not in path.parts)


@dataclass
class Seen:
    """What one page showed."""

    problems: list[str] = field(default_factory=list)
    drawn: int = 0
    maths: bool = False
    filtered: bool = False


_LEFT = "net::ERR_ABORTED"  # what a request still under way says when the next page is opened; a file that is missing says otherwise


def _say(seen: dict[str, Seen], what: str) -> None:
    """Note a problem of the page that is open, which is the last of those seen."""
    seen[next(reversed(seen))].problems.append(what)


def _open(page: Page, path: Path, seen: Seen) -> None:
    page.goto(path.as_uri(), wait_until="load")
    page.evaluate("document.querySelectorAll('article details').forEach(one => one.setAttribute('open', ''))")
    page.evaluate(_STILL)
    if page.locator(".math").count():
        page.wait_for_selector("mjx-container", timeout=60_000)
        seen.maths = True
        if page.locator("mjx-merror, [data-mjx-error]").count():
            seen.problems.append("maths with an error")
    seen.drawn = page.locator(".interactive .plotly-graph-div").count()
    if seen.drawn:
        ready = f"document.querySelectorAll('.interactive .plotly-graph-div .main-svg').length >= {seen.drawn}"
        page.wait_for_function(ready, timeout=60_000)
    if "window.filterable(" in path.read_text(encoding="utf-8"):
        page.wait_for_selector("table.dataTable", timeout=60_000)
        seen.filtered = True
    for source in page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"):
        seen.problems.append(f"broken image {source}")
    seen.problems += page.evaluate(_CUT)


_STILL = """() => Promise.all(document.getAnimations()
  .filter(one => Number.isFinite(one.effect.getComputedTiming().endTime)).map(one => one.finished.catch(() => null)))"""
"""What was opened fades in: colours are judged when it is there."""

_CUT = """() => {
  const found = [], root = document.scrollingElement, shown = one => one.getBoundingClientRect().width > 0;
  if (root.scrollWidth > root.clientWidth) found.push(`scrolls sideways by ${root.scrollWidth - root.clientWidth} pixels`);
  for (const one of document.querySelectorAll('article figure img, .plotly-graph-div, .explorer .canvas svg')) {
    const box = one.closest('figure, .interactive, .canvas');
    if (shown(one) && one.getBoundingClientRect().width < 0.9 * box.clientWidth) found.push(`too narrow: ${one.src || one.id}`);
  }
  for (const one of document.querySelectorAll('article td, article p, article li, .plotly-graph-div text'))
    if (shown(one) && parseFloat(getComputedStyle(one).fontSize) < 9) found.push(`type below 9 pixels: ${one.textContent.slice(0, 40)}`);
  for (const one of document.querySelectorAll('.plotly-graph-div text'))
    if (/NaN|Infinity|undefined/.test(one.textContent)) found.push(`a chart says ${one.textContent}`);
  return found.slice(0, 5);
}"""
"""What a reader of a narrow screen cannot read: a page wider than the screen, a chart that leaves its place empty, small type."""

PAGE_TYPES = {
    "intro": "front page, with its chart",
    "explore": "explorers",
    "serving_steps": "Python to run",
    "check_it_yourself": "tables to search",
    "networks_astra_sim": "charts with lists",
    "operators_kernels": "a chart that a phone makes higher",
    "artifact": "hand-written tables",
    "background": "formulas and citations",
    "notebooks/training_plans": "a notebook, with its code and data frames",
}


@pytest.mark.parametrize("name", PAGE_TYPES)
def test_no_page_type_has_a_serious_fault_of_accessibility(built_book: Path, chromium: Browser, name: str) -> None:
    """axe-core finds nothing critical or serious on a phone in light colours, and no weak contrast on a wide screen in dark ones."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-core is not installed: make test installs it")
    context = chromium.new_context(offline=True, viewport={"width": 390, "height": 844})
    page = context.new_page()
    _open(page, built_book / f"{name}.html", seen := Seen())
    page.evaluate(axe.AXE_FILE_PATH.read_text(encoding="utf-8"))
    found = page.evaluate(_AXE, {"resultTypes": ["violations"]})
    page.set_viewport_size({"width": 1366, "height": 768})
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_timeout(300)  # charts take the page's colours
    found += page.evaluate(_AXE, {"runOnly": ["color-contrast"]})
    context.close()
    assert (found, seen.problems) == ([], [])


_AXE = """options => axe.run(document, options).then(found => found.violations
  .filter(one => ['critical', 'serious'].includes(one.impact))
  .map(one => `${one.impact} ${one.id}, ${one.nodes.length} times: ${one.nodes[0].html.slice(0, 200)}`))"""


def test_links_between_pages_lead_somewhere(built_book: Path) -> None:
    """Every relative link and download of every page names a file that is there."""
    missing = set()
    for path in built_book.rglob("*.html"):
        if "_static" in path.parts:
            continue
        for target in re.findall(r'(?:href|src)="([^"#?]+)', path.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith(("mailto:", "data:", "{{")) and not (path.parent / target).exists():
                missing.add(f"{path.relative_to(built_book)}: {target}")
    assert sorted(missing) == []
