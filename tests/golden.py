"""Answers that are kept: what functions gave for awkward inputs, read over by hand against the formula or document that the test names.

`kept("hardware", found)` compares with tests/golden/hardware.json; `GOLDEN=write pytest FILE` writes that file anew, for a change that is
meant: what moved then stands in the diff, line by line. Numbers agree to 1e-9.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pydantic

from analysis.errors import InputError
from analysis.hardware.systems import System

FOLDER = Path(__file__).with_name("golden")


def plain(value: Any) -> Any:
    """A value as JSON has it; records by their fields, floats to 12 digits."""
    if isinstance(value, System):
        return value.name
    if isinstance(value, pydantic.BaseModel):
        return plain(value.model_dump(exclude_defaults=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, pd.DataFrame):
        return {str(name): plain(value[name].tolist()) for name in value.columns}
    if isinstance(value, pd.Series):
        return plain(value.to_dict())
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(each) for key, each in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(each) for each in value), key=str)
    if isinstance(value, np.ndarray) and value.dtype.names:
        return {name: plain(value[name]) for name in value.dtype.names}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return repr(value) if not math.isfinite(value) else float(f"{value:.12g}")
    return str(value)


def answer(question: Callable[[], Any], folder: Path | None = None) -> Any:
    """What a call gives, or the line with which it refuses; a path of the test's own folder is left out."""
    try:
        return plain(question())
    except (InputError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        said = said.replace(str(folder), "") if folder else said
        said = re.sub(r"\n.*pydantic\.dev\S*", "", said)
        return said if len(said) < 300 else said[:150] + " ..."  # a list of all names


def differences(found: Any, kept: Any, where: str = "") -> list[str]:
    """Where two plain values differ, at most a few."""
    if isinstance(found, dict) and isinstance(kept, dict):
        names = [*kept, *(name for name in found if name not in kept)]
        return [line for name in names for line in differences(found.get(name), kept.get(name), f"{where}/{name}")]
    if isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        return [line for i, (one, other) in enumerate(zip(found, kept, strict=True)) for line in differences(one, other, f"{where}/{i}")]
    if type(found) in (int, float) and type(kept) in (int, float):
        return [] if math.isclose(found, kept, rel_tol=1e-9, abs_tol=1e-300) else [f"{where}: {found!r}, kept {kept!r}"]
    return [] if found == kept and type(found) is type(kept) else [f"{where}: {found!r}, kept {kept!r}"]


def written(value: Any, depth: int = 0) -> str:
    """JSON with a line for each answer and no more."""
    if depth < 2 and isinstance(value, dict) and value and (depth == 0 or any(isinstance(each, dict) for each in value.values())):
        gap = " " * (depth + 1)
        return "{\n" + ",\n".join(f"{gap}{json.dumps(key)}: {written(each, depth + 1)}" for key, each in value.items()) + f"\n{gap[1:]}}}"
    return json.dumps(value, ensure_ascii=False)


def kept(name: str, found: dict[str, Any]) -> None:
    """Compare answers with those kept under a name."""
    path, found = FOLDER / f"{name}.json", plain(found)
    if os.environ.get("GOLDEN") == "write":
        path.write_text(written(found) + "\n", encoding="utf-8")
    lines = differences(found, json.loads(path.read_text(encoding="utf-8")))
    assert not lines, f"{len(lines)} answers differ from {path.name}:\n" + "\n".join(lines[:12])


def main() -> None:
    """`python -m tests.golden`: write all answers anew, and say which files moved."""
    import subprocess
    import sys

    root = FOLDER.parent.parent
    users = sorted({str(path) for path in FOLDER.parent.rglob("test_*.py") if "tests.golden import" in path.read_text(encoding="utf-8")})
    subprocess.run([sys.executable, "-m", "pytest", "-q", *users], cwd=root, env={**os.environ, "GOLDEN": "write"}, check=False)
    subprocess.run(["git", "diff", "--stat", "--", str(FOLDER)], cwd=root, check=False)


if __name__ == "__main__":
    main()
