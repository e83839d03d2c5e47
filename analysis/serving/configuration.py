"""What does a simulation's YAML say?

    requests:
      count: 200
      seed: 0
      arrivals: {kind: poisson, rate_per_s: 2.0}
      prompt: {kind: uniform, low: 122, high: 487}
      output: {kind: fixed, low: 16}
    scheduler: sarathi
    limits: {chunk: 256}
    steps: {kind: linear, fixed_s: 0.009, prompt_token_s: 4.0e-5, decode_request_s: 1.0e-4}
    replicas: 4
    routing: least_work
    slo: {ttft_s: 0.2, tpot_s: 0.03}

With `disaggregation: {prefill_replicas: 1, latency_s: 0.001, token_s: 1.0e-6}` those replicas compute prompts and `replicas` others decode.
Requests may instead be `{trace: requests.csv}` or `{vidur: {count: 200, rate_per_s: 2.0, seed: 42}}`; steps
`{kind: recorded, path: ...}`, `{kind: fitted, path: ...}`, `{kind: profile, paths: [...]}` or
`{kind: roofline, model: llama-2-7b, device: A100-SXM4-80GB}`, a lower bound from the data sheet. Its weights (`bytes_per_value`, by
default as wide as `dtype`) and KV cache (`kv_bytes_per_value`, 2: engines keep 16 bits beside FP8 weights unless told otherwise) must
fit: `limits.kv_blocks` is then what `memory_utilization` (0.9) of the devices leaves beside the weights, unless fewer are asked for.
Paths are relative to the YAML's folder.
At most 10,000,000 requests, 10,000 replicas and 1,000,000,000 tokens of a request or a cache.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import AfterValidator, Field, model_validator

from analysis.configs import Count, Rate, Seconds, Strict, configuration, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.serving.disaggregation import Transfer, simulate_disaggregated
from analysis.serving.engine import ROUTINGS
from analysis.serving.limits import Limits, blocks_for
from analysis.serving.metrics import goodput, summary, use
from analysis.serving.requests import Requests, read_requests
from analysis.serving.schedulers.names import Scheduler, kind_of
from analysis.serving.simulate import Result, simulate
from analysis.serving.step_time.linear import read_fit
from analysis.serving.step_time.roofline import Roofline, kv_blocks, roofline
from analysis.serving.steps import StepTime, linear, read_recorded
from analysis.serving.traffic import Arrivals, Lengths, generate, vidur_requests
from analysis.workloads import models

# What a file may ask for: beyond it lies no deployment, and the answer would not come.
MOST_REQUESTS = 10_000_000
VIDUR_BLOCKS = 7648  # of its run of Llama-2-7B on an A100
MOST_REPLICAS = 10_000
WEIGHT_BYTES = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5}
"""Of a weight as wide as the arithmetic; else 2."""

Requested = Annotated[int, Field(ge=0, le=MOST_REQUESTS)]
Replicas = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]


def known_routing(name: str) -> str:
    """A name that `engine.ROUTINGS` has."""
    if name not in ROUTINGS:
        raise ValueError(f"expected one of {', '.join(ROUTINGS)}")
    return name


@configuration
class StatedLimits(Limits):
    """`Limits` as a file states them: without `kv_blocks` these follow from the device."""

    kv_blocks: Count | None = None  # type: ignore[assignment]


class VidurConfig(Strict):
    """`traffic.vidur_requests`."""

    count: Requested
    rate_per_s: Rate
    seed: int = 42
    low: Count = 128
    high: Count = 512
    prefill_to_decode: Rate = 20.0


class RequestsConfig(Strict):
    """One of: drawn from distributions, a trace, or VIDUR's own."""

    count: Requested | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    arrivals: Arrivals = Arrivals()
    prompt: Lengths = Lengths()
    output: Lengths = Lengths()
    trace: str | None = None
    vidur: VidurConfig | None = None

    @model_validator(mode="after")
    def one_source(self) -> RequestsConfig:
        """Exactly one source of requests."""
        if sum(source is not None for source in (self.count, self.trace, self.vidur)) != 1:
            raise ValueError("expected one of count, trace, vidur")
        return self

    def draw(self, folder: Path) -> Requests:
        """The requests.

        Args:
            folder: where a trace's path begins.
        """
        if self.trace is not None:
            return read_requests(folder / self.trace)
        if self.vidur is not None:
            return vidur_requests(**self.vidur.model_dump())
        return generate(self.arrivals, self.prompt, self.output, self.count or 0, self.seed)


class LinearSteps(Strict):
    """`steps.linear`."""

    kind: Literal["linear"]
    fixed_s: Seconds
    prompt_token_s: Seconds
    decode_request_s: Seconds
    kv_token_s: Seconds = 0.0
    pair_s: Seconds = 0.0

    def make(self, folder: Path) -> StepTime:
        """The step time."""
        return linear(**self.model_dump(exclude={"kind"}))


class FileSteps(Strict):
    """Recorded step times, or a linear fit to them."""

    kind: Literal["recorded", "fitted"]
    path: str

    def make(self, folder: Path) -> StepTime:
        """The step time."""
        return read_recorded(folder / self.path) if self.kind == "recorded" else read_fit(folder / self.path)


class ProfileSteps(Strict):
    """`step_profile.read_profile`."""

    kind: Literal["profile"]
    paths: Annotated[tuple[str, ...], Field(min_length=1)]

    def make(self, folder: Path) -> StepTime:
        """The step time."""
        from analysis.serving.step_time.profile import read_profile

        return read_profile([folder / path for path in self.paths])


class RooflineSteps(Strict):
    """`step_roofline.Roofline`, model and device by name."""

    kind: Literal["roofline"]
    model: str
    device: str
    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    dtype: str = "fp16"
    bytes_per_value: Rate | None = None
    kv_bytes_per_value: Rate = 2.0
    compute_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    memory_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    link_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    fixed_s: Seconds = 0.0
    link_latency_s: Seconds = 0.0
    memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9

    def setting(self) -> Roofline:
        """Model, device and shares."""
        given = self.model_dump(exclude={"kind", "model", "device", "memory_utilization", "bytes_per_value"})
        weight = self.bytes_per_value or WEIGHT_BYTES.get(self.dtype, 2.0)
        return Roofline(models.alike(models.load(self.model), "the roofline"), devices.load(self.device), bytes_per_value=weight, **given)

    def make(self, folder: Path) -> StepTime:
        """The step time."""
        return roofline(self.setting())


class DisaggregationConfig(Strict):
    """`disaggregation.Transfer`, and how many replicas prefill."""

    prefill_replicas: Replicas
    latency_s: Seconds = 0.0
    token_s: Seconds = 0.0


class SloConfig(Strict):
    """Bounds that a request must meet to count as good."""

    ttft_s: Seconds | None = None
    tpot_s: Seconds | None = None
    e2e_s: Seconds | None = None


class SimulationConfig(Strict):
    """A whole simulation."""

    requests: RequestsConfig
    scheduler: Scheduler
    limits: StatedLimits = StatedLimits()
    steps: Annotated[LinearSteps | FileSteps | ProfileSteps | RooflineSteps, Field(discriminator="kind")]
    replicas: Replicas = 1
    routing: Annotated[str, AfterValidator(known_routing)] = "round_robin"
    seed: Annotated[int, Field(ge=0)] = 0
    slo: SloConfig = SloConfig()
    disaggregation: DisaggregationConfig | None = None


@dataclasses.dataclass(frozen=True)
class Setup:
    """What an answer names: model, device (resolved), plan, precisions, scheduler, kind of step time, limits of a replica, assumptions."""

    model: str
    device: str
    precision: str
    kv_precision: str
    plan: str
    scheduler: str
    step_time: str
    limits: Limits
    assumed: tuple[str, ...]

    @property
    def kv_cache_tokens(self) -> int:
        """Tokens that the KV cache of a replica holds (count)."""
        return self.limits.kv_blocks * self.limits.block_size

    def at_once(self, requests: Requests) -> int:
        """Requests as long as the longest that a replica holds at once: by its KV cache, at most `max_batch` (count)."""
        if not len(requests):
            return self.limits.max_batch
        longest = int((requests.prefill_tokens + requests.decode_tokens).max())
        held = self.limits.max_request_tokens if kind_of(self.scheduler).reserves else longest
        return min(self.limits.max_batch, self.limits.kv_blocks // blocks_for(held, self.limits.block_size))

    @property
    def title(self) -> str:
        """In one line, for pictures and the head of an answer."""
        served = f"{self.model} on {self.device}, {self.plan}, {self.precision}, {self.kv_precision} KV cache" if self.model else self.plan
        return f"{served}; {self.scheduler}, step times: {self.step_time}"

    def lines(self, requests: Requests) -> list[str]:
        """The head of a printed answer."""
        held = f"KV cache {self.kv_cache_tokens:,} tokens a replica: at most {self.at_once(requests)} of the longest requests at once"
        return [self.title, held, *(f"assumed: {text}" for text in self.assumed)]

    def record(self, requests: Requests) -> dict[str, Any]:
        """The same by name, for JSON."""
        named = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in ("limits", "assumed")}
        return {**named, "kv_cache_tokens": self.kv_cache_tokens, "requests_at_once": self.at_once(requests), "assumed": list(self.assumed)}


def answer(result: Result, setup: Setup) -> dict[str, Any]:
    """A run's answer by name, for JSON: mean latencies in ms (None where there is none), what was served, assumptions, status.

    A bound or a given step time has no interval: its ends are None.
    """
    times = summary(result)
    found: dict[str, Any] = {"requests": len(result.requests)}
    for name in ("ttft", "tpot", "e2e"):
        mean = times[f"{name}_s_mean"]
        found[f"{name}_ms"] = None if math.isnan(mean) else 1e3 * mean
        if name != "e2e":
            found |= {f"{name}_lower_ms": None, f"{name}_upper_ms": None}
    return {**found, "output_tokens_per_s": use(result).output_tokens_per_s, **setup.record(result.requests), "status": ""}


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A simulation read from a file."""

    config: SimulationConfig
    path: Path

    @cached_property
    def steps(self) -> StepTime:
        """The step time."""
        return self.config.steps.make(self.path.parent)

    def limits(self) -> Limits:
        """Limits of a replica; without `kv_blocks`, as many as the device has room for, or VIDUR's 7648 where no device is named.

        Raises:
            InputError: the weights do not fit, or more blocks are asked for than fit beside them.
        """
        config = self.config
        asked = dataclasses.asdict(config.limits)
        if isinstance(config.steps, RooflineSteps):
            setting, share = config.steps.setting(), config.steps.memory_utilization
            most = kv_blocks(setting, config.limits.block_size, share)
            asked["kv_blocks"] = asked["kv_blocks"] or most
            if asked["kv_blocks"] > most:
                message = (
                    f"expected at most {most}: so many blocks of {config.limits.block_size} tokens fit beside the weights of "
                    f"{setting.model.name} in {share:.0%} of {setting.tensor_parallel} x {setting.device.name}"
                )
                raise InputError(message, path=self.path, key="limits.kv_blocks")
        return Limits(**{**asked, "kv_blocks": asked["kv_blocks"] or VIDUR_BLOCKS})

    def setup(self) -> Setup:
        """What is served on what, what a replica holds, and what was not given."""
        config, steps = self.config, self.config.steps
        named = {"model": "", "device": "", "precision": "", "kv_precision": ""}
        assumed = []
        if isinstance(steps, RooflineSteps):
            setting = steps.setting()
            named = {
                "model": setting.model.name,
                "device": setting.device.name,
                "precision": f"{setting.dtype}, {8 * setting.bytes_per_value:g}-bit weights",
                "kv_precision": f"{8 * setting.kv_bytes_per_value:g}-bit",
            }
            shares = {steps.compute_share, steps.memory_share, steps.link_share if steps.tensor_parallel > 1 else steps.memory_share}
            reached = "peaks in full" if shares == {1.0} else f"{min(shares):.0%} to {max(shares):.0%} of the peaks"
            assumed.append(f"step times: roofline of the data sheet ({reached}), a bound below what servers take, not a prediction")
            if steps.kv_bytes_per_value == RooflineSteps.model_fields["kv_bytes_per_value"].default:
                assumed.append("KV cache in 16 bits, as engines keep it unless told otherwise")
        else:
            assumed.append(f"step times: {steps.kind}, as given; no device is checked")
            if config.limits.kv_blocks is None:
                assumed.append(f"KV cache of {VIDUR_BLOCKS} blocks, VIDUR's for Llama-2-7B on an A100")
        parallel = steps.tensor_parallel if isinstance(steps, RooflineSteps) else 1
        plan = f"{config.replicas} x tensor parallel {parallel}" if config.replicas > 1 else f"tensor parallel {parallel}"
        limits = self.limits()
        return Setup(**named, plan=plan, scheduler=config.scheduler, step_time=steps.kind, limits=limits, assumed=tuple(assumed))

    def run(self, requests: Requests | None = None, record_batches: bool = True) -> Result:
        """Run it.

        Args:
            requests: in place of the configuration's own.
            record_batches: keep every batch.
        """
        config, folder = self.config, self.path.parent
        try:
            requests, steps = config.requests.draw(folder) if requests is None else requests, self.steps
            limits = self.limits()
            routing, seed = config.routing, config.seed
            if config.disaggregation is None:
                return simulate(requests, config.scheduler, steps, limits, config.replicas, routing, seed, record_batches)
            return simulate_disaggregated(
                requests,
                config.scheduler,
                steps,
                limits,
                prefill_replicas=config.disaggregation.prefill_replicas,
                decode_replicas=config.replicas,
                transfer=Transfer(config.disaggregation.latency_s, config.disaggregation.token_s),
                routing=routing,
                seed=seed,
                record_batches=record_batches,
            )
        except InputError as error:
            if error.path is not None:
                raise
            raise InputError(error.message, path=self.path, key=error.key) from None

    def slo(self) -> dict[str, float]:
        """The bounds given."""
        return {name: bound for name, bound in self.config.slo.model_dump().items() if bound is not None}


def summary_table(result: Result, slo: Mapping[str, float]) -> pd.DataFrame:
    """Latencies, use and, if there are bounds, goodput of a run: columns name, value, unit.

    Args:
        slo: bound in seconds by latency; may be empty.
    """
    rows = [(name, value, "s") for name, value in summary(result).items()]
    units = {"output_tokens_per_s": "1/s"}
    rows += [(name, float(value), units.get(name, "1")) for name, value in dataclasses.asdict(use(result)).items()]
    if slo:
        share, per_second = goodput(result, slo)
        rows += [("good_share", share, "1"), ("goodput", per_second, "1/s")]
    rows.append(("makespan_s", result.makespan_s, "s"))
    return pd.DataFrame(rows, columns=["name", "value", "unit"])


def read_configuration(path: str | Path) -> Configuration:
    """Read a simulation's YAML."""
    return Configuration(read_yaml(path, SimulationConfig), Path(path))
