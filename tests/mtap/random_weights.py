"""How far off is NeuSight when its weight file is missing and it predicts from random weights?

The tool loads a weight file only if there is one, and says nothing otherwise. Its network is then as PyTorch initialises it; what it gives
can be computed from the published form of the model without the tool.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.paths import DATA
from analysis.studies.datasets import load
from analysis.tables import write_csv

HIDDEN, LAYERS, OUTPUTS = 512, 8, 3
Floats = NDArray[np.float64]


def random_outputs(features: Floats, rng: np.random.Generator) -> Floats:
    """Outputs of the untrained network: eight linear layers, 512 wide, ReLU between them.

    Weights and biases of each layer are uniform within +-1/sqrt(inputs of the layer), PyTorch's default for a linear layer.

    Args:
        features: (kernels, 4).
    Returns:
        (kernels, 3).
    Source: neusight/Model/mlp_wave.py and scripts/asplos/data/predictor/configs/MLP_WAVE_BMM.json of the tool.
    """
    x = features
    widths = [features.shape[1], *[HIDDEN] * (LAYERS - 1), OUTPUTS]
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        bound = 1.0 / np.sqrt(inputs)
        x = x @ rng.uniform(-bound, bound, (inputs, outputs)) + rng.uniform(-bound, bound, outputs)
        if layer < LAYERS - 1:
            x = np.maximum(x, 0.0)
    return x


def utilisation(outputs: Floats, waves: Floats) -> Floats:
    """Share of the roofline that a kernel reaches: sigmoid(third output) - sigmoid(first output) / waves.

    Args:
        outputs: (kernels, 3).
    """
    return 1.0 / (1.0 + np.exp(-outputs[:, 2])) - 1.0 / (1.0 + np.exp(-outputs[:, 0])) / waves


def untrained_latency(kernels: pd.DataFrame, seed: int) -> Floats:
    """Latency of batched matrix products by the untrained network (s); a negative one is set to zero, as the tool does.

    Args:
        kernels: batch `B`, sizes `M`, `N` (summed over) and `K`, tile `tile_m`, `tile_k`, and the device's `Num_Sm`, `SingleFLOPs`
            (GFLOP/s), `Mem_Bw` (GB/s), `Dev_Mem` (GB), `L2Cache` (MB).
    Source: neusight/Model/mlp_wave_mm.py of the tool.
    """
    k = {name: kernels[name].to_numpy(float) for name in kernels.columns if name not in ("device", "kernel")}
    blocks = k["B"] * np.ceil(k["M"] / k["tile_m"]) * np.ceil(k["K"] / k["tile_k"])
    waves = np.ceil(blocks / k["Num_Sm"])
    tile_ops = 2.0 * k["tile_m"] * k["N"] * k["tile_k"] / 1e9
    tile_memory = 4.0 * (k["tile_m"] * k["N"] + k["N"] * k["tile_k"] + k["tile_m"] * k["tile_k"]) / 2**20
    work = np.stack([tile_ops, tile_memory, waves * tile_memory, waves * tile_memory], axis=1)
    device = np.stack([k["SingleFLOPs"] / 1000, k["Mem_Bw"], k["Dev_Mem"] * 1024, k["L2Cache"] * 1024], axis=1) / k["Num_Sm"][:, None]
    share = utilisation(random_outputs(np.log2(work / device), np.random.default_rng(seed)), waves)
    padded = np.ceil(k["M"] / k["tile_m"]) * k["tile_m"] * k["N"] * np.ceil(k["K"] / k["tile_k"]) * k["tile_k"]
    intensity = (2.0 * padded / 1e9) / (4.0 * (k["M"] * k["N"] + k["N"] * k["K"] + k["M"] * k["K"]) / 2**30)
    attainable = np.minimum(k["SingleFLOPs"], intensity * k["Mem_Bw"])
    return np.maximum(waves * tile_ops * k["Num_Sm"] / (attainable * share), 0.0)


KERNELS, SEEDS = 200, 10
COLUMNS = ["B", "M", "N", "K", "tile_m", "tile_k", "Num_Sm", "SingleFLOPs", "Mem_Bw", "Dev_Mem", "L2Cache"]


def sampled_kernels(measured: pd.DataFrame, devices: pd.DataFrame, number: int = KERNELS) -> pd.DataFrame:
    """NeuSight's measured test kernels with the tile that each kernel's name gives and the data sheet of its GPU, a sample a GPU.

    Args:
        measured: table neusight/bmm_nvidia.
        devices: table neusight/devices.
        number: kernels a GPU at most; the sample is drawn with seed 0.
    """
    sheets = devices.drop_duplicates("Device")  # the H100 has a second one, of two GPUs taken together
    kernels = measured[measured["split"] == "test"].merge(sheets, left_on="device", right_on="Device")
    kernels = kernels.assign(SingleFLOPs=kernels["SingleFLOPs"].fillna(kernels["SingleFLOPsMM"]))
    kernels[["tile_m", "tile_k"]] = kernels["kernel"].astype(str).str.extract(r"(\d+)x(\d+)").astype(float)
    kernels = kernels.dropna(subset=["tile_m"])
    return pd.concat([part.sample(min(number, len(part)), random_state=0) for _, part in kernels.groupby("device")], ignore_index=True)


def errors(kernels: pd.DataFrame, seeds: int = SEEDS) -> pd.DataFrame:
    """Error of the untrained network, a row a GPU and one for all."""
    measured_s = kernels["latency_ms"].to_numpy(float) / 1e3
    found = np.stack([100 * np.abs(untrained_latency(kernels[COLUMNS], seed) / measured_s - 1) for seed in range(seeds)])
    rows = []
    for name in [*sorted(kernels["device"].unique()), "all"]:
        mine = found[:, np.ones(len(kernels), bool) if name == "all" else (kernels["device"] == name).to_numpy()]
        medians = np.median(mine, axis=1)
        sizes = {"device": name, "kernels": mine.shape[1], "seeds": seeds, "median_error_pct": round(float(np.median(medians)), 2)}
        sizes |= {"lowest_seed_pct": round(float(medians.min()), 2), "highest_seed_pct": round(float(medians.max()), 2)}
        rows.append(sizes | {"mean_error_pct": round(float(np.median(mine.mean(axis=1))), 1)})
    return pd.DataFrame(rows)


if __name__ == "__main__":
    table = errors(sampled_kernels(load("neusight/bmm_nvidia"), load("neusight/devices")))
    write_csv(table, DATA / "recorded" / "neusight" / "random_weights.csv")
