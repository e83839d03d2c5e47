"""Which tool for which question: tools that fit come first, among them those with the better evidence."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from analysis.explorers.controls import Choice
from analysis.survey.choosing import records

TITLE = "What do you want to know, and what do you have?"
QUESTIONS = (
    ("gpu", "time of a kernel or a network on a GPU"),
    ("serving", "latency and rate of a served language model"),
    ("training", "length of a training step on many GPUs"),
    ("accelerator", "cycles and energy on an accelerator"),
    ("edge", "latency on a phone or a board"),
    ("compiler", "which schedule of a kernel to try first"),
    ("cpu", "cycles of code on a core"),
    ("memory", "timing of DRAM"),
)
CONTROLS = (
    Choice("question", "I want to know", QUESTIONS, "gpu"),
    Choice(
        "have",
        "I have",
        (
            ("sheet", "a data sheet and nothing else"),
            ("program", "a program that can be run or simulated"),
            ("trace", "traces of a real run"),
            ("device", "the device itself, to measure on"),
            ("all", "all of these"),
        ),
        "all",
    ),
    Choice(
        "budget", "An answer may take", (("1", "a second"), ("60", "a minute"), ("3600", "an hour"), ("1e9", "as long as it takes")), "1e9"
    ),
    Choice("open", "Source code", (("any", "does not matter"), ("yes", "must be public")), "any"),
)
CHAPTERS = {
    "gpu": ("operators", "kernels on a GPU nobody has profiled"),
    "serving": ("serving", "serving, rebuilt and compared"),
    "training": ("training", "training steps, predicted before they were run"),
    "accelerator": ("accelerators", "accelerators, count by count"),
    "edge": ("operators_few_shot", "ten samples of a new device"),
    "compiler": ("operators_schedules", "which schedule to try first"),
    "cpu": ("cores", "cores: programs, timing, learned models"),
    "memory": ("approaches_memory_kv", "memory systems"),
}
NEEDS = {"sheet": "a data sheet", "program": "a program to run", "trace": "traces of a run", "device": "measurements of the device"}
ALLOWED = {"sheet": ("sheet",), "program": ("sheet", "program"), "trace": ("sheet", "trace"), "device": ("sheet", "device")}


def evidence(tool: Mapping[str, Any]) -> int:
    """How good the evidence for a tool's error is: 3 scored by somebody else, 2 run by us, 1 a claim against hardware, 0 none."""
    if tool["measured"]:
        return 3
    if tool["runs"].startswith("first"):
        return 2
    return 1 if tool["claimed"] else 0


def misfits(tool: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """Why a tool does not fit, in words; what is not known does not count against it."""
    found = []
    if values["have"] != "all" and tool["have"] in NEEDS and tool["have"] not in ALLOWED[values["have"]]:
        found.append(f"needs {NEEDS[tool['have']]}")
    if tool["slow"] is not None and tool["slow"] > float(values["budget"]):
        found.append("is slower than that")
    if values["open"] == "yes" and tool["open"] == "no":
        found.append("no public code found")
    return found


def ranked(values: Mapping[str, Any]) -> list[tuple[dict[str, Any], list[str]]]:
    """The tools for a question with what speaks against each: what fits first, then better evidence, then the smaller error."""

    def place(one: tuple[dict[str, Any], list[str]]) -> tuple[Any, ...]:
        tool, against = one
        error = max(tool["measured"]) if tool["measured"] else tool["claimed_percent"]
        return len(against), -evidence(tool), 1e9 if error is None else error, tool["name"].lower()

    return sorted(((tool, misfits(tool, values)) for tool in records() if tool["question"] == values["question"]), key=place)


def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Names in order, with the class of evidence and what speaks against each."""
    return {"order": [[tool["name"], evidence(tool), against] for tool, against in ranked(values)]}


def _percent(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def _evidence_words(tool: Mapping[str, Any]) -> str:
    said = f"claims {tool['claimed']}" if tool["claimed"] else "claims no error against hardware"
    if not tool["measured"]:
        return html.escape(said + "; no score by anybody else found")
    got = "; ".join(f"{_percent(value)} % on {on}" for value, on in zip(tool["measured"], tool["measured_on"], strict=True))
    return f"<strong>measured {html.escape(got)}</strong>; {html.escape(said)}"


def draw(values: Mapping[str, Any], width: float) -> str:
    """The ranking as a list, those that do not fit below."""
    items = []
    for tool, against in ranked(values):
        name = html.escape(tool["name"])
        title = f"<strong>{name}</strong>"
        if tool["address"].startswith(("https://", "http://")):  # an address of another kind could run code
            title = f'<a href="{html.escape(tool["address"])}" rel="noreferrer">{name}</a>'
        facts = [f"{tool['method']}, {tool['year']}"]
        if tool["have"] in NEEDS:
            facts.append(f"asks for {NEEDS[tool['have']]}")
        if tool["runs"]:
            facts.append(f"our trial: {tool['runs']}")
        if tool["licence"] or tool["open"] == "no":
            facts.append(tool["licence"] or "no public code found")
        warning = f'<br><span class="against">but {html.escape(" and ".join(against))}</span>' if against else ""
        kind = ' class="misfit"' if against else ""
        items.append(f"<li{kind}>{title} ({html.escape('; '.join(facts))})<br>{_evidence_words(tool)}{warning}</li>")
    page, words = CHAPTERS[values["question"]]
    return f'<ol class="tools">{"".join(items)}</ol><p>In this book: <a href="{page}.html">{words}</a>.</p>'


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    order = ranked(values)
    fitting = [tool for tool, against in order if not against]
    scored = [tool for tool in fitting if evidence(tool) == 3]
    first = f"; first {fitting[0]['name']}" if fitting else ""
    others = "one was" if len(scored) == 1 else f"{len(scored) or 'none'} were"
    return (
        f"{len(order)} tools answer this, {len(fitting)} fit{first}. Of those that fit, {others} scored on cases not chosen for the claim."
    )
