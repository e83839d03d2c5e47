"""The tornado: faster never slower, and nothing moves the step by more than its own range."""

from analysis.training.plan import Plan, Training
from analysis.training.sensitivity import elasticities, tornado


def test_faster_parts_never_slow_the_step() -> None:
    plan = Plan(tensor_parallel=8, pipeline_parallel=4, data_parallel=4, global_batch=128, sequence_length=4096, sequence_parallel=True)
    table = tornado(Training(model="llama-2-70b", system="HGX-H100", plan=plan))
    for row in table.to_dict("records"):
        slower, faster = (row["high_s"], row["low_s"]) if row["what"] == "launch time" else (row["low_s"], row["high_s"])
        assert faster <= row["base_s"] <= slower, row["what"]
        assert slower / faster <= row["high"] / row["low"] * (1 + 1e-9), row["what"]
    assert table["swing_s"].is_monotonic_decreasing
    assert set(table["what"]) >= {"memory bandwidth", "matrix efficiency", "nvlink bandwidth", "infiniband bandwidth"}


def test_the_gradient_is_that_of_a_time() -> None:
    plan = Plan(tensor_parallel=8, pipeline_parallel=4, data_parallel=4, global_batch=128, sequence_length=4096, sequence_parallel=True)
    table = elasticities(Training(model="llama-2-70b", system="HGX-H100", plan=plan)).set_index("what")
    slope = table["elasticity"]
    assert slope["launch time"] > 0 and (slope.drop("launch time") <= 1e-9).all() and (table["doubled"] <= 1).all()
    # homogeneous of degree one in times; the rest is the latency of messages, which no parameter here scales
    total = slope["launch time"] - slope.drop("launch time").sum()
    assert 0.85 < total <= 1 + 1e-6
