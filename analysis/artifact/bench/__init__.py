"""Target speeds: `report` holds the table of benchmarks and what measures each; `make bench` prints each figure and its target.

- `report`: Target speeds, compared with CPU-seconds measured on this machine:
"""
