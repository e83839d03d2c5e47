"""A verdict follows from the printed value, the value got and the tolerance, and from nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.artifact.claims.check_files import Check, Source, read_checks
from analysis.artifact.claims.verdicts import agrees, as_expected, difference, verdict_of
from analysis.paths import DATA

SOURCE = Source(function="analysis.artifact.claims.arithmetic:total", args={"terms": [1]})
numbers = st.floats(-1e9, 1e9, allow_nan=False)


def check(printed, verdict="consistent", **options):
    return Check(check=SOURCE, printed=printed, expect=options.pop("expect", printed), verdict=verdict, **options)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e3), st.floats(0, 2).filter(lambda step: abs(step - 1) > 1e-4), st.sampled_from([-1, 1]))
def test_equal_means_within_the_tolerance_on_either_side(printed, tolerance, step, side):
    assert agrees(printed + side * step * tolerance, printed, check(printed, tolerance=tolerance)) == (step < 1)
    assert agrees(printed, printed, check(printed)) and not agrees(printed + side * step * tolerance + side, printed, check(printed))


@given(numbers, numbers)
def test_strict_relations_are_those_of_numbers(got, printed):
    entry = check(printed)
    assert agrees(got, printed, entry, "less than") == (got < printed)
    assert agrees(got, printed, entry, "more than") == (got > printed)


@pytest.mark.parametrize("printed", [-3.0, 0.0, 20.0])
@pytest.mark.parametrize(
    ("above", "at_most", "at_least"),
    [(-0.3, True, False), (-0.2, True, True), (0.0, True, True), (0.2, True, True), (0.3, False, True)],
)
def test_at_most_and_at_least_allow_the_tolerance_and_no_more(printed, above, at_most, at_least):
    entry = check(printed, tolerance=0.25)
    assert agrees(printed + above, printed, entry, "at most") == at_most
    assert agrees(printed + above, printed, entry, "at least") == at_least


@pytest.mark.parametrize(
    ("got", "inside"),
    [(4, False), (5, True), (12, True), (20, True), (21, False), ([5, 20], True), ([5, 21], False), (math.nan, False)],
)
def test_within_takes_both_ends_of_a_printed_range(got, inside):
    # the survey prints 5-20 lines for a configuration of ASTRA-sim; four are fewer
    assert agrees(got, [5, 20], check([5, 20], relation="within"), "within") == inside


@pytest.mark.parametrize("good", ["consistent", "cited (verified)"])
@pytest.mark.parametrize("bad", ["differs", "wrong arithmetic", "not reproducible"])
def test_a_verdict_never_crosses_sides(good, bad):
    note = "https://example.org"
    assert verdict_of(2.1, check(2.1, good, note=note)) == good
    assert verdict_of(2.1, check(2.1, bad, note=note)) == "consistent"
    assert verdict_of(2.2, check(2.1, good, note=note)) == "differs"
    assert verdict_of(2.2, check(2.1, bad, note=note)) == bad


def test_arithmetic_on_typed_numbers_is_never_called_recomputed():
    assert verdict_of(2.1, check(2.1, "recomputed")) == "consistent"


def test_a_value_of_ours_is_recomputed_unless_the_check_says_less():
    cell = "analysis.artifact.claims.arithmetic:cell"
    recorded = Source(function=cell, args={"table": "recorded/timeloop/runs", "where": {}, "column": "cycles"})
    for asked, given_ in (("recomputed", "recomputed"), ("differs", "recomputed"), ("consistent", "consistent")):
        entry = Check(check=recorded, printed=5, expect=5, verdict=asked)
        assert verdict_of(5, entry) == given_


def test_a_criterion_of_ours_is_the_reference_where_nothing_is_printed():
    entry = Check(check=SOURCE, criterion=1, expect=1, verdict="consistent", note="a threshold of ours")
    assert entry.reference == 1 and verdict_of(1, entry) == "consistent" and verdict_of(2, entry) == "differs"


def test_lists_agree_item_by_item():
    entry = check([2.0, 2.0, 1.4], tolerance=0.05)
    assert agrees([2.04, 1.96, 1.4], entry.printed, entry)
    assert not agrees([2.4, 2.0, 1.4], entry.printed, entry)
    assert not agrees([2.0, 2.0], entry.printed, entry)
    assert not agrees(2.0, entry.printed, entry)


def test_text_agrees_when_equal_and_nan_never():
    assert agrees("ArchGym", "ArchGym", check("ArchGym"))
    assert not agrees("ArchGym", "nn-Meter", check("nn-Meter"))
    assert not agrees(math.nan, 1.0, check(1.0, tolerance=1e9))


def test_expected_value_may_be_written_to_eight_digits_but_not_be_another():
    entry = check(0.333, expect=0.33333333, verdict="differs")
    assert as_expected(1 / 3, entry)
    assert not as_expected(0.3334, entry)


@pytest.mark.parametrize(
    ("got", "printed", "words"), [(2.4, 2.0, "+0.4 (+20.0 %)"), (2, 2, "0"), (3, 0, "+3"), ("a", "b", ""), (None, 1, "")]
)
def test_difference_in_words(got, printed, words):
    assert difference(got, printed) == words


@pytest.mark.parametrize(
    ("got", "printed", "words"),
    [
        (1 + 1e-13, 1.0, "0"),
        (1e6 + 1e-7, 1e6, "0"),
        (1e6 - 1e-5, 1e6, "-1e-05 (-0.0 %)"),
        (1.5e-12, 0, "+1.5e-12"),
        (-4, -2, "-2 (+100.0 %)"),
    ],
)
def test_a_difference_of_rounding_is_none(got, printed, words):
    assert difference(got, printed) == words


@pytest.mark.parametrize("printed", [-200.0, 200.0])
def test_a_relative_tolerance_is_a_share_of_the_printed_value_and_the_wider_bound_counts(printed):
    share = check(printed, relative=0.01)
    assert agrees(printed + 1.9, printed, share) and not agrees(printed + 2.1, printed, share)
    both = check(printed, relative=0.01, tolerance=0.5)
    assert agrees(printed - 1.9, printed, both) and not agrees(printed - 2.1, printed, both)
    assert agrees(printed + 2.9, printed, check(printed, relative=0.01, tolerance=3.0))


def test_what_is_expected_is_held_to_the_checks_own_tolerance_where_that_is_wider():
    assert as_expected(10.04, check(9.0, expect=10.0, relative=0.005, verdict="differs"))
    assert not as_expected(10.06, check(9.0, expect=10.0, relative=0.005, verdict="differs"))
    assert as_expected(10.4, check(9.0, expect=10.0, tolerance=0.5, verdict="differs"))


GRADE = Source(table="mtap_scores/reasons", where={"tool": "VIDUR", "dimension": "D1"}, column="points", reason="reason")
CELL = "analysis.artifact.claims.arithmetic:cell"
DRAFT = Source(function=CELL, args={"table": "claims/printed/reproducibility_scores", "column": "plan_of_10"})


@pytest.mark.parametrize("source", [GRADE, DRAFT])
def test_a_judgement_is_never_called_recomputed_nor_a_contradiction(source):
    for asked in ("recomputed", "differs", "disputed", "consistent"):
        entry = Check(check=source, printed=2, expect=2, verdict=asked)
        assert verdict_of(2, entry) == "consistent" and verdict_of(3, entry) == "disputed"
    measured = Source(function="analysis.artifact.claims.arithmetic:cell", args={"table": "recorded/timeloop/runs", "column": "cycles"})
    assert verdict_of(3, Check(check=measured, printed=2, expect=3, verdict="disputed")) == "differs"


def test_a_note_is_read_from_the_row_or_typed_but_not_both():
    with pytest.raises(ValueError, match="none is typed beside it"):
        Check(check=GRADE, printed=2, expect=2, verdict="consistent", note="grade matches")
    with pytest.raises(ValueError, match="belong to `table`"):
        Source(function="analysis.artifact.claims.arithmetic:total", args={"terms": [1]}, reason="reason")


def test_every_grade_of_ours_takes_its_note_from_the_evidence():
    checks = read_checks(DATA / "claims" / "checks")
    graded = {name: check for name, (check, _) in checks.items() if check.check is not None and check.check.table == "mtap_scores/reasons"}
    assert len(graded) == 25 and all(check.check.reason == "reason" for check in graded.values())
    assert {check.verdict for check in graded.values()} == {"consistent", "disputed"}


def test_what_the_book_calls_a_result_that_was_not_run_is_not_recomputed():
    checks = read_checks(DATA / "claims" / "checks")
    assert checks["s000.sec63.runs"][0].verdict == checks["s004.sec313.1000"][0].verdict == "not reproducible"
    assert not [name for name, (check, _) in checks.items() if check.verdict == "differs" and "vidur_error" in str(check.check)]
