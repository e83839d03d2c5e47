"""What does an ONNX file compute, and what does each operator cost?

- `graph`: the nodes of a file to the records of an operator graph, as `hlo.walk` makes them of StableHLO.
- `operators`: operations, bytes and class of each ONNX operator.
- `skim`: a file without its weights, so that a model of gigabytes is read in megabytes.
- `shapes`: types of all tensors, from the sizes of the inputs on; what is known before the run is worked out.
"""
