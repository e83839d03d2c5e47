"""Unit parsing: every prefix multiplied out, and the two mistakes seen in published models."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import units

# SI Brochure, 9th edition, Table 7; IEC 80000-13 for the binary ones.
DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
BINARY = {"Ki": 1024, "Mi": 1024**2, "Gi": 1024**3, "Ti": 1024**4, "Pi": 1024**5, "Ei": 1024**6}
SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15}


SYMBOLS = [("FLOP/s", "flop/s"), ("FLOP", "flop"), ("B/s", "bytes/s"), ("B", "bytes"), ("Hz", "hz")]
NOT_READ = [("80", "bytes"), ("80 GB", "bytes/s"), ("80 gB", "bytes"), ("80 KB", "bytes"), ("3 mB", "bytes"), ("1 GiHz", "hz"), ("", "s")]


@pytest.mark.parametrize(("symbol", "dimension"), SYMBOLS)
@pytest.mark.parametrize("prefix", DECIMAL)
def test_decimal_prefixes(prefix: str, symbol: str, dimension: str) -> None:
    assert units.parse(f"3 {prefix}{symbol}", dimension) == 3 * DECIMAL[prefix]


@pytest.mark.parametrize(("symbol", "dimension"), [("B", "bytes"), ("B/s", "bytes/s")])
@pytest.mark.parametrize("prefix", BINARY)
def test_binary_prefixes(prefix: str, symbol: str, dimension: str) -> None:
    assert units.parse(f"3 {prefix}{symbol}", dimension) == 3 * BINARY[prefix]


@pytest.mark.parametrize("prefix", SMALL)
def test_small_prefixes(prefix: str) -> None:
    assert units.parse(f"3 {prefix}s", "s") == pytest.approx(3 * SMALL[prefix], rel=1e-15)


def test_bits_are_an_eighth() -> None:
    assert units.parse("400 Gbit/s", "bytes/s") == 50e9


def test_tera_is_not_1e13() -> None:
    """Seen in a published GPU model: its tera was 1e13."""
    assert units.parse("1 TFLOP/s", "flop/s") == 1e12


def test_gigabyte_per_second_is_not_2_to_the_30() -> None:
    """Seen in a published network model: GB/s was multiplied by 2^30."""
    assert units.parse("1 GB/s", "bytes/s") == 1e9
    assert units.parse("1 GiB/s", "bytes/s") == 2**30


@pytest.mark.parametrize(("text", "dimension"), [*NOT_READ, ("fast", "hz"), ("2 W", "1")])
def test_bad_input_is_refused(text: str, dimension: str) -> None:
    with pytest.raises(ValueError, match=r"unit|number|expected"):
        units.parse(text, dimension)


@given(st.floats(min_value=1e-3, max_value=1e6), st.sampled_from(sorted(DECIMAL)))
def test_prefixes_scale(number: float, prefix: str) -> None:
    assert units.parse(f"{number!r} {prefix}B", "bytes") == number * DECIMAL[prefix]
