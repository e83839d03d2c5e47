"""One vocabulary: every name of every quantity is read by every command that has the quantity, and gives the same answer."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.main import get_command

from analysis.__main__ import _by_our_names, command_names, main
from analysis.case_columns import COMMANDS, reads
from analysis.paths import EXAMPLES
from analysis.vocabulary import ALSO, NAMES, ours, read_as

FILES = {
    "predict training": "predict/training.csv",
    "predict batch": "predict/batch.csv",
    "predict serving": "predict/serving.csv",
    "predict recommend": "predict/recommend.csv",
    "predict collective": "predict/collectives.csv",
    "kernels predict": "kernels/cases.csv",
}
CONTEXT = {"batch_size", "framework", "dtype", "dp", "dp_size", "data_parallel_size"}
"""Names that are several quantities': which, the reader decides."""


def _said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    status = main(list(arguments))
    found = capsys.readouterr()
    assert status == 0, found.err
    return found.out


def test_a_name_is_that_of_one_quantity_but_where_the_reader_decides() -> None:
    every = [name for same in NAMES for name in same]
    assert {name for name in every if every.count(name) > 1} <= CONTEXT
    assert len({same[0] for same in NAMES}) == len(NAMES)


@pytest.mark.parametrize("command", COMMANDS)
def test_our_name_of_every_column_is_read(command: str) -> None:
    columns = reads(command)
    for name in columns.names:
        assert columns.read_as(columns.ours(name)) == name
        if name not in columns.kept:
            spelt = [other for same in NAMES if same[0] == columns.ours(name) for other in same]
            assert all(columns.read_as(other) in (name, *(own for own in columns.names if own == other)) for other in spelt), name


@pytest.mark.parametrize("command", FILES)
def test_every_name_of_every_column_gives_the_same_answer(capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str) -> None:
    columns = reads(command)
    cases = pd.read_csv(EXAMPLES / FILES[command], dtype=str, keep_default_na=False).head(2)
    assert [columns.ours(columns.read_as(name)) for name in cases] == list(cases.columns)  # examples speak the one vocabulary
    path, found, tried = tmp_path / "cases.csv", [], 0
    longest = max(len(same) for same in NAMES)
    for turn in range(longest):
        called = {}
        for name in cases:
            spelt = [other for same in NAMES if same[0] == name for other in same if columns.read_as(other) == columns.read_as(name)] or [
                name
            ]
            called[name] = spelt[turn % len(spelt)]
        tried += sum(name != other for name, other in called.items())
        cases.rename(columns=called).to_csv(path, index=False)
        answer = pd.read_csv(io.StringIO(_said(capsys, *command.split(), str(path))), keep_default_na=False)
        assert list(answer.columns[: len(cases.columns)]) == list(called.values())  # theirs stay as they were written
        found.append(answer.iloc[:, len(cases.columns) :])
    assert tried >= 4
    for other in found[1:]:
        pd.testing.assert_frame_equal(found[0], other, check_exact=True)


def test_a_refusal_speaks_of_the_column_as_it_was_written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    text = (EXAMPLES / "predict" / "serving.csv").read_text().splitlines()
    path.write_text("\n".join([text[0], text[1].replace(",1024,1024,", ",0,1024,")]))
    assert main(["predict", "serving", str(path)]) == 2
    assert "input_tokens is 0, expected a whole number from 1" in capsys.readouterr().out


def test_every_option_by_every_name_is_the_command_s() -> None:
    """Of all commands: an option of the vocabulary by any other name arrives as the option."""
    from importlib import import_module

    walked = 0
    for name in command_names("models"):
        app = import_module(f"analysis.commands.models.{name}").app
        found = get_command(app)
        for title, command in getattr(found, "commands", {"": found}).items():
            known = {option[2:].replace("-", "_") for param in command.params for option in param.opts if option.startswith("--")}
            for option in known:
                for other in (other for same in NAMES if same[0] == option for other in same if other not in known):
                    words = [*([title] if title else []), f"--{other.replace('_', '-')}", "1"]
                    if read_as(other, known, ALSO) == option:
                        assert _by_our_names(app, words)[-2] == f"--{option.replace('_', '-')}"
                        walked += 1
    assert walked > 40


ONE = {
    "model": "llama-3.1-8b",
    "device": "h100",
    "gpus": "2",
    "clients": "4",
    "input_tokens": "256",
    "output_tokens": "64",
    "precision": "bf16",
}


def test_questions_by_other_names_give_the_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for turn in range(4):
        spelt = {name: next(same for same in NAMES if same[0] == name) for name in ONE}
        words = [word for name, value in ONE.items() for word in (f"--{spelt[name][turn % len(spelt[name])].replace('_', '-')}", value)]
        found.append(_said(capsys, "predict", "one", *words, "--json"))
    assert found.count(found[0]) == 4 and json.loads(found[0])["basis"] == "measured kernels"


def test_python_takes_other_names() -> None:
    import analysis

    rows = [{ours(key, ONE): value for key, value in ONE.items()} | {"engine": "vllm", "mode": "agg", "tensor_parallel": "2"}]
    old = [
        {
            "model_path": "llama-3.1-8b",
            "system": "h100",
            "batch_size": "4",
            "isl": "256",
            "osl": "64",
            "precision": "bf16",
            "backend": "vllm",
            "mode": "agg",
            "tp": "2",
        }
    ]
    del rows[0]["gpus"]
    pd.testing.assert_frame_equal(analysis.predict_serving(rows), analysis.predict_serving(old))
    assert analysis.predict_one("llama-3.1-8b", "h100", tp=2).answer == analysis.predict_one("llama-3.1-8b", "h100", gpus=2).answer


@pytest.mark.parametrize(("file", "command"), [("train/train.yaml", "train"), ("serve/simulate.yaml", "serve simulate")])
def test_keys_of_yaml_by_other_names(capsys: pytest.CaptureFixture[str], tmp_path: Path, file: str, command: str) -> None:
    content = yaml.safe_load((EXAMPLES / file).read_text())
    (tmp_path / "requests.csv").write_bytes((EXAMPLES / "serve" / "requests.csv").read_bytes())

    def other(item: object) -> object:
        if not isinstance(item, dict):
            return item
        spelt = {key: next((same[1] if same[0] == key else same[0] for same in NAMES if key in same), key) for key in item}
        return {spelt[key]: other(value) for key, value in item.items()}

    said = []
    for text in (content, other(content)):
        path = tmp_path / "asked.yaml"
        path.write_text(yaml.safe_dump(text))
        said.append(_said(capsys, *command.split(), str(path), "--json"))
    assert said[0] == said[1] and other(content) != content


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["pre"], ["predict"]),
        (["predict", "rec"], ["recommend"]),
        (["predict", "one", "--kv"], ["--kv-precision"]),
        (["predict", "one", "--device", "h100-sx"], ["H100-SXM5-80GB", "H100-SXM5-96GB"]),
        (["predict", "one", "--model", "qwen3-32"], ["qwen3-32b"]),
        (["nothing", ""], []),
        (["predict", "training", ""], []),  # a file: the shell's own
    ],
)
def test_the_shell_is_told_what_may_follow(capsys: pytest.CaptureFixture[str], words: list[str], expected: list[str]) -> None:
    assert _said(capsys, "--complete", *words).split() == expected


def test_the_script_for_the_shell_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    import subprocess

    script = _said(capsys, "--completion", "bash")
    asked = (
        'howfast() { [ "$1" = --complete ] && echo "$@"; }\n'
        + script
        + 'COMP_WORDS=(howfast predict o); COMP_CWORD=2; _howfast; echo "${COMPREPLY[@]}"'
    )
    assert subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True).stdout.strip() == "--complete predict o"
    assert "bashcompinit" in _said(capsys, "--completion", "zsh") and main(["--completion", "fish"]) == 2
