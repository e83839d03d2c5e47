"""Keep a trace unreadable, at rest or from the moment it is collected: AES-256-GCM in chunks, so that a wrong key, a flipped byte and a
missing end are all told.

A sealed file is MAGIC, a random prefix of 7 bytes, then chunks of ciphertext and tag. The nonce of chunk i is the prefix, i (4 bytes, big
endian) and 1 for the last chunk, 0 before: chunks can be neither cut off nor moved.
Source: NIST SP 800-38D; the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizar, CRYPTO 2015.
"""

from __future__ import annotations

import io
import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from analysis.errors import InputError
from analysis.tables import check_output, write_atomic

MAGIC = b"sealed trace 2\n"
KEY_BYTES = 32
CHUNK, _TAG, _PREFIX = 1 << 15, 16, 7


def read_key(path: str | Path) -> bytes:
    """Read a key of 32 bytes, raw or as 64 hexadecimal digits."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the key: {error.strerror}", path=path) from error
    if len(data) != KEY_BYTES:
        try:
            data = bytes.fromhex(data.decode("ascii").strip())
        except ValueError:
            data = b""
    if len(data) != KEY_BYTES:
        raise InputError(f"not a key: expected {KEY_BYTES} bytes, or {2 * KEY_BYTES} hexadecimal digits", path=path)
    return data


def write_key(path: str | Path) -> None:
    """Write a new random key, readable by its owner only; never over a file that exists."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InputError(f"cannot write the key: {error.strerror}", path=path) from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(KEY_BYTES) + "\n")


def _nonce(prefix: bytes, chunk: int, last: bool) -> bytes:
    return prefix + chunk.to_bytes(4, "big") + bytes([last])


class SealedWriter:
    """Encrypts what is written to it, chunk by chunk: no plain byte reaches the file, which appears when all is written.

    Args:
        target: the sealed file.
        key: of 32 bytes.
    """

    def __init__(self, target: str | Path, key: bytes) -> None:
        self.target = Path(target)
        self.temporary = self.target.with_name(f".{self.target.name}.{os.getpid()}")
        self.temporary.unlink(missing_ok=True)
        self.file = self.temporary.open("xb")
        self.cipher, self.prefix, self.waiting, self.chunk = AESGCM(key), secrets.token_bytes(_PREFIX), bytearray(), 0
        self.file.write(MAGIC + self.prefix)

    def _encrypt(self, last: bool) -> None:
        self.file.write(self.cipher.encrypt(_nonce(self.prefix, self.chunk, last), bytes(self.waiting[:CHUNK]), MAGIC))
        del self.waiting[:CHUNK]
        self.chunk += 1

    def write(self, data: bytes) -> None:
        """Take some bytes; at most a chunk of them waits for its cipher."""
        self.waiting += data
        while len(self.waiting) > CHUNK:  # the last one is marked as such, so one chunk waits
            self._encrypt(False)

    def __enter__(self) -> SealedWriter:
        return self

    def __exit__(self, failed: type[BaseException] | None, *rest: object) -> None:
        try:
            if failed is None:
                self._encrypt(True)
                self.file.close()
                self.temporary.replace(self.target)
        finally:
            self.file.close()
            self.temporary.unlink(missing_ok=True)


def seal(source: str | Path, target: str | Path, key: bytes) -> None:
    """Encrypt a file; the target appears when it is complete.

    Raises:
        InputError: the source cannot be read or the target not be written.
    """
    check_output(target, source)
    try:
        with Path(source).open("rb") as reader, SealedWriter(target, key) as writer:
            while block := reader.read(CHUNK):
                writer.write(block)
    except OSError as error:
        raise InputError(f"cannot seal: {error.strerror}", path=error.filename or source) from error


def unseal(path: str | Path, key: bytes) -> io.BytesIO:
    """Decrypt a sealed file into memory; nothing of it is given unless all of it is genuine.

    Raises:
        InputError: not sealed, another key, truncated or changed.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the trace: {error.strerror}", path=path) from error
    start = len(MAGIC) + _PREFIX
    if not data.startswith(MAGIC) or len(data) < start + _TAG:
        raise InputError("not a sealed trace, or cut off in its head", path=path)
    cipher, prefix, plain = AESGCM(key), data[len(MAGIC) : start], io.BytesIO()
    places = range(start, len(data), CHUNK + _TAG)
    try:
        for chunk, place in enumerate(places):
            last = chunk == len(places) - 1
            plain.write(cipher.decrypt(_nonce(prefix, chunk, last), data[place : place + CHUNK + _TAG], MAGIC))
    except InvalidTag as error:
        raise InputError("wrong key, or the sealed trace is truncated or changed", path=path) from error
    plain.seek(0)
    return plain


def unseal_file(source: str | Path, target: str | Path, key: bytes) -> None:
    """Decrypt a sealed file into another; the target appears when all of it is genuine.

    Raises:
        InputError: as `unseal`, or the target cannot be written.
    """
    check_output(target, source)
    write_atomic(target, unseal(source, key).getvalue())
