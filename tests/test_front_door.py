"""The front door of the commands: version, mistyped names, examples of subcommands, columns in the help, answers on standard output."""

from __future__ import annotations

import importlib
import io
import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from conftest import run_here
from typer.main import get_command

from analysis.__main__ import PACKAGES, RUN, command_names, main, retired
from analysis.case_columns import COMMANDS, TABLES, reads
from analysis.paths import EXAMPLES, ROOT

EXAMPLE = {
    "predict training": "predict/training.csv",
    "predict batch": "predict/batch.csv",
    "predict serving": "predict/serving.csv",
    "predict recommend": "predict/recommend.csv",
    "predict collective": "predict/collectives.csv",
    "collectives": "collectives/cases.csv",
    "systolic": "systolic/cases.csv",
    "kernels predict": "kernels/cases.csv",
}
WITHOUT = {
    "train step": "is `train` by another name",
    "freeze serving": "needs the datasets",
    "predict requests": "needs a profile of a GPU's kernels",
}
"""Subcommands without an example, and why."""


def subcommands() -> list[str]:
    found = []
    for group in ("models", "evaluation"):
        for name in command_names(group):
            command = get_command(importlib.import_module(f"analysis.{PACKAGES[group]}.{name}").app)
            found += [f"{name} {sub}" for sub in getattr(command, "commands", {})] or [name]
    return found


@pytest.mark.parametrize(
    ("typed", "now"), [("environment", "tests.checks.environment"), ("kernels score a.csv", "measured score"), ("bench", "make bench")]
)
def test_a_retired_command_says_what_does_its_work_now(capsys: pytest.CaptureFixture[str], typed: str, now: str) -> None:
    assert main(typed.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: no command '") and now in said and "did you mean" not in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "now"),
    [
        ("train a.yaml --plot step.svg", "--trace FOLDER"),
        ("serve simulate a.yaml --plot=run.svg", "the folder of --out"),
        ("collectives a.csv --plot a.svg", "--out writes"),
        ("hlo predict a.mlir --plot a.svg", "--out writes"),
        ("hlo predict a.mlir --fidelity loopnest", "--fidelity systolic"),
        ("hlo predict a.mlir --fidelity=loopnest", "--fidelity systolic"),
        ("core simulate a.elf --per-instruction a.csv", "analysis.cores.timing"),
        ("replay traces --perfetto a.json", "--timeline"),
        ("measure --devices jax-1t-fp32", "JAX and NumPy"),
    ],
)
def test_a_retired_option_says_what_does_its_work_now(capsys: pytest.CaptureFixture[str], typed: str, now: str) -> None:
    assert main(typed.split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: --") and "earlier edition" in said and now in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("--gpus 8 --tensor-parallel 4", "--tensor-parallel: '4', and --gpus '8': one quantity is given twice"),
        ("--isl 1024 --input-tokens 2048", "--input-tokens: '2048', and --isl '1024'"),
        ("--device=h200", "--device: 'h200', and --device 'h100'"),
        ("--memory-utilization nan", "--memory-utilization: is no number (nan)"),
        ("--memory-utilization=NaN", "--memory-utilization: is no number (nan)"),
    ],
)
def test_a_quantity_given_twice_or_as_nan_is_refused(capsys: pytest.CaptureFixture[str], typed: str, told: str) -> None:
    """The last of two, or the default in the place of nan, would answer another question than was asked."""
    assert main(["predict", "one", "--model", "llama-3.1-8b", "--device", "h100", *typed.split()]) == 2
    assert capsys.readouterr().err.startswith(f"error: {told}")


def test_an_option_given_twice_alike_or_one_of_many_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["predict", "one", "--model", "llama-3.1-8b", "--device", "h100"]
    assert main([*asked, "--tp", "4", "--gpus", "4"]) == 0
    assert (
        main(["serve", "sweep", str(EXAMPLES / "serve" / "simulate.yaml"), "--rate", "1", "--rate", "2", "--out", str(tmp_path / "r.csv")])
        == 0
    )
    assert "4 GPUs" in capsys.readouterr().out


def test_no_retired_option_is_one_that_there_is() -> None:
    """A name that comes back leaves the table; what the table says is done instead is there."""
    for old in retired("options"):
        name, option, *value = old.split()
        options = {word for group in PACKAGES for sub in _options(group, name) for word in sub}
        assert options and (value or option not in options), old


def _options(group: str, name: str) -> list[list[str]]:
    if name not in command_names(group):
        return []
    command = get_command(importlib.import_module(f"analysis.{PACKAGES[group]}.{name}").app)
    return [[word for param in each.params for word in param.opts] for each in getattr(command, "commands", {"": command}).values()]


def test_a_file_of_a_timeline_is_no_folder_of_traces(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Earlier editions wrote a timeline to --trace FILE.json; a folder of that name would be a surprise."""
    assert main(["train", str(EXAMPLES / "train" / "train.yaml"), "--trace", str(tmp_path / "step.json")]) == 2
    assert "--trace: expected a folder" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    said = capsys.readouterr().out.split()
    assert said[0] == "howfast" and f'version = "{said[1]}"' in (ROOT / "pyproject.toml").read_text()
    assert main(["help"]) == 0 and "usage:" in capsys.readouterr().out


@pytest.mark.parametrize(("typed", "meant"), [("predct", "predict"), ("systollic", "systolic"), ("kernel", "kernels"), ("sevre", "serve")])
def test_a_mistyped_command_is_told_which_was_meant(capsys: pytest.CaptureFixture[str], typed: str, meant: str) -> None:
    assert main([typed]) == 2
    assert f"did you mean {meant}?" in capsys.readouterr().err


@pytest.mark.parametrize("command", subcommands())
def test_every_subcommand_has_an_example_or_says_that_it_has_none(capsys: pytest.CaptureFixture[str], command: str) -> None:
    name, *sub = command.split()
    without = command in WITHOUT or name in ("data", "measure")
    assert main([name, *sub, "--example"]) == (2 if without and sub else 0 if (EXAMPLES / name / RUN).is_file() else 2)
    said = capsys.readouterr()
    if not without:
        lines = [line for line in said.out.splitlines() if line.startswith("python -m analysis")]
        assert any(shlex.split(line)[3 : 3 + len(command.split())] == command.split() for line in lines)
    elif sub:
        assert said.err.startswith(f"error: no example of {command}")


def test_an_example_of_a_subcommand_runs_where_it_is_put(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line needs no path of ours: it is run from the folder, by a shell. It brings the line that makes its input."""
    import subprocess

    assert main(["predict", "batch", "--example", str(tmp_path / "batch")]) == 0
    there, *lines = capsys.readouterr().out.splitlines()
    assert there == f"2 files in {tmp_path / 'batch'}; there:" and len(lines) == 2
    done = subprocess.run(["sh", "-ec", lines[0]], cwd=tmp_path / "batch", capture_output=True, text=True, env={})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "batch" / "latencies.csv").is_file()
    assert main(["core", "rank", "--example", str(tmp_path / "rank")]) == 0
    made, asked = capsys.readouterr().out.splitlines()[1:]
    assert " core trace program.elf " in made and " core rank trace.npz " in asked


@pytest.mark.parametrize("command", [*COMMANDS, *(name for name in TABLES if name != "serve")])
def test_the_help_lists_every_column(capsys: pytest.CaptureFixture[str], command: str) -> None:
    main([*command.split(), "--help"])
    said = capsys.readouterr().out.partition("Columns of the table:")[2]
    assert said and all(f"  {name} " in said or f"  {name}\n" in said for name in map(reads(command).ours, reads(command).names))


@pytest.mark.parametrize("command", EXAMPLE)
def test_answers_go_to_standard_output_as_csv_or_json(command: str, tmp_path: Path) -> None:
    path = str(EXAMPLES / EXAMPLE[command])
    written = run_here(*command.split(), path, "--out", str(tmp_path / "out.csv"))
    assert written.returncode == 0 and "cases answered" in written.stdout
    shown = run_here(*command.split(), path, "--out", "-")
    assert shown.stdout == (tmp_path / "out.csv").read_text() and "cases answered" in shown.stderr
    table = pd.read_csv(io.StringIO(shown.stdout))
    records = json.loads(run_here(*command.split(), path, "--json").stdout)
    assert [list(record) for record in records] == [list(table.columns)] * len(table)
    for name in table.columns:
        cells = [record[name] for record in records]
        assert all(a == b or (a is None and b != b) for a, b in zip(cells, table[name].tolist(), strict=True)), name


@pytest.mark.parametrize("command", subcommands())
def test_no_help_shows_a_zero_that_stands_for_nothing(capsys: pytest.CaptureFixture[str], command: str) -> None:
    """`predict recommend --help` said [default: 0] of prompt lengths and targets; a seed of 0, and 0 that the help explains, are values."""
    main([*command.split(), "--help"])
    for option in re.split(r"\n│\s+-?-", capsys.readouterr().out)[1:]:
        words = " ".join(option.replace("│", " ").split())
        assert not re.search(r"\[default: 0(\.0)?\]", words) or "0:" in words or words.startswith("seed"), words


@pytest.mark.parametrize("asked", [["models", "deepseek-v3"], ["models", "bert-large"], ["models"], ["devices", "H100"], ["devices"]])
def test_models_and_devices_are_listed_in_words(capsys: pytest.CaptureFixture[str], asked: list[str]) -> None:
    """Not as Python writes its dictionaries, tuples and floats; an encoder has no key-value cache."""
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert len(asked) == 1 or not re.search(r"[{}\[\]]|\('|',|None|True|False|\d{3}\.0\b|e\+\d\d", said)
    if "bert-large" in said:
        assert re.search(r"kv_bytes_per_token +0\n", said) if len(asked) == 2 else re.search(r"bert-large.* none \(encoder\)", said)


def test_train_without_the_word_step_hears_what_train_step_does(capsys):
    """`train --gpus 8 --gpus 16` answered 16, and options by other names were unknown."""
    asked = ["train", "--model", "llama-3.1-8b", "--device", "h100", "--global-batch", "64", "--sequence-length", "4096"]
    assert main([*asked, "--gpus", "8", "--gpus", "16"]) == 2 and "one quantity is given twice" in capsys.readouterr().err
    assert main([*asked[:-2], "--seq-len", "4096", "--num-gpus", "8"]) == 0
    other = capsys.readouterr().out
    assert main(["train", "step", *asked[1:], "--gpus", "8"]) == 0 and capsys.readouterr().out == other


@pytest.mark.parametrize(
    "line",
    [
        "train search examples/train/cluster.yaml --out -",
        "serve simulate examples/serve/simulate.yaml --out -",
        "hlo predict examples/hlo/step.mlir --device h100 --out=-",
        "map --arch examples/map/arch.yaml --layer examples/map/layer.yaml --out -",
        "predict one --model llama-3.1-8b --device h100 --trace -",
        "measured rows serving --out -",
    ],
)
def test_a_result_that_is_a_file_is_not_written_to_one_called_dash(line, monkeypatch, capsys, tmp_path):
    """Commands that print their table take `--out -`; the others wrote a file of that name."""
    words = [str(ROOT / word) if word.startswith("examples/") else word for word in line.split()]
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2 and not list(tmp_path.iterdir())
    assert "expected the name of a file or folder: this does not go to standard output" in capsys.readouterr().err


@pytest.mark.parametrize("tolerance", ["0", "-1", "1e-9", "2"])
def test_a_search_that_could_not_end_is_not_begun(tolerance, capsys):
    """`serve capacity --tolerance 0` halved an interval of two neighbouring floats for ever."""
    config = str(EXAMPLES / "serve" / "simulate.yaml")
    assert main(["serve", "capacity", config, "--slo", "ttft_p99=0.5", "--tolerance", tolerance]) == 2
    assert "Invalid value for '--tolerance'" in capsys.readouterr().err
