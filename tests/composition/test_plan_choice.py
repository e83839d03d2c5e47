"""The choice of a plan, by hand: protocol `plans` of data/evaluation/serving_split.yaml."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.studies.serving.points.plan_choice import CELL, questions, scores


def _cell(**columns) -> pd.DataFrame:
    frame = pd.DataFrame({
        "plan": ["2", "2", "4", "4"], "gpus": [2, 2, 4, 4], "all_clients": [8, 16, 8, 32],
        "measured_tpot_ms": [9.0, 19.0, 8.0, 15.0], "measured_rate": [100.0, 180.0, 60.0, 170.0],
        "tpot_ms": [9.0, 21.0, 8.0, 15.0], "tpot_upper_ms": [11.0, 25.0, 10.0, 19.0], "rate": [100.0, 190.0, 60.0, 150.0],
    })  # fmt: skip
    return frame.assign(**({name: name for name in CELL} | columns))


def test_the_chosen_point_is_judged_by_what_was_measured():
    asked = questions(_cell()).set_index("target_ms")
    # At 10 ms two points meet, and 100 is more than 60. At 20 ms all meet by measurement: nothing is asked. Without a target 190 wins.
    assert list(asked.index) == [10.0, np.inf]
    assert asked.loc[10.0, "ours"] == 1.0 and asked.loc[np.inf, "ours"] == 1.0
    assert asked.loc[10.0, "drawn"] == 0.5  # of 100 and 60 one reaches 90
    # the upper ends leave 60 alone, which is no 0.9 of 100
    assert asked.loc[10.0, "ours_sure"] == 0.6
    late = questions(_cell(measured_tpot_ms=[10.5, 19.0, 8.0, 15.0])).set_index("target_ms")
    assert late.loc[10.0, "ours"] == 0.0  # chosen by 9 ms answered, and it takes 10.5: no plan at all
    none = questions(_cell(tpot_ms=[30.0] * 4)).set_index("target_ms")
    assert none.loc[10.0, "ours"] == 0.0  # no answer meets it


def test_cells_weigh_alike_and_small_ones_are_left_out():
    two = pd.concat([questions(_cell()), questions(_cell(tpot_ms=[30.0] * 4, family="other"))])
    found = scores(two, draws=50).set_index(["source", "way"])
    assert found.loc[("all", "ours"), "cells_percent"] == 75.0 and found.loc[("all", "ours"), "cells"] == 2
    assert questions(_cell(plan="2")).empty and questions(_cell(all_clients=[8, 16, 8, 16])).empty
