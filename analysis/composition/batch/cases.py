"""What does a row of a table of offline batches say? Hardware, framework, model and lengths, as `Case`s."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.composition.training import shapes
from analysis.composition.training.shapes import Experts, Shape
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.hardware.devices import Device


@dataclass(frozen=True)
class Hardware:
    """A device as the benchmark used it.

    Attributes:
        device: of the hardware room; platform: whose software stack runs on it.
        dies: parts that a program sees as devices of their own (MI250: two; Max 1550: two stacks).
        link_bytes_per_s: one way, to the other devices of the node.
    """

    device: Device
    platform: str
    dies: int
    link_bytes_per_s: float


PLATFORMS = ("NVIDIA", "AMD", "Intel", "Gaudi", "SambaNova")
DIES = {"MI250": 2, "Max-1550": 2}
"""ROCm lists the two dies of an MI250 as devices (huggingface.co/docs/optimum/amd/amdgpu/perf_hardware), Level Zero the stacks of a
Max 1550 (article "flattening-gpu-tile-hierarchy" of intel.com/content/www/us/en/developer): a program's device is one of them. Whether a
model fits is asked of the card, for a row may count cards."""
FRAMEWORKS = ("vllm", "tensorrt-llm", "deepspeed-mii", "deepspeed", "llama.cpp", "sambaflow")
FRAMEWORK_NAMES = {
    "vllm": "vllm",
    "tensorrtllm": "tensorrt-llm",
    "trtllm": "tensorrt-llm",
    "deepspeedmii": "deepspeed-mii",
    "deepspeed": "deepspeed",
    "llamacpp": "llama.cpp",
    "sambaflow": "sambaflow",
}

BENCHMARK_DEVICES = {"a100": "A100-SXM4-40GB", "intelmax1550": "Max-1550", "intelpvc": "Max-1550", "gh200": "GH200-96GB"}
"""What the benchmark's names mean: its A100 are Polaris's of 40 GB (docs.alcf.anl.gov/polaris), its GH200 has 96 GB (arXiv:2411.00136)."""

SHAPES = {
    "qwen/qwen2-7b": Shape(
        hidden=3584,
        vocabulary=152064,
        heads=28,
        kv_heads=4,
        head_size=128,
        attention_layers=28,
        dense_layers=28,
        dense_width=18944,
        blocks=28,
    ),
    "qwen/qwen2-72b": Shape(
        hidden=8192,
        vocabulary=152064,
        heads=64,
        kv_heads=8,
        head_size=128,
        attention_layers=80,
        dense_layers=80,
        dense_width=29568,
        blocks=80,
    ),
    "qwen/qwen1.5-7b": Shape(
        hidden=4096,
        vocabulary=151936,
        heads=32,
        kv_heads=32,
        head_size=128,
        attention_layers=32,
        dense_layers=32,
        dense_width=11008,
        blocks=32,
    ),
    "mistralai/mistral-7b-v0.1": Shape(
        hidden=4096,
        vocabulary=32000,
        heads=32,
        kv_heads=8,
        head_size=128,
        attention_layers=32,
        dense_layers=32,
        dense_width=14336,
        blocks=32,
    ),
    "mistralai/mixtral-8x7b-v0.1": Shape(
        hidden=4096,
        vocabulary=32000,
        heads=32,
        kv_heads=8,
        head_size=128,
        attention_layers=32,
        expert_layers=32,
        blocks=32,
        experts=Experts(count=8, per_token=2, width=14336),
    ),
    "deci/decilm-7b": Shape(
        hidden=4096,
        vocabulary=32000,
        heads=32,
        kv_heads=2,
        head_size=128,
        attention_layers=32,
        dense_layers=32,
        dense_width=14336,
        blocks=32,
    ),
    "baai/aquila-7b": Shape(
        hidden=4096,
        vocabulary=100008,
        heads=32,
        kv_heads=32,
        head_size=128,
        attention_layers=32,
        dense_layers=32,
        dense_width=11008,
        blocks=32,
    ),
    "eleutherai/gpt-j-6b": Shape(
        hidden=4096,
        vocabulary=50400,
        heads=16,
        kv_heads=16,
        head_size=256,
        attention_layers=28,
        dense_layers=28,
        dense_width=16384,
        gated=False,
        blocks=28,
    ),
    "bigscience/bloom-7b1": Shape(
        hidden=4096,
        vocabulary=250880,
        heads=32,
        kv_heads=32,
        head_size=128,
        attention_layers=30,
        dense_layers=30,
        dense_width=16384,
        gated=False,
        blocks=30,
        tied=True,
    ),
    "facebook/opt-6.7b": Shape(
        hidden=4096,
        vocabulary=50272,
        heads=32,
        kv_heads=32,
        head_size=128,
        attention_layers=32,
        dense_layers=32,
        dense_width=16384,
        gated=False,
        blocks=32,
        tied=True,
    ),
}
"""Models of the benchmark that the other files lack (their config.json at huggingface.co/<name>)."""


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
    shape: Shape
    input_tokens: int
    output_tokens: int
    batch: int

    @property
    def sequences(self) -> int:
        """Sequences that are really run: llama.cpp's batch is a chunk of one prompt."""
        return 1 if self.framework == "llama.cpp" else self.batch


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum() or letter == ".")


def hardware(text: str) -> Hardware:
    """The device that a cell names: "Nvidia A100 GPU", "AMD MI300X GPU", "GH200".

    Raises:
        InputError: no such device, or one without a rate in 16 bits.
    """
    plain = _plain(text)
    for word in ("nvidia", "amd", "habana", "sambanova", "gpu"):
        plain = plain.replace(word, "") if plain not in BENCHMARK_DEVICES else plain
    device = devices.load(BENCHMARK_DEVICES.get(plain, plain if plain else text))
    if "fp16" not in device.peak and "bf16" not in device.peak:
        raise InputError(f"{device.name} has no 16-bit rate")
    platform = "Gaudi" if device.name.startswith("Gaudi") else device.vendor
    if platform not in PLATFORMS:
        raise InputError(f"no batch model for {device.vendor} ({device.name})")
    links = device.links
    link = links.nvlink or links.infinity_fabric or links.pcie
    return Hardware(device, platform, DIES.get(device.name, 1), link.per_direction.value if link else 50e9)


def _whole(row: dict[str, str], *names: str) -> int:
    for name in names:
        text = row.get(name, "").strip()
        if text:
            try:
                value = float(text)
            except ValueError:
                raise InputError(f"{name} {text!r} is not a number") from None
            if not math.isfinite(value) or value < 1 or value != int(value):
                raise InputError(f"{name} {text!r} must be a whole number, at least 1")
            return int(value)
    raise InputError(f"{names[0]} is missing")


def case(raw: dict[str, str]) -> Case:
    """A row, read.

    Raises:
        InputError: what is missing or not covered.
    """
    row = {str(key).strip(): str(value) for key, value in raw.items()}
    where = row.get("hardware", row.get("device", "")).strip()
    if not where:
        raise InputError("hardware is missing")
    framework = FRAMEWORK_NAMES.get(_plain(row.get("framework", "")).replace(".", ""))
    if framework is None:
        raise InputError(f"framework {row.get('framework', '')!r} is not covered ({', '.join(FRAMEWORKS)})")
    name = row.get("model", "").strip()
    shape = SHAPES.get(name.lower())
    if shape is None:
        shape = shapes.load(name).shape
    if shape.latent or shape.state_space:
        raise InputError(f"{name}: latent attention and state-space layers are not covered here")
    found = Case(
        hardware=hardware(where),
        devices=_whole({"devices": "1", **row}, "devices"),
        framework=framework,
        name=name,
        shape=shape,
        input_tokens=_whole(row, "input_tokens", "input_output_tokens"),
        output_tokens=_whole(row, "output_tokens", "input_output_tokens"),
        batch=_whole(row, "batch_size", "batch"),
    )
    memory = max(found.hardware.device.memory.high, found.hardware.device.memory_bytes) * found.devices
    if found.hardware.platform == "SambaNova":
        memory = np.inf  # 1.5 TB of DDR behind each socket
    if 2.0 * shape.parameters > memory:
        raise InputError(f"{2 * shape.parameters / 1e9:.0f} GB of 16-bit weights do not fit into {memory / 1e9:.0f} GB")
    return found


def read(frame: pd.DataFrame) -> tuple[list[Case | None], list[str]]:
    """Every row of a table (cells as text), and why those that could not be read could not."""
    cases: list[Case | None] = []
    reasons: list[str] = []
    for row in frame.astype(str).to_dict("records"):
        try:
            cases.append(case({str(key): str(value) for key, value in row.items()}))
            reasons.append("")
        except InputError as error:
            cases.append(None)
            reasons.append(error.message)
    return cases, reasons
