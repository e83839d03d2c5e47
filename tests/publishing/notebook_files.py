"""Small notebooks for tests of the build."""

from __future__ import annotations

from pathlib import Path

import nbformat


def write(folder: Path, name: str, *cells: str, parameters: str = "") -> None:
    """Store a notebook with a title, a parameters cell, the usual start and the cells given."""
    v4 = nbformat.v4
    first = v4.new_code_cell(f'tier = "book"\nout = ""\n{parameters}')
    first.metadata["tags"] = ["parameters"]
    start = "from analysis.artifact.publishing.run import Run\nimport pandas as pd\n"
    begin = v4.new_code_cell(f'{start}run = Run("{name}", tier=tier, out=out)')
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell(f"# {name}"), first, begin, *(v4.new_code_cell(cell) for cell in cells)])
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(notebook, folder / f"{name}.ipynb")
