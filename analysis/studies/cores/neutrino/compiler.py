"""Which instructions does a tile execute for one time step of the network, on several sequences at once?

Weights are stationary: a weight tile is staged once and used for every sequence of the batch, because an LSTM's next step needs the last
one's result and only different sequences are independent. That is why the batch decides the utilisation.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.errors import InputError
from analysis.studies.cores.neutrino.machine import STAGE, Instruction, NeutrinoMachine

GATES = ("i", "f", "g", "o")


@dataclass(frozen=True)
class Network:
    """Sizes of the one-directional network.

    Args:
        inputs: features of an instruction; hidden: units; layers: stacked; classifier: units of the two-way classifier.
    """

    inputs: int = 13
    hidden: int = 256
    layers: int = 2
    classifier: int = 64

    def __post_init__(self) -> None:
        for name in ("inputs", "hidden", "layers", "classifier"):
            if getattr(self, name) < 1:
                raise InputError(f"expected at least 1, got {getattr(self, name)}", key=name)

    @property
    def head_columns(self) -> int:
        """Columns of the first head product: the classifier's units and the two regressors, side by side."""
        return self.classifier + 2

    def macs(self) -> int:
        """Multiply-accumulates of one instruction: 13 h + 8 L h^2 + (c + 2) h + 2 c."""
        h = self.hidden
        return self.inputs * h + 8 * self.layers * h * h + self.head_columns * h + 2 * self.classifier

    def weight_bytes(self) -> int:
        """One byte a weight, four a bias (one bias for each output: both LSTM biases are added before)."""
        biases = self.hidden + 4 * self.hidden * self.layers + self.head_columns + 2
        return self.macs() + 4 * biases


@dataclass(frozen=True)
class Compiled:
    """A program for one time step.

    Args:
        network, batch: what it computes, for how many sequences.
        step: the instructions of one time step. heads: those after it when the step's instruction is predicted, not only context.
    """

    network: Network
    batch: int
    step: tuple[Instruction, ...]
    heads: tuple[Instruction, ...]


def buffer_bytes(network: Network, batch: int) -> int:
    """Local input buffer that a batch needs (bytes).

    Each sequence keeps, for every layer, its output (one byte a unit) and its cell (two), and while it works its input and four gates (one
    byte each).
    """
    return batch * (network.layers * 3 * network.hidden + 5 * network.hidden)


def largest_batch(network: Network, machine: NeutrinoMachine) -> int:
    """Sequences whose state fits into the local input buffer."""
    return machine.input_buffer // buffer_bytes(network, 1)


class _Emitter:
    def __init__(self, machine: NeutrinoMachine) -> None:
        self.machine = machine
        self.program: list[Instruction] = []
        self.slot = 0

    def product(
        self, part: str, pieces: list[tuple[str, str, int]], columns: int, suffixes: list[str], finish: list[list[Instruction]]
    ) -> None:
        """Sum over pieces of vector x matrix for each sequence, piece by piece; then what finishes each sequence.

        Args:
            pieces: weight tile, vector, rows (at most the lanes); columns: of all pieces; suffixes: of the sequences.
            finish: for each sequence, the vector operations after the last piece.
        """
        for index, (weight, vector, rows) in enumerate(pieces):
            slot, self.slot = self.slot, (self.slot + 1) % self.machine.slots
            self.program.append(Instruction(STAGE, f"slot{slot}", (weight,), slot, rows * columns, columns, part=part))
            self.program += [
                Instruction("accumulate", f"acc{s}", (f"{vector}{s}", weight), slot, rows, columns, first=index == 0, part=part)
                for s in suffixes
            ]
        for operations in finish:
            self.program += operations


def compile_network(network: Network, machine: NeutrinoMachine, batch: int) -> Compiled:
    """The static program of one tile.

    Args:
        network: what to run; machine: on what; batch: sequences that share each staged weight tile.
    Raises:
        InputError: hidden units exceed the lanes, weights exceed the weight memory, or the batch's state the local input buffer.
    """
    if batch < 1:
        raise InputError(f"expected at least 1, got {batch}", key="batch")
    if network.hidden > machine.lanes or network.head_columns > machine.lanes:
        raise InputError(f"{network.hidden} units do not fit {machine.lanes} lanes", key="hidden")
    if network.weight_bytes() > machine.weight_memory:
        raise InputError(f"{network.weight_bytes()} bytes of weights do not fit {machine.weight_memory}", key="weight_memory")
    needed = buffer_bytes(network, batch)
    if needed > machine.input_buffer:
        fits = largest_batch(network, machine)
        raise InputError(f"{batch} sequences need {needed} bytes of the input buffer's {machine.input_buffer}; {fits} fit", key="batch")
    emit = _Emitter(machine)
    suffixes = [f".{index}" for index in range(batch)]
    width = network.hidden

    def one(part: str, operation: str, target: str, *sources: str) -> Instruction:
        return Instruction(operation, target, sources, columns=width, part=part)

    part = "projection"
    finish = [
        [one(part, "bias", f"acc{s}", f"acc{s}", "projection.bias"), one(part, "quantise", f"x{s}", f"acc{s}", "projection.scale")]
        for s in suffixes
    ]
    emit.product(part, [("projection.weight", "features", network.inputs)], width, suffixes, finish)
    for layer in range(network.layers):
        part, below = f"layer{layer}", "x" if layer == 0 else f"h{layer - 1}"
        for gate in GATES:
            kind = "tanh" if gate == "g" else "sigmoid"
            finish = [
                [
                    one(part, "bias", f"acc{s}", f"acc{s}", f"{part}.{gate}.bias"),
                    one(part, "quantise", f"{gate}{s}", f"acc{s}", f"{part}.{gate}.scale"),
                    one(part, kind, f"{gate}{s}", f"{gate}{s}"),
                ]
                for s in suffixes
            ]
            pieces = [(f"{part}.{gate}.input", below, width), (f"{part}.{gate}.recurrent", f"h{layer}", width)]
            emit.product(part, pieces, width, suffixes, finish)
        for s in suffixes:
            c = f"c{layer}{s}"
            emit.program += [
                one(part, "multiply", f"f{s}", f"f{s}", c, "cell"),
                one(part, "multiply", f"i{s}", f"i{s}", f"g{s}", "new"),
                one(part, "add", c, f"f{s}", f"i{s}"),
                one(part, "quantise", f"g{s}", c, "cell.scale"),
                one(part, "tanh", f"g{s}", f"g{s}"),
                one(part, "multiply", f"h{layer}{s}", f"o{s}", f"g{s}", "output"),
            ]
    step = tuple(emit.program)
    emit.program = []
    part, top, columns = "heads", f"h{network.layers - 1}", network.head_columns
    finish = [
        [
            Instruction("bias", f"acc{s}", (f"acc{s}", "heads.bias"), columns=columns, part=part),
            Instruction("store", f"regressors{s}", (f"acc{s}",), columns=2, part=part),
            Instruction("quantise", f"hidden{s}", (f"acc{s}", "heads.scale"), columns=columns, part=part),
            Instruction("relu", f"hidden{s}", (f"hidden{s}",), columns=columns, part=part),
        ]
        for s in suffixes
    ]
    emit.product(part, [("heads.weight", top, width)], columns, suffixes, finish)
    finish = [
        [
            Instruction("bias", f"acc{s}", (f"acc{s}", "classifier.bias"), columns=2, part=part),
            Instruction("store", f"logits{s}", (f"acc{s}",), columns=2, part=part),
        ]
        for s in suffixes
    ]
    emit.product(part, [("classifier.weight", "hidden", network.classifier)], 2, suffixes, finish)
    return Compiled(network, batch, step, tuple(emit.program))
