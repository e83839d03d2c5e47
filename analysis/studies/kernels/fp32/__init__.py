"""Scores of the fp32 kernel predictors.

- `conformal`: How sure is a prediction for a GPU nobody measured?
- `evaluation`: How far off is a predictor on kernels it has not seen?
- `fitting`: Measured fp32 kernels, and the hybrid predictor fitted to those of one operator group
- `freeze`: Everything about kernel predictors that needs the measured kernels, as tables to keep:
- `selection`: Which settings of the hybrid predictor carry over to a GPU that was left out?
- `tables`: Tables of the kernel experiments, from predictions made with each device left out:
"""
