"""How long does a training step take, how sure is that, and does it fit? Answers for a table of cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_rows import Shared, alike
from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA
from analysis.site import Site
from analysis.training import interval
from analysis.training.cases import Case, Cases, read
from analysis.training.kernels import tpus
from analysis.training.machines import Machine, machine_of
from analysis.training.memory import GIB, capacity_bytes, fits, memory
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
    mixtures_by: frozenset[str] = frozenset()
    """The same of mixtures and hybrids."""

    def unmeasured(self, item: Case) -> str:
        """What of a run no calibrating source has; its interval is `interval.UNSEEN` times as wide."""
        if item.program not in (self.programs if not item.machine.tpu else ("maxtext",)):
            return f"program {item.program}{' on GPUs' if item.program == 'maxtext' else ''}"
        if not item.trained and item.program not in self.adapters_by:
            return f"{item.kind} by program {item.program}"
        if (item.shape.experts or item.shape.linear) and item.program not in self.mixtures_by:
            return f"a mixture or hybrid {'on a second TPU' if item.machine.tpu else f'by program {item.program}'}"
        device = item.machine.device
        taken = "" if devices.load(device).vendor in ("NVIDIA", "AMD") else " (products at AMD's share of the peak)"
        return "" if item.machine.tpu or any(device in known for known in self.devices.values()) else f"device {device}{taken}"

    def of_other_kinds(self, item: Case) -> str:
        """Kinds of runs in which a device was measured, where it was in none of the run's own kind; else empty."""
        device, kinds = item.machine.device, interval.KINDS
        if item.machine.tpu or device in self.devices.get(interval.group(item), ()):
            return ""
        return " and ".join(kinds[name] for name, known in self.devices.items() if device in known)

    def twin(self, item: Case) -> Machine | None:
        """A measured machine for a run whose own device was not measured in its group: its shares are not doubted less than there."""
        if item.machine.tpu or item.machine.device in self.devices.get(interval.group(item), ()):
            return None
        untimed = devices.load(item.machine.device).vendor != "NVIDIA"  # NVIDIA's kernels are in tables
        return machine_of("MI300X" if untimed else "B200" if item.precision in ("mxfp8", "nvfp4") else "H100")

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
        *(frozenset(content.measured[name]) for name in ("adapters_by", "mixtures_by")),
    )


def predict(cases: Sequence[Case], site: Site | None = None) -> pd.DataFrame:
    """Predicted steps: step, interval and every part (s), as a site's constants have them; `site` is what is assumed of it."""
    model, of = fitted(), Cases.of(cases)
    work, plans = parts(of), Plans.of(of)
    seconds = step(work, plans, model.shares)
    doubt = interval.doubt(work, plans, model.shares, model.spread)
    kinds = _kinds(of)
    twins = of.once(model.twin, *kinds, of.precision, of.machine)
    rows = np.flatnonzero(twins.there)
    if len(rows):
        others = of.take(rows).replace(machine=twins.take(rows))
        doubt[rows] = np.fmax(doubt[rows], interval.doubt(parts(others), Plans.of(others), model.shares, model.spread))
    bounds = of.once(model.ends, *kinds)
    bounds = np.array(bounds.distinct)[bounds.codes]
    frame = pd.DataFrame({"step_time_s": seconds.pop("total")})
    frame["lower_s"] = frame["step_time_s"] * np.exp(bounds[:, 0] * doubt)
    frame["upper_s"] = frame["step_time_s"] * np.exp(bounds[:, 1] * doubt)
    for name, values in seconds.items():
        frame[f"{name}_s"] = values
    if site is not None:
        own = [(frame[end] / frame["step_time_s"]).to_numpy() for end in ("lower_s", "upper_s")]
        factor, *ends, said = site.adjust("step_s", interval.site_terms(of, work, plans, model.shares, model.spread), *own)
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


def mfu(runs: Case | Sequence[Case], step_s: Any) -> Any:
    """Model FLOP utilisation of a step (1), of one run or of each of many: `arithmetic_s` over it; frozen weights have no gradient."""

    def share(item: Case) -> float:
        gradients = 0.0 if item.trained else 2.0 * item.shape.multiplied_parameters / item.shape.flop_per_token(item.sequence)
        return (1 - gradients) * arithmetic_s(item)

    if isinstance(runs, Case):
        return share(runs) / step_s
    of = Cases.of(runs)
    return of.once(share, of.shape, of.sequence, of.machine, of.precision, of.gpus, of.global_batch, of.kind) / step_s


def _kinds(of: Cases) -> tuple[Any, ...]:
    """The columns that decide among which measured runs a run belongs."""
    return of.program, of.defaults, of.kind, of.machine.device, of.shape.experts.there, of.shape.linear.there


def answered(cases: Sequence[Case], site: Site | None = None) -> pd.DataFrame:
    """`COLUMNS` of each case, and every part of its step (s), at a site if one is given."""
    of = Cases.of(cases)
    out = predict(of, site)
    held, logged = memory(of), memory(of, of.defaults.log)
    out["tokens_per_s_per_gpu"] = of.global_batch * of.sequence / of.gpus / out["step_time_s"].to_numpy()
    out["memory_gib"] = logged.total / GIB
    for end, name in enumerate(("memory_lower_gib", "memory_upper_gib")):
        out[name] = logged.ends[end] / GIB
    out["capacity_gib"] = capacity_bytes(of) / GIB
    out["fits"] = fits(of, held)
    at = Shared.of(out.pop("site").tolist() if site is not None else [""] * len(of))
    doubts, more = of.once(_doubts, *_kinds(of)), _recomputed(of, out["fits"].to_numpy(), site)
    last = np.full(len(of), "", dtype=object)
    for row in np.flatnonzero(logged.total != held.total):
        whole = f"{held.total[row] / GIB:.1f} GiB"
        last[row] = f"memory is the {of.defaults.log[row]} stage's, as {of.program[row]}'s log has it; the fullest GPU needs {whole}"
    told = Shared.of(last.tolist())
    codes, first = alike(of.assumed, at, doubts, more, told)
    notes = [
        (*of.assumed[row], *(() if " x " in at[row] else doubts[row]), *filter(None, (at[row], more[row], told[row]))) for row in first
    ]
    out["assumed"] = np.array(["; ".join(words) for words in notes], dtype=object)[codes]
    lost = ~np.isfinite(out["step_time_s"].to_numpy())
    out["status"] = np.where(lost, "the kernel models have no answer for this device and number type", "")
    return out


def _doubts(item: Case) -> tuple[str, ...]:
    """Notes on the interval of a run that no calibrating source resembles."""
    what = fitted().unmeasured(item)
    if what:
        return (f"{what} is in no measured run: interval {interval.UNSEEN:g} times as wide",)
    of = fitted().of_other_kinds(item)
    return (f"device {item.machine.device} is in measured runs of {of} alone",) if of else ()


def answers(frame: pd.DataFrame, site: Site | None = None) -> pd.DataFrame:
    """One row a case, with `COLUMNS`; a case that cannot be answered has its reason in `status`."""
    found, rows, errors = read(frame)
    out = pd.DataFrame({name: np.full(len(frame), np.nan) for name in NUMBERS})
    status = np.full(len(frame), "", dtype=object)
    status[list(errors)] = [error.reason for error in errors.values()]
    texts = {"fits": np.full(len(frame), "", dtype=object), "assumed": np.full(len(frame), "", dtype=object), "status": status}
    if len(found):
        answer = _each(found, site)
        for name in COLUMNS:
            column = texts[name] if name in texts else out[name].to_numpy(copy=True)
            column[rows] = answer[name].to_numpy()
            out[name] = column
    return out.assign(**texts)


def _each(cases: Cases, site: Site | None) -> pd.DataFrame:
    """`answered`, with the reason in `status` of each case that raises."""
    try:
        return answered(cases, site)
    except InputError as error:
        if len(cases) == 1:
            return pd.DataFrame([dict.fromkeys(NUMBERS, np.nan) | {"fits": "", "assumed": "", "status": error.reason}])
    half = len(cases) // 2
    return pd.concat([_each(cases.take(some), site) for some in (slice(half), slice(half, None))], ignore_index=True)


def _recomputed(of: Cases, fit: NDArray[np.str_], site: Site | None) -> Shared:
    """For each plan that does not fit what recomputing whole blocks would give, where that fits."""
    rows = np.flatnonzero((fit == "no") & ~(of.recompute == "full"))
    notes = np.full(len(of), "", dtype=object)
    if rows.size:
        others = of.take(rows).replace(recompute="full")
        held = memory(others)
        fit = fits(others, held)
        good = np.flatnonzero(fit != "no")
        if good.size:
            steps = predict(others.take(good), site)["step_time_s"]
            notes[rows[good]] = [
                f"with recompute full {step_s:.4g} s and {total / GIB:.1f} GiB, fits {fitting}"
                for step_s, total, fitting in zip(steps, held.total[good], fit[good], strict=True)
            ]
    return Shared.of(notes.tolist())
