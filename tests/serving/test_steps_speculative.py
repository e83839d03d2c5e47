"""Speculative decoding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.hardware import devices
from analysis.serving.step_time.roofline import Roofline
from analysis.studies.serving.speculative import decode_s, expected_tokens, speculative_round
from analysis.workloads import models

A100 = devices.load("A100-SXM4-80GB")
LARGE, SMALL = (Roofline(models.load(name), A100) for name in ("llama-2-7b", "llama-3.2-1b"))


@given(st.floats(0.0, 0.99), st.integers(0, 12))
def test_closed_form(acceptance: float, proposals: int) -> None:
    # Leviathan et al. 2023, equation 1.
    assert expected_tokens(acceptance, proposals) == pytest.approx((1 - acceptance ** (proposals + 1)) / (1 - acceptance))
    assert 1 <= expected_tokens(acceptance, proposals) <= proposals + 1


def test_as_drawn() -> None:
    accepted = np.random.default_rng(0).random((200_000, 4)) < 0.7
    kept = np.cumprod(accepted, axis=1).sum(axis=1) + 1
    assert kept.mean() == pytest.approx(expected_tokens(0.7, 4), rel=0.005)


@given(st.integers(1, 256), st.floats(0.0, 1.0), st.integers(1, 8))
def test_laws(requests: int, acceptance: float, proposals: int) -> None:
    one = speculative_round(LARGE, SMALL, requests, proposals, acceptance)
    assert one.verify_s >= one.plain_s > 0
    assert one.speedup <= one.tokens  # proposals are never free
    if acceptance == 0:
        assert one.speedup < 1
    assert speculative_round(LARGE, SMALL, requests, proposals, min(1.0, acceptance + 0.1)).speedup >= one.speedup


def test_no_proposals_is_plain_decoding() -> None:
    assert speculative_round(LARGE, SMALL, 7, 0, 0.5).speedup == pytest.approx(1.0)


def test_cache_is_read_once_a_round() -> None:
    # 512 KiB a token (Llama-2-7B, 16 bit) x 512 tokens over 2.039e12 bytes/s (data sheet).
    without, with_cache = (decode_s(LARGE, 1, 1, cached) for cached in (0.0, 512.0))
    assert with_cache - without == pytest.approx(512 * 512 * 1024 / 2.039e12, rel=1e-6)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="probability"):
        expected_tokens(1.5, 3)
    with pytest.raises(InputError, match="not negative"):
        expected_tokens(0.5, -1)
