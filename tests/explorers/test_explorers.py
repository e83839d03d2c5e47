"""Explorers: the page answers as CPython does, at random settings; controls work by keyboard and touch; the address keeps the state.

The browser part needs Chromium and Brython; it skips with that reason where one is missing.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis.artifact.explorers import NAMES, all_reduce, bundle, controls, explorer, own_model, serving_player
from analysis.artifact.publishing import pages
from analysis.artifact.publishing.pdf import QUIET, browser
from analysis.errors import InputError
from analysis.paths import BOOK, ROOT

POINTS = 200
CONFIGS = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests" / "workloads" / "configs").glob("*.json"))]
"""What is pasted: configurations of several families, and texts that are none."""
CONFIGS += [own_model.EXAMPLE, "{", "[]", '{"model_type": "llama"}', '{"model_type": "t5"}']


def drawn_value(control: Any, rng: random.Random) -> Any:
    """A random value of a control."""
    if isinstance(control, controls.Pasted):
        return rng.choice(CONFIGS)
    return rng.choice(control.values if isinstance(control, controls.Slider) else [key for key, _ in control.options])


def settings(name: str, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Random values of every control; of an explorer that plays, four moments of each."""
    rng, model = random.Random(seed), explorer(name)
    found: list[dict[str, Any]] = []
    for k in range(count):
        drawn = {control.name: drawn_value(control, rng) for control in model.CONTROLS}
        plays = getattr(model, "PLAYS", "")
        found.append({**found[-1], plays: drawn[plays]} if plays and k % 4 else drawn)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_drawn_and_told(name: str) -> None:
    model = explorer(name)
    for values in [controls.defaults(model.CONTROLS), *settings(name, 5)]:
        for width in (300, 700):
            picture = model.draw(values, width)
            assert picture.startswith(("<svg", "<ol")) and picture.endswith(("</svg>", "</p>")) and "nan" not in picture
        assert len(model.tell(values)) > 20
        json.dumps(model.answer(values))


@pytest.mark.parametrize("name", NAMES)
def test_the_address_keeps_every_setting(name: str) -> None:
    chosen = explorer(name).CONTROLS
    pasted = {control.name: control.default for control in chosen if isinstance(control, controls.Pasted)}
    for values in settings(name, 20):
        assert controls.from_text(chosen, controls.to_text(chosen, values)) == {**values, **pasted}  # a pasted text is not in the address
    assert controls.from_text(chosen, "nonsense,x=1,=,%%") == controls.defaults(chosen)


def test_percent_signs_of_an_address_are_undone_and_a_lone_one_is_no_error() -> None:
    """JavaScript's decodeURIComponent raises at `%` and `%ff`, which ended the start of every explorer of the page."""
    assert controls.decoded("a%3D1%2cb%20c") == "a=1,b c"
    assert [controls.decoded(text) for text in ("a=%", "%zz%4", "%ff")] == ["a=%", "%zz%4", "\xff"]
    page = Path(controls.__file__).with_name("stand_ins").joinpath("page.py").read_text(encoding="utf-8")
    assert "decoded(state)" in page and "decodeURI" not in page


def test_a_link_of_the_chooser_is_one_to_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from analysis.artifact.explorers import choose_tool

    values = controls.defaults(choose_tool.CONTROLS)
    tool, against = choose_tool.ranked(values)[0]
    for address, linked in (("javascript:alert(1)", False), ("data:text/html,x", False), ("https://a.b/c", True)):
        monkeypatch.setattr(choose_tool, "ranked", lambda _, address=address: [({**tool, "address": address}, against)])
        drawn = choose_tool.draw(values, 300)
        assert (f'href="{address}"' in drawn) is linked and ("javascript:" in drawn) is False


@pytest.mark.parametrize("gpus", [2, 3, 4, 8])
def test_a_ring_all_reduce_ends_with_every_sum_everywhere(gpus: int) -> None:
    """After n - 1 steps each GPU has one finished chunk, after 2 (n - 1) all (Patarasuk and Yuan 2009, section 3)."""
    half = all_reduce.ring_counts(gpus, gpus - 1)
    assert [row.count(gpus) for row in half] == [1] * gpus
    assert all_reduce.ring_counts(gpus, 2 * (gpus - 1)) == [[gpus] * gpus] * gpus


@pytest.mark.parametrize("scheduler", [name for name, _ in serving_player.SCHEDULERS])
def test_every_request_of_the_player_gets_its_tokens_in_order(scheduler: str) -> None:
    """All prompts are read whole before their first token, each answer has its length, and time never runs backwards."""
    got = serving_player.answer({**controls.defaults(serving_player.CONTROLS), "scheduler": scheduler, "moment": 100})
    read = [0] * serving_player.COUNT
    for batch in got["batches"]:
        for i, count in batch["members"]:
            if read[i] < got["prompts"][i]:
                read[i] += count
    assert read == got["prompts"]
    for i, times in enumerate(got["tokens_s"]):
        assert len(times) == got["answers"][i] and times == sorted(times)
        assert times[0] == pytest.approx(got["first_s"][i]) and times[-1] == pytest.approx(got["completed_s"][i])


def test_chunks_shorten_the_longest_wait_between_tokens() -> None:
    """What Sarathi is for: a document's prompt no longer holds up the others' tokens (Agrawal et al., OSDI 2024)."""
    values = {**controls.defaults(serving_player.CONTROLS), "mix": "mixed", "rate": 30}
    waits = {name: serving_player.answer({**values, "scheduler": name})["worst_gap_s"] for name in ("vllm", "sarathi")}
    assert waits["sarathi"] < 0.5 * waits["vllm"]


IN_THE_PAGE = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
from analysis.artifact.explorers import explorer
asked, cells = json.load(sys.stdin)
printed = {}
for name, code in cells.items():
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(code, {"__name__": "live"})
    printed[name] = said.getvalue().rstrip()
print(json.dumps([{name: [explorer(name).answer(values) for values in points] for name, points in asked.items()}, printed]))
"""


def test_the_modules_of_the_page_run_alone(tmp_path: Path) -> None:
    """What the page carries, stand-ins for what it lacks, imported by a bare CPython: a missing name shows without a browser."""

    carried = bundle.our_modules(name for name in bundle.roots() if not name.endswith("stand_ins.page"))
    carried[bundle.PAGE_DATA] = [".py", bundle.READ.format("FILES"), []]
    carried["browser"] = [".py", f"class window:\n    explorer_records = {bundle.kept()!r}\n", []]
    carried["javascript"] = [".py", "import json\nUNDEFINED = None\nclass JSON:\n    parse = staticmethod(json.loads)\n", []]
    del carried["re"]
    for name, entry in carried.items():
        path = tmp_path.joinpath(*name.split("."))
        path = path / "__init__.py" if len(entry) > 3 else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(entry[1], encoding="utf-8")
    asked = {name: settings(name, 4) for name in NAMES}
    run = [sys.executable, "-I", "-S", "-c", IN_THE_PAGE, str(tmp_path)]
    done = subprocess.run(run, input=json.dumps([asked, bundle.live_cells()]), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    mine = json.loads(json.dumps({name: [explorer(name).answer(values) for values in points] for name, points in asked.items()}))
    answered, printed = json.loads(done.stdout)
    assert differences(mine, answered)[:5] == []
    assert len(printed) >= 8 and printed == {name: bundle.printed(code) for name, code in bundle.live_cells().items()}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """All explorers on one page from a file, with the network blocked."""
    pytest.importorskip("brython", reason="Brython is not installed: pip install -r requirements.txt")
    try:
        program = browser()
    except InputError as error:
        pytest.skip(str(error))
    from playwright.sync_api import sync_playwright

    folder: Path = tmp_path_factory.mktemp("explorers")
    (folder / "_assets").mkdir()
    bundle.write(folder / "_assets")
    body = "".join(bundle.section(name) for name in NAMES) + "".join(
        map(bundle.live_section, *zip(*bundle.live_cells().items(), strict=True))
    )
    body = (
        body.replace("{{assets}}", "_assets") + f"<script>{Path(pages.__file__).with_name('page.js').read_text(encoding='utf-8')}</script>"
    )
    head = f'<meta charset="utf-8"><style>{(BOOK / "_style" / "book.css").read_text(encoding="utf-8")}</style>'
    (folder / "index.html").write_text(f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>', encoding="utf-8")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", *QUIET])
        context = running.new_context(offline=True, viewport={"width": 390, "height": 844}, has_touch=True)
        opened = context.new_page()
        said: list[str] = []
        opened.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.goto(f"{(folder / 'index.html').as_uri()}#decode_knee:batch=256,model=llama-2-7b", timeout=300_000)
        for _ in range(600):
            opened.wait_for_timeout(500)
            if said or opened.evaluate("window.explorers_ready === true"):
                break
        assert said == [] and opened.evaluate("window.explorers_ready === true"), "the explorers did not start within five minutes"
        yield opened
        assert said == []
        running.close()


def differences(mine: Any, theirs: Any, where: str = "") -> list[str]:
    """Where two answers differ by more than rounding."""
    if isinstance(mine, dict):
        if not isinstance(theirs, dict) or set(mine) != set(theirs):
            return [f"{where}: other keys"]
        return [found for key in mine for found in differences(mine[key], theirs[key], f"{where}.{key}")]
    if isinstance(mine, list):
        if not isinstance(theirs, list) or len(mine) != len(theirs):
            return [f"{where}: another length"]
        return [found for k, (a, b) in enumerate(zip(mine, theirs, strict=True)) for found in differences(a, b, f"{where}[{k}]")]
    if isinstance(mine, float):
        return [] if theirs == pytest.approx(mine, rel=1e-9, abs=1e-300) else [f"{where}: {mine} here, {theirs} in the page"]
    return [] if mine == theirs else [f"{where}: {mine!r} here, {theirs!r} in the page"]


@pytest.mark.browser
@pytest.mark.parametrize("name", NAMES)
def test_the_page_answers_as_cpython_does(page: Any, name: str) -> None:
    """At 200 random settings, every number to nine digits."""
    points = settings(name, POINTS)
    theirs = json.loads(page.evaluate("([name, points]) => window.explorer_answers(name, points)", [name, json.dumps(points)]))
    mine = json.loads(json.dumps([explorer(name).answer(values) for values in points]))
    assert differences(mine, theirs)[:5] == []


@pytest.mark.browser
def test_keyboard_touch_and_address(page: Any) -> None:
    """The address sets the state; arrow keys and taps change it; the picture, the sentence and the address follow."""
    from playwright.sync_api import expect

    batch = page.locator("#decode_knee-batch")
    assert batch.get_attribute("aria-valuetext") == "256"
    assert page.locator("#decode_knee-model").input_value() == "llama-2-7b"
    before = page.locator("#decode_knee .said").inner_text()
    batch.focus()
    page.keyboard.press("ArrowLeft")
    assert batch.get_attribute("aria-valuetext") == "192"
    assert page.locator("#decode_knee .said").inner_text() != before
    assert "batch=192" in page.evaluate("location.hash")
    page.locator("#serving_player .play").tap()
    page.wait_for_function("document.querySelector('#serving_player-moment').value > 30")
    page.locator("#serving_player .play").tap()
    expect(page.locator("#serving_player .play")).to_have_text("Play")
    page.locator("#decode_knee .reset").tap()
    expect(batch).to_have_attribute("aria-valuetext", "32")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.browser
def test_a_file_is_taken_and_the_answer_before_stays_as_a_ghost(page: Any) -> None:
    """A chosen file fills the field and is answered; of an answer on a scale that stays, the marks before the last control stay, pale."""
    from playwright.sync_api import expect

    for name in ("ask_predictor", "own_model"):
        page.locator(f"#{name}").scroll_into_view_if_needed()
        page.wait_for_selector(f"#{name}.live", timeout=60_000)
    said = page.locator("#own_model .said")
    page.locator("#own_model input[type=file]").set_input_files(ROOT / "tests" / "workloads" / "configs" / "mixtral.json")
    expect(said).to_contain_text("46.7 G parameters (12.9 G for each token)", timeout=60_000)
    assert "config" not in page.evaluate("location.hash")
    assert page.locator("#ask_predictor .ghost").count() == 0
    page.locator("#ask_predictor-device").select_option("h200_sxm")
    assert page.locator("#ask_predictor .ghost .stays").count() == 2
    page.locator("#ask_predictor .reset").tap()
    expect(page.locator("#ask_predictor .ghost")).to_have_count(0)


@pytest.mark.browser
def test_a_live_cell_prints_what_cpython_prints_and_survives_an_error(page: Any) -> None:
    """Each cell as it stands, in the page; then one changed by keyboard, one with an error, and back to what it was.

    A tap becomes a click when the browser gets to it: every answer is waited for.
    """
    from playwright.sync_api import expect

    for name, code in bundle.live_cells().items():
        cell = page.locator(f"section.live-cell[aria-label$='{name}']")
        cell.locator(".printed").evaluate("box => { box.textContent = ''; }")
        cell.locator(".run").tap()
        expect(cell.locator(".printed")).not_to_be_empty(timeout=60_000)
        assert cell.locator(".printed").inner_text().rstrip() == bundle.printed(code), name
    code, printed = cell.locator("textarea"), cell.locator(".printed")
    code.fill("total = 0\nfor k in range(4):\n    total += k\nprint(total)\nprint(1 / 0)")
    code.press("Control+Enter")
    expect(printed).to_contain_text("ZeroDivisionError")
    assert printed.inner_text().splitlines()[0] == "6"
    code.fill("from analysis.hardware import devices\ndevices.load('nothing')")
    cell.locator(".run").tap()
    expect(printed).to_contain_text("no device 'nothing'")
    cell.locator(".reset").tap()
    expect(printed).not_to_contain_text("no device")
    assert printed.inner_text().rstrip() == bundle.printed(bundle.live_cells()[name])


def test_the_panel_ranks_tools_that_answer_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest comes first; one that answers a tenth of the rows is left out; a fitted constant shows as a star."""
    from analysis import paths
    from analysis.artifact.explorers.records import panel

    monkeypatch.setattr(paths, "RESULTS", tmp_path)
    (tmp_path / "who_is_right").mkdir()
    head, line = "question,source,tool,setting,rows,answered_percent,median_percent", "training step,mlperf_training,"
    lines = ["far,as it is,9,100,80", "near,at one efficiency,9,50,2.5", "lucky,as it is,9,10,0.1"]
    (tmp_path / "who_is_right" / "scores.csv").write_text("\n".join([head, *(line + each for each in lines)]) + "\n", encoding="utf-8")
    assert [row[2:] for row in panel.rows.__wrapped__()] == [[9, [["near *", 2.5], ["far", 80.0]]]]
