"""How much power does a GPU draw in a step of a served model? The step's work by the data sheet, and three constants of measured boards.

    power = limit x min(1, base + memory x (bytes / bandwidth) / time + compute x (operations / peak) / time)

`base` is drawn whenever kernels run, busy or waiting for each other.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from analysis.configs import Strict, read_yaml
from analysis.hardware import devices
from analysis.hardware.roofline import DeviceTime
from analysis.kernels import gpus
from analysis.paths import DATA
from analysis.serving.points import settings
from analysis.serving.points.cases import Case
from analysis.serving.points.points import KV_BYTES, WEIGHT_BYTES, cache_tokens

PATH = DATA / "models" / "board_power.yaml"
FLOP_TYPE = {"int4": "bf16", "mxfp4": "bf16"}
"""Types of weights that are widened before the product (MXFP4 on a GPU with FP4 tensor cores is not: an upper bound there)."""


class BoardPower(Strict):
    """Constants of the power model, as shares of the board limit, and the rows that they were fitted on.

    Args:
        lower, upper: 5th and 95th percentile of measured over answered joules, each GPU answered by the others.
    """

    fitted_on: str
    rows: int
    base: float
    memory: float
    compute: float
    lower: float = 1.0
    upper: float = 1.0

    def share(self, memory_share: Any, compute_share: Any) -> Any:
        """Power over the board limit."""
        return np.minimum(1.0, self.base + self.memory * memory_share + self.compute * compute_share)


@cache
def load() -> BoardPower:
    """The committed constants."""
    return read_yaml(PATH, BoardPower)


def work(case: Case, batch: float, prompt_tokens: float, output_tokens: float) -> DeviceTime[float]:
    """One GPU's time of a mean step: weights (of experts those that its tokens touch) and cache read once, prompts shared out over steps.

    Args:
        batch: requests in flight on an attention rank; prompt_tokens, output_tokens: mean lengths.
    """
    model, plan, gpu = case.model, case.plan, gpus.sixteen_bits(gpus.load(case.device))
    kinds = {"attention": case.attention, "dense": case.gemm, "experts": case.experts, "vocabulary": "bf16"}
    tokens, cached = batch * (1 + prompt_tokens / output_tokens), prompt_tokens + output_tokens / 2
    routed = plan.expert_tensor * plan.expert
    ways = {"attention": plan.tensor, "dense": plan.tensor, "experts": routed, "vocabulary": plan.tensor}
    read = dict.fromkeys(kinds, 1.0) | {"vocabulary": 0.5}  # the embedding is looked up, the head read
    used = dict(read)
    everyone = dict.fromkeys(kinds, tokens) | {"vocabulary": batch, "experts": tokens * plan.attention_data}
    if model.experts is not None:
        chosen = model.experts.per_token / model.experts.count
        read["experts"], used["experts"] = 1 - (1 - chosen) ** everyone["experts"], chosen
    bytes_read = compute_s = 0.0
    for part, weights in model.matrices.items():
        kind = kinds[part]
        bytes_read += weights * read[part] * WEIGHT_BYTES[kind] / ways[part]
        rate = gpu.peak_flop_per_s.get(FLOP_TYPE.get(kind, kind), gpu.peak_flop_per_s["bf16"])
        compute_s += 2.0 * weights * used[part] * everyone[part] / ways[part] / rate
    bytes_read += batch * cached * model.growing_bytes_per_token(KV_BYTES[settings.of(case).kv], plan.tensor)
    latent = model.latent
    width = 2.0 * model.head_size if latent is None else 2.0 * latent.kv_rank + latent.rope_size
    compute_s += 2.0 * width * model.heads / plan.tensor * model.attention_layers * batch * cached / gpu.peak_flop_per_s["bf16"]
    return DeviceTime(compute_s, bytes_read / gpu.bandwidth_bytes_per_s)


def drawn_w(case: Case, tpot_s: float) -> tuple[float, float, float] | None:
    """Power of one GPU while it serves a point, and its 90 % interval (W); None: no board limit is known, or prompts run on others."""
    limit = devices.load(case.device).tdp_w
    if limit is None or case.prefill is not None:
        return None
    power, lengths = load(), case.mean_length
    held = cache_tokens(case, case.plan) / (lengths * (case.input_tokens + case.output_tokens))
    running = min(case.clients, settings.of(case).max_running, held)  # the others wait
    done = work(case, running, lengths * case.input_tokens, lengths * case.output_tokens)
    central = limit * float(power.share(done.memory_s / tpot_s, done.compute_s / tpot_s))
    return central, power.lower * central, min(limit, power.upper * central)
