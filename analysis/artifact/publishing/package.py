"""The data package: one description of every CSV in `data/`, put together from what stands beside the data."""

from __future__ import annotations

import csv
import fnmatch
import gzip
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, RootModel

from analysis.artifact.publishing import plan
from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA, RESULTS
from analysis.tables import write_atomic

PACKAGE = DATA / "datapackage.json"
SKIPPED = ("results", "datasets")


class Glossary(RootModel[dict[str, str]]):
    """`data/columns.yaml`."""


class Resource(Strict):
    """Description of one CSV, or of all that a glob matches."""

    title: str
    columns: dict[str, str] = Field(default_factory=dict)
    columns_like: str | None = None
    source: str | None = None
    licence: str | None = None
    written_by: str | None = None


class Resources(Strict):
    """A folder's `resources.yaml`."""

    licence: str
    source: str
    written_by: str
    resources: dict[str, Resource]


def header(path: Path) -> list[str]:
    """Column names of a CSV, plain or gzip-compressed."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    return next(csv.reader(text.splitlines()), [])


def _types(path: Path) -> dict[str, str]:
    """Frictionless type of every column, read off the data."""
    import pandas as pd

    frame = pd.read_csv(path, low_memory=False)
    kinds = {"i": "integer", "u": "integer", "f": "number", "b": "boolean"}
    return {column: kinds.get(frame[column].dtype.kind, "string") for column in frame.columns}


def inputs() -> list[dict[str, Any]]:
    """Descriptions of the committed CSVs, from the `resources.yaml` files."""
    described: dict[str, dict[str, Any]] = {}
    for path in sorted(DATA.rglob("resources.yaml")):
        if path.relative_to(DATA).parts[0] in SKIPPED:
            continue
        room = read_yaml(path, Resources)
        files = [file for file in sorted(path.parent.rglob("*")) if file.name.endswith((".csv", ".csv.gz"))]
        for pattern, about in room.resources.items():
            matched = [file for file in files if fnmatch.fnmatch(str(file.relative_to(path.parent)), pattern)]
            if not matched:
                raise InputError("describes a file that is not there", path=path, key=pattern)
            columns = about.columns
            if about.columns_like:
                if about.columns_like not in room.resources:
                    raise InputError(f"columns_like names no resource of this file: {about.columns_like}", path=path, key=pattern)
                columns = {**room.resources[about.columns_like].columns, **columns}
            for file in matched:
                there = header(file)
                if sorted(there) != sorted(columns):
                    lacking, extra = sorted(set(there) - set(columns)), sorted(set(columns) - set(there))
                    message = f"{file.name}: columns without description {lacking}; descriptions without column {extra}"
                    raise InputError(message, path=path, key=pattern)
                described[str(file.relative_to(DATA))] = _resource(
                    str(file.relative_to(DATA)),
                    about.title,
                    {column: columns[column] for column in there},
                    about.source or room.source,
                    about.licence or room.licence,
                    about.written_by or room.written_by,
                )
    for file in sorted(DATA.rglob("*.csv*")):
        relative = file.relative_to(DATA)
        if relative.parts[0] not in SKIPPED and file.name.endswith((".csv", ".csv.gz")) and str(relative) not in described:
            raise InputError("no resources.yaml describes this CSV", path=file)
    return [described[name] for name in sorted(described)]


@cache
def glossary() -> dict[str, str]:
    """Description of a column by its name, for the tables that the notebooks write."""
    return read_yaml(plan.GLOSSARY, Glossary).root


def manifest(path: Path) -> dict[str, Any]:
    """A notebook's `manifest.json`, with the glossary's words for the columns that it does not describe itself."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    for name, about in found["tables"].items():
        known = glossary() | about["columns"]
        there = header(path.parent / f"{name}.csv")
        missing = [column for column in there if column not in known]
        if missing:
            raise InputError(f"columns of {name} that data/columns.yaml does not describe: {', '.join(missing)}", path=path)
        about["columns"] = {column: known[column] for column in there}
    return found


def results() -> list[dict[str, Any]]:
    """Descriptions of what `make book` writes, from the notebooks' manifests."""
    found = []
    for path in sorted(RESULTS.glob("[!.]*/manifest.json")):
        ran = manifest(path)
        notebook = ran["notebook"]
        for name, about in sorted(ran["tables"].items()):
            source = about["source"] or f"{about['kind']} by notebooks/{notebook}.ipynb"
            found.append(
                _resource(
                    f"results/{notebook}/{name}.csv", about["title"], about["columns"], source, "CC-BY-4.0", f"notebooks/{notebook}.ipynb"
                )
            )
    return found


def _resource(path: str, title: str, columns: dict[str, str], source: str, licence: str, written_by: str) -> dict[str, Any]:
    types = _types(DATA / path)
    fields = []
    for name, about in columns.items():
        field: dict[str, Any] = {"name": name, "type": types.get(name, "string"), "description": about}
        if field["type"] == "boolean":
            field |= {"trueValues": ["True"], "falseValues": ["False"]}
        fields.append(field)
    resource: dict[str, Any] = {
        "name": path.replace("/", "-").replace(".csv", "").replace(".gz", "").replace("_", "-").lower(),
        "path": path,
        "title": title,
        "sources": [{"title": source}],
        "licenses": [{"name": licence}],
        "written_by": written_by,
        "schema": {"fields": fields, "missingValues": ["", "nan", "NaN", "NA", "N/A", "None", "null"]},
    }
    if not path.startswith("results/"):
        content = (DATA / path).read_bytes()
        resource |= {"bytes": len(content), "hash": f"sha256:{hashlib.sha256(content).hexdigest()}"}
    return resource


def package() -> dict[str, Any]:
    """The whole package: inputs, and results where there are any."""
    return {
        "name": "ml-performance-survey",
        "title": "Performance models for machine learning, re-run and checked",
        "licenses": [{"name": "CC-BY-4.0", "title": "Text and data made here; each resource names its own licence"}],
        "resources": [*inputs(), *results()],
    }


def write() -> int:
    """Write `data/datapackage.json`; returns how many resources it describes."""
    content = package()
    write_atomic(PACKAGE, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode("utf-8"))
    return len(content["resources"])


def differences() -> list[str]:
    """What the committed package says otherwise than the data here, a line each."""
    committed = {entry["path"]: entry for entry in json.loads(PACKAGE.read_text(encoding="utf-8"))["resources"]}
    here = {entry["path"]: entry for entry in package()["resources"]}
    built = RESULTS.exists()
    lines = [f"{path}: not in data/datapackage.json" for path in here if path not in committed]
    lines += [f"{path}: described, but not there" for path in committed if path not in here and (built or not path.startswith("results/"))]
    lines += [f"{path}: described otherwise" for path in here if path in committed and here[path] != committed[path]]
    return lines
