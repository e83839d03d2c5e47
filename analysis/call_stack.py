"""A call stack in one piece, for what runs long.

CPython (3.11 and later) keeps the frames of calls in chunks of 16 KiB. A loop whose calls cross the end of a chunk gets the next one
from the operating system and gives it back at every call, which is a sixth of a compilation by numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def in_one_piece(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """What a function returns; the frames of all calls below it lie in one chunk of 2 MiB."""
    return function(*arguments, **named)


# A chunk is the power of two above the frame that needs it. This frame says that it needs 1.1 of the 2 MiB, and leaves them untouched.
in_one_piece.__code__ = in_one_piece.__code__.replace(co_stacksize=140_000)
