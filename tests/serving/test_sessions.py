"""Turns of conversations, by hand: when they are sent, and what of their prompts lies in the cache."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from analysis.errors import InputError
from analysis.serving.coupled import Coupling, simulate
from analysis.serving.limits import Limits
from analysis.serving.points.simulation import read_configuration
from analysis.serving.requests import Requests, read_requests
from analysis.serving.sessions import chained, following
from analysis.serving.simulate import Result
from analysis.serving.steps import linear
from analysis.serving.vidur import replay

HEAD = "request_id,arrived_at,num_prefill_tokens,num_decode_tokens,session_id,think_s\n"
ROOMY = Limits(block_size=16, kv_blocks=10_000, max_batch_tokens=8192, prefix_caching=True)


def requests(folder: Path, rows: str) -> Requests:
    path = folder / "requests.csv"
    path.write_text(HEAD + rows)
    return read_requests(path)


def run(asked: Requests, limits: Limits = ROOMY) -> Result:
    """Steps of 1 s, whatever is in them."""
    return simulate(asked, linear(1.0, 0.0, 0.0), limits, Coupling(ahead=0))


def test_a_turn_is_sent_when_its_user_has_read_the_answer(tmp_path: Path) -> None:
    rows = "0,0,100,5,a,\n1,0,200,3,a,7\n2,50,300,2,a,1\n3,1,40,2,b,\n4,1,41,1,,\n"
    result = run(requests(tmp_path, rows))
    # a: 5 steps of 1 s end at 5; 7 s later three more; its third turn says 50, which is later than 15 + 1
    assert list(result.records["completed_at"]) == [5, 15, 52, 3, 2]
    assert list(result.requests.arrived_at_s) == [0, 12, 50, 1, 1]
    assert list(result.ttft_s) == [1, 1, 1, 1, 1]


def test_a_prompt_finds_the_turns_before_it_in_the_cache(tmp_path: Path) -> None:
    """Blocks of 16: of 100 + 30 tokens 129 have keys and values, 8 full blocks; of 200 + 60 then 259, 16 blocks. A prompt of 90 was cut."""
    rows = "0,0,100,30,a,\n1,0,200,60,a,\n2,0,261,5,a,\n3,0,90,5,a,\n4,0,95,5,a,\n"
    asked = requests(tmp_path, rows)
    assert list(run(asked).records["cached"]) == [0, 128, 256, 0, 80]
    assert not run(asked, dataclasses.replace(ROOMY, prefix_caching=False)).records["cached"].any()
    exact = run(requests(tmp_path, "0,0,64,17,a,\n1,0,81,5,a,\n"))  # 80 tokens are known; the last of 81 is computed
    assert list(exact.records["cached"]) == [0, 80]


def test_chains_and_followers() -> None:
    asked = Requests(
        np.arange(5), np.zeros(5), np.array([100, 7, 140, 90, 9]), np.array([30, 2, 8, 5, 2]), np.full(5, -1), np.zeros(5, np.int64),
        session=np.array([1, -1, 1, 1, -1]), think_s=np.zeros(5),
    )  # fmt: skip
    assert list(following(asked)) == [2, -1, 3, -1, -1]
    found, after, tokens = chained(asked, 16)
    assert list(found.above) == [-1, 0, 1, 2, 3, 4, 5, 6]
    assert list(found.prefix) == [5, -1, 7, -1, -1] and list(found.prefix_tokens) == [96, 0, 128, 0, 0]
    assert list(after) == [7, -1, -1, -1, -1] and tokens[0] == 128
    assert list(found.at(np.array([2, 0])).session) == [1, 1]


def test_a_small_cache_forgets_the_session_that_was_idle_longest(tmp_path: Path) -> None:
    """Two sessions of 160 + 16 tokens leave 10 full blocks each. The second turn of b, of 321 tokens with its first, needs 11 blocks more:
    of 30 it takes one of a's, the deepest; of 22 nine."""
    rows = "0,0,160,16,a,\n1,0,320,2,a,100\n2,30,160,16,b,\n3,30,320,2,b,10\n"
    for blocks, kept in ((31, 160), (30, 144), (22, 16)):
        limits = dataclasses.replace(ROOMY, kv_blocks=blocks, watermark=0.0)
        assert list(run(requests(tmp_path, rows), limits).records["cached"]) == [0, kept, 0, 160]


def test_conversations_of_several_turns(tmp_path: Path) -> None:
    """Words of the turns before stand in each prompt; the first turn is kept as vLLM's benchmark keeps it."""
    said = [4, 6, 3, 5, 2]  # words; the last question has no answer
    chat = [{"from": "human" if k % 2 == 0 else "gpt", "value": " ".join("w" * n)} for k, n in enumerate(said)]
    (tmp_path / "chats.json").write_text(json.dumps([{"conversations": chat}, {"conversations": chat[:1]}]))
    whole = read_requests(tmp_path / "chats.json", lambda n: np.arange(n) + 5.0, 1.0, turns=8, think_s=3.0)
    assert list(whole.prefill_tokens) == [4, 13] and list(whole.decode_tokens) == [6, 5]
    assert list(whole.session) == [0, 0] and list(whole.think_s) == [3, 3] and list(whole.arrived_at_s) == [5, 5]
    one = read_requests(tmp_path / "chats.json", lambda n: np.arange(n) * 1.0, 1.0)
    assert list(one.prefill_tokens) == [4] and not len(one.session)
    text = "requests: {trace: chats.json, tokens_per_word: 1.0, turns: 8, think_s: 3}\n"
    steps = "steps: {kind: linear, fixed_s: 1.0, prompt_token_s: 0, decode_request_s: 0}\n"
    (tmp_path / "a.yaml").write_text(text + steps)
    configuration = read_configuration(tmp_path / "a.yaml")
    result = configuration.run()
    assert result.requests.arrived_at_s[1] == pytest.approx(result.records["completed_at"][0] + 3)
    assumed = " ".join(configuration.setup().assumed)
    assert "a turn is sent when the answer before it is complete" in assumed and "prefix_caching is off" in assumed
    (tmp_path / "b.yaml").write_text(text + steps + "scheduler: orca\n")
    with pytest.raises(InputError, match="turns of sessions run under vllm_v1"):
        read_configuration(tmp_path / "b.yaml").run()


def test_calibrated_steps_serve_sessions(tmp_path: Path) -> None:
    requests(tmp_path, "0,0,2000,200,a,\n1,0,2300,200,a,5\n")
    text = "requests: {trace: requests.csv}\nsteps: {model: llama-3.1-8b, device: h100}\nlimits: {prefix_caching: PC}\n"
    found = []
    for caching in ("true", "false"):
        (tmp_path / "a.yaml").write_text(text.replace("PC", caching))
        found.append(read_configuration(tmp_path / "a.yaml").run())
    cached, plain = found
    # 2,199 of the first turn's 2,200 tokens, in full blocks of 16; its second turn waits for less
    assert cached.records["cached"][1] == 2192 and plain.records["cached"][1] == 0
    assert cached.ttft_s[1] < plain.ttft_s[1] and cached.ttft_s[0] == pytest.approx(plain.ttft_s[0], rel=1e-12)


@pytest.mark.parametrize(
    ("header", "row", "why"),
    [
        ("session_id,think_s", "a,-1", "expected seconds, not negative"),
        ("session_id,think_s", "a,-1", "got '-1'"),
        ("session_id,think_s", "a,soon", "think_s"),
        ("session_id,think_s", ",5", "r.csv:2: think_s: is the time between the turns"),
        ("think_s", "5", "this request is of none"),
        ("session_id,prefix_id,prefix_tokens", "a,1,2", "give session_id or prefixes, not both"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, header: str, row: str, why: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(f"request_id,arrived_at,num_prefill_tokens,num_decode_tokens,{header}\n0,0,10,5,{row}\n")
    with pytest.raises(InputError, match=why):
        read_requests(path)


def test_a_recorded_run_does_not_drop_its_sessions(tmp_path: Path) -> None:
    requests(tmp_path, "0,0,10,2,a,\n1,0,20,2,a,5\n")
    (tmp_path / "steps.csv").write_text("total_time_s\n" + "0.1\n" * 9)
    with pytest.raises(InputError, match="session_id: a recorded run says when"):
        replay(tmp_path / "requests.csv", tmp_path / "steps.csv", "vllm")
