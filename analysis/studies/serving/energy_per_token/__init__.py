"""How many joules does a served token take, and how right is that? Published measurements of power -> cases -> work -> joules -> scores.

- `published`: Rows of the ML.ENERGY Benchmark as serving cases:
- `study`: How right are predicted time and joules of a token on rows that nothing was fitted on?
"""
