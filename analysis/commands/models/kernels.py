"""Latency of GPU kernels, shapes on any device."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from analysis.commands.common.answers import answer_cases
from analysis.commands.common.options import Out, Plot, Records, Scheduler, check_plot, save_plot

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep the commands subcommands: the others stand with the evaluation's."""


CASES = (
    "CSV: op, device, dtype and the sizes of the operator (gemm: M,N,K; attention_prefill, attention_decode, moe, all_reduce, ...; see the "
    "chapter), or op,B,M,N,K,H,device as NeuSight's tables have them for fp32 kernels"
)
SPEC = "YAML with devices of your own, which the cases then name; the path itself may stand in the column device"


@app.command()
def predict(
    cases: Annotated[Path, typer.Argument(help=CASES)],
    out: Out = None,
    device_spec: Annotated[Path | None, typer.Option(help=SPEC)] = None,
    scheduler: Scheduler = "",
    as_json: Records = False,
) -> None:
    """Predict each case with a 90 % interval; one not covered has an empty result and a reason; status 2 where none is covered."""
    from functools import partial

    from analysis.kernels.cases import answers

    model = partial(answers, path=cases, machines=device_spec)
    answer_cases("kernels predict", cases, out, model, scheduler, as_json, beside=False)


@app.command()
def profile(
    trace: Annotated[Path, typer.Argument(help="JSON of PyTorch's profiler (export_chrome_trace), packed with gzip or not")],
    device: Annotated[str, typer.Option(help="GPU, a name of `devices`; without it, the one that the trace names")] = "",
    out: Annotated[Path | None, typer.Option(help="CSV to write: a row for each operator, its shapes and its kernels")] = None,
    plot: Plot = None,
    as_json: Records = False,
) -> None:
    """Kernels of a PyTorch trace, measured beside predicted; record it with ProfilerActivity.CUDA and record_shapes=True."""
    from analysis.errors import InputError
    from analysis.hardware import devices
    from analysis.kernels import profiler_trace
    from analysis.tables import check_output, write_csv

    check_plot(plot, trace, out)
    if out is not None:
        check_output(out, trace)
    read, own = profiler_trace.read(trace), ""
    gpu = devices.load(device).name if device else profiler_trace.device_of(read, trace)
    with contextlib.suppress(InputError):  # a trace may name no GPU
        own = profiler_trace.device_of(read, trace)
    label = gpu if own in ("", gpu) else f"{own} (predicted for {gpu})"
    table = profiler_trace.kernels(read, gpu, trace)
    if out is not None:
        write_csv(table, out)
    found = devices.load(gpu)
    peaks = {name: rate.value for name, rate in found.peak.items()}
    save_plot(plot, lambda plots: plots.roofline(table, peaks, found.memory_bandwidth_bytes_per_s, gpu))
    typer.echo(table.to_json(orient="records") if as_json else profiler_trace.summary(table, label))
