"""Fits and scores of the calibrated collectives.

- `tables`: Measured NCCL all-reduce times of nine machine types as one tidy table
- `calibrated/`: Fit and scores of the one time of a collective
"""
