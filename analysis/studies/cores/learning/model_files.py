"""Our trained network: its arrays, the cycles that it expects of an instruction, and its safetensors file with what it was trained on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from analysis.documents import is_file
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.cores.learning.program_features import CLASSES, NAMES, OPCLASSES, PLACES, ProgramFeatures
from analysis.tables import write_atomic

FOLDER = DATA / "models" / "neuroscalar"
TRUNK = "program features, shared trunk"


@dataclass(frozen=True)
class TrunkShape:
    """Size of the network.

    Attributes:
        designs: heads.
        classes: latency classes a head.
        mixed: width of the layer in front of the recurrence and of the one behind it.
        hidden: state of the recurrence.
        embedded: numbers for an operation class.
    """

    designs: int
    classes: int = CLASSES.count
    mixed: int = 64
    hidden: int = 64
    embedded: int = 8


def memory_width(designs: int) -> int:
    """Numbers remembered of a place in the code: mean logarithm and share of zeros on each design, and how often it was seen."""
    return 2 * designs + 1


def trunk_shapes(shape: TrunkShape) -> dict[str, tuple[int, ...]]:
    """Every parameter with its shape."""
    width = len(NAMES) + 2 * shape.designs + shape.embedded + memory_width(shape.designs)
    return {
        "opclass": (OPCLASSES, shape.embedded),
        "mix.weight": (shape.mixed, width),
        "mix.bias": (shape.mixed,),
        "gru.weight_ih": (3 * shape.hidden, shape.mixed),
        "gru.weight_hh": (3 * shape.hidden, shape.hidden),
        "gru.bias_ih": (3 * shape.hidden,),
        "gru.bias_hn": (shape.hidden,),
        "join.weight": (shape.mixed, shape.hidden + shape.mixed),
        "join.bias": (shape.mixed,),
        "heads.weight": (shape.designs * shape.classes, shape.mixed),
        "heads.bias": (shape.designs * shape.classes,),
        "sketch": (shape.designs, shape.classes, shape.classes),
    }


@dataclass(frozen=True)
class Trunk:
    """A trained network, all that prediction needs.

    Attributes:
        parameters: by name.
        designs: name of each head.
        class_means: mean latency of each class on each design in training, float32 (designs, classes).
        memory: what training saw at each place in the code, float16 (PLACES, memory_width); see `remember`.
        residual: mean of true less first-order cycles at each place on each design in training, float16 (PLACES, designs); see `residuals`.
    """

    parameters: dict[str, Any]
    designs: tuple[str, ...]
    class_means: NDArray[np.float32]
    memory: NDArray[np.float16]
    residual: NDArray[np.float16]


def expected_cycles(trunk: Trunk, features: ProgramFeatures, where: slice | NDArray[np.int64]) -> NDArray[np.float32]:
    """Cycles since the previous instruction retired: the first-order model's and the mean residual of the place, shape (n, designs).

    Args:
        where: which instructions of the trace.
    """
    return np.asarray(features.step[where] + trunk.residual[features.place[where]].astype(np.float32))


def model_path(name: str) -> Path:
    """File of a shipped model (`ours`), or the path itself when it names a file.

    Raises:
        InputError: no such model.
    """
    path = Path(name)
    if path.suffix == ".safetensors" and is_file(path):
        return path
    shipped = FOLDER / f"{name}.safetensors"
    if not is_file(shipped):
        known = ", ".join(sorted(file.stem for file in FOLDER.glob("*.safetensors")))
        raise InputError(f"no such model; known: {known}, or the path of a .safetensors file", key=name)
    return shipped


def read_arrays(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays and text of a safetensors file.

    Raises:
        InputError: no such file, not a safetensors file, or a number in it that is not finite.
    """
    try:
        with safe_open(str(path), framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            text = dict(file.metadata() or {})
    except FileNotFoundError:
        raise InputError("no such model", path=path) from None
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"not a complete safetensors file ({error})", path=path) from None
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise InputError("expected finite numbers", path=path, key=name)
    return arrays, text


def _told(text: dict[str, str], key: str, path: str | Path) -> object:
    try:
        return json.loads(text[key])
    except (KeyError, ValueError) as error:
        raise InputError("missing from the model's text, or not JSON", path=path, key=key) from error


def write_trunk(trunk: Trunk, path: str | Path, about: dict[str, str]) -> None:
    """Write our network.

    Args:
        about: what it was trained on and how, as text.
    """
    arrays = {name: np.asarray(value) for name, value in trunk.parameters.items()}
    arrays |= {"class_means": trunk.class_means, "memory": trunk.memory, "residual": trunk.residual}
    text = {"kind": TRUNK, "designs": json.dumps(trunk.designs), "features": json.dumps(NAMES), **about}
    write_atomic(Path(path), save(arrays, metadata=text))


def read_trunk(path: str | Path) -> Trunk:
    """Read our network.

    Raises:
        InputError: of another kind, other features than this code's, an array missing or of another shape.
    """
    arrays, text = read_arrays(path)
    if text.get("kind") != TRUNK:
        raise InputError(f"expected a model of kind {TRUNK!r}, got {text.get('kind')!r}", path=path, key="kind")
    if _told(text, "features", path) != list(NAMES):
        raise InputError("was trained on other features than this version computes; train it again (make full)", path=path, key="features")
    listed = _told(text, "designs", path)
    if not isinstance(listed, list) or not listed or not all(isinstance(name, str) for name in listed):
        raise InputError(f"expected a list of names, got {listed!r}", path=path, key="designs")
    designs = tuple(listed)
    shape = TrunkShape(len(designs), CLASSES.count, *(arrays[n].shape[k] for n, k in (("mix.bias", 0), ("gru.bias_hn", 0)) if n in arrays))
    wanted = {
        **trunk_shapes(shape),
        "class_means": (len(designs), CLASSES.count),
        "memory": (PLACES, memory_width(len(designs))),
        "residual": (PLACES, len(designs)),
    }
    for name, size in wanted.items():
        if name not in arrays or arrays[name].shape != size:
            got = arrays[name].shape if name in arrays else "nothing"
            raise InputError(f"expected an array of shape {size}, got {got}", path=path, key=name)
    parameters = {name: arrays[name] for name in trunk_shapes(shape)}
    return Trunk(parameters, designs, arrays["class_means"], arrays["memory"], arrays["residual"])
