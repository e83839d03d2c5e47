"""Fits the formula of `form` to measured collectives, and answers for a machine that was left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from analysis.hardware import devices, systems
from analysis.hardware.systems import Level, System
from analysis.networks import collective_time
from analysis.networks.calibrated import form
from analysis.networks.calibrated.form import WAYS, Deviation, Doubt, Floats, KindFactors, Parameters
from analysis.studies.intervals import weighted_quantile

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
_CENTRE = {
    "floor": np.log([35e-6, 170e-6]), "growth": np.array([0.7, 0.4]), "graph": np.array([-0.7]),
    "efficiency": np.log([0.8, 0.6, 0.45, 0.85]), "chunk": np.log([7e-6, 7e-6, 3e-6, 3e-5]),
    "kind_floor": np.log([0.7, 0.7, 0.5]), "kind_efficiency": np.log([0.9, 0.9, 0.85]), "pair": np.array([0.0]),
}  # fmt: skip
"""Priors: tens of microseconds in a node, more over a network; shares of bandwidth as NCCL's own tuning expects."""
_WIDTH = {
    "floor": np.array([0.5, 0.5]), "growth": np.array([0.2, 0.3]), "graph": np.array([0.5]),
    "efficiency": np.array([0.15, 0.15, 0.3, 0.15]),
    "chunk": np.full(4, 0.8), "kind_floor": np.full(3, 0.3), "kind_efficiency": np.full(3, 0.15),
    "pair": np.array([0.3]),
}  # fmt: skip
_DEPARTURE = {"device_efficiency": 0.12, "device_chunk": 0.5, "source_floor": 0.4}
"""Standard deviations of devices' and sources' departures; over a network each source has its own adapters and counts as a device."""
_NOISE = 0.15


@dataclass(frozen=True)
class Features:
    """Rows as the formula sees them: k s / B (s), way, logarithm of the group's size over the floor's, kind, whether in a CUDA graph and
    whether a pair on PCIe (1 or 0), device (over a network the source), source."""

    ideal_s: Floats
    way: Any
    log_size: Floats
    kind: Any
    graph: Floats
    pair: Floats
    device: Any
    source: Any


BOARDS = {"H100 pipeweave": 4}
"""Boards of so many GPUs with a link between each two, which only their own times tell: a left-out machine's is not known."""


def machine_of(device: str, source: str, gpus: int, nodes: int, network: float, blind: bool = False) -> System:
    """The machine that a row was measured on; `blind`: as far as it is known without its own times."""
    sheet = devices.load(device)
    system = systems.cluster(sheet, gpus // nodes if network == network else None, network if network == network else None)
    if source in BOARDS and not blind:
        level: Level = system.levels[0].model_copy(update={"topology": "mesh", "size": BOARDS[source]})
        return system.model_copy(update={"levels": (level, *system.levels[1:])})
    return system


def features(rows: pd.DataFrame, blind: bool = False) -> Features:
    """Rows of `series` as the formula sees them; `blind`: see `machine_of`."""
    byte_s, ways, log_size = np.empty(len(rows)), np.empty(len(rows), np.int64), np.empty(len(rows))
    keys = ["device", "source", "gpus", "nodes", "network_bytes_per_s", "kind"]
    for _, part in rows.reset_index(drop=True).groupby(keys, dropna=False):
        row, gpus, places = part.iloc[0], int(part["gpus"].iloc[0]), part.index
        system = machine_of(row["device"], row["source"], gpus, int(row["nodes"]), row["network_bytes_per_s"], blind)
        group = system.group(gpus)
        way = collective_time.way_of(system, group, row["kind"])
        assert way is not None
        parts = -(-gpus // group.inside)
        byte_s[places] = form.traffic(row["kind"], way, gpus, parts) / group.bandwidth_bytes_per_s
        ways[places] = WAYS.index(way)
        log_size[places] = np.log(parts / 2 if way == "network" else gpus / 8)
    pair = (ways == WAYS.index("pcie")) & (rows["gpus"].to_numpy() == 2)
    return Features(
        byte_s * rows["size_bytes"].to_numpy(float),
        ways,
        log_size,
        np.array([KINDS.index(kind) for kind in rows["kind"]]),
        rows["graph"].to_numpy(float),
        pair.astype(float),
        np.where(ways == WAYS.index("network"), rows["source"], rows["device"]),
        rows["source"].to_numpy(),
    )


@dataclass(frozen=True)
class Solution:
    """A fit: common values by name of `_CENTRE`, departures of devices (efficiency, chunk) and of sources (floor)."""

    common: dict[str, Floats]
    efficiency: dict[str, float]
    chunk: dict[str, float]
    floor: dict[str, float]


def _unpack(vector: Floats, names: list[str], sources: list[str]) -> Solution:
    common, at = {}, 0
    for name, centre in _CENTRE.items():
        common[name] = vector[at : at + len(centre)]
        at += len(centre)
    efficiency, chunk, floor = np.split(vector[at:], [len(names), 2 * len(names)])
    return Solution(
        common, dict(zip(names, efficiency, strict=True)), dict(zip(names, chunk, strict=True)), dict(zip(sources, floor, strict=True))
    )


def _times(x: Features, c: dict[str, Floats], efficiency: Floats, chunk: Floats, floor: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Times of rows, with the departures of each row: (time, floor, bytes, fill) (s)."""
    network = (x.way == WAYS.index("network")).astype(int)
    kind_floor, kind_efficiency = (np.append(0.0, c[name])[x.kind] for name in ("kind_floor", "kind_efficiency"))
    floor_s = np.exp(c["floor"][network] + c["growth"][network] * x.log_size + kind_floor + c["graph"][0] * x.graph + floor)
    share = np.minimum(1.0, np.exp(c["efficiency"][x.way] + kind_efficiency + c["pair"][0] * x.pair + efficiency))
    time, moved, fill = form.protocols(floor_s, x.ideal_s / share, np.exp(c["chunk"][x.way] + chunk), x.way == WAYS.index("ring"))
    return time, floor_s, moved, fill


def predict(solution: Solution, x: Features) -> tuple[Floats, Floats, Floats, Floats]:
    """Times of rows and what they are made of (s); departures of what was not in the fit are zero."""
    held = ((solution.efficiency, x.device), (solution.chunk, x.device), (solution.floor, x.source))
    own = [np.array([known.get(name, 0.0) for name in names]) for known, names in held]
    return _times(x, solution.common, own[0], own[1], own[2])


def solve(rows: pd.DataFrame, blind: bool = False) -> Solution:
    """Robust least squares on log time, every series (source, kind, GPUs) of equal weight, with the priors above."""
    x = features(rows, blind)
    names, sources = sorted(set(x.device)), sorted(set(x.source))
    device_at, source_at = (np.array([order.index(name) for name in held]) for order, held in ((names, x.device), (sources, x.source)))
    target = np.log(rows["time_s"].to_numpy())
    series = rows["source"] + rows["kind"] + rows["gpus"].astype(str)
    weight = np.sqrt(30 / series.map(series.value_counts()).to_numpy())
    centre, width = np.concatenate(list(_CENTRE.values())), np.concatenate(list(_WIDTH.values()))
    departure = np.repeat(list(_DEPARTURE.values()), [len(names), len(names), len(sources)])

    def residuals(vector: Floats) -> Floats:
        efficiency, chunk, floor = np.split(vector[len(centre) :], [len(names), 2 * len(names)])
        common = _unpack(vector, names, sources).common
        time = _times(x, common, efficiency[device_at], chunk[device_at], floor[source_at])[0]
        error = (np.log(time) - target) / _NOISE
        robust = np.sign(error) * np.sqrt(2 * (np.sqrt(1 + error**2) - 1))
        return np.r_[robust * weight, (vector[: len(centre)] - centre) / width, vector[len(centre) :] / departure]

    start = np.r_[centre, np.zeros(len(departure))]
    return _unpack(least_squares(residuals, start, max_nfev=60).x, names, sources)


def parameters(solution: Solution, rows: pd.DataFrame) -> Parameters:
    """A fit as it is shipped: of departures those of devices in a node, and of their hosts' floors those of the tables in CUDA graphs."""
    c = {name: np.exp(values) if name != "growth" else values for name, values in solution.common.items()}
    captured = rows[rows["graph"]].groupby("device")["source"].first()
    own = {
        name: Deviation(
            efficiency=solution.efficiency[name], chunk=solution.chunk[name], floor=solution.floor.get(captured.get(name, ""), 0.0)
        )
        for name in sorted(set(rows["device"]) & set(solution.efficiency))
    }
    log = solution.common
    return Parameters(
        floor_s={"node": c["floor"][0], "network": c["floor"][1]},
        growth={"node": c["growth"][0], "network": c["growth"][1]},
        graph=c["graph"][0],
        pair=c["pair"][0],
        efficiency=dict(zip(WAYS, map(float, c["efficiency"]), strict=True)),
        chunk_s=dict(zip(WAYS, map(float, c["chunk"]), strict=True)),
        kinds={kind: KindFactors(floor=log["kind_floor"][at], efficiency=log["kind_efficiency"][at]) for at, kind in enumerate(KINDS[1:])},
        devices=own,
    )


def left_out(rows: pd.DataFrame, source: str, device_too: bool = False) -> pd.DataFrame:
    """Rows of a source with the answer of a fit that has not seen it, nor with `device_too` any row of its device.

    Returns:
        its rows with predicted_s, the three parts of that time (s), way, and known: whether the fit has seen the device's NVLink.
    """
    out = rows["source"] == source
    taught = rows[~out & ~(rows["device"].isin(set(rows.loc[out, "device"])) if device_too else False)]
    x = features(rows[out], blind=True)
    time, floor, moved, fill = predict(solve(taught), x)
    way = np.array(WAYS)[x.way]
    known = rows.loc[out, "device"].isin(set(taught.loc[taught["network_bytes_per_s"].isna(), "device"])) & np.isin(way, ("ring", "nvls"))
    return rows[out].assign(predicted_s=time, floor_s=floor, moved_s=moved, fill_s=fill, known=known, way=way)


def log_sd(scored: pd.DataFrame, doubt: Doubt) -> Floats:
    """Standard deviation of the logarithm of each answer of `left_out`, before scaling."""
    efficiency = np.where(scored["known"], doubt.efficiency["known"], doubt.efficiency["unknown"])
    parts = (("floor_s", doubt.floor), ("moved_s", efficiency), ("fill_s", doubt.chunk))
    spread = [(scored[name].to_numpy(float) / scored["predicted_s"].to_numpy(float) * sd) ** 2 for name, sd in parts]
    return np.asarray(np.sqrt(sum(spread) + doubt.rest**2))


PLACE = {"ring": "node", "nvls": "node", "pcie": "pcie", "network": "network"}
NINETY = 1.6448536269514722
"""Standard deviations on each side of a 90 % interval."""
SPREAD = Doubt(floor=0.4, efficiency={"known": 0.06, "unknown": 0.12, "foreign": 0.24}, chunk=0.5, rest=0.05, scale={})
"""Before scaling: the priors of the departures (a measured device's efficiency: half of an unmeasured one's, another maker's twice), and
what repeats leave."""


def scales(scored: pd.DataFrame) -> dict[str, float]:
    """By way the factor on `SPREAD` with which 90 % intervals hold 90 % of each source left out, sources alike.

    Wider by sqrt(1 + 1 / sources): the common value that a new machine departs from is itself known from so many.
    """
    ratio = np.abs(np.log(scored["time_s"].to_numpy(float) / scored["predicted_s"].to_numpy(float))) / log_sd(scored, SPREAD) / NINETY
    place = scored["way"].map(PLACE).to_numpy()
    weight = (1.0 / scored["source"].map(scored["source"].value_counts())).to_numpy()
    found = {}
    for way, name in PLACE.items():
        at = place == name
        sources = scored.loc[at, "source"].nunique()
        found[way] = float(weighted_quantile(ratio[at], weight[at], 0.9) * np.sqrt(1 + 1 / sources))
    return found
