"""Predictions of your own input

- `collectives`: Cycles of the collectives in a file, as ASTRA-sim's analytical network backends count them
- `core`: CPU cores:
- `devices`: Devices:
- `hlo`: Programs (StableHLO, ONNX):
- `kernels`: Latency of GPU kernels:
- `loopnest`: Cycles, energy and every access count of a mapping, by Timeloop's rules
- `map`: The best mapping of a layer on a design, proven over the whole constrained space
- `models`: Models by name, or of a config.json:
- `predict`: One answer with an error bar:
- `replay`: Replay of an execution trace on a network:
- `serve`: LLM serving:
- `systolic`: SCALE-Sim 3.0.0's cycles, utilisation and SRAM counts for a file of matrix products
- `train`: Training steps:
"""
