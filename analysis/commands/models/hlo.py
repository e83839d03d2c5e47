"""Programs (StableHLO, ONNX): what they cost, and how long they take on a device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)

Program = Annotated[Path, typer.Argument(help="StableHLO (MLIR text, bytecode or portable artifact) or .onnx, packed with gzip or not")]
Entry = Annotated[str, typer.Option(help="function to begin with; without it @main, or the only one that no other calls")]
Part = Annotated[int, typer.Option(help="which program of a file split by // ----- lines, counted from 1; 0: the file is one program")]
Dims = Annotated[
    list[str] | None, typer.Option("--dim", help="size that an ONNX file leaves open: NAME=SIZE or INPUT.AXIS=SIZE; may be given often")
]
Seconds = Annotated[int, typer.Option(help="processor time that reading may take (s)", min=1)]


@app.command()
def cost(file: Program, entry: Entry = "", part: Part = 0, dim: Dims = None, seconds: Seconds = 60) -> None:
    """Operations, bytes, collectives and what is not known, as JSON."""
    import json

    from analysis.workloads.hlo.reader import read
    from analysis.workloads.hlo.report import report

    typer.echo(json.dumps(report(read(file, entry=entry or None, part=part, seconds=seconds, sizes=_sizes(dim))), indent=1))


def _sizes(dims: list[str] | None) -> dict[str, int]:
    """Sizes by name, as `--dim NAME=SIZE` gives them."""
    from analysis.documents import whole_number
    from analysis.errors import InputError

    found: dict[str, int] = {}
    for each in dims or []:
        name, _, size = each.rpartition("=")
        number = whole_number(size, 9)
        if not name or number is None or number < 1 or name in found:
            raise InputError(f"expected NAME=SIZE, once for each name and at least 1, got {each!r}", key="--dim")
        found[name] = number
    return found


@app.command()
def predict(
    file: Program,
    device: Annotated[str, typer.Option(help="device of data/hardware/devices, such as h100; all: every one")],
    fidelity: Annotated[
        str,
        typer.Option(help="roofline, fused, efficiency, kernels (GPUs), systolic (TPUs), all; without it kernels on a GPU, else fused"),
    ] = "",
    system: Annotated[str, typer.Option(help="machine of data/hardware/systems.yaml whose links the collectives use")] = "",
    f32: Annotated[str, typer.Option(help="type that f32 products run in: fp32, tf32 or bf16")] = "fp32",
    launch_us: Annotated[
        float | None, typer.Option(min=0, max=1e6, help="time that each kernel takes to launch (us); without it launches are not timed")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="CSV to write: one row for each device, fidelity and class")] = None,
    trace: Annotated[Path | None, typer.Option(help="folder to write Chakra traces to, one a device of the program, for ASTRA-sim")] = None,
    entry: Entry = "",
    part: Part = 0,
    dim: Dims = None,
    seconds: Seconds = 60,
) -> None:
    """Time on a device, with what it is made of, as JSON."""
    import json

    from analysis.predict.program import predict_report, predict_trace
    from analysis.predict.program.predict import predictions
    from analysis.tables import write_csv
    from analysis.workloads.hlo.reader import read

    module = read(file, entry=entry or None, part=part, seconds=seconds, sizes=_sizes(dim))
    found = predictions(module, device, fidelity, system or None, f32, None if launch_us is None else launch_us * 1e-6)
    if out is not None:
        write_csv(predict_report.table(found), out)
    if trace is not None:
        predict_trace.write(module, found[0], trace, file.name.split(".")[0])
    answers = [predict_report.as_json(each) for each in found]
    typer.echo(json.dumps(answers[0] if len(answers) == 1 else answers, indent=1))
