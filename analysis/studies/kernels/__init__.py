"""Studies of kernel predictors: the survey's formulas, learned models, evaluation of today's kernels.

- `evaluate`: Scores on what was held out, beside the baselines:
- `fit`: Fits the committed parameters:
- `forests`: Sums of regression trees (`kernels.trees`) fitted, scaled and written down
- `law_fits`: The parameters of a kernel's law
- `learned`: The formulas of learned predictors as the surveys print them, from the linear model to attention
- `samples`: A small committed sample of the held-out rows (Apache-2.0, attributed), and the same rows answered with the committed ...
- `splits`: The two splits, written down before the first score, and the cells that are fitted:
- `tiles`: How do the times of a kernel's tiles add up to the kernel's?
- `wave_scaling`: What does a kernel timed on one GPU take on another?
- `wheel`: Kernel timings out of the wheel of `aiconfigurator-core` 0.12.0 (NVIDIA, Apache-2.0):
- `fp32/`: Scores of the fp32 kernel predictors, their baselines and transfer
- `networks/`: How long does a whole network take, from its operators operator by operator?
"""
