"""Load and cache studies."""

import numpy as np
import pandas as pd
import pytest

from analysis.hardware import devices
from analysis.serving.requests import make_requests
from analysis.serving.simulate import simulate
from analysis.serving.steps import linear
from analysis.studies.serving.cache import block_waste, slot_seconds, with_cache, with_prefix
from analysis.studies.serving.load import MIXES, Point, draw, gains, measure, shared_time
from analysis.studies.serving.table7 import advantage

A100 = devices.load("A100-SXM4-80GB")
STEP = linear(0.1, 0.0, 0.0)


@pytest.mark.parametrize("size", [2, 16, 64])
def test_block_waste_is_half_a_block_a_request(size: int) -> None:
    chat = MIXES[2]
    held, used = (slot_seconds(with_cache(chat, 3.0, 300, 1, 100_000, b)) for b in (1, size))
    sample = draw(chat, 3.0, 300, 1)
    tokens = float(np.average(sample.prefill_tokens + 0.5 * sample.decode_tokens, weights=sample.decode_tokens))
    assert 1 - held / used == pytest.approx(block_waste(tokens, size), rel=0.05)


def test_prefix_is_added_and_shared() -> None:
    base = draw(MIXES[0], 2.0, 10, 0)
    longer = with_prefix(base, 100, 3)
    assert (longer.prefill_tokens == base.prefill_tokens + 100).all()
    assert longer.prefix.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert with_prefix(base, 0) is base


def test_shared_time() -> None:
    # The first request is alone for its first step of two; the second arrives in the middle of it and stays one step longer.
    requests = make_requests(np.array([0.0, 0.05]), np.array([5, 5]), np.array([2, 2]))
    result = simulate(requests, "sarathi", STEP, record_batches=True)
    assert shared_time(result) == pytest.approx(1 / 3)


def test_gains_are_paired() -> None:
    rows = pd.DataFrame([measure(Point(MIXES[0], name, 2.0, 50, s)) for name in ("vllm", "sarathi") for s in (0, 1, 2)])
    same = rows.assign(scheduler=rows["scheduler"].replace("sarathi", "x"))
    same.loc[same["scheduler"] == "x", "e2e_mean_s"] = 0.9 * same.loc[same["scheduler"] == "vllm", "e2e_mean_s"].to_numpy()
    found = gains(same, "e2e_mean_s", ["x"]).iloc[0]
    assert (found["lower"], found["low"], found["high"]) == pytest.approx((10.0, 10.0, 10.0))


def test_advantage_by_hand() -> None:
    found = advantage([2.0, 4.0], [1.0, 3.0])
    assert found.value == pytest.approx((0.5 + 0.25) / 2)
    assert found.low == pytest.approx(0.25)
    assert found.high == pytest.approx(0.5)
