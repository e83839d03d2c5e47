"""What a committee asks for: the table of licences lists the lock, the version is one, the estimate of a build learns from the run."""

import json
import re
import tomllib

import pytest
import yaml

from analysis.artifact.publishing.build import slowdown
from analysis.paths import ROOT
from analysis.tables import read_csv
from tests.checks.environment import NOT_HERE, canonical, licence, licences, pins


def test_every_package_of_the_lock_has_its_row():
    kept = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    cells = [line.split("|") for line in kept.split("## Data of others")[0].splitlines() if "pypi.org" in line]
    rows = {f"{name.split(']')[0].strip(' [')}=={version.strip()}" for _, name, version, *_ in cells}
    assert rows == {pin.split(" ; ")[0].split("[")[0] for pin in pins()}, "python -m tests.checks.environment write writes it again"
    dated = read_csv(ROOT / "data" / "sources" / "lock_dates.csv", dtype=str)
    known = {f"{row.name}=={row.version}" for row in dated.itertuples(index=False)}
    assert {f"{canonical(row.partition('==')[0])}=={row.partition('==')[2]}" for row in rows} == known, "make lock brings the dates"
    assert all(re.fullmatch(r" \d{4}-\d\d-\d\d ", cell[3]) for cell in cells)
    ours, theirs = kept.split("## Data of others")
    assert ours.count(NOT_HERE) < 12 and "stated in its files only" not in ours
    assert "| Apache-2.0 |" in theirs
    assert licences().split("## Data of others")[0].count("| [") == len(rows)


def test_a_licence_is_what_the_package_states():
    assert licence("numpy").startswith("BSD-3-Clause") and licence("no-such-package") == NOT_HERE


def test_the_estimate_learns_from_the_run():
    costs = {"a": 10.0, "b": 30.0}
    assert slowdown({}, costs) == 1.0
    assert slowdown({"a": {"wall_s": 20.0}, "new": {"wall_s": 500.0}}, costs) == pytest.approx(40 / 30)
    assert slowdown({"a": {"wall_s": 20.0}, "b": {"wall_s": 60.0}}, costs, doubt_s=0.0) == 2.0


def test_the_version_is_one():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    deposit = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["version"] == deposit["version"] == project["version"]
    assert cited["title"] == deposit["title"] and cited["license"] == deposit["license"]
