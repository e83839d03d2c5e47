"""What is fitted: few constants of engines and clients, on measured serving points (`analysis.studies.serving.points.fit` fits them).

Physics first: kernels, settings and the closed loop give TTFT and TPOT with nothing fitted. Then, for each engine and origin of the row,
    measured = sum of c_j x term_j,  c_j >= 0,
with the simulated time, host work of each sequence in a step (sampling, text, scheduling), a constant (front end, launch), the stream's
delay, the steps a request waits for as terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from analysis.configs import Strict, read_yaml
from analysis.paths import DATA
from analysis.serving.points.points import OPERATOR_S

Floats = NDArray[np.float64]
PATH = DATA / "models" / "serving_points.yaml"
LEVELS = {"tpot": ((), ("engine",)), "ttft": ((), ("engine",), ("engine", "origin"), ("engine", "origin", "device"))}
"""Groups with coefficients of their own, from coarse to fine; an origin decides how requests arrive, which moves the first token alone."""
CALIBRATED_BY = ("mode", "origin")
"""Groups with interval ends of their own: published settings bring answers closer than inferred ones, one worker closer than two kinds."""
DOUBT_OF: dict[str, Literal["doubt", "doubt_prompt"]] = {"tpot": "doubt", "ttft": "doubt_prompt"}
UNSEEN = 1.5
"""Factor on an interval where no calibrated row has the engine with that kind of attention ranks, or the GPU."""
NORMAL_90 = 1.645
"""Half the width of a normal distribution's middle 90 %, in standard deviations."""
LOAD = 0.6
"""Share of the KV cache that all clients' requests would fill, above which our estimate of its room decides whether they queue."""


class Constants(Strict):
    """Coefficients of one target: group (values joined by `|`, empty: all rows) -> one for each term."""

    terms: tuple[str, ...]
    coefficients: dict[str, tuple[float, ...]]


class Interval(Strict):
    """A conformal 90 % interval: answer x exp(end x difficulty).

    Attributes:
        terms: what the difficulty depends on (`difficulty_terms`); centre, scale: their mean and standard deviation.
        slope: of the logarithm of the difficulty; level: that logarithm at the centre.
        doubt_of: the feature that is the kernels' doubt: of a decode step, or of a prompt's.
        doubt_seen: kernel doubt that calibrated rows have; what a case has beyond is added in quadrature.
        seen, devices: engines, with one or many attention ranks, and GPUs that calibrated rows have.
        pooled, groups: 5th and 95th percentile of log(measured / answer) / difficulty, of all rows and of each `CALIBRATED_BY`.
    """

    terms: tuple[str, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    slope: tuple[float, ...]
    level: float
    doubt_of: Literal["doubt", "doubt_prompt"]
    doubt_seen: float
    seen: tuple[str, ...]
    devices: tuple[str, ...]
    pooled: tuple[float, float]
    groups: dict[str, tuple[float, float]]

    @property
    def target(self) -> str:
        """Of which time it is: `tpot` or `ttft`."""
        return next(name for name, doubt in DOUBT_OF.items() if doubt == self.doubt_of)


class Elsewhere(Strict):
    """What times are on sources that calibrated nothing: answer x exp(slower) + counts x each, and an interval that held other sources.

    Attributes:
        slower: term of `default_terms` -> logarithm of its factor; each_s: term -> seconds more for each that it counts.
        families: model families whose kernels engines are tuned to; devices: GPUs of which these sources have enough rows.
        wider: by how much the logarithm of an error's size grows with `spreading`.
        ends: of each of `engine_groups` with enough rows (empty: of all), 5th and 95th percentile of log(measured / answer) over what
            `elsewhere` widens it by; every source weighs the same.
    """

    slower: dict[str, float]
    each_s: dict[str, float]
    families: tuple[str, ...]
    devices: tuple[str, ...]
    wider: float
    ends: dict[str, tuple[float, float]]


class Parameters(Strict):
    """`data/models/serving_points.yaml`: what `predict serving` uses.

    Attributes:
        known: what the calibrated rows have of each of `KNOWN`.
        elsewhere: by target, of questions whose settings, GPU, types, release or model family no calibrated row has.
    """

    fitted_on: str
    rows: int
    known: dict[str, tuple[str, ...]]
    tpot: Constants
    ttft: Constants
    tpot_interval: Interval
    ttft_interval: Interval
    elsewhere: dict[str, Elsewhere] = Field(default_factory=dict)


KNOWN = {"device": "device", "types": "number type", "release": "engine release", "family": "model family"}
"""Features of which a value that no calibrated row has makes an interval as wide as it was on other sources, and their names."""


def outside(frame: pd.DataFrame, parameters: Parameters) -> list[tuple[str, ...]]:
    """Why each question's interval is that of other sources: what it is about and no calibrated row has; empty where it has all."""
    found = []
    for row in frame.to_dict("records"):
        missing = [f"{name} {row[key]}" for key, name in KNOWN.items() if row[key] and row[key] not in parameters.known[key]]
        settings = ["settings (the engine's defaults)"] if row["script"] == "default" else []
        found.append((*missing, *row["beyond"], *settings) if row["asked"] else ())
    return found


def group(frame: pd.DataFrame, columns: Sequence[str]) -> pd.Series:
    """Values of some columns joined by `|`."""
    if not columns:
        return pd.Series("", index=frame.index)
    out = frame[columns[0]].astype(str)
    for name in columns[1:]:
        out = out + "|" + frame[name].astype(str)
    return out


def apply(frame: pd.DataFrame, constants: Constants) -> Floats:
    """Answers (seconds): each row by the finest group that was fitted."""
    return np.asarray(parts(frame, constants).sum(axis=1))


def parts(frame: pd.DataFrame, constants: Constants) -> Floats:
    """Coefficient x term, shape (rows, terms)."""
    chosen = np.zeros((len(frame), len(constants.terms)))
    # A first token depends on settings and client, which an engine's own coefficients have from recipes: its defaults have everybody's.
    pooled = np.zeros(len(frame), dtype=bool)
    if "stream_s" in constants.terms:
        pooled = (frame["asked"] & (frame["script"] == "default")).to_numpy(dtype=bool)
    for level, columns in enumerate(LEVELS["ttft"]):
        own = {n: c for n, c in constants.coefficients.items() if n.count("|") == max(0, len(columns) - 1) and bool(n) == bool(columns)}
        if own:
            names = group(frame, columns)
            for name, values in own.items():
                chosen[(names == name).to_numpy() & (~pooled | (level == 0))] = values
    return np.asarray(chosen * frame[list(constants.terms)].to_numpy(dtype=np.float64))


LONG_S = (0.03, 1.0)
"""Range of simulated times to the first token (s) over which TensorRT-LLM's, where settings are published, become more certain."""


def difficulty_terms(frame: pd.DataFrame) -> pd.DataFrame:
    """Features of the error's scale, the kernels' doubt apart.

    Origin, engine, two kinds of workers, a full KV cache, clients, experts, many attention ranks, TensorRT-LLM's time to the first token.
    """
    return pd.DataFrame(
        {
            "vendor": (frame["origin"] == "vendor").astype(float),
            "sglang": (frame["engine"] == "sglang").astype(float),
            "trtllm": (frame["engine"] == "trtllm").astype(float),
            "apart": (frame["mode"] == "disagg").astype(float),
            "crowded": np.log(frame["load"].astype(float).clip(1e-3, 10) / LOAD).clip(0, 1.5),
            "clients": np.log(frame["clients"].astype(float)),
            "mixture": (frame["experts"] == "moe").astype(float),
            "many": (frame["ranks"] > 1).astype(float),
            "trtllm_long": np.log(frame["ttft_s"].astype(float).clip(*LONG_S))
            * ((frame["engine"] == "trtllm") & (frame["origin"] != "vendor")),
        }
    )


def ranked(frame: pd.DataFrame) -> pd.Series:
    """Engine, and whether one or many attention ranks serve together."""
    return frame["engine"].astype(str) + np.where(frame["ranks"] > 1, "|many", "|one")


def regressed(frame: pd.DataFrame, found: Interval) -> Floats:
    """How uncertain each answer is by the terms of the difficulty."""
    z = (difficulty_terms(frame)[list(found.terms)].to_numpy() - np.array(found.centre)) / np.array(found.scale)
    return np.asarray(np.exp(found.level + np.clip(z, -3, 3) @ np.array(found.slope)))


def difficulty(frame: pd.DataFrame, found: Interval) -> Floats:
    """How uncertain each answer is, in units of the interval's ends: regressed, wider for what was not calibrated on."""
    size = regressed(frame, found)
    unseen = (frame["mode"] == "agg").to_numpy() & ~ranked(frame).isin(found.seen).to_numpy()
    size = np.where(unseen, UNSEEN, 1.0) * size
    return np.asarray(np.where(frame["device"].isin(found.devices), 1.0, UNSEEN) * size)


def bounds(frame: pd.DataFrame, answer_s: Floats, found: Interval) -> tuple[Floats, Floats]:
    """Ends of the interval around answers; a row of no known group has those of all rows.

    What a row's kernels are more doubtful than the calibrated rows' is added in quadrature, as the middle 90 % of a normal distribution.
    """
    ends = np.array([found.groups.get(name, found.pooled) for name in group(frame, CALIBRATED_BY)]).reshape(-1, 2)
    low, high = np.hypot(ends * difficulty(frame, found)[:, None], _beyond(frame, found)[:, None]).T
    return answer_s * np.exp(-low), answer_s * np.exp(high)


def _beyond(frame: pd.DataFrame, found: Interval) -> Floats:
    """Half a width (logarithm) of what the kernels are more doubtful than those of the calibrated rows."""
    return np.asarray(NORMAL_90 * np.sqrt(np.maximum(0.0, frame[found.doubt_of].to_numpy(dtype=np.float64) ** 2 - found.doubt_seen**2)))


def default_terms(frame: pd.DataFrame, families: Sequence[str]) -> pd.DataFrame:
    """What runs on other sources depend on, where published recipes do not, as counts.

    `engine`: operators where Python drives an engine at its defaults: kernels start one after another, where XLA compiles a step into one
    program; `untuned`: the same of models that no measured suite has, for whose shapes engines have no tuned kernels and fewer fused ones.
    `quantised`: operators with weights of fewer than 16 bits on AMD's GPUs where Triton multiplies: not with one scale a tensor, which
    hipBLASLt multiplies, and of which no source has runs; `amd`: 1 for such prompts.
    `serial`: sequences of a step where the host schedules, samples and sends between steps: vLLM before 0.14.

    Source: release notes of vLLM 0.14.0 (asynchronous scheduling by default, https://github.com/vllm-project/vllm/pull/27614);
    https://github.com/sgl-project/sglang benchmark/kernels/quantization (DeepGEMM on SM90 and later, Triton elsewhere), and
    python/sglang/srt/layers/moe/fused_moe_triton/configs (tuned by shape and GPU).
    """
    python = (frame["script"] == "default") & frame["engine"].isin(("vllm", "sglang")) & (frame["vendor"] != "Google")
    quantised = (frame["vendor"] == "AMD") & ~frame["types"].isin(("bf16", "fp8"))
    operators = frame["operators"].astype(float)
    counts = {
        "engine": python * operators,
        "untuned": (python & ~frame["family"].isin(families)) * operators,
        "quantised": quantised * operators,
        "serial": frame["old"] * 1e6 * frame["host_s"],
        "amd": quantised,
    }
    return pd.DataFrame(counts).astype(float)


def corrected(answer_s: Floats, terms: pd.DataFrame, slower: Mapping[str, float], each_s: Mapping[str, float]) -> Floats:
    """Answers with what `default_terms` count; the last two as of `Elsewhere`."""
    factor, more = (sum((size * terms[name].to_numpy() for name, size in one.items()), 0.0) for one in (slower, each_s))
    return np.asarray(answer_s * np.exp(factor) + more)


def on_others(frame: pd.DataFrame, answer_s: Floats, other: Elsewhere) -> Floats:
    """Answers as on other sources."""
    return corrected(answer_s, default_terms(frame, other.families), other.slower, other.each_s)


def elsewhere(frame: pd.DataFrame, answer_s: Floats, found: Interval, other: Elsewhere) -> tuple[Floats, Floats, Floats]:
    """Answers and ends of their intervals for questions about what no calibrated row has.

    A GPU without calibrated rows, kernels more doubtful than theirs, experts and long waits for the first token widen it.
    """
    centre, target = on_others(frame, answer_s, other), found.target
    size = unfamiliar(frame, found, other.devices) * np.exp(other.wider * spreading(frame, target))
    ends = np.array([other.ends.get(name, other.ends[""]) for name in engine_groups(frame)]).reshape(-1, 2) * size[:, None]
    low, high = np.hypot(ends, _beyond(frame, found)[:, None]).T
    return centre, centre * np.exp(-low), centre * np.exp(high)


def engine_groups(frame: pd.DataFrame) -> pd.Series:
    """Runs on other sources that spread alike: TensorRT-LLM's, those of engines that Python drives, and those on other makers' devices."""
    return frame["engine"].where(frame["engine"] == "trtllm", "python").where(frame["vendor"] == "NVIDIA", "other maker")


LAUNCHES = (0.3, 2.0, 30.0)
"""So many launches of a prompt's operators, one by one: a wait for the first token from the least to the most of them is less and less
certain, around the usual."""


def spreading(frame: pd.DataFrame, target: str) -> Floats:
    """What other sources differ in most: a decode step of a mixture, 1; the first token of SGLang, logarithm of its time in launches."""
    if target == "tpot":
        return np.asarray(frame["experts"] == "moe", dtype=np.float64)
    least, usual, most = LAUNCHES
    launches = frame["ttft_s"] / (frame["engine"].map(OPERATOR_S) * frame["launched"])
    return np.asarray(np.log((launches.astype(float).clip(least, most) / usual).fillna(1.0)))


def unfamiliar(frame: pd.DataFrame, found: Interval, devices: Sequence[str]) -> Floats:
    """`UNSEEN` where neither the calibrated rows nor other sources have the GPU, else 1; of first tokens the kernels' doubt does."""
    return np.asarray(np.where(frame["device"].isin({*found.devices, *devices}) | (found.target == "ttft"), 1.0, UNSEEN))


def load(path: str | Path = PATH) -> Parameters:
    """The committed parameters."""
    return read_yaml(path, Parameters)
