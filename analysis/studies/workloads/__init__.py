"""Workload studies: layers, shipped programs.

- `layers`: What does a network compute, layer by layer, and which layer feeds which?
- `partition/`: What partitioning a program moves
- `zoo/`: Programs of the zoo beside published steps
"""
