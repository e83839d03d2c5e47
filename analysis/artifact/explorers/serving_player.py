"""Eight requests through a scheduler, batch by batch: when is each prompt read, when comes each token, and what are TTFT and TPOT then?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from analysis.artifact.explorers import drawing
from analysis.artifact.explorers.controls import Choice, Slider, remembered
from analysis.artifact.explorers.records.roofline_steps import parts
from analysis.serving.limits import Limits
from analysis.serving.requests import make_requests
from analysis.serving.simulate import simulate
from analysis.serving.steps import StepTime

TITLE = "What does a scheduler make of the same requests?"
PLAYS = "moment"
COUNT = 8
SCHEDULERS = (
    ("faster_transformer", "static batches (FasterTransformer)"),
    ("orca", "join at every step, whole prompts (Orca)"),
    ("vllm", "prompts first (vLLM v0)"),
    ("sarathi", "prompts in chunks beside decoding (Sarathi)"),
    ("vllm_v1", "one token budget (vLLM v1)"),
)
MIXES = {"chat": (150, 600, 0), "documents": (1500, 4000, 0), "mixed": (150, 600, 3)}
"""Shortest and longest prompt (tokens), and every which request brings a document instead; 0: none does."""
CONTROLS = (
    Choice("scheduler", "Scheduler", SCHEDULERS, "vllm"),
    Choice(
        "mix",
        "Prompts",
        (("chat", "150 to 600 tokens"), ("mixed", "every third one a document"), ("documents", "1,500 to 4,000 tokens")),
        "mixed",
    ),
    Slider("rate", "Requests arriving each second", (2, 5, 10, 15, 20, 30, 40, 60, 80, 120), 30),
    Slider("chunk", "Token budget of a step (Sarathi, vLLM v1)", (256, 512, 1024, 2048), 512),
    Slider("moment", "Moment", tuple(range(0, 101, 2)), 60, "%"),
)


@cache
def _steps() -> StepTime:
    given = parts()
    return StepTime(np.asarray(given["token_s"]), given["fixed_s"][0], pair_s=given["pair_s"][0], kv_s=given["kv_s"][0])


def spread(place: int, low: float, high: float, seed: float) -> float:
    """A value between low and high; evenly spread over places, always the same (golden-ratio sequence)."""
    return low + (high - low) * math.fmod(seed + 0.6180339887498949 * (place + 1), 1.0)


def drawn(mix: str, rate: float) -> tuple[list[float], list[int], list[int]]:
    """Arrivals (s), prompts and answers (tokens) of the eight requests; gaps between arrivals spread as exponential ones."""
    low, high, every = MIXES[mix]
    at, arrivals, prompts, answers = 0.0, [], [], []
    for k in range(COUNT):
        arrivals.append(at)
        document = every and k % every == 1
        bounds = MIXES["documents"][:2] if document else (low, high)
        prompts.append(int(spread(k, *bounds, 0.3)))
        answers.append(int(spread(k, 5, 13, 0.7)))
        at += -math.log(1.0 - spread(k, 0.02, 0.98, 0.1)) / rate
    return arrivals, prompts, answers


@remembered
def _run(values: Mapping[str, Any]) -> dict[str, Any]:
    """The run, by `analysis.serving.simulate`: latencies of each request (s), and of each batch its start, duration and members."""
    arrivals, prompts, answers = drawn(values["mix"], values["rate"])
    chunk = int(values["chunk"])
    limits = Limits(
        block_size=16,
        kv_blocks=8192,
        watermark=0.01,
        max_batch=64,
        max_batch_tokens=chunk if values["scheduler"] == "vllm_v1" else 8192,
        chunk=chunk,
        max_request_tokens=8192,
    )
    done = simulate(make_requests(arrivals, prompts, answers), values["scheduler"], _steps(), limits, record_batches=True)  # type: ignore[arg-type]
    assert done.batches is not None
    offsets, members, tokens = ([int(one) for one in row] for row in (done.batches.offsets, done.batches.members, done.batches.tokens))
    return {
        "arrived_s": arrivals,
        "prompts": prompts,
        "answers": answers,
        "first_s": [float(one) for one in done.records["prefill_completed_at"]],
        "completed_s": [float(one) for one in done.records["completed_at"]],
        "batches": [
            {
                "start_s": float(start),
                "end_s": float(start) + float(duration),
                "members": [[i, n] for i, n in zip(members[begin:end], tokens[begin:end], strict=True)],
            }
            for start, duration, begin, end in zip(
                done.batches.rows["start"], done.batches.rows["duration"], offsets[:-1], offsets[1:], strict=True
            )
        ],
    }


def token_times(run: Mapping[str, Any]) -> list[list[float]]:
    """When each token of each request came (s)."""
    left = list(run["prompts"])
    found: list[list[float]] = [[] for _ in left]
    for batch in run["batches"]:
        for i, count in batch["members"]:
            if left[i] > 0:
                left[i] -= count
                if left[i] > 0:
                    continue
            if len(found[i]) < run["answers"][i]:
                found[i].append(batch["end_s"])
    return found


@remembered
def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Times of all tokens, mean and worst latencies, and what has happened up to the moment."""
    run = _run({name: value for name, value in values.items() if name != "moment"})
    tokens = token_times(run)
    ttft = [first - arrived for first, arrived in zip(run["first_s"], run["arrived_s"], strict=True)]
    spans = [(row[-1] - row[0]) / (len(row) - 1) for row in tokens if len(row) > 1]
    gaps = [row[k + 1] - row[k] for row in tokens for k in range(len(row) - 1)]
    end = max(run["completed_s"])
    now = end * values["moment"] / 100
    running = [batch for batch in run["batches"] if batch["start_s"] <= now < batch["end_s"]]
    return {
        **run,
        "tokens_s": tokens,
        "ttft_s": ttft,
        "mean_ttft_s": sum(ttft) / len(ttft),
        "worst_ttft_s": max(ttft),
        "mean_tpot_s": sum(spans) / len(spans),
        "worst_gap_s": max(gaps),
        "end_s": end,
        "now_s": now,
        "running": running[0]["members"] if running else [],
        "tokens_so_far": sum(time <= now for row in tokens for time in row),
    }


def draw(values: Mapping[str, Any], width: float) -> str:
    """A row for each request (waiting, reading its prompt, tokens), the batches below, and the latencies up to the moment."""
    got = answer(values)
    narrow = width < 480
    left, right, top, step = 4.0, width - (64 if narrow else 118), 44.0, 27.0
    scale = drawing.Scale(0, got["end_s"], left, right)
    now = scale(got["now_s"])
    bottom = top + step * COUNT
    parts = [drawing.text(width, 14, "TTFT" if narrow else "TTFT, TPOT so far", "end", drawing.GREY, 12)]
    for k, (color, words) in enumerate(((drawing.FAINT, "waits"), (drawing.GOLD, "prompt is read"), (drawing.BLUE, "a token"))):
        x = (0.0, 62.0, 172.0)[k]
        parts += [drawing.rect(x, 5, 11, 11, color), drawing.text(x + 15, 15, words, size=12)]
    running = {i for i, _ in got["running"]}
    for i in range(COUNT):
        y = top + step * i
        begin, first = got["arrived_s"][i], got["first_s"][i]
        parts.append(drawing.text(left, y - 4 + 2, f"{got['prompts'][i]:,} tokens", color=drawing.GREY, size=10 if narrow else 11))
        if begin <= got["now_s"]:
            until = min(first, got["now_s"])
            parts.append(drawing.rect(scale(begin), y + 6, scale(until) - scale(begin), 8, drawing.FAINT))
        mark = drawing.RED if i in running else drawing.INK
        parts.append(drawing.line(scale(begin), y + 3, scale(begin), y + 17, mark, 2))
        for time in got["tokens_s"][i]:
            if time <= got["now_s"]:
                parts.append(drawing.dot(scale(time), y + 10, drawing.BLUE, 3, f"token at {drawing.seconds(time)}"))
        come = [time for time in got["tokens_s"][i] if time <= got["now_s"]]
        said = drawing.seconds(got["ttft_s"][i], 2) if come else "..."
        if not narrow and len(come) > 1:
            said += f", {drawing.seconds((come[-1] - come[0]) / (len(come) - 1), 2)}"
        parts.append(drawing.text(width, y + 14, said, "end", mark, 12))
    left_to_read = list(got["prompts"])
    lane = bottom + 8
    for batch in got["batches"]:
        x, wide = scale(batch["start_s"]), scale(min(batch["end_s"], got["now_s"])) - scale(batch["start_s"])
        reads = sum(n for i, n in batch["members"] if left_to_read[i] > 0)
        for i, n in batch["members"]:
            if left_to_read[i] > 0:
                left_to_read[i] -= n
                if batch["start_s"] <= got["now_s"]:
                    parts.append(drawing.rect(x, top + step * i + 6, wide, 8, drawing.GOLD, f"{n:,} tokens of the prompt"))
        if batch["start_s"] <= got["now_s"]:
            height = 4 + 2.2 * len(batch["members"])
            about = f"batch of {len(batch['members'])}, {reads:,} tokens of prompts, {drawing.seconds(batch['end_s'] - batch['start_s'])}"
            parts.append(drawing.rect(x, lane + 26 - height, max(wide - 0.6, 0.6), height, drawing.GOLD if reads else drawing.BLUE, about))
    parts.append(drawing.line(now, top - 14, now, lane + 30, drawing.RED, 1.5))
    parts.append(drawing.text(width, lane + 22, "batches" if narrow else f"{len(got['running'])} in the batch", "end", drawing.GREY, 12))
    parts += drawing.axis_x(scale, lane + 32, "seconds")
    return drawing.svg(width, lane + 72, parts, tell(values))


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    got = answer(values)
    return (
        f"With {dict(SCHEDULERS)[values['scheduler']]} and {values['rate']:g} requests a second the first token comes after "
        f"{drawing.seconds(got['mean_ttft_s'])} on average and {drawing.seconds(got['worst_ttft_s'])} at worst, then a token every "
        f"{drawing.seconds(got['mean_tpot_s'])}; the longest wait between two tokens is {drawing.seconds(got['worst_gap_s'])}."
    )
