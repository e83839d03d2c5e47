"""Rows of equal text are answered once, and every row gets its own answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.commands.models.collectives import COLUMNS as told
from analysis.errors import InputError
from analysis.networks import case_table, closed_forms, columns
from analysis.networks.cases import outside_model
from analysis.paths import DATA
from tests.golden import answer, kept


def recorded(count: int, seed: int) -> pd.DataFrame:
    """Rows that the real tool answered, some twice."""
    frame = pd.read_csv(DATA / "recorded" / "astra-sim" / "collectives.csv", dtype=str, keep_default_na=False)
    return frame.sample(count, replace=True, random_state=seed).reset_index(drop=True)


def test_every_row_gets_the_answer_of_its_own_case() -> None:
    frame = recorded(400, 1)
    frame.loc[::7, "collective"] = "all_to_none"
    found = case_table.answer_cases(frame)
    cases = [case_table.parse_case(row) for row in frame.to_dict("records")]
    reasons = [outside_model(case) for case in cases]
    expected = [pd.NA if reason else int(cycles) for cycles, reason in zip(frame["cycles_max"], reasons, strict=True)]
    assert found["reason"].tolist() == reasons and found["cycles_max"].tolist() == expected
    assert found.drop(columns=["cycles_max", "reason"]).rename(columns={"cycles_max_given": "cycles_max"}).equals(frame)
    assert case_table.answer_cases(frame.iloc[:0]).empty


ODD = {
    "size_bytes": ["1e6", " 64", "+64", "0064", "1_000", "0", "-5", "64.0", "", "10000000000000001", "3"],
    "npus_per_dim": ["2", "1", "3", "6", "0", "4x", "x", "1048577", "2x3x4", "2x2x2x2x2", "+2"],
    "bandwidth_gib_per_s": ["inf", "nan", "0", "-1", "1e-400", "5_0", " 7 ", "4e2"],
    "latency_ns": ["0", "-0.0", "1e13", "nan", "1e12", "07"],
    "topology": ["Ring+Ring", "ring", "", "Switch+", "FullyConnected"],
    "algorithm_per_dim": ["direct3", "direct", "halvingDoubling", "doubleBinaryTree", "direct3x", "ring+ring"],
    "backend": ["Congestion_Aware", "congestion_aware"],
    "collective": ["all_to_all", "all_gather", "broadcast"],
    "preferred_dataset_splits": ["1", "64", "65537", "0", "1000000"],
    "queues_per_dim": ["2", "x"],
    "npus": ["", "7", "8"],
    "collective_optimization": ["baseline", "none"],
    "scheduling_policy": ["FIFO", "SJF"],
}


@given(st.integers(0, 400), st.lists(st.sampled_from([(name, text) for name, texts in ODD.items() for text in texts]), max_size=3))
@settings(max_examples=120, deadline=None)
def test_a_column_at_a_time_is_a_row_at_a_time(place: int, changes: list[tuple[str, str]]) -> None:
    """What is read by columns is what the row says; what is not is refused, has a reason, or is spelt in another way."""
    frame = recorded(401, 2).iloc[[place]].rename(columns={"bandwidth_GBps": "bandwidth_gib_per_s"}).assign(**dict(changes))
    arrays, plain = columns.side_by_side(frame, case_table.DEFAULTS)
    try:
        case = case_table.parse_case({**case_table.DEFAULTS, **frame.iloc[0].to_dict()})
    except InputError:
        assert not plain[0]
        return
    if outside_model(case) or len(case.network.topology) > closed_forms.MOST_DIMENSIONS:
        assert not plain[0]
    elif plain[0]:
        expected, _ = columns.of_cases([case])
        for name, ours, theirs in zip(expected._fields, arrays, expected, strict=True):
            used = slice(len(case.network.topology))
            assert np.array_equal(np.atleast_1d(ours[0])[used], np.atleast_1d(theirs[0])[used]), name
    else:
        assert any(text.strip("0123456789") or text.startswith("0") for name, text in changes if name in ("size_bytes", "npus_per_dim"))


def test_the_help_names_every_default() -> None:
    assert all(name in told and f"({value.removesuffix('.0')})" in told for name, value in case_table.DEFAULTS.items())


def test_every_odd_cell_is_refused_or_answered_as_kept() -> None:
    """Each text of `ODD` in one row; refusals with key and line."""
    base = recorded(401, 2).iloc[[7]].rename(columns={"bandwidth_GBps": "bandwidth_gib_per_s"}).drop(columns="cycles_max")
    found = {
        f"{name} {text!r}": answer(
            lambda name=name, text=text: case_table.answer_cases(base.assign(**{name: text}).reset_index(drop=True), "c.csv")[
                ["cycles_max", "reason"]
            ].astype(str)
        )
        for name, texts in ODD.items()
        for text in texts
    }  # type: ignore[misc]
    for missing in ("size_bytes", "topology", "queues_per_dim"):
        found[f"without {missing}"] = answer(
            lambda missing=missing: case_table.answer_cases(base.drop(columns=missing), "c.csv")[["cycles_max", "reason"]].astype(str)
        )  # type: ignore[misc]
    kept("odd_collectives", found)
