"""What does one mapping of one layer cost on one design: cycles, energy, every access count?

- `problem`: the loop nest and its tensors; `layer`: layers from YAML; `architecture`: storage levels and fan-out; `mapping`: which loops
  run where.
- `evaluation`: the answer, also in the words of Timeloop's statistics, with `reuse` (words moved between levels, in closed form).
- `tables`, `lanes`, `fast`: the same counts compiled, an independent second implementation, millions of mappings a minute.
- `maestro`: a mapping seen from the data's side.
"""
