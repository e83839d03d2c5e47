"""Changing any cell of a results CSV that a claim reads makes `claims check` exit 1 and name the claim."""

import hashlib
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from analysis.artifact.claims.check import check_all, describe, plain, show, show_criterion, show_reference, to_frame
from analysis.artifact.claims.check_files import Check, Source, read_checks
from analysis.artifact.claims.findings import read_findings
from analysis.artifact.claims.ledger import Claim, read_ledger
from analysis.artifact.claims.report import judge_all, unexpected
from analysis.artifact.claims.results import Results
from analysis.artifact.commands.repository.claims import app
from analysis.errors import InputError
from analysis.paths import DATA, RESULTS
from analysis.studies.written_tables import columns_of

TABLE = "tool,scheme,score\nVIDUR,base,2.1\nTimeloop,base,2.1\nnn-Meter,base,0.0\n"
CHECKS = """one:
  check: {table: mtap/scores, where: {tool: VIDUR}, column: score}
  printed: 2.1
  tolerance: 0.05
  expect: 2.1
  verdict: consistent
two:
  check: {table: mtap/scores, where: {tool: nn-Meter, scheme: base}, column: score}
  printed: 0.4
  relation: at most
  tolerance: 0.001
  expect: 0.0
  verdict: consistent
"""


FINDINGS = """own:
  document: survey
  location: section 6
  statement: the best score
  about: [one]
  check: {table: mtap/scores, where: {tool: VIDUR}, column: score}
  printed: 2.6
  expect: 2.1
  outcome: contradicts
"""


def write_manifest(folder):
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.csv")}
    (folder / "manifest.json").write_text(json.dumps({"files": files}))


@pytest.fixture
def place(tmp_path):
    claims, results = tmp_path / "claims", tmp_path / "results" / "mtap"
    (claims / "checks").mkdir(parents=True)
    results.mkdir(parents=True)
    waits = {"one": "", "two": "", "three": "a study"}
    rows = [",".join([name, "survey", "§6", "statement", "", "", "", "", "", wait, "", ""]) for name, wait in waits.items()]
    (claims / "ledger.csv").write_text("\n".join([",".join(columns_of(Claim)), *rows]) + "\n")
    (claims / "checks" / "mtap.yaml").write_text(CHECKS)
    (claims / "findings.yaml").write_text(FINDINGS)
    (results / "scores.csv").write_text(TABLE)
    write_manifest(results)
    return tmp_path


def run(place):
    result = CliRunner().invoke(app, ["check", "--results", str(place / "results"), "--claims", str(place / "claims")])
    return result.exit_code, result.output


def test_untouched_results_pass(place):
    status, text = run(place)
    assert status == 0 and "3 claims, every verdict and value as expected" in text
    assert "1 findings of ours: 1 contradicts, 0 agrees, 0 adds; all as expected" in text


@pytest.mark.parametrize("cell", [(row, column) for row in range(4) for column in range(3)])
def test_any_changed_cell_fails_and_names_the_claims_that_read_the_table(place, cell):
    path = place / "results" / "mtap" / "scores.csv"
    lines = [line.split(",") for line in TABLE.splitlines()]
    lines[cell[0]][cell[1]] += "1"
    path.write_text("\n".join(",".join(line) for line in lines) + "\n")
    status, text = run(place)
    assert status == 1
    assert "one (mtap.yaml)" in text and "two (mtap.yaml)" in text and "scores.csv" in text
    assert "2 of 3 claims are not as expected: one, two" in text


def test_a_value_that_moved_fails_even_when_the_notebook_wrote_it(place):
    folder = place / "results" / "mtap"
    (folder / "scores.csv").write_text(TABLE.replace("VIDUR,base,2.1", "VIDUR,base,2.2"))
    write_manifest(folder)
    status, text = run(place)
    assert status == 1
    assert "one (mtap.yaml): verdict is 'differs', expected 'consistent' (got 2.2, printed 2.1)" in text
    assert "two (mtap.yaml)" not in text


def test_a_value_within_the_claim_but_not_the_expected_one_fails(place):
    folder = place / "results" / "mtap"
    (folder / "scores.csv").write_text(TABLE.replace("nn-Meter,base,0.0", "nn-Meter,base,0.3"))
    write_manifest(folder)
    status, text = run(place)
    assert status == 1 and "two (mtap.yaml): value is 0.3, expected 0.0" in text


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda folder: (folder / "scores.csv").unlink(), "no such result; run `make book`"),
        (lambda folder: (folder / "manifest.json").unlink(), "no manifest; run `make book`"),
        (lambda folder: (folder / "manifest.json").write_text("{}"), "not a manifest"),
        (lambda folder: (folder / "manifest.json").write_text('{"files": {}}'), "not in the manifest"),
        (lambda folder: (folder / "scores.csv").write_text("tool,score\nVIDUR"), "changed since notebook mtap wrote it"),
    ],
)
def test_missing_or_truncated_results_are_told_in_one_line(place, broken, message):
    broken(place / "results" / "mtap")
    status, text = run(place)
    assert status == 1 and message in text and "Traceback" not in text


def test_contradicted_claims_are_listed_with_both_values(place):
    checks = place / "claims" / "checks" / "mtap.yaml"
    checks.write_text(CHECKS.replace("printed: 2.1", "printed: 2.0").replace("verdict: consistent", "verdict: wrong arithmetic", 1))
    status, text = run(place)
    assert status == 0
    line = next(line for line in text.splitlines() if line.startswith("one "))
    assert " ".join(line.split()).startswith("one wrong arithmetic got 2.1; printed 2.0 (statement)")


def test_a_list_reads_several_rows_or_columns_in_its_order(place):
    results = Results(place / "results")
    assert results.cells("mtap/scores", {"scheme": "base", "tool": ["nn-Meter", "VIDUR"]}, "score") == [0.0, 2.1]
    assert results.cells("mtap/scores", {"tool": "VIDUR"}, ["score", "scheme"]) == [2.1, "base"]


def test_an_empty_cell_is_matched_by_an_empty_text(place):
    folder = place / "results" / "mtap"
    (folder / "scores.csv").write_text(TABLE + "VIDUR,,1.9\n")
    write_manifest(folder)
    assert Results(place / "results").cells("mtap/scores", {"tool": "VIDUR", "scheme": ""}, "score") == 1.9


def test_a_row_that_is_not_unique_is_told(place):
    folder = place / "results" / "mtap"
    (folder / "scores.csv").write_text(TABLE + "VIDUR,uniform,2.2\n")
    write_manifest(folder)
    status, text = run(place)
    assert status == 1 and "expected one row where tool=VIDUR, found 2" in text


def test_a_claim_without_check_and_without_experiment_fails(place):
    ledger = place / "claims" / "ledger.csv"
    ledger.write_text(ledger.read_text().replace("a study", ""))
    status, text = run(place)
    assert status == 1 and "three (ledger.csv): has neither a check nor the name of an experiment" in text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("printed: 2.6", "printed: 2.1", "own (findings.yaml): outcome is 'agrees', expected 'contradicts' (got 2.1)"),
        ("expect: 2.1", "expect: 2.2", "own (findings.yaml): value is 2.1, expected 2.2"),
        ("tool: VIDUR}", "tool: Paleo}", "own (findings.yaml): "),
    ],
)
def test_a_finding_that_is_not_as_expected_fails(place, old, new, message):
    (place / "claims" / "findings.yaml").write_text(FINDINGS.replace(old, new))
    status, text = run(place)
    assert status == 1 and message in text


def test_claims_and_findings_fail_together_and_are_named(place):
    (place / "claims" / "findings.yaml").write_text(FINDINGS.replace("expect: 2.1", "expect: 2.2"))
    (place / "claims" / "checks" / "mtap.yaml").write_text(CHECKS.replace("expect: 0.0", "expect: 0.2"))
    lines = unexpected(*judge_all(place / "results", place / "claims"))
    assert [line.partition(":")[0] for line in lines] == ["two (mtap.yaml)", "own (findings.yaml)"]
    status, text = run(place)
    assert status == 1 and all(line in text for line in lines)


def test_every_claim_and_finding_of_ours_is_as_expected():
    outcomes, findings = judge_all(RESULTS, DATA / "claims")
    lines = unexpected(outcomes, findings)
    if any("run `make book`" in line for line in lines):
        pytest.skip("data/results is incomplete: run `make book`")
    assert lines == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("outcome: contradicts", "outcome: adds", "a finding `adds` when, and only when"),
        ("document: survey", "document: memo", "unknown document 'memo'"),
        ("  expect: 2.1\n", "", "a finding needs a `check` and `expect`"),
    ],
)
def test_a_bad_finding_is_refused(place, old, new, message):
    path = place / "claims" / "findings.yaml"
    path.write_text(FINDINGS.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_findings(path)


def test_findings_name_claims_that_exist_and_repeat_none():
    claims, checks = read_ledger(DATA / "claims" / "ledger.csv"), read_checks(DATA / "claims" / "checks")
    findings = read_findings(DATA / "claims" / "findings.yaml")
    assert not [(name, claim) for name, finding in findings.items() for claim in finding.about if claim not in claims]
    assert not [name for name, finding in findings.items() if not finding.about]
    counted = {(str(check.check), str(check.reference)) for check, _ in checks.values() if check.check is not None}
    assert not [name for name, finding in findings.items() if (str(finding.check), str(finding.reference)) in counted]


def test_the_table_says_what_a_claim_waits_for_and_how_it_is_tested(place):
    table = to_frame(check_all(place / "results", place / "claims")).set_index("claim")
    assert dict(table["waits_for"]) == {"one": "", "two": "", "three": "a study"}
    assert dict(table["criterion"]) == {"one": "equal within 0.05", "two": "at most the printed", "three": ""}
    assert (table.loc["one", "printed"], table.loc["one", "got"], table.loc["one", "difference"]) == ("2.1", "2.1", "0")
    assert (table.loc["two", "printed"], table.loc["two", "difference"]) == ("0.4", "")
    assert dict(table["verdict"]) == {"one": "consistent", "two": "consistent", "three": "not yet run"}


def test_what_a_reader_is_shown():
    cell = Source(table="mtap/scores", where={"tool": ["VIDUR", "nn-Meter"], "scheme": "base"}, column="score")
    total = Source(function="analysis.artifact.claims.arithmetic:total", args={"terms": [1, 2]})
    assert describe(cell) == "mtap/scores.csv [tool=VIDUR; nn-Meter, scheme=base] score"
    assert describe(total) == "claims.arithmetic:total(terms=[1, 2])" and describe(None) == ""
    shown = {None: "", True: "true", 7: "7", 2.0: "2.0", 1000.0: "1000", 999.0: "999.0", 1e9: "1e+09", 0.123456789: "0.123457", "a": "a"}
    assert {value: show(value) for value in shown} == shown
    assert show([1, 2.5, "x"]) == "1; 2.5; x" and show(2.0, like=3) == "2" and show(2.5, like=3) == "2.5"
    assert plain(np.array([1.5, 2.5])) == [1.5, 2.5] and plain((np.int64(3), "a")) == [3, "a"] and plain("a") == "a"


def test_the_test_that_a_claim_passes_is_told():
    def entry(**options):
        source = Source(function="analysis.artifact.claims.arithmetic:total", args={"terms": [1]})
        return Check(check=source, expect=2.1, verdict="consistent", note="why", **options)

    assert show_criterion(entry(printed=2.1)) == show_criterion(entry(printed=2.1, tolerance=0)) == "exact"
    assert show_criterion(entry(printed=2.1, tolerance=0.05, relative=0.01)) == "equal within 0.05 or 1 %"
    assert show_criterion(entry(criterion=2, relation="at least")) == "ours: at least 2"
    assert show_criterion(entry(criterion=2.5)) == "ours: equal to 2.5"
    assert show_criterion(None) == show_criterion(Check(verdict="not reproducible", note="why")) == ""
    assert (
        show_reference(entry(printed=2.1)) == "printed 2.1"
        and show_reference(entry(criterion=2, relation="at most")) == "criterion at most 2"
    )


def test_the_note_of_a_check_takes_the_place_of_the_ledgers(place):
    ledger, checks = place / "claims" / "ledger.csv", place / "claims" / "checks" / "mtap.yaml"
    lines = [line + "of the ledger" if line.endswith(",,") else line for line in ledger.read_text().splitlines()]
    ledger.write_text("\n".join(lines) + "\n")
    checks.write_text(CHECKS.replace("  verdict: consistent\n", "  verdict: consistent\n  note: of the check\n", 1))
    table = to_frame(check_all(place / "results", place / "claims")).set_index("claim")
    assert dict(table["note"]) == {"one": "of the check", "two": "of the ledger", "three": "of the ledger"}
    assert table.loc["one", "check"] == "mtap/scores.csv [tool=VIDUR] score" and table.loc["three", "check"] == ""
    assert dict(table["as_expected"]) == {"one": "yes", "two": "yes", "three": "yes"}
