"""Every parallel plan of a training run that fits, each with its step and cost: what a recommendation is chosen from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pandas as pd

from analysis.composition.case_files import count, number
from analysis.composition.training.answers import predict
from analysis.composition.training.cases import Case
from analysis.composition.training.cases import case as read_case
from analysis.composition.training.memory import GIB, fits, memory
from analysis.errors import InputError

DAY_S = 86400.0
PLANNED = (
    *("system", "device", "gpus", "micro_batch", "recompute", "data_parallel", "tensor_parallel", "pipeline_parallel"),
    *("context_parallel", "expert_parallel", "virtual_pipeline"),
)
"""Columns of `predict training` that the search fills."""
LONG = 16384
"""Sequences from here on are also tried cut over GPUs (context parallel)."""


def _divisors(number: int, most: int) -> list[int]:
    return [n for n in range(1, min(number, most) + 1) if number % n == 0]


def _plans(base: Case) -> Iterator[Case]:
    """Plans of one device and number of GPUs: tensor x pipeline x context x data = GPUs, and what else a plan decides."""
    shape, gpus, batch = base.shape, base.gpus, int(base.global_batch)
    tensors = [t for t in (1, 2, 4, 8) if shape.heads % t == 0 and t <= base.machine.domain]
    contexts = [1] if base.sequence < LONG or base.written_out else [1, 2, 4, 8]
    for t, p, c in product(tensors, _divisors(shape.blocks, 16), contexts):
        if gpus % (t * p * c) or base.sequence % (2 * c):
            continue
        data = gpus // (t * p * c)
        experts = [e for e in (1, 2, 4, 8, 16, 32, 64) if shape.experts and shape.experts.count % e == 0 and (data * c * t) % e == 0] or [1]
        virtuals = [1, *(v for v in (2, 4) if p > 1 and shape.blocks % (p * v) == 0)]
        for e, v, micro in product(experts, virtuals, (1, 2, 4, 8)):
            if batch % (data * micro) or (v > 1 and (batch // (data * micro)) % p):
                continue
            for again in ("none", "full"):
                yield replace(
                    base, tensor=t, pipeline=p, context=c, data=data, expert=e, virtual=v, micro_batch=float(micro), recompute=again
                )


def candidates(row: dict[str, str], devices: tuple[str, ...], prices: dict[str, float]) -> pd.DataFrame:
    """Every plan of a question that fits, with its step: a row each, in the columns of `choice.COLUMNS`.

    Args:
        row: what `predict training` understands of a model, sequence_length, global_batch, precision; max_gpus; step_target_s, or
            days_target and tokens; as text.
        prices: device -> price of a GPU hour; empty: costs are GPU hours.
    Raises:
        InputError: a question that cannot be asked, or no plan fits.
    """
    step_target, days, tokens = (number(row, key) for key in ("step_target_s", "days_target", "tokens"))
    if not (step_target or (days and tokens)):
        raise InputError("a question about training needs step_target_s, or days_target and tokens, above 0", key="step_target_s")
    most = count(row, "max_gpus")
    if most is None:
        raise InputError("max_gpus is missing", key="max_gpus")
    sizes = sorted({most, *(2**k for k in range(3, most.bit_length()) if 2**k <= most)})
    found: list[tuple[Case, str]] = []
    unplanned = {key: value for key, value in row.items() if key not in PLANNED}
    for device in devices:
        base = read_case({**unplanned, "device": device, "gpus": "1", "micro_batch": "1"})
        for gpus in sizes:
            found += [(item, device) for item in _plans(replace(base, gpus=gpus))]
    if not found:
        raise InputError(f"no plan of {' or '.join(map(str, sizes))} GPUs divides the model and its batch", key="max_gpus")
    held = [memory(item) for item, _ in found]
    words = [fits(item, each) for (item, _), each in zip(found, held, strict=True)]
    wanted = "yes" if "yes" in words else "tight"
    kept = [(item, device, each) for (item, device), each, word in zip(found, held, words, strict=True) if word == wanted]
    if not kept:
        raise InputError(f"does not fit: none of {len(found)} plans", key="model")
    steps = predict([item for item, _, _ in kept])
    rows = []
    ends = {"": "step_time_s", "_lower": "lower_s", "_upper": "upper_s"}
    for (item, device, each), said in zip(kept, steps.to_dict("records"), strict=True):
        per_step = item.global_batch * item.sequence
        count_of = tokens / per_step if tokens else 1e6 / per_step
        price = prices.get(device, 1.0)
        cost = {end: price * item.gpus * count_of * float(said[name]) / 3600 for end, name in ends.items()}
        bounds = [(step_target, 1.0), (days, (tokens or 0.0) / per_step / DAY_S)]
        times = [(limit, scale) for limit, scale in bounds if limit]
        rows.append(
            {
                "device": device, "gpus": item.gpus, "tensor_parallel": item.tensor, "pipeline_parallel": item.pipeline,
                "data_parallel": item.data, "context_parallel": item.context, "expert_parallel": item.expert,
                "virtual_pipeline": item.virtual, "micro_batch": int(item.micro_batch), "recompute": item.recompute,
                "step_time_s": said["step_time_s"], "step_lower_s": said["lower_s"], "step_upper_s": said["upper_s"],
                "days": float(said["step_time_s"]) * tokens / per_step / DAY_S if tokens else float("nan"),
                "memory_gib": each.total / GIB,
                "cost": cost[""], "cost_lower": cost["_lower"], "cost_upper": cost["_upper"],
                "cost_of": ("the run" if tokens else "a million tokens") + ("" if prices else ", in GPU hours"),
                "excess": max(float(said["step_time_s"]) * scale / limit for limit, scale in times),
                "sure": all(float(said["upper_s"]) * scale <= limit for limit, scale in times),
                "assumed": "; ".join(item.assumed),
            }
        )  # fmt: skip
    out = pd.DataFrame(rows)
    return out[out["step_time_s"].notna()].reset_index(drop=True)
