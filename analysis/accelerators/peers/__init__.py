"""What do other tools answer on the same cases, run for real?

- `environments`: an environment for each tool, every installation step kept as evidence; `scalesim`, `zigzag`: the two tools.
"""
