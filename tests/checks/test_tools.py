"""The tool table and what is computed from it, against the documents' own tables."""

from __future__ import annotations

import pandas as pd
import pytest

from analysis.artifact.survey.accuracy import disagree, headline, load_statements, own, tier
from analysis.artifact.survey.bibliography import load_bibliography
from analysis.artifact.survey.protocol import Protocol
from analysis.artifact.survey.taxonomy import CELL_PLATFORMS, compare, coverage, findings, gaps, reconstruction
from analysis.artifact.survey.tools import METHODOLOGIES, load_tools, surveyed
from analysis.artifact.survey.workloads import by_period, exclusively, load_validations, validated_on
from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.paths import DATA, ROOT
from analysis.tables import read_csv

SURVEY = DATA / "survey"


@pytest.fixture(scope="module")
def tools():
    return load_tools(SURVEY / "tools.csv", [r.key for r in load_bibliography(ROOT / "bib" / "references.bib")])


@pytest.fixture(scope="module")
def statements(tools):
    return load_statements(SURVEY / "accuracy.csv", [tool.name for tool in tools])


@pytest.fixture(scope="module")
def validations(tools):
    return load_validations(SURVEY / "workloads.csv", [tool.name for tool in tools])


@pytest.fixture(scope="module")
def printed() -> pd.DataFrame:
    return read_csv(SURVEY / "coverage_printed.csv").set_index("methodology")[list(CELL_PLATFORMS)]


def test_table_2_has_22_rows_in_five_sections(tools):
    """Survey draft, Table 2: 5 + 5 + 6 + 3 + 3 rows."""
    sections = pd.Series([tool.section for tool in surveyed(tools)]).value_counts()
    assert sections.to_dict() == {
        "distributed training and LLM serving": 6,
        "DNN accelerators": 5,
        "GPUs": 5,
        "edge devices": 3,
        "compiler cost models": 3,
    }


def test_coverage_of_table_2(tools):
    """Counted by hand from the method and platform columns of Table 2."""
    counts = coverage(surveyed(tools))
    assert counts.loc["A"].tolist() == [3, 1, 0, 0, 0]
    assert counts.loc["S"].tolist() == [1, 2, 0, 0, 0]
    assert counts.loc["T"].tolist() == [0, 0, 6, 0, 0]
    assert counts.loc["M"].tolist() == [0, 3, 0, 3, 0]
    assert counts.loc["H"].tolist() == [1, 2, 0, 0, 0]


def test_coverage_adds_up(tools):
    """Every tool with a methodology on one of the five platforms counts exactly once."""
    counts = coverage(tools)
    assert counts.to_numpy().sum() == sum(bool(t.methodology) and t.platform in CELL_PLATFORMS for t in tools)
    assert set(gaps(tools)) <= set(gaps(surveyed(tools)))


def test_printed_matrix_counts_eight_more_than_its_table(tools, printed):
    """Table 1 sums to 30, Table 2 has 22 rows; the eight others are forced to be tools that the text names."""
    assert printed.to_numpy().sum() == 30
    cells = compare(printed, coverage(surveyed(tools)))
    assert cells["difference"].sum() == 22 - 30
    rebuilt = reconstruction(printed, tools)
    forced = rebuilt[rebuilt["verdict"] == "forced"]
    assert forced["missing"].sum() == 8
    assert set(", ".join(forced["names"]).split(", ")) == {"Roofline", "LIFE", "Paleo", "MAD Max", "gem5", "Echo", "GRANITE", "Concorde"}


def test_statements_of_the_draft(tools):
    verdicts = {finding.key: finding.holds for finding in findings(tools)}
    assert verdicts["edge_no_hybrid"] and verdicts["distributed_no_learned"] and verdicts["cpu_least_studied"]
    assert not verdicts["gpu_all_five"]  # Table 1 itself has no trace-driven GPU tool
    assert not verdicts["trace_only_distributed"]  # Accel-Sim replays SASS traces (Table 2)
    assert not verdicts["distributed_require_traces"]  # Paleo, MAD Max


def test_a_moved_tool_changes_the_verdict(tools):
    moved = [tool.model_copy(update={"platform": "edge"}) if tool.name == "Habitat" else tool for tool in tools]
    assert not {f.key: f.holds for f in findings(moved)}["edge_no_hybrid"]


def test_hit_rates_are_not_errors(statements):
    """nn-Meter README: share of models within 10 %: 99.0 CPU, 99.1 Adreno 640, 99.0 Adreno 630, 83.4 VPU."""
    for tool in ("nn-Meter", "LitePred"):
        for statement in statements:
            if statement.tool == tool:
                assert not statement.is_error and statement.metric == "hit rate within 10%"
    assert (own(statements, "nn-Meter").low, own(statements, "nn-Meter").high) == (83.4, 99.1)


def test_printed_against_own(statements):
    """VIDUR's abstract: less than 9 % error; the survey prints < 5 %. Habitat's abstract: 11.8 %, as printed."""
    assert disagree(headline(statements, "VIDUR"), own(statements, "VIDUR"))
    assert not disagree(headline(statements, "Habitat"), own(statements, "Habitat"))
    assert disagree(headline(statements, "Sparseloop"), own(statements, "Sparseloop"))


def test_disagree_is_symmetric(statements):
    for a in statements:
        for b in statements:
            if a.tool == b.tool:
                assert disagree(a, b) == disagree(b, a)
        assert not disagree(a, a)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (2.3, 2.3, "tier 1"),
        (None, 5, "tier 1"),
        (5, 15, "tier 2"),
        (20, 20, "tier 3"),
        (10, 20, "across tiers 2 and 3"),
        (None, 10, "across tiers 1 and 2"),
        (15, 30, "tier 3 and above"),
        (121.4, 121.4, "above all tiers"),
        (None, None, "no figure"),
    ],
)
def test_tiers(low, high, expected):
    """Bands of the earlier survey, 5.1.3: below 5, 5 to 15, 15 to 25 %."""
    assert tier(low, high) == expected


def test_mixture_of_experts_is_validated_twice(tools, validations):
    """NeuSight's stored end-to-end cases hold a Switch Transformer (switchxl4), so Frontier is not alone."""
    assert set(validated_on(validations, "moe", surveyed(tools))) == {"NeuSight", "Frontier"}
    assert validated_on(validations, "diffusion") == ()
    assert set(exclusively(tools, validations, ["llm", "moe", "transformer"])) >= {"VIDUR", "Lumos", "SimAI", "Frontier"}


def test_periods_partition_the_tools(tools, validations):
    table = by_period(tools, validations)
    known = {v.tool for v in validations}
    assert table.groupby("period")["known"].first().sum() == sum(tool.name in known for tool in tools)
    for row in table.itertuples():
        names = [name for name in row.names.split(", ") if name]
        assert len(set(names)) == row.tools <= row.known
        assert row.share * row.known == pytest.approx(row.tools)
        first, last = map(int, row.period.split("-"))
        assert all(first <= tool.year <= last for tool in tools if tool.name in names)


def test_protocol():
    """Survey draft, section 2: 287, 118, 53 and 12; none can be counted again."""
    protocol = read_yaml(SURVEY / "search_protocol.yaml", Protocol)
    assert [step.count for step in protocol.funnel] == [287, 118, 53, 12]
    assert not any(step.recomputable for step in protocol.funnel)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        (("Timeloop,parashar2019timeloop", "Timeloop,nobody1999"), "key"),
        (("NPU,accelerator,A,2019", "NPU,toaster,A,2019"), "platform"),
        (("NPU,accelerator,A,2019", "NPU,accelerator,Q,2019"), "methodology"),
        (("MAESTRO,kwon", "Timeloop,kwon"), "tool"),
        (("us,1e-06,0.001", "us,0.001,1e-06"), "speed_low_s"),
    ],
)
def test_bad_rows_are_refused(tmp_path, change, column):
    text = (SURVEY / "tools.csv").read_text(encoding="utf-8")
    assert change[0] in text
    path = tmp_path / "tools.csv"
    path.write_text(text.replace(*change), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_tools(path, [r.key for r in load_bibliography(ROOT / "bib" / "references.bib")])
    assert caught.value.key == column and caught.value.line is not None


def test_bad_statement_is_refused(tmp_path, tools):
    text = (SURVEY / "accuracy.csv").read_text(encoding="utf-8")
    path = tmp_path / "accuracy.csv"
    path.write_text(text.replace("yes,5,10,range", "yes,10,5,range", 1), encoding="utf-8")
    with pytest.raises(InputError, match="must not be above high_percent"):
        load_statements(path, [tool.name for tool in tools])


def test_small_tables_name_known_tools(tools):
    """Every tool of the comparison, of the earlier taxonomy and of the composition of methods is one that the tool table has."""
    names = {tool.name for tool in tools}
    for table in ("comparison", "taxonomy_learning"):
        assert set(read_csv(SURVEY / f"{table}.csv")["tool"]) <= names
    methods = set(METHODOLOGIES.values()) | {"measured profile"}
    edges = read_csv(SURVEY / "composition.csv")
    assert set(edges["source"]) | set(edges["target"]) <= methods


def test_each_practice_is_answered_for_each_tool():
    """Earlier survey, Table 5: five practices; its Table 4 and the survey's Table 5 together name six tools."""
    practices = read_csv(SURVEY / "practices.csv")["practice"]
    applied = read_csv(SURVEY / "practices_applied.csv", keep_default_na=False)
    assert len(practices) == 5
    pairs = applied.groupby(["tool", "practice"]).size()
    assert (pairs == 1).all() and len(pairs) == 5 * applied["tool"].nunique() == 30
    assert set(applied["met"]) <= {"yes", "partly", "no", "not applicable", "not seen"}
    assert (applied.loc[applied["met"].isin(["yes", "partly", "no"]), "source"] != "").all()


def test_quoted_facts_have_sources():
    facts = read_csv(SURVEY / "facts.csv", dtype=str, keep_default_na=False)
    assert facts["key"].is_unique
    assert (facts[["text", "what", "source"]] != "").all().all()
    assert facts["source"].str.match(r"(s00[0-4] |https?://|[\w-]+/[\w-]+@)").all()
