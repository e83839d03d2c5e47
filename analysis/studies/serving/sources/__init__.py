"""How far off are served times on a source that calibrated nothing? Other people's runs -> the benchmark's answers -> what they tell.

- `freeze`: Score other sources and freeze what they say:
- `rows`: Sources other than the public benchmark as one table:
- `spread`: What are times on a source that calibrated nothing?
"""
