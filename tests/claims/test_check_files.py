"""A check file with anything wrong is refused with file, line and key."""

from decimal import Decimal

import pytest

from analysis.artifact.claims.check_files import Check, Scalar, Source, read_checks
from analysis.errors import InputError
from analysis.paths import DATA

GOOD = """a.claim:
  check: {table: notebook/scores, where: {tool: VIDUR}, column: score}
  printed: 2.1
  tolerance: 0.05
  expect: 2.1
  verdict: consistent
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
        ("verdict: consistent", "verdict: fine", r"room\.yaml:6: a\.claim\.verdict"),
        ("tolerance: 0.05", "tolerence: 0.05", r"room\.yaml:4: a\.claim\.tolerence: unknown key"),
        ("tolerance: 0.05", "tolerance: -1", "`tolerance` must be zero or positive"),
        ("  expect: 2.1\n", "", "needs `printed` \\(or `criterion`\\) and `expect`"),
        ("printed: 2.1", "printed: 2.1\n  criterion: 2.1", "either `printed` or `criterion`"),
        ("printed: 2.1", "criterion: 2.1", "a `criterion` of ours needs a `note`"),
        ("printed: 2.1", "printed: 2.1\n  relation: within", "`within` needs the two ends"),
        ("verdict: consistent", "verdict: reproduced", r"room\.yaml:6: a\.claim\.verdict"),
        ("column: score", "kolumn: score", "unknown key"),
        (", column: score", "", "needs the `column`"),
        ("notebook/scores", "scores", "notebook/table"),
        ("table: notebook/scores, where: {tool: VIDUR}, column: score", "function: os.system", "analysis.module:name"),
        ("verdict: consistent", "verdict: not yet run", "cannot have a `check`"),
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
        ("a:\n  verdict: consistent\n  note: trust me\n", "needs a `check`"),
        ("a:\n  verdict: cited (verified)\n  note: in the paper\n", "needs the address"),
    ],
)
def test_a_verdict_without_reason_is_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, room=text)


def test_no_checks_at_all_is_an_error(tmp_path):
    with pytest.raises(InputError, match="no checks here"):
        read_checks(tmp_path)


def rounding(printed: Scalar) -> float:
    """Half a unit of the last digit in which a number is written: 0.0005 for 0.177, 0.5 for 25 and for 25.0; zero for text."""
    if isinstance(printed, (bool, str)):
        return 0.0
    exponent = Decimal(repr(printed)).normalize().as_tuple().exponent
    return 0.5 * 10.0 ** min(int(exponent), 0)


def loose_without_reason(checks):
    """Claims whose tolerance is wider than the rounding of the printed value although `note` does not speak of the tolerance."""
    found = []
    for claim_id, (check, _) in checks.items():
        if check.check is None or "tolerance" in check.note:
            continue
        references = check.reference if isinstance(check.reference, list) else [check.reference]
        for value in references:
            if isinstance(value, (bool, str)) or value is None:
                continue
            if max(check.tolerance or 0.0, (check.relative or 0.0) * abs(value)) > rounding(value) * (1 + 1e-9):
                found.append(claim_id)
                break
    return found


def loose(printed, **options):
    source = Source(function="analysis.artifact.claims.arithmetic:total", args={"terms": [1]})
    check = Check(check=source, printed=printed, expect=printed, verdict="consistent", **options)
    return loose_without_reason({"a": (check, DATA)}) == ["a"]


@pytest.mark.parametrize(
    ("printed", "options", "wide"),
    [
        # half a unit of the last digit printed is the rounding of the printed value; anything above needs its reason
        (0.177, {"tolerance": 0.0005}, False),
        (0.177, {"tolerance": 0.001}, True),
        (0.177, {"tolerance": 0.001, "note": "the tolerance is a whole unit: the run was rebuilt in part"}, False),
        (25, {"tolerance": 0.5}, False),
        (25, {"tolerance": 0.51}, True),
        (85, {"relative": 0.005}, False),
        (85, {"relative": 0.05}, True),
        ([5, 20], {"relation": "within", "tolerance": 1}, True),
        (20, {"relation": "at most", "tolerance": 1}, True),
        (20, {"relation": "at most"}, False),
        ("CGO", {}, False),
    ],
)
def test_a_tolerance_looser_than_rounding_needs_its_reason(printed, options, wide):
    assert loose(printed, **options) == wide


def test_no_check_has_a_loose_tolerance_without_a_reason():
    assert loose_without_reason(read_checks(DATA / "claims" / "checks")) == []
