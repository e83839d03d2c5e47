"""The tools that the chooser ranks; in the page, this file is replaced by what it returns here (see `bundle`)."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def tools() -> list[dict[str, Any]]:
    """`analysis.survey.choosing.records`."""
    from analysis.survey.choosing import records

    return records()
