"""`core rank` says how often such an order was right on programs that the model had not seen."""

import math

from analysis.studies.cores.system.rank import doubt


def test_the_doubt_is_that_of_the_programs_left_out() -> None:
    # data/frozen/cores_model/cycles.csv: 18 programs, each left out once, 10 pairs of designs each
    share = {gap: doubt(gap)[0] for gap in (0.01, 0.03, 0.1)}
    assert 0.5 < share[0.01] < share[0.03] < share[0.1] <= 1
    assert doubt(0.01)[1] >= 20
    assert math.isnan(doubt(1.0)[0]) and doubt(1.0)[1] < 10


def test_unseen_code_is_doubted_more_than_code_that_was_trained_on() -> None:
    assert doubt(0.01, "unseen programs")[0] < doubt(0.01, "held-out windows")[0]


def test_on_unseen_programs_the_network_orders_as_the_first_order_model_does() -> None:
    for gap in (0.01, 0.03, 0.1):
        assert doubt(gap) == doubt(gap, model="first-order model, nothing learned")
