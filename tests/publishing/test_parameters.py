"""Every notebook has something that a reader can turn; what can be turned is read; its title is its own."""

import ast
import json

import pytest

from analysis.paths import ROOT

EVERY = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_a_reader_can_turn_something(path) -> None:  # type: ignore[no-untyped-def]
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    tagged = ["parameters" in cell["metadata"].get("tags", []) for cell in cells]
    trees = [ast.parse("".join(cell["source"])) for cell in cells]
    given = trees[tagged.index(True)]
    named = {target.id for line in given.body for target in getattr(line, "targets", []) if isinstance(target, ast.Name)}
    rest = [node for tree, first in zip(trees, tagged, strict=True) if not first for node in ast.walk(tree)]
    read = {node.id for node in rest if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    turned = named - {"tier", "out", "seed"}
    assert turned <= read, f"nothing follows from {', '.join(sorted(turned - read))}"
    assert turned, "no parameter that a reader would turn"


def test_a_notebook_is_not_called_like_a_chapter() -> None:
    """A search that finds both must tell which is which."""
    pages = [line for page in (ROOT / "book").glob("*.md") for line in page.read_text("utf-8").splitlines()]
    headings = {line.lstrip("# ").strip().lower() for line in pages if line.startswith("#")}
    first = ["".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"]).splitlines()[0] for path in EVERY]
    titles = [line.removeprefix("# ").strip().lower() for line in first]
    assert not headings & set(titles) and len(set(titles)) == len(titles)
