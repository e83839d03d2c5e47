"""The tornado: faster never slower, and nothing moves the step by more than its own range."""

from analysis.training.plan import Plan, Training
from analysis.training.sensitivity import tornado


def test_faster_parts_never_slow_the_step() -> None:
    plan = Plan(tensor_parallel=8, pipeline_parallel=4, data_parallel=4, global_batch=128, sequence_length=4096, sequence_parallel=True)
    table = tornado(Training(model="llama-2-70b", system="HGX-H100", plan=plan))
    for row in table.to_dict("records"):
        slower, faster = (row["high_s"], row["low_s"]) if row["what"] == "launch time" else (row["low_s"], row["high_s"])
        assert faster <= row["base_s"] <= slower, row["what"]
        assert slower / faster <= row["high"] / row["low"] * (1 + 1e-9), row["what"]
    assert table["swing_s"].is_monotonic_decreasing
    assert set(table["what"]) >= {"memory bandwidth", "matrix efficiency", "nvlink bandwidth", "infiniband bandwidth"}
