"""Workload studies: layers, shipped programs.

- `layers`: What does a network compute, layer by layer, and which layer feeds which?
- `partition/`: What does each device run after a program is split over several, and what does that move?
- `zoo/`: Which named programs are there, without weights, and which published steps do they stand for?
"""
