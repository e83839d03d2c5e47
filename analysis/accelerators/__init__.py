"""Spatial accelerators: how many cycles and how much energy does a layer take on an array of PEs with a memory hierarchy?

- `loopnest/`: What does one mapping of one layer cost on one design: cycles, energy, every access count?
- `mapper/`: Which mapping of a layer on a design is the best, and is that proven?
- `systolic/`: How long does a matrix product take on a systolic array, and what does it move?
- `timeloop/`: How are Timeloop's own input files read?
"""
