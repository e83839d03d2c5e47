"""Serving of large language models: requests, schedulers, KV cache, step time, event loop.

Where to begin: `requests` and `traffic` make the requests, `limits` says what a replica may hold, `steps` how long a batch takes,
`simulate.simulate(...)` runs them under one of `schedulers.dispatch.SCHEDULERS`, `metrics` reads the result.
"""
