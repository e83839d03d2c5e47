"""The answer of a predictor as plain rows and numbers."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from analysis.predict.program.predict import ProgramPrediction


def as_json(prediction: ProgramPrediction) -> dict[str, Any]:
    """Everything that `python -m analysis hlo predict` prints of one prediction."""
    return {
        **{name: getattr(prediction, name) for name in ("device", "fidelity", "seconds")},
        "seconds_lower": prediction.lower_s,
        "seconds_upper": prediction.upper_s,
        **{name: getattr(prediction, name) for name in ("lower_bound", "compute_s", "communication_s", "launch_s", "launches")},
        "by_class": {
            name: {"seconds": each.seconds, "bound": each.bound, "flop": each.flop, "bytes": each.bytes, "runs": each.runs}
            for name, each in prediction.by_class.items()
        },
        "unsupported": prediction.unsupported,
        "unknown": prediction.unknown,
        "notes": list(prediction.notes),
    }


def table(predictions: list[ProgramPrediction]) -> pd.DataFrame:
    """One row for each device, fidelity and class; the class ``all`` is the whole program, ``communication`` the collectives.

    Columns: device, fidelity, class, seconds, seconds_lower, seconds_upper (s), lower_bound, compute_bound_s, memory_bound_s (s),
        flop (FLOP), bytes, unsupported, unknown (text).
    """
    rows = []
    for each in predictions:
        said = {"unsupported": "; ".join(each.unsupported), "unknown": "; ".join(each.unknown)}
        head = {"device": each.device, "fidelity": each.fidelity}
        flop, size = (sum(getattr(part, key) for part in each.by_class.values()) for key in ("flop", "bytes"))
        ends = {"seconds_lower": each.lower_s, "seconds_upper": each.upper_s, "lower_bound": each.lower_bound}
        bound = dict.fromkeys(("compute_bound_s", "memory_bound_s"), math.nan)
        rows.append({**head, "class": "all", "seconds": each.seconds, **ends, **bound, "flop": flop, "bytes": size, **said})
        if each.launch_s:
            rows.append({**head, "class": "launch", "seconds": each.launch_s})
        if each.communication_s:
            rows.append({**head, "class": "communication", "seconds": each.communication_s})
        for name, part in each.by_class.items():
            bound = {"compute_bound_s": part.compute_s, "memory_bound_s": part.memory_s}
            rows.append({**head, "class": name, "seconds": part.seconds, "flop": part.flop, "bytes": part.bytes, **bound})
    return pd.DataFrame(rows)
