"""How many cycles does a trace take on each design by a trained model, in which order, and how sure is the order?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import pandas as pd

from analysis.cores.riscv.trace import Trace
from analysis.cores.timing.designs import load_design
from analysis.errors import InputError
from analysis.paths import DATA
from analysis.studies.cores.learning.model_files import Trunk, expected_cycles
from analysis.studies.cores.learning.program_features import BLOCK, program_features
from analysis.studies.intervals import cluster_tail
from analysis.tables import read_csv

RESAMPLES = 2000
LEAST_PAIRS = 10  # that a share is given for
UNSEEN = 0.5  # share of known code below which a program counts as one that the model has not seen


def doubt(gap: float, setting: str = "unseen programs", model: str = "ours") -> tuple[float, int]:
    """How often the model orders two designs right that it puts about so far apart, and on how many pairs of designs that was seen.

    Counted are the pairs of designs of the programs left out whose predicted cycles differ by half to twice `gap`; a pair of equal true
    cycles counts half. NaN for fewer than `LEAST_PAIRS` of them.

    Args:
        gap: cycles of the slower design over those of the faster one, less one (1).
        setting: `unseen programs`: each left out of training in turn; `held-out windows`: of programs that were trained on.
    Source: data/frozen/cores_model/cycles.csv.
    """
    rows = read_csv(DATA / "frozen" / "cores_model" / "cycles.csv", required=["model", "setting", "program", "true_cycles"])
    rows = rows[(rows["model"] == model) & (rows["setting"] == setting)]
    right = []
    for _, program in rows.groupby(["seed", "program"]):
        both = program[["true_cycles", "predicted_cycles"]].to_numpy(float).tolist()
        for (true_a, said_a), (true_b, said_b) in combinations(both, 2):
            if gap / 2 <= max(said_a, said_b) / min(said_a, said_b) - 1 <= 2 * gap:
                right.append(0.5 if true_a == true_b else float((true_a < true_b) == (said_a < said_b)))
    return (float(np.mean(right)) if len(right) >= LEAST_PAIRS else float("nan")), len(right)


@dataclass(frozen=True)
class Ranking:
    """Designs from the fastest to the slowest.

    Attributes:
        table: columns rank, design, cycles, cpi, cycles_low, cycles_high (95 % over resampled blocks) and `faster_than_next`: share
            of the resamplings in which the design takes fewer cycles than the next (empty for the last): what the sample leaves open, and
            nothing else; `right_order_elsewhere`: share of pairs that the model put as far apart on other programs and ordered right.
        instructions: of the trace.
        sampled: of them, those that the model looked at.
        known: share of those whose code the model saw in training.
    """

    table: pd.DataFrame
    instructions: int
    sampled: int
    known: float


def rank(trace: Trace, trunk: Trunk, most_blocks: int = 256, seed: int = 0) -> Ranking:
    """Predict a sample of blocks of a trace and order the designs by their cycles.

    Cycles of the trace = instructions x (expected cycles of the sampled blocks / their instructions). Blocks are resampled with
    replacement, the same for all designs, for the intervals: they tell how much the sample matters, not how wrong the model may be.

    Args:
        trace: from the start of a program.
        most_blocks: blocks of 2048 instructions to look at, evenly spread; all when there are fewer.
    Raises:
        InputError: an empty trace.
    """
    n = len(trace)
    if n == 0:
        raise InputError("no instruction to rank by: the trace is empty")
    features = program_features(trace, [load_design(name) for name in trunk.designs])
    total = -(-n // BLOCK)
    blocks = np.unique(np.linspace(0, total - 1, min(most_blocks, total)).astype(np.int64))
    mask = np.isin(np.arange(n) // BLOCK, blocks)
    expected = expected_cycles(trunk, features, np.flatnonzero(mask)).astype(np.float64)
    sizes = np.minimum((blocks + 1) * BLOCK, n) - blocks * BLOCK
    sums = np.add.reduceat(expected, np.concatenate([[0], np.cumsum(sizes)[:-1]]))
    cycles = n * sums.sum(axis=0) / sizes.sum()
    draws = np.random.default_rng(seed).integers(0, len(blocks), (RESAMPLES, len(blocks)))
    tail = cluster_tail(len(blocks), 0.95) if len(blocks) > 1 else 0.5  # a single block is the whole trace
    drawn = n * sums[draws].sum(axis=1) / sizes[draws].sum(axis=1)[:, None]
    order = np.argsort(cycles, kind="stable")
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    sure = [float(np.mean(drawn[:, a] < drawn[:, b])) for a, b in pairwise(order.tolist())]
    table = pd.DataFrame(
        {
            "rank": np.arange(1, len(order) + 1),
            "design": [trunk.designs[d] for d in order],
            "cycles": np.rint(cycles[order]).astype(np.int64),
            "cpi": cycles[order] / n,
            "cycles_low": np.rint(low[order]).astype(np.int64),
            "cycles_high": np.rint(high[order]).astype(np.int64),
            "faster_than_next": [*sure, np.nan],
        }
    )
    known = float((trunk.memory[features.place[mask], -1] > 0).mean())
    setting = "held-out windows" if known >= UNSEEN else "unseen programs"
    gaps = [float(cycles[b] / cycles[a] - 1) for a, b in pairwise(order.tolist())]
    table["right_order_elsewhere"] = [*(doubt(gap, setting)[0] for gap in gaps), np.nan]
    return Ranking(table, n, int(sizes.sum()), known)
