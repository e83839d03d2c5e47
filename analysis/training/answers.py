"""How long does a training step take, how sure is that, and does it fit? Answers for a table of cases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.site import Site
from analysis.training import interval
from analysis.training.cases import Case, read
from analysis.training.kernels import tpus
from analysis.training.machines import machine_of
from analysis.training.memory import GIB, Memory, capacity_bytes, fits, memory
from analysis.training.shares import ShareFile
from analysis.training.step import NAMES, Plans, step
from analysis.training.work import parts

NUMBERS = (
    "step_time_s",
    "lower_s",
    "upper_s",
    "tokens_per_s_per_gpu",
    "memory_gib",
    "memory_lower_gib",
    "memory_upper_gib",
    "capacity_gib",
)
COLUMNS = (*NUMBERS, "fits", "assumed", "status")


@dataclass(frozen=True)
class Fitted:
    """Shares in the order of `NAMES`, the spread of each after the fit, and the stretch of each group."""

    shares: NDArray[np.float64]
    spread: NDArray[np.float64]
    stretch: dict[str, tuple[float, float]]
    programs: frozenset[str] = frozenset()
    devices: dict[str, frozenset[str]] = field(default_factory=dict)
    """Of each group of `interval.GROUPS`."""
    adapters_by: frozenset[str] = frozenset()
    """Programs of which runs with adapters were measured."""

    def unmeasured(self, item: Case) -> str:
        """What of a run no calibrating source has; its interval is `interval.UNSEEN` times as wide."""
        if item.program not in self.programs:
            return f"program {item.program}"
        if not item.trained and item.program not in self.adapters_by:
            return f"{item.kind} by program {item.program}"
        device = item.machine.device
        return "" if item.machine.tpu or any(device in known for known in self.devices.values()) else f"device {device}"

    def of_other_kinds(self, item: Case) -> str:
        """Kinds of runs in which a device was measured, where it was in none of the run's own kind; else empty."""
        device, kinds = item.machine.device, interval.KINDS
        if item.machine.tpu or device in self.devices.get(interval.group(item), ()):
            return ""
        return " and ".join(kinds[name] for name, known in self.devices.items() if device in known)

    def twin(self, item: Case) -> Case | None:
        """The same run on a measured device, where its own was not measured in its group: its shares are not doubted less than there."""
        if item.machine.tpu or item.machine.device in self.devices.get(interval.group(item), ()):
            return None
        amd = devices.load(item.machine.device).vendor == "AMD"
        return replace(item, machine=machine_of("MI300X" if amd else "B200" if item.precision in ("mxfp8", "nvfp4") else "H100"))

    def ends(self, item: Case) -> tuple[float, float]:
        """Lower and upper stretch of a run's doubt."""
        lower, upper = self.stretch[interval.group(item)]
        wider = interval.UNSEEN if self.unmeasured(item) else 1.0
        return wider * lower, wider * upper


@cache
def fitted() -> Fitted:
    """The committed shares."""
    content = read_yaml(DATA / "models" / "training_step.yaml", ShareFile)
    return Fitted(
        np.array([content.shares[name].value for name in NAMES]),
        np.array([content.shares[name].after for name in NAMES], dtype=float),
        {**content.stretch, "tpu": tpus().stretch},
        frozenset(content.measured["programs"]),
        {group: frozenset(content.measured.get(group, ())) for group in interval.GROUPS},
        frozenset(content.measured["adapters_by"]),
    )


def predict(cases: list[Case], site: Site | None = None) -> pd.DataFrame:
    """Predicted steps: step, interval and every part (s), as a site's constants have them; `site` is what is assumed of it."""
    model = fitted()
    work, plans = parts(cases), Plans.of(cases)
    seconds = step(work, plans, model.shares)
    doubt = interval.doubt(work, plans, model.shares, model.spread)
    twins = {index: twin for index, twin in enumerate(map(model.twin, cases)) if twin is not None}
    if twins:
        others = list(twins.values())
        least = interval.doubt(parts(others), Plans.of(others), model.shares, model.spread)
        doubt[list(twins)] = np.fmax(doubt[list(twins)], least)
    bounds = np.array([model.ends(item) for item in cases])
    frame = pd.DataFrame({"step_time_s": seconds.pop("total")})
    frame["lower_s"] = frame["step_time_s"] * np.exp(bounds[:, 0] * doubt)
    frame["upper_s"] = frame["step_time_s"] * np.exp(bounds[:, 1] * doubt)
    for name, values in seconds.items():
        frame[f"{name}_s"] = values
    if site is not None:
        own = [(frame[end] / frame["step_time_s"]).to_numpy() for end in ("lower_s", "upper_s")]
        factor, *ends, said = site.adjust("step_s", interval.site_terms(cases, work, plans, model.shares, model.spread), *own)
        frame["lower_s"], frame["upper_s"] = (frame["step_time_s"] * end for end in ends)
        frame[["step_time_s", *(f"{name}_s" for name in seconds)]] *= factor[:, None]
        frame["site"] = said
    return frame


PEAKS = {"bf16": ("bf16", "fp16"), "fp8": ("fp8",), "mxfp8": ("fp8",), "nvfp4": ("fp4",)}
"""Data-sheet peak that a precision is counted against."""


def arithmetic_s(item: Case) -> float:
    """Model arithmetic, the causal half of attention counted, at the data sheet's peak on all GPUs (s)."""
    device = devices.load(item.machine.device)
    peak = next(device.peak_flop_per_s(name) for name in (*PEAKS[item.precision], "fp16") if name in device.peak)
    return float(item.shape.flop_per_token(item.sequence) * item.global_batch * item.sequence / (peak * item.gpus))


def mfu(item: Case, step_s: float) -> float:
    """Model FLOP utilisation of a step (1): `arithmetic_s` over it."""
    return arithmetic_s(item) / step_s


def answered(cases: list[Case], site: Site | None = None) -> pd.DataFrame:
    """`COLUMNS` of each case, and every part of its step (s), at a site if one is given."""
    out = predict(cases, site)
    tokens = np.array([item.global_batch * item.sequence / item.gpus for item in cases])
    held = [memory(item) for item in cases]
    logged = [memory(item, item.defaults.log) for item in cases]
    out["tokens_per_s_per_gpu"] = tokens / out["step_time_s"].to_numpy()
    out["memory_gib"] = [each.total / GIB for each in logged]
    for end, name in enumerate(("memory_lower_gib", "memory_upper_gib")):
        out[name] = [each.ends[end] / GIB for each in logged]
    out["capacity_gib"] = [capacity_bytes(item) / GIB for item in cases]
    out["fits"] = [fits(item, each) for item, each in zip(cases, held, strict=True)]
    at = out.pop("site") if site is not None else [""] * len(cases)
    doubts = [[words] if " x " in words else [*_doubts(item), *filter(None, [words])] for item, words in zip(cases, at, strict=True)]
    notes = zip(cases, doubts, _recomputed(cases, held, site), strict=True)
    last = [
        f"memory is the last stage's, as {item.program}'s log has it; the fullest GPU needs {most.total / GIB:.1f} GiB" * (own != most)
        for item, own, most in zip(cases, logged, held, strict=True)
    ]
    out["assumed"] = [
        "; ".join(filter(None, (*item.assumed, *doubt, *more, of))) for (item, doubt, more), of in zip(notes, last, strict=True)
    ]
    lost = ~np.isfinite(out["step_time_s"].to_numpy())
    out["status"] = np.where(lost, "the kernel models have no answer for this device and number type", "")
    return out


def _doubts(item: Case) -> list[str]:
    """What the interval says of a run that no calibrating source resembles."""
    what = fitted().unmeasured(item)
    if what:
        return [f"{what} is in no measured run: interval {interval.UNSEEN:g} times as wide"]
    of = fitted().of_other_kinds(item)
    return [f"device {item.machine.device} is in measured runs of {of} alone"] if of else []


def answers(frame: pd.DataFrame, site: Site | None = None) -> pd.DataFrame:
    """One row a case, with `COLUMNS`; a case that cannot be answered has its reason in `status`.

    Args:
        frame: cells as text; columns of any table that `cases` knows.
        site: whose constants hold; None: nobody's.
    """
    found, reasons = read(frame)
    out = pd.DataFrame({name: np.full(len(frame), np.nan) for name in NUMBERS})
    out = out.assign(fits="", assumed="", status=reasons)
    rows = [index for index, item in enumerate(found) if item is not None]
    if rows:
        out.loc[rows, list(COLUMNS)] = _each([item for item in found if item is not None], site)[list(COLUMNS)].to_numpy()
    return out.astype(dict.fromkeys(NUMBERS, float))


def _each(cases: list[Case], site: Site | None) -> pd.DataFrame:
    """`answered`, with the reason in `status` of each case that raises."""
    try:
        return answered(cases, site)
    except InputError as error:
        if len(cases) == 1:
            return pd.DataFrame([dict.fromkeys(NUMBERS, np.nan) | {"fits": "", "assumed": "", "status": error.message}])
    half = len(cases) // 2
    return pd.concat([_each(cases[:half], site), _each(cases[half:], site)], ignore_index=True)


def _recomputed(cases: list[Case], held: list[Memory], site: Site | None) -> list[list[str]]:
    """For each plan that does not fit what recomputing whole blocks would give, where that fits."""
    notes: list[list[str]] = [[] for _ in cases]
    others = {
        index: replace(item, recompute="full")
        for index, (item, each) in enumerate(zip(cases, held, strict=True))
        if item.recompute != "full" and fits(item, each) == "no"
    }
    found = {index: (item, memory(item)) for index, item in others.items()}
    found = {index: pair for index, pair in found.items() if fits(*pair) != "no"}
    if found:
        steps = predict([item for item, _ in found.values()], site)["step_time_s"]
        for (index, (item, each)), step_s in zip(found.items(), steps, strict=True):
            notes[index] = [f"with recompute full {step_s:.4g} s and {each.total / GIB:.1f} GiB, fits {fits(item, each)}"]
    return notes
