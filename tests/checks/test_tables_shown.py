"""What a reader sees of a table: three figures, alike in a column; whole numbers whole; words and units for column names."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from analysis.artifact.publishing import pages, words


@pytest.mark.parametrize(
    ("name", "values", "shown"),
    [
        ("error", [3.4631, 12.0, 0.4567], ["3.46", "12.00", "0.46"]),  # of one size: two decimals everywhere
        ("score", [2.0, 1.8, 2.2, 0.0], ["2.00", "1.80", "2.20", "0"]),
        ("gpus", [8.0, 16.0, 4.5], ["8", "16", "4.50"]),  # mostly whole
        ("share", [0.00012345, 3.5, 1200.4], ["0.000123", "3.5", "1,200"]),  # of many sizes: three figures each
        ("cycles", [1053696, 57426], ["1,053,696", "57,426"]),
        ("p", [0.0, 0.03333], ["0", "0.0333"]),
        ("tiny", [2e-9, 5.0], ["2.0e-09", "5"]),
        ("printed", [0.1765, 0.15814], ["0.1765", "0.15814"]),  # compared digit by digit
        ("right", [True, False], ["yes", "no"]),
        ("gap", [1.5, None], ["1.50", ""]),
        ("bias", [-0.0227, 20.3, -31.6, None], ["0.0", "20.3", "-31.6", ""]),  # small by chance
        ("count", [-12, 5, 0], ["-12", "5", "0"]),
    ],
)
def test_numbers_are_rounded_to_what_a_reader_needs(name: str, values: list[object], shown: list[str]) -> None:
    assert [row[0] for row in pages.cells(pd.DataFrame({name: values}))] == shown


@pytest.mark.parametrize(
    ("column", "about", "title"),
    [
        ("mcycles", "million cycles", "million cycles"),
        ("energy_uj", "energy", "energy (µJ)"),
        ("mae", "mean absolute error", "mean absolute error"),
        ("error", "error of the whole (%)", "error (%)"),
        ("npus", "NPUs (count)", "NPUs"),
        ("measured_gb_s", "", "measured (GB/s)"),
        ("always_zero_percent", "", "always zero (%)"),
        ("zero", "ZeRO stage (0 to 3)", "ZeRO"),
    ],
)
def test_columns_have_titles_in_words(column: str, about: str, title: str) -> None:
    assert words.heading(column, about) == title


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("megatron_sc21", "Megatron SC21"),
        ("mlperf_gpt3", "MLPerf: GPT-3"),
        ("vLLM", "vLLM"),
        ("all_reduce", "all-reduce"),
        ("s000.tab7.e2e", "s000.tab7.e2e"),
    ],
)
def test_keys_in_cells_are_words(key: str, shown: str) -> None:
    assert pages.cells(pd.DataFrame({"source": [key]})) == [[shown]]


def test_keys_in_figures_are_words() -> None:
    """Ticks that were set, ticks of categories and legends: what a reader sees when the figure is drawn."""
    fig, (one, two) = plt.subplots(1, 2)
    one.set_yticks([0, 1], ["megatron_sc21", "vllm"])
    two.bar(["all_reduce", "ring"], [1, 2], label="mlperf_gpt3")
    two.legend()
    words.spell(fig)
    fig.canvas.draw()
    seen = [text.get_text() for axis in (one.yaxis, two.xaxis) for text in axis.get_ticklabels()]
    assert {"Megatron SC21", "vLLM", "all-reduce", "ring"} <= set(seen)
    assert [text.get_text() for text in two.get_legend().get_texts()] == ["MLPerf: GPT-3"]
    plt.close(fig)


def test_costs_are_numbers_of_the_prose() -> None:
    """`{num}` prints the seconds and memory of notebooks/costs.csv and make_costs.csv, marked as measured."""
    known = pages.manifest("costs")
    assert known is not None
    assert known["numbers"]["claims"]["text"].endswith(" s") and known["numbers"]["claims_memory"]["text"].endswith(" GiB")
    assert known["numbers"]["make_book"]["kind"] == "measured"
