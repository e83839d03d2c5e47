"""A log beside the predictor: the same answers as the case commands, and the part that could explain a difference."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest

from analysis.__main__ import main
from analysis.predict import compare
from analysis.tables import read_csv

LOGS = Path(__file__).parent / "logs"
TITAN = ["--model", "llama-3-8b", "--device", "h100", "--memory-gb", "96"]


def test_the_part_that_moves_least_for_its_doubt_explains() -> None:
    parts = {"kernels": (0.8, 0.08), "collectives": (0.2, 0.1)}
    # 10 % more: kernels x 1.125, 1.05 of their deviations; collectives x 1.5, 0.81 of theirs
    assert math.log(1.125) * 0.8 / math.hypot(0.08, 0.04) > math.log(1.5) * 0.2 / math.hypot(0.1, 0.01)
    assert compare.explanation(1.1, parts) == "collectives x 1.50"
    assert compare.explanation(1.1, {"kernels": (0.8, 0.2), "collectives": (0.2, 0.01)}) == "kernels x 1.12"
    assert compare.explanation(6.0, {"host": (0.01, 0.01)}) == "no part alone"  # 501 times as long


def test_predicted_is_what_the_case_command_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(LOGS / "nccl_tests.txt"), "--out", str(tmp_path / "c.csv")]) == 0
    table = read_csv(tmp_path / "c.csv")
    asked = pd.DataFrame({"device": "A100-SXM4-40GB", "gpus": 8, "collective": "all_reduce", "size_bytes": [65536, 8589934592]})
    asked.to_csv(tmp_path / "q.csv", index=False)
    assert main(["predict", "collective", str(tmp_path / "q.csv"), "--out", str(tmp_path / "a.csv")]) == 0
    answers = read_csv(tmp_path / "a.csv")
    for ours, theirs in (("predicted", "time_us"), ("lower", "lower_us"), ("upper", "upper_us")):
        assert table[ours].iloc[[0, -1]].tolist() == answers[theirs].tolist()
    assert (table["inside"] == "yes").all() and set(table["explained_by"].str.split().str[0]) == {"latency", "filling", "bandwidth"}


def test_torchtitans_published_run_lies_inside(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(LOGS / "torchtitan.log"), *TITAN, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    speed, memory = found["points"]
    # torchtitan's table, December 2024: 5,762 tokens/s/GPU and 82.4 GiB on eight H100 of 96 GB
    assert (speed["measured"], memory["measured"], speed["inside"], memory["inside"]) == (5762, 82.4, "yes", "yes")
    assert speed["lower"] < speed["predicted"] < speed["upper"]


def test_serving_and_training_answers_are_those_of_the_commands(tmp_path: Path) -> None:
    row = {"model": "llama-3-8b", "device": "h100", "gpus": 64, "sequence_length": 8192, "global_batch": 128, "program": "nemo"}
    log = ["--model", "llama-3-8b", "--device", "h100", "--gpus", "64", "--sequence-length=8192"]
    assert main(["compare", str(LOGS / "nemo.log"), *log, "--out", str(tmp_path / "c.csv")]) == 0
    pd.DataFrame([row]).to_csv(tmp_path / "q.csv", index=False)
    assert main(["predict", "training", str(tmp_path / "q.csv"), "--out", str(tmp_path / "a.csv")]) == 0
    assert read_csv(tmp_path / "c.csv")["predicted"].tolist() == read_csv(tmp_path / "a.csv")["step_time_s"].tolist()
    asked = "backend,model_path,system,mode,isl,osl,tp_size,batch_size,precision,length_low,arrival,requests\n"
    (tmp_path / "s.csv").write_text(asked + "vllm,llama-3.1-8b,h100,agg,1024,1024,1,16,bf16,1,closed,160\n")
    assert main(["predict", "serving", str(tmp_path / "s.csv"), "--out", str(tmp_path / "a.csv")]) == 0
    assert main(["compare", str(LOGS / "vllm.json"), "--device", "h100", "--gpus", "1", "--out", str(tmp_path / "c.csv")]) == 0
    answers, table = read_csv(tmp_path / "a.csv").iloc[0], read_csv(tmp_path / "c.csv").set_index("metric")["predicted"]
    for metric in ("ttft_ms", "tpot_ms", "output_tokens_per_s", "requests_per_s"):
        assert table[metric] == answers[metric]


def test_a_csv_of_ones_own_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.csv").write_text(
        "note,device,gpus,nodes,network_gbit_per_s_per_gpu,collective,size_bytes,measured_time_us\n"
        "mine,A100-SXM4-80GB,16,2,50,all_reduce,1048576,300\nmine,A100-SXM4-80GB,16,2,50,all_reduce,,300\n"
    )
    assert main(["compare", str(tmp_path / "p.csv"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["summary"][0] | {"points": 2, "answered": 1} == found["summary"][0]
    assert "size_bytes must be" in found["points"][1]["status"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vllm.json"], "does not say device, tensor_parallel"),
        (["vllm.json", "nccl_tests.txt"], "logs of collective and serving: compare one kind at a time"),
        (["nccl_tests.txt", "--device", "abacus"], "no point is answered, such as:"),
        (["nccl_tests.txt", "--device"], "--device: expected a value behind it"),
        (["nccl_tests.txt", "--devise", "h100"], "--devise: is no part of a question of collective"),
        (["--device", "h100"], "no log is named"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    named = [str(LOGS / word) if "." in word else word for word in arguments]
    assert main(["compare", *named]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said and "\n" not in said
