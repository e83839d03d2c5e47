"""Which plan meets a target at least cost?

- `choice`: The cheapest plan that meets a target, for a table of questions or one;
- `emit`: How is a plan started?
- `front`: What a recommendation is chosen from, to look at:
- `serving`: Every way to serve a model on some GPUs, each with its answer and cost:
- `training`: Every parallel plan of a training run that fits, each with its step and cost:
"""
