"""The arithmetic of the claims, each number with where it stands in the documents or how it is worked by hand."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analysis.artifact.claims import arithmetic as plain
from analysis.artifact.claims import arithmetic_neuroscalar as neuroscalar
from analysis.artifact.claims import arithmetic_survey as survey
from analysis.artifact.claims import equations
from analysis.artifact.claims.contradictions import listing
from analysis.artifact.claims.findings import read_findings
from analysis.artifact.claims.ledger import read_ledger
from analysis.errors import InputError
from analysis.paths import DATA

PAIRWISE = "published/neuroscalar_pairwise"


def test_scores_of_the_survey():
    # survey, section 7.6: S(VIDUR) = 0.4x2 + 0.2x3 + 0.2x1 + 0.1x3 + 0.1x2 = 2.1, and 2.2, 2.1, 1.6, 0.0
    assert survey.scores(["VIDUR", "ASTRA-sim", "Timeloop", "NeuSight", "nn-Meter"], "base") == [2.1, 2.2, 2.1, 1.6, 0.0]
    # by hand from the grades: ASTRA-sim (2+2+2+3+3)/5 = 2.4; 0.2x2 + 0.2x2 + 0.1x2 + 0.3x3 + 0.2x3 = 2.5
    assert survey.scores(["ASTRA-sim", "VIDUR", "Timeloop", "NeuSight", "nn-Meter"], "uniform") == [2.4, 2.2, 2.2, 1.4, 0.0]
    assert survey.scores(["ASTRA-sim", "VIDUR", "Timeloop", "NeuSight", "nn-Meter"], "deployment") == [2.5, 2.4, 2.2, 1.4, 0.0]
    # VIDUR with D2 = Medium: 2.1 - 0.2 = 1.9
    assert survey.score("VIDUR", "base", {"d2": 2}) == 1.9


def test_rank_correlation_with_the_tie():
    # ranks of error 1..5 (nn-Meter to ASTRA-sim), of score 1, 2, 3.5, 3.5, 5: sum d^2 = 0.5, tie-corrected 0.9747
    rho, p = survey.accuracy_with_p()
    assert rho == pytest.approx(math.sqrt(0.95), abs=1e-12)
    assert p == pytest.approx(4 / 120)
    # without the tie: 1 - 6 x 2 / (5 x 24) = 0.9, and 10 of 120 orders are as extreme
    assert survey.accuracy_against_score_p("deployment") == pytest.approx(10 / 120)


def test_table_7_implies_different_requests():
    # (0.177 - 0.027) / 0.0093 = 16.13 and (0.158 - 0.025) / 0.0090 = 14.78
    assert survey.output_tokens("vllm") == pytest.approx(0.150 / 0.0093)
    assert survey.output_tokens("sarathi") == pytest.approx(0.133 / 0.0090)
    assert survey.sarathi_at_equal_length() == pytest.approx(0.025 + 0.0090 * 0.150 / 0.0093)


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=50), st.floats(0.1, 50.0))
def test_hit_rate_bounds_hold_for_any_errors(errors, band):
    rate = sum(error <= band for error in errors) / len(errors)
    mean = sum(errors) / len(errors)
    assert survey.smallest_mean_error(rate, band) <= mean + 1e-9
    assert mean <= survey.largest_mean_error(rate, band, max([band, *errors])) + 1e-9


def test_parameters_of_the_lstm():
    # NeuroScalar, appendix: total 1,073,348; a bidirectional layer has two directions and hands 512 on
    assert neuroscalar.lstm_parameters() == 1_073_348 == plain.parameters("claims/printed/neuroscalar_parameters")
    layers = 2 * 4 * 256 * (256 + 256 + 2) + 2 * 4 * 256 * (512 + 256 + 2)
    heads = 64 * 512 + 64 + 64 * 2 + 2 + 2 * (512 + 1)
    assert neuroscalar.lstm_parameters(bidirectional=True) == 256 * 14 + layers + heads == 2_667_204
    assert neuroscalar.lstm_parameters(hidden=128, bidirectional=True) == 811_204


def test_parameters_equal_torchs_count_for_any_shape():
    # torch.nn.LSTM: per layer and direction weight_ih 4h x in, weight_hh 4h x h, two biases 4h
    # a projection of 16, hidden 1, one layer: 64 + 4 + 4 + 4 = 76; projection 13 x 16 + 16 = 224; heads 64 + 64, 128 + 2, twice 1 + 1
    assert neuroscalar.lstm_parameters(hidden=1, layers=1, projection=16) == 76 + 224 + 128 + 130 + 4
    # hidden 8, two layers: (32x16 + 32x8 + 64) + (32x8 + 32x8 + 64) = 832 + 576; 224; 64x8 + 64; 130; 2 x 9
    assert neuroscalar.lstm_parameters(hidden=8, layers=2, projection=16) == 832 + 576 + 224 + 576 + 130 + 18


def test_cycles_clock_and_sampling():
    # 8 x 256 x 256 / 256 = 2048; 8192 / 8264 = 99.13 %; 152642 x 1e5 / 3e9 = 5.088 s
    assert neuroscalar.layer_cycles() == 2048
    assert neuroscalar.utilization_pct(4) == pytest.approx(99.13, abs=0.005)
    assert neuroscalar.utilization_pct(1) == pytest.approx(24.78, abs=0.005)
    assert neuroscalar.neutrino_epoch_s() == pytest.approx(5.08807, abs=1e-5)
    assert neuroscalar.neutrino_epoch_s(8) == pytest.approx(0.636)
    assert neuroscalar.gpu_epoch_s(4.0) == pytest.approx(25.0)
    assert neuroscalar.gpu_epoch_instructions(4.0) == pytest.approx(75e9)
    assert neuroscalar.clock_mhz(2 * 8264) == pytest.approx(324.84, abs=0.01)


def test_energy_area_and_buffers():
    # 0.019654 M / 0.028 W = 701.9 k/J; 5.916 M / 450 W = 13.15 k/J; 53.4
    assert neuroscalar.energy_ratio() == pytest.approx(701.92 / 13.1473, rel=1e-4)
    # 701.92 k/J / 85 = 8.258 k/J: 3.716 MIPS at 450 W
    assert neuroscalar.gpu_mips_for_energy_ratio() == pytest.approx(3.716, abs=5e-4)
    # 5.916285 / 0.0196538 = 301.02
    assert neuroscalar.performance_gain() == pytest.approx(1 / 301.02, rel=1e-4)
    assert neuroscalar.area_ratio() == pytest.approx(608 / 2.04)


def test_pairwise_matches():
    # NeuroScalar, appendix: 160 cells, 81.01 to 96.50
    assert plain.count_rows(PAIRWISE) == 160
    assert plain.of_column(PAIRWISE, "match", "mean") == pytest.approx(91.10, abs=0.005)
    assert plain.of_column(PAIRWISE, "match", "min") == 81.01 and plain.of_column(PAIRWISE, "match", "max") == 96.5
    assert plain.count_where(PAIRWISE, "match", "at least", 95) == 30


def test_printed_tables_add_up():
    assert plain.sum_of("claims/printed/survey_table1", ["accelerator", "gpu", "distributed", "edge", "cpu"]) == 30
    assert plain.count_rows("claims/printed/survey_table2") == 22
    columns = {"within1": "within1", "acc_round": "acc_round(last col)"}
    differing = plain.cells_that_differ("claims/printed/neuroscalar_table5", "published/neuroscalar_appendix_metrics", "bench", columns)
    assert differing == 0
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        printed = plain.cell("claims/printed/survey_table8_collectives", {"collective": name}, "ratio")
        assert survey.collective_ratio(name) == pytest.approx(printed, abs=0.0005)


def test_equations_on_small_examples():
    assert equations.message_passing_example() == [2.0, 2.0, 1.0]
    assert equations.granite_example() == [2.0, 3.0, 2.0]
    assert equations.attention_example() == pytest.approx([1.0, 0.0])
    assert equations.tiles_printed_over_right(10, 108) == pytest.approx(10.8)


@given(st.integers(1, 30), st.integers(1, 30))
def test_printed_tile_equation_is_off_by_tiles_over_waves(waves, tiles):
    assert equations.tiles_printed_over_right(waves, tiles) == pytest.approx(tiles / waves)


def test_the_list_names_claims_and_findings_that_exist():
    claims = {**read_ledger(DATA / "claims" / "ledger.csv"), **read_findings(DATA / "claims" / "findings.yaml")}
    named = [name.strip() for entry in listing()["claims"] for name in entry.split(";")]
    assert len(listing()) >= 15 and not [name for name in named if name not in claims]


@pytest.mark.parametrize("follows", ["{no_such_value}", "{sqrt_law:.1q}", "{}", "{sqrt_law"])
def test_words_with_a_value_that_is_not_there_are_one_line(tmp_path, follows):
    path = tmp_path / "contradictions.yaml"
    entry = {"title": "t", "document": "d", "printed": "p", "follows": follows, "claims": "c"}
    path.write_text(yaml.safe_dump({"contradictions": [entry]}))
    with pytest.raises(InputError, match=r"contradictions\.1\.follows") as caught:
        listing(path)
    assert "\n" not in str(caught.value)


def test_tables_and_cells_that_are_not_there():
    with pytest.raises(ValueError, match="no such file"):
        plain.cell("claims/printed/nothing", {}, "x")
    with pytest.raises(ValueError, match="found 0"):
        plain.cell("claims/printed/survey_table5", {"tool": "Paleo"}, "score")
