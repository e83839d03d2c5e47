"""Systolic arrays beside other models: cycle by cycle, with a memory, as loop nests.

- `as_loopnest`: The same systolic array as a loop nest:
- `cycles`: Does data that really moves through the PEs, cycle by cycle, take as long as the formulas say?
- `memory`: How long does a systolic array wait for its memory, and how much does it fetch from DRAM?
"""
