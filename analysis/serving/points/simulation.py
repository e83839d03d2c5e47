"""What does a simulation's YAML say?

    requests:
      count: 200
      seed: 0
      arrivals: {kind: poisson, rate_per_s: 2.0}
      prompt: {kind: uniform, low: 122, high: 487}
      output: {kind: fixed, low: 16}
    scheduler: vllm_v1
    steps: {model: llama-3.1-8b, device: h100}
    replicas: 4
    routing: least_work
    slo: {ttft_s: 0.2, tpot_s: 0.03}

`steps` are calibrated where no kind is named: `model`, `device`, `gpus` (1; tensor parallel), `engine` (vllm), `precision`, `kv_precision`,
`expert_parallel`, `memory_utilization`, `max_batched_tokens`, `engine_version`, `lora_adapters`, `lora_rank`, as of `predict one`, whose
kernels, constants, KV cache and intervals these are. By name there are
`{kind: roofline, model: llama-2-7b, device: A100-SXM4-80GB}` (or `step_time: roofline`), a lower bound from the data sheet, whose weights
(`bytes_per_value`, by default as wide as `dtype`) and KV cache (`kv_bytes_per_value`, 2: engines keep 16 bits beside FP8 weights unless
told otherwise) must fit `memory_utilization` (0.9) of the devices;
`{kind: linear, fixed_s: ..., prompt_token_s: ..., decode_request_s: ...}`,
`{kind: recorded, path: ...}`, `{kind: fitted, path: ...}` and `{kind: profile, paths: [...]}`. `limits` that are not given are the engine's
(calibrated), what the device has room for (calibrated, roofline), else VIDUR's.

Requests may instead be `{trace: requests.csv}` (ours, VIDUR's, Azure's, BurstGPT's, ServeGen's or Mooncake's, whose block hashes
`limits: {prefix_caching: true}` shares; `arrivals` where it has no times), ShareGPT's conversations with `tokens_per_word: 1.3`
(`turns: 8` of each at most, `think_s: 20` between them; a CSV has `session_id` and `think_s`: turns wait for the answers before them), or
`{closed_loop: {clients: 16, input_tokens: 1024, output_tokens: 1024}}`: a burst of all clients, then each answer releases the next request.
With `disaggregation: {prefill_replicas: 1, latency_s: 0.001, token_s: 1.0e-6}` those replicas compute prompts and `replicas` others decode.
Paths are relative to the YAML's folder. At most 10,000,000 requests, 10,000 replicas and 1,000,000,000 tokens of a request or a cache.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AliasChoices, Field, model_validator

from analysis.configs import MOST_COUNT, Asked, Count, Rate, Seconds, Strict, configuration, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.serving import coupled
from analysis.serving.answer import Ends, Setup, summary_table
from analysis.serving.capacity import at_rate
from analysis.serving.disaggregation import Transfer, simulate_disaggregated
from analysis.serving.engine import ROUTINGS
from analysis.serving.limits import Limits
from analysis.serving.points import waterfall
from analysis.serving.points.calibrated import Served, served
from analysis.serving.points.cases import MOST_CLIENTS, SHORTEST
from analysis.serving.points.closed_loop import drawn
from analysis.serving.requests import Requests, make_requests, read_requests
from analysis.serving.schedulers.names import Scheduler, one_of
from analysis.serving.simulate import Result, simulate
from analysis.serving.step_time.linear import read_fit
from analysis.serving.step_time.roofline import Roofline, kv_blocks, roofline
from analysis.serving.steps import StepTime, linear, read_recorded
from analysis.serving.traffic import Arrivals, Lengths, draw_arrivals, generate
from analysis.site import Site, read_site
from analysis.workloads import models

# What a file may ask for: beyond it lies no deployment, and the answer would not come.
MOST_REQUESTS = 10_000_000
REQUESTS_A_CLIENT = 10
MOST_REPLICAS = 10_000
WEIGHT_BYTES = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5}
"""Of a weight as wide as the arithmetic; else 2."""

Requested = Annotated[int, Field(ge=0, le=MOST_REQUESTS)]
Replicas = Annotated[int, Field(ge=1, le=MOST_REPLICAS)]


@configuration
class StatedLimits(Limits):
    """`Limits` as a file states them: those that it does not follow from the engine and the device, or are `Limits`' own."""

    kv_blocks: Count | None = None  # type: ignore[assignment]
    max_batch: Count | None = None  # type: ignore[assignment]
    max_batch_tokens: Count | None = None  # type: ignore[assignment]
    max_request_tokens: Count | None = None  # type: ignore[assignment]


class ClosedLoop(Strict):
    """A burst of all clients, then each answer releases the next request; lengths from 0.8 of those given, as `predict one` draws them."""

    clients: Annotated[int, Field(ge=1, le=MOST_CLIENTS)]
    input_tokens: Count
    output_tokens: Annotated[int, Field(ge=2, le=MOST_COUNT)]


class RequestsConfig(Strict):
    """One of: drawn from distributions, a trace, or those of clients in a closed loop."""

    count: Requested | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    arrivals: Arrivals = Arrivals()
    prompt: Lengths = Lengths()
    output: Lengths = Lengths()
    trace: str | None = None
    tokens_per_word: Annotated[float, Field(ge=0, le=100)] = 0.0
    turns: Annotated[int, Field(ge=1, le=MOST_COUNT)] = 1
    think_s: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    closed_loop: ClosedLoop | None = None

    @model_validator(mode="after")
    def one_source(self) -> RequestsConfig:
        """Exactly one source of requests."""
        given = [name for name in ("count", "trace", "closed_loop") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("expected one of count, trace, closed_loop")
        if self.count == 0:
            raise ValueError("count is 0: expected at least one request")
        reads = {"count": ("arrivals", "prompt", "output"), "trace": ("arrivals", "tokens_per_word", "turns", "think_s")}
        read_by_some = ("arrivals", "prompt", "output", "tokens_per_word", "turns", "think_s")
        if stray := [name for name in read_by_some if name in self.model_fields_set and name not in reads.get(given[0], ())]:
            raise ValueError(f"requests of {given[0]} do not read {', '.join(stray)}")
        return self

    def draw(self, folder: Path) -> Requests:
        """The requests."""
        if self.trace is not None:
            stream = np.random.default_rng([self.seed, 0])
            arrive = lambda count: draw_arrivals(self.arrivals, count, stream)  # noqa: E731
            found = read_requests(folder / self.trace, arrive, self.tokens_per_word, self.turns, self.think_s)
            if self.think_s and not len(found.session):
                raise InputError("is the time between the turns of a session, and the trace has none", key="requests.think_s")
            return found
        if self.closed_loop is not None:
            loop = self.closed_loop
            count = max(16, REQUESTS_A_CLIENT * loop.clients)
            lengths = drawn(count, loop.input_tokens, loop.output_tokens, SHORTEST)
            return make_requests(np.zeros(count), *lengths)
        return generate(self.arrivals, self.prompt, self.output, self.count or 0, self.seed)


class CalibratedSteps(Asked):
    """`calibrated.served`: model and device as `predict one` knows them."""

    kind: Literal["calibrated"] = "calibrated"
    model: str
    device: str
    gpus: Annotated[int, Field(ge=1, le=MOST_COUNT, validation_alias=AliasChoices("gpus", "tensor_parallel"))] = 1
    engine: str = "vllm"
    precision: str = ""
    kv_precision: str = ""
    expert_parallel: Annotated[int, Field(ge=1, le=MOST_COUNT)] = 1
    memory_utilization: Annotated[float, Field(ge=0, le=1)] = 0.0
    max_batched_tokens: Annotated[int, Field(ge=0, le=MOST_COUNT)] = 0
    engine_version: str = ""
    lora_adapters: Annotated[int, Field(ge=0, le=MOST_COUNT)] = 0
    lora_rank: Annotated[int, Field(ge=0, le=MOST_COUNT)] = 0


class LinearSteps(Strict):
    """`steps.linear`."""

    kind: Literal["linear"]
    fixed_s: Seconds
    prompt_token_s: Seconds
    decode_request_s: Seconds
    kv_token_s: Seconds = 0.0
    pair_s: Seconds = 0.0


class FileSteps(Strict):
    """Recorded step times, or a linear fit to them."""

    kind: Literal["recorded", "fitted"]
    path: str


class ProfileSteps(Strict):
    """`step_profile.read_profile`."""

    kind: Literal["profile"]
    paths: Annotated[tuple[str, ...], Field(min_length=1)]


class RooflineSteps(Asked):
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

    def words(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """What an answer names; what was not given, and that a roofline is a bound."""
        setting = self.setting()
        shares = [self.compute_share, self.memory_share, *([self.link_share] if self.tensor_parallel > 1 else [])]
        reached = "peaks in full" if set(shares) == {1.0} else f"{min(shares):.0%} to {max(shares):.0%} of the peaks"
        bound = f"step times: roofline of the data sheet ({reached}), a bound below what servers take, not a prediction"
        default = self.kv_bytes_per_value == RooflineSteps.model_fields["kv_bytes_per_value"].default
        return {
            "model": setting.model.name,
            "device": setting.device.name,
            "plan": f"tensor parallel {setting.tensor_parallel}",
            "precision": f"{8 * setting.bytes_per_value:g} bits ({setting.dtype} arithmetic)",
            "kv_precision": f"{8 * setting.kv_bytes_per_value:g} bits",
        }, (bound, *(["KV cache in 16 bits, as engines keep it unless told otherwise"] if default else []))


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


class SimulationConfig(Asked):
    """A whole simulation."""

    requests: RequestsConfig
    scheduler: Scheduler = coupled.SCHEDULER
    limits: StatedLimits = StatedLimits()
    steps: Annotated[CalibratedSteps | LinearSteps | FileSteps | ProfileSteps | RooflineSteps, Field(discriminator="kind")]
    replicas: Replicas = 1
    routing: Annotated[str, one_of(ROUTINGS)] = "round_robin"
    seed: Annotated[int, Field(ge=0)] = 0
    slo: SloConfig = SloConfig()
    disaggregation: DisaggregationConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _kind_of_steps(cls, raw: Any) -> Any:
        """Steps without a kind are calibrated; `step_time`, beside `steps` or in it, is another name of their kind."""
        if not isinstance(raw, dict) or not isinstance(raw.get("steps"), dict):
            return raw
        rest = {key: value for key, value in raw.items() if key != "step_time"}
        steps = {key: value for key, value in raw["steps"].items() if key != "step_time"}
        named = raw["steps"].get("step_time", raw.get("step_time", "calibrated"))
        return {**rest, "steps": {"kind": named, **steps}}


@dataclasses.dataclass(frozen=True)
class Configuration:
    """A simulation read from a file, at a site if one is given."""

    config: SimulationConfig
    path: Path
    site: Site | None = None

    @cached_property
    def requests(self) -> Requests:
        """The requests."""
        return self.config.requests.draw(self.path.parent)

    @cached_property
    def served(self) -> Served | None:
        """The model as `predict one` knows it, where steps are calibrated."""
        steps = self.config.steps
        if not isinstance(steps, CalibratedSteps):
            return None
        if len(self.requests):
            models.check_length(steps.model, int((self.requests.prefill_tokens + self.requests.decode_tokens).max()), "requests")
        return served(self.requests, site=self.site, **steps.model_dump(exclude={"kind"}))

    @cached_property
    def steps(self) -> StepTime:
        """The step time."""
        steps, folder = self.config.steps, self.path.parent
        if self.served is not None:
            return self.served.steps
        if isinstance(steps, RooflineSteps):
            return roofline(steps.setting())
        if isinstance(steps, ProfileSteps):
            from analysis.serving.step_time.profile import read_profile

            return read_profile([folder / path for path in steps.paths])
        if isinstance(steps, FileSteps):
            return read_recorded(folder / steps.path) if steps.kind == "recorded" else read_fit(folder / steps.path)
        return linear(**steps.model_dump(exclude={"kind"}))

    def limits(self) -> Limits:
        """Limits of a replica: those given, else the engine's, what the device has room for, or VIDUR's."""
        asked = {name: value for name, value in dataclasses.asdict(self.config.limits).items() if value is not None}
        steps, size, own, what = self.config.steps, self.config.limits.block_size, dict[str, Any](), ""
        if self.served is not None:
            engine, named = self.served.engine, self.served.named
            longest = int((self.requests.prefill_tokens + self.requests.decode_tokens).max(initial=1))
            own = {"kv_blocks": int(engine["cache_tokens"] // size), "max_batch": int(engine["max_running"])}
            own |= {"max_batch_tokens": int(engine["budget"]), "max_request_tokens": longest}
            what = f"{named['model']} on {named['device']}, {named['plan']}"
        elif isinstance(steps, RooflineSteps):
            setting, share = steps.setting(), steps.memory_utilization
            own = {"kv_blocks": kv_blocks(setting, size, share)}
            what = f"{setting.model.name} in {share:.0%} of {setting.tensor_parallel} x {setting.device.name}"
        most = own.get("kv_blocks", MOST_COUNT)
        if asked.get("kv_blocks", 0) > most:
            message = f"expected at most {most}: so many blocks of {size} tokens fit beside the weights of {what}"
            raise InputError(message, path=self.path, key="limits.kv_blocks")
        return Limits(**{**own, **asked})

    def setup(self) -> Setup:
        """What is served on what, what a replica holds, and what was not given."""
        config, steps = self.config, self.config.steps
        named = {"model": "", "device": "", "plan": "", "precision": "", "kv_precision": ""}
        assumed: tuple[str, ...] = ()
        if self.served is not None:
            named, assumed = self.served.named, self.served.assumed(config.disaggregation is None)
            if (self.served.case.engine, config.scheduler) != ("vllm", coupled.SCHEDULER):
                assumed += (f"batches are made by {config.scheduler}, not by {self.served.case.engine}'s own scheduler",)
        elif isinstance(steps, RooflineSteps):
            named, assumed = steps.words()
        else:
            assumed = (f"step times: {steps.kind}, as given; no device is checked",)
            if config.limits.kv_blocks is None:
                assumed += (f"KV cache of {Limits().kv_blocks} blocks, VIDUR's for Llama-2-7B on an A100",)
        if config.requests.tokens_per_word:
            rule = (
                f"{config.requests.tokens_per_word:g} a word of the {'turns' if config.requests.turns > 1 else 'first question and answer'}"
            )
            assumed += (f"tokens: {rule}; code and other languages have up to twice as many, and no interval says so",)
        if len(self.requests.session):
            assumed += ("a turn is sent when the answer before it is complete; a replica takes it where fewest wait",)
        if (len(self.requests.session) or (self.requests.prefix >= 0).any()) and not self.limits().prefix_caching:
            assumed += ("prefixes that the requests share are computed again: limits.prefix_caching is off",)
        plan = ", ".join(filter(None, [f"{config.replicas} replicas" if config.replicas > 1 else "", named.pop("plan")])) or "1 replica"
        return Setup(**named, plan=plan, scheduler=config.scheduler, step_time=steps.kind, limits=self.limits(), assumed=assumed)

    def run(self, requests: Requests | None = None, record_batches: bool = True) -> Result:
        """Run it."""
        try:
            requests = self.requests if requests is None else requests
            if self.served is None:
                return self._simulated(requests, record_batches)
            return self.served.run(requests, lambda sent: self._simulated(sent, record_batches), self.config.replicas)
        except InputError as error:
            raise error.of(self.path) from None

    def _simulated(self, requests: Requests, record_batches: bool) -> Result:
        config, steps, limits = self.config, self.steps, self.limits()
        loop, turns = config.requests.closed_loop, len(requests.session)
        if loop is not None and config.scheduler != coupled.SCHEDULER:
            raise InputError(f"a closed loop runs under {coupled.SCHEDULER}, not {config.scheduler}", key="scheduler")
        if turns and (config.scheduler != coupled.SCHEDULER or config.disaggregation is not None):
            raise InputError(f"turns of sessions run under {coupled.SCHEDULER}, prompts and answers together", key="requests.trace")
        if loop is not None or turns:
            coupling = self._turns() if loop is None else coupled.Coupling(ahead=0, clients=loop.clients)
            return coupled.simulate(requests, steps, limits, coupling, config.replicas)
        routing, seed = config.routing, config.seed
        if config.disaggregation is None:
            return simulate(requests, config.scheduler, steps, limits, config.replicas, routing, seed, record_batches)
        apart = config.disaggregation
        pools, transfer = (apart.prefill_replicas, config.replicas), Transfer(apart.latency_s, apart.token_s)
        return simulate_disaggregated(requests, config.scheduler, steps, limits, *pools, transfer, routing, seed, record_batches)

    def _turns(self) -> coupled.Coupling:
        """Turns that wait for each other, and what a calibrated front end takes of each request and of each token of its prompt."""
        if self.served is None:
            return coupled.Coupling(ahead=0)
        send_s, token_s = (float(self.served.engine[name]) / self.config.replicas for name in ("send_s", "send_token_s"))
        return coupled.Coupling(ahead=0, send_s=send_s, send_token_s=token_s)

    def one(self) -> waterfall.One | None:
        """The answer of `predict one`, which a closed loop with calibrated steps asks for; None where that is not the question."""
        steps, loop = self.config.steps, self.config.requests.closed_loop
        if loop is None or not isinstance(steps, CalibratedSteps):
            return None
        plain = self.config.model_copy(update={"requests": None, "steps": None, "slo": None, "seed": 0})
        if plain != SimulationConfig.model_construct(requests=None, steps=None, slo=None):
            message = "is answered as `predict one` does: leave out scheduler, limits, replicas, routing and disaggregation"
            raise InputError(f"a closed loop with calibrated steps {message}", path=self.path, key="requests.closed_loop")
        return waterfall.one(**steps.model_dump(exclude={"kind"}), **loop.model_dump(), site=self.site)

    def ends(self, result: Result) -> Ends:
        """Ends of the intervals of a run's mean times, where steps are calibrated and prompts and answers share replicas."""
        return {} if self.served is None or self.config.disaggregation is not None else self.served.ends(result)

    def slo(self) -> dict[str, float]:
        """The bounds given."""
        return {name: bound for name, bound in self.config.slo.model_dump().items() if bound is not None}


def summary_at(rate_per_s: float, configuration: Configuration, requests: Requests) -> dict[str, float]:
    """A run's summary with the requests sped up or slowed down to a rate, by name, the rate first."""
    result = configuration.run(at_rate(requests, rate_per_s), record_batches=False)
    table = summary_table(result, configuration.slo(), configuration.ends(result))
    return {"rate_per_s": rate_per_s, **dict(zip(table["name"], table["value"].astype(float), strict=True))}


def read_configuration(path: str | Path, site: str | Path | None = None) -> Configuration:
    """Read a simulation's YAML, and the file of a site if one is named."""
    found = Configuration(read_yaml(path, SimulationConfig), Path(path), read_site(site))
    if site is not None and not isinstance(found.config.steps, CalibratedSteps):
        raise InputError(f"a site has constants of calibrated steps, not of {found.config.steps.kind} ones", path=path, key="steps.kind")
    return found
