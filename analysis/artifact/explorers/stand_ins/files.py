"""Stands for `analysis.configs` and `analysis.paths` in the page: files that CPython has read and validated at build time."""

# mypy: ignore-errors

from pydantic import BaseModel

from analysis.artifact.explorers.page_data import FILES


class Strict(BaseModel):
    """The configurations' base class; checks nothing."""


Source = str  # checked when the files were read


MOST_COUNT = 1_000_000_000


class AlsoWritten:
    """A mark in a type for the schemas that commands print; not read."""

    def __init__(self, *forms):
        self.forms = forms


class Path:
    """A path in the repository; as much of pathlib as the models use."""

    def __init__(self, *parts):
        self.text = "/".join(str(part) for part in parts if str(part))

    def __truediv__(self, other):
        return Path(self.text, other)

    def __str__(self):
        return self.text

    def __lt__(self, other):
        return self.text < other.text

    def glob(self, pattern):
        """Files of this folder that end as the pattern does."""
        ending = pattern.lstrip("*")
        return [Path(name) for name in FILES if name.startswith(self.text + "/") and name.endswith(ending)]


DATA = Path("data")


def decode(raw):
    """Objects as `analysis.artifact.explorers.bundle.encode` wrote them."""
    if isinstance(raw, list):
        return tuple(decode(item) for item in raw)
    if isinstance(raw, dict):
        if "$" not in raw:
            return {key: decode(value) for key, value in raw.items()}
        module, _, name = raw["$"].rpartition(".")
        made = getattr(__import__(module, fromlist=[name]), name)()
        made.__dict__.update({key: decode(value) for key, value in raw["fields"].items()})
        return made
    return raw


def read_yaml(path, model=None):
    """What CPython read from this file at build time."""
    return decode(FILES[str(path)])
