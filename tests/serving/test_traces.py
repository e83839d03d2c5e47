"""Public traces by their own columns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.errors import InputError
from analysis.serving.points.simulation import read_configuration
from analysis.serving.requests import read_requests


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text", "times"),
    [
        (
            "azure.csv",
            "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8\n",
            [0, 0.052],
        ),
        (
            "burst.csv",
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,4808,10,1,x\n45,x,3180,8,1,x\n",
            [5, 45],
        ),
        ("vidur.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,4808,10\n0.5,3180,8\n", [0, 0.5]),
        (
            "mooncake.jsonl",
            '{"timestamp": 0, "input_length": 4808, "output_length": 10, "hash_ids": [1, 2]}\n'
            '{"timestamp": 3052, "input_length": 3180, "output_length": 8, "hash_ids": [3]}\n',
            [0, 3.052],
        ),
    ],
)
def test_a_public_trace_is_read_by_its_own_columns(tmp_path: Path, name: str, text: str, times: list[float]) -> None:
    found = read_requests(written(tmp_path / name, text))
    assert found.arrived_at_s == pytest.approx(times) and list(found.request_id) == [0, 1]
    assert list(found.prefill_tokens) == [4808, 3180] and list(found.decode_tokens) == [10, 8] and list(found.prefix) == [-1, -1]


def test_requests_of_mooncake_share_what_all_with_their_first_block_begin_with(tmp_path: Path) -> None:
    """Blocks of 512 tokens: 7 8 is common to the first three, of which the third has fewer tokens than both blocks."""
    hashes = ([7, 8, 9], [7, 8], [7, 8, 1], [5], [])
    lines = [
        f'{{"timestamp": 0, "input_length": {n}, "output_length": 2, "hash_ids": {h}}}'
        for h, n in zip(hashes, (1500, 1024, 1000, 9, 9), strict=True)
    ]
    found = read_requests(written(tmp_path / "m.jsonl", "\n".join(lines) + "\n"))
    assert list(found.prefix) == [0, 0, 0, -1, -1] and list(found.prefix_tokens) == [1024, 1024, 1000, 0, 0]


def test_a_trace_of_lengths_takes_the_arrivals_of_the_configuration(tmp_path: Path) -> None:
    written(tmp_path / "lengths.csv", "num_prefill_tokens,num_decode_tokens\n100,10\n200,20\n300,30\n")
    text = "requests: {trace: lengths.csv, arrivals: {kind: uniform, rate_per_s: 2.0}}\n"
    text += "steps: {kind: linear, fixed_s: 0.01, prompt_token_s: 0, decode_request_s: 0}\n"
    requests = read_configuration(written(tmp_path / "run.yaml", text)).requests
    np.testing.assert_allclose(requests.arrived_at_s, [0.5, 1.0, 1.5])
    with pytest.raises(InputError, match="arrived_at"):
        read_requests(tmp_path / "lengths.csv")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.csv",
            "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n",
            r"a\.csv:2: TIMESTAMP: expected a date and time",
        ),
        ("m.jsonl", '{"timestamp": 0, "input_length": 4, "output_length": 1}\n[1]\n', r"m\.jsonl:2: expected a JSON object"),
        ("m.jsonl", "{\n", r"m\.jsonl:1: expected a JSON object"),
        ("b.csv", "Timestamp,Request tokens,Response tokens\n1,5,0\n", r"b\.csv:2: num_decode_tokens: expected at least 1 token"),
        ("s.csv", "conversation,text\n1,hello\n", "arrived_at|request_id"),
    ],
)
def test_what_is_no_trace_is_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_requests(written(tmp_path / name, text))
