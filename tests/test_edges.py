"""The edges of the package: YAML and CSV read with errors that name file, line and key; the command line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import typer
from conftest import run_analysis

from analysis.__main__ import main
from analysis.configs import Strict, read_yaml
from analysis.errors import DatasetMissing, InputError
from analysis.paths import EXAMPLES
from analysis.studies import datasets
from analysis.tables import read_csv, write_atomic


class Inner(Strict):
    size: int


class Outer(Strict):
    name: str
    inner: Inner
    items: tuple[Inner, ...] = ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\ninner:\n  size: 1\n  colour: red\n", "c.yaml:4: inner.colour: unknown key, expected one of size"),
        ("name: a\ninner:\n  size: big\n", "c.yaml:3: inner.size: Input should be a valid integer"),
        ("name: a\nouter:\n  size: 1\n", "c.yaml:2: outer: unknown key, expected one of inner items name;"),
        ("name: a\niner:\n  size: 1\n", "c.yaml:2: iner: unknown key, did you mean inner?"),
        (
            "name: a\ninner:\n  size: 1\n  syze: 2\n  colour: 3\n  far: 4\n",
            "colour: unknown key, expected one of size; line 6: inner.far: unknown key",
        ),
        ("name: a\n", "c.yaml:1: inner: required key is missing"),
        ("name: a\nname: b\n", "c.yaml:2: name: given twice"),
        ("name: [\n", "c.yaml:2: not valid YAML"),
        ("- a\n", "c.yaml:1: expected a mapping"),
        ("name: a\ninner: {size: 1}\nitems:\n- size: 1\n- size: x\n", "c.yaml:5: items.1.size"),
    ],
)
def test_yaml_errors_name_file_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_yaml(path, Outer)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_all_errors_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("name: [1]\ninner:\n  size: big\nitems:\n- size: x\n- colour: red\n")
    with pytest.raises(InputError) as caught:
        read_yaml(path, Outer)
    told = str(caught.value)
    assert "c.yaml:6: items.1.colour: unknown key, expected one of size; line 1: name: Input should be a valid string" in told
    assert "line 3: inner.size" in told and "line 5: items.0.size" in told and "items.1.size: required key is missing" in told
    path.write_text("inner: {size: 1}\n" + "".join(f"key{number}: 1\n" for number in range(40)))
    with pytest.raises(InputError, match="and 35 more"):
        read_yaml(path, Outer)


def test_csv_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_csv(tmp_path / "gone.csv")
    path = tmp_path / "t.csv"
    path.write_text("")
    with pytest.raises(InputError, match="is empty"):
        read_csv(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"t\.csv:1: c: missing column"):
        read_csv(path, required=["a", "c"])
    path.write_text("a,b\n1,2,3,4\n")
    with pytest.raises(InputError, match="not a CSV table"):
        read_csv(path)


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "t.csv"
    target.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(InputError, match=r"t\.csv: cannot be written: disk full"):
        write_atomic(target, b"new")
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]


def test_a_missing_dataset_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANALYSIS_DATASETS", str(tmp_path))
    assert not datasets.available("neusight/nothing")
    with pytest.raises(DatasetMissing, match="make data"):
        datasets.load("neusight/nothing")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "t.csv").write_text("x\n1\n")
    assert datasets.load("d/t").x.tolist() == [1]


def test_the_command_line_lists_its_commands_and_refuses_others() -> None:
    listed = run_analysis("--help")
    assert listed.returncode == 0 and "claims" in listed.stdout and "trials" in listed.stdout
    refused = run_analysis("nothing")
    assert refused.returncode == 2 and "no command 'nothing'" in refused.stderr


@pytest.mark.parametrize(
    ("fault", "status", "told"),
    [
        (RuntimeError("two\nlines"), 70, r"error: a fault of this program: RuntimeError: two\nlines (python -m analysis --debug mtap"),
        (RecursionError("maximum recursion depth exceeded"), 70, "RecursionError"),
        (OSError(28, "No space left on device", "out.csv"), 2, "error: out.csv: No space left on device"),
        (MemoryError(), 2, "error: needs more memory than there is"),
    ],
)
def test_whatever_is_unforeseen_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fault: Exception, status: int, told: str
) -> None:
    from analysis import __main__ as door
    from analysis.artifact.commands.evaluation import mtap

    app = typer.Typer(add_completion=False)

    @app.command()
    def fail() -> None:
        raise fault

    monkeypatch.setattr(mtap, "app", app)
    assert door.main(["mtap"]) == status
    printed = capsys.readouterr().err
    assert told in printed and len(printed.splitlines()) == 1
    with pytest.raises(type(fault)):
        door.main(["--debug", "mtap"])


WRITES = [
    "map --arch {E}/map/arch.yaml --layer {E}/map/layer.yaml --objective edp --out {E}/map/arch.yaml",
    "loopnest --arch {E}/loopnest/arch.yaml --layer {E}/loopnest/layer.yaml --mapping e/loopnest/mapping.yaml --out=e/loopnest/layer.yaml",
    "replay {E}/replay/nodes.csv --network {E}/replay/network.yaml --out {E}/replay/network.yaml",
    "replay {E}/replay/nodes.csv --network {E}/replay/network.yaml --out w.csv --timeline {E}/replay/nodes.csv",
    "train {E}/train/train.yaml --out {E}/train/train.yaml",
    "hlo predict {E}/hlo/step.mlir --device h100 --out {E}/hlo/step.mlir",
    "measured score {E}/measured/predictions.csv --out {E}/measured/predictions.csv",
    "mtap score {E}/mtap/nn_meter.yaml --out {E}/mtap/nn_meter.yaml",
    "blocks evaluate {E}/blocks/blocks.csv --quick --members 1 --out {E}/blocks/blocks.csv",
    "serve sweep {E}/serve/simulate.yaml --rate 1 --out {E}/serve/simulate.yaml",
    "collectives {E}/collectives/cases.csv --out {E}/collectives/../collectives/cases.csv",
]


@pytest.mark.parametrize("line", WRITES)
def test_no_command_writes_over_what_it_reads(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "e")
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    assert main(line.replace("{E}", "e").split()) == 2
    said = capsys.readouterr().err
    assert "the same command uses this file for something else" in said and said.count("\n") == 1
    assert before == {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", ["o.xlsx", "o.json", "o.CSV.GZ", "o.tsv"])
@pytest.mark.parametrize(
    "line",
    [
        "collectives {E}/collectives/cases.csv",
        "predict collective {E}/predict/collectives.csv",
        "replay {E}/replay/nodes.csv --network {E}/replay/network.yaml",
    ],
)
def test_a_table_is_not_written_under_the_name_of_another_format(
    line: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A spreadsheet refuses an .xlsx that is a CSV, and so does a reader of .json or .gz."""
    assert main([*line.replace("{E}", str(EXAMPLES)).split(), "--out", str(tmp_path / name)]) == 2
    assert "expected one that ends in .csv" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_an_output_goes_where_a_link_points(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "o.csv").symlink_to("disk/o.csv")
    assert main(["collectives", str(EXAMPLES / "collectives" / "cases.csv"), "--out", str(tmp_path / "o.csv")]) == 0
    assert (tmp_path / "o.csv").is_symlink() and "cycles_max" in (tmp_path / "disk" / "o.csv").read_text()


def test_a_program_with_a_byte_order_mark_is_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = EXAMPLES / "hlo" / "step.mlir"
    (tmp_path / "step.mlir").write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    answers = [(main(["hlo", "cost", str(path)]), capsys.readouterr().out) for path in (plain, tmp_path / "step.mlir")]
    assert answers[0] == answers[1] and answers[0][0] == 0


def test_too_few_blocks_to_judge_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = (EXAMPLES / "blocks" / "blocks.csv").read_text().splitlines()
    (tmp_path / "b.csv").write_text("\n".join(rows[:3]) + "\n")
    assert main(["blocks", "evaluate", str(tmp_path / "b.csv"), "--quick", "--members", "1"]) == 2
    assert "leave none to judge" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--model llama-3.1-8b", "--tpot-target-ms 5", "--emit vllm", "--plot a.svg", "--sure", "--max-gpus 4"])
def test_a_table_of_questions_takes_no_question_of_the_line(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They would be answered as if the option had not been given."""
    assert main(["predict", "recommend", str(EXAMPLES / "predict" / "recommend.csv"), *option.split()]) == 2
    assert f"{option.split()[0]}: is of one question alone" in capsys.readouterr().err


def test_two_bounds_of_one_name_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["serve", "capacity", str(EXAMPLES / "serve" / "simulate.yaml"), "--out", str(tmp_path / "limit")]
    assert main([*asked, "--slo", "ttft_p99=0.5", "--slo", "tpot_p99=1", "--slo", "ttft_p99=0.1"]) == 2
    assert "ttft_p99=0.1: is given twice" in capsys.readouterr().err


def test_a_closed_standard_output_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`>&-` of a shell; a command that writes a file needs none."""
    monkeypatch.setattr("sys.stdout", None)
    assert main(["predict", "collective", str(EXAMPLES / "predict" / "collectives.csv")]) == 2
    assert "standard output, where the answers would go, is closed" in capsys.readouterr().err


@pytest.mark.parametrize("value", [".nan", ".inf"])
def test_a_sites_constant_that_is_no_number_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
    log, site = str(EXAMPLES / "calibrate" / "nccl_tests.txt"), tmp_path / "site.yaml"
    assert main(["calibrate", log, "--out", str(site)]) == 0
    text = re.sub(r"(latency: )[\d.]+", rf"\g<1>{value}", site.read_text(), count=1)
    site.write_text(text)
    assert main(["compare", log, "--site", str(site)]) == 2
    assert "latency: Input should be a finite number" in capsys.readouterr().err
