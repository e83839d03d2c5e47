"""Schedule ranking: tries against enumeration, the roofline by hand, and that the GPU left out stays unread."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.studies.kernels.schedules import data as schedule_data
from analysis.studies.kernels.schedules import ranking as schedule_ranking

SPEC = {
    "numSms": 108,
    "memBandwidth": 2000.0,
    "sharedMemorySize": 164,
    "l2CacheSize": 40960,
    "l2CacheBandwidth": 3235,
    "tcBf16": 2048,
    "smFreq": 1000,
    "computeMajor": 8,
}


def table(seed: int, problems: int = 12) -> pd.DataFrame:
    """Near-best lists of a made-up GPU: tall tiles for many rows, short ones for few."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(problems):
        tokens = 2 ** (number % 6)
        tall = 64 if tokens >= 8 else 16
        for block in (tall, 128):
            rows.append(("w13", tokens, 8, 2, 1024, 512 + 256 * (number // 6), block, int(rng.choice([32, 64])), 64, 1, 4, 3, 10.0))
    return pd.DataFrame(rows, columns=[*schedule_data.PROBLEM, *schedule_data.CONFIGURATION, "avg_duration"])


def made_up() -> schedule_data.Sweeps:
    names = ["a", "b", "c"]
    specs = {name: SPEC | {"numSms": 80 + 10 * number} for number, name in enumerate(names)}
    return schedule_data.from_tables({name: table(number) for number, name in enumerate(names)}, specs)


@given(st.lists(st.booleans(), min_size=2, max_size=6).filter(any))
def test_tries_in_random_order_are_what_enumeration_gives(good: list[bool]) -> None:
    near = np.array([good])
    tries = [next(i for i, member in enumerate(order, start=1) if member) for order in itertools.permutations(good)]
    assert schedule_ranking.random_first_hit(near)[0] == pytest.approx(np.mean(tries))
    for k in range(1, len(good) + 1):
        assert schedule_ranking.random_top(near, k)[0] == pytest.approx(np.mean([t <= k for t in tries]))


def test_first_hits_follow_the_scores() -> None:
    scores = np.array([[3.0, 2.0, 1.0], [1.0, 1.0, 1.0]])
    near = np.array([[False, False, True], [False, True, True]])
    assert schedule_ranking.first_hits(scores, near).tolist() == [3, 2]


def test_the_roofline_of_a_problem_by_hand() -> None:
    """M = 16 rows, 8 experts, top-2: 4 rows an expert; blocks 16 x 64, N = 512: 2N / 64 = 16 columns of tiles, 8 x 1 x 16 = 128 tiles; 108
    multiprocessors: 2 waves; 16 x 64 x 1024 multiply-adds at 2048 a clock and 1 GHz; weights 8 x 1024 x 1024 x 2 B = 16 MiB."""
    problem = pd.DataFrame([("w13", 16, 8, 2, 1024, 512)], columns=schedule_data.PROBLEM)
    configuration = pd.DataFrame([(16, 64, 64, 1, 4, 3)], columns=schedule_data.CONFIGURATION)
    found = schedule_data.cost(problem, configuration, pd.Series(SPEC))
    assert found.tiles[0, 0] == 128 and found.waves[0, 0] == 2 and found.filled[0, 0] == 4 / 16
    assert found.compute_s[0, 0] == pytest.approx(2 * 16 * 64 * 1024 / 2048 / 1e9)
    assert found.memory_s[0, 0] == pytest.approx((8 * 1024 * 1024 * 2 + 32 * 1024 * 2 * 16) / 2e12)
    assert found.shared_bytes[0, 0] == (16 + 64) * 64 * 2 * 3


def test_orders_do_not_read_the_gpu_that_is_left_out() -> None:
    sweeps = made_up()
    spoilt = replace(sweeps, near_best=sweeps.near_best.copy())
    spoilt.near_best[1] = ~spoilt.near_best[1]
    few = schedule_ranking.RankingSettings(width=8, steps=20, batch=8)
    first, second = (schedule_ranking.orders(case, 1, few, 0) for case in (sweeps, spoilt))
    for name, scores in first.items():
        np.testing.assert_allclose(scores, second[name], rtol=1e-5, err_msg=name)


def test_the_ranking_model_learns_what_the_sweeps_hold() -> None:
    sweeps = made_up()
    found = (
        schedule_ranking.evaluate(sweeps, schedule_ranking.RankingSettings(width=32, steps=150, batch=12))
        .groupby("method")["tries_mean"]
        .mean()
    )
    assert found["ranked"] < 0.7 * found["random"]
    assert all(math.isfinite(value) for value in found)


def test_a_missing_column_or_fact_is_named() -> None:
    with pytest.raises(InputError, match="BLOCK_SIZE_M: missing column"):
        schedule_data.from_tables({"a": table(0).drop(columns="BLOCK_SIZE_M")}, {"a": SPEC})
    with pytest.raises(InputError, match="a: numSms: is not described"):
        schedule_data.from_tables({"a": table(0)}, {"a": {key: value for key, value in SPEC.items() if key != "numSms"}})
