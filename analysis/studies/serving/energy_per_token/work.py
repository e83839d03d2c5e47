"""What does a step of a served model ask of a GPU? The least time that the data sheet allows."""

from __future__ import annotations

from analysis.hardware.roofline import DeviceTime
from analysis.kernels import gpus
from analysis.serving.points import settings
from analysis.serving.points.cases import Case
from analysis.serving.points.points import KV_BYTES, WEIGHT_BYTES
from analysis.workloads.models import Model

FLOP_TYPE = {"int4": "bf16", "mxfp4": "bf16"}
"""Types of weights that are widened before the product (MXFP4 on a GPU with FP4 tensor cores is not: an upper bound there)."""


def work(case: Case, batch: float, prompt_tokens: float, output_tokens: float) -> DeviceTime[float]:
    """One GPU's time of a mean step: weights (of experts those that its tokens touch) and cache read once, prompts shared out over steps.

    Args:
        batch: requests in flight on an attention rank; prompt_tokens, output_tokens: mean lengths.
    """
    model, plan, gpu = case.model, case.plan, gpus.load(case.device)
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


def multiplied(model: Model) -> float:
    """Weights that one token multiplies with: of routed experts the chosen ones, of the vocabulary the output layer alone (count)."""
    found = model.matrices
    chosen = model.experts_per_token / model.expert_count
    return found["attention"] + found["dense"] + chosen * found["experts"] + model.hidden * model.vocabulary
