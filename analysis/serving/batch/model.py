"""How long do prefill and decode of a batch take? Bytes and arithmetic over the data sheet's rates, host work, waiting for memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.configs import read_yaml
from analysis.paths import DATA
from analysis.serving.batch.cases import FRAMEWORKS, PLATFORMS, Case
from analysis.training.shares import SharesFile

Floats = NDArray[np.float64]

SHARES = read_yaml(DATA / "workloads" / "batch_shares.yaml", SharesFile).shares
NAMES = tuple(SHARES)
PRIOR = np.array([share.prior for share in SHARES.values()])
SPREAD = np.array([share.spread for share in SHARES.values()])


@dataclass(frozen=True)
class Table:
    """What the model needs of each case, in arrays (bytes, FLOP, counts)."""

    framework: NDArray[np.int64]
    vendor: NDArray[np.int64]
    devices: Floats
    dies: Floats
    bandwidth: Floats
    peak: Floats
    link: Floats
    memory: Floats
    layers: Floats
    hidden: Floats
    weights: Floats
    touched_always: Floats
    expert_bytes: Floats
    experts: Floats
    per_token: Floats
    active: Floats
    cache_bytes: Floats
    heads_width: Floats
    input: Floats
    output: Floats
    sequences: Floats
    chunk: Floats
    chunked: NDArray[np.bool_]
    streamed: NDArray[np.bool_]

    @classmethod
    def of(cls, cases: Sequence[Case]) -> Table:
        """From the cases."""

        def each(function) -> Floats:  # type: ignore[no-untyped-def]
            return np.array([float(function(item)) for item in cases])

        def peak(item: Case) -> float:
            device = item.hardware.device
            return device.peak_flop_per_s("bf16" if "bf16" in device.peak else "fp16")

        return cls(
            framework=np.array([FRAMEWORKS.index(item.framework) for item in cases]),
            vendor=np.array([PLATFORMS.index(item.hardware.platform) for item in cases]),
            devices=each(lambda item: item.devices),
            dies=each(lambda item: item.hardware.dies),
            bandwidth=each(lambda item: item.hardware.device.memory_bandwidth_bytes_per_s),
            peak=each(peak),
            link=each(lambda item: item.hardware.link_bytes_per_s(item.devices)),
            memory=each(lambda item: item.hardware.device.memory_bytes if item.hardware.platform != "SambaNova" else 1.5e12),
            layers=each(lambda item: item.shape.attention_layers),
            hidden=each(lambda item: item.shape.hidden),
            weights=each(lambda item: 2.0 * item.shape.parameters),
            touched_always=each(lambda item: 2.0 * (item.shape.body_parameters + item.shape.hidden * item.shape.vocabulary)),
            expert_bytes=each(lambda item: 2.0 * item.shape.expert_parameters * item.shape.expert_layers),
            experts=each(lambda item: item.shape.experts.count if item.shape.experts else 1),
            per_token=each(lambda item: item.shape.experts.per_token if item.shape.experts else 0),
            active=each(lambda item: item.shape.multiplied_parameters),
            cache_bytes=each(lambda item: 4.0 * item.shape.attention_layers * item.shape.kv_heads * item.shape.head_size),
            heads_width=each(lambda item: item.shape.attention_layers * item.shape.heads * item.shape.head_size),
            input=each(lambda item: item.input_tokens),
            output=each(lambda item: item.output_tokens),
            sequences=each(lambda item: item.sequences),
            chunk=each(lambda item: min(item.batch, item.input_tokens)),
            chunked=np.array([item.framework == "llama.cpp" for item in cases]),
            # A decoder is fused into one kernel call on 8 and 16 sockets (abstract of the talk at 62dac.conference-program.com,
            # SSSN027); that its communication streams inside that call is our inference from it.
            streamed=np.array([item.framework == "sambaflow" for item in cases]),
        )


def latency(table: Table, shares: Floats) -> dict[str, Floats]:
    """Seconds of a batch, and its parts; `total` is their sum.

    A decode step reads the weights (of the experts that the batch touches) and the cache, computes, exchanges twice a layer, and waits for
    the host (fourth-power mean of device and host). The cache's memory bounds how many sequences run at once; the others follow.
    """
    s = dict(zip(NAMES, shares, strict=True))
    busy = np.array([s[f"busy.{name}"] for name in FRAMEWORKS])[table.framework]
    host = np.array([s[f"host.{name}"] for name in FRAMEWORKS])[table.framework]
    vendor_busy = np.array([1.0, *(s[f"busy.{name}"] for name in PLATFORMS[1:])])[table.vendor]
    vendor_host = np.array([1.0, *(s[f"host.{name}"] for name in PLATFORMS[1:])])[table.vendor]
    ported = np.array([s.get(f"ported.{name}", 1.0) for name in PLATFORMS])[table.vendor]
    busy = busy * np.where(table.chunked, ported, 1.0)
    busy, host = busy * vendor_busy, host * vendor_host
    # llama.cpp deals layers to the devices, which work one after the other: one device's rates, no exchange
    n = np.where(table.chunked, 1.0, table.devices) / table.dies
    members = np.where(table.chunked, 1.0, table.devices)
    bandwidth, peak = table.bandwidth * n, table.peak * n
    exchange = np.where(members > 1, s["exchange_s"] * vendor_host * (1 + 0.5 * np.log2(members)), 0.0)
    exchange = exchange * np.where(table.streamed, host, 1.0)

    def weights_bytes(tokens: Floats) -> Floats:
        touched = table.experts * (1 - (1 - table.per_token / np.maximum(table.experts, 1)) ** tokens)
        return table.touched_always + np.where(table.per_token > 0, touched * table.expert_bytes, 0.0)

    room = 0.92 * table.memory * table.devices - table.weights - 1e9 * table.devices
    held = np.maximum(room, 0.02 * table.memory * table.devices) / table.cache_bytes
    together = np.clip(held / (table.input + 0.8 * table.output), 1.0, table.sequences)
    waves = table.sequences / together

    def step(tokens: Floats, sequences: Floats, context: Floats) -> Floats:
        flop = 2.0 * table.active * tokens
        read = weights_bytes(tokens) / (bandwidth * s["weights"]) + sequences * context * table.cache_bytes / (bandwidth * s["cache"])
        moved = 2 * table.layers * np.where(members > 1, 2.0 * tokens * table.hidden / (0.6 * table.link), 0.0)
        device = busy * (read + flop / (peak * s["arithmetic"])) + moved + table.layers * (2 * exchange + s["gap_s"] * host)
        waiting = host * (s["host_s"] * table.layers + s["sequence_s"] * sequences)
        return np.asarray((device**4 + waiting**4) ** 0.25)

    attention = 2.0 * table.heads_width * table.input**2 * table.sequences
    prompt = np.where(table.chunked, table.chunk, table.input * together)
    passes = np.where(table.chunked, table.input / np.maximum(table.chunk, 1.0), waves)
    prefill = passes * step(prompt, np.where(table.chunked, 1.0, together), np.where(table.chunked, table.input / 2, 0.0))
    prefill = prefill + busy * attention / (0.5 * peak * s["arithmetic"])
    context = table.input + table.output / 2
    decode = waves * table.output * step(together, together, context)
    fixed = s["request_s"] * host
    return {"prefill": prefill, "decode": decode, "fixed": fixed, "total": prefill + decode + fixed}
