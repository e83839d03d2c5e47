"""What models print in README.md, a sample answer and accuracies; `python -m tests.checks.readme` writes it again."""

from __future__ import annotations

import shlex
from typing import Any

from analysis.errors import InputError
from analysis.paths import DATA, ROOT
from analysis.tables import read_csv

PAGE = ROOT / "README.md"
COMMAND = "predict one --model llama-3.1-70b --device h100 --gpus 8"


SERVERS = {
    "trtllm_perf_overview": "TensorRT-LLM's performance pages, offline",
    "sgl_cookbook": "SGLang's cookbook",
    "ml.energy": "the ML.ENERGY Benchmark",
}
"""Sources of served points that taught the constants of these rows nothing, and what the page calls them."""
TRAINING = {
    "megatron_sc21": "Megatron on A100, 2021",
    "mlperf_llama31_405b": "MLPerf, Llama 3.1 405B",
    "ultrascale": "Ultra-Scale Playbook, nanotron on H100",
    "torchao": "torchao, FP8 on one node",
}


def sample() -> str:
    """The first question of the page, with what the command prints."""
    from typer.testing import CliRunner

    from analysis.commands.models.predict import app

    done = CliRunner().invoke(app, shlex.split(COMMAND)[1:])
    if done.exit_code:
        raise InputError(done.output.strip() or str(done.exception))
    return f"```\n$ .venv/bin/python -m analysis {COMMAND}\n{done.stdout.rstrip()}\n```\n"


def _row(question: str, judged_on: str, error: float, held: float, baseline: str) -> str:
    return f"| {question} | {judged_on} | {error:.0f} % | {held:.0f} % | {baseline} |"


def accuracy() -> str:
    """How right the predictors are where they were judged: committed scores, each of rows whose group took no part in the fit."""

    def one(table: str, **where: Any) -> Any:
        rows = read_csv(DATA / "frozen" / table)
        for column, value in where.items():
            rows = rows[rows[column] == value]
        return rows.iloc[0]

    token, first = (one("predictor_serving/scores.csv", split="family", target=target) for target in ("tpot", "ttft"))
    peers = [f"NVIDIA's predictor {r['peer_median_percent']:.0f} %, roofline {r['roofline_median_percent']:.0f} %" for r in (token, first)]
    benchmark = "InferenceX's benchmark, a family of models at a time"
    lines = [
        "| question | judged on | median error | 90 % intervals that hold | for comparison |",
        "|---|---|---|---|---|",
        _row("time per output token", benchmark, token["median_percent"], token["coverage_percent"], peers[0]),
        _row("time to first token", benchmark, first["median_percent"], first["coverage_percent"], peers[1]),
    ]
    for source, words in SERVERS.items():
        row = one("predictor_serving/sources.csv", source=source, target="tpot")
        lines.append(_row("time per output token", words, row["median_elsewhere_percent"], row["coverage_elsewhere_percent"], ""))
    for source, words in TRAINING.items():
        row = one("measured_suite/training_scores.csv", source=source)
        rule = f"roofline at the other sources' share {100 * row['baseline_median_error']:.0f} %"
        lines.append(_row("training step", words, 100 * row["median_error"], 100 * row["covered"], rule))
    for place, words in (("node", "nccl-tests within one NVLink domain, a machine at a time"), ("network", "the same over a network")):
        row = one("nccl_calibrated/collectives.csv", split="machine", place=place, source="all of nccl-tests")
        lines.append(_row("collective", words, 100 * row["median_error"], 100 * row["inside"], ""))
    return "\n".join(lines) + "\n"


def with_parts(page: str) -> str:
    """A page with the parts of today between their marks."""
    for name, text in (("sample", sample()), ("accuracy", accuracy())):
        before, rest = page.split(f"<!-- {name} -->\n", 1)
        page = f"{before}<!-- {name} -->\n{text}<!-- end of {name} -->" + rest.split(f"<!-- end of {name} -->", 1)[1]
    return page


if __name__ == "__main__":
    PAGE.write_text(with_parts(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
