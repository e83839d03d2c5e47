"""Published training steps as cases of the model: what was run, and the time it took."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analysis.errors import InputError
from analysis.hardware import systems
from analysis.paths import DATA
from analysis.studies.training.fixed_efficiency.kernel_time import Efficiencies
from analysis.studies.training.fixed_efficiency.memory import RESERVE_BYTES, memory
from analysis.studies.training.fixed_efficiency.plan import MEGATRON_2021, MEGATRON_2022, Plan, Software
from analysis.studies.training.fixed_efficiency.step import predict
from analysis.tables import read_csv, records
from analysis.workloads import models

PUBLISHED = DATA / "published"
SEQUENCE = 2048


@dataclass(frozen=True)
class Case:
    """One published step.

    Attributes:
        name: for tables; source: paper and table; model: name, whose cases leave-one-model-out leaves out together.
        system: name; plan, software: as published, or as assumed where `assumed` says so.
        measured_s: the step (s).
        assumed: words for what the source does not say.
    """

    name: str
    source: str
    model: str
    system: str
    plan: Plan
    software: Software
    measured_s: float
    assumed: str = ""

    def predicted_s(self, efficiencies: Efficiencies) -> float:
        """The model's step (s)."""
        shape, system = models.load(self.model), systems.load(self.system)
        return predict(shape, self.plan, self.software, system, efficiencies).time.total_s


def megatron_flop(model: models.Model, batch: int, sequence: int) -> float:
    """Arithmetic with which Narayanan et al. 2021 state throughput (their equation 3), a recomputed forward pass included (FLOP)."""
    m = model
    return 96 * batch * sequence * m.layers * m.hidden**2 * (1 + sequence / (6 * m.hidden) + m.vocabulary / (16 * m.layers * m.hidden))


def interleave_of(layers_a_stage: int, pipeline: int, rule: str) -> int:
    """Chunks a stage for runs whose interleave the source does not print.

    Args:
        layers_a_stage: layers of one stage (count); pipeline: stages (count).
        rule: `one`; `two` (two, where it divides).
    """
    if pipeline == 1 or rule == "one":
        return 1
    if rule == "two":
        return next((v for v in (2, 3) if layers_a_stage % v == 0), 1)
    raise InputError(f"no rule {rule!r}; expected one or two", key="interleave")


def sc21_cases(efficiencies: Efficiencies, interleave: str = "one", scheme: str = "PTD") -> list[Case]:
    """Narayanan et al., SC 2021, Tables 1 and 2 (Selene, full recomputation, sequence 2,048).

    Table 1 does not print the microbatch: the fastest that fits by this model is taken, as the paper's section 3.3 advises.

    Args:
        interleave: rule of `interleave_of`; the paper says that the schedule is interleaved, not how much.
        scheme: PTD, or ZeRO-3 (which the fit never uses).
    """
    rows = read_csv(PUBLISHED / "megatron_sc21.csv")
    cases = []
    for row in records(rows[rows["scheme"] == scheme]):
        model = models.load(str(row.model))
        t, p, batch = int(row.tensor_parallel), int(row.pipeline_parallel), int(row.batch)
        base = Plan(
            tensor_parallel=t,
            pipeline_parallel=p,
            data_parallel=int(row.gpus) // (t * p),
            interleave=interleave_of(model.layers // p, p, interleave),
            global_batch=batch,
            sequence_length=SEQUENCE,
            recompute="full",
            zero=3 if scheme == "ZeRO-3" else 0,
        )
        given = row.microbatch == row.microbatch
        plan = (
            base.model_copy(update={"microbatch": int(row.microbatch)})
            if given
            else _fastest(model, base, MEGATRON_2021, "Selene", efficiencies)
        )
        cases.append(
            Case(
                name=f"{row.model} on {row.gpus} ({row.scheme}, table {row.table})",
                source=f"Narayanan et al. 2021, Table {row.table}",
                model=str(row.model),
                system="Selene",
                plan=plan,
                software=MEGATRON_2021,
                measured_s=megatron_flop(model, batch, SEQUENCE) / (row.gpus * row.achieved_tflop_per_s_per_gpu * 1e12),
                assumed="interleave" if given else "interleave, microbatch",
            )
        )
    return cases


def _fastest(model: models.Model, plan: Plan, software: Software, system_name: str, efficiencies: Efficiencies) -> Plan:
    """The plan with the microbatch (a power of two) that is fastest and fits."""
    system = systems.load(system_name)
    room = system.load_device().memory_bytes - RESERVE_BYTES
    options = [plan.model_copy(update={"microbatch": b}) for b in (1, 2, 4, 8, 16) if plan.global_batch % (plan.data_parallel * b) == 0]
    options = [option for option in options if memory(model, option, software).total <= room]
    if not options:
        raise InputError("no microbatch fits", key=model.name)
    return min(options, key=lambda option: predict(model, option, software, system, efficiencies).time.total_s)


KORTHIKANTI_PIPELINES = {
    "megatron-22B": "megatron-22b",
    "gpt3-175B": "megatron-175b",
    "turing-530B": "megatron-530b",
    "megatron-1T": "megatron-1t",
}


def korthikanti_cases() -> list[Case]:
    """Korthikanti et al. 2022, Table 5: four models, with full recomputation and with sequence parallelism and selective recomputation."""
    rows = read_csv(PUBLISHED / "distributed_training.csv")
    rows = rows[rows["source"].str.startswith("Korthikanti") & (rows["metric"] == "iteration_time")]
    pattern = re.compile(r"(\S+) tp(\d+) pp(\d+) dp(\d+) batch(\d+) microbatch(\d+) interleave(\d+) recompute=(\w+)")
    cases = []
    for row in records(rows):
        found = pattern.fullmatch(str(row.model))
        if not found:
            raise InputError(f"cannot read the configuration {row.model!r}", path=PUBLISHED / "distributed_training.csv")
        name, *numbers, recompute = found.groups()
        t, p, d, batch, micro, v = map(int, numbers)
        plan = Plan(
            tensor_parallel=t,
            pipeline_parallel=p,
            data_parallel=d,
            interleave=v,
            microbatch=micro,
            global_batch=batch,
            sequence_length=SEQUENCE,
            sequence_parallel=recompute == "seqsel",
            recompute="selective" if recompute == "seqsel" else "full",
        )
        model = KORTHIKANTI_PIPELINES[name]
        cases.append(
            Case(f"{name} {recompute}", "Korthikanti et al. 2022, Table 5", model, "Selene", plan, MEGATRON_2022, float(row.value))
        )
    return cases


def mt_nlg_cases() -> list[Case]:
    """Smith et al. 2022, section 2.4: MT-NLG 530B with batch 1,920 on 2,240 to 3,360 A100."""
    rows = read_csv(PUBLISHED / "distributed_training.csv")
    rows = rows[rows["source"].str.contains("MT-NLG") & (rows["metric"] == "iteration_time")]
    return [
        Case(
            name=f"MT-NLG 530B on {row.gpus}",
            source="Smith et al. 2022, section 2.4",
            model="mt-nlg-530b",
            system="Selene",
            plan=Plan(
                tensor_parallel=8,
                pipeline_parallel=35,
                data_parallel=int(row.gpus) // 280,
                global_batch=1920,
                sequence_length=SEQUENCE,
                recompute="full",
            ),
            software=MEGATRON_2021,
            measured_s=float(row.value),
            assumed="microbatch 1, interleave 1",
        )
        for row in records(rows)
    ]


SCALING_2020 = {"1.16B": "megatron2019-1.16b", "2.03B": "megatron2019-2.03b", "4.24B": "megatron2019-4.24b", "8.67B": "megatron2019-8.67b"}


def scaling_2020_cases(system: str = "DGX-A100") -> list[Case]:
    """The 2020 scaling table of Megatron-LM (sequence 1,024): one node, and 128-way data-parallel."""
    rows = read_csv(PUBLISHED / "distributed_training.csv")
    rows = rows[
        rows["source"].str.contains("images/tables.tex") & (rows["metric"] == "iteration_time") & rows["system"].str.startswith(system)
    ]
    cases = []
    for row in records(rows):
        label, tensor = re.fullmatch(r"GPT (\S+) tp(\d+)", str(row.model)).groups()  # type: ignore[union-attr]
        batch = int(re.search(r"batch (\d+)", str(row.system)).group(1))  # type: ignore[union-attr]
        d = int(row.gpus) // int(tensor)
        plan = Plan(
            tensor_parallel=int(tensor),
            data_parallel=d,
            microbatch=batch // d,
            global_batch=batch,
            sequence_length=1024,
            recompute="full",
        )
        model = SCALING_2020[label]
        machine = {"DGX-A100": "Selene", "DGX-2": "DGX-2"}[system]
        cases.append(
            Case(
                f"{model} on {row.gpus} ({system})",
                "NVIDIA/Megatron-LM images/tables.tex",
                model,
                machine,
                plan,
                MEGATRON_2021,
                float(row.value) / 1e3,
                "full recomputation",
            )
        )
    return cases
