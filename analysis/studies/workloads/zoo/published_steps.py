"""Which published training steps does the study score, and what does each device of them run?

`data/workloads/stablehlo/published_steps.csv` says for lines of `data/published/gpu_tpu_workloads.csv` which workload of the zoo was
measured, with which options, on which device and how many; the value itself stays where it is quoted. A device runs its own share of the
batch; with several, transformers share weights and moments (FSDP), convolutional networks sum their gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import read_csv

STEPS = DATA / "workloads" / "stablehlo" / "published_steps.csv"
PUBLISHED = DATA / "published" / "gpu_tpu_workloads.csv"
READS = ("step_s", "tokens_per_s", "images_per_s")


@dataclass(frozen=True)
class Step:
    """One measured training step.

    Args:
        line: of the published table.
        cluster: rows of one source on one device, which are resampled together.
        device: of `data/hardware`, or "TPU-v3 core", half a chip; devices: how many.
        workload, options: of the zoo.
        reads: step_s (the step itself), tokens_per_s (of one device) or images_per_s (of all).
        work: tokens of one device, or images of all, in one step (count).
        attention: written out, fused (the scores never leave the chip) or none.
        measured_s: time of one step, work over rate where the source gives a rate (s).
    """

    line: int
    cluster: str
    device: str
    devices: int
    workload: str
    options: dict[str, str]
    reads: str
    work: float
    attention: str
    arithmetic: str
    measured_s: float
    model: str

    @property
    def local_options(self) -> dict[str, str]:
        """Options of the zoo for one device: its share of the batch, and of the update for transformers."""
        own = {**self.options, "batch": str(int(self.options["batch"]) // self.devices)}
        return {**own, "shard": str(self.devices)} if self.workload == "transformer" else own

    @property
    def module_key(self) -> tuple[str, ...]:
        """What its program depends on: steps with the same key run the same program."""
        return (self.workload, *(f"{key}={value}" for key, value in sorted(self.local_options.items())))

    def text(self) -> str:
        """StableHLO text of what one device runs, without its collectives."""
        from analysis.studies.workloads.zoo import catalogue as zoo

        return zoo.text(zoo.lower(self.workload, **self.local_options))


def steps() -> tuple[Step, ...]:
    """Every step of the study, in the order of the table."""
    published = read_csv(PUBLISHED, required=["model", "value"])
    found = []
    for at, row in enumerate(read_csv(STEPS, required=["line", "cluster", "device"], keep_default_na=False).to_dict("records"), 2):
        if not 2 <= row["line"] < len(published) + 2:
            raise InputError("no such line of the published table", path=STEPS, line=at, key="line")
        if row["reads"] not in READS:
            raise InputError(f"expected one of {', '.join(READS)}", path=STEPS, line=at, key="reads")
        quoted = published.iloc[row["line"] - 2]
        value, work = float(quoted["value"]), float(row["work"])
        found.append(
            Step(
                **{key: row[key] for key in ("line", "cluster", "device", "devices", "workload", "reads", "attention", "arithmetic")},
                options=dict(pair.split("=") for pair in row["options"].split()),
                work=work,
                measured_s=value if row["reads"] == "step_s" else work / value,
                model=quoted["model"],
            )
        )
    return tuple(found)
