"""The measured suite: its rows in one schema, and grades for anyone's predictions of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.answers import check_header

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)


@app.command()
def rows(
    part: Annotated[str, typer.Argument(help="training, batch, serving, single_batch_serving, requests or published")],
    out: Annotated[Path, typer.Option(help="CSV to write, one measured value a row")],
) -> None:
    """Write one part of the suite; predictions for `score` name its row_id."""
    from analysis.studies.suite.rows import rows as read
    from analysis.tables import write_csv

    table = read(part)
    write_csv(table, out)
    typer.echo(f"{len(table)} rows of {part} in {out}")


@app.command()
def package(folder: Annotated[Path, typer.Argument(help="folder to write: a CSV a part, and datapackage.json")]) -> None:
    """Write the suite as a Frictionless data package: every part whose originals are here."""
    import json

    from analysis.errors import DatasetMissing
    from analysis.studies.suite import rows as suite
    from analysis.tables import write_atomic, write_csv

    tables = {}
    for part in suite.PARTS:
        try:
            tables[part] = suite.rows(part)
        except DatasetMissing as error:
            typer.echo(f"{part}: left out, {error}")
    folder.mkdir(parents=True, exist_ok=True)
    for part, table in tables.items():
        write_csv(table, folder / f"{part}.csv")
    content = json.dumps(suite.package(tables), indent=1, ensure_ascii=False) + "\n"
    write_atomic(folder / "datapackage.json", content.encode())
    typer.echo(f"{sum(map(len, tables.values()))} rows in {len(tables)} tables and datapackage.json in {folder}")


@app.command()
def score(
    predictions: Annotated[Path, typer.Argument(help="CSV: row_id, predicted (in the row's unit), and lower and upper if you have them")],
    out: Annotated[Path | None, typer.Option(help="CSV to write the grades to; without it, they are printed")] = None,
) -> None:
    """Grade predictions by source: errors with cluster intervals, coverage, sharpness, our own and the trivial baseline's error, noise."""
    from analysis.studies.suite.score import grade_file
    from analysis.tables import write_csv

    check_header("measured score", predictions)
    grades = grade_file(predictions)
    if out:
        write_csv(grades, out)
        typer.echo(f"{len(grades)} rows in {out}")
    else:
        typer.echo(grades.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
