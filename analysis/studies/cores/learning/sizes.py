"""What do depth and kind of the paper's network change, and what does a network of one program know of another?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from analysis.studies.cores.learning.accuracy import accuracy, majority
from analysis.studies.cores.learning.backbones import shapes_of
from analysis.studies.cores.learning.corpus import TRAIN, Program
from analysis.studies.cores.learning.lstm import count
from analysis.studies.cores.learning.paper_training import PaperSetting, predict_paper, train_paper
from analysis.studies.cores.learning.study import blocks_to_test, indices, split

DESIGN = 0
"""The first design of Table 4, 8w."""

BASE = PaperSetting(kind="lstm", width=64, layers=2, steps=200, rate=4e-3, dropout=0.0)
SIZES = {
    "lstm, 1 layer": replace(BASE, layers=1),
    "lstm, 2 layers": BASE,
    "lstm, 3 layers": replace(BASE, layers=3),
    "both directions, 2 layers": replace(BASE, kind="bilstm", width=40),
    "convolutions, 5 layers": replace(BASE, kind="cnn", width=52, layers=5),
    "state space, 4 layers": replace(BASE, kind="ssm", width=76, layers=4),
    "transformer, 2 layers": replace(BASE, kind="transformer", width=64, rate=2e-3),
}
"""Widths are such that all but the first and third have about as many parameters as the second."""

CROSS = PaperSetting(kind="lstm", width=32, layers=2, steps=120, rate=4e-3, dropout=0.0)


def size(programs: Sequence[Program], name: str, setting: PaperSetting, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Train one kind and depth on all programs for one design, test on their held-out windows: table `sizes`, a row a program."""
    parts = split(programs)
    start = time.process_time()
    trained = train_paper(programs, parts, DESIGN, setting, seed)
    spent = time.process_time() - start
    parameters = count(shapes_of(setting.kind, setting.width, setting.layers, setting.window.length))
    rows = []
    for one, part in zip(programs, parts, strict=True):
        blocks = blocks_to_test(part)
        truth = one.latency[indices(blocks, len(one)), DESIGN]
        said = predict_paper(trained.model, one.raw, blocks)
        rows.append(
            {
                "network": name,
                "parameters": parameters,
                "updates": setting.steps,
                "training_cpu_s": round(spent),
                "validation_loss": min(trained.validation),
                "program": one.name,
                **accuracy(truth, said).as_dict(),
                "true_cycles": int(truth.sum()),
                "predicted_cycles": float(said.sum()),
            }
        )
    return {"sizes": pd.DataFrame(rows)}


def across(programs: Sequence[Program], which: int, setting: PaperSetting, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Train the paper's network on one program for one design, test it on every program: table `across`.

    Each figure is compared with the baseline that knows the tested program: its most frequent training latency, its mean.
    """
    parts = split(programs)
    model = train_paper([programs[which]], [parts[which]], DESIGN, setting, seed).model
    rows = []
    for one, part in zip(programs, parts, strict=True):
        blocks = blocks_to_test(part)
        truth = one.latency[indices(blocks, len(one)), DESIGN]
        seen = one.latency[indices(np.flatnonzero(part == TRAIN), len(one)), DESIGN]
        said = predict_paper(model, one.raw, blocks)
        rows.append(
            {
                "trained_on": programs[which].name,
                "tested_on": one.name,
                "exact": accuracy(truth, said).exact,
                "majority_exact": accuracy(truth, np.full(len(truth), majority(seen))).exact,
                "true_cycles": int(truth.sum()),
                "predicted_cycles": float(said.sum()),
                "mean_cycles": float(seen.mean() * len(truth)),
            }
        )
    return {"across": pd.DataFrame(rows)}
