"""How long do steps of a served model take, and what comes before the first token, where requests arrive by themselves?

Kernels, host and fitted constants are those of `predict one`; here they become a step time and a front end for the simulator of requests:

    step = k1 x (kernels of the step + host) + k2 x requests in it      (k1, k2: the fitted terms of a time per output token)
    first token = a1 / k1 x simulated + a2 + a3 x (stream interval - 1) x token + a4 x token      (those of a time to first token)

with `token` the simulated time per output token without k1 and k2. A closed loop's mean times are thereby those of `predict one`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.errors import InputError
from analysis.hardware import devices
from analysis.serving.metrics import summary, use
from analysis.serving.points import settings
from analysis.serving.points.answers import BASIS, answer, plan_in_words, settings_in_words, site_terms
from analysis.serving.points.cases import MEAN_LENGTH, Case, in_words
from analysis.serving.points.constants import Constants, Parameters, load, on_others, outside, parts
from analysis.serving.points.operators import BATCH, BEFORE, CACHED, PROMPT, SEQUENCES, TOKENS
from analysis.serving.points.points import Points, features, points
from analysis.serving.points.step_table import StepTable
from analysis.serving.points.waterfall import Question
from analysis.serving.requests import Requests
from analysis.serving.simulate import Result
from analysis.serving.steps import Grid, StepTime
from analysis.site import Site

Floats = NDArray[np.float64]
SEQUENCE_S = 1e-6
"""Unit of the fitted host work of a sequence in a step (`points.features`, host_s)."""


def along(axis: Floats, seconds: Floats) -> Floats:
    """Seconds at 0, 1, 2, ... up to the axis's end, linear between its points and level below the first."""
    return np.interp(np.arange(int(axis[-1]) + 1.0), axis, seconds)


def from_zero(axis: Floats, seconds: Floats, dimension: int) -> tuple[Floats, Floats]:
    """An axis and a grid with a point at 0 added, level up to the first."""
    return np.concatenate([[0.0], axis]), np.concatenate([np.take(seconds, [0], axis=dimension), seconds], axis=dimension)


def step_time(table: StepTable, engine: Any, step: float = 1.0, sequence: float = 0.0, more: float = 0.0) -> StepTime:
    """A step table as the simulator's step time.

    Args:
        engine: a `closed_loop.ENGINE` record, for the host's times.
        step, sequence, more: what a step's time is multiplied by, seconds more for each request in it, and for the step.
    """
    cached, decode = from_zero(CACHED, step * table.total("decode"), 1)
    chunk, prefill = from_zero(PROMPT, step * table.total("prefill"), 0)
    each = step * along(SEQUENCES, table.total("sequences"))
    return StepTime(
        token_s=step * along(TOKENS, table.total("tokens")),
        fixed_s=step * float(engine["host_s"]) + more,
        sequence_s=each + sequence * np.arange(each.size),
        decode=Grid(BATCH, cached, decode),
        prefill=Grid(BEFORE, chunk, prefill.T.copy()),
        prefill_each=True,
        launch_s=step * float(engine["prompt_host_s"]),
        graph_tokens=int(engine["graph_tokens"]),
    )


def coefficients(frame: Any, constants: Constants) -> Floats:
    """The fitted coefficients that hold for one row of features, shape (terms,)."""
    return parts(frame.assign(**dict.fromkeys(constants.terms, 1.0)), constants)[0]


@dataclasses.dataclass(frozen=True)
class Served:
    """A model on a device as `predict one` answers it, for requests that arrive by themselves.

    Attributes:
        case: one request after another, of mean length.
        raw, parameters, library: its step times, fitted constants, kernels; site: whose constants hold, None: nobody's.
    """

    case: Case
    raw: Points
    parameters: Parameters
    library: Any
    site: Site | None = None

    @property
    def engine(self) -> Any:
        """Budget, KV cache and host times of a replica: a `closed_loop.ENGINE` record."""
        return self.raw.engines[0]

    @cached_property
    def fitted(self) -> tuple[Floats, Floats, float]:
        """Coefficients of a time per output token and of a time to first token, and what each step takes beyond (s)."""
        frame, p = features([self.case], self.raw), self.parameters
        at = {target: self._at_site(target)[0] for target in ("tpot", "ttft")}
        found, more = {target: factor * coefficients(frame, getattr(p, target)) for target, factor in at.items()}, 0.0
        if p.elsewhere and outside(frame, p)[0]:
            none, one = np.zeros(1), np.ones(1)
            for target, other in p.elsewhere.items():
                found[target] = found[target] * float((on_others(frame, one, other) - on_others(frame, none, other))[0])
            step, sequence = (float(on_others(frame.assign(host_s=n), none, p.elsewhere["tpot"])[0]) for n in (0.0, SEQUENCE_S))
            more, found["tpot"][1] = at["tpot"] * step, found["tpot"][1] + at["tpot"] * (sequence - step) / SEQUENCE_S
        return found["tpot"], found["ttft"], more

    def _at_site(self, target: str) -> tuple[float, str]:
        """The factor by which the site's constants multiply a time, and a note on it."""
        if self.site is None:
            return 1.0, ""
        factor, _, _, said = self.site.adjust(f"{target}_ms", site_terms(features([self.case], self.raw)), np.ones(1), np.ones(1))
        return float(factor[0]), said[0]

    @cached_property
    def steps(self) -> StepTime:
        """The step time, fitted constants included."""
        (step, sequence), _, more = self.fitted
        return step_time(self.raw.tables[self.raw.table_of[0]], self.engine, step, SEQUENCE_S * sequence, more)

    @property
    def named(self) -> dict[str, str]:
        """What an answer names."""
        case = self.case
        types = {"precision": in_words(case.types, case.device), "kv_precision": in_words(settings.of(case).kv, case.device)}
        name = devices.load(case.device).name
        return {"model": case.model.family or case.model.name, "device": name, "plan": plan_in_words(case), **types}

    def assumed(self, intervals: bool) -> tuple[str, ...]:
        """What was not given, in sentences; `intervals`: whether the answer has any."""
        case, source = self.case, self.raw.tables[self.raw.table_of[0]].source
        started, cache, _ = settings_in_words(case)
        at = tuple(filter(None, (self._at_site(name)[1] for name in ("ttft", "tpot"))))
        kernels = f"kernel times: {BASIS.get(source, 'data sheet')}; norms and element-wise kernels: one fit over all GPUs"
        if not intervals:
            return (*case.assumed, started, cache, kernels, *at, "no interval: none was scored where prompts have replicas of their own")
        why = outside(features([case], self.raw), self.parameters)[0]
        wide = (f"answer and interval as on other sources: no calibrated run has {', '.join(why)}",) if why else ()
        ends = "intervals: of mean times, those of `predict one` with as many clients as requests were in the system"
        return (*case.assumed, started, cache, kernels, *at, ends, *wide)

    def run(self, requests: Requests, simulate: Callable[[Requests], Result], replicas: int) -> Result:
        """Simulate requests behind the front end, which takes them one after another, and deliver their tokens.

        Args:
            simulate: the run on `steps`, given when the scheduler sees each request; replicas: front ends that share the requests.
        """
        if len(requests.session):  # whose turns are sent while it runs
            result = simulate(requests)
            requests = result.requests
        else:
            result = dataclasses.replace(simulate(self._behind_front(requests, replicas)), requests=requests)
        if not len(requests):
            return result
        (step, sequence), first, more = self.fitted
        gap = summary(result)["tpot_s_mean"]
        token_s = 0.0 if np.isnan(gap) else max(0.0, gap - more - SEQUENCE_S * sequence * use(result).mean_batch) / step
        later = first[1] + (first[2] * (settings.of(self.case).stream_interval - 1) + first[3]) * token_s
        records = result.records.copy()
        delivered = requests.arrived_at_s + first[0] / step * np.maximum(0.0, result.ttft_s - more) + later
        records["completed_at"] += delivered - records["prefill_completed_at"]
        records["prefill_completed_at"] = delivered
        return dataclasses.replace(result, records=records)

    def _behind_front(self, requests: Requests, replicas: int) -> Requests:
        """The requests when the scheduler sees them: front ends take them one after another."""
        order = np.argsort(requests.arrived_at_s, kind="stable")
        cost = (self.engine["send_s"] + self.engine["send_token_s"] * requests.prefill_tokens[order]) / replicas
        sent = np.empty(len(requests))
        spent = np.cumsum(cost)
        sent[order] = spent + np.maximum.accumulate(requests.arrived_at_s[order] - (spent - cost)) if len(requests) else 0.0
        return dataclasses.replace(requests, arrived_at_s=sent)

    def ends(self, result: Result) -> dict[str, float]:
        """Ends of the 90 % intervals of a run's mean times (s): `predict one`'s with as many clients as requests were in the system."""
        if not len(result.requests):
            return {}
        clients = max(1, round(use(result).requests_in_flight / len(result.replicas)))
        found = answer([dataclasses.replace(self.case, clients=clients)], self.parameters, self.library, self.site).table.iloc[0]
        means = summary(result)
        return {
            f"{name}_s_{end}": means[f"{name}_s_mean"] * float(found[f"{name}_{end}_ms"] / found[f"{name}_ms"])
            for name in ("ttft", "tpot")
            for end in ("lower", "upper")
            if not np.isnan(means[f"{name}_s_mean"])
        }


def served(requests: Requests, library: Any = None, site: Site | None = None, **asked: Any) -> Served:
    """A model on a device for some requests.

    Args:
        requests: of which the mean lengths count; library: kernels; site: whose constants hold.
        asked: model, device, gpus, engine, precision, ... (what is no length and no client), as of `waterfall.one`.
    """
    from analysis.kernels.library import KernelLibrary

    mean = [float(column.mean()) if len(requests) else 2.0 for column in (requests.prefill_tokens, requests.decode_tokens)]
    input_tokens, output_tokens = (max(least, round(tokens / MEAN_LENGTH)) for least, tokens in zip((1, 2), mean, strict=True))
    library = library or KernelLibrary.load()
    case = Question(**asked, clients=1, input_tokens=input_tokens, output_tokens=output_tokens).case()
    if not settings.rule(case).max_running:  # as many as the benchmark had clients
        default = next(rule for rule in settings.rules() if rule.engine == case.engine and rule.script == "default")
        case = dataclasses.replace(case, max_running=default.max_running)
    raw = points([case], library)
    if raw.status[0]:
        raise InputError(raw.status[0], key="steps")
    return Served(case, raw, load(), library, site)
