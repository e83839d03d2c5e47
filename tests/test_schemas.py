"""JSON Schemas are those of the models, admit every example and refuse what the models refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from analysis.__main__ import main
from analysis.artifact.publishing import schemas
from analysis.paths import DATA, EXAMPLES

FILES = {
    "train": [EXAMPLES / "train" / "train.yaml"],
    "train_search": [EXAMPLES / "train" / "cluster.yaml"],
    "serve": [EXAMPLES / "serve" / "simulate.yaml"],
    "network": [EXAMPLES / "replay" / "network.yaml"],
    "arch": [EXAMPLES / "map" / "arch.yaml", EXAMPLES / "loopnest" / "arch.yaml"],
    "layer": [EXAMPLES / "map" / "layer.yaml", EXAMPLES / "loopnest" / "layer.yaml"],
    "mapping": [EXAMPLES / "loopnest" / "mapping.yaml"],
    "core_design": [EXAMPLES / "core" / "design.yaml"],
    "devices": [EXAMPLES / "devices" / "my_gpu.yaml", *sorted((DATA / "hardware" / "devices").glob("*.yaml"))],
    "evidence": [EXAMPLES / "mtap" / "nn_meter.yaml", *sorted((DATA / "mtap" / "evidence").glob("*.yaml"))],
}


@pytest.mark.parametrize("name", schemas.MODELS)
def test_the_schema_kept_is_the_model_s(name: str) -> None:
    kept = (DATA / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
    assert kept == schemas.text(name), "python -m analysis data schema --out data/schemas writes it again"
    Draft202012Validator.check_schema(json.loads(kept))


@pytest.mark.parametrize("name", FILES)
def test_examples_are_valid_and_a_misspelt_key_is_not(name: str) -> None:
    validator = Draft202012Validator(schemas.schema(name))
    assert FILES[name]
    for path in FILES[name]:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert [error.message for error in validator.iter_errors(content)] == [], path
        assert not validator.is_valid({**content, "no_such_key": 1}), path


def test_every_yaml_example_has_a_schema() -> None:
    assert set(EXAMPLES.glob("*/*.yaml")) == {path for paths in FILES.values() for path in paths if path.is_relative_to(EXAMPLES)}


def test_the_command_lists_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "schema"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(schemas.MODELS)
    assert main(["data", "schema", "train"]) == 0
    assert set(json.loads(capsys.readouterr().out)["required"]) == {"model", "system", "plan"}
    assert main(["data", "schema", "nothing"]) == 2
    assert main(["data", "schema", "--out", str(tmp_path)]) == 0 and len(list(tmp_path.iterdir())) == len(schemas.MODELS)
