"""Scores of the basic-block models.

- `freeze`: The basic-block study in full:
- `trial`: Predictors of basic blocks on held-out blocks and on blocks with instructions never seen;
"""
