"""Reads SCALE-Sim's own inputs: the .cfg of a design and the topology CSV of a network."""

from __future__ import annotations

import configparser
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.accelerators.systolic.array import DATAFLOWS, SCALE_SIM_3, Quirks, convolution_output
from analysis.documents import read_text, whole_number
from analysis.errors import InputError

LONGEST_SIZE = 9  # digits
MOST_CHANNELS = 65_536  # of a depthwise convolution, which becomes a layer for each


@dataclass(frozen=True)
class ScaleSimDesign:
    """A design as SCALE-Sim 3 describes it.

    Args:
        rows, columns: the array (count).
        ifmap_kib, filter_kib, ofmap_kib: SRAMs (KiB).
        dataflow: os, ws or is.
        mode: CALC (as much bandwidth as needed) or USER.
        bandwidth_words_per_cycle: for the outputs in USER mode; None in CALC (words/cycle).
        ifmap_bandwidth, filter_bandwidth: read bandwidths in USER mode, where version 3 takes them from; None if not given (words/cycle).
    """

    name: str
    rows: int
    columns: int
    ifmap_kib: int
    filter_kib: int
    ofmap_kib: int
    dataflow: str
    mode: str
    bandwidth_words_per_cycle: int | None = None
    ifmap_bandwidth: int | None = None
    filter_bandwidth: int | None = None


@dataclass(frozen=True)
class ScaleSimLayer:
    """One row of a topology file, as a convolution and as the product it becomes.

    Args:
        ifmap: height and width with padding (elements).
        window: filter height and width (elements).
        channels, filters: input and output channels (count).
    """

    name: str
    ifmap: tuple[int, int]
    window: tuple[int, int]
    channels: int
    filters: int
    stride: tuple[int, int]

    def product(self, quirks: Quirks = SCALE_SIM_3) -> tuple[int, int, int]:
        """M, N, K of the im2col product: output pixels, filters, window size times channels."""
        height, width = convolution_output(self.ifmap, self.window, self.stride, quirks)
        return int(height * width), self.filters, self.window[0] * self.window[1] * self.channels


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
        value = text(section, key).split(",")[0].strip()
        found = whole_number(value, LONGEST_SIZE)
        if found is None or found < 1:
            raise InputError(f"expected a whole number from 1 to 10^{LONGEST_SIZE}, got {value!r}", path=path, line=line_of(key), key=key)
        return found

    architecture = "architecture_presets"
    dataflow, mode = text(architecture, "Dataflow").lower(), text("run_presets", "InterfaceBandwidth").upper()
    if dataflow not in DATAFLOWS:
        raise InputError(f"expected os, ws or is, got {dataflow!r}", path=path, line=line_of("Dataflow"), key="Dataflow")
    if mode not in ("CALC", "USER"):
        raise InputError(f"expected CALC or USER, got {mode!r}", path=path, line=line_of("InterfaceBandwidth"), key="InterfaceBandwidth")
    user = mode == "USER"

    def port(key: str) -> int | None:
        section = next((name for name in ("layout", architecture) if parser.has_option(name, key)), None)
        return number(section, key) if user and section else None

    return ScaleSimDesign(
        name=text("general", "run_name").strip("\"'"),
        rows=number(architecture, "ArrayHeight"),
        columns=number(architecture, "ArrayWidth"),
        ifmap_kib=number(architecture, "IfmapSramSzkB"),
        filter_kib=number(architecture, "FilterSramSzkB"),
        ofmap_kib=number(architecture, "OfmapSramSzkB"),
        dataflow=dataflow,
        mode=mode,
        bandwidth_words_per_cycle=number(architecture, "Bandwidth") if user else None,
        ifmap_bandwidth=port("IfmapSRAMBankBandwidth"),
        filter_bandwidth=port("FilterSRAMBankBandwidth"),
    )


def read_topology(path: str | Path) -> list[ScaleSimLayer]:
    """Read a topology file, of convolutions (name, ifmap h and w, filter h and w, channels, filters, stride) or products (name, M, N, K).

    The two are told apart by their header: a product file's second to fourth columns are M, N, K. The comma that ends a row may be
    missing; what comes after the last number (a sparsity ratio, a batch size, a remark) is left out. A convolution whose name
    contains DP is depthwise: one layer for each channel.
    """
    rows = read_text(path).splitlines()
    if not rows:
        raise InputError("is empty; expected a header and one layer a row", path=path, line=1)
    header = [field.strip().upper() for field in rows[0].split(",")]
    products = header[1:4] == ["M", "N", "K"]
    needed = (
        ["M", "N", "K"] if products else ["ifmap height", "ifmap width", "filter height", "filter width", "channels", "filters", "stride"]
    )
    layers: list[ScaleSimLayer] = []
    for line, row in enumerate(rows[1:], 2):
        fields = [field.strip() for field in row.split(",")]
        if not any(fields):
            continue
        values = []
        for key, field in zip(needed, fields[1:] + [""] * len(needed), strict=False):
            found = whole_number(field, LONGEST_SIZE)
            if found is None or found < 1:
                raise InputError(f"expected a whole number from 1 to 10^{LONGEST_SIZE}, got {field!r}", path=path, line=line, key=key)
            values.append(found)
        if products:
            m, n, k = values
            layers.append(ScaleSimLayer(fields[0], (m, k), (1, k), 1, n, (1, 1)))
            continue
        height, width, window_h, window_w, channels, filters, stride = values
        if window_h > height or window_w > width:
            raise InputError("the filter is larger than its input", path=path, line=line, key="filter height")
        depthwise = "DP" in fields[0]
        if depthwise and channels > MOST_CHANNELS:
            raise InputError(f"at most {MOST_CHANNELS} channels, a layer each, got {channels}", path=path, line=line, key="channels")
        for channel in range(channels if depthwise else 1):
            name = f"{fields[0]}Channel_{channel}" if depthwise else fields[0]
            layers.append(
                ScaleSimLayer(name, (height, width), (window_h, window_w), 1 if depthwise else channels, filters, (stride, stride))
            )
    if not layers:
        raise InputError("has no layer; expected one a row after the header", path=path, line=1)
    return layers


def cases(topology: str | Path, config: str | Path, quirks: Quirks = SCALE_SIM_3) -> pd.DataFrame:
    """SCALE-Sim's two files as a table of cases: layer, M, N, K, array_rows, array_cols, dataflow.

    Raises:
        InputError: from either file.
    """
    design = read_design(config)
    rows = [(layer.name, *layer.product(quirks), design.rows, design.columns, design.dataflow) for layer in read_topology(topology)]
    return pd.DataFrame(rows, columns=["layer", "M", "N", "K", "array_rows", "array_cols", "dataflow"])
