"""Other tools' cost models on the loop nests.

- `maestro`: What does a mapping look like from the data's side:
"""
