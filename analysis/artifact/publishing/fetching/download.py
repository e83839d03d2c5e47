"""Fetches one pinned file: resumed where it stopped, refused unless size and SHA-256 are the pinned ones."""

from __future__ import annotations

import hashlib
import http.client
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from analysis.errors import InputError

BLOCK = 1 << 16
TIMEOUT_S = 30.0


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class TooLong(ValueError):
    """More arrives than was announced: not the pinned bytes, and it may not end."""


def _append(url: str, part: Path, size: int, seen: Callable[[int], None]) -> None:
    """Ask for what `part` lacks and append it; a server that cannot resume sends all, and the part is begun anew."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urlopen(request, timeout=TIMEOUT_S) as answer:
        resumed = answer.status == 206
        with part.open("ab" if resumed else "wb") as stream:
            while block := answer.read(BLOCK):
                if stream.tell() + len(block) > size:
                    raise TooLong(f"sends more than the {size:,} bytes announced")
                stream.write(block)
                seen(stream.tell())


def download(
    url: str, target: Path, size: int, sha256: str, seen: Callable[[int], None] = lambda _: None, attempts: int = 4, pause_s: float = 1.0
) -> bool:
    """Put a file in place, verified; one that is there already and right is not asked for again.

    What has arrived is kept beside it as `<name>.part`, so that a broken connection or a killed run goes on where it stopped.

    Args:
        size: its pinned size (bytes).
        seen: told how many bytes have arrived.
        attempts: tries before giving up on a connection that breaks.
        pause_s: wait before the second try (s); doubles each time.
    Returns:
        Whether anything had to be fetched.
    """
    if target.exists() and target.stat().st_size == size and digest(target) == sha256:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    if part.exists() and part.stat().st_size >= size:
        part.unlink()
    trouble = ""
    for attempt in range(attempts):
        if attempt:
            time.sleep(pause_s * 2 ** (attempt - 1))
        try:
            _append(url, part, size, seen)
        except TooLong as error:
            part.unlink()
            raise InputError(str(error), path=url) from None
        except HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise InputError(f"cannot be fetched: {error.code} {error.reason}", path=url) from None
            trouble = f"{error.code} {error.reason}"
            continue
        except (URLError, http.client.HTTPException, OSError) as error:
            trouble = str(getattr(error, "reason", "") or error) or type(error).__name__
            continue
        arrived = part.stat().st_size
        if arrived >= size:
            break
        trouble = f"{arrived} bytes arrived; expected {size}"
    else:
        raise InputError(f"cannot be fetched: {trouble}; what arrived is kept, run again to go on", path=url)
    if part.stat().st_size != size:
        arrived = part.stat().st_size
        part.unlink()
        raise InputError(f"is {arrived} bytes; the pinned file has {size}", path=url)
    if digest(part) != sha256:
        part.unlink()
        raise InputError("digest differs from the pinned one", path=url)
    part.replace(target)
    return True
