"""VIDUR's own JSON configuration as a simulation of ours, and the replay of a recorded run with its step times.

Read as VIDUR 7d47513 writes it: requests, scheduler and limits, replicas and routing, time limit. Keys of VIDUR's that have no bearing on
these (`without_bearing`) are let through, any other is refused; step times are not in the file. The number of KV blocks, where the file
has none, follows VIDUR's memory plan:

    blocks = (longest request // block size) x floor((memory x (1 - margin) - weights) / KV of the longest request)
    weights = 2 bytes x layers x (q, k, v, o projections + MLP), KV of a token = 4 bytes x head size x KV heads x layers

each per device under tensor parallelism.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.serving.answer import Setup
from analysis.serving.limits import Limits
from analysis.serving.requests import Ints, Requests, make_requests, read_requests
from analysis.serving.schedulers.names import Scheduler, kind_of
from analysis.serving.simulate import Result, ended_by, simulate
from analysis.serving.steps import StepTime, read_recorded
from analysis.serving.traffic import VidurDraw, split_by_ratio, vidur_zipf
from analysis.tables import numeric, read_csv

GIB = 1024**3
MOST_REQUESTS = 10_000_000
MOST_TOKENS = 10_000_000
ROUTING = {"round_robin": "round_robin", "random": "random", "lor": "least_waiting"}


class _Keys(Strict):
    without_bearing: dict[str, tuple[str, ...]]


@cache
def without_bearing() -> dict[str, tuple[str, ...]]:
    """Keys of VIDUR's that have no bearing on the schedule, by the part that has them."""
    return read_yaml(DATA / "workloads" / "vidur_keys.yaml", _Keys).without_bearing


class Part(BaseModel):
    """A part of VIDUR's configuration: its keys, those `without_bearing`, and no others."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _known(cls, raw: Any) -> Any:
        if isinstance(raw, dict):
            known = {field.alias or name for name, field in cls.model_fields.items()} | set(without_bearing().get(cls.__name__, ()))
            for key in raw:
                if key not in known:
                    raise ValueError(f"{key} is not a key of VIDUR 7d47513 that is modelled here; known: {', '.join(sorted(known))}")
        return raw


class ModelConfig(Part):
    """Shape of the model."""

    num_layers: int
    num_q_heads: int
    num_kv_heads: int
    embedding_dim: int
    mlp_hidden_dim: int
    use_gated_mlp: bool
    no_tensor_parallel: Literal[False] = False


class DeviceConfig(Part):
    """Memory of the device."""

    total_memory_gb: float


class ReplicaConfig(Part):
    """One replica."""

    model_name: str = ""
    device: str = ""
    memory_margin_fraction: float
    num_pipeline_stages: Literal[1]
    tensor_parallel_size: Annotated[int, Field(ge=1)]
    model_cfg: Annotated[ModelConfig, Field(alias="model_config")]
    device_config: DeviceConfig


class SchedulerConfig(Part):
    """Scheduler of a replica."""

    name: Scheduler
    batch_size_cap: int
    block_size: int
    watermark_blocks_fraction: float = 0.01
    num_blocks: int | None = None
    max_tokens_in_batch: int = 4096
    chunk_size: int = 512
    max_waiting_iters: int = 10


class RoutingConfig(Part):
    """Routing to replicas."""

    name: Literal["round_robin", "random", "lor"]


class ClusterConfig(Part):
    """The replicas."""

    num_replicas: Annotated[int, Field(ge=1, le=10_000)]
    replica_config: ReplicaConfig
    global_scheduler_config: RoutingConfig
    replica_scheduler_config: SchedulerConfig


class UniformLengths(Part):
    """Total tokens uniform."""

    name: Literal["uniform"]
    min_tokens: int
    max_tokens: int
    prefill_to_decode_ratio: float


class FixedLengths(Part):
    """Every request the same."""

    name: Literal["fixed"]
    prefill_tokens: int
    decode_tokens: int


class ZipfLengths(Part):
    """Total tokens by Zipf's law; scrambled ones depend on a process's string hashes."""

    name: Literal["zipf"]
    seed: Annotated[int, Field(ge=0)]
    theta: Annotated[float, Field(gt=0, lt=1)]
    scramble: Literal[False] = False
    min_tokens: Annotated[int, Field(ge=1)]
    max_tokens: Annotated[int, Field(le=MOST_TOKENS)]
    prefill_to_decode_ratio: float


class TraceLengths(Part):
    """Lengths of a trace's requests, in shuffled order; no total above `max_tokens`."""

    name: Literal["trace"]
    seed: Annotated[int, Field(ge=0)]
    trace_file: str
    prefill_scale_factor: Annotated[float, Field(gt=0)] = 1
    decode_scale_factor: Annotated[float, Field(gt=0)] = 1
    max_tokens: Annotated[int, Field(ge=2)]


class Intervals(Part):
    """Gaps between arrivals; static: all arrive at once."""

    name: Literal["poisson", "gamma", "static"]
    qps: Annotated[float, Field(gt=0)] = 1.0
    cv: Annotated[float, Field(gt=0)] = 0.5


class RequestGeneratorConfig(Part):
    """What arrives."""

    name: Literal["synthetic"]
    seed: int
    length_generator_config: Annotated[
        UniformLengths | FixedLengths | ZipfLengths | TraceLengths,
        Field(discriminator="name"),
    ]
    interval_generator_config: Intervals
    num_requests: Annotated[int, Field(ge=0, le=10_000_000)]
    duration: Annotated[float, Field(gt=0, le=1e7)] | None = None
    max_tokens: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _ends(self) -> RequestGeneratorConfig:
        if self.duration is not None and self.interval_generator_config.name == "static":
            raise ValueError("a duration never passes where all requests arrive at once")
        return self


class VidurConfig(Part):
    """The whole file."""

    seed: int = 42
    time_limit: Annotated[float, Field(ge=0)] = 0
    cluster_config: ClusterConfig
    request_generator_config: RequestGeneratorConfig


def kv_blocks(replica: ReplicaConfig, block_size: int, longest_request: int) -> int:
    """KV blocks by VIDUR's memory plan; the module says the formula."""
    model, parallel = replica.model_cfg, replica.tensor_parallel_size
    head = model.embedding_dim // model.num_q_heads
    attention = model.embedding_dim * head * 2 * (model.num_q_heads + model.num_kv_heads)
    mlp = (3 if model.use_gated_mlp else 2) * model.embedding_dim * model.mlp_hidden_dim
    weights = 2 * model.num_layers * (attention + mlp) // parallel
    kv_of_request = 4 * head * -(-model.num_kv_heads // parallel) * model.num_layers * longest_request
    room = replica.device_config.total_memory_gb * GIB * (1 - replica.memory_margin_fraction) - weights
    return longest_request // block_size * int(room // kv_of_request)


def requests_of(config: VidurConfig, folder: Path = Path()) -> Requests:
    """The requests that VIDUR would draw: a gap, then lengths, for each."""
    source = config.request_generator_config
    lengths, gaps, draw = source.length_generator_config, source.interval_generator_config, VidurDraw(source.seed)
    trace = trace_lengths(lengths, folder) if isinstance(lengths, TraceLengths) else None
    most = source.num_requests if source.duration is None else MOST_REQUESTS
    times: list[float] = []
    totals: list[float] = []
    now = 0.0
    while len(times) < (most if trace is None else min(most, len(trace))) and (source.duration is None or now < source.duration):
        now += draw.gap_s(gaps.name, gaps.qps, gaps.cv)
        times.append(now)
        totals.append(draw.uniform(lengths.min_tokens, lengths.max_tokens) if isinstance(lengths, UniformLengths) else 0.0)
    kept = np.array(times) < (np.inf if source.duration is None else source.duration)
    if trace is not None:
        prompt, output = trace[: len(times)].T
    elif isinstance(lengths, FixedLengths):
        prompt, output = np.full(len(times), lengths.prefill_tokens), np.full(len(times), lengths.decode_tokens)
    else:
        assert isinstance(lengths, UniformLengths | ZipfLengths)
        total = np.array(totals)
        prompt, output = split_by_ratio(total, lengths.prefill_to_decode_ratio)
        if isinstance(lengths, ZipfLengths):  # whose two parts VIDUR both cuts to whole tokens
            total = vidur_zipf(len(times), lengths.min_tokens, lengths.max_tokens, lengths.theta, lengths.seed)
            decode = total / (1 + lengths.prefill_to_decode_ratio)
            prompt, output = (total - decode).astype(np.int64), decode.astype(np.int64)
    return make_requests(np.array(times)[kept], prompt[kept], output[kept])


def trace_lengths(lengths: TraceLengths, folder: Path) -> Ints:
    """Prompt and output tokens of a trace, scaled, cut to `max_tokens` in proportion and shuffled as VIDUR does; shape (n, 2)."""
    table = read_csv(folder / lengths.trace_file, required=["num_prefill_tokens", "num_decode_tokens"])
    scales = (lengths.prefill_scale_factor, lengths.decode_scale_factor)
    both = [(numeric(table[name]) * scale) for name, scale in zip(("num_prefill_tokens", "num_decode_tokens"), scales, strict=True)]
    found = np.stack(both, axis=1).astype(np.int64)
    total = found.sum(axis=1, keepdims=True)
    found -= np.ceil(np.maximum(0, total - lengths.max_tokens) * (found / np.maximum(1, total))).astype(np.int64)
    return np.maximum(found, 1)[np.random.RandomState(lengths.seed).permutation(len(found))]


def limits_of(config: VidurConfig) -> Limits:
    """Limits of each replica."""
    scheduler, source = config.cluster_config.replica_scheduler_config, config.request_generator_config
    longest = getattr(source.length_generator_config, "max_tokens", source.max_tokens)
    blocks = scheduler.num_blocks or kv_blocks(config.cluster_config.replica_config, scheduler.block_size, longest)
    if blocks < 1:
        raise InputError("the weights leave no room for a KV cache", key="cluster_config.replica_config")
    return Limits(
        block_size=scheduler.block_size,
        kv_blocks=blocks,
        watermark=scheduler.watermark_blocks_fraction,
        max_batch=scheduler.batch_size_cap,
        max_batch_tokens=scheduler.max_tokens_in_batch,
        chunk=scheduler.chunk_size,
        max_request_tokens=longest,
        max_waiting_batches=scheduler.max_waiting_iters,
    )


def setup_of(config: VidurConfig, fitted: bool) -> Setup:
    """What an answer names; `fitted`: a line fitted to the recorded steps gives the step times."""
    replica, cluster = config.cluster_config.replica_config, config.cluster_config
    steps = "a line fitted to the recorded steps" if fitted else "the recorded steps, in order"
    assumed = [f"step times: {steps}; execution_time_predictor_config is not read"]
    if config.time_limit:
        assumed.append(f"requests that ended within {config.time_limit:g} s, as VIDUR counts them")
    parallel = f"tensor parallel {replica.tensor_parallel_size}"
    return Setup(
        model=replica.model_name,
        device=f"{replica.device} ({replica.device_config.total_memory_gb:g} GiB)",
        precision="16 bits",
        kv_precision="16 bits",
        plan=f"{cluster.num_replicas} x {parallel}" if cluster.num_replicas > 1 else parallel,
        scheduler=cluster.replica_scheduler_config.name,
        step_time="fitted" if fitted else "recorded",
        limits=limits_of(config),
        assumed=tuple(assumed),
    )


def simulate_vidur(config: VidurConfig, steps: StepTime, folder: Path = Path()) -> Result:
    """Run what the configuration asks for, with its batches, up to its time limit (0: to the end).

    Args:
        steps: how long a batch takes. Random routing draws from a stream of our own.
    """
    cluster, requests = config.cluster_config, requests_of(config, folder)
    if config.time_limit:
        requests = requests.at(np.flatnonzero(requests.arrived_at_s <= config.time_limit))
    result = simulate(
        requests,
        cluster.replica_scheduler_config.name,
        steps,
        limits_of(config),
        replicas=cluster.num_replicas,
        routing=ROUTING[cluster.global_scheduler_config.name],
        seed=config.seed,
        record_batches=True,
    )
    return ended_by(result, config.time_limit) if config.time_limit else result


def replay(
    requests: str | Path, steps: str | Path, scheduler: str, limits: Limits | None = None, max_request_tokens: int | None = None
) -> tuple[Result, int]:
    """Run recorded requests with recorded step times, which are used in order, one a batch.

    Args:
        max_request_tokens: what Orca and FasterTransformer reserve for each request; by default the limits' own, or the longest request's
            tokens if that is more.
    Returns: (the run with its batches, recorded steps not used).
    """
    arrived, recorded, limits = read_requests(requests), read_recorded(steps), limits or Limits()
    if len(arrived.session):
        message = "a recorded run says when each request arrived: turns of sessions wait for answers in `serve simulate`"
        raise InputError(message, path=requests, key="session_id")
    if max_request_tokens is not None:
        limits = dataclasses.replace(limits, max_request_tokens=max_request_tokens)
    elif kind_of(scheduler).reserves and len(arrived):
        longest = int((arrived.prefill_tokens + arrived.decode_tokens).max())
        limits = dataclasses.replace(limits, max_request_tokens=max(limits.max_request_tokens, longest))
    result = simulate(arrived, scheduler, recorded, limits, record_batches=True)
    assert recorded.recorded is not None
    return result, recorded.recorded.size - int(result.replicas["batches"].sum())
