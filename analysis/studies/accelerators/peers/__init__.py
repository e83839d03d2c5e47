"""What do other tools answer on the same cases, run for real?

- `environments`: Runs other tools for real, in environments of their own (`mtap.trials.running` makes them):
- `scalesim`: Runs SCALE-Sim on cases of ours and compares its numbers with our model's
- `zigzag`: Runs ZigZag on recorded layers and compares its numbers with the recorded ones and the bounds that our models give
"""
