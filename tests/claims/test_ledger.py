"""The ledger holds every claim once, and nothing in it is fine by silence."""

import pytest

from analysis.claims.check import check_all
from analysis.claims.check_files import read_checks
from analysis.claims.ledger import COLUMNS, DOCUMENTS, read_ledger
from analysis.errors import InputError
from analysis.paths import DATA

CLAIMS = DATA / "claims"


def test_all_claims_are_there():
    # the audit of the five documents lists 939 claims: 288 + 103 + 17 + 20 + 511; a second audit of NeuroScalar adds 21
    claims = read_ledger(CLAIMS / "ledger.csv")
    count = {name: sum(claim.document == name for claim in claims.values()) for name in DOCUMENTS}
    assert count == {"survey": 288, "ml_survey": 103, "plan": 17, "stablehlo": 20, "neuroscalar": 511 + 21}
    assert sum(name.startswith("s004.contra.") for name in claims) == 21


def test_every_claim_has_a_check_or_names_what_it_waits_for():
    claims, checks = read_ledger(CLAIMS / "ledger.csv"), read_checks(CLAIMS / "checks")
    assert not [name for name, claim in claims.items() if name not in checks and not claim.waits_for]
    assert not [name for name in checks if name not in claims]


def test_every_check_by_a_function_gives_what_is_expected(tmp_path):
    # results are not needed for these; claims that read results are checked by `make check`
    outcomes = [one for one in check_all(tmp_path) if one.check is not None and one.check.check is not None and one.check.check.function]
    assert len(outcomes) > 150
    assert [(one.claim.claim_id, one.problem) for one in outcomes if one.problem] == []


def test_a_claim_that_reads_results_says_run_make_book_when_there_are_none(tmp_path):
    outcomes = [one for one in check_all(tmp_path) if one.check is not None and one.check.check is not None and one.check.check.table]
    assert all("make book" in one.problem and one.verdict == "not yet run" for one in outcomes)


def test_machine_written_parts_of_the_stablehlo_page_are_no_evidence():
    checks = read_checks(CLAIMS / "checks")
    for name in ("s003.circ", "s003.axioms", "s003.rebut"):
        assert checks[name][0].verdict == "not reproducible" and "not evidence" in checks[name][0].note


def test_areas_and_powers_of_an_unpublished_design_are_not_called_reproduced():
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
    return ",".join((cells | changes)[name] for name in COLUMNS)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(), row()], "given twice"),
        ([row(document="memo")], "unknown document 'memo'"),
        ([row(claim_id="")], "empty identifier"),
    ],
)
def test_bad_ledger_is_refused(tmp_path, rows, message):
    path = tmp_path / "ledger.csv"
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
    with pytest.raises(InputError, match=message):
        read_ledger(path)


def test_truncated_ledger_is_refused(tmp_path):
    path = tmp_path / "ledger.csv"
    path.write_text("claim_id,document\n")
    with pytest.raises(InputError, match="missing column"):
        read_ledger(path)
