"""How much of the network's accuracy does Neutrino's integer arithmetic cost, and which of its narrow numbers costs it?"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.studies.cores.learning.accuracy import accuracy, majority
from analysis.studies.cores.learning.corpus import TEST, TRAIN, Program, instructions_of
from analysis.studies.cores.learning.latency_target import from_log_target
from analysis.studies.cores.learning.lstm import encode, heads, predicted_target
from analysis.studies.cores.learning.paper_training import PaperModel, block_windows, cut
from analysis.studies.cores.neutrino.compiler import compile_network
from analysis.studies.cores.neutrino.int8 import Bits, network_of, quantise, run_windows
from analysis.studies.cores.neutrino.machine import NeutrinoMachine

VARIANTS: dict[str, Bits] = {
    "all 8 bits, cell 16 (Neutrino)": Bits(),
    "only features 8 bits": Bits(features=8, weights=16, activations=16, cell=24),
    "only weights 8 bits": Bits(features=22, weights=8, activations=16, cell=24),
    "only activations 8 bits": Bits(features=22, weights=16, activations=8, cell=24),
    "8 bits, activations 12": Bits(activations=12),
    "16 bits, features 22, cell 24": Bits(features=22, weights=16, activations=16, cell=24),
}
"""Widths that are tried: Neutrino's, each of its narrow numbers alone, and two wider machines."""


def sample_windows(part: NDArray[np.int8], which: int, model: PaperModel, one: Program, most: int, seed: int = 0) -> NDArray[np.int64]:
    """First instructions of at most `most` windows whose targets lie in blocks of a part, drawn without replacement, in order."""
    starts = block_windows(np.flatnonzero(part == which), len(one), model.window)
    return np.sort(np.random.default_rng(seed).permutation(starts)[:most])


def windows_of(one: Program, starts: NDArray[np.int64], model: PaperModel) -> NDArray[np.float32]:
    """Scaled features of some windows of a program."""
    at = np.stack(np.broadcast_arrays(starts, 0, len(one)), axis=1)[None]
    return np.asarray(cut(jnp.asarray(one.raw), at, model.scaling.mean[None], model.scaling.deviation[None], model.window.length)[0])


def evaluate(
    model: PaperModel,
    programs: Sequence[Program],
    parts: Sequence[NDArray[np.int8]],
    design: int,
    windows: int,
    seed: int = 0,
) -> pd.DataFrame:
    """Accuracy of the fp32 network, of its integer variants, and of the majority baseline, on the same test windows of each program.

    Steps are calibrated on as many training windows of the programs; the test windows take no part in that.

    Args:
        model: a trained network of the paper's kind. programs, parts: with the blocks' uses. design: column of the latencies.
        windows: test windows of each program (at most). seed: of the windows drawn.
    Returns:
        A row a program and variant: the seven figures, the summed cycles, and `differs`: the share of instructions whose whole cycles
        are not fp32's.
    """
    window = model.window
    calibration, tested = [], []
    for one, part in zip(programs, parts, strict=True):
        calibration.append(windows_of(one, sample_windows(part, TRAIN, model, one, windows, seed), model))
        starts = sample_windows(part, TEST, model, one, windows, seed)
        truth = np.stack([one.latency[start + window.left : start + window.left + window.target, design] for start in starts])
        known = majority(one.latency[instructions_of(part, TRAIN, len(one)), design])
        tested.append((one.name, windows_of(one, starts, model), truth, known))
    every = np.concatenate(calibration).astype(float)
    parameters = {name: np.asarray(value) for name, value in model.parameters.items()}
    compiled = compile_network(network_of(parameters), NeutrinoMachine(), 1)  # the batch changes nothing in the results
    integers = {name: quantise(parameters, every, bits) for name, bits in VARIANTS.items()}
    rows = []
    for name, inputs, truth, known in tested:
        encoded = encode(model.parameters, jnp.asarray(inputs))[:, window.left : window.left + window.target]
        reference = from_log_target(np.asarray(predicted_target(*heads(model.parameters, encoded)), float))
        answers = {"fp32": reference, "majority": np.full(truth.shape, float(known))}
        for variant, integer in integers.items():
            answers[variant] = from_log_target(run_windows(integer, compiled, inputs.astype(float), window.left, window.target).target)
        for variant, answer in answers.items():
            rows.append(
                {
                    "program": name,
                    "variant": variant,
                    **accuracy(truth, answer).as_dict(),
                    "true_cycles": int(truth.sum()),
                    "predicted_cycles": float(answer.sum()),
                    "differs": float(np.mean(np.rint(answer) != np.rint(reference))),
                    "instructions": truth.size,
                }
            )
    return pd.DataFrame(rows)
