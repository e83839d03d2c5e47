"""What does each device run after a program is split over several, and what does that move?

- `worker`: The one place that calls XLA's private compiler:
- `partitioner`: What does each device run after a program is split over several?
- `report`: How does a split program compare with an even share of the whole?
- `volumes`: What must devices exchange when a workload of the zoo is split?
"""
