"""A compute-in-memory macro against what Jia et al. print (IEEE JSSC 55, 2020; data/published/in_memory.csv), and laws."""

import pandas as pd
import pytest

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.accelerators.in_memory import Macro, product

MACRO = Macro(rows=2304, columns=256, slice_s=1.35e-6, column_j=1.79e-12 + 9.7e-12, datapath_j=8.3e-12)


def test_printed_throughput_and_efficiency_follow_from_the_printed_parts() -> None:
    printed = pd.read_csv(DATA / "published" / "in_memory.csv").set_index(["quantity", "setting"])["value"]
    ours = product(MACRO, m=1, n=256, k=2304, datapath=False)
    assert ours.op_per_s == pytest.approx(printed["throughput", "0.85 V, 1 bit"], rel=0.001)
    assert ours.op_per_j == pytest.approx(printed["efficiency", "0.85 V, 1 bit"], rel=0.005)
    assert ours.utilization == 1 and ours.macros == 1


def test_wider_numbers_cost_in_proportion_and_ragged_products_waste() -> None:
    one, eight = product(MACRO, 4, 100, 2304), product(MACRO, 4, 100, 2304, input_bits=8, weight_bits=8)
    assert eight.latency_s == pytest.approx(8 * one.latency_s) and eight.energy_j == pytest.approx(64 * one.energy_j)
    assert eight.macros == 4
    ragged = product(MACRO, 1, 256, 2305)
    assert ragged.macros == 2 and ragged.utilization == pytest.approx(2305 / 4608)
    with pytest.raises(InputError, match="k"):
        product(MACRO, 1, 1, 0)
