"""What does Neutrino's integer arithmetic make of the network's predictions? Its program, executed bit for bit on integers.

Symmetric quantisation, zero at zero. A matrix has one step size for each lane; both products of a gate share it, so that one accumulator
takes both. Every rescaling is a multiplication by an integer and a rounding shift to the right, as hardware does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.errors import InputError
from analysis.studies.cores.neutrino.compiler import GATES, Compiled, Network
from analysis.studies.cores.neutrino.machine import Instruction

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

REACH = 8.0
"""Pre-activations and cells beyond this are saturated: sigmoid and tanh are flat there to 3e-4."""

MULTIPLIER_BITS = 15


@dataclass(frozen=True)
class Bits:
    """Widths of the numbers, sign included; Neutrino's are the defaults: eight bits, and 16 for the cell.

    Args:
        features, weights: of inputs and matrices. activations: of vectors between instructions and of table indices.
        cell: of the LSTM's cell.
    """

    features: int = 8
    weights: int = 8
    activations: int = 8
    cell: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            if not 2 <= getattr(self, field.name) <= 24:
                raise InputError(f"expected 2 to 24 bits, got {getattr(self, field.name)}", key=field.name)


def largest(bits: int) -> int:
    """Largest magnitude of a symmetric signed number: 2^(bits - 1) - 1."""
    return (1 << (bits - 1)) - 1


def saturate(values: Integers, bits: int) -> Integers:
    """Values cut off at the largest magnitude of so many bits."""
    return np.clip(values, -largest(bits), largest(bits))


@dataclass(frozen=True)
class Rescale:
    """x -> round(x * factor) with integers: (x * multiplier + half) >> shift.

    Args:
        multiplier, shift: one for each lane, or one for all.
    """

    multiplier: Integers
    shift: Integers

    def __call__(self, values: Integers) -> Integers:
        """Rescaled values, halves rounded up."""
        half = np.left_shift(np.int64(1), self.shift - 1)
        return np.right_shift(values * self.multiplier + half, self.shift)


def rescale(factor: ArrayLike) -> Rescale:
    """The integers nearest to positive factors: factor = multiplier / 2^shift, with a multiplier of 15 bits.

    A factor below 2^-45 makes zero of every number that an accumulator can hold, and becomes zero.

    Raises:
        ValueError: a factor that is not above zero, or too large for a shift to the right.
    """
    factors = np.asarray(factor, float)
    if not np.all(factors > 0):
        raise ValueError("expected factors above zero")
    mantissa, exponent = np.frexp(factors)
    multiplier = np.rint(mantissa * (1 << MULTIPLIER_BITS)).astype(np.int64)
    shift = MULTIPLIER_BITS - exponent.astype(np.int64)
    if np.any(shift < 1):
        raise ValueError("factor out of the shifter's reach")
    return Rescale(np.where(shift > 60, 0, multiplier), np.minimum(shift, 60))


@dataclass(frozen=True)
class Quantised:
    """A network in integers, as Neutrino's memories hold it.

    Args:
        network, bits: sizes and widths.
        tiles: weight tiles by name, shape (rows, columns). biases: by name. rescales: by name.
        tables: sigmoid and tanh, indexed by pre-activation + its largest magnitude.
        feature_step: size of a step of each feature. head_step: of the first head product's lanes; classifier_step: of the logits.
    """

    network: Network
    bits: Bits
    tiles: dict[str, Integers]
    biases: dict[str, Integers]
    rescales: dict[str, Rescale]
    tables: dict[str, Integers]
    feature_step: Floats
    head_step: Floats
    classifier_step: Floats

    def features(self, scaled: Floats) -> Integers:
        """Features as integers, saturated."""
        return saturate(np.rint(scaled / self.feature_step).astype(np.int64), self.bits.features)


def network_of(parameters: Mapping[str, ArrayLike]) -> Network:
    """Sizes read off the parameters' names and shapes (`analysis.studies.cores.learning.lstm.parameter_shapes`).

    Raises:
        InputError: a bidirectional network, which Neutrino's buffers cannot hold.
    """
    if any(name.endswith("_reverse") for name in parameters):
        raise InputError("expected a one-directional network: the backward direction needs a whole window's states", key="bidirectional")
    hidden, inputs = np.shape(parameters["input_proj.weight"])
    layers = sum(name.startswith("rnn.weight_ih_l") for name in parameters)
    return Network(inputs, hidden, layers, np.shape(parameters["cls_fc1.weight"])[0])


def quantise(parameters: Mapping[str, ArrayLike], calibration: Floats, bits: Bits | None = None) -> Quantised:
    """Integers for a network's weights.

    Steps: of a feature, its largest magnitude in the calibration windows over the largest integer (values beyond saturate later); of the
    projection likewise; of a lane of a gate, the larger of its two rows' largest weight x step of their input.

    Args:
        parameters: fp32 arrays by name, as `analysis.studies.cores.learning.lstm` has them.
        calibration: scaled features of windows, shape (n, length, inputs).
    """
    bits = bits or Bits()
    p = {name: np.asarray(value, float) for name, value in parameters.items()}
    network = network_of(p)
    top, unit = largest(bits.weights), 1.0 / largest(bits.activations)
    pre = REACH / largest(bits.activations)
    cell = 2 * REACH / largest(bits.cell)
    tiles, biases, rescales = {}, {}, {}

    def lane_step(*rows: Floats) -> Floats:
        return np.maximum(np.max([np.abs(row).max(axis=1) for row in rows], axis=0), 1e-9) / top

    def tile(name: str, matrix: Floats, step: Floats) -> None:
        tiles[name] = saturate(np.rint(matrix / step[:, None]).astype(np.int64), bits.weights).T.copy()

    flat = calibration.reshape(-1, network.inputs)
    feature_step = np.maximum(np.abs(flat).max(axis=0), 1e-6) / largest(bits.features)
    folded = p["input_proj.weight"] * feature_step
    step = lane_step(folded)
    tile("projection.weight", folded, step)
    biases["projection.bias"] = np.rint(p["input_proj.bias"] / step).astype(np.int64)
    x_step = max(float(np.abs(flat @ p["input_proj.weight"].T + p["input_proj.bias"]).max()), 1e-6) * unit
    rescales["projection.scale"] = rescale(step / x_step)
    for layer in range(network.layers):
        below = x_step if layer == 0 else unit
        for index, gate in enumerate(GATES):
            rows = slice(index * network.hidden, (index + 1) * network.hidden)
            from_below, recurrent = p[f"rnn.weight_ih_l{layer}"][rows] * below, p[f"rnn.weight_hh_l{layer}"][rows] * unit
            step = lane_step(from_below, recurrent)
            tile(f"layer{layer}.{gate}.input", from_below, step)
            tile(f"layer{layer}.{gate}.recurrent", recurrent, step)
            bias = p[f"rnn.bias_ih_l{layer}"][rows] + p[f"rnn.bias_hh_l{layer}"][rows]
            biases[f"layer{layer}.{gate}.bias"] = np.rint(bias / step).astype(np.int64)
            rescales[f"layer{layer}.{gate}.scale"] = rescale(step / pre)
    rescales |= {"cell": rescale(unit), "new": rescale(unit * unit / cell), "output": rescale(unit), "cell.scale": rescale(cell / pre)}
    first = np.concatenate([p["cls_fc1.weight"], p["output_layer_short.weight"], p["output_layer_long.weight"]]) * unit
    head_step = lane_step(first)
    tile("heads.weight", first, head_step)
    bias = np.concatenate([p["cls_fc1.bias"], p["output_layer_short.bias"], p["output_layer_long.bias"]])
    biases["heads.bias"] = np.rint(bias / head_step).astype(np.int64)
    # The classifier's hidden units are at most the sum of their weights, since outputs lie within -1 and 1.
    hidden_step = float((np.abs(p["cls_fc1.weight"]).sum(axis=1) + np.abs(p["cls_fc1.bias"])).max()) * unit
    rescales["heads.scale"] = rescale(head_step / hidden_step)
    second = p["cls_fc2.weight"] * hidden_step
    classifier_step = lane_step(second)
    tile("classifier.weight", second, classifier_step)
    biases["classifier.bias"] = np.rint(p["cls_fc2.bias"] / classifier_step).astype(np.int64)
    inputs = np.arange(-largest(bits.activations), largest(bits.activations) + 1) * pre
    scale = largest(bits.activations)
    tables = {"sigmoid": np.rint(scale / (1 + np.exp(-inputs))).astype(np.int64), "tanh": np.rint(scale * np.tanh(inputs)).astype(np.int64)}
    return Quantised(network, bits, tiles, biases, rescales, tables, feature_step, head_step, classifier_step)


class Tile:
    """Executes a tile's program on integers.

    Every vector has a leading axis of independent runs, which the hardware does one after the other.

    Args:
        model: the integers. runs: how many runs side by side.
    """

    def __init__(self, model: Quantised, runs: int) -> None:
        self.model, self.runs = model, runs
        self.vectors: dict[str, Integers] = {}
        self.weights = {name: tile.astype(float) for name, tile in model.tiles.items()}

    def vector(self, name: str) -> Integers:
        """A vector; zeros before it is written for the first time."""
        if name not in self.vectors:
            self.vectors[name] = np.zeros((self.runs, self.model.network.hidden), np.int64)
        return self.vectors[name]

    def execute(self, instruction: Instruction) -> None:
        """The effect of one instruction on the vectors; staging has none."""
        i, model, bits = instruction, self.model, self.model.bits
        if i.operation == "stage":
            return
        if i.operation == "accumulate":
            # Products of integers in double precision are exact: sums stay below 2^53.
            product = (self.vector(i.sources[0])[:, : i.rows].astype(float) @ self.weights[i.sources[1]]).astype(np.int64)
            self.vectors[i.target] = product if i.first else self.vectors[i.target] + product
            return
        source = self.vector(i.sources[0])
        result: Integers
        if i.operation == "bias":
            result = source + model.biases[i.sources[1]]
        elif i.operation == "quantise":
            result = saturate(model.rescales[i.sources[1]](source), bits.activations)
        elif i.operation in ("sigmoid", "tanh"):
            result = model.tables[i.operation][source + largest(bits.activations)]
        elif i.operation == "multiply":
            reach = bits.activations if i.sources[2] == "output" else bits.cell
            result = saturate(model.rescales[i.sources[2]](source * self.vector(i.sources[1])), reach)
        elif i.operation == "add":
            result = saturate(source + self.vector(i.sources[1]), bits.cell)
        elif i.operation == "relu":
            result = np.maximum(source, 0)
        else:
            result = source
        self.vectors[i.target] = result


@dataclass(frozen=True)
class Predicted:
    """What the heads give for each window's targets: ln(1 + cycles) of both regimes, shape (n, target), and logits (n, target, 2)."""

    short: Floats
    long: Floats
    logits: Floats

    @property
    def target(self) -> Floats:
        """ln(1 + cycles) of the regime held likelier."""
        return np.where(self.logits[..., 1] > self.logits[..., 0], self.long, self.short)


def run_windows(model: Quantised, compiled: Compiled, windows: Floats, left: int, target: int) -> Predicted:
    """Predictions of the integer network for windows.

    Args:
        model: the integers. compiled: the program; its batch decides only which windows run side by side.
        windows: scaled features, shape (n, length, inputs). left, target: first predicted step, and how many.
    """
    count, length, _ = windows.shape
    runs = -(-count // compiled.batch)
    padded = np.zeros((runs * compiled.batch, length, model.network.inputs), np.int64)
    padded[:count] = model.features(windows)
    padded = padded.reshape(runs, compiled.batch, length, -1)
    tile = Tile(model, runs)
    classifier = model.network.classifier
    short, long, logits = (np.zeros((runs, compiled.batch, target, *rest)) for rest in ((), (), (2,)))
    for step in range(length):
        for sequence in range(compiled.batch):
            tile.vectors[f"features.{sequence}"] = padded[:, sequence, step]
        predicted = left <= step < left + target
        for instruction in compiled.step + (compiled.heads if predicted else ()):
            tile.execute(instruction)
        if predicted:
            for sequence in range(compiled.batch):
                values = tile.vectors[f"regressors.{sequence}"] * model.head_step
                short[:, sequence, step - left] = values[:, classifier]
                long[:, sequence, step - left] = values[:, classifier + 1]
                logits[:, sequence, step - left] = tile.vectors[f"logits.{sequence}"] * model.classifier_step
    merged = [array.reshape(-1, *array.shape[2:])[:count] for array in (short, long, logits)]
    return Predicted(*merged)
