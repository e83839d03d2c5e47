"""What the figures to touch answer, against the commands, the simulators and arithmetic by hand: not against their own code."""

from __future__ import annotations

import importlib
import json
import math
import zlib
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from analysis.accelerators.systolic.array import Quirks
from analysis.accelerators.systolic.cases import predict_cases
from analysis.artifact.explorers import NAMES, controls, drawing
from analysis.networks import collective_cases
from analysis.training.answers import answers as training_answers
from analysis.workloads import models
from tests.golden import kept


def ask(name: str, **changed: Any) -> dict[str, Any]:
    """An explorer's answer at its defaults but for what is changed."""
    module = importlib.import_module(f"analysis.artifact.explorers.{name}")
    answer: dict[str, Any] = module.answer({control.name: control.default for control in module.CONTROLS} | changed)
    return answer


@pytest.mark.parametrize("machine", ["A100-SXM4-80GB", "H100-SXM5-80GB", "H200-SXM5-141GB"])
@pytest.mark.parametrize(("gpus", "power"), [(2, 12), (8, 20), (8, 33)])
def test_an_all_reduce_is_the_command_s(machine: str, gpus: int, power: int) -> None:
    """`predict collective`; bus bandwidth as nccl-tests defines it, 2 (n - 1) / n bytes over time (its doc/PERFORMANCE.md)."""
    row = {"device": machine, "gpus": str(gpus), "collective": "all_reduce", "size_bytes": str(2**power)}
    asked = collective_cases.answers(pd.DataFrame([row])).iloc[0]
    got = ask("all_reduce", machine=machine, gpus=gpus, power=power)
    assert not asked["status"] and 1e6 * got["time_s"] == pytest.approx(asked["time_us"], rel=1e-9)
    assert got["time_s"] == pytest.approx(got["floor_s"] + got["transfer_s"] + got["fill_s"], rel=1e-12)
    assert got["bus_bytes_per_s"] == pytest.approx(2 * (gpus - 1) / gpus * 2**power / (1e-6 * asked["time_us"]), rel=1e-9)
    assert any(rate == pytest.approx(got["bus_bytes_per_s"], rel=1e-9) for rate in got["curve"])
    assert got["link_bytes_per_s"] == (300e9 if machine.startswith("A100") else 450e9)  # NVLink 3 and 4, each way


@pytest.mark.parametrize("flow", ["os", "ws", "is"])
@pytest.mark.parametrize(("m", "n", "k", "side"), [(64, 24, 48, 16), (8, 128, 64, 4)])
def test_a_systolic_array_is_the_command_s(flow: str, m: int, n: int, k: int, side: int) -> None:
    row = {"M": m, "N": n, "K": k, "array_rows": side, "array_cols": side, "dataflow": flow}
    asked = predict_cases(pd.DataFrame([row], dtype=str), Quirks()).iloc[0]  # without the tool's slips
    got = ask("systolic_array", dataflow=flow, m=m, n=n, k=k, array=side)
    words = sum(int(float(asked[name])) for name in ("ifmap_sram_reads", "filter_sram_reads", "ofmap_sram_writes"))
    assert got["sram_words"] == words
    assert 100 * got["utilization"] == pytest.approx(float(asked["compute_util_pct"]), rel=1e-9)
    assert 100 * got["mapping"] == pytest.approx(float(asked["mapping_eff_pct"]), rel=1e-9)
    assert got["utilization"] == pytest.approx(m * n * k / side**2 / got["cycles"], rel=0.02)


def test_folds_of_a_systolic_array_by_hand() -> None:
    """Samajdar et al., arXiv:1811.02883, equation 3: outputs in place, a fold takes 2 r + c + T - 2 cycles with its results drained; our
    count, like the tool's, ends with the last product: r + c + T - 2. Weights in place are loaded first, a row a cycle."""
    outputs, weights = (ask("systolic_array", dataflow=flow, m=16, n=16, k=16, array=16) for flow in ("os", "ws"))
    assert (outputs["cycles"], outputs["fold"], outputs["folds"]) == (46, 46, 1) and weights["fold"] == 46 + 16
    four = ask("systolic_array", dataflow="os", m=32, n=32, k=16, array=16)
    assert four["folds"] == 4 and four["rows"] == four["columns"] == 16


@pytest.mark.parametrize(("batch", "context"), [(1, 128), (32, 2048), (128, 4096)])
def test_a_decode_step_by_hand(batch: int, context: int) -> None:
    """Llama 3 8B on an H100 at 70 %: 16.06 GB of weights but the embedding's at most, and 131,072 bytes of cache a token, over 0.7 x 3.35
    TB/s; products of 8.03 thousand million weights over 0.7 x 989 TFLOP/s."""
    got = ask("decode_knee", batch=batch, context=context, share=70)
    cache = batch * context * 2 * 32 * 8 * 128 * 2
    least = (16.06e9 - 128_256 * 4096 * 2 + cache) / (0.7 * 3.35e12)
    assert got["kv_bytes"] == cache and got["weight_bytes"] == models.load("llama-3-8b").parameters * 2 == 16_060_522_496
    assert least <= got["step_s"] <= 1.1 * least + 2 * 8.03e9 * batch / (0.7 * 989.4e12)
    assert got["tokens_per_s"] == pytest.approx(batch / got["step_s"])
    # 90 % of 80 GiB less 1.5 %, without the weights and 4 GiB, in requests of so many tokens
    assert got["most"] == pytest.approx((0.9 * 80 * 2**30 * 0.985 - 16.06e9 - 4 * 2**30) / (131_072 * context), abs=1.5, rel=0.01)
    assert got["fits"] == (batch <= got["most"])


def test_errors_of_a_sum_by_hand() -> None:
    """Kernels alike, each off by e: e / sqrt(n) where independent, e sqrt(r + (1 - r) / n) with correlation r; 3 us left out beside 50."""
    got = ask("error_composition", kernels=50, error=10, correlation=0.2, kernel_us=50, overhead_us=3)
    assert got["independent"] == pytest.approx(10 / math.sqrt(50))
    assert got["random"] == pytest.approx(10 * math.sqrt(0.2 + 0.8 / 50) * 50 / 53, rel=0.07)
    assert got["bias"] == pytest.approx(-100 * 3 / 53)
    assert got["total"] == pytest.approx(math.hypot(got["random"], got["bias"]))
    assert ask("error_composition", kernels=50, error=10, correlation=1, overhead_us=0)["total"] == pytest.approx(10)


def test_a_roof_by_hand() -> None:
    """H100 SXM (NVIDIA's data sheet): 989.4 TFLOP/s, 3.35 TB/s: the ridge at 295 FLOP a byte."""
    below, above = (ask("roofline_achieved", device="H100-SXM5-80GB", intensity=at, share=60) for at in (10, 1000))
    assert below["attainable"] == pytest.approx(33.5e12) and below["achieved"] == pytest.approx(0.6 * 33.5e12)
    assert above["attainable"] == pytest.approx(989.4e12) and above["achieved"] == pytest.approx(0.6 * 989.4e12)
    assert (below["bound"], above["bound"]) == ("memory", "arithmetic") and below["ridge"] == pytest.approx(295.3, rel=1e-3)
    assert 0.3 < below["median_share"]["fastest product published"] < 1


@pytest.mark.parametrize(
    "plan",
    [
        {"tensor": 8, "pipeline": 4, "microbatch": 1, "recompute": "none", "zero": "1"},
    ],
)
def test_a_training_plan_is_the_command_s(plan: dict[str, Any]) -> None:
    """`predict training` on 64 GPUs of DGX H100: memory to the four digits that the page carries, time where the plan fits."""
    from analysis.artifact.explorers import training_planner

    model = "llama-3-70b"
    sequence = {name: tokens for name, _, tokens in training_planner.models()}[model]
    row = {
        "model": model, "device": "h100", "gpus": 64, "sequence_length": sequence, "global_batch": training_planner.TOKENS // sequence,
        "micro_batch": plan["microbatch"], "tensor_parallel": plan["tensor"], "pipeline_parallel": plan["pipeline"],
        "recompute": plan["recompute"], "zero": plan["zero"], "precision": "bf16", "program": "megatron",
    }  # fmt: skip
    asked = training_answers(pd.DataFrame([row]).astype(str)).iloc[0]
    got = ask("training_planner", model=model, system="HGX-H100", gpus=64, **plan)
    assert got["memory"] == pytest.approx(asked["memory_gib"], rel=2e-3) and got["fits"] == asked["fits"]
    if "step" in got:
        assert got["step"] == pytest.approx([asked["step_time_s"], asked["lower_s"], asked["upper_s"]], rel=2e-3)
        assert sum(got["time"]) == pytest.approx(got["step"][0], rel=2e-3)


def test_what_a_player_of_requests_tells_follows_from_its_tokens() -> None:
    """Every token in its batch: the first ends the batch that reads the rest of the prompt, and no batch overlaps another."""
    got = ask("serving_player", moment=100)
    batches = got["batches"]
    assert all(one["end_s"] <= two["start_s"] + 1e-12 for one, two in pairwise(batches))
    ends = {round(batch["end_s"], 12) for batch in batches}
    for arrived, first, done, tokens in zip(got["arrived_s"], got["first_s"], got["completed_s"], got["tokens_s"], strict=True):
        assert arrived < first <= done and tokens[0] == first and tokens[-1] == done and {round(one, 12) for one in tokens} <= ends
    assert got["tokens_so_far"] == sum(map(len, got["tokens_s"])) == sum(got["answers"])
    assert got["mean_ttft_s"] == pytest.approx(sum(f - a for f, a in zip(got["first_s"], got["arrived_s"], strict=True)) / 8)
    # a lone prompt's step of an 8B model on an H100: at least its products at the peak
    assert min(got["ttft_s"]) >= 2 * 7e9 * min(got["prompts"]) / 989.4e12


def test_a_front_is_what_recommend_finds() -> None:
    """One frozen question asked again; no plan of it is beaten in both rates, and the chosen one has most tokens of the fast enough."""
    from analysis.artifact.explorers.records import pareto_fronts

    again = pareto_fronts.asked("qwen3-30b-a3b", "1024", "h100_sxm")
    kept = pareto_fronts.fronts()["qwen3-30b-a3b 1024 h100_sxm"]
    assert [[row[8], row[11]] for row in kept] == pytest.approx(
        again[["tokens_per_s_per_user", "tokens_per_s_per_gpu"]].to_numpy(), rel=1e-3
    )
    assert all(slow[8] < fast[8] and slow[11] > fast[11] for slow, fast in pairwise(kept))
    got = ask("serving_fronts", model="qwen3-30b-a3b", device="h100_sxm", user=100, price=2)
    assert got["plan"][11] == max(row[11] for row in kept if row[8] >= 100)
    assert got["price"] == pytest.approx(2 * 1e6 / got["plan"][11] / 3600, rel=2e-3)  # dollars of an hour over a million tokens
    assert ask("serving_fronts", user=300, model="llama-3.1-405b")["plan"] is None


def test_a_model_of_one_s_own_is_counted_as_published() -> None:
    """Llama 3 70B: 70,553,706,496 parameters (its checkpoint's index), 2 x 80 x 8 x 128 x 2 bytes of cache a token; memory by hand."""
    got = ask("own_model", context=8192)
    assert got["parameters"] == got["active"] == 70_553_706_496 and got["kv_bytes"] == 327_680 and got["weight_bytes"] == 2 * 70_553_706_496
    assert ask("own_model", cache="1")["kv_bytes"] == 163_840
    # eight H100: nine tenths of 79.1 GiB (what the driver offers) less 4 GiB each, less the weights, over the cache of 8,192 tokens
    assert got["fits"][3][3] == pytest.approx((8 * (0.9 * 79.1 - 4) * 2**30 - 2 * 70_553_706_496) / (8192 * 327_680), rel=0.01)
    assert got["fits"][0][0] == -1 and "no JSON" in ask("own_model", config="{")["refused"]
    assert "encoder" in ask("own_model", config='{"model_type": "t5"}')["refused"]


def test_dollars_and_joules_are_price_and_power_over_the_rate() -> None:
    got, twice = ask("ask_predictor"), ask("ask_predictor", price=4)
    assert twice["dollars"] == pytest.approx(2 * got["dollars"]) and got["dollars"] == pytest.approx(2 * 1e6 / got["rate"] / 3600)
    assert 0.3 * 700 < got["joules"] * got["rate"] <= 700  # watts of an H100, whose board takes 700 at most


@pytest.mark.parametrize(("mix", "low", "high"), [("chat", 150, 600), ("documents", 1500, 4000)])
def test_requests_of_the_player_are_as_its_list_says(mix: str, low: int, high: int) -> None:
    """Prompts between the bounds that the control names, spread over them; a higher rate brings the same requests sooner."""
    slow, fast = (ask("serving_player", mix=mix, rate=rate) for rate in (2, 20))
    assert all(low <= tokens <= high for tokens in slow["prompts"]) and slow["prompts"] == fast["prompts"]
    assert len(set(slow["prompts"])) == 8 and max(slow["prompts"]) - min(slow["prompts"]) > 0.6 * (high - low)
    assert [10 * at for at in fast["arrived_s"]] == pytest.approx(slow["arrived_s"])
    # eight exponential gaps of mean 1 / rate
    assert 0.3 < slow["arrived_s"][-1] / (7 / 2) < 2


MODULES = {name: importlib.import_module(f"analysis.artifact.explorers.{name}") for name in NAMES}
QUESTIONS: dict[str, list[dict[str, Any]]] = {
    "error_composition": [{}, {"kernels": 1, "error": 30, "correlation": 1.0, "overhead_us": 20}, {"correlation": 0.0, "error": 0.5}],
    "serving_player": [
        {"moment": 40},
        *({"scheduler": name, "mix": "documents", "moment": 40} for name in ("orca", "sarathi", "vllm_v1")),
        {"scheduler": "faster_transformer", "mix": "chat", "rate": 2, "moment": 100},
        {"moment": 0},
    ],
    "decode_knee": [
        {},
        {"batch": 1, "context": 128},
        {"batch": 1024, "context": 32768},
        {"model": "llama-3-70b", "device": "L40S", "batch": 8},
        {"model": "mixtral-8x7b", "device": "A100-SXM4-80GB", "gpus": 8, "batch": 128, "share": 100},
    ],
    "all_reduce": [
        {},
        {"gpus": 2, "power": 11, "step": 0},
        {"machine": "A100-SXM4-80GB", "gpus": 4, "power": 33, "step": 14},
        {"machine": "RTX-PRO-6000-Server", "step": 7},
        {"power": 34, "step": 1, "gpus": 2},
    ],
    "systolic_array": [
        {},
        {"dataflow": "ws", "m": 8, "n": 128, "k": 64, "array": 4},
        {"dataflow": "is", "m": 128, "array": 32, "moment": 100},
    ],
    "roofline_achieved": [{}, {"device": "H100-SXM5-80GB", "intensity": 10, "share": 30}],
}


def _seen(name: str, changed: dict[str, Any]) -> dict[str, Any]:
    """What a reader sees: the answer, its sentence, and both pictures (their length, and a digest of their marks)."""
    module = MODULES[name]
    values = {control.name: control.default for control in module.CONTROLS} | changed
    for control in module.CONTROLS:
        allowed = control.values if hasattr(control, "values") else [key for key, _ in control.options]
        assert values[control.name] in allowed, (name, control.name, values[control.name], allowed)
    module.answer({**values, "": 0})  # an answer is kept until another question
    pictures = [module.draw(values, width) for width in (300, 479, 480, 700)]
    return {
        "answer": module.answer(values),
        "tell": module.tell(values),
        "drawn": [[picture.count("<"), zlib.crc32(picture.encode())] for picture in pictures],
    }


def _small(value: Any) -> Any:
    """Long lists by their length, sum and ends, so that a kept answer stays readable."""
    if isinstance(value, dict):
        return {key: _small(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) > 16 and all(isinstance(each, (int, float)) for each in value):
            return [len(value), sum(value), sum(k * each for k, each in enumerate(value)), value[0], value[-1]]
        return (
            [_small(each) for each in value]
            if len(value) <= 16
            else [len(value), *map(_small, value[:3]), zlib.crc32(repr(value).encode())]
        )
    return value


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_explorer_at_its_ends(name: str) -> None:
    """Answer, sentence and picture at the default and at the ends of its controls; what the answers should be is in the tests above."""
    kept(f"explorer_{name}", {json.dumps(changed): _small(_seen(name, changed)) for changed in QUESTIONS[name]})


def test_explorers_of_records_show_what_the_records_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan, an answer and tools of our own making in place of the stored ones, which other work changes."""
    planner, asked, chooser = (MODULES[name] for name in ("training_planner", "ask_predictor", "choose_tool"))
    found: dict[str, Any] = {}

    class Plans:
        said = ""

        def __getitem__(self, place: int) -> str:
            found.setdefault("places", []).append(place)
            return self.said

    monkeypatch.setattr(planner, "steps", lambda: plans)
    monkeypatch.setattr(planner, "words", lambda: {"memory": ["state", "activations", "working", "reserve"], "parts": PARTS})
    monkeypatch.setattr(planner, "capacities", lambda: {"Selene": 79.0, "HGX-H100": 79.0, "HGX-B200": 179.0})
    times = "13.7 11.3 17.9 3.1 1.7 1.3 0.7 0.5 0.3 1.1 2.3 0.11 0.13 0.37"  # step, its ends, the parts, the forward share
    cases = (
        ("50 40 70 31 19 2 3 " + times, {}),
        ("50 40 79 31 19 2 3 " + times, {"pipeline": 1, "tensor": 4, "microbatch": 2}),
        ("50 40 79.1 31 19 2 3 " + times, {"gpus": 512, "model": "gpt3-175b", "pipeline": 16, "system": "HGX-B200"}),
        ("90 79 110 51 39 2 3", {"system": "Selene"}),
        ("90 79.1 110 51 39 2 3", {"zero": "3", "recompute": "full"}),
        ("", {"tensor": 8, "pipeline": 16}),
        ("", {"zero": "3"}),
        ("", {"gpus": 8, "tensor": 4, "pipeline": 2}),
    )
    for said, changed in cases:
        plans = Plans()
        plans.said = said
        found[f"plan {said[:20]} {json.dumps(changed)}"] = _small(_seen("training_planner", changed))
        plans = Plans()

    monkeypatch.setattr(
        asked,
        "answers",
        lambda: {
            "qwen3-32b H20 4 8192 64": [[2345.0, 1234.0, 4567.0, 17.3, 11.9, 23.1], [9.7, 0.71, -0.37, 0.0, 3.1]],
            "llama-3.1-70b h100_sxm 8 1024 16": [[99.95, 50.0, 2000.0, 1999.0, 100.0, 99999.0], [1.0, 2.0, 0.0, 0.0, 0.5]],
        },
    )
    monkeypatch.setattr(asked, "refusals", lambda: {"llama-3.1-70b h100_sxm 1 1024 16": "it does not fit"})
    monkeypatch.setattr(asked, "watts", lambda: {"qwen3-32b H20 4 8192 64": 0.0, "llama-3.1-70b h100_sxm 8 1024 16": 500.0})
    monkeypatch.setattr(asked, "parts", lambda: ["products", "attention", "fitted", "nothing", "rest"])
    for changed in ({}, {"model": "qwen3-32b", "device": "H20", "gpus": 4, "prompt": "8192", "clients": 64}, {"gpus": 1}, {"gpus": 2}):
        found[f"asked {json.dumps(changed)}"] = _seen("ask_predictor", changed)

    def tool(name: str, **facts: Any) -> dict[str, Any]:
        plain = {
            "name": name,
            "year": 2020,
            "method": "learned",
            "questions": ["gpu"],
            "have": "sheet",
            "slow": 1.0,
            "claimed": "",
            "licence": "MIT",
            "claimed_percent": None,
            "measured": [],
            "runs": "",
            "open": "yes",
            "address": "https://a.b/c",
        }
        return {**plain, **facts}

    one = {"question": "gpu", "by": "us", "percent": 9.94, "on": "an A100"}
    tools = [
        tool("Aa", claimed="5 %", claimed_percent=5),
        tool("bb", measured=[one]),
        tool("cc", measured=[{**one, "by": "its own data", "percent": 9.96}]),
        tool("dd", measured=[{**one, "percent": 2.0}, {**one, "percent": 12.0, "by": "a competitor"}]),
        tool("Roofline"),
        tool("ee", runs="first answer after an hour"),
        tool("ff", open="no", licence=""),
        tool("gg", have="program", slow=61.0),
        tool("hh", slow=60.0, have="trace"),
        tool("ii", slow=None, have="device"),
        tool("jj", questions=["cpu"], measured=[one]),
        tool("kk", questions=["cpu", "gpu"], measured=[{**one, "question": "cpu"}], address="javascript:x"),
    ]
    monkeypatch.setattr(chooser, "records", lambda: tools)
    for changed in (
        {},
        {"have": "sheet", "budget": "60"},
        {"have": "program", "open": "yes"},
        {"have": "device"},
        {"question": "cpu"},
        {"question": "memory"},
    ):
        values = {control.name: control.default for control in chooser.CONTROLS} | changed
        found[f"tools {json.dumps(changed)}"] = [chooser.answer(values), chooser.tell(values), chooser.draw(values, 300)]
    kept("explorers_of_records", found)


PARTS = ["products", "attention", "memory_bound", "recompute", "output_layer", "host", "communication", "bubble", "reduce", "optimizer"]


def test_marks_and_scales_by_hand() -> None:
    """SVG's own elements; ticks at 1, 2 and 5 times a power of ten; prefixes of three digits."""
    linear, log = drawing.Scale(0, 7, 10, 80), drawing.Scale(0.05, 5000, 0, 500, log=True)
    found = {
        "scales": [linear(0), linear(3.5), linear(7), log(0.05), log(0.5), log(5000), linear(9), log(1e5)],
        "ticks": [drawing.Scale(0, top, 0, 1, log=way).ticks() for top in (1, 7, 23, 49.9, 1e6) for way in (False,)]
        + [log.ticks(), log.ticks(3)],
        "short": [drawing.short(value) for value in (0, 0.5, 1, 999, 999.9, 1000, 12345, 1e6, 3.35e12, 9.894e14, 1e18)],
        "seconds": [drawing.seconds(value) for value in (0, 1e-9, 1.5e-6, 999e-6, 1e-3, 0.0123, 0.999, 1, 75, 3601)],
        "marks": [
            drawing.text(1, 2, "a<b"),
            drawing.text(1.25, 2, "x", "end", "red", 11, True),
            drawing.rect(1, 2, 3, 4, "red", "t"),
            drawing.rect(1, 2, -3, 4, "red"),
            drawing.line(1, 2, 3, 4),
            drawing.line(1, 2, 3, 4, "red", 2, "4 3"),
            drawing.path([(1, 2), (3, 4.25)], "red"),
            drawing.path([(1, 2)], "red", 1, "2"),
            drawing.dot(1, 2, "red"),
            drawing.dot(1, 2, "red", 3, "t"),
            drawing.svg(300, 20.5, ["<g/>"], "l & m"),
        ],
        "axes": [
            drawing.axis_x(linear, 50, "x"),
            drawing.axis_x(log, 50, "x", [(1.0, "one")], 30),
            drawing.axis_y(linear, 40, "y"),
            drawing.axis_y(log, 40, "y", 60),
        ],
        "powers": [controls.log_spaced(1, 10000), controls.log_spaced(5, 1000)],
        "words": [controls.Slider("s", "S", (1, 2.5), 1, "%", form).text(2.5) for form in ("{:g}", "{:.2f}", "2^{:g}")],
        "form": controls.form_html(
            "e", [controls.Slider("s", "S <", (1, 2.5, 3), 2.5, "%"), controls.Choice("c", "C", (("a", "A&"), ("b", "B")), "b")]
        ),
    }
    kept("drawing", found)


@pytest.mark.parametrize(
    ("name", "changed", "by_hand"),
    [  # one fold of 46 cycles; memory bound: a FLOP a byte
        ("systolic_array", {"dataflow": "os", "m": 16, "n": 16, "k": 16, "array": 16}, {"utilization": 16**3 / 16**2 / 46}),
        ("roofline_achieved", {"device": "H100-SXM5-80GB", "intensity": 1, "share": 50}, {"achieved": 0.5 * 3.35e12}),
    ],
)
def test_single_numbers_by_hand(name: str, changed: dict[str, Any], by_hand: dict[str, float]) -> None:
    got = ask(name, **changed)
    assert {key: got[key] for key in by_hand} == pytest.approx(by_hand)
