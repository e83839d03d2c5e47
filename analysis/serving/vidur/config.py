"""What does VIDUR's own JSON configuration ask for?

Read as VIDUR 7d47513 writes it: requests, scheduler and limits, replicas and routing. Keys that have no bearing on these are not looked at;
step times are not in the file. The number of KV blocks, where the file has none, follows VIDUR's memory plan:

    blocks = (longest request // block size) x floor((memory x (1 - margin) - weights) / KV of the longest request)
    weights = 2 bytes x layers x (q, k, v, o projections + MLP), KV of a token = 4 bytes x head size x KV heads x layers

each per device under tensor parallelism.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from analysis.errors import InputError
from analysis.serving.limits import Limits
from analysis.serving.requests import Requests, make_requests
from analysis.serving.schedulers.names import Scheduler
from analysis.serving.simulate import Result, simulate
from analysis.serving.steps import StepTime
from analysis.serving.traffic import vidur_arrivals, vidur_requests

GIB = 1024**3
ROUTING = {"round_robin": "round_robin", "random": "random", "lor": "least_waiting"}


class Part(BaseModel):
    """A part of VIDUR's configuration; other keys are let through."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


class ModelConfig(Part):
    """Shape of the model."""

    num_layers: int
    num_q_heads: int
    num_kv_heads: int
    embedding_dim: int
    mlp_hidden_dim: int
    use_gated_mlp: bool


class DeviceConfig(Part):
    """Memory of the device."""

    total_memory_gb: float


class ReplicaConfig(Part):
    """One replica."""

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


class PoissonIntervals(Part):
    """Poisson arrivals."""

    name: Literal["poisson"]
    qps: Annotated[float, Field(gt=0)]


class RequestGeneratorConfig(Part):
    """What arrives."""

    name: Literal["synthetic"]
    seed: int
    length_generator_config: Annotated[
        Annotated[UniformLengths, Tag("uniform")] | Annotated[FixedLengths, Tag("fixed")],
        Discriminator(lambda part: part.get("name") if isinstance(part, dict) else getattr(part, "name", None)),
    ]
    interval_generator_config: PoissonIntervals
    num_requests: Annotated[int, Field(ge=0, le=10_000_000)]
    duration: None = None
    max_tokens: Annotated[int, Field(ge=1)]


class VidurConfig(Part):
    """The whole file."""

    seed: int = 42
    cluster_config: ClusterConfig
    request_generator_config: RequestGeneratorConfig


def kv_blocks(replica: ReplicaConfig, block_size: int, longest_request: int) -> int:
    """KV blocks by VIDUR's memory plan; the module says the formula.

    Args:
        replica: device, model and parallelism.
        block_size: tokens a block.
        longest_request: tokens.
    """
    model, parallel = replica.model_cfg, replica.tensor_parallel_size
    head = model.embedding_dim // model.num_q_heads
    attention = model.embedding_dim * head * 2 * (model.num_q_heads + model.num_kv_heads)
    mlp = (3 if model.use_gated_mlp else 2) * model.embedding_dim * model.mlp_hidden_dim
    weights = 2 * model.num_layers * (attention + mlp) // parallel
    kv_of_request = 4 * head * -(-model.num_kv_heads // parallel) * model.num_layers * longest_request
    room = replica.device_config.total_memory_gb * GIB * (1 - replica.memory_margin_fraction) - weights
    return longest_request // block_size * int(room // kv_of_request)


def requests_of(config: VidurConfig) -> Requests:
    """The requests that VIDUR would draw."""
    source = config.request_generator_config
    lengths, rate = source.length_generator_config, source.interval_generator_config.qps
    if isinstance(lengths, UniformLengths):
        low, high = lengths.min_tokens, lengths.max_tokens
        return vidur_requests(source.num_requests, rate, source.seed, low, high, lengths.prefill_to_decode_ratio)
    arrived_at = vidur_arrivals(source.num_requests, rate, source.seed)
    same = np.ones(source.num_requests, dtype=np.int64)
    return make_requests(arrived_at, lengths.prefill_tokens * same, lengths.decode_tokens * same)


def limits_of(config: VidurConfig) -> Limits:
    """Limits of each replica."""
    scheduler, longest = config.cluster_config.replica_scheduler_config, config.request_generator_config.max_tokens
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


def simulate_vidur(config: VidurConfig, steps: StepTime) -> Result:
    """Run what the configuration asks for, with its batches.

    Args:
        steps: how long a batch takes. Random routing draws from a stream of our own.
    """
    cluster = config.cluster_config
    return simulate(
        requests_of(config),
        cluster.replica_scheduler_config.name,
        steps,
        limits_of(config),
        replicas=cluster.num_replicas,
        routing=ROUTING[cluster.global_scheduler_config.name],
        seed=config.seed,
        record_batches=True,
    )
