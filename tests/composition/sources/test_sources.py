"""Other sources: what they are compared with, and the wider interval by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.composition.energy import published
from analysis.composition.service import constants, waterfall
from analysis.composition.service.constants import NORMAL_90, widened
from analysis.composition.service.points import features, points
from analysis.composition.sources.spread import score, spread
from analysis.operators.kernels.library import KernelLibrary


def test_the_upper_end_alone_is_widened_in_quadrature() -> None:
    high = widened(np.array([10.0, 10.0]), np.array([12.0, 12.0]), np.array([0.0, 0.3]))
    assert high == pytest.approx([12.0, 10 * np.exp(np.hypot(np.log(1.2), 0.3 * NORMAL_90))])


def rows(source: str, ratio: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"source": source, "family": "f", "device": "d", "measured": ratio, "answer": 1.0, "lower": 0.9, "upper": 1.1})


def test_the_spread_is_the_least_that_holds_nine_in_ten() -> None:
    assert spread(rows("a", [0.5, *[1.05] * 9])) == 0.0
    found = spread(rows("a", [1.0] * 5 + [1.5] * 5))
    assert np.hypot(np.log(1.1), NORMAL_90 * found) == pytest.approx(np.log(1.5))
    assert score(rows("b", [1.0, 1.4, 0.8, 2.0]), found) | {"coverage_elsewhere_percent": 50.0} == score(
        rows("b", [1.0, 1.4, 0.8, 2.0]), found
    )


def test_sources_weigh_the_same() -> None:
    """Nine rows of one source and a thousand of another: half of the weight each, so one source's rows decide nothing alone."""
    table = pd.concat([rows("a", [1.0] * 1000), rows("b", [2.0] * 9)], ignore_index=True)
    assert np.hypot(np.log(1.1), NORMAL_90 * spread(table)) == pytest.approx(np.log(2.0))


def test_problems_keep_the_identities_of_their_source() -> None:
    """Energy a token is power over throughput; 198 questions, or a multiple (configs/vllm/gpqa/benchmark.yaml of the source)."""
    table = published.rows(published.PROBLEMS)
    assert len(table) == 66 and set(table["max_sequences"]) == {8, 32, 128, 512}
    np.testing.assert_allclose(table["output_token_j"], table["power_w"] / table["output_tokens_per_s"], rtol=1e-7)
    tokens = table["output_tokens"] * 198 * 12
    np.testing.assert_allclose(tokens, tokens.round(), atol=0.15)
    assert (table["batch"] <= table["max_sequences"]).all()


def test_longer_answers_are_in_flight_longer() -> None:
    """Exponential lengths: a request in flight is a long one, so a step reads more cache: mean squared length over twice the mean."""
    case = published.case(published.rows().iloc[2].to_dict())
    raw = points([case, replace(case, answers="even")], KernelLibrary.load())
    assert raw.result[0, 5] > 1.2 * raw.result[1, 5]


def test_a_question_without_a_published_setting_is_elsewhere() -> None:
    parameters = constants.load()
    cases = [waterfall.question(model, "h100_sxm", 8, 32, 1024, 1024, "vllm") for model in ("llama-3.1-70b", "llama-3.1-8b")]
    found = features(list(cases), points(list(cases), KernelLibrary.load()))
    assert constants.outside(found, parameters) == [(), ("settings (the engine's defaults)",)] and parameters.spread > 0
