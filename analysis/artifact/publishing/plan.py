"""What a build has to do: which notebooks there are, what each needs, and which are out of date.

A notebook is out of date when its source, its parameters, the locked environment, a module or file that its last run used, or one
of the files it wrote has other bytes than then.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from analysis.artifact.publishing.trace import listing
from analysis.case_columns import nearest
from analysis.errors import InputError
from analysis.paths import BUILD, DATA, NOTEBOOKS, RESULTS, ROOT

GLOSSARY = DATA / "columns.yaml"
READS = re.compile(r"""run\.read\(\s*["']([a-z0-9_]+)["']""")
CLAIM_TABLES = re.compile(r"""\btable:\s*["']?([a-z0-9_]+)/""")


@dataclass(frozen=True)
class Notebook:
    """One notebook and how it is run in a tier.

    Attributes:
        name: file name without ending.
        path: the stored notebook.
        parameters: what papermill sets, besides `tier` and `out`.
        needs: notebooks whose results it reads.
    """

    name: str
    path: Path
    parameters: dict[str, Any]
    needs: tuple[str, ...] = field(default=())


def folder(tier: str) -> Path:
    """Where a tier's results go."""
    return RESULTS if tier != "quick" else BUILD / "quick" / "results"


def stamps(tier: str) -> Path:
    """Where a tier's records of past runs are kept."""
    return BUILD / tier / "stamps"


def digest(path: Path) -> str:
    """SHA-256 of a file, or the empty string where there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (FileNotFoundError, IsADirectoryError):
        return ""


def given(settings: list[str]) -> dict[str, dict[str, Any]]:
    """Parameters that a reader sets, `NOTEBOOK.key=value` each, by notebook; values are written as in YAML."""
    import papermill

    found: dict[str, dict[str, Any]] = {}
    names = [path.stem for path in NOTEBOOKS.glob("*.ipynb")]
    for setting in settings:
        place, equals, text = setting.partition("=")
        name, dot, key = place.partition(".")
        if not equals or not dot:
            raise InputError(f"expected NOTEBOOK.key=value, got {setting!r}", key="--set")
        if name not in names:
            near = nearest(name, names)
            raise InputError(f"no such notebook{f'; the nearest name is {near}' if near else ''}", key=place)
        known = papermill.inspect_notebook(str(NOTEBOOKS / f"{name}.ipynb"))
        own = [parameter for parameter in known if parameter not in ("tier", "out")]
        if key not in own:
            raise InputError(f"no such parameter; {name} has: {', '.join(own) or 'none'}", key=place)
        default, value = yaml.safe_load(known[key]["default"].replace("_", "")), yaml.safe_load(text)
        if type(value) is not type(default) and not (isinstance(default, float) and isinstance(value, int)):
            raise InputError(f"expected a value like {known[key]['default']}, got {text!r}", key=place)
        found.setdefault(name, {})[key] = value
    return found


def notebooks(tier: str, settings: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> dict[str, Notebook]:
    """All notebooks, by name, in an order that respects what each needs."""
    parameters = yaml.safe_load((NOTEBOOKS / "parameters.yaml").read_text(encoding="utf-8")) or {}
    paths = {path.stem: path for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    for name in parameters:
        if name not in paths:
            raise InputError("parameters for a notebook that does not exist", path=NOTEBOOKS / "parameters.yaml", key=name)
    found = {}
    for name, path in paths.items():
        needs = set(READS.findall(path.read_text(encoding="utf-8").replace('\\"', '"')))
        if name == "claims":
            for checks in sorted((DATA / "claims" / "checks").glob("*.yaml")):
                needs |= set(CLAIM_TABLES.findall(checks.read_text(encoding="utf-8"))) & set(paths)
        needs.discard(name)
        for need in needs:
            if need not in paths:
                raise InputError(f"reads the results of a notebook that does not exist: {need}", path=path)
        own = {**((parameters.get(name) or {}).get(tier) or {}), **settings.get(name, {})}
        found[name] = Notebook(name, path, own, tuple(sorted(needs)))
    return _ordered(found)


def _ordered(found: dict[str, Notebook]) -> dict[str, Notebook]:
    ordered: dict[str, Notebook] = {}
    while len(ordered) < len(found):
        ready = [name for name in found if name not in ordered and all(need in ordered for need in found[name].needs)]
        if not ready:
            circle = ", ".join(sorted(set(found) - set(ordered)))
            raise InputError(f"notebooks need each other in a circle: {circle}", path=NOTEBOOKS)
        ordered.update({name: found[name] for name in ready})
    return ordered


def fingerprint(notebook: Notebook, tier: str) -> dict[str, str]:
    """What decides a run before it starts: source, parameters and environment, as digests."""
    parameters = json.dumps(notebook.parameters, sort_keys=True)
    return {
        "notebook": digest(notebook.path),
        "parameters": hashlib.sha256(parameters.encode()).hexdigest(),
        "tier": tier,
        "lock": digest(ROOT / "requirements.txt"),
    }


def reason_to_run(notebook: Notebook, tier: str) -> str | None:
    """Why a notebook has to run again, or None when its results stand."""
    path = stamps(tier) / f"{notebook.name}.json"
    try:
        stamp = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return "never run"
    now = fingerprint(notebook, tier)
    changed = [key for key in now if stamp["fingerprint"].get(key) != now[key]]
    if changed:
        return f"changed: {', '.join(changed)}"
    for name, known in stamp["inputs"].items():
        if digest(ROOT / name) != known:
            return f"changed: {name}"
    for name, known in stamp["folders"].items():
        if not (ROOT / name).is_dir() or listing(ROOT / name) != known:
            return f"changed: the files in {name}"
    for name, known in stamp["outputs"].items():
        if digest(folder(tier) / notebook.name / name) != known:
            return f"result missing or altered: {name}"
    return None


def record(notebook: Notebook, tier: str, trace: dict[str, list[str]], work: Path) -> dict[str, Any]:
    """The record of a finished run: digests of what it used and of what it wrote."""
    written = sorted(path for path in work.rglob("*") if path.is_file())
    own = f"{work.relative_to(ROOT)}/"
    used = [name for name in {*trace["modules"], *trace["files"]} if not name.startswith(own)]
    return {
        "fingerprint": fingerprint(notebook, tier),
        "inputs": {name: digest(ROOT / name) for name in sorted(used)},
        "folders": {name: listing(ROOT / name) for name in trace["folders"] if (ROOT / name).is_dir() and f"{name}/" != own},
        "outputs": {str(path.relative_to(work)): digest(path) for path in written},
    }
