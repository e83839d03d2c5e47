"""The tornado and the gradient: faster never slower, and a time is homogeneous of degree one in all times."""

from analysis.studies.training.sensitivity import RATES, elasticities, tornado
from analysis.training.cases import case
from analysis.training.views import PART_NAMES

RUN = {"model": "llama-2-70b", "system": "HGX-H100", "gpus": "128", "tensor_parallel": "8", "pipeline_parallel": "4"}
ITEM = case({**RUN, "global_batch": "128", "sequence_length": "4096"})


def test_every_part_of_the_work_has_one_rate() -> None:
    assert sorted(name for names in RATES.values() for name in names) == sorted(PART_NAMES)


def test_a_share_moves_the_step_by_no_more_than_its_own_range() -> None:
    table = tornado(ITEM)
    assert table["swing_s"].is_monotonic_decreasing and {"product_16", "stream", "attention"} <= set(table["what"])
    for row in table.to_dict("records"):
        assert row["low_s"] <= row["base_s"] <= row["high_s"], row["what"]
        power = 2 if row["what"] == "imbalance" else 1  # it counts once for every doubling of the nodes, under a root
        assert row["high_s"] / row["low_s"] <= (row["high"] / row["low"]) ** power * (1 + 1e-9), row["what"]


def test_the_gradient_is_that_of_a_time() -> None:
    table = elasticities(ITEM)
    assert (table["elasticity"] <= 1e-9).all() and (table["doubled"] <= 1).all() and table["doubled"].is_monotonic_increasing
    assert -1 - 1e-4 < table["elasticity"].sum() < -0.95  # the rest lies between two steps, and no rate of the hardware shortens it
