"""Predictors of basic blocks on held-out blocks and on blocks with instructions never seen; trivial ones and other tools on the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

from analysis.errors import InputError
from analysis.studies.cores.blocks import ports as basic_block_ports
from analysis.studies.cores.blocks.data import Blocks, alone, trait_matrix
from analysis.studies.statistics import absolute_percentage_errors, spearman

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

HELD_OUT = 0.2
UNSEEN_INSTRUCTIONS = 0.1
METHODS = ("sum alone", "max alone", "additive", "boosting", "ports")
WITHOUT_FIT = ("sum alone", "max alone")


@dataclass(frozen=True)
class Split:
    """Rows to fit on, rows to predict, and the instructions that the fit may not know anything of.

    Attributes:
        name: blocks, or instructions.
        fitted: rows.
        held_out: rows.
        unseen: instructions, by number.
    """

    name: str
    fitted: Integers
    held_out: Integers
    unseen: Integers


def block_split(blocks: Blocks, seed: int) -> Split:
    """A fifth of the blocks, drawn at random, is held out."""
    order = np.random.default_rng(seed).permutation(len(blocks.cycles))
    count = round((1 - HELD_OUT) * len(order))
    return Split("blocks", order[:count], order[count:], np.array([], dtype=np.int64))


def instruction_split(blocks: Blocks, seed: int) -> Split:
    """A tenth of the instructions is unseen: every block with one of them is held out, and their own measurement too."""
    instructions = np.random.default_rng(seed).permutation(len(blocks.instructions))
    unseen = instructions[: max(round(UNSEEN_INSTRUCTIONS * len(instructions)), 1)]
    touched = blocks.counts[:, unseen].sum(axis=1) > 0
    return Split("instructions", np.flatnonzero(~touched), np.flatnonzero(touched), unseen)


def inner(split: Split, seed: int = 0) -> Split:
    """A fifth of the fitted rows held out in turn, for selection."""
    order = np.random.default_rng(seed).permutation(split.fitted)
    count = round((1 - HELD_OUT) * len(order))
    return Split(split.name, order[:count], order[count:], split.unseen)


def features(blocks: Blocks, traits: Floats, single: Floats) -> Floats:
    """Features for the boosting: counts of traits, and sum, largest and second of the instructions' own cycles."""
    filled = np.where(np.isfinite(single), single, np.nanmedian(single))
    weighted = np.sort(np.where(blocks.counts > 0, filled, 0.0), axis=1)[:, ::-1]
    return np.column_stack([blocks.counts @ traits, blocks.counts @ filled, weighted[:, :3], blocks.counts.sum(axis=1)])


def predict(blocks: Blocks, split: Split, method: str, ports: basic_block_ports.PortSettings, seed: int = 0) -> Floats:
    """Cycles of the held-out blocks.

    Args:
        method: one of `METHODS`, or the column of another tool.
    """
    if method in blocks.tools:
        return blocks.tools[method][split.held_out]
    if method in WITHOUT_FIT:
        return (blocks.sum_alone if method == "sum alone" else blocks.max_alone)[split.held_out]
    counts, cycles = blocks.counts[split.fitted], blocks.cycles[split.fitted]
    wanted = blocks.counts[split.held_out]
    if method == "additive":
        each, _ = nnls(counts / cycles[:, None], np.ones(len(cycles)))
        each[split.unseen] = np.median(each)
        return np.asarray(wanted @ each)
    single = alone(blocks)
    single[split.unseen] = np.nan
    seen = [name for number, name in enumerate(blocks.instructions) if number not in set(split.unseen)]
    traits, _ = trait_matrix(blocks.instructions, trait_matrix(seen)[1])
    if method == "boosting":
        from sklearn.ensemble import HistGradientBoostingRegressor

        table = features(blocks, traits, single)
        model = HistGradientBoostingRegressor(max_iter=400, learning_rate=0.05, max_leaf_nodes=15, l2_regularization=1.0, random_state=seed)
        with threadpool_limits(1):
            model.fit(table[split.fitted], np.log(cycles))
            return np.asarray(np.exp(model.predict(table[split.held_out])))
    if method == "ports":
        return basic_block_ports.predict(basic_block_ports.fit(counts, cycles, single, traits, ports, seed), wanted)
    raise ValueError(f"no such method: {method}")


def score(blocks: Blocks, split: Split, method: str, predicted: Floats) -> dict[str, object]:
    """A row: errors over the held-out blocks that the method has an answer for."""
    truth = blocks.cycles[split.held_out]
    given = np.isfinite(predicted)
    errors = absolute_percentage_errors(truth[given], predicted[given])
    return {
        "arch": blocks.arch,
        "split": split.name,
        "method": method.removeprefix("pred_"),
        "blocks": int(given.sum()),
        "mape": float(errors.mean()),
        "median_error": float(np.median(errors)),
        "p90_error": float(np.quantile(errors, 0.9)),
        "max_error": float(errors.max()),
        "spearman": spearman(truth[given], predicted[given]),
    }


def compare(
    blocks: Blocks, ports: basic_block_ports.PortSettings, seeds: Sequence[int] = (0,), methods: Sequence[str] = METHODS
) -> pd.DataFrame:
    """Both splits, every method and every other tool's column; one row a split, seed and method."""
    rows = []
    for seed in seeds:
        for split in (block_split(blocks, seed), instruction_split(blocks, seed)):
            if not len(split.held_out) or not len(split.fitted):
                said = f"{len(blocks.cycles)} blocks of {blocks.arch} leave none to judge in the split by {split.name}"
                raise InputError(f"{said}: more are needed", key="arch")
            for method in [*methods, *blocks.tools]:
                rows.append(score(blocks, split, method, predict(blocks, split, method, ports, seed)) | {"seed": seed})
    return pd.DataFrame(rows)


def grid() -> list[basic_block_ports.PortSettings]:
    """Settings that selection tries, with fewer members."""
    base = replace(basic_block_ports.PortSettings(), own=0.1, members=2)
    return [
        base,
        replace(base, resources=8),
        replace(base, own=0.3),
        replace(base, shared=1e-4),
        replace(base, shared=3e-3),
        replace(base, sparse=0.0),
        replace(base, sparse=0.03),
        replace(base, alone=0.2),
        replace(base, sharp=(4.0, 15.0)),
        replace(base, steps=3000),
    ]


def select(
    cores: Sequence[Blocks], variants: Sequence[basic_block_ports.PortSettings] | None = None
) -> tuple[basic_block_ports.PortSettings, pd.DataFrame]:
    """The settings with the lowest mean error over cores on blocks held out of the fitted part; the test blocks are not looked at.

    Returns:
        the settings, with all members, and one row a variant and core.
    """
    variants = list(variants or grid())
    rows = []
    for number, settings in enumerate(variants):
        for blocks in cores:
            split = inner(block_split(blocks, 0))
            rows.append(score(blocks, split, "ports", predict(blocks, split, "ports", settings)) | {"variant": number})
    table = pd.DataFrame(rows)
    best = int(table.groupby("variant")["mape"].mean().to_numpy().argmin())
    return replace(variants[best], members=basic_block_ports.PortSettings().members), table
