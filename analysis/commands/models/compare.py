"""Your log beside the predictor: benchmark JSON, nccl-tests, training logs, CSV of points; inside or outside, and what explains it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.options import LOGS, SiteFile, logs_and_question

app = typer.Typer(help=__doc__, add_completion=False)


@app.command(context_settings={"ignore_unknown_options": True})
def main(
    logs: Annotated[list[str], typer.Argument(help=LOGS)],
    out: Annotated[Path | None, typer.Option(help="CSV to write: a row a measured value; -: standard output")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print points and summary as one JSON object")] = False,
    site: SiteFile = None,
) -> None:
    """Measured beside predicted, with a 90 % interval; a log of vLLM, SGLang, AIPerf, genai-perf, InferenceX, nccl-tests, Megatron-LM,
    NeMo, torchtitan or MLPerf (:::MLLOG), or a CSV with the columns of `predict training`, `serving` or `collective` and measured_ ones."""
    from analysis.commands.common.options import print_json
    from analysis.predict import compare
    from analysis.site import read_site
    from analysis.tables import check_output, to_csv_bytes, write_csv

    paths, asked = logs_and_question(logs)
    to_file = out is not None and str(out) != "-"
    if out is not None and to_file:
        check_output(out, *paths)
    found = compare.compare(paths, asked, read_site(site))
    if out is not None and to_file:
        write_csv(found.table, out)
    if as_json:
        rows = [{key: None if cell != cell else cell for key, cell in row.items()} for row in found.table.to_dict("records")]
        print_json({"kind": found.kind, "notes": list(found.notes), "points": rows, "summary": compare.summary(found.table)})
    elif out is not None and not to_file:
        typer.echo(to_csv_bytes(found.table).decode(), nl=False)
    else:
        typer.echo(compare.report(found))
