"""Which contradictions matter most, and what is the arithmetic of each? Their words are in `data/claims/contradictions.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from analysis.artifact.claims import arithmetic as plain
from analysis.artifact.claims import arithmetic_neuroscalar as neuroscalar
from analysis.artifact.claims import arithmetic_survey as survey
from analysis.artifact.claims.equations import tiles_printed_over_right
from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.composition.errors import claimed_model_error, model_error
from analysis.tables import read_csv

TOOLS = ["ASTRA-sim", "VIDUR", "Timeloop", "NeuSight", "nn-Meter"]
SCHEMES = ["base", "uniform", "deployment"]
PAIRWISE = "published/neuroscalar_pairwise"
APPENDIX = "published/neuroscalar_appendix_metrics"
REPOSITORY = "claims/observed/repository"
LAST = "acc_round(last col)"


class Contradiction(Strict):
    """One contradiction: what is printed, what follows (with `values` by name), and the claims that it concerns."""

    title: str
    document: str
    printed: str
    follows: str
    claims: str


class _File(Strict):
    contradictions: tuple[Contradiction, ...]


def repository(name: str) -> float:
    """A number of the survey draft's public repository."""
    return float(plain.cell(REPOSITORY, {"id": name}, "value"))


def timeloop_conv1() -> pd.DataFrame:
    """ResNet-50 conv1 on the Eyeriss-like design: what the repository stored without running the tool, and a recorded run of it."""
    runs = read_csv(DATA / "recorded" / "timeloop" / "runs.csv")
    run = runs[runs["input"] == "conv1"]
    return pd.DataFrame(
        [
            {
                "source": "stored in the repository, tool not run",
                "cycles": int(repository("timeloop_cycles")),
                "energy_uj": repository("timeloop_energy_uj"),
                "dram_share_pct": repository("timeloop_dram_share"),
            },
            {
                "source": "recorded run of the tool",
                "cycles": int(run["cycles"].iloc[0]),
                "energy_uj": float(run["energy_uJ"].iloc[0]),
                "dram_share_pct": 100.0 * float(run["dram_share"].iloc[0]),
            },
        ]
    )


def values() -> dict[str, Any]:
    """What the contradictions quote, by name: what was seen in the repository, what was looked up, what follows from the documents' own."""
    names = plain.printed_table(REPOSITORY)["id"]
    looked_up = plain.printed_table("claims/observed/look_ups")["id"]
    rho, p = survey.accuracy_with_p()
    recorded = timeloop_conv1().iloc[1]
    return {
        **{name: repository(name) for name in names},
        **{name: plain.cell("claims/observed/look_ups", {"id": name}, "value") for name in looked_up},
        "sqrt_law": claimed_model_error(2.3, 50),
        "law_independent": model_error(2.3, 50, 0.0),
        "law_correlated": model_error(2.3, 50, 1.0),
        **{f"scores_{scheme}": " / ".join(f"{value:.1f}" for value in survey.scores(TOOLS, scheme)) for scheme in SCHEMES},
        **{f"ranking_{scheme}": survey.ranking(scheme) for scheme in SCHEMES},
        "rho": rho,
        "p": p,
        "p_deployment": survey.accuracy_against_score_p("deployment"),
        "p_without_nn_meter": survey.accuracy_against_score_p(leave_out=["nn-Meter"]),
        "vpu_least_error": survey.smallest_mean_error(0.834, 10),
        "recorded_cycles": recorded["cycles"],
        "recorded_energy_uj": recorded["energy_uj"],
        "tokens_vllm": survey.output_tokens("vllm"),
        "tokens_sarathi": survey.output_tokens("sarathi"),
        "sarathi_s": survey.sarathi_at_equal_length(),
        "requests_in_system": survey.requests_in_system("vllm"),
        "all_gather_ratio": survey.collective_ratio("all_gather"),
        "reduce_scatter_ratio": survey.collective_ratio("reduce_scatter"),
        "amplification": survey.amplification([2, 3], [5, 15]),
        "table2_rows": plain.count_rows("claims/printed/survey_table2"),
        "table1_total": plain.sum_of("claims/printed/survey_table1", ["accelerator", "gpu", "distributed", "edge", "cpu"]),
        "fisher_p": survey.smallest_fisher_p([[2, 0], [0, 3]]),
        "tiles_ratio": tiles_printed_over_right(10, 108),
        "pairs": plain.pairs_of(5),
        "pairwise_cells": plain.count_rows(PAIRWISE),
        "match_mean": plain.mean_of(PAIRWISE, "match"),
        "match_least": plain.minimum_of(PAIRWISE, "match"),
        "match_most": plain.maximum_of(PAIRWISE, "match"),
        "zero_pct": 100.0 - plain.mean_of(PAIRWISE, "nonzero"),
        "deviation_over_pairs": neuroscalar.deviation_over_pairs(),
        "deviation_over_benchmarks": neuroscalar.deviation_over_benchmarks(),
        "gt_better_spread": neuroscalar.gt_better_spread(),
        "speed_ratio": neuroscalar.speed_ratio(),
        "energy_ratio": neuroscalar.energy_ratio(),
        "energy_ratio_4_mips": neuroscalar.energy_ratio(mips=4),
        "gpu_mips_for_85": neuroscalar.gpu_mips_for_energy_ratio(),
        "layer_cycles": neuroscalar.layer_cycles(),
        "utilization_one_pct": neuroscalar.utilization_pct(1),
        "utilization_four_pct": neuroscalar.utilization_pct(4),
        "clock_mhz": neuroscalar.clock_mhz(2 * 8264),
        "clock_four_mhz": neuroscalar.clock_mhz(2 * 8264 / 4),
        "parameters": neuroscalar.lstm_parameters(),
        "parameters_bidirectional": neuroscalar.lstm_parameters(bidirectional=True),
        "area_ratio": neuroscalar.area_ratio(),
        "area_mm2": plain.product([391, 2.04]),
        "instruction_bytes": neuroscalar.bytes_per_instruction(),
        "fifo_bytes": neuroscalar.fifo_bytes(),
        "fifo_instructions": neuroscalar.fifo_instructions_per_entry(),
        "gpu_epoch_s": neuroscalar.gpu_epoch_s(neuroscalar.gpu_mips("RTX 4090")),
        "neutrino_epoch_s": neuroscalar.neutrino_epoch_s(),
        "rounded_least": plain.minimum_of(APPENDIX, LAST),
        "rounded_most": plain.maximum_of(APPENDIX, LAST),
        "rounded_mean": plain.mean_of(APPENDIX, LAST),
        "rounded_below": plain.count_where(APPENDIX, LAST, "below", 0.70),
    }


def listing(path: Path = DATA / "claims" / "contradictions.yaml") -> pd.DataFrame:
    """The list, numbered, with every number computed."""
    found = values()
    rows = []
    for number, one in enumerate(read_yaml(path, _File).contradictions, start=1):
        try:
            follows = one.follows.format(**found)
        except (KeyError, IndexError, ValueError, AttributeError, TypeError) as error:
            message = f"{error} does not name or format a value; known: {', '.join(found)}"
            raise InputError(message, path=path, key=f"contradictions.{number}.follows") from None
        rows.append({"number": number, **dict(one), "follows": follows})
    return pd.DataFrame(rows)
