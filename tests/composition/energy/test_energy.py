"""Published joules: the transcription against its own identities, and the power model by hand."""

import numpy as np
import pytest

from analysis.composition.energy import published, study
from analysis.composition.energy.work import work
from analysis.composition.service import constants
from analysis.hardware.power import fit, load
from analysis.operators.kernels import gpus

REQUESTS = 1024
"""Of the chat task, or a multiple (https://github.com/ml-energy/benchmark configs/vllm/lm-arena-chat/benchmark.yaml)."""


def test_the_table_keeps_the_identities_of_its_source() -> None:
    """Energy a token is power over throughput, in each row of the source; lengths are sums of whole tokens over whole requests."""
    rows = published.rows()
    assert len(rows) == 225
    np.testing.assert_allclose(rows["output_token_j"], rows["power_w"] / rows["output_tokens_per_s"], rtol=1e-7)
    tokens = rows["output_tokens"] * REQUESTS * 30
    np.testing.assert_allclose(tokens, tokens.round(), atol=0.05)
    assert (rows["batch"] <= rows["max_sequences"]).all()
    assert (rows["mean_gap_ms"] > rows["median_gap_ms"]).all()


def test_rows_of_the_source() -> None:
    """https://github.com/ml-energy/leaderboard public/data/tasks/lm-arena-chat.json at commit 0ea52b6: Llama 3.1 8B on H100, 128."""
    rows = published.rows()
    row = rows[(rows["model"] == "meta-llama/Llama-3.1-8B-Instruct") & (rows["gpu"] == "H100") & (rows["max_sequences"] == 128)].iloc[0]
    assert row["power_w"] == pytest.approx(669.2439022030471)
    assert row["output_token_j"] == pytest.approx(0.09510991243206074)
    assert row["median_gap_ms"] == pytest.approx(16.482017002999783)


def test_work_of_a_dense_model_by_hand() -> None:
    """Llama 3.1 8B, H100 (3,350 GB/s, 989 TFLOP/s, 700 W): 32 layers, 8 KV heads of 128, bf16."""
    rows = published.rows()
    row = rows[(rows["model"] == "meta-llama/Llama-3.1-8B-Instruct") & (rows["gpu"] == "H100")].iloc[0].to_dict()
    found = work(published.case(row), 100.0, 200.0, 400.0)
    matrices = 32 * (4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 14336)
    cache = 100 * 400 * 32 * 2 * 8 * 128 * 2
    assert found.memory_s == pytest.approx((2 * (matrices + 4096 * 128256) + cache) / 3.35e12, rel=1e-3)
    attention = 4 * 128 * 32 * 32 * 100 * 400
    assert found.compute_s == pytest.approx((2 * 150 * matrices + 2 * 100 * 4096 * 128256 + attention) / 989e12, rel=2e-3)
    assert gpus.load("h100_sxm").tdp_w == 700


def test_the_fit_finds_the_constants_that_made_its_rows() -> None:
    generator = np.random.default_rng(0)
    memory, compute = generator.uniform(0, 0.4, (2, 50))
    found = fit(0.5 + 0.3 * memory + 0.2 * compute, memory, compute)
    assert (found.base, found.memory, found.compute) == pytest.approx((0.5, 0.3, 0.2))
    assert load().share(1.0, 1.0) == 1.0


def test_a_family_is_judged_without_its_own_rows() -> None:
    """Constants of a left-out family do not change with its own power."""
    rows = published.rows().assign(limit_w=700.0, memory_ms=5.0, compute_ms=2.0, active_parameters=1e9, tpot_ms=20.0)
    changed = rows.assign(power_w=rows["power_w"].where(rows["family"] != "Qwen3-8B", 100.0))
    before, after = (study.held_out(frame, "family").query("family == 'Qwen3-8B'") for frame in (rows, changed))
    np.testing.assert_array_equal(before["power_j"], after["power_j"])


def test_no_fit_knows_this_source() -> None:
    """The predictor's constants and intervals are of another source's rows, and no group of theirs has this origin (`spread` apart)."""
    shipped = constants.load()
    assert "silicon_sample.csv" in shipped.fitted_on and "served_energy" not in shipped.fitted_on
    groups = [*shipped.tpot.coefficients, *shipped.ttft.coefficients, *shipped.tpot_interval.groups, *shipped.ttft_interval.groups]
    assert not [name for name in groups if published.ORIGIN in name]
    assert {published.case(row).origin for row in published.rows().head(20).to_dict("records")} == {published.ORIGIN}
