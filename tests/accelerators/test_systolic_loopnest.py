"""Two independent models of one array: the loop nest and the systolic formulas agree on every access, and differ by the skew alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.accelerators.systolic.array import Quirks, count
from analysis.studies.accelerators.systolic.as_loopnest import as_loop_nest


@settings(max_examples=120, deadline=None)
@given(
    down=st.integers(1, 6),
    across=st.integers(1, 6),
    time=st.integers(1, 40),
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
    dataflow=st.sampled_from(["os", "ws", "is"]),
)
def test_whole_folds(down: int, across: int, time: int, rows: int, columns: int, dataflow: str) -> None:
    s_r, s_c = down * rows, across * columns
    m, n, k = {"os": (s_r, s_c, time), "ws": (time, s_c, s_r), "is": (s_c, time, s_r)}[dataflow]
    nest, formula = as_loop_nest(m, n, k, rows, columns, dataflow), count(m, n, k, rows, columns, dataflow)
    assert nest.cycles == down * across * time
    assert nest.cycles + nest.missing_cycles == formula.demand_rows
    assert nest.ifmap_sram_reads == formula.ifmap_sram_reads
    assert nest.filter_sram_reads == formula.filter_sram_reads
    assert nest.ofmap_sram_writes == formula.ofmap_sram_writes


@settings(max_examples=60, deadline=None)
@given(m=st.integers(1, 60), n=st.integers(1, 60), k=st.integers(1, 60), dataflow=st.sampled_from(["os", "ws", "is"]))
def test_edge_folds_cost_full_folds_as_in_scale_sim(m: int, n: int, k: int, dataflow: str) -> None:
    nest = as_loop_nest(m, n, k, 8, 4, dataflow)
    assert nest.cycles + nest.missing_cycles == count(m, n, k, 8, 4, dataflow, Quirks(full_edge_folds=True)).demand_rows


def test_unknown_dataflow() -> None:
    with pytest.raises(ValueError, match="'rs'"):
        as_loop_nest(1, 1, 1, 1, 1, "rs")
