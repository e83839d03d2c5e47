"""Tools beside each other: scores by hand, one efficiency from the other sources alone, winners among those that answer."""

import numpy as np
import pandas as pd
import pytest

from analysis.studies.suite import tools

FRAME = pd.DataFrame(
    {
        "id": range(16),
        "source": ["a"] * 8 + ["b"] * 8,
        "setting": "one model",
        "measured": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0] * 2,
        "lower": [0.9, 1.9, 2.9, 3.9, 4.9, 5.9, 6.9, 8.1] * 2,
        "upper": [1.1, 2.1, 3.1, 4.1, 5.1, 6.1, 7.1, 8.2] * 2,
        "this project": [1.1, 2.2, 3.3, 4.4, 5.5, 6.6, 7.7, 8.8] * 2,
        "a tool": [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, np.nan] + [4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0],
    }
)


def test_scores_by_hand() -> None:
    found = tools.scores(FRAME, "how long").set_index(["source", "tool", "setting"])
    ours = found.loc["a", "this project", "as it is"]
    assert (ours["median_percent"], ours["bias_percent"], ours["tau"], ours["covered_percent"]) == pytest.approx((10, 10, 1, 87.5))
    half = found.loc["a", "a tool", "as it is"]
    assert (half["answered_percent"], half["median_percent"], half["bias_percent"]) == pytest.approx((87.5, 50, -50))


def test_one_efficiency_comes_from_the_other_sources() -> None:
    """On b the tool is four times too slow: what fits b is a quarter, an eighth of what a needs."""
    fitted = tools.at_one_efficiency(FRAME, "a tool")
    np.testing.assert_allclose(fitted[:7], FRAME["measured"][:7] / 8)
    np.testing.assert_allclose(fitted[8:], FRAME["measured"][8:] * 8)
    changed = FRAME.assign(**{"a tool": np.where(FRAME["source"] == "a", 7.0, FRAME["a tool"])})
    np.testing.assert_allclose(tools.at_one_efficiency(changed, "a tool")[:8], 7 / 4)


def test_a_tool_that_answers_little_wins_nothing() -> None:
    sparse = FRAME.assign(**{"a tool": np.where(FRAME["id"] % 4 == 0, FRAME["measured"], np.nan)})
    best = tools.winners(tools.scores(sparse, "how long"))
    assert set(best["best"]) == {"this project, as it is"} and set(best["tools"]) == {1}


def test_every_question_has_peers_or_a_rule() -> None:
    found = tools.table()
    assert found.groupby("question")["tool"].nunique().min() >= 2
    assert {"Calculon", "llm-analysis", "aiconfigurator", "GenZ", "mlsysim", "this project"} <= set(found["tool"])
