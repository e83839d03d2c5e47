"""How right is the batch predictor on a device that it has never seen? Scores with the device left out, and the shipped shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_rows import read_cases
from analysis.paths import DATA
from analysis.serving.batch import SHARES, Case, case, latency, table
from analysis.studies.datasets import find
from analysis.studies.freezing import digests
from analysis.studies.intervals import interpolated_quantile
from analysis.studies.training.fit import LEVEL, as_fitted, soft, write
from analysis.tables import read_csv
from analysis.training.shares import ShareFile

Floats = NDArray[np.float64]

MODEL = DATA / "models" / "batch_step.yaml"
NOISE, WEIGHT = 0.12, 60.0
PRIOR, SPREAD = (np.array([getattr(share, name) for share in SHARES.values()]) for name in ("prior", "spread"))
DEVICES = {"Nvidia A100 GPU": "A100-SXM4-40GB"}
"""What the benchmark's names mean: its A100 are Polaris's of 40 GB (docs.alcf.anl.gov/polaris)."""
KEYS = ["hardware", "devices", "framework", "model", "input_output_tokens", "batch_size"]


@dataclass(frozen=True)
class Runs:
    """Measured batches, repeats merged: table of rows, cases, measured latency (s), device of each, and whether it takes part in fits."""

    frame: pd.DataFrame
    cases: list[Case]
    latency_s: Floats
    device: NDArray[np.object_]
    used: NDArray[np.bool_]

    def take(self, index: NDArray[np.bool_]) -> Runs:
        """A part of the rows."""
        chosen = np.flatnonzero(index)
        return Runs(
            self.frame.iloc[chosen].reset_index(drop=True),
            [self.cases[i] for i in chosen],
            self.latency_s[chosen],
            self.device[chosen],
            self.used[chosen],
        )


def flags(frame: pd.DataFrame) -> pd.Series:
    """What is wrong with a row, by rule: empty where nothing is.

    contradicts_itself: throughput is not 2 x tokens x batch / latency within 2 %; longer_is_faster: a row of half the tokens, all else
    equal, takes more than 1.2 times as long; constant_start: the same device, framework and model at twice the tokens takes less than 1.15
    times as long at batch 1 (a start-up of many seconds is in the time).
    """
    implied = 2 * frame["input_output_tokens"] * frame["batch_size"] / frame["latency_s"]
    words = pd.Series("", index=frame.index)
    words[(frame["throughput_tokens_per_s"] / implied - 1).abs() > 0.02] = "contradicts_itself"
    key = [name for name in KEYS if name != "input_output_tokens"]
    half = frame[[*KEYS, "latency_s"]].assign(input_output_tokens=frame["input_output_tokens"] * 2).groupby(KEYS)["latency_s"].median()
    shorter = frame[KEYS].merge(half.rename("half").reset_index(), on=KEYS, how="left")["half"].to_numpy()
    words[np.asarray(shorter > 1.2 * frame["latency_s"])] += " longer_is_faster"
    one = frame[frame["batch_size"] == 1].assign(ratio=frame["latency_s"] / shorter)
    slow = one.groupby([name for name in key if name != "batch_size"])["ratio"].min()
    started = slow[slow < 1.15].index
    chosen = pd.MultiIndex.from_frame(frame[[name for name in key if name != "batch_size"]]).isin(started)
    words[chosen] += " constant_start"
    return words.str.strip()


def runs() -> Runs:
    """LLM-Inference-Bench, repeats merged, rows flagged."""
    frame = read_csv(find("llm_inference_bench/results"))
    frame = frame.assign(flags=flags(frame))
    merged = frame.groupby(KEYS, sort=False).agg(
        latency_s=("latency_s", "median"),
        repeats=("latency_s", "size"),
        spread=("latency_s", lambda x: x.max() / x.min()),
        flags=("flags", "first"),
    )
    merged = merged.reset_index()
    merged["row_id"] = [f"llm_inference_bench:{index}" for index in range(len(merged))]
    cases, reasons = read_cases(merged[KEYS].replace({"hardware": DEVICES}), case)
    keep = np.array([item is not None for item in cases])
    names = [item.device.name if item else "" for item in cases]
    device = np.array(names, dtype=object)
    # a row of llama.cpp contradicts only its own throughput; a start-up that no other row has, or a faster longer run, teaches nothing
    used = np.asarray(~merged["flags"].str.contains("longer_is_faster|constant_start"))
    frame = merged.assign(reason=reasons)[keep].reset_index(drop=True)
    return Runs(frame, [item for item in cases if item], frame["latency_s"].to_numpy(), device[keep], used[keep])


def fit(seen: Runs) -> Floats:
    """Shares that fit the rows best: every device of equal weight, robust, with priors."""
    from scipy.optimize import least_squares

    seen = seen.take(seen.used & (np.arange(len(seen.cases)) % 3 == 0))  # a third of the rows says the same
    batches = table(seen.cases)
    counts = pd.Series(seen.device).map(pd.Series(seen.device[seen.used]).value_counts()).to_numpy(dtype=float)
    scale = np.where(seen.used, np.sqrt(WEIGHT / counts), 0.0)

    def residuals(logs: Floats) -> Floats:
        z = np.log(latency(batches, PRIOR * np.exp(logs))["total"] / seen.latency_s) / NOISE
        return np.concatenate([scale * soft(z), logs / SPREAD])

    return np.asarray(PRIOR * np.exp(least_squares(residuals, np.zeros(len(PRIOR)), max_nfev=25).x))


def group(item: Case) -> str:
    """Which cases share one interval: a software stack that other devices teach, or one that they hardly do."""
    return "NVIDIA" if item.platform == "NVIDIA" else "other"


GROUPS = ("NVIDIA", "other")


def errors_left_out(seen: Runs) -> dict[tuple[str, str], Floats]:
    """log(measured / predicted) of the usable rows of a device with itself and a second device (or none: "") left out."""
    names = [str(name) for name in pd.unique(seen.device)]
    found: dict[tuple[str, str], Floats] = {}
    for first in range(len(names)):
        for second in range(first, len(names)):
            pair = (names[first], names[second])
            shares = fit(seen.take(~np.isin(seen.device, pair)))
            for device, other in {pair, pair[::-1]}:
                own = seen.take((seen.device == device) & seen.used)
                key = (device, other if other != device else "")
                found[key] = np.log(own.latency_s / latency(table(own.cases), shares)["total"])
    return found


def stretches(seen: Runs, errors: dict[tuple[str, str], Floats], hidden: str = "") -> dict[str, tuple[float, float]]:
    """Quantiles of the errors of each group's devices but the hidden one, devices of equal weight; a group without one takes all."""
    kinds = {str(device): group(item) for device, item in zip(seen.device, seen.cases, strict=True)}
    found = {}
    for kind in GROUPS:
        chosen = [values for (device, other), values in errors.items() if other == hidden and device != hidden and kinds[device] == kind]
        values, weights = np.concatenate(chosen), np.concatenate([np.full(len(v), 1 / len(v)) for v in chosen])
        low, high = (interpolated_quantile(values, weights, 0.5 + side * LEVEL / 2) for side in (-1, 1))
        found[kind] = low, high
    return found


def left_out(seen: Runs, errors: dict[tuple[str, str], Floats]) -> pd.DataFrame:
    """Every row predicted with its device left out, beside the roofline times one constant a framework."""
    tables = []
    for device in pd.unique(seen.device):
        others, own = seen.take(seen.device != device), seen.take(seen.device == device)
        predicted = latency(table(own.cases), fit(others))
        bounds = stretches(seen, errors, str(device))[group(own.cases[0])]
        frame = own.frame.assign(
            device=device, predicted_s=predicted["total"], prefill_s=predicted["prefill"], decode_s=predicted["decode"]
        )
        frame["lower_s"], frame["upper_s"] = predicted["total"] * np.exp(bounds[0]), predicted["total"] * np.exp(bounds[1])
        frame["baseline_s"] = baseline(others, own)
        tables.append(frame)
    return pd.concat(tables, ignore_index=True)


def baseline(others: Runs, own: Runs) -> Floats:
    """Roofline (weights and cache over bandwidth, prompt over peak) times the other devices' median ratio, by framework if known."""

    def roof(item: Runs) -> Floats:
        t = table(item.cases).to_records(index=False)
        chunked = t.framework == "llama.cpp"
        n = np.where(chunked, 1.0, t.devices)
        steps = t.output + np.where(chunked, t.input / t.chunk, 0.0)
        read = steps * (t.weights + np.where(chunked, 1.0, t.sequences) * t.cache_bytes * t.input) / (n * t.bandwidth)
        return np.asarray(read + 2 * t.active * t.input * t.sequences / (n * t.peak))

    ratio = np.log(others.latency_s / roof(others))
    frameworks = np.array([item.framework for item in others.cases])
    known = {name: float(np.median(ratio[frameworks == name])) for name in np.unique(frameworks)}
    constant = np.array([known.get(item.framework, float(np.median(ratio))) for item in own.cases])
    return np.asarray(roof(own) * np.exp(constant))


def freeze(seen: Runs, errors: dict[tuple[str, str], Floats]) -> None:
    """Write the shipped shares: fitted on every device, the interval from each device left out."""
    shares = fit(seen)
    split = "shares: every device of llm_inference_bench (shipped); stretch: each device predicted with itself left out"
    hashes = digests({"llm_inference_bench/results": find("llm_inference_bench/results")})
    writer = "analysis.studies.serving.batch_study.freeze (full tier of the notebook measured_suite)"
    write(MODEL, ShareFile(split=split, shares=as_fitted(SHARES, shares), stretch=stretches(seen, errors), hashes=hashes), writer)
