"""MTAP: score a tool from its evidence file, list the rubric's gaps, or show the template."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.paths import DATA

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)

RUBRIC, WEIGHTS = DATA / "mtap" / "rubric.yaml", DATA / "mtap" / "weights.yaml"


@app.command()
def score(
    files: Annotated[list[Path], typer.Argument(help="evidence files (YAML), one a tool; `data schema evidence` prints their keys")],
    rubric: Annotated[Path | None, typer.Option(help="a rubric; without it the printed one, errors found by others first")] = None,
    weights: Annotated[Path, typer.Option(help="the weight schemes")] = WEIGHTS,
    out: Annotated[Path | None, typer.Option(help="CSV to write, too")] = None,
) -> None:
    """Grade each tool by the rubric and print why; an unknown key, a missing source or an impossible value is refused."""
    import pandas as pd

    from analysis.artifact.mtap.evidence import Evidence
    from analysis.artifact.mtap.grading import grade_tool
    from analysis.artifact.mtap.report import report_table, report_text
    from analysis.artifact.mtap.rubric import Rubric, Weights
    from analysis.artifact.mtap.tables import rubric_of
    from analysis.configs import read_yaml
    from analysis.tables import write_csv

    rules, schemes = read_yaml(rubric, Rubric) if rubric else rubric_of(), read_yaml(weights, Weights)
    read = [read_yaml(path, Evidence) for path in files]
    graded = [(evidence, grade_tool(evidence, rules)) for evidence in read]
    typer.echo("\n\n".join(report_text(evidence, assessment, rules, schemes) for evidence, assessment in graded))
    table = pd.concat([report_table(assessment, schemes) for _, assessment in graded], ignore_index=True)
    if out is not None:
        write_csv(table, out)


@app.command()
def gaps(rubric: Annotated[Path, typer.Option(help="the rubric")] = RUBRIC) -> None:
    """List where the rubric is silent or contradicts itself."""
    from analysis.artifact.mtap.gaps import rubric_gaps
    from analysis.artifact.mtap.rubric import Rubric
    from analysis.configs import read_yaml

    for gap in rubric_gaps(read_yaml(rubric, Rubric)):
        typer.echo(f"{gap.dimension:<10} {gap.kind:<20} {gap.levels:<8} {gap.where}")


@app.command()
def template() -> None:
    """Print an empty evidence file to fill in."""
    typer.echo((DATA / "mtap" / "template.yaml").read_text(encoding="utf-8"), nl=False)
