"""Fit and scores of the one time of a collective.

- `fit`: Fits the formula of `form` to measured collectives, and answers for a machine that was left out
- `freeze`: Fits the collectives' formula on all that was measured, and scores it by the split of data/evaluation/collectives_split.yaml
- `nine_types`: All-reduce of nine machine types, a type or a GPU count left out of the formula's fit in turn
- `one_collective`: How many cycles does one collective take, when is each NPU done, and how near is that to the bound of bandwidth?
- `series`: What was measured:
- `tables`: Measured NCCL all-reduce times of nine machine types as one tidy table
"""
