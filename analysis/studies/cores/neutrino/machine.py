"""What is Neutrino made of: lanes, buffers, weight port, tiles; and which instructions does a tile execute?

The paper names the lanes and the buffers. Everything else here is a stated choice: see `NeutrinoMachine`.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.errors import InputError

KIB = 1024

VECTOR_OPERATIONS = {
    "accumulate": "accumulator += one row of the staged weights x one element of a vector, row by row: one cycle a row",
    "bias": "accumulator += bias of each lane",
    "quantise": "8-bit vector = saturate(accumulator or 16-bit vector x multiplier of each lane, shifted right, rounded)",
    "sigmoid": "8-bit vector = table[8-bit vector]",
    "tanh": "8-bit vector = table[8-bit vector]",
    "multiply": "vector = saturate(vector x vector, shifted right, rounded)",
    "add": "16-bit vector = saturate(vector + vector)",
    "relu": "8-bit vector = max(8-bit vector, 0)",
    "store": "results of a step leave the tile",
}
"""The vector engine's instructions; all but `accumulate` take one cycle for up to 256 lanes."""

STAGE = "stage"
"""The weight port's only instruction: copy a weight tile from the shared weight memory to a slot of the local weight buffer."""


@dataclass(frozen=True)
class NeutrinoMachine:
    """A Neutrino of some tiles.

    From the paper: 256 INT8 lanes, weight memory and feature memory of 1.25 MiB each, shared by all tiles; in each tile 128 KiB for weights
    and 16 KiB for inputs. Not in the paper, chosen here: the local weight buffer is used as two slots of one 256 x 256 matrix each (double
    buffering); the weight port's width; whether all tiles hear the same port.

    Args:
        lanes: multipliers, and width of every vector operation (count).
        weight_memory, feature_memory: shared (bytes).
        weight_buffer, input_buffer: of each tile (bytes).
        port: weight bytes that the shared weight memory delivers each cycle.
        broadcast: the tiles run in step and take the same weights at once; otherwise they share the port.
        tiles: vector engines (count).
    Source: NeuroScalar, section 4.3.1.
    """

    lanes: int = 256
    weight_memory: int = 1280 * KIB
    feature_memory: int = 1280 * KIB
    weight_buffer: int = 128 * KIB
    input_buffer: int = 16 * KIB
    port: int = 64
    broadcast: bool = True
    tiles: int = 1

    def __post_init__(self) -> None:
        for name in ("lanes", "weight_memory", "feature_memory", "weight_buffer", "input_buffer", "port", "tiles"):
            if getattr(self, name) < 1:
                raise InputError(f"expected at least 1, got {getattr(self, name)}", key=name)
        if self.slots < 2:
            raise InputError(
                f"two slots of {self.lanes} x {self.lanes} bytes do not fit into {self.weight_buffer} bytes", key="weight_buffer"
            )

    @property
    def slots(self) -> int:
        """Whole weight tiles that the local weight buffer holds (count)."""
        return self.weight_buffer // self.lanes**2

    @property
    def port_of_a_tile(self) -> float:
        """Weight bytes a cycle for one tile."""
        return self.port if self.broadcast else self.port / self.tiles


@dataclass(frozen=True)
class Instruction:
    """One instruction of a tile's program.

    Args:
        operation: a key of `VECTOR_OPERATIONS`, or `STAGE`.
        target: vector, accumulator or slot written.
        sources: vectors, accumulators or weight tile read, in order.
        slot: slot of the local weight buffer that is read (accumulate) or written (stage); -1 for the others.
        rows: rows of the weight tile (accumulate), or its bytes (stage).
        columns: lanes in use.
        first: an accumulate that starts from zero.
        part: projection, layer0, ..., heads: for the account of cycles.
    """

    operation: str
    target: str
    sources: tuple[str, ...] = ()
    slot: int = -1
    rows: int = 1
    columns: int = 0
    first: bool = False
    part: str = ""

    @property
    def vector_cycles(self) -> int:
        """Cycles of the vector engine: the rows of an accumulate, otherwise one; none for a stage."""
        return 0 if self.operation == STAGE else self.rows if self.operation == "accumulate" else 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates that do useful work (count)."""
        return self.rows * self.columns if self.operation == "accumulate" else 0
