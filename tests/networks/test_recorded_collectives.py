"""Every recorded run of ASTRA-sim's analytical backends, to the cycle. Source: data/recorded/astra-sim/collectives.csv."""

import pandas as pd
import pytest

from analysis.networks.case_table import answer_cases, parse_case
from analysis.networks.cases import AWARE, CollectiveCase, Network
from analysis.networks.collectives import closed_forms, simulate_collective
from analysis.paths import DATA
from analysis.studies.networks.one_collective import collective_cycles
from analysis.tables import read_csv

RECORDED = DATA / "recorded" / "astra-sim"


@pytest.fixture(scope="module")
def recorded() -> pd.DataFrame:
    return read_csv(RECORDED / "collectives.csv", dtype=str, keep_default_na=False)


def test_every_run_to_the_cycle(recorded: pd.DataFrame) -> None:
    """All 2,647 completed runs; no table of exceptions is needed."""
    answers = answer_cases(recorded)
    done = answers[answers["status"] == "ok"]
    assert len(done) == 2647
    assert (done["cycles_max"] == done["cycles_max_given"].astype(float)).all()
    # the 43 that the tool aborted are the congestion-aware rings of two NPUs; they get a reason and no number
    aborted = answers[answers["status"] == "rc-6"]
    assert len(aborted) == 43
    assert aborted["cycles_max"].isna().all()
    assert aborted["reason"].str.contains("aborts on a congestion-aware ring of 2").all()


def test_formulas_alone_give_the_recorded_cycles(recorded: pd.DataFrame) -> None:
    """A quarter of the completed runs: wherever there is a formula, and there is one for more than nine in ten, it is the tool's figure."""
    runs = recorded[recorded["status"] == "ok"].iloc[::4]
    found = closed_forms([parse_case(row) for row in runs.to_dict("records")])
    expected = runs["cycles_max"].astype(int).to_numpy()
    known = found >= 0
    assert (found[known] == expected[known]).all() and known.mean() > 0.9


def test_columns_and_rows_are_kept(recorded: pd.DataFrame) -> None:
    asked = recorded.drop(columns=["status", "cycles_max", "cycles_min", "cycles_per_npu", "sim_wall_s"]).iloc[::50]
    answers = answer_cases(asked)
    assert list(answers.columns) == [*asked.columns, "cycles_max", "reason"]
    pd.testing.assert_frame_equal(answers[list(asked.columns)], asked)


def test_each_npu_event_by_event(recorded: pd.DataFrame) -> None:
    """Times of every NPU from the event-driven simulation, also where a formula exists: a third of the runs of up to 16 NPUs."""
    runs = recorded[(recorded["status"] == "ok") & (recorded["npus"].astype(int) <= 16)].iloc[::3]
    for row in runs.to_dict("records"):
        each = simulate_collective(parse_case(row)).cycles
        expected = [int(part) for part in row["cycles_per_npu"].split(";")]
        assert each.tolist() == expected * (len(each) // len(expected)), row


@pytest.mark.parametrize(
    ("collective", "cycles"),
    [("all_reduce", 57426), ("all_gather", 44058), ("reduce_scatter", 28950), ("all_to_all", 114000)],
)
def test_survey_table_8(collective: str, cycles: int) -> None:
    """The survey's four collectives, 8 NPUs and 1 MiB: its Table 8."""
    network = Network(backend=AWARE, active_chunks_per_dim=2)
    answer = collective_cycles(CollectiveCase(collective, 1 << 20, network))
    assert answer.cycles == cycles
    assert set(answer.per_npu) == {cycles}


def test_unaware_or_one_chunk_gives_other_numbers() -> None:
    """The survey's figures need both the congestion-aware backend and two active chunks."""
    for backend, active in (("Congestion_Unaware", 2), (AWARE, 1)):
        network = Network(backend=backend, active_chunks_per_dim=active)
        assert collective_cycles(CollectiveCase("all_reduce", 1 << 20, network)).cycles != 57426
