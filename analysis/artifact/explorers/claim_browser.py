"""What became of every checkable claim: verdicts by document, and the claims behind each, ten at a time."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Slider, remembered
from analysis.artifact.explorers.records.claim_verdicts import claims, documents, verdicts

TITLE = "What became of the claims?"
ROWS = 10
CONTROLS = (
    Choice("document", "Document", (("all", "all five"), *((key, name) for key, name in documents())), "all"),
    Choice("verdict", "Verdict", (("all", "any"), *((name, name) for name in verdicts())), "wrong arithmetic"),
    Slider("page", "Page of the list", tuple(range(1, -(-len(claims()) // ROWS) + 1)), 1),
)
COLORS = (drawing.GREEN, drawing.SKY, drawing.GOLD, drawing.YELLOW, drawing.RED, drawing.BLUE, drawing.PINK, drawing.GREY, drawing.FAINT)


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Claims by document and verdict, how many are chosen, and the identifiers on the page shown (the last one if there are fewer)."""
    counts = {key: [0] * len(verdicts()) for key, _ in documents()}
    chosen = []
    for claim in claims():
        _, document, _, _, _, verdict, _ = claim
        counts[document][verdicts().index(verdict)] += 1
        if values["document"] in ("all", document) and values["verdict"] in ("all", verdict):
            chosen.append(claim[0])
    pages = max(1, -(-len(chosen) // ROWS))
    page = min(int(values["page"]), pages)
    return {"counts": counts, "chosen": len(chosen), "pages": pages, "page": page, "shown": chosen[ROWS * (page - 1) : ROWS * page]}


def draw(values: Mapping[str, Any], width: float) -> str:
    """A bar of verdicts for each document, what is not chosen faded; below it the claims, each with its reason."""
    got = answer(values)
    narrow = width < 480
    across = 2 if narrow else 4
    parts = []
    for k, (name, color) in enumerate(zip(verdicts(), COLORS, strict=True)):
        x, y = (k % across) * width / across, 6.0 + 18 * (k // across)
        parts += [drawing.rect(x, y, 11, 11, color), drawing.text(x + 15, y + 10, name, size=12)]
    y = 18.0 * -(-len(COLORS) // across) + 12
    for key, name in documents():
        row = got["counts"][key]
        parts.append(drawing.text(0, y + 12, f"{name}: {sum(row)}", size=12))
        at, scale = 0.0, width / sum(row)
        for verdict, color, count in zip(verdicts(), COLORS, row, strict=True):
            lit = values["document"] in ("all", key) and values["verdict"] in ("all", verdict)
            faded = "" if lit else 'fill-opacity="0.25"'
            parts.append(drawing.rect(at, y + 17, count * scale, 16, color, f"{verdict}: {count}", faded))
            at += count * scale
        y += 42
    picture = drawing.svg(width, y, parts, tell(values))
    known = {claim[0]: claim for claim in claims()}
    items = []
    for name in got["shown"]:
        _, document, place, statement, printed, verdict, why = (html.escape(text) for text in known[name])
        told = f" (printed: {printed})" if printed else ""
        reason = f"; {why}" if why else ""
        items.append(
            f"<li><strong>{statement}</strong>{told}<br>{dict(documents())[document]}, {place}: {verdict}{reason} <code>{name}</code></li>"
        )
    start = ROWS * (got["page"] - 1) + 1
    return f'{picture}<ol class="tools" start="{start}">{"".join(items)}</ol><p>Page {got["page"]} of {got["pages"]}.</p>'


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    total = sum(sum(row) for row in got["counts"].values())
    where = "all five documents" if values["document"] == "all" else f"the {dict(documents())[values['document']]}"
    what = "in all" if values["verdict"] == "all" else f"with the verdict “{values['verdict']}”"
    return f"{got['chosen']} of {total:,} claims {what}, in {where}."
