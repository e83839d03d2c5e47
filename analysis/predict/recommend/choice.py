"""The cheapest plan that meets a target, for a table of questions or one; what `predict recommend` runs.

cost = price of a GPU hour x GPU hours; of all plans tried, those whose answer meets every target stay, and the cheapest of them is
chosen. The plans tried do not depend on the target, so a looser target never costs more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd

from analysis.case_columns import Columns
from analysis.errors import InputError
from analysis.kernels import gpus
from analysis.predict.recommend import front

COLUMNS = (
    "device", "gpus", "engine", "mode", "tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel",
    "attention_data_parallel", "expert_parallel", "prefill_workers", "prefill_tensor_parallel", "decode_workers", "virtual_pipeline",
    "micro_batch", "zero", "recompute", "program", "precision", "kv_precision", "clients", "replicas", "kv_cache_tokens", "most_requests",
    "max_batched_tokens", "max_num_seqs", "memory_utilization",
    "ttft_ms", "ttft_lower_ms", "ttft_upper_ms", "tpot_ms", "tpot_lower_ms", "tpot_upper_ms",
    *(f"{name}{end}" for name in ("tokens_per_s_per_gpu", "tokens_per_s_per_user", "watts_per_gpu", "joules_per_token",
      "carbon_g_per_million_tokens") for end in ("", "_lower", "_upper")),
    "step_time_s", "step_lower_s", "step_upper_s", "days", "memory_gib", "fits",
    "cost", "cost_lower", "cost_upper", "cost_of", "meets", "sure_cost", "tried", "meeting", "assumed", "status",
)  # fmt: skip
SURE, CENTRAL = "to the upper end of its interval", "by its central answer, not by the upper end of its interval"
ROWS_A_TASK = 4
"""Questions that a worker of a cluster answers at once: each is a search of a second."""
OF_A_MODEL = ("hidden_size", "attention_heads", "layers", "vocabulary", "ffn", "gated", "kv_heads", "head_size", "tied")
"""Columns of `predict training` that a question about training may have besides."""
ONLY = {
    "serving": (
        "engines", "modes", "kv_precision", "input_tokens", "output_tokens", "requests_per_s", "ttft_target_ms", "tpot_target_ms",
        "grid_g_per_kwh",
    ),
    "training": ("step_target_s", "days_target", "tokens", *OF_A_MODEL),
}  # fmt: skip
"""Columns that only one kind of question has."""
READS = Columns(
    names=(
        "model", "devices", "max_gpus", "precision", "prices", "sure", *ONLY["serving"],
        "sequence_length", "global_batch", *ONLY["training"],
    ),
    required=("devices",),
    also={"device": "devices", "engine": "engines"},
    kept=("devices", "engines"),  # lists to choose from, beside which the answer has the device and engine chosen
)  # fmt: skip
"""Columns of a table of questions."""
SAY_NOTHING = ("", "None", "False")
"""Values of arguments that are not given, as text; 0 is given."""
TRAINING = ("global_batch", "sequence_length", "step_target_s", "days_target")


def _prices(text: str, devices: tuple[str, ...]) -> dict[str, float]:
    """`h100_sxm=2.5 b200_sxm=5` as a price of a GPU hour for each device; a device without one is an error."""
    found: dict[str, float] = {}
    for pair in text.replace(",", " ").split():
        name, _, value = pair.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            raise InputError(f"{pair!r} is not device=price", key="prices") from None
        if not 0 < found[name] < float("inf"):
            raise InputError(f"the price of {name} must be above 0", key="prices")
    missing = [name for name in devices if found and name not in found]
    if missing:
        raise InputError(f"no price of {missing[0]}", key="prices")
    return found


def candidates(row: dict[str, str]) -> pd.DataFrame:
    """All plans of a question, answered; a question with a global_batch or a target of a step is about training, others about serving."""
    devices = tuple(dict.fromkeys(row.get("devices", "").replace(",", " ").split()))
    if not devices:
        raise InputError("devices is missing", key="devices")
    prices = _prices(row.get("prices", ""), devices)
    if any(row.get(name, "").strip() for name in TRAINING):
        from analysis.predict.recommend import training

        return training.candidates(row, devices, prices)
    from analysis.kernels.library import KernelLibrary
    from analysis.predict.recommend import serving

    return serving.candidates(row, devices, prices, KernelLibrary.load())


@lru_cache(maxsize=1)
def _candidates(**row: str) -> pd.DataFrame:
    """As `candidates`, cached: the same question with `sure` needs no second search."""
    return candidates(row)


@dataclass(frozen=True)
class Recommended:
    """An answered question: the plan chosen (a row of `answers` with its model), all plans tried, whether upper ends had to meet."""

    plan: dict[str, Any]
    tried: pd.DataFrame
    sure: bool


def choose(found: pd.DataFrame, sure: bool = False) -> dict[str, Any]:
    """The cheapest plan that meets every target, or why there is none.

    Args:
        found: as from `candidates`: `cost`, `excess` (largest answer over its target: meets at most at 1), `sure` (upper ends meet too).
        sure: the upper end of the interval has to meet the target, not the central answer alone.
    """
    meeting = found[found["sure"] if sure else found["excess"] <= 1]
    counts = {"tried": len(found), "meeting": len(meeting)}
    if meeting.empty:
        near = found.iloc[int(found["excess"].to_numpy().argmin())]
        nearest = ", ".join(f"{name} {near[name]}" for name in ("device", "gpus", "engine", "clients") if name in found)
        end = "to the upper end of its interval" if sure else "by its central answer"
        return {**counts, "status": f"none of {len(found)} plans meets it {end}; nearest: {near['excess']:.2f} x the target ({nearest})"}
    # Of plans that cost the same, the one further from the bound.
    best = meeting.sort_values(["cost", "excess"], kind="stable").iloc[0]
    plan = {str(name): value for name, value in best.drop(["excess", "sure"]).to_dict().items()}
    certain = {"meets": SURE if best["sure"] else CENTRAL, "sure_cost": found.loc[found["sure"], "cost"].min()}
    return {**plan, **counts, **certain, "status": ""}


def one(**asked: object) -> dict[str, Any]:
    """The plan for one question, as a row of `answers`; arguments and errors as of `recommended`."""
    return recommended(**asked).plan


def recommended(**asked: object) -> Recommended:
    """The plan for one question, and the plans that it was chosen from.

    Args:
        asked: columns of a question, as text or numbers; None, False and empty are left out.
    """
    row = {name: str(value) for name, value in asked.items() if str(value) not in SAY_NOTHING}
    _refuse_other_kind(row)
    tried, sure = candidates(row), "sure" in row
    found = choose(tried, sure)
    if found["status"]:
        raise InputError(found["status"])
    return Recommended({"model": row.get("model", ""), **found}, tried, sure)


def _refuse_other_kind(row: dict[str, str]) -> None:
    kind, other = ("training", "serving") if any(row.get(name, "").strip() for name in TRAINING) else ("serving", "training")
    if stray := next((name for name in ONLY[other] if row.get(name, "").strip()), ""):
        raise InputError(f"{stray} belongs to a question about {other}; this one is about {kind}", key=stray)


def answers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a question (cells as text), in its order, with `COLUMNS`; where nothing is recommended, `status` says why."""
    rows = []
    for row in frame.astype(str).to_dict("records"):
        asked = {str(key).strip(): "" if value == "nan" else str(value) for key, value in row.items()}
        try:
            _refuse_other_kind(asked)
            word = asked.pop("sure", "").strip().lower()
            if word not in ("", "1", "yes", "true", "0", "no", "false"):
                raise InputError(f"sure is yes or no, got {word!r}", key="sure")
            sure = word in ("1", "yes", "true")
            rows.append(choose(_candidates(**asked), sure))
        except InputError as error:
            rows.append({"status": error.reason})
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"status": object})


NO_LINE = (1, "", "agg")
"""Cells of a plan that go without saying."""


def report(answered: Recommended) -> str:
    """A recommendation as text: the plan, the ten best and, of a served model, the front."""
    found = answered.plan
    last = COLUMNS.index("most_requests")
    names = [name for name in COLUMNS[2 : last + 1] if pd.notna(found.get(name)) and (found[name] not in NO_LINE or name == "zero")]
    device = gpus.load(str(found["device"])).name
    lines = [f"{found['model']} on {found['gpus']:.0f} x {device}" if found.get("model") else f"{found['gpus']:.0f} x {device}"]
    for name in names:
        value = found[name] if isinstance(found[name], str) else f"{found[name]:,.0f}"
        lines.append(f"  {name.replace('_', ' ')}: {value}")
    for title, name, unit in (
        ("time to first token", "ttft", "ms"),
        ("time per output token", "tpot", "ms"),
        ("step", "step", "s"),
        ("output tokens/s of a GPU", "tokens_per_s_per_gpu", ""),
        ("cost of " + str(found["cost_of"]), "cost", ""),
        ("power of a GPU", "watts_per_gpu", "W"),
        ("energy of an output token", "joules_per_token", "J"),
        ("carbon of a million output tokens", "carbon_g_per_million_tokens", "g"),
    ):
        suffix = f"_{unit}" if unit in ("ms", "s") else ""
        centre, low, high = (f"{name}{end}{suffix}" for end in ("", "_lower", "_upper"))
        centre = "step_time_s" if name == "step" else centre
        if pd.notna(found.get(centre)) and low in found:
            lines.append(f"{title}: {found[centre]:.4g} {unit}".rstrip() + f"   90 %: {found[low]:.4g} to {found[high]:.4g}")
    if pd.notna(found.get("days")):
        lines.append(f"days: {found['days']:.4g}")
    lines.append(f"meets the target {found['meets']}")
    if found["meets"] == CENTRAL:
        sure = f"{found['sure_cost']:.4g}" if pd.notna(found["sure_cost"]) else "none is"
        lines.append(f"the cheapest that meets it to the upper end: {sure}")
    lines.append(f"{found['meeting']:.0f} of {found['tried']:.0f} plans meet it; this one is the cheapest")
    lines.append(f"assumed: {found['assumed']}")
    if "joules_per_token" in found:
        lines.append("power: of the boards alone, without hosts and cooling; three constants fitted on H100 and B200")
    served = front.USER in answered.tried
    title = "the best plans" + (", each with the clients at which it is cheapest:" if served else ":")
    lines += ["", title, front.table(front.best(answered.tried, answered.sure))]
    if served:
        lines += ["", front.terminal(front.pareto(answered.tried))]
    return "\n".join(lines)


def as_json(answered: Recommended) -> dict[str, Any]:
    """A recommendation for a program: the plan, `best` (ten plans) and, of a served model, `front`."""
    plan = front.records(pd.DataFrame([answered.plan]))[0]
    best = front.records(front.best(answered.tried, answered.sure))
    return {**plan, "best": best} | ({"front": front.records(front.pareto(answered.tried))} if front.USER in answered.tried else {})
