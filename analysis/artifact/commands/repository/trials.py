"""Install other tools live as their instructions say, and time the way to a first prediction (needs the network)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def main(
    only: Annotated[list[str] | None, typer.Option(help="tools to try, by name (may be given again); all without it")] = None,
    out: Annotated[Path, typer.Option(help="folder for environments, runs and tables")] = Path("_build/trials"),
    since: Annotated[
        bool, typer.Option(help="compare with the last record under data/trials; exits 1 if a tool that worked no longer does")
    ] = False,
    again: Annotated[bool, typer.Option(help="try again what is done already; without it a stopped run goes on")] = False,
    releases: Annotated[int, typer.Option(help="also try this many releases of each tool, its oldest and its newest among them")] = 0,
    exercise: Annotated[
        bool, typer.Option(help="also add an accelerator and a workload to each tool (environments must have been kept)")
    ] = False,
    record: Annotated[bool, typer.Option(help="add the run to data/trials (for maintainers)")] = False,
    keep: Annotated[bool, typer.Option(help="keep the environments (up to 1.3 GB each)")] = False,
    container: Annotated[
        Path | None, typer.Option(help="only build this container file without root (needs buildah), and ask the tool of --only inside")
    ] = None,
    root: Annotated[
        list[str] | None, typer.Option(help="IMAGE=ROOT.tar: a root packed by mmdebstrap in place of a base image (may be given again)")
    ] = None,
) -> None:
    """Write outcomes.csv, steps.csv, pins.csv (and changes.csv, releases.csv, exercises.csv, or containers.csv and container_steps.csv).

    A stopped run goes on with the next tool.
    """
    import shutil
    from datetime import UTC, datetime

    import pandas as pd

    from analysis.artifact.mtap.trials import containers, exercises, records
    from analysis.artifact.mtap.trials.catalogue import Trial, catalogue, find
    from analysis.artifact.mtap.trials.running import attempt, machine_class, of_releases
    from analysis.studies.freezing import Freeze
    from analysis.tables import write_csv

    chosen = [find(name) for name in only] if only else list(catalogue())
    out.mkdir(parents=True, exist_ok=True)
    if container is not None:
        tool, program = (chosen[0].tool, chosen[0].first()) if only else (container.resolve().parent.name, "")
        for name, table in containers.attempt(tool, container, root or [], program).items():
            write_csv(table.assign(date=datetime.now(UTC).date().isoformat()), out / f"{name}.csv")
            typer.echo(table.to_string(index=False))
        return
    pieces = Freeze(out)
    if again:
        for trial in chosen:
            pieces.path(trial.name, "done").unlink(missing_ok=True)
    for trial in chosen:
        if trial.name in pieces.done():
            typer.echo(f"{trial.name}: done before")
            continue
        typer.echo(f"{trial.name}: installing and running ...")
        stamp = {"date": datetime.now(UTC).date().isoformat(), "machine": machine_class()}

        def piece(trial: Trial = trial, stamp: dict[str, str] = stamp) -> dict[str, pd.DataFrame]:
            tables = attempt(trial, out)
            return {name: table.assign(**stamp) for name, table in tables.items()}

        pieces.run({trial.name: piece})
        row = pieces.read(trial.name, "outcome").iloc[0]
        typer.echo(f"{trial.name}: {row['outcome']} {row['classes']} {row['message']}".rstrip())
        if not keep:
            shutil.rmtree(out / "environments" / trial.name, ignore_errors=True)
    outcomes, pins = pieces.joined("outcome"), pieces.joined("pins")
    write_csv(outcomes, out / "outcomes.csv")
    write_csv(pieces.joined("steps"), out / "steps.csv")
    write_csv(pins, out / "pins.csv")
    failed = False
    if since:
        changed = records.changes(records.recorded("outcomes"), outcomes, records.recorded("pins"), pins)
        write_csv(changed, out / "changes.csv")
        typer.echo(
            changed[["tool", "date_before", "version_before", "version_now", "outcome_now", "packages_changed", "verdict"]].to_string(
                index=False
            )
        )
        failed = bool((changed["verdict"] == "worse").any())
    if releases:
        tried = [of_releases(trial, out / "releases", releases) for trial in chosen if trial.package]
        write_csv(pd.concat(tried, ignore_index=True).assign(date=datetime.now(UTC).date().isoformat()), out / "releases.csv")
    if exercise:
        write_csv(exercises.do_all(out), out / "exercises.csv")
    if record:
        records.add(out)
    raise typer.Exit(1 if failed else 0)
