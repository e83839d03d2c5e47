"""About how long does each instruction take, in one pass over the trace, with nothing simulated cycle by cycle and nothing fitted?

- `reuse`, `branch_history`, `dataflow_limits`: properties of the program alone: reuse distances, predictability, dependences.
- `inputs`: what the first-order core model reads of a trace and a design: hits, forwarding stores, mispredicted branches.
- `model`: the first-order core model: fetch, dispatch, start, completion and retirement of each instruction under a design's limits.
"""
