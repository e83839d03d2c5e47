"""Numbers that stand for the names of collectives, algorithms, topologies and node types inside compiled functions."""

from __future__ import annotations

from typing import Any

from numba import njit

# inner functions are called from compiled ones only: without wrappers for Python they compile in half the time
_BARE: dict[str, Any] = {"cache": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_INNER: dict[str, Any] = {**_BARE, "no_cpython_wrapper": True}
inner: Any = njit(**_INNER)
outer: Any = njit(**_BARE)
# the same for functions that allocate nothing: without reference counts they run in less than half the time
light: Any = njit(**{**_INNER, "_nrt": False})
light_outer: Any = njit(**{**_BARE, "_nrt": False})

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = range(4)
RING, DIRECT, HALVING_DOUBLING, DOUBLE_BINARY_TREE = range(4)
SWITCH, FULLY_CONNECTED = 1, 2  # a ring topology shares the number of the ring algorithm
NODE_SKIP, NODE_COMPUTE, NODE_CPU, NODE_COLLECTIVE, NODE_SEND, NODE_RECEIVE, NODE_BROADCAST = range(7)

COLLECTIVES = {"all_reduce": ALL_REDUCE, "all_gather": ALL_GATHER, "reduce_scatter": REDUCE_SCATTER, "all_to_all": ALL_TO_ALL}
ALGORITHMS = {"ring": RING, "direct": DIRECT, "halvingDoubling": HALVING_DOUBLING, "doubleBinaryTree": DOUBLE_BINARY_TREE}
TOPOLOGIES = {"Ring": RING, "Switch": SWITCH, "FullyConnected": FULLY_CONNECTED}
