"""Scores of the fp32 kernel predictors, their baselines and transfer.

- `baselines`: What do the peers and baselines answer?
- `comparison`: Which kind of predictor carries over to a GPU that was left out?
- `freeze`: Everything about kernel predictors that needs the measured kernels, as tables to keep:
- `tables`: Tables of the kernel experiments, from predictions made with each device left out:
- `transfer`: From convolutions to transformers:
"""
