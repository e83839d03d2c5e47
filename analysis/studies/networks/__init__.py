"""Fits and scores of the calibrated collectives.

- `fit`: Fits the calibrated all-reduce model, and tests it on the machine type or GPU count that was left out
- `freeze`: Refits the calibrated all-reduce model on the measured tables and sums up its leave-one-out errors (what the full tier commits)
- `tables`: Measured NCCL all-reduce times of nine machine types as one tidy table
- `calibrated/`: Fit and scores of the one time of a collective
"""
