"""Which contradictions matter most, and what is the arithmetic of each?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.claims import arithmetic as plain
from analysis.claims import arithmetic_neuroscalar as neuroscalar
from analysis.claims import arithmetic_survey as survey
from analysis.paths import DATA
from analysis.tables import read_csv

TOOLS = ["ASTRA-sim", "VIDUR", "Timeloop", "NeuSight", "nn-Meter"]
SCHEMES = ["base", "uniform", "deployment"]
PAIRWISE = "published/neuroscalar_pairwise"
APPENDIX = "published/neuroscalar_appendix_metrics"
REPOSITORY = "claims/observed/repository"


@dataclass(frozen=True)
class Contradiction:
    """One contradiction: what is printed, what follows, and the claims that it concerns."""

    title: str
    document: str
    printed: str
    follows: str
    claims: str


def repository(name: str) -> float:
    """A number of the survey draft's public repository."""
    return float(plain.cell(REPOSITORY, {"id": name}, "value"))


def scores_printed_and_recomputed() -> pd.DataFrame:
    """Composite scores of the five tools under the three schemes: as printed, and from the printed grades."""
    base = plain.printed_table("claims/printed/survey_table5").set_index("tool")["score"]
    others = plain.printed_table("claims/printed/survey_scheme_scores").set_index(["scheme", "tool"])["score"]
    rows = []
    for scheme in SCHEMES:
        for tool in TOOLS:
            printed = base[tool] if scheme == "base" else others.get((scheme, tool), np.nan)
            rows.append({"scheme": scheme, "tool": tool, "printed": float(printed), "recomputed": survey.score(tool, scheme)})
    frame = pd.DataFrame(rows)
    frame["difference"] = (frame["recomputed"] - frame["printed"]).round(12)
    return frame


def errors_that_fit_hit_rates(miss_error: float = 30.0) -> pd.DataFrame:
    """Mean errors that fit a share of predictions within a band, if no prediction is off by more than `miss_error` percent."""
    cases = [
        ("nn-Meter, mobile CPU", "nnmeter_cpu_hit_rate", 10.0, 1.0),
        ("nn-Meter, Intel VPU", "nnmeter_vpu_hit_rate", 10.0, 1.0),
        ("LitePred, 85 platforms", "litepred_hit_rate", 10.0, 0.7),
        ("LitePred, worst of 8 (5 % band)", "litepred_hit_rate_5_low", 5.0, 0.7),
    ]
    rows = []
    for case, key, band, printed in cases:
        rate = float(plain.cell("claims/observed/look_ups", {"id": key}, "value")) / 100.0
        rows.append(
            {
                "case": case,
                "hit_rate_pct": 100.0 * rate,
                "band_pct": band,
                "least_error_pct": survey.smallest_mean_error(rate, band),
                "largest_error_pct": survey.largest_mean_error(rate, band, miss_error),
                "printed_error_pct": printed,
            }
        )
    return pd.DataFrame(rows)


def energy_by_rate(rates: list[float]) -> pd.DataFrame:
    """Energy ratio of Neutrino over a GPU of 450 W against the GPU's rate."""
    return pd.DataFrame({"gpu_mips": rates, "energy_ratio": [neuroscalar.energy_ratio(mips=rate) for rate in rates]})


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
