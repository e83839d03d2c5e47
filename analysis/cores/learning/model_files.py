"""Weights of a trained network as a safetensors file: arrays by name, and what they were trained on as text."""

from __future__ import annotations

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from analysis.cores.learning.latency_target import LatencyClasses
from analysis.cores.learning.program_features import NAMES, PLACES
from analysis.cores.learning.shared_trunk import TrunkShape, memory_width, trunk_shapes
from analysis.cores.learning.trunk_training import CLASSES, Trunk
from analysis.documents import is_file
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import write_atomic

FOLDER = DATA / "models" / "neuroscalar"
TRUNK = "program features, shared trunk"


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
        trunk: the network.
        path: the file.
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
    shape = TrunkShape(
        len(designs), LatencyClasses().count, *(arrays[n].shape[k] for n, k in (("mix.bias", 0), ("gru.bias_hn", 0)) if n in arrays)
    )
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
    parameters = {name: jnp.asarray(arrays[name]) for name in trunk_shapes(shape)}
    return Trunk(parameters, designs, arrays["class_means"], arrays["memory"], arrays["residual"])
