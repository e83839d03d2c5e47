"""Where does a fact come from, and may a study that leaves something out read it?

Every per-device fact that a model reads carries a `source` of one of three kinds: `documented: ` (a data sheet, manual or page),
`measured: ` (a dataset, whose rows then may not be what a study leaves out) or `assumed: ` (a round figure, with its reason).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

KINDS = ("documented", "measured", "assumed")


def _checked(source: str) -> str:
    kind, _, rest = source.partition(": ")
    if kind not in KINDS or not rest.strip():
        raise ValueError(f"a source starts with one of {', '.join(f'{k}: ' for k in KINDS)}and says where; got {source!r}")
    return source


Source = Annotated[str, AfterValidator(_checked)]
"""Text of the form `kind: where`."""


def is_measured(source: str) -> bool:
    """Whether the fact was read off measurements."""
    return source.startswith("measured: ")
