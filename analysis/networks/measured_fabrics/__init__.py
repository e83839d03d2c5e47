"""All-reduce on real machines: `model` (protocols, floors, links), `fit` to measured times, `freeze` of the fits with a machine left out,

- `model`: How long NCCL's collectives take on real machines:
"""
