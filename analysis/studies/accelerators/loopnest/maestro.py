"""What does a mapping look like from the data's side: which part of each dimension sits where, and what is reused?

MAESTRO (Kwon et al., MICRO 2019, section 3) describes a mapping by what each step and each PE holds: `TemporalMap(size, offset) dim`
walks over a dimension in time, `SpatialMap(size, offset) dim` spreads it over PEs, `Cluster(n)` groups PEs for the directives below
it. Here the description is derived from a loop nest; outputs are counted in output coordinates (Y' and X').
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Names of a convolution's loops here and in MAESTRO's files.
MAESTRO_NAMES = {"N": "N", "M": "K", "C": "C", "P": "Y'", "Q": "X'", "R": "R", "S": "S"}
RELEVANT = {"Weights": set("MCRS"), "Inputs": set("NCPQRS"), "Outputs": set("NMPQ")}


@dataclass(frozen=True)
class Loop:
    """One loop of a mapping.

    Args:
        dimension: N, M, C, P, Q, R or S.
        factor: trip count (count).
        spatial: whether its iterations run on different PEs.
    """

    dimension: str
    factor: int
    spatial: bool = False


@dataclass(frozen=True)
class Directive:
    """One line of a data-centric description.

    Args:
        loop: the loop it stands for.
        size: indices of the dimension held at once (count).
        offset: indices between neighbouring steps or PEs (count).
        reuse: tensor to what this directive does with it: moves, stays (temporal), multicast or reduction (spatial).
    """

    loop: Loop
    size: int
    offset: int
    reuse: Mapping[str, str]

    def __str__(self) -> str:
        kind = "SpatialMap" if self.loop.spatial else "TemporalMap"
        return f"{kind}({self.size},{self.offset}) {MAESTRO_NAMES[self.loop.dimension]}"


def directives(loops: Sequence[Loop]) -> list[Directive]:
    """The directives of a loop nest, outermost first.

    A loop over d holds size = product of the factors of d inside it, and moves by as much. A tensor that does not depend on d stays
    where it is under a temporal loop; under a spatial one an operand is multicast and the output is reduced.
    """
    for loop in loops:
        if loop.dimension not in MAESTRO_NAMES or loop.factor < 1:
            raise ValueError(f"expected a factor of at least 1 and one of {', '.join(MAESTRO_NAMES)}, got {loop.dimension} {loop.factor}")
    inside = dict.fromkeys(MAESTRO_NAMES, 1)
    result = []
    for loop in reversed(loops):
        if loop.factor == 1:
            continue
        reuse = {}
        for tensor, relevant in RELEVANT.items():
            if loop.dimension in relevant:
                reuse[tensor] = "moves"
            elif loop.spatial:
                reuse[tensor] = "reduction" if tensor == "Outputs" else "multicast"
            else:
                reuse[tensor] = "stays"
        size = inside[loop.dimension]
        result.append(Directive(loop, size, size, reuse))
        inside[loop.dimension] *= loop.factor
    return result[::-1]


def text(name: str, loops: Sequence[Loop]) -> str:
    """A mapping as MAESTRO would print it, with what each line reuses beside it."""
    lines = directives(loops)
    spatial_left = [i for i, line in enumerate(lines) if line.loop.spatial]
    width = max((len(str(line)) for line in lines), default=0) + 1
    out = [f"Layer {name} {{", "  Dataflow {"]
    for i, line in enumerate(lines):
        if line.loop.spatial and i in spatial_left[1:]:
            pes = 1
            for j in spatial_left[spatial_left.index(i) :]:
                pes *= lines[j].loop.factor
            out.append(f"    Cluster({pes}, P);")
        reused = ", ".join(f"{tensor} {what}" for tensor, what in line.reuse.items() if what != "moves")
        out.append(f"    {str(line) + ';':<{width}}  // x{line.loop.factor}; {reused or 'nothing reused'}")
    return "\n".join([*out, "  }", "}"])


def systolic_loops(layer_bounds: Mapping[str, int], rows: int, columns: int, dataflow: str) -> list[Loop]:
    """The loop nest of a systolic array on a product (rows on P, columns on M, sum on C), folds outermost.

    Args:
        layer_bounds: trip counts of M, P and C (count).
        rows, columns: the array (count).
        dataflow: os, ws or is.
    """
    orders = {"os": ("P", "M", "C"), "ws": ("C", "M", "P"), "is": ("C", "P", "M")}
    if dataflow not in orders:
        raise ValueError(f"unknown dataflow {dataflow!r}, expected one of {', '.join(orders)}")
    down, across, time = orders[dataflow]
    for dimension, edge in ((down, rows), (across, columns)):
        if layer_bounds[dimension] % edge:
            raise ValueError(f"{dimension} = {layer_bounds[dimension]} is not a multiple of {edge}")
    return [
        Loop(across, layer_bounds[across] // columns),
        Loop(down, layer_bounds[down] // rows),
        Loop(time, layer_bounds[time]),
        Loop(down, rows, spatial=True),
        Loop(across, columns, spatial=True),
    ]
