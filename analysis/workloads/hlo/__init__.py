"""What does a StableHLO program compute, and what does each operator cost?

- `reader`: a file in, the operator graph out; it starts `own_process`, a process with limits, where jaxlib parses (`child`), or onnx.
- In that process: `bindings` (the only door to jaxlib's private bindings), `walk` (operations to records), `settle` (what XLA's import
  steps make of an operator), `structure` (calls, loops, branches), `loops` (trip counts), `types` (types and attributes), `work` and
  `cost` (operations and bytes by XLA's conventions).
- `report`: sums over a graph.
"""
