"""How long does a matrix product take on a systolic array, and what does it move?

- `files`: SCALE-Sim's own inputs; `array`: cycles and SRAM accesses in closed form; `cases`: the same for the rows of a file.
- `memory`: stalls and DRAM traffic; `scalesim_memory`: what SCALE-Sim's memory model prints, faults included; `multi`: several arrays.
- `cycles`: data really moved through the PEs, and `as_loopnest`: the array as a loop nest; two independent checks of `array`.
"""
