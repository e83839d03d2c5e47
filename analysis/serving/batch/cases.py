"""What does a row of a table of offline batches say? Hardware, framework, model and lengths, as `Case`s."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.case_columns import Columns
from analysis.case_files import count
from analysis.case_rows import read_cases
from analysis.errors import InputError
from analysis.hardware import devices, own, systems
from analysis.hardware.devices import Device
from analysis.serving.points.cases import check_engine, machine
from analysis.vocabulary import engine, plain
from analysis.workloads import models
from analysis.workloads.models import Model


@dataclass(frozen=True)
class Hardware:
    """A device as the benchmark used it.

    Attributes:
        device: of `analysis.hardware`; platform: whose software stack runs on it.
        dies: parts that a program sees as devices of their own (MI250: two; Max 1550: two stacks).
    """

    device: Device
    platform: str
    dies: int

    def link_bytes_per_s(self, members: int) -> float:
        """One way, all links of a device to the others of a group: a mesh's too, over which frameworks do not send in a ring (bytes/s)."""
        links = self.device.links
        if links.nvlink is not None and links.nvlink.topology == "bridge" and members > 2:
            return systems.of_device(self.device).group(members).bandwidth_bytes_per_s
        link = links.nvlink or links.infinity_fabric or links.pcie
        return link.per_direction.value if link else 50e9


PLATFORMS = ("NVIDIA", "AMD", "Intel", "Gaudi", "SambaNova")
DIES = {"MI250": 2, "Max-1550": 2}
"""ROCm lists the two dies of an MI250 as devices (huggingface.co/docs/optimum/amd/amdgpu/perf_hardware), Level Zero the stacks of a
Max 1550 (intel.com/content/www/us/en/docs/oneapi/optimization-guide-gpu/2025-0/multi-stack-gpu-architecture.html, read in a stored copy:
the most common mode is each stack as a device): a program's device is one of them. Whether a model fits is asked of the card, for a row
may count cards."""
FRAMEWORKS = ("vllm", "tensorrt-llm", "deepspeed-mii", "deepspeed", "llama.cpp", "sambaflow")

BENCHMARK_DEVICES = {
    "a100": "A100-SXM4-40GB",
    "a10040gb": "A100-SXM4-40GB",
    "a10080gb": "A100-SXM4-80GB",
    "intelmax1550": "Max-1550",
    "intelpvc": "Max-1550",
    "gh200": "GH200-96GB",
}
"""What the benchmark's names mean: its A100 are Polaris's of 40 GB (docs.alcf.anl.gov/polaris), its GH200 has 96 GB (arXiv:2411.00136)."""

READS = Columns(
    names=(
        "hardware", "devices", "framework", "model", "input_tokens", "output_tokens", "input_output_tokens", "batch_size", "precision",
        "kind",
    ),
    aliases={"batch": "batch_size"},
    also={"gpus": "devices"},
    kept=("batch_size",),
    carried=("engine_version",),
)  # fmt: skip
"""Columns of a table of batches: LLM-Inference-Bench's, and ours."""
SIXTEEN_BITS = ("", "16", "bf16", "fp16", "bfloat16", "float16", "half")


@dataclass(frozen=True)
class Case:
    """One batch.

    Attributes:
        hardware: see above; devices: count; framework: of `FRAMEWORKS`; name, shape: the model.
        input_tokens, output_tokens: of each sequence; batch: sequences (llama.cpp: tokens of a chunk of the prompt).
    """

    hardware: Hardware
    devices: int
    framework: str
    name: str
    shape: Model
    input_tokens: int
    output_tokens: int
    batch: int

    @property
    def sequences(self) -> int:
        """Sequences that are really run: llama.cpp's batch is a chunk of one prompt."""
        return 1 if self.framework == "llama.cpp" else self.batch


def hardware(text: str) -> Hardware:
    """The device that a cell names: "Nvidia A100 GPU", "AMD MI300X GPU", "GH200"."""
    plain = models.plain(text)
    for word in ("nvidia", "amd", "habana", "sambanova", "gpu"):
        plain = plain.replace(word, "") if plain not in BENCHMARK_DEVICES else plain
    plain = plain.removeprefix("intel") if plain.startswith("intelgaudi") else plain
    device = devices.load(text if own.is_path(text) or not plain else BENCHMARK_DEVICES.get(plain, plain))
    if "fp16" not in device.peak and "bf16" not in device.peak:
        raise InputError(f"{device.name} has no 16-bit rate")
    platform = "Gaudi" if device.name.startswith("Gaudi") else device.vendor
    if platform not in PLATFORMS:
        raise InputError(f"no batch model for {device.vendor} ({device.name})")
    return Hardware(device, platform, DIES.get(device.name, 1))


def _first(row: dict[str, str], *names: str) -> int:
    """The first of some columns that is filled."""
    for name in names:
        text = row.get(name, "").strip()
        if text:
            value = count(row, name)
            if value is None:
                raise InputError(f"{name} {text!r} must be a whole number, at least 1")
            return value
    raise InputError(f"{names[0]} is missing")


def case(raw: dict[str, str]) -> Case:
    """A row, read."""
    row = {str(key).strip(): str(value) for key, value in raw.items()}
    where = row.get("hardware", row.get("device", "")).strip()
    if not where:
        raise InputError("hardware is missing")
    framework = {plain(engine(name)): name for name in FRAMEWORKS}.get(plain(engine(row.get("framework", ""))))
    if not row.get("framework", "").strip():
        raise InputError(f"framework is missing ({', '.join(FRAMEWORKS)})")
    if framework is None:
        raise InputError(f"framework {row.get('framework', '')!r} is not covered ({', '.join(FRAMEWORKS)})")
    name = row.get("model", "").strip()
    precision = row.get("precision", "").strip()
    if precision.lower() not in SIXTEEN_BITS:
        raise InputError(f"precision {precision!r} is not covered: batches are answered in 16 bits; `predict serving` knows other types")
    if row.get("kind", "").strip().lower() not in ("", "static"):
        raise InputError(f"kind {row['kind']!r} is not covered: batches are static (all start and end together)")
    shape = models.load(name)
    if not shape.causal:
        raise InputError(f"{name}: an encoder generates no tokens")
    if shape.latent or shape.linear:
        raise InputError(f"{name}: latent and linear attention are not covered here")
    if row.get("input_output_tokens", "").strip() and (row.get("input_tokens", "").strip() or row.get("output_tokens", "").strip()):
        raise InputError("input_output_tokens says what input_tokens or output_tokens say: give one of them")
    found = Case(
        hardware=hardware(where),
        devices=_first({"devices": "1", **row}, "devices"),
        framework=framework,
        name=name,
        shape=shape,
        input_tokens=_first(row, "input_tokens", "input_output_tokens"),
        output_tokens=_first(row, "output_tokens", "input_output_tokens"),
        batch=_first(row, "batch_size", "batch"),
    )
    if shape.learned_positions:
        models.check_length(name, found.input_tokens + found.output_tokens, "input_tokens")
    check_engine(engine(framework), found.hardware.device.name)
    most = machine(found.hardware.device.name).devices_per_node * found.hardware.dies
    if found.devices > most:
        raise InputError(f"{found.devices} devices: links without a network join {most} {found.hardware.device.name}; one node is covered")
    if framework in ("vllm", "tensorrt-llm") and shape.heads % found.devices:
        raise InputError(f"{framework} splits {shape.heads} heads over the devices: {found.devices} do not divide them")
    memory = max(found.hardware.device.memory.high, found.hardware.device.memory_bytes) * found.devices
    if found.hardware.platform == "SambaNova":
        memory = np.inf  # 1.5 TB of DDR behind each socket
    if 2.0 * shape.parameters > memory:
        raise InputError(f"{2 * shape.parameters / 1e9:.0f} GB of 16-bit weights do not fit into {memory / 1e9:.0f} GB")
    return found


def read(frame: pd.DataFrame) -> tuple[list[Case | None], list[str]]:
    """Every row of a table (cells as text), and why those that could not be read could not."""
    return read_cases(frame, case)
