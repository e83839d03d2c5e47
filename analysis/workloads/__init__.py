"""Workloads: what does a program compute?

- `graph`: the operator graph that every predictor reads.
- `hlo`: StableHLO programs into that graph. `zoo`: named JAX programs lowered to StableHLO. `partition`: programs split over devices.
- `chakra`: execution traces of Chakra, in and out.
- `models`: one description of each language model, by name; `checkpoints`: of a Hugging Face `config.json`; `layers`: networks layer by
  layer, for accelerators.
"""
