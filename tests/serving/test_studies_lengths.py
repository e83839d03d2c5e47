"""Serving time from the lengths of the requests: one batch by hand, and the frozen errors against the published cases."""

import numpy as np
import pandas as pd
import pytest

from analysis.artifact.publishing.fetching.convert import pipeweave_place
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.serving.step_time.roofline import Roofline
from analysis.studies.serving import lengths as studies_lengths
from analysis.tables import read_csv
from analysis.workloads import models


def test_a_batch_by_hand() -> None:
    """Two prompts of 1,000 and 3,000 tokens on an A100 at data-sheet rates: arithmetic of 4,000 tokens, pairs, and 9 steps of decoding."""
    llama, a100 = models.load("llama-2-7b"), devices.load("A100-SXM4-80GB")
    prefill, decode, total = studies_lengths.batch_s(Roofline(llama, a100), np.array([1000.0, 3000.0]), 10)
    linear = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008)
    pairs = (1000 * 1001 + 3000 * 3001) / 2
    output = 2 * 4096 * 32000 / a100.memory_bandwidth_bytes_per_s
    expected = (2 * linear * 4000 + 4 * 32 * 4096 * pairs) / 312e12 + output
    assert prefill == pytest.approx(expected, rel=0.01)
    cache = (4000 + 2 * 5) * 2 * 2 * 32 * 4096
    assert decode == pytest.approx((2 * linear + cache) / a100.memory_bandwidth_bytes_per_s + output, rel=0.01)
    assert total == pytest.approx(prefill + 9 * decode)


def test_frozen_errors_of_the_peers_are_the_published_ones() -> None:
    """PipeWeave's own comparison prints 1.78 % for Llama-3.1-70B arxiv_16 on four A100; the forty cases of each predictor are the same."""
    frame = read_csv(DATA / "frozen" / "serving_steps" / "lengths.csv")
    assert set(frame.groupby("method").size()) == {40}
    keys = {"method": "pipeweave", "hardware": "A100", "model": "Llama-3.1-70B", "workload": "arxiv_16"}
    row = frame[np.logical_and.reduce([frame[name] == value for name, value in keys.items()])].iloc[0]
    assert row["total_percent"] == pytest.approx(1.78, abs=0.005)


def test_requests_of_different_lengths_are_refused() -> None:
    cases = pd.DataFrame([{"Hardware": "A100", "TP": 1, "Model": "Qwen2.5-14B", "Workload": "w"}])
    workloads = {"w": pd.DataFrame({"num_prefill_tokens": [5, 6], "output_tokens": [3, 4]})}
    with pytest.raises(ValueError, match="different lengths"):
        studies_lengths.predict(cases, workloads, studies_lengths.Shares(0.5, 0.8, 0.001))


def test_lengths_are_fetched_with_the_other_files() -> None:
    assert pipeweave_place("workload/arxiv_8.csv") == "workload/arxiv_8.csv"
    listed = read_csv(DATA / "sources" / "files.csv")
    assert (listed["path"] == "workload/arxiv_8.csv").any()
