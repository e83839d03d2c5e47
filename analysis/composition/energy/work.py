"""What does a served token cost in joules? Work of a step over what the data sheet allows, and the power for it."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.composition.service import settings
from analysis.composition.service.cases import Case
from analysis.composition.service.points import KV_BYTES, WEIGHT_BYTES
from analysis.hardware.power import BoardPower
from analysis.operators.kernels import gpus

FLOP_TYPE = {"int4": "bf16", "mxfp4": "bf16"}
"""Types of weights that are widened before the product (MXFP4 on a GPU with FP4 tensor cores is not: an upper bound there)."""


@dataclass(frozen=True)
class Work:
    """One GPU's work in a mean step, as the least time that the data sheet allows.

    Attributes:
        memory_s: bytes over peak bandwidth; compute_s: operations over the peak rate of their type; roofline_s: the larger.
        limit_w: board limit of a GPU.
    """

    memory_s: float
    compute_s: float
    limit_w: float

    @property
    def roofline_s(self) -> float:
        """Least time of the step."""
        return max(self.memory_s, self.compute_s)


def work(case: Case, batch: float, prompt_tokens: float, output_tokens: float) -> Work:
    """Work of a mean step: weights (of experts those that its tokens touch) and cache read once, prompts shared out over steps.

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
        chosen = model.experts.top_k / model.experts.count
        read["experts"], used["experts"] = 1 - (1 - chosen) ** everyone["experts"], chosen
    bytes_read = compute_s = 0.0
    for part, weights in model.parameters().items():
        kind = kinds[part]
        bytes_read += weights * read[part] * WEIGHT_BYTES[kind] / ways[part]
        rate = gpu.peak_flop_per_s.get(FLOP_TYPE.get(kind, kind), gpu.peak_flop_per_s["bf16"])
        compute_s += 2.0 * weights * used[part] * everyone[part] / ways[part] / rate
    bytes_read += batch * cached * model.kv_bytes_per_token(KV_BYTES[settings.of(case).kv], plan.tensor)
    a = model.attention
    width = 2.0 * a.head_size if a.kind == "grouped" else 2.0 * a.kv_rank + a.rope_size
    compute_s += 2.0 * width * a.heads / plan.tensor * model.attention_layers * batch * cached / gpu.peak_flop_per_s["bf16"]
    return Work(bytes_read / gpu.bandwidth_bytes_per_s, compute_s, gpu.tdp_w)


def token_j(found: Work, power: BoardPower, step_s: float, batch: float, gpu_count: int) -> float:
    """Joules per output token of all GPUs: power for the work over the step's time, shared by the tokens of the step (batch)."""
    share = float(power.share(found.memory_s / step_s, found.compute_s / step_s))
    return gpu_count * found.limit_w * share * step_s / batch
