"""A verdict follows from the printed value, the value got and the tolerance, and from nothing else."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.claims.check_files import Check, Source
from analysis.claims.verdicts import agrees, as_expected, difference, verdict_of

SOURCE = Source(function="analysis.claims.arithmetic:total", args={"terms": [1]})
numbers = st.floats(-1e9, 1e9, allow_nan=False)


def check(printed, verdict="reproduced", **options):
    return Check(check=SOURCE, printed=printed, expect=options.pop("expect", printed), verdict=verdict, **options)


@given(numbers, st.floats(0, 1e3), st.floats(-2, 2))
def test_equal_means_within_the_tolerance(printed, tolerance, step):
    got = printed + step * tolerance
    slack = max(tolerance, 1e-12 * max(1.0, abs(printed)))
    assert agrees(got, printed, check(printed, tolerance=tolerance)) == (abs(got - printed) <= slack)


@given(numbers, numbers)
def test_relations_are_those_of_numbers(got, printed):
    entry = check(printed)
    assert agrees(got, printed, entry, "less than") == (got < printed)
    assert agrees(got, printed, entry, "more than") == (got > printed)
    assert agrees(got, printed, entry, "at most") or got > printed
    assert agrees(got, printed, entry, "at least") or got < printed


@given(numbers, st.sampled_from(["reproduced", "cited (verified)"]), st.sampled_from(["differs", "wrong arithmetic", "not reproducible"]))
def test_a_verdict_never_crosses_sides(printed, good, bad):
    note = "https://example.org"
    assert verdict_of(printed, check(printed, good, note=note)) == good
    assert verdict_of(printed, check(printed, bad, note=note)) == "reproduced"
    assert verdict_of(printed + 1e9 + 1, check(printed, good, note=note)) == "differs"
    assert verdict_of(printed + 1e9 + 1, check(printed, bad, note=note)) == bad


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
