"""How long does a training step take, on what machine, and how sure is that? The whole predictor, from a row of a table to its answer.

recipes (how published mixtures are run) and programs (what each does by default)
-> cases (what a row says, and what is assumed) -> work (seconds of each part, from kernels)
-> step (parts put together with a few fitted shares) -> memory (what a GPU must hold)
-> fit (the shares), tpus (the share of the peak of each TPU) and interval (the doubt)
-> answers (the table that comes out) and search (all plans of a model on some GPUs);
config (the YAML files of `train` and `train search`, as rows) -> views (one run as `train` shows it; schedule lays its pipeline out task by
task), sensitivity (how a step moves with shares and hardware);
sources reads the measured runs, study scores them with the judged source left out; gap says how far a measured step is from the sum of
its kernels, and what lies between. fixed_efficiency is a baseline.
"""
