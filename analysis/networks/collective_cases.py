"""How long does a collective take, as nccl-tests or rccl-tests prints it? Answers for a table of cases, each with a 90 % interval."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.case_columns import Columns
from analysis.errors import InputError
from analysis.hardware import devices, systems
from analysis.hardware.devices import Device
from analysis.hardware.systems import System
from analysis.networks.calibrated.form import KINDS, calibrated
from analysis.networks.collective_time import collective_time, way_of
from analysis.site import Site
from analysis.tables import as_number, numeric
from analysis.vocabulary import plain

READS = Columns(
    ("device", "gpus", "nodes", "network_gbit_per_s_per_gpu", "collective", "size_bytes"),
    ("device", "gpus", "collective", "size_bytes"),
    carried=("machine", "time_us"),
)
COLUMNS = ("time_us", "lower_us", "upper_us", "assumed", "status")
SPELT = {kind.replace("_", ""): kind for kind in KINDS}
MOST_GPUS, MOST_BYTES = 1 << 20, 1e15
CARDS = 16
"""Most cards on PCIe in one host that is answered."""
NINETY = 1.6448536269514722
WAYS = {
    "ring": "a ring over {link}",
    "nvls": "the switch adds (NVLS)",
    "pcie": "a ring over PCIe",
    "network": "over the network, inside the nodes by {inner}",
}


SIZE_STEP = 3.0
"""Octaves of message size between two constants of a site's curve: 3 of 1, 2, 3 and 4 by the machines that do not judge."""


def site_terms(system: System, shares: Mapping[str, float], size: float) -> dict[str, float]:
    """What a site's constants of a collective multiply (`analysis.site`): the shares of its time's parts, and a curve over message size,
    linear between constants that lie `SIZE_STEP` apart.
    """
    place = math.log2(max(size, 1.0)) / SIZE_STEP
    below = math.floor(place)
    curve = {f"size={below}": 1 - (place - below), f"size={below + 1}": place - below}
    return {f"on={system.device}": 0.0, **shares, **curve}


def parts_of(row: Mapping[str, str]) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """Parts of the time of a row that is answered (share, standard deviation of its logarithm), and its `site_terms`."""
    kind, members, system, _ = case({name: str(row.get(name, "")).strip() for name in READS.names})
    found = collective_time(kind, np.array([float(row["size_bytes"])]), members, system, graph=False).parts
    parts = {name: (float(share[0]), sd) for name, (share, sd) in found.items()}
    return parts, site_terms(system, {name: share for name, (share, _) in parts.items()}, float(row["size_bytes"]))


def answers(frame: pd.DataFrame, site: Site | None = None) -> pd.DataFrame:
    """One row a case, with `COLUMNS`; a case that cannot be answered has its reason in `status`.

    Args:
        frame: cells as text, columns of `READS`. size_bytes: as nccl-tests prints it (all_gather, reduce_scatter, broadcast: the whole
            buffer; all_to_all: a GPU's). nodes above 1 with an empty network: one NVLink domain where the device has one so large, else its
            usual network.
    """
    text = {name: frame[name].astype(str).str.strip() if name in frame else pd.Series("", frame.index) for name in READS.names}
    size = numeric(text["size_bytes"]).to_numpy(np.float64)
    time, lower, upper = (np.full(len(frame), np.nan) for _ in range(3))
    assumed, status = (np.full(len(frame), "", dtype=object) for _ in range(2))
    wrong = ~(np.isfinite(size) & (size >= 0) & (size <= MOST_BYTES))
    keys = pd.DataFrame({name: text[name].to_numpy() for name in READS.names[:-1]})
    for _, places in keys.groupby(list(keys.columns), sort=False).indices.items():
        row = {str(name): str(cell) for name, cell in keys.iloc[places[0]].items()}
        try:
            kind, members, system, words = case(row)
        except InputError as error:
            status[places] = error.reason
            continue
        at = places[~wrong[places]]
        got = collective_time(kind, size[at], members, system, graph=False)
        half, seconds = np.exp(NINETY * got.log_sd), got.seconds
        ends = [np.ones(len(at)), 1 / half, half]
        assumed[at] = "; ".join((*words, *got.assumed))
        if site is not None:
            shares = [{name: float(share[index]) for name, (share, _) in got.parts.items()} for index in range(len(at))]
            *ends, said = site.adjust("time_us", [site_terms(system, *one) for one in zip(shares, size[at], strict=True)], *ends[1:])
            assumed[at] = [f"{assumed[row_at]}; {one}" for row_at, one in zip(at, said, strict=True)]
        time[at], lower[at], upper[at] = (1e6 * seconds * end for end in ends)
    status[wrong & (status == "")] = f"size_bytes must be a number from 0 to {MOST_BYTES:.0e}"
    table = pd.DataFrame({"time_us": time, "lower_us": lower, "upper_us": upper, "assumed": assumed, "status": status})
    return table[list(COLUMNS)]


def case(row: dict[str, str]) -> tuple[str, int, System, list[str]]:
    """Collective, GPUs, machine and what is assumed of a row's cells."""
    kind = SPELT.get(plain(row["collective"]).removesuffix("perf"))
    if kind is None:
        raise InputError(f"collective {row['collective']!r} is not covered; covered: {', '.join(KINDS)}", key="collective")
    if not row["device"]:
        raise InputError("device is missing", key="device")
    device = devices.load(row["device"])
    if device.kind == "cpu":
        raise InputError(f"{device.name} is no accelerator", key="device")
    gpus, nodes = _whole(row["gpus"], "gpus", None, 2), _whole(row["nodes"], "nodes", 1, 1)
    if gpus % nodes:
        raise InputError(f"{gpus} GPUs do not divide by {nodes} nodes", key="gpus")
    network = as_number(row["network_gbit_per_s_per_gpu"])
    if row["network_gbit_per_s_per_gpu"] and not 0 < network < 1e6:
        raise InputError(
            f"network_gbit_per_s_per_gpu {row['network_gbit_per_s_per_gpu']!r} must be a number above 0", key="network_gbit_per_s_per_gpu"
        )
    system, words = machine(device, gpus, nodes, network)
    group = system.group(gpus)
    way = way_of(system, group, kind)
    link = group.level.name.replace("_", " ")
    if way is None:
        words.append(f"bytes and hops over {link}; no collective of {device.vendor} was measured")
    else:
        inner = "the switch, which adds" if way_of(system, system.group(group.inside), kind) == "nvls" else "a ring"
        words.append(WAYS[way].format(link=link, inner=inner))
        if device.name not in calibrated().shipped.devices:
            words.append(f"no collective of {device.name} was measured")
        if way == "network" and kind == "all_reduce" and nodes > 2:
            words.append("no switch of the network adds (SHARP)")
    graph = "; in a CUDA graph, as engines launch it, see `kernels predict`" if device.vendor in ("NVIDIA", "AMD") else ""
    words.append(f"{device.name}, launched by the host{graph}")
    return kind, gpus, system, words


def machine(device: Device, gpus: int, nodes: int, network_gbit_per_s: float) -> tuple[System, list[str]]:
    """The machine of a row, and what is assumed of it.

    Args:
        network_gbit_per_s: of one GPU; NaN: not said.
    """
    usual = systems.of_device(device)
    held, each, said = usual.devices_per_node, gpus // nodes, network_gbit_per_s == network_gbit_per_s
    most = CARDS if usual.levels[0].topology in ("host", "bridge") else held
    if each > most:
        raise InputError(f"{each} {device.name} in one node; at most {most} reach each other without a network: give nodes", key="gpus")
    if nodes == 1:
        system = usual if gpus <= held else systems.cluster(device, gpus)
        return system, ["the network is not used in one node"] if said else []
    if not said and gpus <= held and held > systems.NODE:
        return usual, [f"one {usual.levels[0].name} domain of {held}"]
    if said and gpus > held > systems.NODE:
        return systems.cluster(device, None, network_gbit_per_s * 1e9 / 8), [f"{usual.levels[0].name} domains of {held}"]
    system = systems.cluster(device, each, network_gbit_per_s * 1e9 / 8 if said else None)
    assumed = system.network
    if said or assumed is None or assumed.per_direction.note == "assumed":
        return system, []
    return system, [f"{8e-9 * assumed.bandwidth_bytes_per_s:.0f} Gbit/s of network a GPU, as in {usual.title}"]


def _whole(text: str, key: str, default: int | None, least: int) -> int:
    if not text and default is not None:
        return default
    value = as_number(text)
    if not (least <= value <= MOST_GPUS and value == int(value)):
        raise InputError(f"{key} {text!r} must be a whole number from {least} to {MOST_GPUS:,}", key=key)
    return int(value)
