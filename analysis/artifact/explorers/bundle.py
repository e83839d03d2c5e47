"""At build time: the script that carries the models of explorers and live cells into the pages, and each explorer as first drawn."""

from __future__ import annotations

import ast
import contextlib
import html
import io
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from analysis.artifact.explorers import NAMES, explorer
from analysis.artifact.explorers.controls import Choice, defaults, form_html
from analysis.paths import BOOK, ROOT

HERE = Path(__file__).parent
STAND_INS = {name: HERE / "stand_ins" / f"{name.replace('.', '_')}.py" for name in ("numpy", "numpy.typing", "pydantic", "re")} | {
    "analysis.compiled": HERE / "stand_ins" / "compiled.py",
    "analysis.configs": HERE / "stand_ins" / "files.py",
    "analysis.paths": HERE / "stand_ins" / "files.py",
    "analysis.errors": HERE / "stand_ins" / "errors.py",
    "analysis.studies.checkable": HERE / "stand_ins" / "checkable.py",
    "analysis.serving.simulate": HERE / "stand_ins" / "serving_types.py",
    "analysis.serving.limits": HERE / "stand_ins" / "serving_types.py",
    "analysis.serving.requests": HERE / "stand_ins" / "serving_types.py",
    "analysis.tables": HERE / "stand_ins" / "unused.py",
    "analysis.documents": HERE / "stand_ins" / "unused.py",
    "difflib": HERE / "stand_ins" / "unused.py",
    "pathlib": HERE / "stand_ins" / "files.py",
    "yaml": HERE / "stand_ins" / "unused.py",
}
"""Modules that the page has in another form."""
PAGE_FILES = (
    ("data/hardware/devices", "analysis.hardware.devices", "DeviceFile"),
    ("data/hardware/sources.yaml", "analysis.hardware.devices", "SourceFile"),
    ("data/hardware/systems.yaml", "analysis.hardware.systems", "SystemFile"),
    ("data/workloads/models.yaml", "analysis.workloads.models", "ModelFile"),
    ("data/workloads/configurations.yaml", "analysis.workloads.checkpoints", "FamilyFile"),
    ("data/models/nccl_collectives.yaml", "analysis.networks.calibrated.form", "Calibrated"),
)
"""Files that models read, and the class each is read into."""


def encode(value: Any) -> Any:
    """A validated object as JSON that names its classes; `stand_ins.files.decode` makes it again."""
    if isinstance(value, BaseModel):
        fields = {name: encode(getattr(value, name)) for name in type(value).model_fields if getattr(value, name) is not None}
        missing = {name: None for name in type(value).model_fields if getattr(value, name) is None}
        return {"$": f"{type(value).__module__}.{type(value).__qualname__}", "fields": fields | missing}
    if isinstance(value, dict):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


@cache
def imports(source: str) -> list[str]:
    """Modules that a source imports, at its top or inside functions."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return list(dict.fromkeys(found))


TOP_IMPORT = re.compile(r"^ ?(?:import ([\w., ]+)|from ?([\w.]+) import ?\(?([\w, ]*))", re.MULTILINE)


def library_imports(source: str, name: str, package: bool) -> list[str]:
    """Modules that an import of a file of Brython's library loads: those at its top, or in a `try` there.

    Args:
        source: the file as Brython packs it, which indents by one space and may use newer syntax than CPython here.
    """
    found = []
    home = name.split(".") if package else name.split(".")[:-1]
    for names, module, items in TOP_IMPORT.findall(source):
        if names:
            found += [one.split()[0] for one in names.split(",") if one.strip()]
            continue
        dots = len(module) - len(module.lstrip("."))
        base = ".".join([*home[: len(home) - dots + 1], *filter(None, [module.lstrip(".")])]) if dots else module
        found += [base, *(f"{base}.{item.split()[0]}" for item in items.split(",") if item.strip())]
    return found


LIBRARY = "analysis.artifact.explorers.stand_ins.library"
OURS = re.compile(r"^( *)from (?:typing|collections\.abc|dataclasses|functools|html) import (?!.*(?:get_args|\())", re.MULTILINE)


def _quick(source: str) -> str:
    """A source that takes from `stand_ins.library` what it can: of Brython's library it would be a megabyte to translate at the start."""
    ours = OURS.sub(rf"\1from {LIBRARY} import ", source)
    return re.sub(r"^import (html|fnmatch)$", rf"from {LIBRARY.rpartition('.')[0]} import library as \1", ours, flags=re.MULTILINE)


def _file_of(module: str) -> Path | None:
    if module in STAND_INS:
        return STAND_INS[module]
    if not module.startswith("analysis"):
        return None
    path = ROOT / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py") if path.with_suffix(".py").exists() else None


def our_modules(roots: Iterable[str], returned: Mapping[str, object] | None = None) -> dict[str, list[Any]]:
    """The modules of this project that some modules need, in the form of Brython's file system: ending, source, imports, package or not.

    Args:
        returned: modules of which the page has only what their functions return; without it `RETURNED`.
    """
    found: dict[str, list[Any]] = {}
    waiting = list(roots)
    while waiting:
        module = waiting.pop()
        path = _file_of(module)
        if path is None or module in found:
            continue
        source = _returned(module) if module in (RETURNED if returned is None else returned) else _quick(path.read_text(encoding="utf-8"))
        needs = imports(source)
        found[module] = [".py", source, needs] + ([1] if path.name == "__init__.py" or module == "numpy" else [])
        parents = [module.rsplit(".", k)[0] for k in range(1, module.count(".") + 1)]
        waiting += [*needs, *parents]
    return found


PAGE_DATA = "analysis.artifact.explorers.page_data"
RETURNED = {
    "analysis.artifact.explorers.records.measured_points": ("all_reduces", "cpu_operators", "gpu_products"),
    "analysis.artifact.explorers.records.asked_answers": ("answers", "refusals", "parts", "watts"),
    "analysis.artifact.explorers.records.planned_steps": ("choices", "models", "words", "steps", "capacities"),
    "analysis.artifact.explorers.records.pareto_fronts": ("fronts",),
    "analysis.artifact.explorers.records.panel": ("rows",),
    "analysis.artifact.explorers.records.roofline_steps": ("parts",),
    "analysis.artifact.survey.choosing": ("records",),
}
"""Modules of which the page has only what their functions return."""


def _returned(module: str) -> str:
    """Such a module for the page: its functions return what the browser reads of `kept`."""
    return READ.format("KEPT") + "".join(f"def {name}():\n    return KEPT[{name!r}]\n" for name in RETURNED[module])


READ = "from browser import window\nfrom javascript import JSON\n{} = JSON.parse(window.explorer_records[__name__])\n"


def kept() -> dict[str, str]:
    """What functions of `RETURNED` return and models read of files, as JSON: a browser reads that at once, and Python's text slowly."""
    from importlib import import_module

    found = {module: {name: getattr(import_module(module), name)() for name in names} for module, names in RETURNED.items()}
    return {module: json.dumps(value, separators=(",", ":")) for module, value in {**found, PAGE_DATA: page_files()}.items()}


def _library() -> dict[str, list[Any]]:
    text = (files("brython") / "data" / "brython_stdlib.js").read_text(encoding="utf-8")
    begin = text.index("{", text.index("var scripts"))
    return json.JSONDecoder().raw_decode(text[begin:])[0]  # type: ignore[no-any-return]


ALWAYS = ("json", "dataclasses", "functools", "math", "typing", "collections.abc", "browser")


def _library_modules(needed: Iterable[str]) -> dict[str, list[Any]]:
    library = _library()
    found: dict[str, list[Any]] = {}
    waiting = [*needed, *ALWAYS]
    while waiting:
        module = waiting.pop()
        if module in found or module not in library:
            continue
        found[module] = library[module]
        parents = [module.rsplit(".", k)[0] for k in range(1, module.count(".") + 1)]
        entry = library[module]
        extra = library_imports(entry[1], module, len(entry) > 3) if entry[0] == ".py" else []
        waiting += [*extra, *parents]
    return found


CELL = re.compile(r"^```\{live\} (\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@cache
def live_cells() -> dict[str, str]:
    """The code of every live cell of the chapters, by name."""
    return {name: code for page in sorted(BOOK.glob("*.md")) for name, code in CELL.findall(page.read_text(encoding="utf-8"))}


def _words(code: str) -> set[str]:
    """Texts in a cell's code: among them the devices, models and systems that the page must carry for it."""
    return {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def printed(code: str) -> str:
    """What a cell prints here, in CPython."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(code, "live cell", "exec"), {"__name__": "live"})
    return said.getvalue().rstrip("\n")


def _named() -> set[str]:
    """Models, systems, machines and devices that some explorer offers or some live cell names."""
    from analysis.hardware import systems

    named = {key for name in NAMES for control in explorer(name).CONTROLS if isinstance(control, Choice) for key, _ in control.options}
    named |= {key for name in NAMES for key, _ in getattr(explorer(name), "DEVICES", ())}
    named |= {word for code in live_cells().values() for word in _words(code)}
    return named | {systems.load(name).device for name in named & set(systems.all_systems())}


def page_files() -> dict[str, Any]:
    """The files that models read, validated by CPython, by path; of devices, models and systems those that are offered."""
    from importlib import import_module

    from analysis.configs import read_yaml

    found, named = {}, _named()
    for name, module, kind in PAGE_FILES:
        path = ROOT / name
        for one in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            encoded = encode(read_yaml(one, getattr(import_module(module), kind)))
            for many in ("devices", "models", "systems"):
                if many in encoded["fields"]:
                    encoded["fields"][many] = {name: value for name, value in encoded["fields"][many].items() if name in named}
            found[str(one.relative_to(ROOT))] = encoded
    return found


def roots() -> list[str]:
    """The modules that the page imports by itself: those of the explorers, and what live cells import."""
    ours = ["analysis.artifact.explorers.stand_ins.page", *(f"analysis.artifact.explorers.{name}" for name in NAMES)]
    return [*ours, *(module for code in live_cells().values() for module in imports(code))]


def sources() -> list[Path]:
    """The files of this project that the script is made of: models' modules, and what they read."""
    modules = {_file_of(name) for name in our_modules(roots(), returned={})}
    read = [file for name, *_ in PAGE_FILES for file in (sorted((ROOT / name).glob("*.yaml")) if (ROOT / name).is_dir() else [ROOT / name])]
    return sorted({path for path in (*modules, *read) if path is not None and path.exists()})


@cache
def script() -> str:
    """JavaScript that holds the part of Brython's library and the models that the explorers use."""
    ours = our_modules(roots())
    ours[PAGE_DATA] = [".py", READ.format("FILES"), []]
    needed = {need for entry in ours.values() for need in entry[2]}
    both = {**_library_modules(sorted(needed)), **ours}
    records = f"window.explorer_records = {json.dumps(kept(), sort_keys=True)};\n"
    return f"{records}__BRYTHON__.use_VFS = true;\n__BRYTHON__.update_VFS({json.dumps(both, sort_keys=True)});\n"


def write(folder: Path) -> None:
    """Write the interpreter and the models beside the pages."""
    (folder / "brython.js").write_bytes((files("brython") / "data" / "brython.js").read_bytes())
    (folder / "explorers.js").write_text(script(), encoding="utf-8")


START = (
    "<script>(function(){if(window.startPython)return;var wanted=false;"
    "function add(name,then){var s=document.createElement('script');s.src='{{assets}}/'+name;s.onload=then;document.head.append(s);}"
    "window.startPython=function(){if(wanted)return;wanted=true;"
    "document.documentElement.classList.add('python-starting');add('brython.js',function(){add('explorers.js',function(){"
    "var s=document.createElement('script');s.type='text/python';s.id='explorers_start';"
    "s.textContent='import analysis.artifact.explorers.stand_ins.page';"
    "document.body.append(s);window.brython({ids:['explorers_start'],debug:0,indexedDB:false});});});};})();</script>"
)
AT_ONCE = "<script>window.addEventListener('load',startPython);</script>"


def section(name: str, live: bool = True) -> str:
    """An explorer as HTML: its controls, and the picture that CPython draws for the values it starts with.

    Args:
        name: of `catalogue.NAMES`; live: with controls and scripts, or the picture and its sentence alone.
    """
    model = explorer(name)
    values = defaults(model.CONTROLS)
    if not live:
        return (
            f'<div class="explorer"><p class="explorer-title">{html.escape(model.TITLE)}</p>'
            f'<div class="canvas">{model.draw(values, 700)}</div><p class="said">{html.escape(model.tell(values))}</p></div>'
        )
    play = '<button type="button" class="play">Play</button>' if getattr(model, "PLAYS", "") else ""
    return (
        f'<section class="explorer" id="{name}" data-explorer="{name}" aria-label="{html.escape(model.TITLE)}">'
        f'<p class="explorer-title">{html.escape(model.TITLE)}</p>'
        f'<form class="controls" onsubmit="return false">{form_html(name, model.CONTROLS)}{play}'
        '<button type="button" class="reset">Start again</button></form>'
        f'<div class="canvas">{model.draw(values, 700)}</div>'
        f'<p class="said" aria-live="polite">{html.escape(model.tell(values))}</p></section>{START}{AT_ONCE}'
    )


def live_section(name: str, code: str, live: bool = True) -> str:
    """A cell as HTML: the code to change, a button, and what CPython printed when the book was built.

    Args:
        live: with the button, or code and output alone, for print.
    """
    code, said = html.escape(code.strip("\n")), html.escape(printed(code))
    shown = f'<pre class="code">{code}</pre>'
    if not live:
        return f'<div class="live-cell">{shown}<pre class="printed">{said}</pre></div>'
    return (
        f'<section class="live-cell" aria-label="Python to change and run: {name}">'
        f'<textarea rows="{code.count(chr(10)) + 1}" spellcheck="false" autocapitalize="off" autocomplete="off" '
        f'aria-label="Python code: {name}" aria-keyshortcuts="Control+Enter">{code}</textarea>{shown}'
        '<div class="buttons"><button type="button" class="run">Run</button><button type="button" class="reset">Undo my changes</button>'
        '<span class="hint">this project’s own modules, run in this page</span></div>'
        f'<pre class="printed" role="status" aria-live="polite" tabindex="0" aria-label="What it prints">{said}</pre></section>'
    )
