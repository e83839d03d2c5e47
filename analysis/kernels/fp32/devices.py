"""What does a kernel predictor know of a GPU? Its data sheet, and how far its board lets the chip run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

from analysis.configs import Source, Strict, read_yaml
from analysis.errors import InputError
from analysis.hardware import devices
from analysis.paths import DATA

ARCHITECTURES = DATA / "models" / "kernels" / "architectures.yaml"
Tiles = tuple[tuple[int, int], ...]
DEFAULT_TILES: Tiles = ((128, 128),)  # assumed where no relative was seen
BOARD_OVERHEAD_W = 20.0  # memory, converters and leakage of a board; a round figure


class Architecture(Strict):
    """What boards of one chip design share.

    Args:
        name: architecture of `data/hardware/devices`.
        lanes_per_sm: fp32 lanes of a streaming multiprocessor or compute unit (count), which tells the two designs of a generation apart.
        reference_board: the least power-limited board of the design, its limit (W) and fp32 peak of the vector unit (TFLOP/s).
        separate_integer_pipe: whether address arithmetic issues beside fp32 (Volta and later) or takes its slots.
        shared_bandwidth_bytes_per_clock: shared memory of one multiprocessor (bytes a clock).
        tile_families: families of tile lists, the closest first.
    """

    name: str
    lanes_per_sm: int
    reference_board: str
    reference_tdp_w: float
    reference_tflop_per_s: float
    separate_integer_pipe: bool
    shared_bandwidth_bytes_per_clock: float
    tile_families: tuple[str, ...]
    source: Source


class TileList(Strict):
    """Output tiles (columns by rows) of the fp32 matrix products that a library launched on one measured GPU.

    Args:
        device: the GPU, as the tables write it; family: whose kernels it runs.
        source: `measured: ` and the tables.
    """

    device: str
    family: str
    bmm_tiles: Tiles
    linear_tiles: Tiles
    source: Source


class ArchitectureFile(Strict):
    """`data/models/kernels/architectures.yaml`."""

    architectures: tuple[Architecture, ...]
    tile_lists: tuple[TileList, ...]


@dataclass(frozen=True, eq=False)
class Board:
    """A device as the fp32 models see it: its data sheet with all that they need, its chip's design, and tiles.

    Args:
        name: by which it was asked for.
        bmm_tiles, linear_tiles: output tiles that its library is expected to choose from.
    """

    name: str
    device: devices.Device
    architecture: Architecture
    bmm_tiles: Tiles
    linear_tiles: Tiles

    @property
    def l2_bytes(self) -> float:
        """Last-level cache (bytes)."""
        return self.device.l2_bytes or 0.0

    @property
    def sms(self) -> int:
        """Multiprocessors or compute units (count)."""
        return self.device.sm_count or 0

    @cached_property
    def power_headroom(self) -> float:
        """Power for each FLOP/s that the board grants, relative to the least limited board of the same chip design.

        ((TDP - 20 W) / peak) / ((reference TDP - 20 W) / reference peak).
        """
        own = ((self.device.tdp_w or 0.0) - BOARD_OVERHEAD_W) / (self.device.vector_flop_per_s("fp32") / 1e12)
        reference = (self.architecture.reference_tdp_w - BOARD_OVERHEAD_W) / self.architecture.reference_tflop_per_s
        return own / reference


@cache
def known() -> ArchitectureFile:
    """Every chip design known, and every tile list measured."""
    return read_yaml(ARCHITECTURES, ArchitectureFile)


def _joined(lists: list[Tiles]) -> Tiles:
    return tuple(sorted({tile for tiles in lists for tile in tiles}, key=lambda tile: (-tile[0] * tile[1], tile)))


def tiles_of(architecture: Architecture, seen: frozenset[str] | None = None) -> tuple[Tiles, Tiles]:
    """Tiles that a board of this design is expected to run: those of the closest family of which a GPU was seen, the largest first.

    Returns:
        tiles of batched products and of linear layers; 128 x 128 where no relative was seen.
    """
    for family in architecture.tile_families:
        lists = [entry for entry in known().tile_lists if entry.family == family and (seen is None or entry.device in seen)]
        if lists:
            return _joined([entry.bmm_tiles for entry in lists]), _joined([entry.linear_tiles for entry in lists])
    return DEFAULT_TILES, DEFAULT_TILES


@cache
def with_seen(gpu: Board, seen: frozenset[str]) -> Board:
    """The GPU as somebody knows it who has seen kernels of the GPUs `seen` only."""
    bmm, linear = tiles_of(gpu.architecture, seen)
    return replace(gpu, bmm_tiles=bmm, linear_tiles=linear)


def _architecture(device: devices.Device, lanes: int) -> Architecture:
    same = [a for a in known().architectures if a.name == device.architecture]
    if not same:
        names = ", ".join(sorted({a.name for a in known().architectures}))
        raise InputError(f"{device.name} is of architecture {device.architecture!r}; kernels are predicted for {names}", key="architecture")
    return min(same, key=lambda a: abs(a.lanes_per_sm - lanes))


def from_device(device: devices.Device, name: str | None = None) -> Board:
    """What a predictor uses of a device entry."""
    needed = {
        "l2": device.l2_bytes,
        "sms": device.sm_count,
        "clock": device.clock_hz,
        "tdp": device.tdp_w,
        "lanes_per_sm": device.lanes_per_sm and device.lanes_per_sm.value,
    }
    missing = [key for key, value in needed.items() if not value]
    if missing:
        raise InputError(f"{device.name} lacks {', '.join(missing)}, which a kernel prediction needs", key=missing[0])
    architecture = _architecture(device, int(needed["lanes_per_sm"] or 0))
    return Board(name or device.name, device, architecture, *tiles_of(architecture))


@cache
def load(name: str) -> Board:
    """A GPU by any name of `data/hardware/devices` (the names of NeuSight's tables are among them)."""
    return from_device(devices.load(name), name)
