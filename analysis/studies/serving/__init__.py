"""Studies of serving: agreement with VIDUR, load, capacity, energy, other sources.

- `agreement`: How far is a run of ours from the recorded run of the same requests?
- `batch_study`: How right is the batch predictor on a device that it has never seen?
- `cache`: What does the KV cache hold, and what is lost to blocks, reservations, preemption and prompts computed twice?
- `capacity_search`: How many requests a second may a replica be given under a bound, by scheduler, number of requests and routing?
- `load`: How do schedulers compare as the load grows, for short prompts, long prompts and chat?
- `power`: How much power does a GPU draw for some work?
- `table7`: Is Sarathi faster than vLLM by the margin printed in the survey's Table 7?
- `energy_per_token/`: How many joules does a served token take, and how right is that? Published measurements of power -> cases -> work ...
- `points/`: Fit and scores of the served points
- `sources/`: How far off are served times on a source that calibrated nothing? Other people's runs -> the benchmark's answers -> what ...
"""
