"""One answer with an error bar: training steps, batches, serving points, collectives, requests; from workload, machine, software, plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from analysis.commands.common.answers import answer_cases, check_header
from analysis.commands.common.options import Out, Plot, Records, Scheduler, SiteFile, at_site, check_plot, save_plot

app = typer.Typer(help=__doc__, add_completion=False, no_args_is_help=True)

WEIGHTS = "bf16, fp8, nvfp4, mxfp4, int8 or int4; empty: the checkpoint's own type, mostly bf16"


@app.command()
def training(
    cases: Annotated[
        Path,
        typer.Argument(
            help="CSV, a training run a row: model or its sizes, device, gpus, batch, degrees of parallelism, zero (0 to 3), program"
        ),
    ],
    out: Out = None,
    scheduler: Scheduler = "",
    as_json: Records = False,
    site: SiteFile = None,
) -> None:
    """Time and memory of a training step, with a 90 % interval; a row that cannot be answered says why in `status`."""
    from analysis.training.answers import answers

    answer_cases("predict training", cases, out, at_site(answers, site), scheduler, as_json)


@app.command()
def batch(
    cases: Annotated[
        Path,
        typer.Argument(
            help="CSV, a batch a row: device, gpus, engine, model, input_tokens, output_tokens, batch_size; optional "
            "precision, engine_version"
        ),
    ],
    out: Out = None,
    scheduler: Scheduler = "",
    as_json: Records = False,
) -> None:
    """Latency of an offline batch, with a 90 % interval; of vLLM, SGLang and TensorRT-LLM as `predict serving`, arrival static; a row that
    cannot be answered says why in `status`."""
    from analysis.serving.batch import answers

    answer_cases("predict batch", cases, out, answers, scheduler, as_json)


@app.command()
def serving(
    cases: Annotated[
        Path,
        typer.Argument(
            help="CSV, a serving point a row: engine, model, device, mode (agg or disagg), input_tokens and output_tokens (labels), "
            "tensor_parallel, clients (of a rank); optional pipeline_parallel, attention_data_parallel, expert_tensor_parallel, "
            "expert_parallel, precision, kv_precision, engine_version, max_num_seqs, max_batched_tokens, memory_utilization, "
            "length_low (1 fixed, 0.8 drawn from there to the label), arrival (closed, poisson with request_rate, offline, static), "
            "requests, prefix (tokens that the cache holds), draft (mtp, eagle, eagle3 or a model), draft_tokens, acceptance (chance "
            "that one is right), lora_adapters, lora_rank; of disaggregated points prefill_ and decode_ columns"
        ),
    ],
    out: Out = None,
    scheduler: Scheduler = "",
    as_json: Records = False,
    site: SiteFile = None,
) -> None:
    """Times to first and per output token, rates of the run, KV cache of serving points, with 90 % intervals; `status` says why not."""
    from analysis.serving.points.answers import answers

    answer_cases("predict serving", cases, out, at_site(answers, site), scheduler, as_json)


@app.command()
def collective(
    cases: Annotated[
        Path,
        typer.Argument(help="CSV, a collective a row: device, gpus, nodes, network_gbit_per_s_per_gpu, collective, size_bytes"),
    ],
    out: Out = None,
    scheduler: Scheduler = "",
    as_json: Records = False,
    site: SiteFile = None,
) -> None:
    """Time of a collective as nccl-tests prints it, with a 90 % interval; a row that cannot be answered says why in `status`."""
    from analysis.networks.collective_cases import answers

    answer_cases("predict collective", cases, out, at_site(answers, site), scheduler, as_json)


@app.command()
def requests(
    requests: Annotated[Path, typer.Argument(help="CSV: input_tokens, output_tokens, arrived_s")],
    meta: Annotated[Path, typer.Option(help="JSON: model and engine settings")],
    profile: Annotated[Path, typer.Option(help="prefix of the kernel profiles: PREFIX_attention.csv.gz and so on")],
    out: Annotated[Path, typer.Option(help="CSV to write: request_id, first_token_s, last_token_s")],
    gpu: Annotated[str, typer.Option(help="device of data/hardware, where the profile's name does not say it")] = "",
    link_gb_per_s: Annotated[float, typer.Option(help="bandwidth of the link between GPUs, GB/s")] = 15.92,
    link_latency_us: Annotated[float, typer.Option(help="latency of one step over that link, microseconds")] = 6.6,
) -> None:
    """First and last token of each request as vLLM would serve them, from profiles of the GPU's kernels."""
    from analysis.serving.points.request_answers import answer
    from analysis.tables import check_output, write_csv

    check_output(out, requests, meta)
    check_header("predict requests", requests)
    if link_gb_per_s <= 0 or link_latency_us < 0:
        raise typer.BadParameter("the link needs a bandwidth above 0 and a latency of at least 0")
    write_csv(answer(requests, meta, profile, gpu, link_gb_per_s * 1e9, link_latency_us * 1e-6), out)
    typer.echo(f"requests in {out}")


@app.command()
def one(
    model: Annotated[str, typer.Option(help="name of a model (`models` lists them) or the path of its config.json")],
    device: Annotated[str, typer.Option(help="GPU, such as h100_sxm or any device of data/hardware")],
    gpus: Annotated[int, typer.Option(help="GPUs of the replica, tensor parallel")] = 1,
    clients: Annotated[int, typer.Option(help="requests in flight")] = 16,
    input_tokens: Annotated[int, typer.Option(help="prompt length")] = 1024,
    output_tokens: Annotated[int, typer.Option(help="answer length")] = 1024,
    engine: Annotated[str, typer.Option(help="vllm, sglang or trtllm")] = "vllm",
    precision: Annotated[str, typer.Option(help=WEIGHTS)] = "",
    expert_parallel: Annotated[int, typer.Option(help="GPUs over which whole experts are spread")] = 1,
    kv_precision: Annotated[str, typer.Option(help="type of the KV cache, bf16 or fp8; empty: the engine's own for the checkpoint")] = "",
    memory_utilization: Annotated[float, typer.Option(help="share of the memory that the engine may use; 0: its own, mostly 0.9")] = 0.0,
    max_batched_tokens: Annotated[int, typer.Option(help="most tokens of a step; 0: the engine's own")] = 0,
    engine_version: Annotated[str, typer.Option(help="release of the engine, such as 0.19.0; empty: today's")] = "",
    lora_adapters: Annotated[int, typer.Option(help="LoRA adapters in memory, as --max-loras; 0: none")] = 0,
    lora_rank: Annotated[int, typer.Option(help="their rank; 0: 16")] = 0,
    draft: Annotated[str, typer.Option(help="speculative decoding: mtp, eagle, eagle3 or a model; empty: mtp")] = "",
    draft_tokens: Annotated[int, typer.Option(help="tokens drafted in a step; 0: none")] = 0,
    acceptance: Annotated[float | None, typer.Option(help="chance that a drafted token is right", show_default="0.5 to 0.9")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="the answer as JSON")] = False,
    trace: Annotated[Path | None, typer.Option(help="folder: Chakra traces of a decode step and of a prompt's, for every rank")] = None,
    plot: Plot = None,
    site: SiteFile = None,
) -> None:
    """One question: answer, 90 % interval, what it is made of, what was assumed."""
    from analysis.serving.points import traces, waterfall
    from analysis.site import read_site
    from analysis.workloads.chakra.traces import write_trace

    check_plot(plot)
    found = waterfall.one(
        model, device, gpus, clients, input_tokens, output_tokens, engine, precision, expert_parallel, kv_precision, memory_utilization,
        max_batched_tokens, engine_version, lora_adapters, lora_rank, draft, draft_tokens, acceptance, site=read_site(site),
    )  # fmt: skip
    written = traces.steps(found.case, found.raw) if trace else {}
    typer.echo(json.dumps(waterfall.as_json(found), indent=1) if as_json else waterfall.report(found))
    for name, (nodes, groups) in written.items():
        write_trace(nodes, trace or "", name, groups)
    if trace:
        typer.echo(f"traces in {trace}: kernels and host, without the fitted terms of the engine", err=as_json)
    save_plot(plot, lambda plots: plots.one_answer(found.parts, found.answer))
    if plot is not None and not as_json:
        typer.echo(f"waterfall in {plot}")


@app.command()
def recommend(
    questions: Annotated[
        Path | None, typer.Argument(help="CSV, a question a row, in columns named as these options; without it, one question")
    ] = None,
    out: Out = None,
    scheduler: Scheduler = "",
    as_json: Records = False,
    model: Annotated[str, typer.Option(help="name of a model (`models` lists them) or the path of its config.json")] = "",
    devices: Annotated[str, typer.Option(help="GPUs to choose from, such as 'h100_sxm b200_sxm'")] = "",
    max_gpus: Annotated[int | None, typer.Option(help="most GPUs of a replica (8), or of the training run", show_default=False)] = None,
    engines: Annotated[str, typer.Option(help="serving frameworks to choose from; empty: vllm sglang trtllm")] = "",
    modes: Annotated[str, typer.Option(help="serving: 'agg disagg' compares with prompts on GPUs of their own; empty: agg")] = "",
    precision: Annotated[str, typer.Option(help=f"one or several of {WEIGHTS}")] = "",
    kv_precision: Annotated[str, typer.Option(help="serving: type of the KV cache, bf16 or fp8; empty: the engine's own")] = "",
    input_tokens: Annotated[int | None, typer.Option(help="serving: prompt length", show_default="1024")] = None,
    output_tokens: Annotated[int | None, typer.Option(help="serving: answer length", show_default="1024")] = None,
    requests_per_s: Annotated[
        float | None, typer.Option(help="load to carry, with as many replicas as that takes", show_default=False)
    ] = None,
    ttft_target_ms: Annotated[float | None, typer.Option(help="most milliseconds to the first token", show_default=False)] = None,
    tpot_target_ms: Annotated[float | None, typer.Option(help="most milliseconds per output token", show_default=False)] = None,
    sequence_length: Annotated[int | None, typer.Option(help="training: tokens of a sequence", show_default=False)] = None,
    global_batch: Annotated[int | None, typer.Option(help="training: sequences of a step", show_default=False)] = None,
    step_target_s: Annotated[float | None, typer.Option(help="training: most seconds of a step", show_default=False)] = None,
    tokens: Annotated[float | None, typer.Option(help="training: tokens of the run", show_default=False)] = None,
    days_target: Annotated[float | None, typer.Option(help="training: most days of the run", show_default=False)] = None,
    prices: Annotated[str, typer.Option(help="price of a GPU hour, such as 'h100_sxm=2.5 b200_sxm=5'; empty: costs in GPU hours")] = "",
    grid_g_per_kwh: Annotated[
        float | None, typer.Option(help="serving: grams of carbon dioxide of a kWh of the grid", show_default=False)
    ] = None,
    sure: Annotated[bool, typer.Option("--sure", help="the upper end of the 90 % interval has to meet the target")] = False,
    emit: Annotated[str, typer.Option(help="vllm, sglang or trtllm: choose a plan of that engine, and print how it is started")] = "",
    plot: Plot = None,
) -> None:
    """The plan (GPU, count, framework, parallelism, clients) that meets a target at least cost; says whether its interval meets it too."""
    from analysis.errors import InputError
    from analysis.predict.recommend import choice, front
    from analysis.predict.recommend.emit import arguments

    check_plot(plot, questions, out)
    if engines and emit.lower() not in engines.lower():
        raise InputError(f"{engines!r} lacks {emit}, which --emit asks for", key="--engines")
    asked: dict[str, Any] = {
        "model": model, "devices": devices, "max_gpus": max_gpus, "engines": emit or engines, "modes": modes, "precision": precision,
        "kv_precision": kv_precision, "input_tokens": input_tokens, "output_tokens": output_tokens, "requests_per_s": requests_per_s,
        "ttft_target_ms": ttft_target_ms, "tpot_target_ms": tpot_target_ms, "sequence_length": sequence_length,
        "global_batch": global_batch, "step_target_s": step_target_s, "tokens": tokens, "days_target": days_target, "prices": prices,
        "grid_g_per_kwh": grid_g_per_kwh, "sure": sure,
    }  # fmt: skip
    if questions is not None:
        alone = next((name for name, value in {"emit": emit, "plot": plot, **asked}.items() if str(value) not in choice.SAY_NOTHING), "")
        if alone:
            raise InputError("is of one question alone: a table has it in a column", key=f"--{alone.replace('_', '-')}")
        answer_cases("predict recommend", questions, out, choice.answers, scheduler, as_json, rows_a_task=choice.ROWS_A_TASK)
        return
    answered = choice.recommended(**asked)
    started = arguments(answered.plan, model) if emit else ""
    if as_json:
        typer.echo(json.dumps(choice.as_json(answered) | ({"start": started} if emit else {}), indent=1, default=float))
    else:
        typer.echo("\n".join([choice.report(answered), *(["", started] if emit else [])]))
    if out is not None and str(out) != "-":
        from analysis.tables import write_csv

        write_csv(answered.tried.drop(columns=["excess", "sure"]), out)
        typer.echo(f"{len(answered.tried)} plans in {out}", err=as_json)
    if plot is not None and front.USER not in answered.tried:
        raise InputError("only plans of serving have a front to draw", key="--plot")
    save_plot(plot, lambda plots: plots.pareto(front.curves(front.pareto(answered.tried)), answered.plan))
