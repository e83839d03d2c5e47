"""What does each device run after a program is split over several?

- `partitioner`: XLA's SPMD partitioner, run by `worker` in a process of its own; `volumes`: the same communication derived by hand;
  `report`: how the split compares with an even share.
"""
