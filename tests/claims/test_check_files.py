"""A check file with anything wrong is refused with file, line and key."""

import pytest

from analysis.claims.check_files import read_checks
from analysis.errors import InputError

GOOD = """a.claim:
  check: {table: notebook/scores, where: {tool: VIDUR}, column: score}
  printed: 2.1
  tolerance: 0.05
  expect: 2.1
  verdict: reproduced
"""


def read(tmp_path, **files):
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    return read_checks(tmp_path)


def test_good_file(tmp_path):
    check, path = read(tmp_path, room=GOOD)["a.claim"]
    assert (check.check.table, check.printed, path.name) == ("notebook/scores", 2.1, "room.yaml")


def test_a_claim_in_two_files_is_an_error_that_names_both(tmp_path):
    with pytest.raises(InputError, match=r"second\.yaml: a\.claim: claim is already checked in first\.yaml"):
        read(tmp_path, first=GOOD, second=GOOD)


def test_a_claim_twice_in_one_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"room\.yaml:7: a\.claim: given twice"):
        read(tmp_path, room=GOOD + GOOD)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("verdict: reproduced", "verdict: fine", r"room\.yaml:6: a\.claim\.verdict"),
        ("tolerance: 0.05", "tolerence: 0.05", r"room\.yaml:4: a\.claim\.tolerence: unknown key"),
        ("tolerance: 0.05", "tolerance: -1", "`tolerance` must be zero or positive"),
        ("  expect: 2.1\n", "", "needs `printed` and `expect`"),
        ("column: score", "kolumn: score", "unknown key"),
        (", column: score", "", "needs the `column`"),
        ("notebook/scores", "scores", "notebook/table"),
        ("table: notebook/scores, where: {tool: VIDUR}, column: score", "function: os.system", "analysis.module:name"),
        ("verdict: reproduced", "verdict: not yet run", "cannot have a `check`"),
    ],
)
def test_bad_file_is_refused(tmp_path, old, new, message):
    assert old in GOOD
    with pytest.raises(InputError, match=message):
        read(tmp_path, room=GOOD.replace(old, new))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n  verdict: not reproducible\n", "needs a `note`"),
        ("a:\n  verdict: reproduced\n  note: trust me\n", "needs a `check`"),
        ("a:\n  verdict: cited (verified)\n  note: in the paper\n", "needs the address"),
    ],
)
def test_a_verdict_without_reason_is_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, room=text)


def test_no_checks_at_all_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no checks here"):
        read_checks(tmp_path)
