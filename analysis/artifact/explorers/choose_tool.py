"""Which tool for which question: tools that fit come first, among them those with the better evidence."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from analysis.artifact.explorers.controls import Choice
from analysis.artifact.survey.choosing import records

TITLE = "What do you want to know, and what do you have?"
QUESTIONS = (
    ("gpu", "time of a kernel or a network on a GPU"),
    ("serving", "latency and rate of a served language model"),
    ("training", "length of a training step on many GPUs"),
    ("collective", "time of a collective on a fabric"),
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
    "gpu": ("operators_kernels", "kernels on a GPU nobody has profiled"),
    "serving": ("serving", "a served model: how fast, how many, how much"),
    "training": ("training", "a training step: how long, and does it fit"),
    "collective": ("networks_measured", "collectives, measured and predicted"),
    "accelerator": ("accelerators_timeloop", "loop nests, count by count"),
    "edge": ("operators_few_shot", "ten samples of a new device"),
    "compiler": ("operators_schedules", "which schedule to try first"),
    "cpu": ("cores_timing", "timing a core, its programs, and its ports"),
    "memory": ("approaches_distributed_serving", "clusters, serving and memory"),
}
NEEDS = {"sheet": "a data sheet", "program": "a program to run", "trace": "traces of a run", "device": "measurements of the device"}
ALLOWED = {"sheet": ("sheet",), "program": ("sheet", "program"), "trace": ("sheet", "trace"), "device": ("sheet", "device")}


def measured(tool: Mapping[str, Any], question: str) -> list[Mapping[str, Any]]:
    """The measurements of a tool that answer the question; those of other questions say nothing of it."""
    return [one for one in tool["measured"] if one["question"] == question]


def evidence(tool: Mapping[str, Any], question: str) -> int:
    """How good the evidence for a tool's error on a question is.

    4 measured on it by us or by a competitor, 3 measured on it on the tool's own data, 2 run by us, 1 a claim against hardware, 0 none.
    """
    by = [one["by"] for one in measured(tool, question)]
    if by:
        return 3 if all(one == "its own data" for one in by) else 4
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
        found = [one["percent"] for one in measured(tool, values["question"])]
        error = max(found) if found else tool["claimed_percent"]
        rank = 2.5 if tool["name"] == "Roofline" else evidence(tool, values["question"])  # the trivial baseline, after measured tools
        return len(against), -rank, 1e9 if error is None else error, tool["name"].lower()

    return sorted(((tool, misfits(tool, values)) for tool in records() if values["question"] in tool["questions"]), key=place)


def answer(values: Mapping[str, Any]) -> dict[str, Any]:
    """Names in order, with the class of evidence and what speaks against each."""
    return {"order": [[tool["name"], evidence(tool, values["question"]), against] for tool, against in ranked(values)]}


def _percent(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def _evidence_words(tool: Mapping[str, Any], question: str) -> str:
    said = f"claims {tool['claimed']}" if tool["claimed"] else "claims no error against hardware"
    found = measured(tool, question)
    if not found:
        elsewhere = ", only on others" if tool["measured"] else ""
        return html.escape(f"{said}; measured by nobody on this question{elsewhere}")
    got = "; ".join(f"{_percent(one['percent'])} % on {one['on']} (by {one['by']})" for one in found)
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
        words = _evidence_words(tool, values["question"])
        items.append(f"<li{kind}>{title} ({html.escape('; '.join(facts))})<br>{words}{warning}</li>")
    page, words = CHAPTERS[values["question"]]
    return f'<ol class="tools">{"".join(items)}</ol><p>In this book: <a href="{page}.html">{words}</a>.</p>'


def tell(values: Mapping[str, Any]) -> str:
    """The answer in a sentence."""
    order = ranked(values)
    fitting = [tool for tool, against in order if not against]
    scored = [tool for tool in fitting if evidence(tool, values["question"]) == 4]
    first = f"; first {fitting[0]['name']}" if fitting else ""
    others = "one was" if len(scored) == 1 else f"{len(scored) or 'none'} were"
    answer_this = "1 tool answers" if len(order) == 1 else f"{len(order)} tools answer"
    return f"{answer_this} this, {len(fitting)} fit{first}. Of those that fit, {others} measured on this question by us or a competitor."
