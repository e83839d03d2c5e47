"""How many lines does a file of this repository take?"""

from __future__ import annotations

from analysis.checkable import TableName, checkable
from analysis.errors import InputError
from analysis.paths import ROOT


@checkable
def yaml_lines(file: TableName, section: str | None = None) -> int:
    """Lines of a YAML file, or of one top-level section with its own line, without blank lines and comments.

    Args:
        file: path from the root of the repository.
        section: the top-level key; default the whole file.
    Raises:
        InputError: no such file or section.
    """
    path = ROOT / file
    if not path.is_file():
        raise InputError("no such file", path=file)
    count, inside = 0, False
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            inside = section is None or line.split(":")[0] == section
        count += inside
    if not count:
        raise InputError("no such section", path=file, key=section)
    return count
