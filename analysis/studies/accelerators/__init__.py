"""Studies of spatial accelerators: fusion, processing in memory, sparsity.

- `fusion`: How much of a network's traffic runs between layers, and how much of it does fusion keep on chip?
- `in_memory`: A macro that computes inside its memory array:
- `loopnest/`: Other tools' cost models on the loop nests
- `sparse/`: What do zeros save?
- `systolic/`: Systolic arrays beside other models: cycle by cycle, with a memory, as loop nests
"""
