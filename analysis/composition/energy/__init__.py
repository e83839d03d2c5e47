"""How many joules does a served token take, and how right is that? Published measurements of power -> cases -> work -> joules -> scores.

published (rows of the ML.ENERGY Benchmark as cases of `service`), work (bytes and operations of a step), study (scores by split)
"""
