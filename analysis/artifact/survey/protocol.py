"""The survey draft's search protocol, as printed, with what of it can be repeated."""

from __future__ import annotations

from analysis.configs import Strict


class Step(Strict):
    """One step of the screening funnel: what was counted, and whether anybody can count it again."""

    step: str
    count: int
    recomputable: bool
    why: str


class Bibliographies(Strict):
    """Topic bibliographies in the draft's own public repository."""

    where: str
    files: int
    entries: int


class Protocol(Strict):
    """The protocol of data/survey/search_protocol.yaml."""

    source: str
    databases: tuple[str, ...]
    databases_elsewhere: tuple[str, ...]
    terms: str
    keyword_list: str
    topic_bibliographies: Bibliographies
    citation_tracking: tuple[str, ...]
    venues: dict[str, tuple[str, ...]]
    years: tuple[int, int]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    funnel: tuple[Step, ...]
