"""What is made from the lock: the conda file (the same versions through conda), the bill of materials, the licences.

python -m tests.checks.environment write | dates | sbom
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.errors import InputError
from analysis.paths import DATA, ROOT
from analysis.tables import read_csv, write_atomic, write_csv

PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]+\])?)==([^\s;\\]+)\s*(?:;\s*([^\\]+?))?\s*\\?$")


def pins() -> list[str]:
    """Every pin of `requirements.txt` as `name==version ; marker`, without hashes."""
    found = []
    for line in (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines():
        match = PIN.match(line)
        if match:
            name, version, marker = match.groups()
            found.append(f"{name}=={version}" + (f" ; {marker}" if marker else ""))
    return found


def text() -> str:
    """The content of `environment.yml`: Python from conda, every package at the version of the lock, through pip."""
    lines = [
        "# Written by `python -m tests.checks.environment write` from requirements.txt; a test proves that they agree.",
        "# conda env create --file environment.yml && conda activate ml-performance-survey",
        "name: ml-performance-survey",
        "channels: [conda-forge]",
        "dependencies:",
        "  - python=3.11",
        "  - pip",
        "  - pip:",
    ]
    return "\n".join([*lines, *(f"      - {_quoted(pin)}" for pin in pins())]) + "\n"


def _quoted(pin: str) -> str:
    return f'"{pin}"' if ";" in pin or "[" in pin else pin


def write() -> None:
    """Write `environment.yml` and `THIRD_PARTY.md`."""
    write_atomic(ROOT / "environment.yml", text().encode("utf-8"))
    write_atomic(ROOT / "THIRD_PARTY.md", licences().encode("utf-8"))


DATES = DATA / "sources" / "lock_dates.csv"


def write_dates() -> None:
    """Write when each version of the lock appeared in the package index: the first of its files, as `uv lock` tells (network).

    Raises:
        InputError: uv is not installed, or fails.
    """
    listed = ",\n".join(f"  {json.dumps(pin)}" for pin in pins())
    with tempfile.TemporaryDirectory() as folder:
        project = f'[project]\nname = "lock-dates"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = [\n{listed}\n]\n'
        (Path(folder) / "pyproject.toml").write_text(project, encoding="utf-8")
        try:
            subprocess.run(["uv", "lock", "--quiet"], cwd=folder, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise InputError(f"uv lock: {error}") from None
        packages = tomllib.loads((Path(folder) / "uv.lock").read_text(encoding="utf-8"))["package"]
    named = [pin.split(" ; ")[0].split("==") for pin in pins()]
    locked = {(canonical(name.split("[")[0]), version) for name, version in named}
    rows = []
    for package in packages:
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        if (package["name"], package["version"]) in locked:
            published = min(each["upload-time"] for each in files)[:10]
            rows.append({"name": package["name"], "version": package["version"], "published": published})
    write_csv(pd.DataFrame(rows).sort_values(["name", "version"]), DATES)


NOT_HERE = "not installed on Linux with Python 3.11; see its page"


def licence(name: str) -> str:
    """Licence that an installed package states: its SPDX expression, else its classifiers, else the first line of its own field."""
    try:
        stated: Any = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return NOT_HERE
    if stated.get("License-Expression"):
        return str(stated["License-Expression"])
    classified = [each.split(" :: ")[-1] for each in stated.get_all("Classifier", []) if each.startswith("License :: ")]
    first = (stated.get("License") or "").strip().split("\n")[0]
    if classified and classified != ["OSI Approved"]:
        return ", ".join(sorted(set(classified)))
    return first[:80] or "stated in its files only"


def canonical(name: str) -> str:
    """A package's name as the index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licences() -> str:
    """The content of `THIRD_PARTY.md`: licence of every package of the lock as installed here, and of the data that is not ours."""
    dates = {(row["name"], row["version"]): str(row["published"]) for row in read_csv(DATES, dtype=str).to_dict("records")}
    rows = []
    for pin in pins():
        name, _, version = pin.split(" ; ")[0].partition("==")
        plain = name.split("[")[0]
        published = dates.get((canonical(plain), version), "")
        rows.append(f"| [{plain}](https://pypi.org/project/{plain}/{version}/) | {version} | {published} | {licence(plain)} |")
    described = json.loads((DATA / "datapackage.json").read_text(encoding="utf-8"))["resources"]
    others = Counter(
        (each["path"].rsplit("/", 1)[0], named["name"], source["title"])
        for each in described
        for named in each.get("licenses", [])
        for source in each.get("sources", [])
        if named["name"] != "CC-BY-4.0" and not each["path"].startswith("results")
    )
    lines = [
        "# Licences of others",
        "",
        "Written by `python -m tests.checks.environment write` from what each package of `requirements.txt` states in its own metadata,",
        "and from `data/datapackage.json`. Ours: `LICENSE` (code, Apache-2.0), `LICENSE-TEXT` (text and data made here, CC BY 4.0).",
        "None of these packages is part of this repository: `make book` installs them. Nor is the data that `make data` fetches",
        "(`data/sources/README.md`).",
        "",
        "## Packages",
        "",
        "| package | version | published | licence as stated |",
        "|---|---|---|---|",
        *rows,
        "",
        "## Data of others in this repository",
        "",
        "| folder of `data/` | tables | licence | from |",
        "|---|---|---|---|",
        *(f"| {folder} | {count} | {named} | {source} |" for (folder, named, source), count in sorted(others.items())),
    ]
    return "\n".join(lines) + "\n"


def bill_of_materials() -> str:
    """The lock as a CycloneDX 1.5 document: every package with version, URL and accepted SHA-256 digests.

    Source: CycloneDX 1.5 JSON reference, https://cyclonedx.org/docs/1.5/json/.
    """
    content = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    components = []
    for entry in re.split(r"\n(?=\S)", content):
        match = PIN.match(entry.split("\n")[0])
        if match is None:
            continue
        name, version, marker = match.groups()
        plain = canonical(name.split("[")[0])
        properties = [{"name": "sha256", "value": digest} for digest in sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))]
        if marker:
            properties.append({"name": "marker", "value": marker})
        purl = f"pkg:pypi/{plain}@{version}"
        components.append({"type": "library", "bom-ref": purl, "name": plain, "version": version, "purl": purl, "properties": properties})
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "ml-performance-survey"},
            "properties": [{"name": "requirements.txt sha256", "value": hashlib.sha256(content.encode()).hexdigest()}],
        },
        "components": components,
    }
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    wanted = sys.argv[1:]
    if wanted not in (["write"], ["dates"], ["sbom"]):
        sys.exit("expected write, dates or sbom")
    {"write": write, "dates": write_dates, "sbom": lambda: print(bill_of_materials(), end="")}[wanted[0]]()
