"""Scores of the fp32 kernel predictors, and transfer.

- `freeze`: Everything about kernel predictors that needs the measured kernels, as tables to keep:
- `tables`: Tables of the kernel experiments, from predictions made with each device left out:
- `transfer`: From convolutions to transformers:
"""
