"""Every parallel plan of a training run that fits, each with its step and cost: what a recommendation is chosen from."""

from __future__ import annotations

import pandas as pd

from analysis.case_files import count, number
from analysis.errors import InputError
from analysis.training.search import PLAN, Choices, plans, timed

DAY_S = 86400.0
TRIED = Choices(
    tensor_parallel=(1, 2, 4, 8), pipeline_parallel=(1, 2, 4, 8, 16), expert_parallel=(1, 8, 16, 32, 64), virtual_pipeline=(1, 2, 4),
    micro_batch=(1, 2, 4, 8), recompute=("none", "full"),
)  # fmt: skip
"""What a recommendation tries of the plans of `train search`: powers of two."""


def candidates(row: dict[str, str], devices: tuple[str, ...], prices: dict[str, float]) -> pd.DataFrame:
    """Every plan of a question that fits, with its step: a row each, in the columns of `choice.COLUMNS`.

    Args:
        prices: device -> price of a GPU hour; empty: costs are GPU hours.
    """
    step_target, days, tokens = (number(row, key) for key in ("step_target_s", "days_target", "tokens"))
    if not (step_target or (days and tokens)):
        raise InputError("a question about training needs step_target_s, or days_target and tokens, above 0", key="step_target_s")
    most = count(row, "max_gpus")
    if most is None:
        raise InputError("max_gpus is missing", key="max_gpus")
    sizes = sorted({most, *(2**k for k in range(3, most.bit_length()) if 2**k <= most)})
    shared = {key: value for key, value in row.items() if key not in (*PLAN, "system", "device") or key == "program"}
    asked = [plan for device in devices for gpus in sizes for plan in plans({**shared, "device": device}, gpus, TRIED)]
    if not asked:
        raise InputError(f"no plan of {' or '.join(map(str, sizes))} GPUs divides the model and its batch", key="max_gpus")
    found = timed(asked)
    fit = found[found["reason"] == ""]
    if fit.empty:
        raise InputError(f"does not fit: none of {len(found)} plans", key="model")
    answered = fit[fit["status"] == ""]
    if answered.empty:
        raise InputError(str(fit["status"].iloc[0]), key="devices")
    surely = answered["fits"] == "yes"
    out = answered[surely if surely.any() else ~surely].rename(columns={"lower_s": "step_lower_s", "upper_s": "step_upper_s"})
    batch = float(number(row, "global_batch") or 0) * float(number(row, "sequence_length") or 0)
    steps = tokens / batch if tokens else 1e6 / batch
    each = out["device"].map(lambda device: prices.get(device, 1.0)) * out["gpus"] * steps / 3600
    for end, name in {"": "step_time_s", "_lower": "step_lower_s", "_upper": "step_upper_s"}.items():
        out[f"cost{end}"] = each * out[name]
    out["days"] = out["step_time_s"] * tokens / batch / DAY_S if tokens else float("nan")
    out["cost_of"] = ("the run" if tokens else "a million tokens") + ("" if prices else ", in GPU hours")
    limits = [float(limit) for limit in (step_target, days and days * DAY_S * batch / (tokens or 1.0)) if limit]
    out["excess"] = out["step_time_s"] / min(limits)
    out["sure"] = out["step_upper_s"] <= min(limits)
    return out.reset_index(drop=True)
