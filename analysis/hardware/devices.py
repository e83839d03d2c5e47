"""What one accelerator, or one CPU, offers: arithmetic, memory, links and power.

>>> from analysis.hardware import devices
>>> a100 = devices.load("A100-SXM4-80GB")
>>> a100.peak_flop_per_s("bf16"), a100.memory_bandwidth_bytes_per_s
(312000000000000.0, 2039000000000.0)
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from analysis.configs import Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware.quantity import Bodies, ByteRate, Bytes, Count, FlopRate, Frequency, Power, Quantity
from analysis.paths import DATA

Dtype = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "int8", "int4"]


class Link(Strict):
    """A link of one device.

    Args:
        generation: of the link technology: 3 for NVLink 3 or PCIe Gen3.
        per_direction: bandwidth of all lanes or links of the device together, one way (bytes/s); vendors often print twice this.
        links: number of physical links or lanes (count).
        topology: `bridge` where a connector joins two cards and no switch all of a node.
    """

    generation: float
    per_direction: ByteRate
    links: Count | None = None
    topology: Literal["bridge"] | None = None


class Links(Strict):
    """Links of one device: PCIe to the host, NVLink (NVIDIA), Infinity Fabric (AMD), inter-chip interconnect (TPU)."""

    pcie: Link | None = None
    nvlink: Link | None = None
    infinity_fabric: Link | None = None
    ici: Link | None = None


def as_in_a_file(schema: dict[str, Any]) -> None:
    """A file's key is the name of a device or system, and its `source` is that of all numbers that name none."""
    schema["properties"]["source"] = {"type": "string", "description": "of all numbers that name none"}
    schema["required"].remove("name")
    schema["properties"].pop("own", None)


INLINE_ECC = ("A10", "A40", "L4", "L20", "L40", "L40S", "T4")
"""Cards that keep error-correcting codes in their GDDR6, a sixteenth of it: an L4 of 24 GB offers 23,034 MiB."""


class Device(Strict):
    """One accelerator; every number is a `Quantity` in SI base units, with plain-float properties beside it.

    Args:
        peak: dense peak of the fastest unit for each data type (FLOP/s), without structured sparsity; fp32 is IEEE fp32
            on NVIDIA (tf32 is apart) and the matrix unit on AMD.
        vector: peak of the vector (non-matrix) unit for each data type (FLOP/s).
        memory: device memory (bytes); memory_bandwidth (bytes/s).
        l2: last-level on-chip cache (bytes); l2_bandwidth (bytes/s) where measured.
        dies: parts that a program sees as devices of their own (count); all other figures are of the whole.
        sms: streaming multiprocessors, compute units, TensorCores or CPU cores (count); lanes_per_sm: fp32 lanes of each (count).
        clock: the boost clock that the peaks refer to (Hz).
        shared_memory_per_sm, register_file_per_sm: (bytes).
    """

    model_config = ConfigDict(json_schema_extra=as_in_a_file)

    name: str
    aliases: tuple[str, ...] = ()
    vendor: Literal["NVIDIA", "AMD", "Google", "Intel", "SambaNova"]
    kind: Literal["gpu", "tpu", "cpu", "accelerator"]
    architecture: str
    memory_type: str
    peak: dict[Dtype, FlopRate]
    vector: dict[Dtype, FlopRate] = Field(default_factory=dict)
    memory: Bytes
    memory_bandwidth: ByteRate
    l2: Bytes | None = None
    l2_bandwidth: ByteRate | None = None
    dies: int = Field(default=1, ge=1)
    sms: Count | None = None
    lanes_per_sm: Count | None = None
    clock: Frequency | None = None
    shared_memory_per_sm: Bytes | None = None
    register_file_per_sm: Bytes | None = None
    tdp: Power | None = None
    links: Links = Links()

    @model_validator(mode="after")
    def _no_figure_is_zero(self) -> Device:
        for name, held in self:
            figures = held.values() if isinstance(held, dict) else (held,)
            if any(isinstance(each, Quantity) and each.value <= 0 for each in figures):
                raise ValueError(f"{name}: expected more than 0")
        return self

    def peak_flop_per_s(self, dtype: str) -> float:
        """Dense peak for a data type (FLOP/s)."""
        if dtype not in self.peak:
            raise InputError(f"{self.name} has no {dtype} rate; expected one of {', '.join(self.peak)}", key="dtype")
        return self.peak[dtype].value  # type: ignore[index]

    def vector_flop_per_s(self, dtype: str = "fp32") -> float:
        """Peak of the vector unit for a data type (FLOP/s); where only one figure is known, `peak_flop_per_s`."""
        return self.vector[dtype].value if dtype in self.vector else self.peak_flop_per_s(dtype)  # type: ignore[index]

    @property
    def memory_bytes(self) -> float:
        """Device memory (bytes)."""
        return self.memory.value

    @property
    def usable_bytes(self) -> float:
        """What the driver offers of the memory (bytes): a maker's GB are GiB, less about 1.5 % and what error-correcting codes take.

        An RTX PRO 6000 of 96 GB has 94.97 GiB (LLMServingSim, profiler/perf/RTXPRO6000/hardware.yaml).
        """
        size = self.memory.value
        gib = size / (2**30 if size % 2**30 == 0 else 1e9)
        return gib * 2**30 * 0.985 * (15 / 16 if self.name in INLINE_ECC else 1.0)

    @property
    def memory_bandwidth_bytes_per_s(self) -> float:
        """Peak device-memory bandwidth (bytes/s)."""
        return self.memory_bandwidth.value

    @property
    def l2_bytes(self) -> float | None:
        """Last-level cache (bytes), where known."""
        return self.l2.value if self.l2 else None

    @property
    def sm_count(self) -> int | None:
        """Streaming multiprocessors, compute units or TensorCores, where known."""
        return int(self.sms.value) if self.sms else None

    @property
    def clock_hz(self) -> float | None:
        """Boost clock (Hz), where known."""
        return self.clock.value if self.clock else None

    @property
    def tdp_w(self) -> float | None:
        """Board power limit (W), where known."""
        return self.tdp.value if self.tdp else None

    @property
    def nvlink_bytes_per_s(self) -> float | None:
        """NVLink bandwidth of the device, one way, all links together (bytes/s)."""
        return self.links.nvlink.per_direction.value if self.links.nvlink else None

    @property
    def pcie_bytes_per_s(self) -> float | None:
        """PCIe bandwidth, one way (bytes/s)."""
        return self.links.pcie.per_direction.value if self.links.pcie else None

    def quantities(self) -> dict[str, Quantity]:
        """Every number of the device by dotted name, such as ``peak.bf16`` or ``links.nvlink.per_direction``."""
        found: dict[str, Quantity] = {}

        def walk(prefix: str, item: Any) -> None:
            if isinstance(item, Quantity):
                found[prefix] = item
            elif isinstance(item, dict):
                for key, value in item.items():
                    walk(f"{prefix}.{key}", value)
            elif isinstance(item, Strict):
                for key in type(item).model_fields:
                    walk(f"{prefix}.{key}" if prefix else key, getattr(item, key))

        walk("", self)
        return found


class DeviceFile(Bodies):
    """One file of `data/hardware/devices/`."""

    devices: dict[str, Device]


class Source(Strict):
    """Where a number comes from.

    Args:
        seen: date on which its figures were compared with ours (ISO), empty where quoted without opening it again.
    """

    title: str
    address: str
    seen: str = ""


class SourceFile(Strict):
    """`data/hardware/sources.yaml`."""

    sources: dict[str, Source]


@cache
def sources() -> dict[str, Source]:
    """The documents that the numbers quote, by key."""
    return read_yaml(DATA / "hardware" / "sources.yaml", SourceFile).sources


@cache
def all_devices() -> dict[str, Device]:
    """Every device of `data/hardware/devices/`, by name, in alphabetical order."""
    found: dict[str, Device] = {}
    for path in sorted((DATA / "hardware" / "devices").glob("*.yaml")):
        for name, device in read_yaml(path, DeviceFile).devices.items():
            if name in found:
                raise InputError("device given twice", path=path, key=name)
            for key, quantity in device.quantities().items():
                if quantity.source not in sources():
                    raise InputError(f"source {quantity.source!r} is not in sources.yaml", path=path, key=f"{name}.{key}")
            found[name] = device
    return dict(sorted(found.items()))


@cache
def _by_any_name() -> dict[str, Device]:
    names: dict[str, Device] = {}
    for device in all_devices().values():
        for name in (device.name, *device.aliases):
            key = plain(name)
            if key in names and names[key].name != device.name:
                raise InputError(f"{name!r} names both {names[key].name} and {device.name}", key=name)
            names[key] = device
    return names


def plain(name: str) -> str:
    """A name without case, marks, its maker's name and the word GPU, as sources print it: "AMD MI300X GPU" is "mi300x"."""
    found = name.lower()
    for word in ("nvidia", "tesla", "geforce", "amd", "instinct", "intel", "habana", "sambanova", "gpu", "-", "_", " "):
        found = found.replace(word, "")
    return found


WITH_MEMORY = re.compile(r"(.+?)(?:[ _-]sxm[45]?)?[ _-](\d+) ?gi?b(?:[ _-]hbm\w*)?", re.IGNORECASE)
"""A name and its device's memory: "MI300X 192GB HBM3", "GH200-SXM5-96GB"."""


@lru_cache(maxsize=4096)
def known(name: str) -> Device | None:
    """A device of `data/hardware` by name or alias, its memory behind it or not (288 GB may be sold as 270); None: there is none."""
    found = _by_any_name().get(plain(name))
    if found is None and (said := WITH_MEMORY.fullmatch(name)) and (other := _by_any_name().get(plain(said[1]))):
        found = other if abs(float(said[2]) * 1e9 / other.memory_bytes - 1) < 0.08 else None
    return found


def load(name: str) -> Device:
    """One device by name or alias (what `plain` leaves out does not matter), or the path of a file of one's own."""
    device = known(name)
    if device is None:
        from analysis.hardware import own

        device = own.device(name) if own.is_path(name) else own.named(name)
    if device is None:
        raise InputError(f"no device {name!r}; expected one of {', '.join(all_devices())}", key="device")
    return device


def facts(device: Device) -> dict[str, Any]:
    """What `devices NAME --json` prints."""
    source = sources().get(device.memory.source)
    return {
        "name": device.name,
        "aliases": list(device.aliases),
        "vendor": device.vendor,
        "kind": device.kind,
        "architecture": device.architecture,
        "peak_flop_per_s": {kind: peak.value for kind, peak in device.peak.items()},
        "memory_bytes": device.memory_bytes,
        "memory_bandwidth_bytes_per_s": device.memory_bandwidth_bytes_per_s,
        "nvlink_bytes_per_s": device.nvlink_bytes_per_s,
        "pcie_bytes_per_s": device.pcie_bytes_per_s,
        "tdp_w": device.tdp_w,
        "source": f"{source.title} ({source.address})" if source else device.memory.source,
    }
