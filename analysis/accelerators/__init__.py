"""Spatial accelerators: how many cycles and how much energy does a layer take on an array of PEs with a memory hierarchy?

- `loopnest`: one mapping of one layer on one design, by Timeloop's rules. `mapper`: the best mapping, proven.
- `timeloop`: Timeloop's own files as inputs of both.
- `systolic`: systolic arrays by SCALE-Sim's formulas, with SRAM and DRAM traffic.
- `sparse`: formats, gating and skipping. `fusion`: traffic between layers that fusion keeps on chip.
- `in_memory`: a macro that computes inside its memory array.
- `peers`: SCALE-Sim and ZigZag run live, in environments of their own.
"""
