"""What a recommendation is chosen from, to look at: the best plans, and what faster answers cost in tokens of a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

PLAN = (
    "device", "gpus", "engine", "mode", "tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel",
    "attention_data_parallel", "expert_parallel", "prefill_workers", "prefill_tensor_parallel", "decode_workers", "virtual_pipeline",
    "micro_batch", "zero", "recompute", "precision", "kv_precision",
)  # fmt: skip
"""What makes two plans differ, clients apart."""
USER, GPU = "tokens_per_s_per_user", "tokens_per_s_per_gpu"
WIDTH, HEIGHT = 64, 16
MARKS = "ox+*#@%&"
INTERVALS = (
    ("ttft (ms)", "ttft{}_ms", 4), ("ms/token", "tpot{}_ms", 4), ("tok/s/GPU", GPU + "{}", 4), ("step (s)", "step{}_s", 4),
    ("cost", "cost{}", 4), ("J/token", "joules_per_token{}", 3),
)  # fmt: skip
"""What a table of plans says of each with its interval: title, column, digits."""


def best(found: pd.DataFrame, sure: bool = False, most: int = 10) -> pd.DataFrame:
    """The cheapest plans that meet the target, each with the clients at which it is cheapest; `sure` as for `choice.choose`."""
    meeting = found[found["sure"] if sure else found["excess"] <= 1]
    plan = [name for name in PLAN if name in meeting]
    return meeting.sort_values(["cost", "excess"], kind="stable").drop_duplicates(plan).head(most).reset_index(drop=True)


def pareto(found: pd.DataFrame) -> pd.DataFrame:
    """Of each device and mode the plans that no other one beats in both tokens/s of a user and of a GPU, from slow users to fast ones."""
    kept = []
    for _, group in found.groupby(["device", "mode"], sort=False):
        ordered = group.sort_values([USER, GPU], ascending=False, kind="stable")
        most = ordered[GPU].cummax().shift(fill_value=-np.inf)
        kept.append(ordered[ordered[GPU] > most][::-1])
    return pd.concat(kept, ignore_index=True)


def curves(front: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The fronts of a table, each with its name; modes are named where there are several."""
    several = front["mode"].nunique() > 1
    return [
        (f"{device}, {mode}" if several else str(device), part) for (device, mode), part in front.groupby(["device", "mode"], sort=False)
    ]


def terminal(front: pd.DataFrame) -> str:
    """The fronts in letters: tokens/s of a user to the right, tokens/s of a GPU upwards, both logarithmic; dots from end to end."""
    x, y = (np.log10(front[[f"{name}{end}" for end in ("_lower", "", "_upper")]].to_numpy(float)) for name in (USER, GPU))
    left, right, low, high = x[:, 1].min(), x[:, 1].max(), y[:, 0].min(), y[:, 2].max()
    cells = [[" "] * WIDTH for _ in range(HEIGHT)]

    def at(value: float, least: float, most: float, size: int) -> int:
        return 0 if most <= least else int(np.clip(round((value - least) / (most - least) * (size - 1)), 0, size - 1))

    legend = []
    centres: list[tuple[int, int, str]] = []
    for number, (name, part) in enumerate(curves(front)):
        mark = MARKS[number % len(MARKS)]
        legend.append(f"{mark} {name}")
        for place in part.index:
            column = at(x[place, 1], left, right, WIDTH)
            ends = [at(y[place, end], low, high, HEIGHT) for end in range(3)]
            for row in range(ends[0], ends[2] + 1):
                cells[HEIGHT - 1 - row][column] = "."
            centres.append((HEIGHT - 1 - ends[1], column, mark))
    for row, column, mark in centres:
        cells[row][column] = mark
    edge = [f"{10**high:,.0f}", *[""] * (HEIGHT - 2), f"{10**low:,.0f}"]
    margin = max(map(len, edge))
    lines = [f"{label:>{margin}} |{''.join(line)}".rstrip() for label, line in zip(edge, cells, strict=True)]
    ends_text = f"{10**left:,.0f}", f"{10**right:,.0f}"
    below = f"{'':>{margin}}  {ends_text[0]}{ends_text[1]:>{WIDTH - len(ends_text[0])}}"
    title = "output tokens/s of a GPU (up) against tokens/s of a user (right); dots: 90 % interval"
    return "\n".join([title, *lines, below, "  ".join(legend)])


def table(plans: pd.DataFrame) -> str:
    """Plans as lines of text, without uninformative columns: all empty, 1 throughout, or of one type or mode."""
    alike = [name for name in ("mode", "precision", "kv_precision", "recompute") if name in plans and plans[name].nunique() == 1]
    shown = [name for name in (*PLAN, "clients", "replicas") if name in plans and name not in alike]
    out = plans[[name for name in shown if not plans[name].isin(["", 1, None]).all()]].copy()
    for title, name, digits in INTERVALS:
        central = "step_time_s" if name.startswith("step") else name.format("")
        if central in plans and name.format("_lower") in plans and plans[central].notna().any():
            ends = (plans[central], plans[name.format("_lower")], plans[name.format("_upper")])
            out[title] = [_with_ends(*values, digits) for values in zip(*ends, strict=True)]
    out = out.rename(columns=lambda name: str(name).replace("_parallel", "").replace("_", " "))
    return str(out.fillna("").to_string(index=False))


def _with_ends(centre: float, low: float, high: float, digits: int) -> str:
    return f"{_short(centre, digits)} ({_short(low, digits - 1)}-{_short(high, digits - 1)})" if centre == centre else ""


def _short(value: float, digits: int) -> str:
    return f"{value:,.0f}" if value >= 10**digits else f"{value:.{digits}g}"


def records(plans: pd.DataFrame) -> list[dict[str, Any]]:
    """Plans for a program: a cell without a value is null."""
    rows = plans.drop(columns=["excess", "sure"], errors="ignore").to_dict("records")
    return [
        {str(key): None if cell != cell else cell for key, cell in row.items() if not (isinstance(cell, str) and cell == "")}
        for row in rows
    ]
