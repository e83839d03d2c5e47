"""The most consequential contradictions, one line each: what is printed and what follows from the document's own numbers or a source."""

from __future__ import annotations

import pandas as pd

from analysis.claims import arithmetic as plain
from analysis.claims import arithmetic_neuroscalar as neuroscalar
from analysis.claims import arithmetic_survey as survey
from analysis.claims.contradictions import APPENDIX, PAIRWISE, TOOLS, Contradiction, repository, timeloop_conv1
from analysis.claims.equations import tiles_printed_over_right
from analysis.composition.errors import claimed_model_error, model_error

LAST = "acc_round(last col)"


def _scores(scheme: str) -> str:
    return " / ".join(f"{value:.1f}" for value in survey.scores(TOOLS, scheme))


def _survey() -> list[Contradiction]:
    rho, p = survey.accuracy_with_p()
    recorded = timeloop_conv1().iloc[1]
    law = [model_error(2.3, 50, correlation) for correlation in (0.0, 1.0)]
    return [
        Contradiction(
            "Errors of kernels do not grow as sqrt(N)",
            "survey",
            "2.3 % a kernel becomes 16 % for 50 kernels",
            f"2.3 x sqrt(50) = {claimed_model_error(2.3, 50):.1f} is in units of one kernel; of the sum it is {law[0]:.2f} % "
            f"(independent) to {law[1]:.1f} % (fully correlated)",
            "s000.sec72.sqrt; s000.sec72.linear",
        ),
        Contradiction(
            "Scores under the other weights",
            "survey",
            "uniform 2.0 / 2.0 / 2.0 / 1.4 / 0.0; deployment-heavy 2.3 / 2.2 / 1.9",
            f"uniform {_scores('uniform')}; deployment-heavy {_scores('deployment')}",
            "s000.sec77.uni; s000.sec77.dep; s000.sec6.within02",
        ),
        Contradiction(
            "The order does change with the weights",
            "survey",
            "ordinal ranking unchanged under three schemes",
            f"base: {survey.ranking('base')}; deployment-heavy: {survey.ranking('deployment')}",
            "s000.sec6.rank",
        ),
        Contradiction(
            "Rank correlation of accuracy and score",
            "survey",
            "rho = -0.9, p < 0.05, called weakly correlated",
            f"|rho| = {rho:.3f} with the tie handled, exact p = {p:.3f}; 0.9 would have exact p = "
            f"{survey.accuracy_against_score_p('deployment'):.3f}; without nn-Meter p = "
            f"{survey.accuracy_against_score_p(leave_out=['nn-Meter']):.3f}",
            "s000.sec77.rho; s000.sec77.weak",
        ),
        Contradiction(
            "Hit rates read as errors",
            "survey, ml_survey",
            "nn-Meter below 1 %, LitePred 0.7 %, HELP 1.9 %",
            "99.0 and 99.3 % are shares of predictions within 10 %; 0.932 is a Spearman correlation: none is an error. On nn-Meter's VPU "
            f"(83.4 %) the error is above {survey.smallest_mean_error(0.834, 10):.2f} %",
            "s000.sec54.nnmeter; s000.sec54.litepred; s000.sec54.help; s000.abs.lowest_fails",
        ),
        Contradiction(
            "Timeloop was not run for its printed result",
            "survey",
            "deterministic, bit-identical outputs across three runs on ResNet-50 layers",
            f"stored: {repository('timeloop_macs'):,.0f} MACs / {repository('timeloop_pes'):.0f} PEs / "
            f"{repository('timeloop_utilization'):.1f} = {repository('timeloop_cycles'):,.0f} cycles and "
            f"{repository('timeloop_energy_uj'):.0f} uJ, with the note that the tool was not executed; a recorded run: "
            f"{recorded['cycles']:,.0f} cycles, "
            f"{recorded['energy_uj']:.0f} uJ",
            "s000.sec63.runs; s001.sec72.dram",
        ),
        Contradiction(
            "NeuSight was not run either",
            "survey",
            "one of five tools evaluated hands-on",
            f"stored predictions were compared with stored labels ({repository('neusight_configurations'):.0f} configurations): "
            f"{repository('neusight_h100_inference_pct'):.2f} % for inference on H100, {repository('neusight_p4_pct'):.1f} % on P4",
            "s000.abs.nevaluated",
        ),
        Contradiction(
            "NeuSight's 2.3 % is an end-to-end figure",
            "survey",
            "kernels at 2.3 %, no composition to models",
            f"{plain.cell('claims/observed/look_ups', {'id': 'neusight_gpt3_h100'}, 'value')} % is the mean of six whole-model cases "
            f"(GPT-3 on H100); over all {plain.cell('claims/observed/look_ups', {'id': 'neusight_whole_model_cases'}, 'value'):.0f} cases "
            f"it is {plain.cell('claims/observed/look_ups', {'id': 'neusight_all'}, 'value')} %",
            "s000.sec52.neusight; s000.sec72.neusight_nocomp; s001.sec1.neusight",
        ),
        Contradiction(
            "VIDUR does compose",
            "survey",
            "profiles whole phases and sidesteps composition; D2 = High",
            f"it predicts {plain.cell('claims/observed/look_ups', {'id': 'vidur_operator_kinds'}, 'value'):.0f} kinds of operator and adds "
            "them up with CPU terms; no gap was ever measured, so the rubric does not give High",
            "s000.sec72.vidur_phase; s000.abs.kto_sys; rubric.vidur.d2",
        ),
        Contradiction(
            "Table 7 compares 200 requests with 50",
            "survey",
            "Sarathi 0.158 s against vLLM 0.177 s: lower latency",
            f"the requests differ: {survey.output_tokens('vllm'):.1f} against {survey.output_tokens('sarathi'):.1f} output tokens; at "
            f"equal length Sarathi would take {survey.sarathi_at_equal_length():.3f} s; at 2 requests/s the mean number in the system is "
            f"{survey.requests_in_system('vllm'):.2f}, and the P99 of 50 requests is their maximum",
            "s000.sec76.sarathi; s000.tab7.sarathi.requests",
        ),
        Contradiction(
            "Collectives do not all match theory",
            "survey",
            "collective ratios match theory, Reduce-Scatter exactly half",
            f"All-Gather takes {survey.collective_ratio('all_gather'):.3f} of All-Reduce where a ring gives 0.5; Reduce-Scatter "
            f"{survey.collective_ratio('reduce_scatter'):.3f}",
            "s000.sec76.theory; s000.sec76.exact_half",
        ),
        Contradiction(
            "Errors do not amplify 5 to 10 times",
            "survey",
            "2-3 % at kernel level amplifies 5-10x at system level",
            "from 2-3 % to 5-15 % is {:.1f}x to {:.1f}x; and three of four system-level figures in Table 2 are below 5 %".format(
                *survey.amplification([2, 3], [5, 15])
            ),
            "s000.sec9.amp; s000.abs.system_err; s000.abs.kernel_err",
        ),
        Contradiction(
            "How many tools?",
            "survey",
            "22 tools; 14 surveyed tools; a matrix of 30",
            f"Table 2 has {plain.count_rows('claims/printed/survey_table2')} rows, section 4.2 says 14, the cells of Table 1 add up to "
            f"{plain.sum_of('claims/printed/survey_table1', ['accelerator', 'gpu', 'distributed', 'edge', 'cpu']):.0f}",
            "s000.abs.ntools; s000.sec42.14; s000.tab1.total",
        ),
        Contradiction(
            "Docker as predictor of usability",
            "survey",
            "a stronger predictor of usability than reported accuracy",
            f"with five tools the smallest p that Fisher's exact test can give is {survey.smallest_fisher_p([[2, 0], [0, 3]]):.1f}; "
            "VIDUR's repository has no Dockerfile",
            "s000.abs.docker_predictor; s000.abs.docker_all; s000.tab6.vidur.docker",
        ),
        Contradiction(
            "NeuSight's tile equation upside down",
            "ml_survey",
            "kernel time = max over waves of the sum over tiles",
            "waves follow one another and the tiles of a wave run together: sum over waves of the max; for ten waves of 108 equal tiles "
            f"the printed form is {tiles_printed_over_right(10, 108):.1f} times too long",
            "s001.eq8",
        ),
    ]


def _neuroscalar() -> list[Contradiction]:
    zero = 100.0 - plain.mean_of(PAIRWISE, "nonzero")
    return [
        Contradiction(
            "95 % in A/B tests",
            "neuroscalar",
            "95 % over eight pairwise comparisons of five designs",
            f"five designs make {plain.pairs_of(5)} pairs; the mean of {plain.count_rows(PAIRWISE)} cells is "
            f"{plain.mean_of(PAIRWISE, 'match'):.2f} % ({plain.minimum_of(PAIRWISE, 'match')} to {plain.maximum_of(PAIRWISE, 'match')}); "
            f"{zero:.1f} % of samples have zero ground truth, which a constant answer may match",
            "s004.contrib.95; s004.contrib.8pairs; neuroscalar.nonzero",
        ),
        Contradiction(
            "The pairwise metric does not see the pair",
            "neuroscalar",
            "extracts differences between designs",
            f"the match rate varies by {neuroscalar.deviation_over_pairs():.2f} points over pairs and "
            f"{neuroscalar.deviation_over_benchmarks():.1f} over benchmarks; the share of GT-better differs by at "
            f"most {neuroscalar.gt_better_spread():.2f} points over the ten pairs",
            "neuroscalar.pair_spread; neuroscalar.gt_better",
        ),
        Contradiction(
            "85x is energy, and needs a slow GPU",
            "neuroscalar",
            "improves performance by 85x over the GPU",
            f"it is {neuroscalar.speed_ratio():.0f} times slower; energy: {neuroscalar.energy_ratio():.0f}x with Table 2's rate at 450 W, "
            f"{neuroscalar.energy_ratio(mips=4):.0f}x at 4 MIPS; 85x needs {neuroscalar.gpu_mips_for_energy_ratio():.1f} MIPS",
            "s004.abs.85; s004.contrib.85",
        ),
        Contradiction(
            "8264 cycles and 99 % utilisation",
            "neuroscalar",
            "one LSTM layer in 8264 cycles at 99 % MAC utilisation",
            f"one instruction needs {neuroscalar.layer_cycles():.0f} cycles a layer: {neuroscalar.utilization_pct(1):.1f} %; "
            f"{neuroscalar.utilization_pct(4):.1f} % only if the 8264 cycles serve four; the implied clock is "
            f"{neuroscalar.clock_mhz(2 * 8264):.0f} or {neuroscalar.clock_mhz(2 * 8264 / 4):.0f} MHz and is never stated",
            "s004.sec432.8264; neuroscalar.clock",
        ),
        Contradiction(
            "Not bidirectional",
            "neuroscalar",
            "stacked bidirectional LSTM with embedded features",
            f"the parameter table is the unidirectional model exactly ({neuroscalar.lstm_parameters():,}); bidirectional it would be "
            f"{neuroscalar.lstm_parameters(bidirectional=True):,}; and there is no embedding in it",
            "s004.sec33.bi; s004.sec3.embed",
        ),
        Contradiction(
            "391x area",
            "neuroscalar",
            "391x smaller than the GPU",
            f"the RTX 4090's die over 2.04 is {neuroscalar.area_ratio():.0f}; 391 x 2.04 = {plain.product([391, 2.04]):.0f} mm2 is no GPU "
            "it lists; 16 nm against 4 nm",
            "s004.contrib.391; s004.sec21.7nm",
        ),
        Contradiction(
            "12 KB FIFO",
            "neuroscalar",
            "512 entries of 5 instructions in 12 KB",
            f"at {neuroscalar.bytes_per_instruction():.0f} B an instruction that is {neuroscalar.fifo_bytes():,.0f} B; 12 KiB hold "
            f"{neuroscalar.fifo_instructions_per_entry():.0f} instruction an entry",
            "s004.sec412.fifo",
        ),
        Contradiction(
            "Sampling rates do not fit one speed",
            "neuroscalar",
            "an epoch every 25 s on a GPU and every 4.9 s on Neutrino; 5, 4 and 5.92 MIPS",
            f"25 s holds at 4 MIPS only ({neuroscalar.gpu_epoch_s(neuroscalar.gpu_mips('RTX 4090')):.1f} s with Table 2's rate); 1/152642 "
            f"is {neuroscalar.neutrino_epoch_s():.2f} s",
            "s004.sec1.25s; s004.sec1.49s; s004.abs.mips",
        ),
        Contradiction(
            "Raw accuracy of 70-85 %",
            "neuroscalar",
            "70-85 % raw accuracy; Table 1: 0.797",
            f"{plain.minimum_of(APPENDIX, LAST):.3f} to {plain.maximum_of(APPENDIX, LAST):.3f}, mean {plain.mean_of(APPENDIX, LAST):.3f}; "
            f"{plain.count_where(APPENDIX, LAST, 'below', 0.70)} of 16 benchmarks are below 0.70, so Table 1 is on another set",
            "s004.sec34.7085; neuroscalar.table1_set",
        ),
    ]


def listing() -> pd.DataFrame:
    """The list, numbered, with every number computed."""
    entries = _survey() + _neuroscalar()
    frame = pd.DataFrame([vars(entry) for entry in entries])
    frame.insert(0, "number", range(1, len(frame) + 1))
    return frame
