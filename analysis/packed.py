"""What is packed in a file? One unpacking with limits; it imports little, for the process that reads programs begins with it."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from analysis.errors import InputError

MOST_UNPACKED_BYTES = 256 << 20  # of a file that is packed: a thousand times the size of its file, at worst
_OTHER_PACKING = (b"PK\x03\x04", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")  # ZIP, bzip2, xz, zstandard


def unpacked(path: str | Path) -> io.BytesIO | None:
    """What is packed in a file with gzip; `None` where the file is not packed."""
    try:
        with Path(path).open("rb") as stream:
            begins = stream.read(6)
            if begins.startswith(_OTHER_PACKING):
                raise InputError("is packed in a form that is not read; gzip is", path=path)
            if not begins.startswith(b"\x1f\x8b"):
                return None
            stream.seek(0)
            content = gzip.GzipFile(fileobj=stream).read(MOST_UNPACKED_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"cannot be unpacked: {error}", path=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    if len(content) > MOST_UNPACKED_BYTES:
        raise InputError(f"holds more than {MOST_UNPACKED_BYTES:,} bytes when unpacked", path=path)
    return io.BytesIO(content)
