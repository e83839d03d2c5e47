"""Other sources: what they are compared with, and the wider interval by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from analysis.kernels.library import KernelLibrary
from analysis.serving.points import constants, waterfall
from analysis.serving.points.points import features, points
from analysis.studies.serving.energy_per_token import published
from analysis.studies.serving.sources.spread import fit, scores, slower, weights

INTERVAL = constants.Interval(
    terms=(), centre=(), scale=(), slope=(), level=0.0, doubt_of="doubt", doubt_seen=0.1, seen=(), devices=("d",), pooled=(-1, 1), groups={}
)

FAMILIES = ("f", "g", "m0", "m1")


def rows(source: str, ratio: list[float], **change: object) -> pd.DataFrame:
    """Runs of vLLM at its defaults on one GPU, as many times longer than answered as said."""
    plain = {
        "family": "f",
        "device": "d",
        "engine": "vllm",
        "vendor": "NVIDIA",
        "experts": "dense",
        "script": "default",
        "doubt": 0.1,
        "types": "bf16",
        "asked": True,
        "operators": 1e5,
        "launched": 1e5,
        "host_s": 1e-6,
        "old": False,
    }
    return pd.DataFrame({"source": source, "measured": ratio, "answer": 1.0, "lower": 0.9, "upper": 1.1, "doubt": 0.1, **plain, **change})


def test_what_defaults_cost_is_what_sources_agree_on() -> None:
    """Two sources whose runs take 2 us longer for each operator, of which mixtures have twice as many; recipes are as answered."""
    parts = [rows(name, [1.2] * 20, **change) for name in "ab" for change in ({}, {"family": "g"})]
    parts += [rows(name, [1.4] * 20, operators=2e5, family=f"m{k}") for name in "ab" for k in range(2)]
    parts += [rows("c", [1.0] * 20, script="recipe")]
    factors, each = slower(pd.concat(parts, ignore_index=True), FAMILIES)
    assert each["engine"] == pytest.approx(2e-6, rel=0.03) and not factors
    assert [each[name] for name in ("untuned", "quantised", "serial")] == pytest.approx([0.0] * 3, abs=1e-7)


@pytest.mark.parametrize(
    ("change", "term", "each_s", "longer"),
    [
        ({"family": "new"}, "untuned", 2e-6, 1.2),  # 1e5 operators
        ({"vendor": "AMD", "types": "fp8_block"}, "quantised", 2e-6, 1.2),
        ({"old": True, "host_s": 2e-2}, "serial", 1e-5, 1.2),  # 20,000 sequences
    ],
)
def test_what_the_host_and_kernels_that_nobody_tuned_take_is_told_by_those_who_have_it(change, term, each_s, longer) -> None:
    """Two sources with and without it, the rest as answered: the whole difference is of one term, and of none where nobody has it."""
    parts = [rows(name, [ratio] * 20, **with_it) for name in "ab" for ratio, with_it in ((1.0, {}), (longer, change))]
    table = pd.concat(parts, ignore_index=True)
    _, each = slower(table, FAMILIES)
    assert each[term] == pytest.approx(each_s, rel=0.03)
    assert all(size < 0.05 * each_s for name, size in each.items() if name != term)
    told = constants.corrected(np.ones(80), constants.default_terms(table, FAMILIES), {}, {term: each_s})
    np.testing.assert_allclose(told, table["measured"])


def test_the_host_works_between_steps_in_old_releases_alone() -> None:
    """vLLM schedules while the GPU works from 0.14.0 on (its release notes); of a release that is not said, today's is meant."""
    base = waterfall.Question("llama-3.1-70b", "h100_sxm", 8, 32, 1024, 1024, "vllm").case()
    cases = [replace(base, version=version) for version in ("", "0.11.1", "0.13.0", "0.14.0", "1.0")]
    assert features(list(cases), points(list(cases), KernelLibrary.load()))["old"].tolist() == [False, True, True, False, False]


def test_an_end_is_what_other_sources_tell_and_a_source_is_scored_without_itself() -> None:
    """The third source is twice as slow as the two others tell: it is not inside what they say, and is inside of what all say."""
    table = pd.concat([rows("a", [0.95, 1.05] * 20), rows("b", [0.95, 1.05] * 20), rows("c", [2.0] * 40)], ignore_index=True)
    alone = scores(table, INTERVAL, FAMILIES).set_index("source")
    assert alone.loc["c", "coverage_elsewhere_percent"] == 0 and alone.loc["a", "coverage_elsewhere_percent"] == 100
    assert np.exp(fit(table, INTERVAL, FAMILIES).ends["python"][1]) > 1.9


def test_sources_weigh_the_same() -> None:
    """Ten rows of one source and a thousand of another: the answer moves half way (of logarithms), not a hundredth."""
    table = pd.concat([rows("a", [1.0] * 1000), rows("b", [1.5] * 10)], ignore_index=True)
    assert weights(table)[:1000].sum() == pytest.approx(weights(table)[1000:].sum())


def test_a_gpu_without_rows_and_doubtful_kernels_widen_the_interval() -> None:
    other = fit(pd.concat([rows("a", [0.8, 1.25] * 20), rows("b", [0.8, 1.25] * 20)], ignore_index=True), INTERVAL, FAMILIES)
    asked = pd.concat([rows("x", [1.0]), rows("x", [1.0], device="new"), rows("x", [1.0], doubt=0.4)], ignore_index=True)
    _, low, high = constants.elsewhere(asked, np.ones(3), INTERVAL, other)
    width = np.log(high / low)
    assert width[1] == pytest.approx(constants.UNSEEN * width[0])
    assert width[2] == pytest.approx(2 * np.hypot(width[0] / 2, 1.645 * np.sqrt(0.4**2 - 0.1**2)), rel=0.02)


def test_an_interval_widens_by_what_sources_differ_in() -> None:
    """Mixtures are off by twice as much as dense models in each of W sources: the most likely slope is log 2. Held at none with a strength
    of 1 it is the least of W / 8 (slope - log 2)^2 + slope^2 (half of each source's rows are mixtures: a variance of 1/4).

    First tokens: SGLang alone launches prompts one operator after another; 16 s are twice 1e5 operators of 80 us.
    """
    ratio = np.exp([0.2, -0.2] * 20)
    parts = [rows(f"s{k}", list(ratio**size), experts=kind) for k in range(16) for kind, size in (("dense", 1), ("moe", 2))]
    told, few = (fit(pd.concat(parts[:many], ignore_index=True), INTERVAL, FAMILIES) for many in (32, 4))
    assert told.wider == pytest.approx(np.log(2) * 2 / 3, rel=0.02) and few.wider == pytest.approx(np.log(2) / 5, rel=0.05)
    asked = pd.concat([rows("x", [1.0]), rows("x", [1.0], experts="moe")], ignore_index=True)
    _, low, high = constants.elsewhere(asked, np.ones(2), INTERVAL, told)
    dense, mixture = np.log(high / low)
    assert mixture / dense == pytest.approx(np.exp(told.wider))
    waits = pd.concat([rows("x", [1.0], engine=name, ttft_s=wait) for name in ("sglang", "trtllm") for wait in (16.0, 160.0)])
    np.testing.assert_allclose(constants.spreading(waits, "ttft"), [0, np.log(10), 0, 0], atol=1e-12)


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
    cases = [waterfall.Question(model, "h100_sxm", 8, 32, 1024, 1024, "vllm", "fp8").case() for model in ("llama-3.1-70b", "llama-3.1-8b")]
    found = features(list(cases), points(list(cases), KernelLibrary.load()))
    assert constants.outside(found, parameters) == [(), ("settings (the engine's defaults)",)] and set(parameters.elsewhere) == {
        "tpot",
        "ttft",
    }
