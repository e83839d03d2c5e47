"""LLM serving: replay a recorded run, simulate one from a configuration, or find the rate that a bound allows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from analysis.commands.common.options import Json, Scheduler, SiteFile, print_json

if TYPE_CHECKING:
    from analysis.serving.points.waterfall import One

app = typer.Typer(help=__doc__, add_completion=False)


@app.command()
def replay(
    requests: Annotated[Path, typer.Argument(help="CSV: request_id,arrived_at,num_prefill_tokens,num_decode_tokens (others are not read)")],
    scheduler: Annotated[str, typer.Option(help="vllm, sarathi, orca, faster_transformer, lightllm or vllm_v1")],
    steps: Annotated[Path, typer.Option(help="CSV with the column total_time_s: step times, used in order")],
    out: Annotated[Path, typer.Option(help="folder for requests.csv and batches.csv")],
    kv_blocks: Annotated[int, typer.Option(help="KV blocks of the replica")] = 7648,
    block_size: Annotated[int, typer.Option(help="tokens a KV block")] = 16,
    max_batch: Annotated[int, typer.Option(help="requests in a batch")] = 128,
    max_batch_tokens: Annotated[int, typer.Option(help="tokens in a batch")] = 4096,
    chunk: Annotated[int, typer.Option(help="Sarathi's tokens in a batch")] = 512,
    max_request_tokens: Annotated[
        int | None, typer.Option(help="tokens reserved for each request (Orca, FasterTransformer); default 512, or the longest request")
    ] = None,
) -> None:
    """Schedule the requests with recorded step times; writes each batch and each request's latencies."""
    from analysis.serving.limits import Limits
    from analysis.serving.tables import write_run
    from analysis.serving.vidur import replay as run

    limits = Limits(block_size, kv_blocks, max_batch=max_batch, max_batch_tokens=max_batch_tokens, chunk=chunk)
    result, unused = run(requests, steps, scheduler, limits, max_request_tokens)
    write_run(result, out)
    message = f"{len(result.requests)} requests, {int(result.replicas['batches'].sum())} batches, in {out}"
    typer.echo(message + (f"; {unused} recorded steps were not needed: are they this run's?" if unused else ""))


@app.command()
def simulate(
    config: Annotated[
        Path,
        typer.Argument(help="YAML: requests, scheduler, steps, ... (`data schema serve` prints all keys); or VIDUR's own .json"),
    ],
    out: Annotated[Path | None, typer.Option(help="folder for requests.csv, batches.csv and summary.csv")] = None,
    steps: Annotated[Path | None, typer.Option(help="with VIDUR's .json: recorded batches that give the step times")] = None,
    fit: Annotated[bool, typer.Option(help="fit a linear step time to --steps; --no-fit uses the recorded times in order")] = True,
    as_json: Json = False,
    site: SiteFile = None,
) -> None:
    """Simulate what the configuration describes; prints a summary, and writes it with requests and batches where a folder is named."""
    from analysis.configs import read_yaml
    from analysis.errors import InputError
    from analysis.serving.answer import Ends, record_of, summary_table
    from analysis.serving.points.simulation import read_configuration
    from analysis.serving.step_time.linear import read_fit
    from analysis.serving.steps import read_recorded
    from analysis.serving.tables import write_run
    from analysis.serving.vidur import VidurConfig, setup_of, simulate_vidur
    from analysis.tables import write_csv

    if (config.suffix == ".json") != (steps is not None):
        raise InputError("expected with VIDUR's .json, which has no step times, and with nothing else", key="--steps")
    ends: Ends = {}
    if steps is not None and site is not None:
        raise InputError("a site has constants of calibrated steps, not of recorded ones", key="--site")
    if steps is not None:
        vidur, slo = read_yaml(config, VidurConfig), {}
        result, setup = simulate_vidur(vidur, read_fit(steps) if fit else read_recorded(steps), config.parent), setup_of(vidur, fit)
    else:
        configuration = read_configuration(config, site)
        if (one := configuration.one()) is not None:
            tell_one(one, out, as_json)
            return
        result, setup, slo = configuration.run(), configuration.setup(), configuration.slo()
        ends = configuration.ends(result)
    summary = summary_table(result, slo, ends)
    if out is not None:
        write_run(result, out)
        write_csv(summary, out / "summary.csv")
    if as_json:
        print_json(record_of(result, setup, ends))
        return
    written = "" if out is None else f", in {out}"
    typer.echo(f"{len(result.requests)} requests, {int(result.replicas['batches'].sum())} batches{written}")
    typer.echo("\n".join(setup.lines(result.requests)))
    for name, value, unit in summary.itertuples(index=False):
        typer.echo(f"  {name:<22} {value:>14.6g} {unit}")


def tell_one(one: One, out: Path | None, as_json: bool) -> None:
    """What `predict one` answers, printed and written."""
    import pandas as pd

    from analysis.serving.points import waterfall
    from analysis.tables import write_csv

    if out is not None:
        write_csv(pd.DataFrame(one.answer.items(), columns=["name", "value"]), out / "summary.csv")
    if as_json:
        print_json(waterfall.as_json(one))
    else:
        typer.echo(waterfall.report(one))


@app.command()
def capacity(
    config: Annotated[Path, typer.Argument(help="YAML, as for simulate; its requests are sped up or slowed down, their lengths stay")],
    slo: Annotated[list[str], typer.Option(help="bound, such as ttft_p99=0.5 or e2e_mean=2 (seconds); may be given several times")],
    tolerance: Annotated[float, typer.Option(min=1e-6, max=1.0, help="relative width of the rates' bracket that ends the search")] = 0.01,
    out: Annotated[Path | None, typer.Option(help="folder for capacity.csv, every rate tried")] = None,
    as_json: Json = False,
    site: SiteFile = None,
) -> None:
    """Largest rate of requests that meets all bounds, by bisection on the same requests."""
    import pandas as pd

    from analysis.errors import InputError
    from analysis.serving.capacity import at_rate, read_bound
    from analysis.serving.capacity import capacity as search
    from analysis.serving.points.simulation import read_configuration
    from analysis.tables import write_csv

    bounds = [read_bound(text) for text in slo]
    if twice := next((text for at, text in enumerate(slo) if text.partition("=")[0] in [one.partition("=")[0] for one in slo[:at]]), ""):
        raise InputError(f"{twice}: is given twice", key="--slo")
    configuration = read_configuration(config, site)
    requests, setup = configuration.requests, configuration.setup()
    found = search(lambda rate: configuration.run(at_rate(requests, rate), record_batches=False), bounds, tolerance)
    tries = pd.DataFrame([{"rate_per_s": t.rate_per_s, "met": t.met, **{f"{n}_s": v for n, v in t.values_s.items()}} for t in found.tries])
    if out is not None:
        write_csv(tries, out / "capacity.csv")
    if as_json:
        above = found.above_per_s if math.isfinite(found.above_per_s) else None
        found_rates = {"rate_per_s": found.rate_per_s, "above_per_s": above, "bound_by": list(found.bound_by)}
        print_json({**found_rates, **setup.record(requests), "status": found.status})
        return
    typer.echo("\n".join(setup.lines(requests)))
    for name, value in (("rate_per_s", found.rate_per_s), ("above_per_s", found.above_per_s)):
        typer.echo(f"  {name:<22} {value:>14.6g} 1/s")
    typer.echo(f"  {'bound_by':<22} {', '.join(found.bound_by) or 'nothing':>14}")
    if found.status:
        typer.echo(f"  {'status':<22} {found.status}")


@app.command()
def sweep(
    config: Annotated[Path, typer.Argument(help="YAML, as for simulate; its requests are sped up or slowed down, their lengths stay")],
    rate: Annotated[list[float], typer.Option(min=0.000001, help="requests per second; give one for each run")],
    out: Annotated[Path, typer.Option(help="CSV to write: a row a rate, with the columns of simulate's summary")],
    scheduler: Scheduler = "",
    site: SiteFile = None,
) -> None:
    """Simulate the same requests at several rates, here or on the workers of a cluster."""
    from functools import partial

    import pandas as pd

    from analysis.progress import Progress
    from analysis.serving.points.simulation import read_configuration, summary_at
    from analysis.sweeps import sweep as run
    from analysis.tables import check_output, write_csv

    check_output(out, config)
    configuration = read_configuration(config, site)
    requests, setup = configuration.requests, configuration.setup()
    answer = partial(summary_at, configuration=configuration, requests=requests)
    configuration.steps  # noqa: B018  read here, so that a worker needs none of its files
    with Progress() as progress:
        rows = run(answer, rate, scheduler, workers=0, progress=lambda done: progress(done, len(rate), "rates simulated"))
    write_csv(pd.DataFrame(rows), out)
    typer.echo("\n".join([*setup.lines(requests), f"{len(rows)} rates, in {out}"]))
