"""Numbers that stand for the names of collectives, algorithms, topologies and node types inside compiled functions."""

from __future__ import annotations

from functools import partial

from analysis import compiled

inner, outer = partial(compiled.inner, error_model="numpy"), partial(compiled.outer, error_model="numpy")
# the same for functions that allocate nothing: without reference counts they compile in less than half the time
light, light_outer = partial(inner, _nrt=False), partial(outer, _nrt=False)

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL = range(4)
RING, DIRECT, HALVING_DOUBLING, DOUBLE_BINARY_TREE = range(4)
SWITCH, FULLY_CONNECTED = 1, 2  # a ring topology shares the number of the ring algorithm
NODE_SKIP, NODE_COMPUTE, NODE_CPU, NODE_COLLECTIVE, NODE_SEND, NODE_RECEIVE, NODE_BROADCAST = range(7)

COLLECTIVES = {"all_reduce": ALL_REDUCE, "all_gather": ALL_GATHER, "reduce_scatter": REDUCE_SCATTER, "all_to_all": ALL_TO_ALL}
ALGORITHMS = {"ring": RING, "direct": DIRECT, "halvingDoubling": HALVING_DOUBLING, "doubleBinaryTree": DOUBLE_BINARY_TREE}
TOPOLOGIES = {"Ring": RING, "Switch": SWITCH, "FullyConnected": FULLY_CONNECTED}
