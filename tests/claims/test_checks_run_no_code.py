"""A checks file is data: it names a function made for it, or it is refused; nothing that it says is run."""

import pytest
from typer.testing import CliRunner

from analysis.artifact.claims.check import check_all
from analysis.artifact.claims.check_files import read_checks
from analysis.artifact.commands.repository.claims import app
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.checkable import _REGISTERED, MODULES, call

LEDGER = (DATA / "claims" / "ledger.csv").read_text(encoding="utf-8").splitlines()


def claims_folder(tmp_path, function, arguments):
    """A claims folder whose only check calls `function`."""
    claim = LEDGER[1].partition(",")[0]
    folder = tmp_path / "claims"
    (folder / "checks").mkdir(parents=True)
    (folder / "ledger.csv").write_text("\n".join(LEDGER[:2]) + "\n", encoding="utf-8")
    (folder / "checks" / "room.yaml").write_text(
        f"{claim}:\n  check: {{function: '{function}', args: {arguments}}}\n  printed: 0\n  expect: 0\n  verdict: consistent\n"
    )
    return folder


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        # The two that ran: a shell command, and a file outside the output folder.
        ("analysis.artifact.mtap.trials.running:run", "{command: [sh, -c, 'touch WITNESS'], folder: '.'}"),
        ("analysis.tables:write_atomic", "{path: WITNESS, data: owned}"),
        # The same by other ways: a name that a listed module imported, a private one, a class, an attribute of an attribute.
        ("analysis.artifact.claims.arithmetic:read_csv", "{path: /etc/passwd}"),
        ("analysis.artifact.claims.arithmetic:_read", "{name: ../../etc/passwd}"),
        ("analysis.artifact.claims.arithmetic:math.factorial", "{n: 5}"),
        ("analysis.artifact.claims.arithmetic:__builtins__", "{}"),
        ("analysis.artifact.claims.check:call", "{name: 'os:system', arguments: {command: touch WITNESS}}"),
        ("os:system", "{command: touch WITNESS}"),
    ],
)
def test_checks_file_runs_no_code(tmp_path, monkeypatch, function, arguments):
    monkeypatch.chdir(tmp_path)
    folder = claims_folder(tmp_path, function, arguments)
    before = set(tmp_path.rglob("*"))
    try:
        (outcome,) = check_all(tmp_path / "results", folder)
        assert outcome.problem.startswith("no function") and outcome.got is None
    except InputError as error:
        assert "@checkable" in str(error)
    result = CliRunner().invoke(app, ["check", "--claims", str(folder), "--results", str(tmp_path)])
    assert result.exit_code != 0
    assert set(tmp_path.rglob("*")) == before and not (tmp_path / "WITNESS").exists()


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        ("ratio", {"numerator": "2", "denominator": 3}, "numerator: Input should be a valid number"),
        ("ratio", {"numerator": 2, "denominator": 0}, "ZeroDivisionError"),
        ("ratio", {"numerator": 2}, "denominator: Missing"),
        ("ratio", {"numerator": 2, "denominator": 3, "more": 1}, "more: Unexpected"),
        ("ratio", {"numerator": 10**40, "denominator": 3}, "a number beyond"),
        ("product", {"factors": [1.0] * 10_001}, "more than 10000 items"),
        ("count_rows", {"table": "../../../etc/passwd"}, "table: String should match"),
        ("count_rows", {"table": "/etc/passwd"}, "table: String should match"),
        ("of_column", {"table": "claims/printed/survey_table2", "column": "none", "how": "min"}, "KeyError"),
    ],
)
def test_arguments_are_typed_and_bounded(function, arguments, message):
    with pytest.raises(InputError, match=message):
        call(f"analysis.artifact.claims.arithmetic:{function}", arguments)


def test_loops_are_bounded():
    with pytest.raises(InputError, match="less than or equal to 1000"):
        call("analysis.artifact.claims.arithmetic_neuroscalar:lstm_parameters", {"layers": 10**12})
    with pytest.raises(InputError, match="less than or equal to 1000"):
        call("analysis.artifact.claims.equations:tiles_printed_over_right", {"waves": 10**9, "tiles": 10**9})


def test_every_function_that_our_checks_name_is_registered():
    named = {check.check.function for check, _ in read_checks(DATA / "claims" / "checks").values() if check.check and check.check.function}
    for function in named:
        assert function.partition(":")[0] in MODULES
        with pytest.raises(InputError, match="argument"):
            call(function, {"no_such_argument": 1})
    assert named <= set(_REGISTERED)
