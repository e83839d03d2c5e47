"""What is committed: notebooks without outputs, one lock for pip and conda, every CSV described and valid."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
import yaml
from frictionless import Package
from publishing.notebook_files import write

from analysis.artifact.publishing import package, plan
from analysis.artifact.publishing.execute import clean
from analysis.paths import DATA, NOTEBOOKS, ROOT
from tests.checks import environment

STORED = sorted(NOTEBOOKS.glob("*.ipynb"))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_notebook_is_clean(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code), "stored with outputs"
    tagged = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1, "one cell is tagged parameters"
    assert all(f"{name} =" in tagged[0].source for name in ("tier", "out")), "tier and out are parameters"
    assert any(f'Run("{path.stem}"' in cell.source for cell in code), "the run is named like the notebook"
    assert notebook.cells[0].cell_type == "markdown" and notebook.cells[0].source.startswith("# "), "a title comes first"
    last = notebook.cells[-1]
    assert last.cell_type == "markdown" and len(last.source.split()) > 8, "what follows from it comes last, in words"


def test_parameters_of_every_tier_are_parameters_of_the_notebook() -> None:
    tiers = yaml.safe_load((NOTEBOOKS / "parameters.yaml").read_text()) or {}
    for name, by_tier in tiers.items():
        notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
        cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
        assert set(by_tier) <= {"quick", "book", "full"}
        for parameters in by_tier.values():
            for key in parameters or {}:
                assert f"{key} =" in cell.source, f"{name} has no parameter {key}"


def test_cleaning_takes_outputs_away_and_names_cells(tmp_path: Path) -> None:
    write(tmp_path, "dirty", "1 + 1")
    notebook = nbformat.read(tmp_path / "dirty.ipynb", as_version=4)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text="2")]
    clean(notebook, outputs=False)
    assert notebook.cells[-1].outputs == [] and [cell.id for cell in notebook.cells] == [f"cell-{n}" for n in range(len(notebook.cells))]


def test_conda_gets_the_versions_of_the_lock() -> None:
    conda = yaml.safe_load((ROOT / "environment.yml").read_text())
    pip = conda["dependencies"][-1]["pip"]
    assert pip == environment.pins(), "run python -m tests.checks.environment write"
    lock = (ROOT / "requirements.txt").read_text()
    assert len(pip) == sum("==" in line and not line.startswith((" ", "#")) for line in lock.splitlines())
    assert lock.count("--hash=sha256:") > len(pip), "every pin has hashes"


def test_the_lock_names_no_address() -> None:
    for name in ("requirements.txt", "requirements-dev.txt", "environment.yml"):
        assert "://" not in (ROOT / name).read_text(), name


def test_the_data_package_is_valid() -> None:
    """Frictionless reads every committed CSV against its schema, size and hash."""
    content = json.loads(package.PACKAGE.read_text())
    content["resources"] = [entry for entry in content["resources"] if not entry["path"].startswith("results/")]
    report = Package(content, basepath=str(DATA)).validate()
    assert report.valid, report.flatten(["title", "fieldName", "rowNumber", "note"])[:5]


def test_a_truncated_csv_is_found() -> None:
    content = json.loads(package.PACKAGE.read_text())
    entry = next(entry for entry in content["resources"] if entry["path"].endswith("ledger.csv"))
    assert entry["bytes"] == (DATA / entry["path"]).stat().st_size
    entry["bytes"] += 1
    report = Package({"name": "one", "resources": [entry]}, basepath=str(DATA)).validate()
    assert not report.valid


def test_needs_are_found_in_the_source() -> None:
    books = plan.notebooks("book")
    assert "claims" in books and books["claims"].needs, "the ledger reads what other notebooks write"
    order = list(books)
    assert all(order.index(need) < order.index(name) for name, notebook in books.items() for need in notebook.needs)
