"""The functions that a user of the package calls: a question in, an answer out; what is wrong with a question is an `InputError` in a line.

Tables of cases are DataFrames, lists of dicts (a case each), one dict, or the path of a CSV or Parquet file. Their columns are those of the
command of the same name, checked alike; the answers have a row a case, in the same order, and say in `status` or `reason` why one is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def _text(cell: object) -> str:
    if cell is None or cell != cell:
        return ""
    return f"{cell:.0f}" if isinstance(cell, float) and abs(cell) < 1e15 and cell.is_integer() else str(cell)


def _checked(keys: object, model: type[Any]) -> Any:
    """The keys of a configuration as its model, wrong ones told in the user's words.

    Raises:
        InputError: no mapping, an unknown key, or a value that cannot be.
    """
    from pydantic import ValidationError

    from analysis.configs import told
    from analysis.errors import InputError

    if not isinstance(keys, Mapping):
        raise InputError(f"expected a path or a mapping of keys, got {type(keys).__name__}")
    try:
        return model.model_validate(dict(keys))
    except ValidationError as error:
        key, message = told(error)
        raise InputError(message, key=key) from None


def _table(cases: Any, command: str) -> pd.DataFrame:
    """The cases with every cell as text, their columns checked as the command does."""
    import pandas as pd

    from analysis.case_columns import carried, read_as
    from analysis.errors import InputError

    path = Path(cases) if isinstance(cases, str | Path) else None
    if path is not None:
        if path.suffix in (".parquet", ".pq"):
            frame = pd.read_parquet(path)
        else:
            from analysis.tables import read_csv

            frame = read_csv(path, dtype=str, keep_default_na=False)
    elif isinstance(cases, pd.DataFrame):
        frame = cases
    elif isinstance(cases, Mapping):
        frame = pd.DataFrame([dict(cases)])
    else:
        listed = list(cases) if isinstance(cases, Iterable) else [cases]
        if not all(isinstance(case, Mapping) for case in listed):
            raise InputError("expected a DataFrame, dicts or the path of a file")
        frame = pd.DataFrame([dict(case) for case in listed])
    if not len(frame):
        raise InputError("there are no cases", path=path)
    carried(frame.columns, command, path)
    return frame.map(_text).rename(columns=read_as(frame.columns, command))


def device(name: str) -> Any:
    """The description of a device: peak rates (FLOP/s), memory (bytes), bandwidth (bytes/s), each with its source."""
    from analysis.hardware.devices import load

    return load(name)


def time_on_device(*arguments: Any, **named: Any) -> Any:
    """Roofline time: the greater of operations over peak rate and bytes over bandwidth (s); arguments of `hardware.roofline`."""
    from analysis.hardware.roofline import time_on_device as answer

    return answer(*arguments, **named)


def read_csv(path: str | Path, **named: Any) -> pd.DataFrame:
    """A CSV as a table; a damaged one is refused with its line."""
    from analysis.tables import read_csv as read

    return read(path, **named)


def predict_training(cases: Any) -> pd.DataFrame:
    """Time of a training step (step_time_s, lower_s, upper_s) and memory of its fullest GPU (memory_gib, fits); `assumed` says the rest."""
    from analysis.training.answers import answers

    return answers(_table(cases, "predict training"))


def predict_batch(cases: Any) -> pd.DataFrame:
    """Latency of offline batches (latency_s) with a 90 % interval; of vLLM, SGLang, TensorRT-LLM as `predict_serving`, arrival static."""
    from analysis.serving.batch import answers

    return answers(_table(cases, "predict batch"))


def predict_serving(cases: Any) -> pd.DataFrame:
    """Time to the first token and per output token of serving points (ttft_ms, tpot_ms), each with a 90 % interval."""
    from analysis.serving.points.answers import answers

    return answers(_table(cases, "predict serving"))


def predict_one(model: str, device: str, **setting: Any) -> Any:
    """How fast a served model answers: `.answer` has the numbers and their 90 % intervals, `.parts` what they are made of (ms).

    Args:
        model, device: names; setting: gpus, clients, input_tokens, output_tokens, engine, precision and the other options of `predict one`.
    """
    import inspect

    from analysis.errors import InputError
    from analysis.serving.points.waterfall import Question, one
    from analysis.vocabulary import ALSO, read_as

    known = {**inspect.signature(Question).parameters, "site": inspect.signature(one).parameters["site"]}
    setting = {read_as(name, known, ALSO) or name: value for name, value in setting.items()}
    for name, value in setting.items():
        if name not in known:
            raise InputError(f"no such setting; there are: {', '.join(known)}", key=name)
        default = known[name].default
        if isinstance(default, int) and not isinstance(value, int):
            raise InputError(f"expected a whole number, got {value!r}", key=name)
    return one(model, device, **setting)


def recommend(**question: Any) -> dict[str, Any]:
    """The cheapest plan that meets a target: one row of `predict recommend`, whose options are the arguments.

    Args:
        question: model, devices (names in one text, or a list) and a target such as tpot_target_ms.
    """
    from analysis.case_columns import carried, read_as
    from analysis.predict.recommend.choice import one

    carried(question, "predict recommend")
    named = read_as(question, "predict recommend") | {"device": "devices", "engine": "engines"}
    return one(**{named.get(key, key): " ".join(value) if isinstance(value, list | tuple) else value for key, value in question.items()})


def predict_kernels(cases: Any) -> pd.DataFrame:
    """Latency of GPU kernels (latency_ms) with a 90 % interval, and what bounds each."""
    from analysis.kernels.cases import answers

    return answers(_table(cases, "kernels predict"))


def predict_collectives(cases: Any) -> pd.DataFrame:
    """Cycles of collectives (cycles_max) as ASTRA-sim's analytical backends count them; a cycle is 1 ns."""
    from analysis.networks.case_table import answer_cases

    return answer_cases(_table(cases, "collectives"))


def predict_systolic(cases: Any) -> pd.DataFrame:
    """Cycles and SRAM accesses of matrix products on a systolic array, as SCALE-Sim 3.0.0 counts them."""
    from analysis.accelerators.systolic.cases import predict_cases

    return predict_cases(_table(cases, "systolic"))


def train(configuration: Mapping[str, object] | str | Path) -> dict[str, Any]:
    """One training step as `train --json` answers it: step_time_s with its interval, memory_gib, fits, assumed, status.

    Args:
        configuration: the keys of `train`'s YAML (`data schema train` prints them), or its path.
    """
    import json

    from analysis.configs import read_yaml
    from analysis.training.config import Training, row_of
    from analysis.training.views import as_json, ask

    found = read_yaml(configuration, Training) if isinstance(configuration, str | Path) else _checked(configuration, Training)
    return dict(json.loads(as_json(ask(row_of(found)))))


def serve(path: str | Path) -> Any:
    """Simulate the serving of requests that a YAML describes; the result has the times of every request (s)."""
    from analysis.serving.points.simulation import read_configuration

    return read_configuration(path).run()


def replay(nodes: str | Path, network: str | Path) -> pd.DataFrame:
    """Replay an execution trace on a network: cycles of every rank (of 1 ns) and how many of them are exposed communication.

    Args:
        nodes: a CSV of nodes or a Chakra file NAME.0.et; network: YAML (`data schema network` prints its keys).
    """
    from analysis.networks import replay as replaying
    from analysis.networks.network_file import read_network
    from analysis.networks.trace import read_nodes
    from analysis.workloads.chakra.traces import read_trace

    nodes = Path(nodes)
    net, peak, groups = read_network(Path(network))
    trace = read_trace(nodes) if nodes.suffix == ".et" else read_nodes(nodes)
    return replaying.replay(replaying.prepare(trace, net, groups, peak, None, nodes), nodes).ranks


def map_layer(arch: str | Path, layer: str | Path, objective: str = "edp") -> Any:
    """The best mapping of a layer on a design, proven over the whole constrained space; `.evaluation` has cycles and energy (J).

    Args:
        arch, layer: YAML files, ours or Timeloop's; objective: latency, energy or edp.
    """
    from analysis.accelerators.mapper.best_mapping import best_mapping
    from analysis.accelerators.timeloop.files import read_constrained
    from analysis.errors import InputError

    if objective not in ("latency", "energy", "edp"):
        raise InputError(f"expected latency, energy or edp, got {objective!r}", key="objective")
    return best_mapping(*read_constrained(Path(arch), Path(layer)), objective)  # type: ignore[arg-type]


def simulate_core(program: str | Path, design: str = "8w", limit: int | None = None) -> Any:
    """Time a static RV64 Linux executable on an out-of-order core: instructions, cycles, mispredictions, misses.

    Args:
        design: 8w, 6w+ls, rob, lsq, 4w+mem or a YAML file; limit: instructions at most.
    """
    from analysis.cores.riscv.elf import read_elf
    from analysis.cores.riscv.emulator import trace_program
    from analysis.cores.timing.designs import load_design
    from analysis.cores.timing.simulation import simulate
    from analysis.errors import InputError

    if limit is not None and limit < 1:
        raise InputError(f"expected at least 1 instruction, got {limit}", key="limit")
    return simulate(trace_program(Path(program), limit)[0], load_design(design), read_elf(Path(program)))


def read_program(path: str | Path, **named: Any) -> Any:
    """A program, read from StableHLO (text, bytecode, portable artifact) or ONNX: its operators with operations and bytes."""
    from analysis.workloads.hlo.reader import read

    return read(Path(path), **named)


def predict_program(program: Any, device: str, fidelity: str = "", **named: Any) -> list[Any]:
    """Time of a program on a device (s) by one fidelity, or by all that cover the device, with what it is made of.

    Args:
        program: what `read_program` gave; device: a name, or all; fidelity: roofline, fused, efficiency, ... or all;
            empty: kernels on a GPU, fused on other devices.
    """
    from analysis.predict.program.predict import predictions

    return list(predictions(program, device, fidelity, **named))
