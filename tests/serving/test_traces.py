"""Public traces by their own columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.errors import InputError
from analysis.serving.limits import Limits
from analysis.serving.points.simulation import read_configuration
from analysis.serving.requests import Requests, read_requests
from analysis.serving.simulate import simulate
from analysis.serving.steps import linear


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
        ("servegen.csv", "request_id,timestamp,input_tokens,output_tokens\n0,0.25,4808,10\n1,1.5,3180,8\n", [0.25, 1.5]),
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
    assert list(found.prefill_tokens) == [4808, 3180] and list(found.decode_tokens) == [10, 8]
    assert list(found.prefix) == ([1, 2] if name == "mooncake.jsonl" else [-1, -1])


def mooncake(path: Path, hashes: Sequence[Sequence[int]], prompts: Sequence[int], seconds: float = 100.0) -> Requests:
    """Requests one after another, far enough apart that each is alone."""
    lines = [
        f'{{"timestamp": {1e3 * seconds * k}, "input_length": {n}, "output_length": 2, "hash_ids": {list(h)}}}'
        for k, (h, n) in enumerate(zip(hashes, prompts, strict=True))
    ]
    return read_requests(written(path / "m.jsonl", "\n".join(lines) + "\n"))


def test_block_hashes_become_a_tree_of_full_blocks(tmp_path: Path) -> None:
    """Blocks of 512 tokens; the last is left out where it is not full. 9 behind 7 8 is another block than 9 behind 5."""
    found = mooncake(tmp_path, ([7, 8, 9], [7, 8], [7, 8, 1], [5, 9], [5]), (1536, 1024, 1000, 1024, 9))
    assert list(found.prefix) == [2, 1, 0, 4, -1] and list(found.prefix_tokens) == [1536, 1024, 512, 1024, 0]
    assert list(found.above) == [-1, 0, 1, -1, 3]


def cached(requests: Requests, blocks: int) -> list[int]:
    """Prompt tokens that each request finds in a cache of so many blocks of 16."""
    limits = Limits(block_size=16, kv_blocks=blocks, max_batch_tokens=4096, watermark=0.0, prefix_caching=True)
    return list(simulate(requests, "vllm_v1", linear(0.01, 0.0, 0.0), limits).records["cached"])


def test_requests_find_every_block_that_was_computed_before_them(tmp_path: Path) -> None:
    hashes = ([1, 2, 3], [1, 2, 3], [1, 2, 4, 5], [1, 2, 4, 6], [9], [1])
    found = mooncake(tmp_path, hashes, (1600, 1536, 2048, 2100, 600, 700))
    # the last token is always computed: of 1,536 tokens in the cache 1,520 are shared, one KV block fewer
    assert cached(found, 10_000) == [0, 1520, 1024, 1536, 0, 512]
    plain = Limits(block_size=16, kv_blocks=10_000, max_batch_tokens=4096)
    assert not simulate(found, "vllm_v1", linear(0.01, 0.0, 0.0), plain).records["cached"].any()
    with pytest.raises(InputError, match="hashes of 512 tokens cannot be shared in blocks of 48"):
        simulate(found, "vllm_v1", linear(0.01, 0.0, 0.0), Limits(block_size=48, kv_blocks=100, prefix_caching=True))


def expected(hashes: Sequence[Sequence[int]], prompts: Sequence[int], blocks: int) -> list[int]:
    """The same by a plain list of blocks, least recently used first: what a request finds, takes, and leaves."""
    size, lru, out = 32, [], []  # type: ignore[var-annotated]
    for chain, prompt in zip(hashes, prompts, strict=True):
        keys = [tuple(chain[: k + 1]) for k in range(min(len(chain), prompt // 512))]
        hit = 0
        while hit < len(keys) and keys[hit] in lru and (prompt - 1) // 16 >= size * (hit + 1) - 1:
            hit += 1
        shared = min(size * hit, (prompt - 1) // 16)
        out.append(16 * shared)
        lru = [key for key in lru if key not in keys[:hit]]
        own = -(-(prompt + 1) // 16) - shared  # the whole prompt and its first token, what is shared apart
        while blocks - size * (len(lru) + hit) < own:
            lru.pop(0)
        lru += reversed(keys) if all(key not in lru for key in keys[hit:]) else list(reversed(keys[:hit]))
    return out


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=4), st.integers(-511, 0)), min_size=2, max_size=25),
    st.integers(140, 400),
)
def test_least_recently_used_blocks_go_first(drawn: list[tuple[list[int], int]], blocks: int) -> None:
    hashes = [chain for chain, _ in drawn]
    prompts = [512 * len(chain) + short for chain, short in drawn]
    with TemporaryDirectory() as folder:
        assert cached(mooncake(Path(folder), hashes, prompts), blocks) == expected(hashes, prompts, blocks)


def test_prefixes_that_are_not_cached_are_said(tmp_path: Path) -> None:
    mooncake(tmp_path, ([1, 2], [1, 2]), (1024, 1100))
    text = "requests: {trace: m.jsonl}\nsteps: {kind: linear, fixed_s: 0.01, prompt_token_s: 0.001, decode_request_s: 0}\n"
    plain = read_configuration(written(tmp_path / "a.yaml", text))
    cached = read_configuration(written(tmp_path / "b.yaml", text + "limits: {prefix_caching: true, kv_blocks: 1000, block_size: 16}\n"))
    words = "prefixes that the requests share are computed again: limits.prefix_caching is off"
    assert words in plain.setup().assumed and words not in cached.setup().assumed
    assert plain.run().ttft_s[1] == pytest.approx(plain.run().ttft_s[0] * 1.11 / 1.034, rel=0.05)
    assert cached.run().ttft_s[1] == pytest.approx(0.01 + 0.001 * 76)  # 76 tokens beyond two blocks of 512


def test_conversations_are_as_long_as_their_words_say(tmp_path: Path) -> None:
    """ShareGPT: without a count of tokens refused with what is needed; by a rule, the first two turns, those of vLLM's benchmark alone."""
    turns = [[10, 20, 30], [2, 20], [900, 10], [10, 1000], [7], [100, 200]]
    listed = [{"conversations": [{"from": "human", "value": "word " * count} for count in one]} for one in turns]
    path = written(tmp_path / "ShareGPT.json", json.dumps(listed))
    with pytest.raises(InputError, match=r"has texts, no token counts.*num_prefill_tokens, num_decode_tokens.*tokens_per_word"):
        read_requests(path)
    requests = read_requests(path, lambda count: np.zeros(count), 1.5)
    assert [*requests.prefill_tokens] == [15, 15, 150] and [*requests.decode_tokens] == [30, 1500, 300]
    text = "requests: {trace: ShareGPT.json, tokens_per_word: 1.5, arrivals: {kind: uniform, rate_per_s: 2.0}}\n"
    text += "steps: {kind: linear, fixed_s: 0.01, prompt_token_s: 0, decode_request_s: 0}\n"
    assert any("1.5 a word" in words for words in read_configuration(written(tmp_path / "a.yaml", text)).setup().assumed)
    with pytest.raises(InputError, match="its own token counts"):
        read_requests(written(tmp_path / "own.csv", "num_prefill_tokens,num_decode_tokens\n1,1\n"), None, 1.5)


@pytest.mark.parametrize("named", ["Session ID", "SessionID"])
def test_burstgpt_s_sessions_are_turns_where_their_prompts_hold_what_was_said(tmp_path: Path, named: str) -> None:
    """Its schema does not say whether a turn's tokens count the turns before it, so the file's own lengths decide."""
    path = tmp_path / "b.csv"
    rows = ["1,s1,GPT-4,100,20,120,Conversation log", "2,,ChatGPT,9,5,14,API log", "9,s1,GPT-4,150,30,180,Conversation log"]
    path.write_text(f"Timestamp,{named},Model,Request tokens,Response tokens,Total tokens,Log Type\n" + "\n".join(rows) + "\n")
    found = read_requests(path)
    assert found.session.tolist() == [0, -1, 0] and found.prefill_tokens.tolist() == [100, 9, 150]
    path.write_text(path.read_text().replace("150,30", "50,30"))
    with pytest.raises(InputError, match=rf"b\.csv: {named}: 100% of later turns are shorter .* leave the column out"):
        read_requests(path)


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
