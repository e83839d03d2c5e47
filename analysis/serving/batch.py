"""How long does an offline batch of prompts take?

vLLM, SGLang and TensorRT-LLM: as `points` serves requests that all come at once. Other engines, and vLLM on devices of several dies, as
LLM-Inference-Bench timed them in 2024: bytes and arithmetic over the data sheet's rates, host work, waiting for memory; `shares` of the
rates are fitted (`batch_step.yaml`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.case_columns import Columns
from analysis.case_files import count
from analysis.case_rows import read_cases
from analysis.configs import read_yaml
from analysis.errors import InputError
from analysis.hardware import devices, systems
from analysis.hardware.devices import Device
from analysis.paths import DATA
from analysis.serving.points import answers as points
from analysis.serving.points import cases as served
from analysis.serving.points.constants import load
from analysis.training.shares import ShareFile, SharesFile
from analysis.vocabulary import ENGINES, engine, plain
from analysis.workloads import models
from analysis.workloads.models import Model

Floats = NDArray[np.float64]
COLUMNS = ("latency_s", "lower_s", "upper_s", "throughput_tokens_per_s", "assumed", "status")
PLATFORMS = ("NVIDIA", "AMD", "Intel", "Gaudi", "SambaNova")
FRAMEWORKS = ("vllm", "tensorrt-llm", "deepspeed-mii", "deepspeed", "llama.cpp", "sambaflow")
SHARES = read_yaml(DATA / "workloads" / "batch_shares.yaml", SharesFile).shares
SOCKET_BYTES = 1.5e12
"""DDR behind each socket of an SN40L."""
MEASURED = ("A100-SXM4-40GB", "H100-SXM5-80GB", "MI250", "Max-1550", "Gaudi2", "SN40L")
"""Devices of LLM-Inference-Bench's rows; each was predicted with itself left out, and so are intervals of devices without rows."""
RELEASES = "engines as LLM-Inference-Bench timed them in 2024"
ONE_SIBLING = 2.0
"""A platform with one device in the fit (AMD): its interval is this much wider than NVIDIA's, which has two; nothing calibrates it."""
READS = Columns(
    names=(
        "hardware", "devices", "framework", "model", "input_tokens", "output_tokens", "input_output_tokens", "batch_size", "precision",
        "kind", "engine_version",
    ),
    aliases={"batch": "batch_size"},
    also={"gpus": "devices"},
    kept=("batch_size",),
)  # fmt: skip
"""Columns of a table of batches: LLM-Inference-Bench's, and ours."""
SIZES = ("devices", "input_tokens", "output_tokens", "batch_size")
ONE_TOKEN = "one token: the time of two, less that of an output token"


@cache
def fitted() -> ShareFile:
    """The committed shares and the interval's stretch."""
    return read_yaml(DATA / "models" / "batch_step.yaml", ShareFile)


@dataclass(frozen=True)
class Case:
    """One batch on `devices` devices, by a framework of `FRAMEWORKS`.

    Attributes:
        name, shape: of the model; input_tokens, output_tokens: of each sequence.
        batch_size: sequences (llama.cpp: tokens of a chunk of the prompt).
        version: of the engine, which changes nothing.
    """

    device: Device
    devices: int
    framework: str
    name: str
    shape: Model
    input_tokens: int
    output_tokens: int
    batch_size: int
    version: str = ""

    @property
    def platform(self) -> str:
        """Whose software stack runs on the device."""
        return "Gaudi" if self.device.name.startswith("Gaudi") else self.device.vendor

    @property
    def sequences(self) -> int:
        """Sequences that are really run: llama.cpp's batch is a chunk of one prompt."""
        return 1 if self.framework == "llama.cpp" else self.batch_size

    @property
    def link_bytes_per_s(self) -> float:
        """One way, all links of a device to the others of a group: a mesh's too, over which frameworks do not send in a ring (bytes/s)."""
        links = self.device.links
        if links.nvlink is not None and links.nvlink.topology == "bridge" and self.devices > 2:
            return systems.of_device(self.device).group(self.devices).bandwidth_bytes_per_s
        link = links.nvlink or links.infinity_fabric or links.pcie
        return link.per_direction.value if link else 50e9


def _cells(raw: dict[str, str]) -> dict[str, str]:
    """The cells of a row, those of its devices, lengths and batch under one name each."""
    row = {str(key).strip(): str(value).strip() for key, value in raw.items()}
    if row.get("kind", "").lower() not in ("", "static"):
        raise InputError(f"kind {row['kind']!r} is not covered: batches are static (all start and end together)")
    both = row.get("input_output_tokens", "")
    if both and (row.get("input_tokens") or row.get("output_tokens")):
        raise InputError("input_output_tokens says what input_tokens or output_tokens say: give one of them")
    row |= {name: row.get(name) or other for name, other in zip(SIZES, ("1", both, both, row.get("batch", "")), strict=True)}
    if missing := next((name for name in ("hardware", "framework", *SIZES) if not row.get(name)), ""):
        raise InputError(f"{missing} is missing")
    for name in SIZES:
        if (value := count(row, name)) is None:
            raise InputError(f"{name} {row[name]!r} must be a whole number, at least 1")
        row[name] = str(value)
    return row


def question(raw: dict[str, str]) -> Case | served.Case:
    """A row: as a served point, a static batch, where the calibrated engine answers it, else as a batch of 2024."""
    row = _cells(raw)
    name, one = engine(row["framework"]), row["output_tokens"] == "1"
    if name not in ENGINES or (name == "vllm" and devices.load(row["hardware"]).dies > 1):
        return case(raw)
    asked = {served.READS.read_as(name): row.get(name, "") for name in READS.names}
    found = served.case({**asked, "arrival": "static", "gpus": row["devices"], "osl": "2" if one else row["output_tokens"]})
    return replace(found, assumed=(*found.assumed, ONE_TOKEN)) if one else found


def case(raw: dict[str, str]) -> Case:
    """A row, read as a batch of 2024."""
    row = _cells(raw)
    name, precision = row.get("model", ""), row.get("precision", "").lower()
    framework = {plain(engine(known)): known for known in FRAMEWORKS}.get(plain(engine(row["framework"])))
    if framework is None:
        raise InputError(f"framework {row['framework']!r} is not covered ({', '.join(FRAMEWORKS)}, sglang)")
    if precision and served.PRECISIONS.get(precision) != "bf16":
        raise InputError(f"precision {row['precision']!r} is not covered: {framework} is answered in 16 bits here")
    shape = models.load(name)
    if not shape.causal:
        raise InputError(f"{name}: an encoder generates no tokens")
    if shape.latent or shape.linear:
        raise InputError(f"{name}: latent and linear attention are not covered here")
    device, sizes = devices.load(row["hardware"]), {size: int(row[size]) for size in SIZES}
    found = Case(device=device, framework=framework, name=name, shape=shape, version=row.get("engine_version", ""), **sizes)
    if "fp16" not in device.peak and "bf16" not in device.peak:
        raise InputError(f"{device.name} has no 16-bit rate")
    if found.platform not in PLATFORMS:
        raise InputError(f"no batch model for {device.vendor} ({device.name})")
    if shape.learned_positions:
        models.check_length(name, found.input_tokens + found.output_tokens, "input_tokens")
    served.check_engine(engine(framework), device.name)
    most = served.machine(device.name).devices_per_node * device.dies
    if found.devices > most:
        raise InputError(f"{found.devices} devices: links without a network join {most} {device.name}; one node is covered")
    if framework in ("vllm", "tensorrt-llm") and shape.heads % found.devices:
        raise InputError(f"{framework} splits {shape.heads} heads over the devices: {found.devices} do not divide them")
    memory = max(device.memory.high, device.memory_bytes) * found.devices
    if 2.0 * shape.parameters > memory and found.platform != "SambaNova":
        raise InputError(f"{2 * shape.parameters / 1e9:.0f} GB of 16-bit weights do not fit into {memory / 1e9:.0f} GB")
    return found


def table(cases: Sequence[Case]) -> pd.DataFrame:
    """What `latency` needs of each case, a row each (bytes, FLOP, counts)."""
    return pd.DataFrame(
        {
            "framework": item.framework,
            "platform": item.platform,
            "devices": item.devices,
            "dies": item.device.dies,
            "bandwidth": item.device.memory_bandwidth_bytes_per_s,
            "peak": item.device.peak_flop_per_s("bf16" if "bf16" in item.device.peak else "fp16"),
            "link": item.link_bytes_per_s,
            "memory": SOCKET_BYTES if item.platform == "SambaNova" else item.device.memory_bytes,
            "layers": item.shape.attention_layers,
            "hidden": item.shape.hidden,
            "weights": 2.0 * item.shape.parameters,
            "touched_always": 2.0 * (item.shape.body_parameters + item.shape.hidden * item.shape.vocabulary),
            "expert_bytes": 2.0 * item.shape.expert_parameters * item.shape.expert_layers,
            "experts": item.shape.experts.count if item.shape.experts else 1,
            "per_token": item.shape.experts.per_token if item.shape.experts else 0,
            "active": item.shape.multiplied_parameters,
            "cache_bytes": 4.0 * item.shape.attention_layers * item.shape.kv_heads * item.shape.head_size,
            "heads_width": item.shape.attention_layers * item.shape.heads * item.shape.head_size,
            "input": item.input_tokens,
            "output": item.output_tokens,
            "sequences": item.sequences,
            "chunk": min(item.batch_size, item.input_tokens),
        }
        for item in cases
    )


def latency(batches: pd.DataFrame, shares: Floats) -> dict[str, Floats]:
    """Seconds of a batch, and its parts; `total` is their sum.

    A decode step reads the weights (of the experts that the batch touches) and the cache, computes, exchanges twice a layer, and waits for
    the host (fourth-power mean of device and host). The cache's memory bounds how many sequences run at once; the others follow.

    Args:
        batches: as `table` gives them; shares: of `SHARES`, in their order.
    """
    t, s = batches.to_records(index=False), dict(zip(SHARES, shares, strict=True))
    chunked = t.framework == "llama.cpp"

    def over(kind: str, names: Sequence[str]) -> Floats:
        """Time over the others'; of a framework or a platform without such a share 1."""
        return np.array([s.get(f"{kind}.{name}", 1.0) for name in names])

    busy = over("busy", t.framework) * np.where(chunked, over("ported", t.platform), 1.0) * over("busy", t.platform)
    vendor_host = over("host", t.platform)
    host = over("host", t.framework) * vendor_host
    # llama.cpp deals layers to the devices, which work one after the other: one device's rates, no exchange
    members = np.where(chunked, 1.0, t.devices)
    bandwidth, peak = t.bandwidth * (members / t.dies), t.peak * (members / t.dies)
    exchange = np.where(members > 1, s["exchange_s"] * vendor_host * (1 + 0.5 * np.log2(members)), 0.0)
    # A decoder is fused into one kernel call on 8 and 16 sockets (abstract of the talk at 62dac.conference-program.com, SSSN027); that its
    # communication streams inside that call is our inference from it.
    exchange = exchange * np.where(t.framework == "sambaflow", host, 1.0)

    def weights_bytes(tokens: Floats) -> Floats:
        touched = t.experts * (1 - (1 - t.per_token / np.maximum(t.experts, 1)) ** tokens)
        return t.touched_always + np.where(t.per_token > 0, touched * t.expert_bytes, 0.0)

    room = 0.92 * t.memory * t.devices - t.weights - 1e9 * t.devices
    held = np.maximum(room, 0.02 * t.memory * t.devices) / t.cache_bytes
    together = np.clip(held / (t.input + 0.8 * t.output), 1.0, t.sequences)
    waves = t.sequences / together

    def step(tokens: Floats, sequences: Floats, context: Floats) -> Floats:
        flop = 2.0 * t.active * tokens
        read = weights_bytes(tokens) / (bandwidth * s["weights"]) + sequences * context * t.cache_bytes / (bandwidth * s["cache"])
        moved = 2 * t.layers * np.where(members > 1, 2.0 * tokens * t.hidden / (0.6 * t.link), 0.0)
        device = busy * (read + flop / (peak * s["arithmetic"])) + moved + t.layers * (2 * exchange + s["gap_s"] * host)
        waiting = host * (s["host_s"] * t.layers + s["sequence_s"] * sequences)
        return np.asarray((device**4 + waiting**4) ** 0.25)

    attention = 2.0 * t.heads_width * t.input**2 * t.sequences
    prompt = np.where(chunked, t.chunk, t.input * together)
    passes = np.where(chunked, t.input / np.maximum(t.chunk, 1.0), waves)
    prefill = passes * step(prompt, np.where(chunked, 1.0, together), np.where(chunked, t.input / 2, 0.0))
    prefill = prefill + busy * attention / (0.5 * peak * s["arithmetic"])
    decode = waves * t.output * step(together, together, t.input + t.output / 2)
    fixed = s["request_s"] * host
    return {"prefill": prefill, "decode": decode, "fixed": fixed, "total": prefill + decode + fixed}


def _bounds(model: ShareFile, platform: str) -> tuple[float, float]:
    """Ends of the interval as logarithms over the answer."""
    lower, upper = model.stretch["NVIDIA"]
    if platform == "NVIDIA":
        return lower, upper
    return (ONE_SIBLING * lower, ONE_SIBLING * upper) if platform == "AMD" else model.stretch["other"]


def answers(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a case, with `COLUMNS`; a case that cannot be answered has its reason in `status`.

    Throughput counts input and output tokens of all sequences that are run, as the benchmark defines it.
    """
    cases, reasons = read_cases(frame, question)
    rows: list[tuple[Any, ...]] = [(*[math.nan] * 4, "", reason) for reason in reasons]
    for kind, answered in ((Case, _of_2024), (served.Case, _of_run)):
        if at := [index for index, item in enumerate(cases) if isinstance(item, kind)]:
            for index, row in zip(at, answered([cases[index] for index in at]), strict=True):
                rows[index] = row
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of_run(cases: list[Any]) -> Iterable[tuple[Any, ...]]:
    """`COLUMNS` of static batches as `predict serving` answers them: requests over requests a second."""
    from analysis.kernels.library import KernelLibrary

    run = points.answer(cases, load(), KernelLibrary.load()).table
    requests, alone = (np.array(each) for each in zip(*((item.clients, ONE_TOKEN in item.assumed) for item in cases), strict=True))
    seconds, lower, upper = (
        requests / run[f"requests_per_s{rate}"] - alone * 1e-3 * run[f"tpot{end}_ms"]
        for end, rate in zip(points.ENDS, ("", "_upper", "_lower"), strict=True)
    )
    tokens = requests * (np.array([item.input_tokens + item.output_tokens for item in cases]) - alone)
    return zip(seconds, lower, upper, tokens / seconds, run["assumed"], run["status"], strict=True)


def _of_2024(cases: list[Any]) -> Iterable[tuple[Any, ...]]:
    """`COLUMNS` of batches by the fitted shares."""
    model = fitted()
    seconds = latency(table(cases), np.array([model.shares[name].value for name in SHARES]))["total"]
    lower, upper = seconds * np.exp(np.array([_bounds(model, item.platform) for item in cases])).T
    tokens = np.array([(item.input_tokens + item.output_tokens) * item.sequences for item in cases])
    return zip(seconds, lower, upper, tokens / seconds, map(_assumed, cases), [""] * len(cases), strict=True)


def _assumed(item: Case) -> str:
    """What a row did not say: the types, the plan, and that an engine lets a request run beyond its model's context."""
    words, device = ["weights and KV cache in 16 bits"], item.device.name
    ways = "layers dealt out" if item.framework == "llama.cpp" else "tensor parallel"
    words.append(f"{item.devices} x {device} in one node, {ways}" if item.devices > 1 else f"one {device}")
    if device not in MEASURED:
        words.append(f"{device} is in no measured batch: answered as one left out")
    # Rotary positions go on beyond what a model was made for: the time is right where an engine lets it run, the text is not.
    if beyond := models.beyond(item.name, item.input_tokens + item.output_tokens):
        words.append(f"the engine lets it run: {beyond}")
    words += [f"engine_version {item.version} not used"] if item.version else []
    return "; ".join([*words, *models.text_alone(item.shape), RELEASES])
