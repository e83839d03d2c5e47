"""Every predictor of the book behind the one interface of `predict.interface`; `ask` puts one question to all of them.

>>> from analysis.predict.interface import Workload
>>> from analysis.studies.composition.predictors import PREDICTORS, ask
>>> times = ask(Workload("a product", {"kernel": {"op": "gemm", "dtype": "bf16", "M": 4096, "N": 4096, "K": 4096}}), "h100")
>>> len(times) == len(PREDICTORS), times.loc[times["seconds"].notna(), "predictor"].tolist()
(True, ['kernels'])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis import face
from analysis.errors import InputError
from analysis.predict.interface import Prediction, Predictor, Row, Workload

if TYPE_CHECKING:
    from analysis.cores.riscv.trace import Trace
    from analysis.workloads.graph import Module

NINETY = 1.6448536269514722


@dataclass(frozen=True)
class FromDescription:
    """A predictor made of a function that is given the description, the hardware and the parameters."""

    name: str
    reads: str
    answer: Callable[..., Prediction]

    def __call__(self, workload: Workload, hardware: str, **parameters: Any) -> Prediction:
        """See `Predictor`."""
        if self.reads not in workload.descriptions:
            raise InputError(f"the workload has no description of kind {self.reads}")
        return self.answer(workload.descriptions[self.reads], hardware, **parameters)


def _row(table: pd.DataFrame) -> Row:
    """The only row of an answered table; what it refuses is raised."""
    row = table.iloc[0]
    reason = str(row["status"])
    if reason not in ("", "nan", "answered"):
        raise InputError(reason)
    return dict(row)


def _kernel(description: Row, hardware: str, **parameters: Any) -> Prediction:
    row = _row(face.predict_kernels({**description, "device": hardware, **parameters}))
    return Prediction(row["latency_ms"] / 1e3, f"kernel tables: {row['source']}", row["lower_ms"] / 1e3, row["upper_ms"] / 1e3)


@lru_cache(maxsize=4)
def _module(path: Any) -> Module:
    return face.read_program(path)  # type: ignore[no-any-return]


FIDELITIES = {
    "roofline": "data sheet, every operator alone",
    "fused": "data sheet, kernels after fusion",
    "efficiency": "shares of the data sheet that single operators reach",
    "kernels": "shares, and products by the kernel tables of the GPU",
    "systolic": "cycles of systolic arrays by SCALE-Sim's rules",
}


def _program(fidelity: str) -> Callable[..., Prediction]:
    def answer(description: Row, hardware: str, **parameters: Any) -> Prediction:
        got = face.predict_program(_module(description["path"]), hardware, fidelity, **parameters)[0]
        missing = ", ".join((*got.unsupported, *got.unknown))
        basis = FIDELITIES[fidelity] + (f"; a lower bound, without {missing}" if missing else "")
        return Prediction(got.seconds, basis, got.lower_s, got.upper_s or math.nan)

    return answer


def _machine(description: Row, hardware: str, **parameters: Any) -> Prediction:
    from analysis.networks.collective_cases import answers

    row = _row(answers(pd.DataFrame([{**description, "device": hardware, **parameters}]).astype(str)))
    return Prediction(row["time_us"] / 1e6, str(row["assumed"]), row["lower_us"] / 1e6, row["upper_us"] / 1e6)


def _simulated_network(description: Row, hardware: str, **parameters: Any) -> Prediction:
    """ASTRA-sim's cycles on the device's own links: a ring whose rate and latency are the data sheet's."""
    from analysis.hardware import devices
    from analysis.networks.cases import CollectiveCase, Network
    from analysis.networks.collective_cases import machine
    from analysis.networks.collective_time import HOP_S
    from analysis.studies.networks.one_collective import collective_cycles

    if description.get("nodes", 1) != 1:
        raise InputError("the two levels of a cluster are not described to the simulator here")
    gpus = description["gpus"]
    system, _ = machine(devices.load(hardware), gpus, 1, math.nan)
    rate = system.group(gpus).bandwidth_bytes_per_s / 2**30
    network = Network(topology=("Ring",), npus_per_dim=(gpus,), bandwidth_gib_per_s=(rate,), latency_ns=(HOP_S * 1e9,), **parameters)
    size = description["size_bytes"] // (gpus if description["collective"] == "all_gather" else 1)
    got = collective_cycles(CollectiveCase(description["collective"], size, network))
    return Prediction(got.cycles * 1e-9, f"ASTRA-sim's ring over the data sheet's link, {got.method}")


def _served(description: Row, hardware: str, **parameters: Any) -> Prediction:
    asked = {name: value for name, value in description.items() if name != "target"}
    got, target = face.predict_one(asked.pop("model"), hardware, **asked, **parameters), description["target"].removesuffix("_ms")
    ends = (got.answer[f"{target}_{end}_ms"] / 1e3 for end in ("lower", "upper"))
    return Prediction(got.answer[f"{target}_ms"] / 1e3, "calibrated serving engine", *ends)


def _served_bound(description: Row, hardware: str, **parameters: Any) -> Prediction:
    """A step of the serving engine at the data sheet's rates: a bound, not a prediction."""
    from analysis.hardware import devices
    from analysis.serving.step_time.roofline import Roofline, roofline
    from analysis.serving.steps import on_table
    from analysis.workloads import models

    setting = Roofline(models.load(description["model"]), devices.load(hardware), description.get("gpus", 1), dtype="bf16", **parameters)
    steps, tokens, clients = roofline(setting, 1 << 15), description["input_tokens"], description["clients"]
    if description["target"] == "ttft_ms":
        seconds = steps.fixed_s + on_table(steps.token_s, tokens) + steps.pair_s * tokens * (tokens + 1) / 2
    else:
        seconds = steps.fixed_s + on_table(steps.token_s, clients) + steps.kv_s * clients * (tokens + description["output_tokens"] / 2)
    return Prediction(seconds, "data sheet: weights, cache and arithmetic of one step, a bound")


def _batch(description: Row, hardware: str, **parameters: Any) -> Prediction:
    row = _row(face.predict_batch({**description, "hardware": hardware, **parameters}))
    return Prediction(row["latency_s"], "a served batch; engines of 2024 by published benchmarks", row["lower_s"], row["upper_s"])


def _training(description: Row, hardware: str, **parameters: Any) -> Prediction:
    row = _row(face.predict_training({**description, "device": hardware, **parameters}))
    return Prediction(row["step_time_s"], "published training steps", row["lower_s"], row["upper_s"])


def _arithmetic(description: Row, hardware: str, **parameters: Any) -> Prediction:
    """Arithmetic of a training step at the data sheet's peak: the rule of six operations for each parameter and token, with attention."""
    from analysis.training.answers import arithmetic_s
    from analysis.training.cases import case

    row = {name: str(value) for name, value in {**description, "device": hardware, **parameters}.items()}
    return Prediction(arithmetic_s(case(row)), "six operations a parameter and token at the data sheet's peak, a bound")


@lru_cache(maxsize=2)
def _trace(path: Any, limit: int) -> Trace:
    from analysis.cores.riscv.emulator import trace_program

    return trace_program(path, limit)[0]


def _core_timing(description: Row, hardware: str) -> Prediction:
    from analysis.cores.riscv.elf import read_elf
    from analysis.cores.timing.designs import load_design
    from analysis.cores.timing.simulation import simulate

    design, path = load_design(hardware), description["path"]
    got = simulate(_trace(path, description["limit"]), design, read_elf(path))
    return Prediction(got.cycles / design.clock_hz, "out-of-order core, cycle by cycle")


def _core_first_order(description: Row, hardware: str) -> Prediction:
    from analysis.cores.timing.designs import load_design
    from analysis.studies.cores.first_order.inputs import first_order_inputs
    from analysis.studies.cores.first_order.model import first_order_times

    design = load_design(hardware)
    cycles = first_order_times(first_order_inputs(_trace(description["path"], description["limit"]), design), design)[:, 0].sum()
    return Prediction(float(cycles) / design.clock_hz, "first-order model of the core's limits")


PREDICTORS: tuple[Predictor, ...] = (
    FromDescription("kernels", "kernel", _kernel),
    *(FromDescription(f"program, {name}", "program", _program(name)) for name in FIDELITIES),
    FromDescription("collectives of machines", "collective", _machine),
    FromDescription("simulated network", "collective", _simulated_network),
    FromDescription("serving engine", "served", _served),
    FromDescription("serving, bound", "served", _served_bound),
    FromDescription("offline batch", "batch", _batch),
    FromDescription("training", "training", _training),
    FromDescription("training, bound", "training", _arithmetic),
    FromDescription("core, cycle by cycle", "instructions", _core_timing),
    FromDescription("core, first order", "instructions", _core_first_order),
)
"""Every predictor of the package; another joins by meeting `Predictor`."""


def ask(workload: Workload, hardware: str, predictors: Iterable[Predictor] = PREDICTORS, **parameters: Any) -> pd.DataFrame:
    """One question to many predictors: a row for each, with seconds, lower_s, upper_s, basis, and in `reason` why there is no answer.

    Args:
        parameters: settings by the name of a predictor, with spaces as underscores, such as ``kernels={"framework": "vllm"}``.
    """
    rows: list[dict[str, Any]] = []
    for each in predictors:
        row: dict[str, Any] = {"workload": workload.name, "hardware": hardware, "predictor": each.name}
        try:
            got = each(workload, hardware, **parameters.get(each.name.replace(" ", "_"), {}))
            row |= {"seconds": got.seconds, "lower_s": got.lower_s, "upper_s": got.upper_s, "basis": got.basis, "reason": ""}
        except InputError as error:
            row |= {"seconds": math.nan, "lower_s": math.nan, "upper_s": math.nan, "basis": "", "reason": error.message}
        rows.append(row)
    return pd.DataFrame(rows)
