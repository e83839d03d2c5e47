"""Options that mean the same in every command that has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Scheduler = Annotated[str, typer.Option(help="address of a dask scheduler over whose workers the work is spread")]
Plot = Annotated[Path | None, typer.Option(help="picture of the answer to write: .png, .svg or .pdf")]
Out = Annotated[
    Path | None,
    typer.Option(help="CSV or Parquet to write: the cases, in their order, each with its answer; - or nothing: standard output"),
]
Records = Annotated[bool, typer.Option("--json", help="print the answers as JSON, a list with a record for each case")]
Json = Annotated[bool, typer.Option("--json", help="print the answer as one JSON object")]

SiteFile = Annotated[
    Path | None,
    typer.Option("--site", help="YAML that `calibrate` wrote from your own log: its constants and intervals hold for the answer"),
]
LOGS = (
    "logs of one kind; then what they do not say, each as --COLUMN VALUE: --model, --device, --gpus, --tensor-parallel, --engine, "
    "--input-tokens, --network-gbit-per-s-per-gpu and every other column of the case command"
)

FORMATS = (".png", ".svg", ".pdf")


def at_site(answers: Callable[..., Any], site: Path | None) -> Callable[..., Any]:
    """A case command's answers with the constants of a site's file, if one is named."""
    if site is None:
        return answers
    from functools import partial

    from analysis.site import read_site

    return partial(answers, site=read_site(site))


def logs_and_question(words: list[str]) -> tuple[list[Path], dict[str, str]]:
    """Paths and `--COLUMN VALUE` pairs of a command line, told apart; a name's dashes are underscores."""
    from analysis.errors import InputError

    paths: list[Path] = []
    asked: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("--"):
            paths.append(Path(word))
            continue
        name, equals, value = word[2:].partition("=")
        value = value if equals else next(rest, "")
        if not value or value.startswith("--"):
            raise InputError("expected a value behind it", key=word)
        if asked.setdefault(name.replace("-", "_"), value) != value:
            raise InputError("given twice", key=word)
    if not paths:
        raise InputError("no log is named", key="LOGS")
    return paths, asked


def check_plot(plot: Path | None, *others: str | Path | None) -> None:
    """Tell before the work begins what would keep its picture from being written."""
    from analysis.errors import InputError
    from analysis.tables import check_output

    if plot is None:
        return
    if plot.suffix.lower() not in FORMATS:
        raise InputError(f"expected a name that ends in {', '.join(FORMATS)}, got {plot.name!r}", key="--plot")
    check_output(plot, *(other for other in others if other is not None))


def save_plot(plot: Path | None, draw: Callable[[Any], Any]) -> None:
    """Write the picture that was asked for, if one was."""
    if plot is not None:
        from analysis.commands.common import plots

        plots.save(draw(plots), plot)


def print_json(answer: dict[str, Any]) -> None:
    """Print an answer as one JSON object."""
    import json

    typer.echo(json.dumps(answer, allow_nan=False))


def in_words(value: Any) -> str:
    """A value as people write it: thousands apart, lists with commas, keys before their values, yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {in_words(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(in_words, value))
    return "not known" if value is None else str(value)
