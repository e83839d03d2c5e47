"""How long do operators take on this machine's CPU, and how noisy was it? The shapes are those of the committed campaign.

- `operators`: What runs one operator of fixed shape, in JAX and in NumPy
- `timing`: How long one call takes, how far repeats spread, what the CPU can do at most, and what machine it is
- `campaign`: The shapes on several devices in turn, each in a process of its own, kept with how noisy it was
"""
