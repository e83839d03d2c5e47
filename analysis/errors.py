"""Errors a user can mend: one line that names file, line and key and says what was expected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

LONGEST_VALUE = 200  # characters of a cell, key or path that an error repeats
LONGEST_MESSAGE = 1000
_QUOTED = re.compile(rf"'[^']{{{LONGEST_VALUE},}}'|\"[^\"]{{{LONGEST_VALUE},}}\"|[^\s'\"]{{{LONGEST_VALUE},}}")


def shown(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Text of a file as a terminal may show it: one line, no control characters or changes of direction, cut in the middle."""
    if len(text) > longest:
        text = f"{text[: longest * 2 // 3]}...{text[-longest // 4 :]}"
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


MOST_TOLD = 6  # errors of one file


class InputError(ValueError):
    """Bad input, told in one line as `file:line: key: message`; what it repeats of the input is escaped and cut."""

    def __init__(self, message: str, *, path: str | Path | None = None, line: int | None = None, key: str | None = None) -> None:
        self.message, self.path, self.line, self.key = message, path, line, key
        named = None if path is None else shown(str(path), 2 * LONGEST_VALUE)
        where = "" if named is None else named if line is None else f"{named}:{line}"
        told = shown(_QUOTED.sub(lambda found: shown(found[0], LONGEST_VALUE), message)) if len(message) > LONGEST_VALUE else shown(message)
        super().__init__(": ".join(part for part in (where, shown(str(key), LONGEST_VALUE) if key else key, told) if part))

    @property
    def reason(self) -> str:
        """What a table says of a row: the message, with file, line and key where another file than the table is wrong."""
        return self.message if self.path is None else str(self)

    def of(self, path: str | Path | None) -> InputError:
        """The error, in this file unless it names one."""
        return self if self.path is not None else InputError(self.message, path=path, line=self.line, key=self.key)


def together(errors: Sequence[InputError]) -> InputError:
    """Several errors of one file as one line: the first with its file, line and key, then the others, at most `MOST_TOLD` in all."""
    first, *others = errors
    more = [": ".join(part for part in (f"line {one.line}" if one.line else "", one.key or "", one.message) if part) for one in others]
    if len(errors) > MOST_TOLD:
        more[MOST_TOLD - 1 :] = [f"and {len(errors) - MOST_TOLD} more"]
    return InputError("; ".join([first.message, *more]), path=first.path, line=first.line, key=first.key)


class DatasetMissing(FileNotFoundError):
    """The dataset is not on this machine; the message says how to get it."""
