"""What do zeros save?

- `formats`: bits of a sparse tensor in each format; `compute`: energy by gating, cycles by skipping, and what imbalance takes back.
"""
