"""How long does a training step take, how sure is that, and does it fit? Answers for a table of cases."""

from __future__ import annotations

import numpy as np
import pandas as pd

COLUMNS = ("step_time_s", "lower_s", "upper_s", "tokens_per_s_per_gpu", "memory_gib", "fits", "assumed", "status")


def answers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a case, with `COLUMNS`; a case that cannot be answered has its reason in `status`."""
    empty = pd.DataFrame({name: np.full(len(frame), np.nan) for name in COLUMNS[:5]})
    return empty.assign(fits="", assumed="", status="not covered yet")
