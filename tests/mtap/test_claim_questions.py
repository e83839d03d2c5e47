"""Small questions that claims ask, against the survey draft's text."""

from __future__ import annotations

from analysis.artifact.mtap import arithmetic


def test_answers_to_claims() -> None:
    assert arithmetic.gamma_of_overprediction() == 0.2  # |0.8 - 1| / 1
    assert arithmetic.largest_printed_error("VIDUR") == 5  # table 5: <5 %
    assert arithmetic.holes("D2", "gamma >= 0.1 and <= 0.2") == 1
    assert arithmetic.holes("D4", "minutes_to_first_prediction") == 1
    assert arithmetic.thresholds("D1", 3) == [5, 0.95]  # table 3
    assert arithmetic.thresholds("D1", 2) == [5, 15]
    assert arithmetic.thresholds("D4", 0) == [30, 120]
    # table 4 assigns VIDUR D1 D3 D4, Timeloop D1 D2, ASTRA-sim D1 D2 D3, NeuSight D1 D2 D3, nn-Meter D1 D3 D4: 14 of 25
    assert arithmetic.graded_without_a_cell() == 25 - 14
