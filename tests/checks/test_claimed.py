"""Claimed against measured errors: every row that a file of this repository can give again is given again; bad rows are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.artifact.explorers import choose_tool
from analysis.artifact.survey import choosing, claimed
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.written_tables import columns_of, read_rows

ROWS = read_rows(DATA / "survey" / "claimed_measured.csv", claimed.Measured)


@pytest.mark.parametrize("row", [row for row in ROWS if row.recomputed_from], ids=lambda row: f"{row.tool}-{row.cases}")
def test_written_errors_are_recomputed(row: claimed.Measured) -> None:
    """Within half a unit of the last digit of two that are written in data/survey/claimed_measured.csv."""
    assert claimed.recompute(row) == pytest.approx(row.measured, abs=0.02)


def test_largest_gap_comes_first_and_baselines_last() -> None:
    order = [group[0].tool for group in claimed.by_tool(ROWS)]
    assert order[:2] == ["Habitat", "NeuSight"]  # 385 / 11.8 and 30.58 / 2.3
    assert order[-1] == "roofline"


def test_chart_names_every_tool_and_value() -> None:
    page = claimed.chart_html(ROWS, {"Paleo": 15.0})
    assert "1 others" in page or "Paleo" in page
    for by, sign in claimed.SIGNS.items():
        assert page.count(f"measured by {by}: ") == sum(row.measured_by == by for row in ROWS) == page.count(sign) - 1
    for row in ROWS:
        assert ("roofline alone" if row.tool == "roofline" else row.tool) in page
        assert claimed.percent(row.measured) in page


@pytest.mark.parametrize(
    ("column", "value"),
    [("measured_percent", ""), ("measured_by", "somebody"), ("source", ""), ("terms", ""), ("question", "love")],
)
def test_a_bad_row_is_refused(tmp_path: Path, column: str, value: str) -> None:
    lines = (DATA / "survey" / "claimed_measured.csv").read_text(encoding="utf-8").splitlines()
    cells = ["GenZ", "", "5.82", "error", "https://a.org", "serving", "56.7", "483", "points", "as shipped", "us", "", "package"]
    cells[columns_of(claimed.Measured).index(column)] = value
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([lines[0], ",".join(cells)]) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_rows(path, claimed.Measured)
    assert ":2" in str(refused.value) and column in str(refused.value)


def test_factors_say_which_row_of_each_tool() -> None:
    """By hand: NeuSight claims 2.3 %; its own 80 cases have 8.89 (3.87 times), a competitor's serving runs 30.58 (13.3 times)."""
    found = claimed.factors(ROWS).set_index("tool")
    assert found.loc["NeuSight", ["least", "worst"]].tolist() == pytest.approx([8.89 / 2.3, 30.58 / 2.3])
    assert not set(found.index) & {"aiconfigurator", "llm-analysis", "roofline"}, "a tool without a claim has no factor"


def test_a_claim_is_the_tools_own() -> None:
    """A figure that a survey prints of a tool is not the tool's claim."""
    assert not [row.tool for row in ROWS if row.claimed is not None and "survey" in row.claim_source]


def test_the_chooser_counts_only_measurements_of_the_question_and_says_who_measured() -> None:
    """llm-analysis was measured on training steps, ASTRA-sim on an all-reduce, SynPerf and NeuSight's 80 networks on their own data."""
    tools = {tool["name"]: tool for tool in choosing.records()}
    assert choose_tool.evidence(tools["llm-analysis"], "training") == 4 > choose_tool.evidence(tools["llm-analysis"], "serving")
    assert choose_tool.evidence(tools["ASTRA-sim"], "collective") == 4 > 3 > choose_tool.evidence(tools["ASTRA-sim"], "training")
    assert choose_tool.evidence(tools["SynPerf"], "serving") == choose_tool.evidence(tools["NeuSight"], "gpu") == 3
    values = {"have": "all", "budget": "1e9", "open": "any"}
    for question, _ in choose_tool.QUESTIONS:
        order = choose_tool.ranked({**values, "question": question})
        assert all(question in tool["questions"] for tool, _ in order)
        page = choose_tool.draw({**values, "question": question}, 500.0)
        shown = [one for tool, _ in order for one in tool["measured"] if one["question"] == question]
        assert page.count("(by ") == len(shown)
    assert "training steps of Megatron" not in choose_tool.draw({**values, "question": "serving"}, 500.0)


def test_the_peer_was_also_asked_with_the_cache_of_the_launch_scripts() -> None:
    """An audit ran 960 such rows: Llama 3.1 70B 19.8 to 13.0 %, gpt-oss 28.8 to 24.8, Kimi 23.8 to 20.5, others up to 2 points worse."""
    found = claimed.with_fp8_cache().set_index("family")
    assert found.loc["all", "rows"] >= 960
    for family, without, given in (("Llama-3.1-70B", 19.8, 13.0), ("gpt-oss-120b", 28.8, 24.8), ("Kimi-K2.5", 23.8, 20.5)):
        assert found.loc[family, ["tpot_without_percent", "tpot_given_percent"]].tolist() == pytest.approx([without, given], abs=0.15)
    assert (found["tpot_given_percent"] - found["tpot_without_percent"]).max() < 2.5
