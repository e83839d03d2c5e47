"""The documents' tables were transcribed by two rooms on their own; both transcriptions say the same."""

import pytest
import yaml

from analysis.artifact.claims.arithmetic import printed_table
from analysis.paths import DATA

GRADES = {"F": 0, "L": 1, "M": 2, "H": 3}
SCHEMES = {"base": "base", "uniform": "uniform", "deployment": "deployment_heavy"}


@pytest.fixture(scope="module")
def printed():
    return yaml.safe_load((DATA / "mtap" / "printed.yaml").read_text())


def test_grades_and_scores_of_table_5(printed):
    table = printed_table("claims/printed/survey_table5")
    assert set(table["tool"]) == set(printed["tools"])
    for row in table.itertuples():
        other = printed["tools"][row.tool]
        assert [row.d1, row.d2, row.d3, row.d4, row.d5] == [GRADES[other["grades"][f"D{i}"]] for i in range(1, 6)]
        assert row.score == other["scores"]["base"] and row.error_rank == other["reported_error"]["rank"]


def test_scores_under_the_other_schemes(printed):
    for row in printed_table("claims/printed/survey_scheme_scores").itertuples():
        assert printed["tools"][row.tool]["scores"][SCHEMES[row.scheme]] == row.score


def test_weights():
    weights = yaml.safe_load((DATA / "mtap" / "weights.yaml").read_text())["schemes"]
    for row in printed_table("claims/printed/survey_schemes").itertuples():
        assert [row.w1, row.w2, row.w3, row.w4, row.w5] == [weights[SCHEMES[row.scheme]][f"D{i}"] for i in range(1, 6)]


def test_deployment_of_table_6(printed):
    for row in printed_table("claims/printed/survey_table6").itertuples():
        other = printed["deployment"][row.tool]
        assert (row.minutes, row.docker, row.failure_mode) == (other["minutes"], other["docker"], other["failure"])


def test_coverage_matrix_of_table_1():
    mine = printed_table("claims/printed/survey_table1").drop(columns=["speed", "data", "interpretability", "failure_mode"])
    other = printed_table("survey/coverage_printed")
    assert mine.drop(columns="methodology").to_numpy().tolist() == other.drop(columns="methodology").to_numpy().tolist()


def test_tools_methods_and_years_of_table_2():
    names = {"analytical": "A", "cycle-accurate": "S", "trace-driven": "T", "ml-augmented": "M", "hybrid": "H"}
    other = printed_table("survey/tools").set_index("tool")
    for row in printed_table("claims/printed/survey_table2").itertuples():
        assert other.loc[row.tool, "methodology"] == names[row.method], row.tool
        # TLP's year is not printed; of ASTRA-sim Table 2 cites version 2.0 (2023), the table of tools the first (2020)
        if row.tool not in ("TLP", "ASTRA-sim"):
            assert int(other.loc[row.tool, "year"]) == int(row.year), row.tool


def test_pairwise_and_appendix_tables_hold_together():
    # NeuroScalar's appendix: 16 benchmarks, ten pairs of five designs
    pairs = printed_table("published/neuroscalar_pairwise")
    designs = {design for pair in pairs["pair"] for design in pair.split()}
    assert designs == set(printed_table("claims/printed/neuroscalar_table4")["config"])
    assert pairs.groupby("bench").size().tolist() == [10] * 16
    assert set(pairs["bench"]) == set(printed_table("published/neuroscalar_appendix_metrics")["bench"])
    assert set(printed_table("claims/printed/neuroscalar_table7")["bench"]) <= set(pairs["bench"])
