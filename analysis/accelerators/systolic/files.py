"""Reads SCALE-Sim's own inputs: the .cfg of a design and the topology CSV of a network."""

from __future__ import annotations

import configparser
import re
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.accelerators.systolic.array import DATAFLOWS, SCALE_SIM_3, Quirks, convolution_output
from analysis.documents import read_text, whole_number
from analysis.errors import InputError

LONGEST_SIZE = 9  # digits
_RATIO = re.compile(r"\d+:\d+")
MOST_CHANNELS = 65_536  # of a depthwise convolution, which becomes a layer for each


@dataclass(frozen=True)
class ScaleSimDesign:
    """What counts of a design as SCALE-Sim 3 describes it; `sparse`: the topology's N:M sparsities count."""

    name: str
    rows: int
    columns: int
    dataflow: str
    sparse: bool = False


@dataclass(frozen=True)
class ScaleSimLayer:
    """One row of a topology file, as a convolution and as the product it becomes.

    Args:
        ifmap: height and width with padding (elements).
        window: filter height and width (elements).
        sparsity: N:M, of every M weights along the window N are left; empty: all. batch: inputs that one pass of the weights serves.
    """

    name: str
    ifmap: tuple[int, int]
    window: tuple[int, int]
    channels: int
    filters: int
    stride: tuple[int, int]
    sparsity: str = ""
    batch: int = 1

    def product(self, quirks: Quirks = SCALE_SIM_3) -> tuple[int, int, int]:
        """M, N, K of the im2col product: output pixels of the batch, filters, window size times channels."""
        height, width = convolution_output(self.ifmap, self.window, self.stride, quirks)
        return int(height * width) * self.batch, self.filters, self.window[0] * self.window[1] * self.channels


def sparsity(text: str) -> tuple[int, int] | None:
    """N and M of a structured sparsity N:M (of every M weights along K, N are left); None where the text is none."""
    left, _, of = text.strip().partition(":")
    found = whole_number(left, 6), whole_number(of, 6)
    return (found[0], found[1]) if found[0] and found[1] and 1 <= found[0] <= found[1] else None


def _size(cell: str, path: str | Path, line: int | None, key: str) -> int:
    found = whole_number(cell, LONGEST_SIZE)
    if found is None or found < 1:
        raise InputError(f"expected a whole number from 1 to 10^{LONGEST_SIZE}, got {cell!r}", path=path, line=line, key=key)
    return found


def read_design(path: str | Path) -> ScaleSimDesign:
    """Read a SCALE-Sim 3 configuration file."""
    parser = configparser.ConfigParser(interpolation=None)  # a % is a % and refers to nothing
    content = read_text(path)
    try:
        parser.read_string(content)
    except configparser.Error as error:
        raise InputError(f"not a configuration file: {error.message.splitlines()[0]}", path=path) from None
    lines = content.splitlines()

    def line_of(key: str) -> int | None:
        return next((i for i, line in enumerate(lines, 1) if line.strip().lower().startswith(key.lower())), None)

    def text(section: str, key: str) -> str:
        if not parser.has_option(section, key):
            raise InputError(f"expected in section [{section}]", path=path, key=key)
        return parser.get(section, key).strip()

    def number(section: str, key: str) -> int:
        return _size(text(section, key).split(",")[0].strip(), path, line_of(key), key)

    architecture = "architecture_presets"
    dataflow = text(architecture, "Dataflow").lower()
    if dataflow not in DATAFLOWS:
        raise InputError(f"expected os, ws or is, got {dataflow!r}", path=path, line=line_of("Dataflow"), key="Dataflow")
    sparse = parser.has_option("sparsity", "SparsitySupport") and text("sparsity", "SparsitySupport").lower() == "true"
    if sparse and parser.has_option("sparsity", "OptimizedMapping") and text("sparsity", "OptimizedMapping").lower() == "true":
        drawn = "rows of random sparsity are not modelled; false, with N:M in the topology, is"
        raise InputError(drawn, path=path, line=line_of("OptimizedMapping"), key="OptimizedMapping")

    return ScaleSimDesign(
        name=text("general", "run_name").strip("\"'"),
        rows=number(architecture, "ArrayHeight"),
        columns=number(architecture, "ArrayWidth"),
        dataflow=dataflow,
        sparse=sparse,
    )


@dataclass(frozen=True)
class _Table:
    """Where the cells of a topology stand: places by what they say, and the sign between them."""

    products: bool
    places: dict[str, int]
    separator: str

    @classmethod
    def of(cls, header: str) -> _Table:
        """By the header. The tool reads by place; columns that it does not have (strides, batch) have to be named."""
        separator = "\t" if "," not in header and "\t" in header else ","
        names = ["".join(letter for letter in cell.lower() if letter.isalnum()) for cell in header.split(separator)]
        products = sorted(names[1:4]) == ["k", "m", "n"]
        if products:
            places = {name: names.index(name) for name in "mnk"}
        else:
            places = {name: place for place, name in enumerate(CONVOLUTION, 1)}
            strides = [place for place, name in enumerate(names) if "stride" in name]
            if len(strides) == 2:
                wide = next((place for place in strides if "w" in names[place].replace("row", "")), strides[1])
                places |= {"stride": next(place for place in strides if place != wide), "stride width": wide}
        named = ((key, place) for key in ("sparsity", "batch") for place, name in enumerate(names) if key in name)
        places |= dict(named)
        return cls(products, places, separator)

    def cells(self, row: str) -> list[str]:
        """The cells of a row without its remark."""
        return [cell.strip() for cell in row.partition("#")[0].split(self.separator)]


CONVOLUTION = ("ifmap height", "ifmap width", "filter height", "filter width", "channels", "filters", "stride")


def read_topology(path: str | Path) -> list[ScaleSimLayer]:
    """Read a topology file, of convolutions (name, ifmap h and w, filter h and w, channels, filters, stride) or products (name, M, N, K).

    The two are told apart by their header: a product file's second to fourth columns are M, N, K, in the order that it says. The header may
    name a second stride, a sparsity (N:M, which the tool also reads behind the last number) and a batch size. Cells are separated by commas
    or, where the header has none, by tabs; the comma that ends a row may be missing; what follows a `#` and text behind the last number are
    remarks. A convolution whose name contains DP is depthwise: one layer for each channel.
    """
    rows = [(line, row) for line, row in enumerate(read_text(path).splitlines(), 1) if row.strip() and not row.strip().startswith("#")]
    if not rows:
        raise InputError("is empty; expected a header and one layer a row", path=path, line=1)
    table = _Table.of(rows[0][1])
    layers = [layer for line, row in rows[1:] if any(table.cells(row)) for layer in _layers(table, table.cells(row), path, line)]
    if not layers:
        raise InputError("has no layer; expected one a row after the header", path=path, line=1)
    return layers


def _layers(table: _Table, cells: list[str], path: str | Path, line: int) -> list[ScaleSimLayer]:
    """The layers of one row."""

    def number(key: str) -> int:
        return _size(cells[table.places[key]] if table.places[key] < len(cells) else "", path, line, key)

    def given(key: str) -> bool:
        return table.places.get(key, len(cells)) < len(cells) and cells[table.places[key]] != ""

    ratio = cells[table.places["sparsity"]] if given("sparsity") else ""
    behind = len("mnk" if table.products else CONVOLUTION) + 1
    for place, cell in enumerate(cells[behind:], behind):
        if place in table.places.values():
            continue
        if _RATIO.fullmatch(cell):
            ratio = cell
        elif whole_number(cell) is not None:
            other = "a column that is not read; name it Stride width, Sparsity or Batch Size if it is one"
            raise InputError(f"{cell} stands in {other}", path=path, line=line, key=f"column {place + 1}")
    if ratio and sparsity(ratio) is None:
        raise InputError(f"expected N:M with N of every M weights left, got {ratio!r}", path=path, line=line, key="sparsity")
    batch, name = number("batch") if given("batch") else 1, cells[0]
    if table.products:
        m, n, k = (number(key) for key in "mnk")
        return [ScaleSimLayer(name, (m, k), (1, k), 1, n, (1, 1), ratio, batch)]
    height, width, window_h, window_w, channels, filters, stride = (number(key) for key in CONVOLUTION)
    if window_h > height or window_w > width:
        raise InputError("the filter is larger than its input", path=path, line=line, key="filter height")
    strides = (stride, number("stride width") if given("stride width") else stride)
    if "DP" not in name:
        return [ScaleSimLayer(name, (height, width), (window_h, window_w), channels, filters, strides, ratio, batch)]
    if channels > MOST_CHANNELS:
        raise InputError(f"at most {MOST_CHANNELS} channels, a layer each, got {channels}", path=path, line=line, key="channels")
    return [
        ScaleSimLayer(f"{name}Channel_{channel}", (height, width), (window_h, window_w), 1, filters, strides, ratio, batch)
        for channel in range(channels)
    ]


def cases(topology: str | Path, config: str | Path, quirks: Quirks = SCALE_SIM_3) -> pd.DataFrame:
    """SCALE-Sim's two files as a table of cases: layer, M, N, K, sparsity, array_rows, array_cols, dataflow.

    As in the tool, a sparsity counts where the design supports it.
    """
    design = read_design(config)
    rows = [
        (layer.name, *layer.product(quirks), layer.sparsity if design.sparse else "", design.rows, design.columns, design.dataflow)
        for layer in read_topology(topology)
    ]
    return pd.DataFrame(rows, columns=["layer", "M", "N", "K", "sparsity", "array_rows", "array_cols", "dataflow"])
