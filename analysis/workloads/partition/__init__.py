"""What does each device run after a program is split over several?

- `partitioner`: What does each device run after a program is split over several?
- `worker`: The one place that calls XLA's private compiler:
"""
