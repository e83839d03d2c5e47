"""What is made from the lock: the conda file (the same versions for those who prefer conda) and the bill of materials."""

from __future__ import annotations

import hashlib
import json
import re

from analysis.paths import ROOT
from analysis.tables import write_atomic

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
        "# Written by `python -m analysis environment write` from requirements.txt; a test proves that they agree.",
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
    """Write `environment.yml`."""
    write_atomic(ROOT / "environment.yml", text().encode("utf-8"))


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
        plain = re.sub(r"[-_.]+", "-", name.split("[")[0]).lower()
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
