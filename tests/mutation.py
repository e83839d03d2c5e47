"""How many small changes to the code the tests of a room notice: `python -m tests.mutation ROOM` (minutes), `--rooms` lists them.

A sample of places (seeded) is changed one at a time, in the syntax tree of a module: operators, comparisons, constants, conditions,
min and max. Each change runs the room's tests in a child of this process that imports the changed module; the first failure, a crash or
a run past the limit of processor time kills the mutant. In rooms with compiled functions these run as plain Python. `--write` puts the
counts into data/evaluation/mutation.csv.
"""

from __future__ import annotations

import argparse
import ast
import importlib.machinery
import importlib.util
import io
import os
import random
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
SEED = 13
SAMPLE = 60


@dataclass(frozen=True)
class Room:
    """Modules that are changed, tests that should notice, whether compiled functions run as plain Python, and examples of a property."""

    modules: str
    tests: str
    interpreted: bool = False
    examples: int = 20


ROOMS = {
    "statistics": Room("studies/statistics", "test_statistics.py"),
    "mtap": Room(
        "artifact/mtap/grading artifact/mtap/scoring artifact/mtap/rubric artifact/mtap/evidence artifact/mtap/simplex artifact/mtap/gaps",
        "mtap",
    ),
    "claims": Room(
        "artifact/claims/verdicts artifact/claims/check artifact/claims/findings artifact/claims/results artifact/claims/check_files "
        "artifact/claims/prose",
        "claims",
    ),
    "publishing": Room(
        "artifact/publishing/trace artifact/publishing/plan artifact/publishing/words artifact/publishing/schemas artifact/publishing/run",
        "publishing/test_by_hand.py publishing/test_run.py",
    ),
    "networks/closed_forms": Room(
        "networks/closed_forms", "networks/test_closed_forms.py networks/test_recorded_collectives.py", interpreted=True, examples=60
    ),
    "accelerators/loopnest": Room(
        "accelerators/loopnest/evaluation accelerators/loopnest/mapping accelerators/loopnest/problem accelerators/loopnest/reuse",
        "accelerators/test_loopnest_brute_force.py accelerators/test_loopnest_by_hand.py accelerators/test_loopnest_recorded.py",
    ),
    "serving/schedulers": Room(
        "serving/schedulers/dispatch serving/schedulers/faster_transformer serving/schedulers/lightllm serving/schedulers/orca "
        "serving/schedulers/sarathi serving/schedulers/vllm serving/schedulers/vllm_v1",
        "serving/test_known.py serving/test_reference.py serving/test_laws.py",
        interpreted=True,
    ),
    "training": Room(
        "training/step training/memory training/work training/schedule training/search training/cases training/answers training/interval",
        "training composition/test_training_predictor.py composition/test_training_views.py",
    ),
    "operators/fp32_kernels": Room("kernels/fp32/physics", "operators/test_kernels.py"),
    "predict": Room(
        "predict/recommend/choice predict/recommend/serving predict/recommend/training "
        "predict/program/device_rates predict/program/device_work predict/program/predict",
        "composition/test_recommend.py composition/test_predict.py composition/test_device_work.py composition/test_tools.py",
    ),
    "serving/points": Room(
        "serving/points/points serving/points/cases serving/points/operators serving/points/step_table serving/points/constants "
        "serving/points/answers serving/points/waterfall serving/points/settings serving/points/power",
        "composition/test_serving_questions.py composition/test_service.py composition/test_calibrated_serving.py",
    ),
    "serving/batch": Room("serving/batch", "composition/test_batch_predictor.py"),
    "kernels": Room(
        "kernels/cases kernels/gpus kernels/laws kernels/library kernels/physics kernels/work kernels/trees", "operators/kernels"
    ),
    "networks/collective_time": Room(
        "networks/collective_time networks/calibrated/form networks/collective_cases",
        "networks/test_collective_time.py networks/test_predict_collective.py operators/kernels/test_collectives.py",
    ),
    "hardware": Room("hardware/devices hardware/systems hardware/roofline hardware/quantity", "hardware networks/test_collective_time.py"),
    "workloads/models": Room("workloads/models workloads/checkpoints", "workloads/test_models.py"),
    "energy": Room(
        "serving/points/power studies/serving/energy_per_token/study studies/serving/energy_per_token/published", "composition/energy"
    ),
    "explorers": Room(
        "artifact/explorers/all_reduce artifact/explorers/decode_knee artifact/explorers/error_composition "
        "artifact/explorers/roofline_achieved artifact/explorers/serving_player artifact/explorers/systolic_array",
        "explorers/test_against_simulators.py",
    ),
}
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
NAMES = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "all": "any",
    "any": "all",
    "ceil": "floor",
    "floor": "ceil",
}


def places(tree: ast.AST) -> Iterator[ast.AST]:
    """Nodes that can be changed; annotations, texts, decorators and the messages of errors are left alone."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_comment") or isinstance(tree, (ast.Raise, ast.Import, ast.ImportFrom)):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, (ast.JoinedStr, ast.Raise)):
                continue
            named = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if named in NAMES or (isinstance(node, ast.Constant) and type(node.value) in (bool, int, float)):
                yield node
            elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.BoolOp)) and type(node.op) in SWAPS:
                if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)):
                    yield node
            elif (isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS) or isinstance(node, ast.If):
                yield node
            yield from places(node)


def change(node: Any) -> str:
    """Change one node in place and say how."""
    before = ast.unparse(node.test if isinstance(node, ast.If) else node)
    if isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.Name):
        node.id = NAMES[node.id]
    elif isinstance(node, ast.Attribute):
        node.attr = NAMES[node.attr]
    elif isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()  # type: ignore[assignment]
    elif isinstance(node, ast.If):
        node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    else:
        node.op = SWAPS[type(node.op)]()
    return f"{before}  ->  {ast.unparse(node.test if isinstance(node, ast.If) else node)}"


class Row:
    """A record whose fields are attributes, as compiled code has it."""

    __slots__ = ("row",)

    def __init__(self, row: Any) -> None:
        object.__setattr__(self, "row", row)

    def __getattr__(self, name: str) -> Any:
        return self.row[name].item()

    def __setattr__(self, name: str, value: Any) -> None:
        self.row[name] = value


class Rows:
    """A structured array that gives such records."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.size = array, array.shape, array.size

    def __getitem__(self, index: Any) -> Any:
        found = self.array[index]
        return Rows(found) if isinstance(found, np.ndarray) else Row(found)


def record(value: Any) -> Any:
    """A record or a structured array as compiled code has it; anything else as it is."""
    if isinstance(value, np.void):
        return Row(value)
    return Rows(value) if isinstance(value, np.ndarray) and value.dtype.names else value


def plain_functions() -> ModuleType:
    """Stands for `analysis.compiled`: functions stay plain Python."""

    def inner(function: Any = None, **_: Any) -> Any:
        return function if function is not None else lambda given: given

    def outer(function: Any = None, **_: Any) -> Any:
        if function is None:
            return outer

        def called(*arguments: Any) -> Any:
            return function(*(record(one) for one in arguments))

        called.plain = called  # type: ignore[attr-defined]
        called.chosen = lambda *_, **__: called  # type: ignore[attr-defined]
        return called

    module = ModuleType("analysis.compiled")
    module.inner, module.outer = inner, outer  # type: ignore[attr-defined]
    module.__path__ = [str(ROOT / "analysis" / "compiled")]
    return module


def forget(interpreted: bool) -> None:
    """Let the package and its tests be imported anew, with compiled functions or plain ones."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("analysis", "tests", "conftest") and name != "tests.mutation"]:
        del sys.modules[name]
    if interpreted:
        sys.modules["analysis.compiled"] = plain_functions()


class Changed(importlib.machinery.SourceFileLoader):
    """Loads a module from a changed tree."""

    tree: ast.Module

    def get_code(self, fullname: str) -> Any:
        return compile(self.tree, self.path, "exec")


class Finder:
    """Finds one module, changed."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.loader = name, Changed(name, str(path))
        self.loader.tree = ast.fix_missing_locations(tree)

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        return importlib.util.spec_from_loader(name, self.loader) if name == self.name else None


class Quickest:
    """Runs the quickest tests first, and leaves out those above a limit."""

    def __init__(self, seconds: dict[str, float], limit: float) -> None:
        self.seconds, self.limit = seconds, limit
        self.seen: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        import hypothesis

        for item in items:  # few examples of each property, those of its own settings too
            if hasattr(item.obj, "is_hypothesis_test"):
                item.obj._hypothesis_internal_use_settings = hypothesis.settings.get_profile("mutation")
        items[:] = sorted(
            (item for item in items if self.seconds.get(item.nodeid, 0.0) <= self.limit),
            key=lambda item: self.seconds.get(item.nodeid, 0.0),
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """Processor time, since on a busy machine every test is slow by the clock."""
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.seen[item.nodeid] = time.process_time() - began


def run_tests(room: Room, plugin: Quickest, match: str = "") -> int:
    """pytest's exit status on a room's tests, without its words."""
    import hypothesis

    hypothesis.settings.register_profile("mutation", max_examples=room.examples, derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("mutation")
    silent = io.StringIO()
    arguments = [
        "-x",
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:warnings",
        *(f"tests/{name}" for name in room.tests.split()),
    ]
    if match:
        arguments += ["-k", match]
    with redirect_stdout(silent), redirect_stderr(silent):
        return int(pytest.main(arguments, plugins=[plugin]))


def survives(room: Room, module: str, index: int, seconds: dict[str, float], limit: float, cpu_s: float, match: str) -> tuple[bool, str]:
    """Whether the room's tests pass with one place of a module changed, and what was changed."""
    path = ROOT / "analysis" / f"{module}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node: Any = list(places(tree))[index]
    line, said = node.lineno, change(node)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s) + 1))
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            forget(room.interpreted)
            sys.meta_path.insert(0, Finder("analysis." + module.replace("/", "."), path, tree))  # type: ignore[arg-type]
            status = run_tests(room, Quickest(seconds, limit), match)
        finally:
            os._exit(min(status, 100))
    _, ended = os.waitpid(child, 0)
    return ended == 0, f"analysis/{module}.py:{line}: {said}"


def main() -> None:
    """Sample, run, print the survivors and write the room's row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("room", nargs="?", choices=ROOMS)
    parser.add_argument("--rooms", action="store_true")
    parser.add_argument("--sample", type=int, default=SAMPLE)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--slow", type=float, default=3.0, help="tests above so many seconds of processor time are left out")
    parser.add_argument("--only", default="", help="numbers of mutants, with commas")
    parser.add_argument("--match", default="", help="only tests of these names (pytest -k), such as those added for the survivors")
    parser.add_argument("--write", choices=["killed", "killed_after"], help="column of data/evaluation/mutation.csv to write")
    chosen = parser.parse_args()
    if chosen.rooms or not chosen.room:
        print("\n".join(ROOMS))
        return
    room = ROOMS[chosen.room]
    everything = Quickest({}, 1e9)
    forget(room.interpreted)
    began = time.process_time()
    if run_tests(room, everything, chosen.match) != 0:
        raise SystemExit("the tests fail without any change")
    passed_s = time.process_time() - began
    sites = [
        (module, index)
        for module in room.modules.split()
        for index in range(len(list(places(ast.parse((ROOT / "analysis" / f"{module}.py").read_text(encoding="utf-8"))))))
    ]
    sample = sorted(random.Random(chosen.seed).sample(sites, min(chosen.sample, len(sites))))
    numbers = [int(number) for number in chosen.only.split(",") if number] or list(range(len(sample)))
    survivors = []
    for number in numbers:
        lives, said = survives(room, *sample[number], everything.seen, chosen.slow, 3 * passed_s + 10, chosen.match)
        if lives:
            survivors.append(number)
            print(f"{number}: {said}", flush=True)
    left_out = sum(seconds > chosen.slow for seconds in everything.seen.values())
    killed = len(numbers) - len(survivors)
    print(f"{chosen.room}: {killed} of {len(numbers)} killed; survivors {','.join(map(str, survivors))}; {left_out} slow tests left out")
    if chosen.write:
        from analysis.paths import DATA
        from analysis.tables import read_csv, write_csv

        path = DATA / "evaluation" / "mutation.csv"
        table = read_csv(path, keep_default_na=False, dtype=object).set_index("room", drop=False)
        row = {"room": chosen.room, "modules": "; ".join(Path(name).name for name in room.modules.split()), "sites": len(sites)}
        row |= {"mutants": len(sample), chosen.write: killed, "tests": room.tests}
        if chosen.only:
            row[chosen.write] = int(table.loc[chosen.room, "killed"]) + killed
        if chosen.write == "killed":
            row |= {"killed_after": row["killed"], "note": f"seed {chosen.seed}; {left_out} slow tests left out"}
        for column, value in row.items():
            table.loc[chosen.room, column] = value
        write_csv(table, path)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
