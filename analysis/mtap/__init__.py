"""MTAP: from evidence to grades to a score, and how much of the result hangs on the weights and on the rubric's wording.

- `trials`: other tools installed live, from nothing to a first prediction.
"""
