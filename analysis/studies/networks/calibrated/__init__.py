"""Fit and scores of the one time of a collective.

- `fit`: Fits the formula of `form` to measured collectives, and answers for a machine that was left out
- `freeze`: Fits the collectives' formula on all that was measured, and scores it by the split of data/evaluation/collectives_split.yaml
- `series`: What was measured:
"""
