"""The recorded VIDUR runs, batch by batch: data/recorded/vidur."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.serving.limits import Limits
from analysis.serving.requests import read_requests
from analysis.serving.tables import batches_table, requests_table
from analysis.serving.vidur import replay
from analysis.studies.serving.agreement import vidur_requests
from analysis.tables import read_csv
from tests.conftest import run_here

RECORDED = DATA / "recorded" / "vidur"
RUNS = {
    "vllm_200_qps2": "vllm",
    "vllm_200_qps8": "vllm",
    "vllm_long_200_qps2": "vllm",
    "sarathi_200_qps2": "sarathi",
    "sarathi_200_qps8": "sarathi",
    "sarathi_long_200_qps2": "sarathi",
    "pub_sarathi_50_qps2": "sarathi",
    "orca_200_qps2": "orca",
    "faster_transformer_200_qps2": "faster_transformer",
    "lightllm_200_qps2": "lightllm",
}


def limits_of(run: str) -> Limits:
    """README.md beside the records: 7,648 blocks at 512 tokens, 7,424 at 4,096."""
    return Limits(kv_blocks=7424, max_request_tokens=4096) if "long" in run else Limits()


@pytest.mark.parametrize("run", RUNS)
def test_every_batch_and_every_latency_equals_the_recorded_run(run: str) -> None:
    result, unused = replay(RECORDED / f"requests_{run}.csv", RECORDED / f"batches_{run}.csv.gz", RUNS[run], limits_of(run))
    recorded = read_csv(RECORDED / f"batches_{run}.csv.gz", dtype={"request_ids": str, "num_tokens": str})
    ours = batches_table(result)
    assert unused == 0
    for column in ("size", "request_ids", "num_tokens", "total_tokens", "n_prefill", "n_decode"):
        assert ours[column].tolist() == recorded[column].tolist(), column
    np.testing.assert_allclose(ours["t_sched"], recorded["t_sched"], rtol=0, atol=1e-9)
    if RUNS[run] != "faster_transformer":  # VIDUR loses its reservations: README.md beside the records
        np.testing.assert_allclose(ours["kv_mem_pct"], recorded["kv_mem_pct"], rtol=0, atol=1e-9)

    wanted, table = read_csv(RECORDED / f"requests_{run}.csv"), requests_table(result)
    for column in wanted.columns:
        np.testing.assert_allclose(table[column], wanted[column], rtol=0, atol=1e-9, err_msg=column)


@pytest.mark.parametrize(
    ("run", "rate", "low", "high"),
    [("vllm_200_qps2", 2, 128, 512), ("sarathi_200_qps8", 8, 128, 512), ("vllm_long_200_qps2", 2, 1024, 4096)],
)
def test_generated_requests_are_vidurs(run: str, rate: float, low: int, high: int) -> None:
    recorded, ours = read_requests(RECORDED / f"requests_{run}.csv"), vidur_requests(200, rate, 42, low, high)
    assert ours.arrived_at_s.tolist() == recorded.arrived_at_s.tolist()
    assert ours.prefill_tokens.tolist() == recorded.prefill_tokens.tolist()
    assert ours.decode_tokens.tolist() == recorded.decode_tokens.tolist()


def test_command_writes_the_recorded_columns(tmp_path: Path) -> None:
    requests, steps = RECORDED / "requests_pub_sarathi_50_qps2.csv", RECORDED / "batches_pub_sarathi_50_qps2.csv.gz"
    only = tmp_path / "steps.csv"  # nothing but the step times is needed
    read_csv(steps)[["total_time_s"]].to_csv(only, index=False)
    for source, out in ((steps, tmp_path / "a"), (only, tmp_path / "b")):
        done = run_here("serve", "replay", str(requests), "--scheduler", "sarathi", "--steps", str(source), "--out", str(out))
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "a" / "batches.csv").read_bytes() == (tmp_path / "b" / "batches.csv").read_bytes()
    table, recorded = read_csv(tmp_path / "a" / "requests.csv"), read_csv(requests)
    np.testing.assert_allclose(table[["request_id", "ttft", "e2e"]], recorded[["request_id", "ttft", "e2e"]], rtol=0, atol=1e-9)
    batches = read_csv(tmp_path / "a" / "batches.csv")
    assert {"request_ids", "num_tokens", "t_sched"} <= set(batches.columns)


def test_rows_may_come_in_any_order(tmp_path: Path) -> None:
    steps = RECORDED / "batches_vllm_200_qps8.csv.gz"
    frame = read_csv(RECORDED / "requests_vllm_200_qps8.csv")
    shuffled = frame.sample(frac=1, random_state=1)
    shuffled.to_csv(tmp_path / "requests.csv", index=False)
    result, _ = replay(tmp_path / "requests.csv", steps, "vllm")
    table = requests_table(result)
    assert table["request_id"].tolist() == shuffled["request_id"].tolist()
    np.testing.assert_allclose(table["e2e"], shuffled["e2e"], rtol=0, atol=1e-9)


HEADER = "request_id,arrived_at,num_prefill_tokens,num_decode_tokens\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "0,0.0,10,0\n", r"bad\.csv:2: num_decode_tokens: expected at least 1 token"),
        (HEADER + "0,0.0,10,5\n1,-1.0,10,5\n", r"bad\.csv:3: arrived_at: expected seconds, not negative"),
        (HEADER + "0,0.0,ten,5\n", r"bad\.csv:2: num_prefill_tokens: expected a whole number, got 'ten'"),
        (HEADER + "0,0.0,1.5,5\n", r"bad\.csv:2: num_prefill_tokens: expected a whole number"),
        (HEADER + "0,0.0,1,5\n0,1.0,1,5\n", r"bad\.csv:3: request_id: is given twice"),
        ("request_id,arrived_at\n0,0.0\n", r"bad\.csv:1: num_prefill_tokens, num_decode_tokens: missing column"),
        (
            HEADER + "7,0.0,200000,5\n",
            r"kv_blocks: request 7 can never finish: needs 12577 KV blocks, watermark included, the limit is 7648",
        ),
        (
            HEADER + "7,0.0,5000,5\n",
            r"max_batch_tokens: request 7 can never finish: needs 5000 prompt tokens in a batch, the limit is 4096",
        ),
        (HEADER + "0,0.0,10,3\n", r"total_time_s: only 2 recorded steps, but 1 of 1 requests need more"),
    ],
)
def test_bad_input_is_one_clear_error_and_nothing_is_written(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    (tmp_path / "steps.csv").write_text("total_time_s\n0.1\n0.1\n")
    with pytest.raises(InputError, match=message):
        replay(tmp_path / "bad.csv", tmp_path / "steps.csv", "vllm")


def test_command_exits_2_with_one_line_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(HEADER + "0,0.0,10,0\n")
    (tmp_path / "steps.csv").write_text("total_time_s\n0.1\n")
    arguments = ["serve", "replay", "bad.csv", "--scheduler", "vllm", "--steps", "steps.csv", "--out", "out"]
    done = run_here(*[str(tmp_path / a) if a.endswith((".csv", "out")) and not a.startswith("--") else a for a in arguments])
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1 and "bad.csv:2: num_decode_tokens" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("scheduler", sorted(set(RUNS.values()) | {"vllm_v1"}))
def test_no_requests_is_an_empty_answer(tmp_path: Path, scheduler: str) -> None:
    (tmp_path / "none.csv").write_text(HEADER)
    (tmp_path / "steps.csv").write_text("total_time_s\n0.1\n")
    result, unused = replay(tmp_path / "none.csv", tmp_path / "steps.csv", scheduler)
    assert unused == 1 and len(requests_table(result)) == 0 and len(batches_table(result)) == 0
    assert {"request_id", "ttft", "e2e"} <= set(requests_table(result).columns)
