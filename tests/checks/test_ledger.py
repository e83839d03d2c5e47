"""The ledger holds every claim once, and nothing in it is fine by silence."""

import re

import pytest

from analysis.artifact.claims.check import check_all
from analysis.artifact.claims.check_files import read_checks
from analysis.artifact.claims.findings import read_findings
from analysis.artifact.claims.ledger import DOCUMENTS, Claim, read_ledger
from analysis.artifact.claims.verdicts import OWN_TABLES, basis_of
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.written_tables import columns_of

CLAIMS = DATA / "claims"


def test_all_claims_are_there():
    # a reading of the five documents listed 939 rows, 288 + 103 + 17 + 20 + 511; 21 of them are judgements and values of ours
    claims = read_ledger(CLAIMS / "ledger.csv")
    count = {name: sum(claim.document == name for claim in claims.values()) for name in DOCUMENTS}
    assert count == {"survey": 288 - 16, "ml_survey": 103, "plan": 17 - 1, "stablehlo": 20, "neuroscalar": 511 - 4}


def numbers(text):
    """The numbers of a text, also in the units of the checks: '60 %' is 0.6, '12 KB' 12288, '2 h' 120 min."""
    found = set()
    for match in re.findall(r"\d+(?:\.\d+)?(?:e\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", text)):
        value = float(match)
        found |= {value, value / 100, value * 60, value * 1024}
    return found


def test_a_printed_value_stands_in_the_claim_and_a_criterion_of_ours_is_not_called_printed():
    claims = read_ledger(CLAIMS / "ledger.csv")
    missing = []
    for name, (check, _) in read_checks(CLAIMS / "checks").items():
        text = f"{claims[name].value} {claims[name].statement}"
        for value in check.printed if isinstance(check.printed, list) else [check.printed]:
            if isinstance(value, str):
                words = re.split(r"[^\w]+", value.lower())
                missing += [name] if not all(word in text.lower() for word in words if word) else []
            elif value is not None and not any(abs(abs(value) - number) <= 1e-12 * number for number in numbers(text)):
                missing.append(name)
    assert missing == []


def test_recomputed_and_consistent_follow_from_where_the_value_comes_from():
    downgraded = []
    for name, (check, _) in read_checks(CLAIMS / "checks").items():
        if check.verdict == "recomputed":
            assert basis_of(check.check) == "recomputed", name
        if check.verdict == "consistent" and basis_of(check.check) == "recomputed":
            downgraded.append(name)
            assert check.note, name
    # settings that were copied into the recorded run, and a ratio that is one by definition
    assert sorted(downgraded) == ["s000.sec76.qps", "s000.tab7.sarathi.requests", "s000.tab7.vllm.requests", "s000.tab8.allreduce.ratio"]


def test_every_table_called_our_own_is_read_by_a_check():
    tables = {check.check.table for check, _ in read_checks(CLAIMS / "checks").values() if check.check is not None}
    tables |= {finding.check.table for finding in read_findings(CLAIMS / "findings.yaml").values()}
    assert set(OWN_TABLES) <= tables


def test_nothing_waits_for_anything_but_a_gpu():
    claims, checks = read_ledger(CLAIMS / "ledger.csv"), read_checks(CLAIMS / "checks")
    waiting = {name: checks[name][0].note for name in claims if name in checks and checks[name][0].verdict == "not yet run"}
    assert len(waiting) == 3 and all("a GPU" in note for note in waiting.values())
    assert set(claims) == set(checks)


def test_one_question_gets_one_verdict():
    # the same figure of HELP in three tables, the same slowdown in two places, the process node counted once
    checks = {name: check for name, (check, _) in read_checks(CLAIMS / "checks").items()}
    assert len({checks[name].verdict for name in ("s000.sec54.help", "s001.tab2.help", "s001.tab3.help")}) == 1
    assert checks["s004.abs.ovh"].verdict == checks["s004.sec1.01"].verdict
    assert [checks[name].verdict for name in ("s004.sec21.7nm", "s004.sec433.16nm")] == ["wrong arithmetic", "consistent"]


def test_every_claim_has_a_check_or_names_what_it_waits_for():
    claims, checks = read_ledger(CLAIMS / "ledger.csv"), read_checks(CLAIMS / "checks")
    assert not [name for name, claim in claims.items() if name not in checks and not claim.waits_for]
    assert not [name for name in checks if name not in claims]


def test_every_check_by_a_function_gives_what_is_expected(tmp_path):
    # results are not needed for these; claims that read results are checked by `make check`
    outcomes = [one for one in check_all(tmp_path) if one.check is not None and one.check.check is not None and one.check.check.function]
    assert len(outcomes) > 140
    assert [(one.claim.claim_id, one.problem) for one in outcomes if one.problem] == []


def test_a_claim_that_reads_results_says_run_make_book_when_there_are_none(tmp_path):
    outcomes = [one for one in check_all(tmp_path) if one.check is not None and one.check.check is not None and one.check.check.table]
    assert len(outcomes) > 100
    assert all("make book" in one.problem and one.verdict == "not yet run" for one in outcomes)


def test_machine_written_parts_of_the_stablehlo_page_are_no_evidence():
    checks = read_checks(CLAIMS / "checks")
    for name in ("s003.circ", "s003.axioms", "s003.rebut"):
        assert checks[name][0].verdict == "not reproducible" and "not evidence" in checks[name][0].note


def test_areas_and_powers_of_an_unpublished_design_are_not_called_recomputed():
    checks = read_checks(CLAIMS / "checks")
    for name in ("total_area.1", "total_area.8", "tile_area.1", "tile_area.8", "power.1", "power.8"):
        assert checks[f"s004.tab3.{name}"][0].verdict == "not reproducible"


def row(**changes):
    cells = {
        "claim_id": "a",
        "document": "survey",
        "location": "",
        "statement": "s",
        "quantity": "",
        "value": "1",
        "unit": "",
        "kind": "",
        "how_to_check": "",
        "waits_for": "x",
        "first_pass": "",
        "note": "",
    }
    return ",".join((cells | changes)[name] for name in columns_of(Claim))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(), row()], "given twice"),
        ([row(document="memo")], "document: is not known .got 'memo'"),
        ([row(claim_id="")], "claim_id: .* at least 1 character"),
    ],
)
def test_bad_ledger_is_refused(tmp_path, rows, message):
    path = tmp_path / "ledger.csv"
    path.write_text("\n".join([",".join(columns_of(Claim)), *rows]) + "\n")
    with pytest.raises(InputError, match=message):
        read_ledger(path)


def test_truncated_ledger_is_refused(tmp_path):
    path = tmp_path / "ledger.csv"
    path.write_text("claim_id,document\n")
    with pytest.raises(InputError, match="missing column"):
        read_ledger(path)
