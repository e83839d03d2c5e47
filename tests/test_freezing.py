"""Freezing: a piece that is done is not done again, one that was cut short is, and provenance names commit and inputs."""

import hashlib
from pathlib import Path

import pandas as pd
import pytest

from analysis.studies.freezing import Freeze, digests


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    ran = []

    def piece(name: str, fails: bool = False):
        def run():
            ran.append(name)
            if fails:
                raise KeyboardInterrupt
            return {"scores": pd.DataFrame({"piece": [name], "score": [len(name) / 3]}), "notes": pd.DataFrame()}

        return run

    pieces = Freeze(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        pieces.run({"a": piece("a"), "bb": piece("bb", fails=True), "ccc": piece("ccc")})
    assert pieces.done() == ["a"]
    pieces.run({"a": piece("a"), "bb": piece("bb"), "ccc": piece("ccc")}, only=["a", "bb"])
    assert ran == ["a", "bb", "bb"] and pieces.done() == ["a", "bb"]
    assert pieces.joined("scores").to_dict("list") == {"piece": ["a", "bb"], "score": [1 / 3, 2 / 3]}
    assert pieces.read("a", "notes").empty and not pieces.path("a", "notes").exists()


def test_digests_are_those_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    assert digests({"x": tmp_path / "x"}) == {"x": hashlib.sha256(b"abc").hexdigest()}
