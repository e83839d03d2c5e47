"""Which contradictions matter most, and what is the arithmetic of each? Their words are in `data/claims/contradictions.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field

from analysis.artifact.claims import arithmetic as plain
from analysis.artifact.claims import arithmetic_neuroscalar as neuroscalar
from analysis.artifact.claims.check import value_of
from analysis.artifact.claims.check_files import Source
from analysis.artifact.claims.results import Results
from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA, RESULTS

PAIRWISE = "published/neuroscalar_pairwise"


class Contradiction(Strict):
    """One contradiction: what is printed, what follows (with `values` by name), and the claims that it concerns."""

    title: str
    document: str
    printed: str
    follows: str
    claims: str


class _File(Strict):
    values: dict[str, Source] = Field(default_factory=dict)
    contradictions: tuple[Contradiction, ...]


def values(file: _File) -> dict[str, Any]:
    """What the contradictions quote, by name: what was seen in the repository, what was looked up, what follows from the documents' own."""
    seen = pd.concat([plain.printed_table(f"claims/observed/{name}") for name in ("repository", "look_ups")])
    return {
        **{str(name): value for name, value in zip(seen["id"], seen["value"], strict=True)},
        **{name: value_of(source, Results(RESULTS)) for name, source in file.values.items()},
        "zero_pct": 100.0 - plain.of_column(PAIRWISE, "nonzero", "mean"),
        "gpu_epoch_s": neuroscalar.gpu_epoch_s(neuroscalar.gpu_mips("RTX 4090")),
    }


def listing(path: Path = DATA / "claims" / "contradictions.yaml") -> pd.DataFrame:
    """The list, numbered, with every number computed."""
    file = read_yaml(path, _File)
    found, rows = values(file), []
    for number, one in enumerate(file.contradictions, start=1):
        try:
            follows = one.follows.format(**found)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            message = f"{error} does not name or format a value; known: {', '.join(found)}"
            raise InputError(message, path=path, key=f"contradictions.{number}.follows") from None
        rows.append({"number": number, **dict(one), "follows": follows})
    return pd.DataFrame(rows)
