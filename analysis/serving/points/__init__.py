"""Served points with calibrated constants: a question, its step tables, a closed loop of clients, an interval.

- `answers`: A table of serving points -> answers with 90 % intervals;
- `calibrated`: How long do steps of a served model take, and what comes before the first token, where requests arrive by themselves?
- `cases`: What is asked?
- `closed_loop`: The engine and its clients:
- `constants`: What is fitted:
- `drafts`: What drafts tokens ahead of a served model?
- `operators`: A model under a plan, as calls of the kernel library:
- `points`: Serving points with nothing fitted:
- `power`: How much power does a GPU draw in a step of a served model?
- `request_answers`: Requests as vLLM would serve them, from profiles of the GPU's kernels:
- `request_profile`: How long does a step of a profiled model take?
- `settings`: What was the engine started with?
- `simulation`: What does a simulation's YAML say?
- `step_table`: How long does a step take?
- `traces`: A step of a served model as Chakra traces, one a rank, so that ASTRA-sim (or `replay`) times its collectives on a network;
- `waterfall`: What is one answer made of?
"""
