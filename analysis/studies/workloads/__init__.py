"""Workload studies: layers, shipped programs.

- `counted`: Megatron's GPT by its sizes, and the arithmetic of a model's passes as its papers count it
- `layers`: What does a network compute, layer by layer, and which layer feeds which?
- `partition/`: What does each device run after a program is split over several, and what does that move?
- `zoo/`: Which named programs are there, without weights, and which published steps do they stand for?
"""
