"""The README and `make help` print times that were measured on a fresh clone, from one file."""

import re
import shutil
import subprocess

import pytest

from analysis.paths import ROOT
from analysis.tables import read_csv

COSTS = read_csv(ROOT / "notebooks" / "make_costs.csv", required=["target", "seconds", "cpu_seconds", "how"])
SECONDS = {row.target: row.seconds for row in COSTS.itertuples()}


def test_readme_has_the_measured_times_and_no_others():
    found = {}
    for target, time in re.findall(r"^\| `make (\w+)` \|[^|]*\|([^|]*)\|", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE):
        numbers = re.findall(r"\d+(?:\.\d+)?", time)
        if numbers:
            found[target] = [float(each) for each in numbers]
    assert found == {target: [float(seconds)] for target, seconds in SECONDS.items()}


@pytest.mark.skipif(not (shutil.which("make") and shutil.which("awk")), reason="make or awk is not installed: apt-get install make mawk")
def test_help_has_the_measured_times_and_no_others():
    text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {t: float(s) for t, s in re.findall(r"^make (\w+) .*\((\d+) s on", text, re.MULTILINE)} == SECONDS
    assert len(re.findall(r"\d+ (?:s|min)\b", text)) == len(SECONDS)
