"""When does each instruction retire on an out-of-order core of a given design? Cycle by cycle, after gem5 24.0's O3 core.

- `designs`: a design read from YAML; `program`: what fetch finds at an address and where it lies in physical memory.
- `simulation`: trace and design in, retire cycles and counts out.
- `core`: the cycle loop, on the records of `state`, through the stages in the order of the pipeline: `frontend` (with `predictor`),
  `rename`, `backend` (dispatch, issue, write-back) with `execute` (loads and stores), `commit`.
- `memory`: caches, MSHRs and the bus between them; `dram`: controller and channel.
"""
