"""Where models come from: a repository whose manifests are signed; what is tampered with, unsigned or older is refused unread.

A model is a folder NAME/VERSION with manifest.json, manifest.sig (Ed25519 over the manifest's bytes, hexadecimal) and model.safetensors.
The reader knows the designer's public key beforehand and keeps, in a folder of its own, the newest version it has accepted of each model.
Not covered: a repository that simply withholds newer versions.
Source: RFC 8032 (Ed25519), FIPS 180-4 (SHA-256); rollback and tampering as in The Update Framework's list of attacks.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from analysis.errors import InputError
from analysis.tables import write_atomic

MANIFEST, SIGNATURE, MODEL = "manifest.json", "manifest.sig", "model.safetensors"
_NAME = re.compile(r"[a-z0-9][a-z0-9+._-]{0,63}")


@dataclass(frozen=True)
class Manifest:
    """What the designer signs.

    Attributes:
        name: of the model.
        version: 1, 2, ...
        design: processor design it stands for.
        sha256: of model.safetensors, hexadecimal.
        size: of it, bytes.
    """

    name: str
    version: int
    design: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Model:
    """A model that was accepted.

    Attributes:
        manifest: as signed.
        arrays: by name.
    """

    manifest: Manifest
    arrays: dict[str, NDArray]


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(f"not a model's name: {name!r}; expected small letters, digits and +._-", key="name")
    return name


def publish(repository: Path, name: str, version: int, design: str, arrays: dict[str, NDArray], private_key: Ed25519PrivateKey) -> Manifest:
    """Add a version of a model; the signature is written last.

    Raises:
        InputError: bad name, version not a positive integer, or this version is there already.
    """
    folder = repository / _check_name(name) / str(version)
    if version < 1:
        raise InputError(f"expected 1 or more, got {version}", key="version")
    if folder.exists():
        raise InputError(f"version {version} is published already: versions never change", path=folder)
    data = save_arrays({key: np.ascontiguousarray(value) for key, value in arrays.items()})
    manifest = Manifest(name, version, design, hashlib.sha256(data).hexdigest(), len(data))
    text = json.dumps(asdict(manifest), sort_keys=True, indent=1).encode() + b"\n"
    write_atomic(folder / MODEL, data)
    write_atomic(folder / MANIFEST, text)
    write_atomic(folder / SIGNATURE, private_key.sign(text).hex().encode() + b"\n")
    return manifest


def versions(repository: Path, name: str) -> list[int]:
    """Published versions of a model, ascending."""
    folder = repository / _check_name(name)
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{what} is missing or cannot be read: {error.strerror}", path=path) from error


def read_manifest(repository: Path, name: str, version: int, public_key: Ed25519PublicKey) -> Manifest:
    """Read a manifest after its signature has been verified.

    Raises:
        InputError: unsigned, signed with another key, changed, or of another model than its folder says.
    """
    folder = repository / _check_name(name) / str(version)
    if not folder.is_dir():
        raise InputError(f"no version {version}; there are: {versions(repository, name) or 'none'}", path=repository / name)
    text = _read(folder / MANIFEST, "the manifest")
    if not (folder / SIGNATURE).exists():
        raise InputError("unsigned model: refused", path=folder / SIGNATURE)
    try:
        public_key.verify(bytes.fromhex(_read(folder / SIGNATURE, "the signature").decode("ascii").strip()), text)
    except (InvalidSignature, ValueError) as error:
        raise InputError("the signature is not the designer's over this manifest: refused", path=folder / SIGNATURE) from error
    try:
        content = json.loads(text)
        manifest = Manifest(**content)
        if {key: type(value) for key, value in content.items()} != {
            f.name: {"str": str, "int": int}[str(f.type)] for f in fields(Manifest)
        }:
            raise TypeError
    except (ValueError, TypeError) as error:
        raise InputError(f"expected the keys {', '.join(f.name for f in fields(Manifest))}", path=folder / MANIFEST) from error
    if (manifest.name, manifest.version) != (name, version):
        raise InputError(f"signed for {manifest.name} {manifest.version}: refused", path=folder / MANIFEST)
    return manifest


def accepted_version(store: Path, name: str) -> int:
    """Newest version of a model that this reader has accepted, 0 for none."""
    path = store / f"{_check_name(name)}.version"
    if not path.exists():
        return 0
    text = _read(path, "the version accepted before").decode("utf-8", "replace").strip()
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InputError(f"expected a version number, got {text!r}", path=path)
    return int(text)


def fetch(repository: Path, name: str, public_key: Ed25519PublicKey, store: Path, version: int | None = None) -> Model:
    """Take a model from the repository: the signature, then the version, then the hash; only then are the arrays parsed.

    Args:
        version: None for the newest published.
        store: the reader's own folder, which remembers the versions accepted.

    Raises:
        InputError: none published, unsigned, changed, or older than one accepted before.
    """
    published = versions(repository, name)
    if not published:
        raise InputError("no version is published", path=repository / name)
    manifest = read_manifest(repository, name, published[-1] if version is None else version, public_key)
    before = accepted_version(store, name)
    path = repository / name / str(manifest.version) / MODEL
    if manifest.version < before:
        raise InputError(f"version {manifest.version} is older than {before}, accepted before: refused", path=path)
    data = _read(path, "the model")
    if len(data) != manifest.size or hashlib.sha256(data).hexdigest() != manifest.sha256:
        raise InputError("the model is not the one that was signed (SHA-256 differs): refused", path=path)
    try:
        arrays = load_arrays(data)
    except (SafetensorError, KeyError) as error:
        raise InputError("signed, but not a safetensors file", path=path) from error
    write_atomic(store / f"{name}.version", f"{manifest.version}\n".encode())
    return Model(manifest, arrays)


def update_available(repository: Path, name: str, store: Path) -> int | None:
    """The newest published version when it is newer than the accepted one, else None (nothing is read or trusted yet)."""
    published = versions(repository, name)
    return published[-1] if published and published[-1] > accepted_version(store, name) else None
