"""Serving of large language models: requests, schedulers, KV cache, step time, event loop.

Where to begin: `requests` (the record, CSV), `traces` (public ones) and `traffic` (distributions, VIDUR's own draw) make the requests;
`sessions` says which turn of a conversation follows which; `limits` what a replica may hold, `kv_cache` how many tokens its memory is
enough for; `steps` how long a batch takes (tables over tokens, grids, coefficients, from `step_time`); `points.simulation` reads these
from YAML.
`simulate.simulate(...)` runs them under one of `schedulers.names.SCHEDULERS`, `disaggregation.simulate_disaggregated(...)` on two pools;
`metrics`, `tables` and `answer` read the result; `capacity` looks for the largest rate within a bound.
Inside: `state` (records in memory), `memory` (KV blocks), `schedulers/` (one rule a file), `engine` (the compiled loop of independent
replicas), `coupled` (that of replicas and clients that wait for each other), `interpolation`, `heap`.
Apart: `vidur` (its configuration and recorded runs), `batch` (offline batches by the data sheet, as engines of 2024 ran them).
"""
