"""Evidence files: what is refused, and the five-minute path from the template to a score."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from analysis.artifact.mtap.evidence import Evidence, evidence_files, items
from analysis.artifact.mtap.rubric import Rubric, Weights
from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.paths import DATA, ROOT

MTAP = DATA / "mtap"
TEMPLATE = MTAP / "template.yaml"


def edited(tmp_path: Path, old: str, new: str, source: Path = TEMPLATE) -> Path:
    text = source.read_text()
    assert text.count(old) >= 1, old
    path = tmp_path / "tool.yaml"
    path.write_text(text.replace(old, new, 1))
    return path


def line_of(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), start=1) if text in line)


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ("  limited_workloads:", "  limitd_workloads:", "D1.limitd_workloads", "unknown key"),
        ('works: {value: unknown, source: "run: MACHINE, DATE, COMMAND"}', "works: {value: true}", "D1.works.source", "missing"),
        ("spearman: {value: unknown", "spearman: {value: 1.5", "D1.spearman.value", "less than or equal to 1"),
        ("error_percent: {value: unknown", "error_percent: {value: -2", "D1.error_percent.value", "greater than or equal to 0"),
        ("error_percent: {value: unknown", "error_percent: {value: true", "D1.error_percent.value", "expected a number, got yes or true"),
        ("error_percent: {value: unknown", "error_percent: {value: .nan", "D1.error_percent.value", "finite number"),
        ("gamma_kernel_to_model: {value: unknown", "gamma_kernel_to_model: {value: .inf", "D2.gamma_kernel_to_model.value", "finite"),
        ("composes: {value: unknown", "composes: {value: 1", "D2.composes.value", "boolean"),
        ("minutes_to_first_prediction: {value: unknown", "minutes_to_first_prediction: {value: 0", "value", "greater than 0"),
        ("source_patches: {value: unknown", "source_patches: {value: 1.5", "source_patches.value", "integer"),
        ("new_hardware: {value: unknown", "new_hardware: {value: easy", "D5.new_hardware.value", "config"),
        ("works: {value: unknown", "works: {value: perhaps", "D1.works.value", "boolean"),
        ("works: {value: unknown", "works: {value: ", "D1.works.value", "the word unknown"),
        ("works: {value: unknown", 'works: {value: "true"', "D1.works.value", "boolean"),
        ("spearman: {value: unknown", 'spearman: {value: "0.9"', "D1.spearman.value", "number"),
        ("error_percent: {value: unknown", 'error_percent: {value: "9"', "D1.error_percent.value", "number"),
        ("gamma_kernel_to_model: {value: unknown", 'gamma_kernel_to_model: {value: "0.1"', "D2.gamma_kernel_to_model.value", "number"),
        ("minutes_to_first_prediction: {value: unknown", 'minutes_to_first_prediction: {value: "12"', "value", "number"),
        ("minutes_to_first_prediction: {value: unknown", "minutes_to_first_prediction: {value: .inf", "value", "finite"),
        ("source_patches: {value: unknown", 'source_patches: {value: "1"', "source_patches.value", "integer"),
        ("source_patches: {value: unknown", "source_patches: {value: -1", "source_patches.value", "greater than or equal to 0"),
        (
            'works: {value: unknown, source: "run: MACHINE, DATE, COMMAND"',
            'works: {value: true, source: "trust me"',
            "source",
            "expected a source",
        ),
        (
            'works: {value: unknown, source: "run: MACHINE, DATE, COMMAND"',
            'works: {value: true, source: "data/none.csv"',
            "source",
            "no such file",
        ),
        ("error_percent: {value: unknown", "error_percent: {range: [9, 3], value: 5", "D1.error_percent", "backwards"),
        ("error_percent: {value: unknown", "error_percent: {range: [1, 3], value: 5", "D1.error_percent", "outside its range"),
        ("methodology: analytical ", "methodology: magical ", "methodology", "analytical"),
        ('evaluated: "2026-01-31"', "evaluated: yesterday", "evaluated", "pattern"),
        ("failures: []", 'failures: [{failure: F5, what: x, resolved: true, source: "run: m, d, c"}]', "failures.0.failure", "F1"),
    ],
)
def test_bad_evidence_is_refused_with_file_line_and_key(tmp_path: Path, old: str, new: str, key: str, message: str) -> None:
    path = edited(tmp_path, old, new)
    with pytest.raises(InputError) as error:
        read_yaml(path, Evidence)
    assert error.value.path == path
    assert key in str(error.value.key)
    assert message in str(error.value)
    assert error.value.line == line_of(path, new.split("\n")[0])
    assert "\n" not in str(error.value)


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="given twice"):
        read_yaml(edited(tmp_path, "tool: NAME\n", "tool: NAME\ntool: OTHER\n"), Evidence)


def test_weights_that_do_not_sum_to_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"scheme base: weights sum to 1\.1"):
        read_yaml(edited(tmp_path, "D1: 0.4", "D1: 0.5", MTAP / "weights.yaml"), Weights)


def test_a_rubric_with_a_missing_dimension_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected D1, D2, D3, D4, D5"):
        read_yaml(edited(tmp_path, "  D5:\n", "  D6:\n", MTAP / "rubric.yaml"), Rubric)


def test_the_template_has_every_item_and_is_itself_valid() -> None:
    template = read_yaml(TEMPLATE, Evidence)
    assert all(item is not None and item.value is None for _, _, item in items(template))


def test_every_item_of_every_file_has_a_source() -> None:
    count = 0
    for folder in ("evidence", "stated", "others", "wider"):
        for path in evidence_files(MTAP / folder):
            for _, _, item in items(read_yaml(path, Evidence)):
                if item is None or item.value is None:
                    continue
                for source in item.source.split("; "):
                    known = re.match(r"https://\S+\.\S+|doi:10\.\d{4,}/|document: .+(section|table) \d|run: .*20\d\d", source)
                    assert known or (ROOT / source.split(",")[0].split(" ")[0]).exists(), (path.name, source)
                count += 1
    assert count > 250


def test_evidence_covers_the_protocols_sub_measures() -> None:
    """Survey draft, section 6.1: D1 rank, maximum, scaling; D2 gamma twice and attribution; D3, D4 and D5 three each."""
    fields = {f"{d}.{name}" for d, name, _ in items(read_yaml(TEMPLATE, Evidence))} | {"D1.scaling"}
    assert fields >= {
        *("D1.error_percent", "D1.spearman", "D1.max_error_percent", "D1.scaling"),
        *("D2.gamma_kernel_to_model", "D2.gamma_model_to_system", "D2.gap_kernel_error"),
        *("D2.gap_inter_kernel_overhead", "D2.gap_communication_error"),
        *("D3.workload_transfer", "D3.hardware_transfer", "D3.temporal_stability"),
        *("D4.minutes_to_first_prediction", "D4.container", "D4.documentation"),
        *("D5.new_hardware", "D5.new_workload", "D5.interface"),
    }


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "analysis", "mtap", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_scores_and_writes_a_table(tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    done = run("score", str(MTAP / "others" / "llm_analysis.yaml"), "--out", str(out))
    assert done.returncode == 0, done.stderr
    # D = (2, 2, 1, 2, 3): 0.4x2 + 0.2x2 + 0.2x1 + 0.1x2 + 0.1x3 = 1.9
    assert "S(base) = 1.90" in done.stdout
    assert "gamma from 0.10 to 0.20 has no level" in done.stdout
    assert out.read_text().splitlines()[0] == "tool,what,value,low,high,reason,unknown"


def test_the_command_refuses_in_one_line_and_writes_nothing(tmp_path: Path) -> None:
    bad = edited(tmp_path, "spearman: {value: unknown", "spearman: {value: 7")
    done = run("score", str(bad), "--out", str(tmp_path / "scores.csv"))
    assert done.returncode == 2
    assert done.stderr.strip().count("\n") == 0
    assert f"tool.yaml:{line_of(bad, 'value: 7')}: D1.spearman.value" in done.stderr
    assert not (tmp_path / "scores.csv").exists()


def test_gaps_and_template_commands() -> None:
    assert "gamma >= 0.1 and <= 0.2" in run("gaps").stdout
    assert yaml.safe_load(run("template").stdout)["tool"] == "NAME"
