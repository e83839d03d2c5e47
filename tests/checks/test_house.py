"""The package itself: nothing that nothing calls, models that state their source, a current map."""

import ast
import importlib
import re
from collections import Counter

import pytest

from analysis.paths import DATA, NOTEBOOKS, ROOT
from tests.checks import house_map

PACKAGE = ROOT / "analysis"
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))

ALIKE = ("commands/", "serving/schedulers", "artifact/bench", "artifact/commands")
ALIKE += ("artifact/explorers/records", "artifact/explorers/stand_ins")
"""Folders whose files are alike, and named by what each is for."""
BY_NUMBA = {"_optimize_final_module", "_finalize_final_module", "define_pipelines", "enable_caching", "get_pointer_to_function"}
CALLED_BY_TOOLS = {"setup", "execute_cell", "handle_starttag", "handle_endtag", "handle_data", *BY_NUMBA}
"""Sphinx calls the first, papermill the second, the reader of HTML the next three, numba the others."""

ENTRY_POINTS = (
    "hardware.roofline.time_on_device",
    "studies.cores.blocks.ports.predict",
    "accelerators.loopnest.evaluation.evaluate",
    "accelerators.systolic.array.count",
    "networks.closed_forms.closed_form_cycles",
    "networks.collective_time.collective_time",
    "training.step.step",
    "training.memory.memory",
    "studies.kernels.tiles.kernel_latency",
    "studies.kernels.wave_scaling.wave_scaling",
    "studies.accelerators.systolic.memory.with_memory",
    "studies.accelerators.sparse.formats.expected_size",
    "studies.accelerators.sparse.compute.cost",
    "studies.cores.neutrino.cycles.epoch_cycles",
    "studies.composition.gap.composition_gap",
)
UNIT = re.compile(r"\b(s|bytes|FLOP|flop|cycles|words|bits|J|1|count)\b")


def test_a_folder_says_what_each_of_its_files_is_for() -> None:
    unsaid = [
        str(path.relative_to(PACKAGE))
        for folder in FOLDERS
        if folder != PACKAGE and not f"{folder.relative_to(PACKAGE)}/".startswith(ALIKE)
        for path in sorted(folder.glob("[!_]*.py"))
        if not re.search(rf"\b{path.stem}\b", (folder / "__init__.py").read_text(encoding="utf-8"))
    ]
    assert unsaid == []


def test_every_function_is_named_somewhere_else() -> None:
    """In the package, a notebook, a claims check, a table frozen or a test; what typer, pydantic or a registry calls is decorated."""
    python = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")])
    data = [*(DATA / "claims").rglob("*.yaml"), *(DATA / "frozen").rglob("resources.yaml")]
    others = [*NOTEBOOKS.glob("*.ipynb"), *data]
    words: Counter[str] = Counter()
    for path in [*python, *others]:
        words.update(re.findall(r"[A-Za-z_]\w*", path.read_text(encoding="utf-8")))
    dead = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in python
        if PACKAGE in path.parents
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and not node.decorator_list
        and not node.name.startswith("__")
        and words[node.name] <= 1
        and node.name not in CALLED_BY_TOOLS
    ]
    assert dead == []


def test_every_constant_is_read_somewhere() -> None:
    """In its own file, or by a file that imports it or names it after a point; a list of codes is whole, read or not."""
    texts = {path: path.read_text(encoding="utf-8") for path in [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]}
    used = Counter(re.findall(r"\.([A-Za-z_]\w*)", "\n".join(texts.values())))
    for path in NOTEBOOKS.glob("*.ipynb"):
        used.update(re.findall(r"[A-Za-z_]\w*", path.read_text(encoding="utf-8")))
    for text in texts.values():
        used.update(alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) for alias in node.names)
    dead = [
        f"{path.relative_to(ROOT)}:{node.lineno} {name.id}"
        for path, text in texts.items()
        if PACKAGE in path.parents
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name) and not name.id.startswith("__")
        if not used[name.id] and len(re.findall(rf"\b{name.id}\b", text)) == 1
    ]
    assert dead == []


@pytest.mark.parametrize("name", ENTRY_POINTS)
def test_a_model_states_its_formula_units_and_source(name: str) -> None:
    module_name, function = name.rsplit(".", 1)
    module = importlib.import_module(f"analysis.{module_name}")
    text = f"{module.__doc__}\n{getattr(module, function).__doc__}"
    assert re.search(r"=|max\(|ceil\(", text), "no formula"
    assert UNIT.search(text), "no unit"
    assert "Source" in text, "no source"


def test_the_map_in_contributing_is_the_one_that_the_imports_give() -> None:
    page = house_map.PAGE.read_text(encoding="utf-8")
    assert page == house_map.with_map(page), "python -m tests.checks.house_map writes it again"


def test_rooms_do_not_import_each_other_in_a_circle() -> None:
    levels = house_map.levels(house_map.edges())
    assert sorted(room for level in levels for room in level) == sorted(set(house_map.rooms()) - set(house_map.ENTRANCES))
    with pytest.raises(ValueError, match="circle"):
        house_map.levels({"a": {"b"}, "b": {"a"}})


def test_models_import_neither_wing() -> None:
    """Nor do studies import the artifact, but for the run of a notebook."""
    wings = tuple(f"analysis.{wing}" for wing in house_map.WINGS)
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if PACKAGE / "artifact" not in path.parents
        for name in sorted(house_map.arrows(path))
        if name.startswith(wings if PACKAGE / "studies" not in path.parents else "analysis.artifact")
        and not name.startswith("analysis.artifact.publishing.run")
    ]
    assert wrong == []


def test_every_module_that_is_imported_exists() -> None:
    """A lazy import of a module that moved is seen by no type checker that passes over missing ones."""
    made = {"analysis.artifact.explorers.page_data"}  # written into the page by the bundle of explorers

    def there(name: str) -> bool:
        path = ROOT / name.replace(".", "/")
        return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()

    wrong = []
    for path in [*sorted(PACKAGE.rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            wrong += [
                f"{path.relative_to(ROOT)} imports {name}"
                for name in modules
                if name.split(".")[0] == "analysis" and name not in made and not there(name)
            ]
    assert wrong == []
