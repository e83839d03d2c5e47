"""What partitioning a program moves.

- `report`: How does a split program compare with an even share of the whole?
- `volumes`: What must devices exchange when a workload of the zoo is split?
"""
