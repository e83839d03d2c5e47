"""Errors a user can mend: one line that names file, line and key and says what was expected."""

from __future__ import annotations

from pathlib import Path


class InputError(ValueError):
    """Bad input, told in one line as `file:line: key: message`.

    Args:
        message: what is wrong and what was expected.
        path: the file, if there is one.
        line: line number in it, counted from 1.
        key: the key, column or option that is wrong.
    """

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None, key: str | None = None) -> None:
        self.message, self.path, self.line, self.key = message, path, line, key
        where = "" if path is None else str(path) if line is None else f"{path}:{line}"
        super().__init__(": ".join(part for part in (where, key, message) if part))
