"""Which published training steps does the study score, and what does each device of them run?

`data/workloads/stablehlo/published_steps.csv` says for lines of `data/published/gpu_tpu_workloads.csv` which workload of the zoo was
measured, with which options, on which device and how many; the value itself stays where it is quoted. Each step's module (one device's,
after partitioning) ships under `data/workloads/stablehlo/published/`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import InputError
from analysis.paths import DATA
from analysis.tables import read_csv
from analysis.workloads import shipped

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
        arithmetic: data type of the matrix products.
        measured_s: time of one step, work over rate where the source gives a rate (s).
        model: as the source names it.
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
    def key(self) -> str:
        """Name of its module: workload or model, and a digest of workload, options and devices."""
        text = f"{self.workload} {sorted(self.options.items())} {self.devices}"
        return f"{self.options.get('model', self.workload)}_n{self.devices}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def path(self) -> Path:
        """Where its module ships."""
        return shipped.FOLDER / "published" / f"{self.key}.mlir.gz"

    @property
    def split_options(self) -> dict[str, str]:
        """Options of the zoo with the split: weights and batch for transformers, batch for the rest; none on one device."""
        if self.devices == 1:
            return self.options
        split = {"split": "fsdp"} if self.workload == "transformer" else {}
        return {**self.options, **split, "devices": str(self.devices)}


def steps() -> tuple[Step, ...]:
    """Every step of the study, in the order of the table.

    Raises:
        InputError: a line that the published table does not have, or an unknown reading.
    """
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


def write_modules(folder: Path) -> None:
    """Make the modules of all steps again (about ten CPU-minutes).

    Args:
        folder: where they are put, in place of the shipped ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for step in steps():
        path = folder / step.path.name
        if not path.exists():
            path.write_bytes(shipped.compress(shipped.make(step.workload, step.split_options, step.devices)))
